//! Reads Unix sockets (sock_diag UNIX_DIAG): their other ends, what they have not served, and those that are full. Needs no privilege.

use nix::sys::socket::SockProtocol;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::network::netlink::{Netlink, u32_at};
use crate::kernel::sys::{SK_MEMINFO_SNDBUF, UNIX_DIAG_MSG_SIZE};
use crate::sample::waits::ServerSocket;
use crate::sample::{Name, Reading};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_AND_DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const SOCK_DGRAM: u8 = 2;
const ALL_STATES: u32 = u32::MAX;
const TCP_ESTABLISHED: u8 = 1;
const TCP_LISTEN: u8 = 10;
const UDIAG_SHOW_NAME: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UDIAG_SHOW_RQLEN: u32 = 16;
const UDIAG_SHOW_MEMINFO: u32 = 32;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_MEMINFO: u16 = 5;
/// Place of SK_MEMINFO_SNDBUF in the attribute, behind its header of four bytes.
const SNDBUF_AT: usize = 4 + SK_MEMINFO_SNDBUF * 4;

/// A socket for dumps of the network namespace of the calling thread.
pub fn open_unix_diag() -> Reading<Netlink> {
    Netlink::open(SockProtocol::NetlinkSockDiag)
}

/// The other ends of these Unix sockets, by one dump.
pub fn dump_unix_peers(wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, u32>> {
    let mut peers = FxHashMap::default();
    dump(&mut open_unix_diag()?, UDIAG_SHOW_PEER, |socket| {
        if let Some(peer) = socket.peer.filter(|_| wanted.contains(&socket.inode)) {
            peers.insert(socket.inode, peer);
        }
    })?;
    Ok(peers)
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPeer {
    pub inode: u32,
    /// The other end opened the connection; of a pair of sockets neither did.
    pub is_client: bool,
}

/// The other ends of those of these Unix sockets that are connections, by one dump.
pub fn dump_stream_peers(netlink: &mut Netlink, wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, StreamPeer>> {
    let mut peers = FxHashMap::default();
    dump(netlink, UDIAG_SHOW_NAME | UDIAG_SHOW_PEER, |socket| {
        if let Some(inode) = socket.peer.filter(|_| socket.kind != SOCK_DGRAM && wanted.contains(&socket.inode)) {
            // The end that accepted it has the name of the listening socket.
            peers.insert(socket.inode, StreamPeer { inode, is_client: socket.has_name });
        }
    })?;
    Ok(peers)
}

/// Stream sockets of servers, by inode: connections with unread data, and listening sockets with an accept queue. A connection has
/// the name of the listening socket at the server's end, and none at the client's. Datagrams have no connection that waits.
pub fn dump_unserved_sockets() -> Reading<FxHashMap<u32, ServerSocket>> {
    let mut unserved = FxHashMap::default();
    dump(&mut open_unix_diag()?, UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN, |socket| {
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

/// A socket that its sender cannot write to, and the figures that show whether the receiver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FullSocket {
    /// The sender's
    pub inode: u32,
    pub are_datagrams: bool,
    /// The receiver's socket; `None` if datagrams are sent without a connection
    pub peer: Option<u32>,
    /// Bytes in the sender's buffer, with their overhead: udiag_wqueue
    pub queued_bytes: u32,
    /// udiag_rqueue of the receiver: unread bytes; of datagrams those of the first one
    pub unread_bytes: u32,
}

/// The sockets whose send buffer is full (more than a quarter of it, as the kernel decides for poll), and those of datagrams whose
/// receiver has an unread one. A dump costs 0.3 µs a socket.
pub fn dump_full_sockets(netlink: &mut Netlink) -> Reading<Vec<FullSocket>> {
    let mut unread: FxHashMap<u32, u32> = FxHashMap::default();
    let mut senders = Vec::new();
    dump(netlink, UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN | UDIAG_SHOW_MEMINFO, |socket| {
        if socket.state != TCP_LISTEN && socket.receive_queue > 0 {
            unread.insert(socket.inode, socket.receive_queue);
        }
        let is_full = socket.queued_bytes.saturating_mul(4) > socket.send_buffer;
        let may_wait = match socket.kind {
            SOCK_DGRAM => socket.peer.is_some() || socket.queued_bytes > 0,
            _ => socket.state == TCP_ESTABLISHED && socket.peer.is_some() && is_full && socket.queued_bytes > 0,
        };
        if may_wait {
            senders.push(socket);
        }
    })?;
    let full = |socket: UnixSocket| {
        let unread_bytes = socket.peer.map_or(Some(0), |peer| unread.get(&peer).copied())?;
        let UnixSocket { kind, inode, peer, queued_bytes, .. } = socket;
        Some(FullSocket { inode, are_datagrams: kind == SOCK_DGRAM, peer, queued_bytes, unread_bytes })
    };
    Ok(senders.into_iter().filter_map(full).collect())
}

/// A listening socket of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixListener {
    pub inode: u32,
    /// A path, `@name` of an abstract one
    pub name: Name,
    /// Connections that are not accepted: udiag_rqueue
    pub accept_queue: u32,
    /// What the program gave listen, udiag_wqueue: the queue is full when it holds one more
    pub backlog: u32,
}

/// The listening sockets whose accept queue is full: a thread that connects to one waits.
pub fn dump_full_listeners(netlink: &mut Netlink) -> Reading<Vec<UnixListener>> {
    let mut listeners = Vec::new();
    dump_messages(netlink, (1 << TCP_LISTEN, UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN), |payload| {
        let is_full = |socket: &UnixSocket| socket.state == TCP_LISTEN && socket.receive_queue > socket.queued_bytes;
        if let (Some(socket), Some(name)) = (parse_unix_socket(payload).filter(is_full), parse_name(payload)) {
            let UnixSocket { inode, receive_queue: accept_queue, queued_bytes: backlog, .. } = socket;
            listeners.push(UnixListener { inode, name, accept_queue, backlog });
        }
    })?;
    Ok(listeners)
}

/// The names of these sockets: a path, `@name` of an abstract one.
pub fn dump_names(netlink: &mut Netlink, wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, Name>> {
    let mut names = FxHashMap::default();
    dump_messages(netlink, (ALL_STATES, UDIAG_SHOW_NAME), |payload| {
        let Some(socket) = parse_unix_socket(payload).filter(|socket| wanted.contains(&socket.inode)) else { return };
        if let Some(name) = parse_name(payload) {
            names.insert(socket.inode, name);
        }
    })?;
    Ok(names)
}

fn parse_name(payload: &[u8]) -> Option<Name> {
    let (_, name) = attributes(payload).find(|&(kind, _)| kind == UNIX_DIAG_NAME)?;
    let bytes = match name.get(4..)?.split_first()? {
        (0, rest) => [b"@", rest].concat(),
        // A path may end with a NUL.
        _ => name.get(4..)?.split(|&byte| byte == 0).next()?.to_vec(),
    };
    Some(Name::from(bytes.as_slice()))
}

/// One message, with the attributes that were requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnixSocket {
    /// udiag_type: SOCK_STREAM …
    kind: u8,
    /// udiag_state, with the values of TCP
    state: u8,
    inode: u32,
    has_name: bool,
    peer: Option<u32>,
    /// udiag_rqueue: unread bytes, of a listening socket the connections that are not accepted; of datagrams the bytes of the first one
    receive_queue: u32,
    /// udiag_wqueue: bytes that the peer has not read, with their overhead; of a listening socket its backlog
    queued_bytes: u32,
    /// SO_SNDBUF
    send_buffer: u32,
}

fn dump(netlink: &mut Netlink, show: u32, mut each: impl FnMut(UnixSocket)) -> Reading<()> {
    dump_messages(netlink, (ALL_STATES, show), |payload| {
        if let Some(socket) = parse_unix_socket(payload) {
            each(socket);
        }
    })
}

/// `states`: a bit for each state of sockets.
fn dump_messages(netlink: &mut Netlink, (states, show): (u32, u32), mut each: impl FnMut(&[u8])) -> Reading<()> {
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_AND_DUMP.to_ne_bytes());
    request.extend([0; 8]); // sequence number, set when it is sent; port
    request.extend([AF_UNIX, 0, 0, 0]);
    request.extend(states.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(show.to_ne_bytes());
    request.extend([0xff; 8]); // no cookie
    netlink.dump(&mut request, |_, payload| each(payload))
}

fn parse_unix_socket(payload: &[u8]) -> Option<UnixSocket> {
    let mut socket =
        UnixSocket { kind: *payload.get(1)?, state: *payload.get(2)?, inode: u32_at(payload, 4)?, ..UnixSocket::default() };
    payload.get(UNIX_DIAG_MSG_SIZE..)?;
    for (kind, attribute) in attributes(payload) {
        match kind {
            UNIX_DIAG_NAME => socket.has_name = attribute.len() > 4,
            UNIX_DIAG_PEER => socket.peer = Some(u32_at(attribute, 4)?),
            UNIX_DIAG_RQLEN => {
                socket.receive_queue = u32_at(attribute, 4)?;
                socket.queued_bytes = u32_at(attribute, 8)?;
            }
            UNIX_DIAG_MEMINFO => socket.send_buffer = u32_at(attribute, SNDBUF_AT)?,
            _ => {}
        }
    }
    Some(socket)
}

/// The kinds of the attributes, and their bytes with the header of four bytes; the last one may be cut.
fn attributes(payload: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = payload.get(UNIX_DIAG_MSG_SIZE..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk::<2>()?)).max(4);
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk::<2>()?);
        let attribute = rest.get(..length.min(rest.len()))?;
        // The last attribute may lack its padding.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, attribute))
    })
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
    fn the_end_that_opened_a_connection_is_its_client() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let server = UnixListener::bind(folder.path().join("socket")).unwrap();
        let client = UnixStream::connect(folder.path().join("socket")).unwrap();
        let accepted = server.accept().unwrap().0;
        let (one, other) = UnixStream::pair().unwrap();
        let number = |stream: &UnixStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
            parse_inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
        };
        let wanted = [&client, &accepted, &one].map(number).into_iter().collect();
        let peers = match open_unix_diag().and_then(|mut socket| dump_stream_peers(&mut socket, &wanted)) {
            Ok(peers) => peers,
            Err(why) => return println!("skipped: this kernel has no UNIX_DIAG ({why})"),
        };
        let of = |stream| peers.get(&number(stream)).copied();
        assert_eq!(of(&client), Some(StreamPeer { inode: number(&accepted), is_client: false }));
        assert_eq!(of(&accepted), Some(StreamPeer { inode: number(&client), is_client: true }));
        assert_eq!(of(&one), Some(StreamPeer { inode: number(&other), is_client: false }));
    }

    #[test]
    fn a_socket_whose_peer_does_not_read_is_full() {
        use std::io::Write;
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        let (mut writable, _reader) = UnixStream::pair().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 4096]).is_ok() {}
        writable.write_all(b"one").unwrap();
        let number = |stream: &UnixStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
            parse_inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
        };
        let full = match open_unix_diag().and_then(|mut socket| dump_full_sockets(&mut socket)) {
            Ok(full) => full,
            Err(why) => return println!("skipped: this kernel has no UNIX_DIAG ({why})"),
        };
        let found = full.iter().find(|socket| socket.inode == number(&sender)).unwrap();
        assert_eq!((found.are_datagrams, found.peer), (false, Some(number(&receiver))));
        assert!(found.unread_bytes >= 4096 && found.queued_bytes > found.unread_bytes);
        assert!(!full.iter().any(|socket| socket.inode == number(&writable)));
    }

    #[test]
    fn names_are_paths_or_abstract() {
        let message = |name: &[u8]| {
            let mut message = vec![1, 1, 1, 0];
            message.extend([0; 12]);
            message.extend(u16::try_from(name.len() + 4).unwrap().to_ne_bytes());
            message.extend(0_u16.to_ne_bytes());
            message.extend(name);
            message
        };
        assert_eq!(parse_name(&message(b"/run/app.sock\0")), Some(Name::from("/run/app.sock")));
        assert_eq!(parse_name(&message(b"\0bus")), Some(Name::from("@bus")));
        assert_eq!(parse_name(&message(b"")), None);
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
        let whole = UnixSocket {
            kind: 1,
            state: 1,
            inode: 5,
            has_name: false,
            peer: Some(6),
            receive_queue: 7,
            ..UnixSocket::default()
        };
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
