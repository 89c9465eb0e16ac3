//! Reads the other ends of Unix sockets (sock_diag UNIX_DIAG).

use nix::sys::socket::SockProtocol;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::network::netlink::Netlink;
use crate::sample::Reading;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_AND_DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// Bytes of struct unix_diag_msg, before the attributes.
const UNIX_DIAG_MSG_SIZE: usize = 16;

/// The other ends of these Unix sockets, by one UNIX_DIAG dump; needs no privilege.
pub fn dump_unix_peers(wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, u32>> {
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_AND_DUMP.to_ne_bytes());
    request.extend([0; 8]); // sequence number, set when it is sent; port
    request.extend([AF_UNIX, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes()); // every state
    request.extend(0_u32.to_ne_bytes());
    request.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    request.extend([0xff; 8]); // no cookie
    let mut peers = FxHashMap::default();
    Netlink::open(SockProtocol::NetlinkSockDiag)?.dump(&mut request, |_, payload| {
        if let Some((socket, peer)) = parse_unix_peer(payload).filter(|(socket, _)| wanted.contains(socket)) {
            peers.insert(socket, peer);
        }
    })?;
    Ok(peers)
}

/// One message: the inodes of the socket and of its peer.
fn parse_unix_peer(payload: &[u8]) -> Option<(u32, u32)> {
    let word = |bytes: &[u8]| bytes.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
    let socket = word(payload.get(4..)?)?;
    let mut rest = payload.get(UNIX_DIAG_MSG_SIZE..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk::<2>()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk::<2>()?);
        if kind == UNIX_DIAG_PEER {
            return Some((socket, word(rest.get(4..)?)?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixStream;

    use super::super::ipc_peers::parse_inode;
    use super::*;

    #[test]
    fn the_kernel_names_the_other_end_of_a_socket() {
        let (one, other) = UnixStream::pair().unwrap();
        let number = |stream: &UnixStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
            parse_inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
        };
        match dump_unix_peers(&FxHashSet::from_iter([number(&one)])) {
            Ok(peers) => assert_eq!(peers, FxHashMap::from_iter([(number(&one), number(&other))])),
            Err(why) => println!("skipped: this kernel has no UNIX_DIAG ({why})"),
        }
    }

    #[test]
    fn a_message_that_is_cut_is_no_peer() {
        let mut message = vec![1, 1, 1, 0];
        message.extend(5_u32.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([8, 0, 2, 0]);
        message.extend(6_u32.to_ne_bytes());
        assert_eq!(parse_unix_peer(&message), Some((5, 6)));
        for length in 0..message.len() {
            assert_eq!(parse_unix_peer(&message[..length]), None);
        }
    }
}
