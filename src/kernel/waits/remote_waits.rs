//! Finds threads that wait for an answer from a remote host, by inference.
//!
//! A thread asleep in a receive call may have sent a request, or wait for one. Its TCP connection shows which: it waits for an answer if
//! this host opened the connection (no socket listens at its local port) and has received nothing since it last sent. Servers (others
//! opened the connection) and subscribers (they received last) do not count, nor do threads in read(2), which may read a terminal, and in
//! poll. Only active threads are examined, and only while this host has few sockets.

use std::net::SocketAddr;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6};
use netlink_packet_sock_diag::inet::{ExtensionFlags, SocketId, StateFlags};
use nix::sys::socket::SockProtocol;
use rustc_hash::{FxHashMap, FxHashSet};

use super::IpcThread;
use super::ipc_peers::receiving_socket;
use crate::ids::TaskId;
use crate::kernel::fields::{lines, parse_u64, words};
use crate::kernel::network::inet_diag;
use crate::kernel::network::netlink::Netlink;
use crate::kernel::network::remote_hosts::{Connection, parse_connection};
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::waits::{WaitQueue, WaitQueueKind, Waits};
use crate::sample::{Name, Reading};

/// Threads examined an interval.
const MAX_THREADS: usize = 64;
/// With more sockets none is examined: a dump costs 1.3 µs a socket.
const MAX_SOCKETS: u64 = 2000;
/// Only threads that were seen asleep in a socket in this share of the sub-samples are examined. A limit on cost, not a judgement: a dump
/// for each thread that slept for a moment would cost more than all else.
const MIN_EXAMINED_SHARE: f64 = 0.5;

/// Adds a queue of kind `Remote` to each group whose threads wait for an answer.
pub(super) fn trace_remote_waits(waits: &mut Waits, threads: &[IpcThread], root: &Root, files: &mut TaskFiles, machine: &[u8]) {
    let waiters = socket_waiters(threads, waits.sub_samples.len());
    if waiters.is_empty() || !has_few_sockets(root) || !root.is_host() {
        return;
    }
    let receivers: Vec<(&SocketWaiter, u32)> =
        waiters.iter().filter_map(|waiter| Some((waiter, receiving_socket(waiter.task, files, machine)?))).collect();
    let wanted: FxHashSet<u32> = receivers.iter().map(|&(_, inode)| inode).collect();
    if wanted.is_empty() {
        return;
    }
    let Ok(answering) = awaited_remotes(&wanted) else { return };
    let waiting = receivers.into_iter().filter_map(|(waiter, inode)| Some((waiter, *answering.get(&inode)?)));
    waits.wait_queues.extend(remote_queues(waiting));
    waits.wait_queues.sort_by_key(|queue| (queue.group, queue.kind));
}

struct SocketWaiter {
    task: TaskId,
    group: u16,
    seen_count: u32,
}

/// The threads that are examined.
fn socket_waiters(threads: &[IpcThread], sub_samples: usize) -> Vec<SocketWaiter> {
    let least = (sub_samples as f64 * MIN_EXAMINED_SHARE).max(1.0);
    let examined = threads.iter().filter(|thread| f64::from(thread.socket_count) >= least).take(MAX_THREADS);
    let waiter = |&IpcThread { task, group, socket_count, .. }: &IpcThread| SocketWaiter {
        task,
        group,
        seen_count: u32::from(socket_count),
    };
    examined.map(waiter).collect()
}

/// Whether this host has few TCP sockets: `TCP: inuse 12 orphan 0 …` of /proc/net/sockstat, and sockstat6.
fn has_few_sockets(root: &Root) -> bool {
    let count = |file: &str, word: &[u8]| {
        let text = root.read_once(file).ok()?;
        let line = lines(&text).find_map(|line| line.strip_prefix(word))?;
        words(line).nth(1).and_then(parse_u64)
    };
    let six = count("proc/net/sockstat6", b"TCP6:").unwrap_or(0);
    count("proc/net/sockstat", b"TCP:").is_some_and(|four| four.saturating_add(six) <= MAX_SOCKETS)
}

/// Of these sockets, those on which an answer is awaited, with the remote address.
fn awaited_remotes(wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, SocketAddr>> {
    let mut netlink = Netlink::open(SockProtocol::NetlinkSockDiag)?;
    let (mut served, mut found) = (FxHashSet::default(), Vec::new());
    for (family, id) in [(AF_INET, SocketId::new_v4 as fn() -> SocketId), (AF_INET6, SocketId::new_v6)] {
        let mut request = inet_diag::request(
            family,
            id(),
            NLM_F_REQUEST | NLM_F_DUMP,
            ExtensionFlags::INFO,
            StateFlags::LISTEN | StateFlags::ESTABLISHED,
        );
        netlink.dump(&mut request, |kind, payload| {
            let Some(socket) = parse_connection(kind, payload) else { return };
            if socket.ports.1 == 0 {
                served.insert(socket.ports.0);
            } else if wanted.contains(&socket.inode) {
                found.push(socket);
            }
        })?;
    }
    let owing = found.into_iter().filter(|socket| awaits_answer(socket, &served));
    Ok(owing.map(|socket| (socket.inode, SocketAddr::new(socket.remote_address, socket.ports.1))).collect())
}

/// This host opened the connection and sent last. A client that asks again as soon as it is answered does both in one tick; one that was
/// answered within a tick and asks no more is not active.
fn awaits_answer(socket: &Connection, served: &FxHashSet<u16>) -> bool {
    let asked = socket.tcp_info.last_data_sent_ms <= socket.tcp_info.last_data_received_ms;
    !served.contains(&socket.ports.0) && asked
}

/// One queue a group: the remote host that most of its threads wait for.
fn remote_queues<'a>(waiting: impl Iterator<Item = (&'a SocketWaiter, SocketAddr)>) -> Vec<WaitQueue> {
    let mut groups: FxHashMap<u16, FxHashMap<SocketAddr, u32>> = FxHashMap::default();
    for (waiter, remote) in waiting {
        let times = groups.entry(waiter.group).or_default().entry(remote).or_default();
        *times = times.saturating_add(waiter.seen_count);
    }
    let queue = |(group, remotes): (u16, FxHashMap<SocketAddr, u32>)| {
        let times = remotes.values().fold(0, |sum: u32, times| sum.saturating_add(*times));
        let (remote, most) = remotes.into_iter().max_by_key(|&(remote, times)| (times, remote))?;
        let file = Some(Name::from(remote.to_string().as_str()));
        Some(WaitQueue {
            group,
            kind: WaitQueueKind::Remote,
            seen_count: times,
            seen_at_one_address: most,
            wchan: None,
            file,
            holder: None,
        })
    };
    groups.into_iter().filter_map(queue).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    fn socket(stream: &TcpStream) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn who_has_asked_waits_and_who_serves_or_has_heard_does_not() {
        if TcpListener::bind("127.0.0.1:0").and_then(|here| TcpStream::connect(here.local_addr()?)).is_err() {
            return println!("skipped: no loopback interface is up here");
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let (mut client, mut idle) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
        let (mut asked, mut pushed) = (server.accept().unwrap().0, server.accept().unwrap().0);
        let mut byte = [0];
        // Both had an answer; one asks again later, the other receives something it did not ask for.
        for (client, server) in [(&mut client, &mut asked), (&mut idle, &mut pushed)] {
            client.write_all(b"?").unwrap();
            server.read_exact(&mut byte).unwrap();
            server.write_all(b"!").unwrap();
            client.read_exact(&mut byte).unwrap();
        }
        let wanted = FxHashSet::from_iter([&client, &idle, &asked, &pushed].map(socket));
        let owing = || awaited_remotes(&wanted);
        let mut found = owing();
        if let Err(why) = found {
            return println!("skipped: this kernel has no INET_DIAG ({why:?})");
        }
        // The kernel counts milliseconds by its tick: repeated until they differ.
        for _ in 0..1000 {
            client.write_all(b"?").unwrap();
            pushed.write_all(b"!").unwrap();
            found = owing();
            if found.as_ref().is_ok_and(|found| found.contains_key(&socket(&client)) && !found.contains_key(&socket(&idle))) {
                break;
            }
        }
        assert_eq!(found, Ok(FxHashMap::from_iter([(socket(&client), address)])));
    }

    #[test]
    fn one_queue_a_group_of_the_host_that_most_wait_for() {
        let task = |tid| TaskId { pid: 1, tid, start_ticks: 1 };
        let thread = |tid, socket_count| IpcThread { group: 0, task: task(tid), socket_count, beside_storage: false };
        let found = socket_waiters(&[thread(1, 10), thread(2, 10), thread(3, 1)], 10);
        assert_eq!(found.iter().map(|waiter| (waiter.task.tid, waiter.seen_count)).collect::<Vec<_>>(), [(1, 10), (2, 10)]);
        let (one, other) = ("10.0.0.5:5432".parse().unwrap(), "10.0.0.6:80".parse().unwrap());
        let extra = SocketWaiter { task: task(4), group: 0, seen_count: 6 };
        let list = remote_queues([(&found[0], one), (&found[1], one), (&extra, other)].into_iter());
        let short: Vec<_> =
            list.iter().map(|queue| (queue.seen_count, queue.seen_at_one_address, queue.file.clone())).collect();
        assert_eq!(short, [(26, 20, Some("10.0.0.5:5432".into()))]);
    }
}
