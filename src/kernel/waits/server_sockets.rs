//! Reads the sockets on which a server with blocked threads has not served a request: unread or unanswered data of connections, and
//! connections in accept queues.
//!
//! Only of processes whose threads were seen blocked for much of the interval, and only while there are few sockets. The descriptors of
//! a process are read only if some socket is unserved. `interval::server_connections` decides which connections wait.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ipc_peers::parse_inode;
use super::remote_waits::{has_few_sockets, tcp_sockets};
use super::tcp_files::parse_tcp_file;
use super::unix_sockets::dump_unserved_sockets;
use crate::kernel::fields::parse_u32;
use crate::kernel::network::remote_hosts::Connection;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::waits::{ServerSocket, Waits};

/// Bounds of an interval: processes examined, descriptors read of all of them, and sockets kept.
const MAX_PROCESSES: usize = 16;
const MAX_DESCRIPTORS: usize = 4096;
const MAX_SERVER_SOCKETS: usize = 1024;
/// A process is examined if its threads were seen blocked in this share of the sub-samples. A limit on cost, not a judgement.
const MIN_EXAMINED_SHARE: f64 = 0.4;

/// Adds the unserved sockets of processes with blocked threads.
pub(super) fn read_server_sockets(waits: &mut Waits, root: &Root, files: &mut TaskFiles) {
    let processes = blocked_processes(waits);
    if processes.is_empty() || !root.is_host() {
        return;
    }
    // By network namespace; `None` is that of this process.
    let mut namespaces: FxHashMap<Option<PathBuf>, FxHashMap<u32, ServerSocket>> = FxHashMap::default();
    let own = root.read_link("proc/self/ns/net").ok();
    let mut left = MAX_DESCRIPTORS;
    for (pid, group) in processes {
        let theirs = root.read_link(format!("proc/{pid}/ns/net")).ok().filter(|theirs| own.as_ref() != Some(theirs));
        let is_other = theirs.is_some();
        let unserved = namespaces.entry(theirs).or_insert_with(|| match is_other {
            true => read_other_namespace(root, pid),
            false => read_own_namespace(root),
        });
        if unserved.is_empty() {
            continue;
        }
        let Ok(descriptors) = root.list_directory(format!("proc/{pid}/fd")) else { continue };
        let Some(rest) = left.checked_sub(descriptors.len()) else { continue };
        left = rest;
        for descriptor in descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())) {
            let Ok(target) = files.read_link(format_args!("{pid}/fd/{descriptor}")) else { continue };
            let Some(inode) = parse_inode(target.as_bytes(), b"socket:[") else { continue };
            // Processes that share a socket have it once.
            let Some(socket) = unserved.remove(&inode) else { continue };
            waits.server_sockets.push(ServerSocket { group, pid, ..socket });
        }
    }
    waits.server_sockets.sort_unstable();
    waits.server_sockets.truncate(MAX_SERVER_SOCKETS);
}

/// The processes that are examined, with their group; those blocked most first.
fn blocked_processes(waits: &Waits) -> Vec<(u32, u16)> {
    let mut processes: FxHashMap<(u32, u16), u32> = FxHashMap::default();
    for wait in &waits.blocked {
        let seen_count = processes.entry((wait.task.pid, wait.group)).or_default();
        *seen_count = seen_count.saturating_add(u32::from(wait.seen_count));
    }
    let least = (waits.sub_samples.len() as f64 * MIN_EXAMINED_SHARE).max(1.0);
    processes.retain(|_, seen_count| f64::from(*seen_count) >= least);
    let mut list: Vec<((u32, u16), u32)> = processes.into_iter().collect();
    list.sort_unstable_by_key(|&(process, seen_count)| (std::cmp::Reverse(seen_count), process));
    list.into_iter().map(|(process, _)| process).take(MAX_PROCESSES).collect()
}

/// The unserved sockets of this process's network namespace, by inode.
fn read_own_namespace(root: &Root) -> FxHashMap<u32, ServerSocket> {
    let mut unserved = FxHashMap::default();
    if has_few_sockets(root, "proc/net") {
        let sockets = tcp_sockets(is_unserved).unwrap_or_default();
        let served = sockets.into_iter().filter(|(_, (_, local_port_listens))| *local_port_listens);
        unserved.extend(served.map(|(inode, (socket, _))| (inode, tcp_socket(&socket))));
    }
    unserved.extend(dump_unserved_sockets().unwrap_or_default());
    unserved
}

/// The same of another namespace, without the times of tcp_info and without Unix sockets, which /proc does not show.
fn read_other_namespace(root: &Root, pid: u32) -> FxHashMap<u32, ServerSocket> {
    if !has_few_sockets(root, &format!("proc/{pid}/net")) {
        return FxHashMap::default();
    }
    let mut listening = FxHashSet::default();
    let mut found = Vec::new();
    for name in ["tcp", "tcp6"] {
        if let Ok(text) = root.read_once(format!("proc/{pid}/net/{name}")) {
            found.extend(parse_tcp_file(&text, &mut listening));
        }
    }
    found.retain(|(_, socket)| socket.local_port.is_some_and(|port| listening.contains(&port)));
    found.into_iter().collect()
}

fn is_unserved(socket: &Connection) -> bool {
    let info = &socket.tcp_info;
    let may_be_unanswered = !socket.is_listening() && info.last_data_received_ms <= info.last_data_sent_ms;
    socket.unread_bytes > 0 || may_be_unanswered
}

fn tcp_socket(socket: &Connection) -> ServerSocket {
    let listens = socket.is_listening();
    let info = &socket.tcp_info;
    let of_connection = |value: u32| (!listens).then_some(value);
    ServerSocket {
        local_port: Some(socket.ports.0),
        // Of a listening socket idiag_rqueue is the length of its accept queue.
        accept_queue: if listens { socket.unread_bytes } else { 0 },
        unread_bytes: if listens { 0 } else { socket.unread_bytes },
        last_data_sent_ms: of_connection(info.last_data_sent_ms),
        last_data_received_ms: of_connection(info.last_data_received_ms),
        data_segments_in: info.data_segments_in.filter(|_| !listens),
        data_segments_out: info.data_segments_out.filter(|_| !listens),
        ..ServerSocket::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn inode(descriptor: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        parse_inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
    }

    #[test]
    fn unread_requests_and_accept_queues_of_this_namespace_are_found() {
        let Ok(listener) = TcpListener::bind("127.0.0.1:0") else { return println!("skipped: no loopback interface") };
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let server = listener.accept().unwrap().0;
        client.write_all(b"request").unwrap();
        let _not_accepted = TcpStream::connect(address).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let unix_listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let mut unix_client = UnixStream::connect(folder.path().join("socket")).unwrap();
        let unix_server = unix_listener.accept().unwrap().0;
        unix_client.write_all(b"request").unwrap();
        let _not_accepted = UnixStream::connect(folder.path().join("socket")).unwrap();

        let own = read_own_namespace(&Root::host());
        if own.is_empty() {
            return println!("skipped: this kernel has no sock_diag");
        }
        let port = Some(address.port());
        let unread = own.get(&inode(&server)).unwrap();
        assert_eq!((unread.local_port, unread.unread_bytes, unread.accept_queue), (port, 7, 0));
        assert!(unread.last_data_received_ms.is_some());
        let queue = own.get(&inode(&listener)).unwrap();
        assert_eq!((queue.local_port, queue.unread_bytes, queue.accept_queue), (port, 0, 1));
        assert!(!own.contains_key(&inode(&client)), "no socket listens at its port");
        let unread = own.get(&inode(&unix_server)).unwrap();
        assert_eq!((unread.local_port, unread.unread_bytes), (None, 7));
        assert_eq!(own.get(&inode(&unix_listener)).unwrap().accept_queue, 1);

        let other = read_other_namespace(&Root::host(), std::process::id());
        assert_eq!(other.get(&inode(&server)).map(|socket| (socket.local_port, socket.unread_bytes)), Some((port, 7)));
        assert_eq!(other.get(&inode(&listener)).map(|socket| socket.accept_queue), Some(1));
    }
}
