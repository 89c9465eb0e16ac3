//! Reads Unix sockets (sock_diag UNIX_DIAG): their other ends, and what they have not served. Needs no privilege.

use nix::sys::socket::SockProtocol;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::network::netlink::{Netlink, u32_at};
use crate::sample::Reading;
use crate::sample::waits::ServerSocket;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_AND_DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const SOCK_DGRAM: u8 = 2;
const TCP_LISTEN: u8 = 10;
const UDIAG_SHOW_NAME: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UDIAG_SHOW_RQLEN: u32 = 16;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_RQLEN: u16 = 4;
/// Bytes of struct unix_diag_msg, before the attributes.
const UNIX_DIAG_MSG_SIZE: usize = 16;

/// The other ends of these Unix sockets, by one dump.
pub fn dump_unix_peers(wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, u32>> {
    let mut peers = FxHashMap::default();
    dump(UDIAG_SHOW_PEER, |socket| {
        if let Some(peer) = socket.peer.filter(|_| wanted.contains(&socket.inode)) {
            peers.insert(socket.inode, peer);
        }
    })?;
    Ok(peers)
}

/// Stream sockets of servers, by inode: connections with unread data, and listening sockets with an accept queue. A connection has
/// the name of the listening socket at the server's end, and none at the client's. Datagrams have no connection that waits.
pub fn dump_unserved_sockets() -> Reading<FxHashMap<u32, ServerSocket>> {
    let mut unserved = FxHashMap::default();
    dump(UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN, |socket| {
        if socket.kind == SOCK_DGRAM || !socket.has_name || socket.receive_queue == 0 {
            return;
        }
        let queue = socket.receive_queue;
        let server = match socket.state {
            TCP_LISTEN => ServerSocket { accept_queue: queue, ..ServerSocket::default() },
            _ => ServerSocket { unread_bytes: queue, ..ServerSocket::default() },
        };
        unserved.insert(socket.inode, server);
    })?;
    Ok(unserved)
}

/// One message, with the attributes that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnixSocket {
    /// udiag_type: SOCK_STREAM …
    kind: u8,
    /// udiag_state, with the values of TCP
    state: u8,
    inode: u32,
    has_name: bool,
    peer: Option<u32>,
    /// udiag_rqueue: unread bytes, of a listening socket the connections that are not accepted
    receive_queue: u32,
}

fn dump(show: u32, mut each: impl FnMut(UnixSocket)) -> Reading<()> {
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_AND_DUMP.to_ne_bytes());
    request.extend([0; 8]); // sequence number, set when it is sent; port
    request.extend([AF_UNIX, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes()); // every state
    request.extend(0_u32.to_ne_bytes());
    request.extend(show.to_ne_bytes());
    request.extend([0xff; 8]); // no cookie
    Netlink::open(SockProtocol::NetlinkSockDiag)?.dump(&mut request, |_, payload| {
        if let Some(socket) = parse_unix_socket(payload) {
            each(socket);
        }
    })
}

fn parse_unix_socket(payload: &[u8]) -> Option<UnixSocket> {
    let mut socket =
        UnixSocket { kind: *payload.get(1)?, state: *payload.get(2)?, inode: u32_at(payload, 4)?, ..UnixSocket::default() };
    let mut rest = payload.get(UNIX_DIAG_MSG_SIZE..)?;
    while let Some(length) = rest.first_chunk::<2>().map(|length| usize::from(u16::from_ne_bytes(*length))) {
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk::<2>()?);
        match kind {
            UNIX_DIAG_NAME => socket.has_name = length > 4,
            UNIX_DIAG_PEER => socket.peer = Some(u32_at(rest, 4)?),
            UNIX_DIAG_RQLEN => socket.receive_queue = u32_at(rest, 4)?,
            _ => {}
        }
        // The last attribute may lack its padding.
        rest = rest.get(length.max(4).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
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
    fn a_message_that_is_cut_has_no_more_than_was_sent() {
        let mut message = vec![1, 1, 1, 0];
        message.extend(5_u32.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([8, 0, 2, 0]);
        message.extend(6_u32.to_ne_bytes());
        message.extend([12, 0, 4, 0]);
        message.extend([7_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
        let whole = UnixSocket { kind: 1, state: 1, inode: 5, has_name: false, peer: Some(6), receive_queue: 7 };
        assert_eq!(parse_unix_socket(&message), Some(whole));
        for length in 0..message.len() {
            let cut = parse_unix_socket(&message[..length]);
            assert!(
                cut.is_none_or(|cut| [None, Some(6)].contains(&cut.peer) && [0, 7].contains(&cut.receive_queue)),
                "{length}"
            );
        }
    }
}
