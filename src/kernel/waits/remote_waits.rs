//! Reads the TCP connections of threads that sleep in a receive call, by sock_diag.
//!
//! Such a thread may have sent a request, or wait for one: `interval::remote_waits` decides which. Only active threads are read, only
//! those in recv and similar calls (read(2) may read a terminal), and only while this host has few sockets. Owners of locks are read
//! however long they have slept, and in poll for few descriptors, too: clients with a timeout poll.

use std::collections::BTreeMap;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6};
use netlink_packet_sock_diag::inet::{ExtensionFlags, SocketId, StateFlags};
use nix::sys::socket::SockProtocol;
use rustc_hash::{FxHashMap, FxHashSet};

use super::IpcThread;
use super::ipc_peers::receiving_socket;
use super::owner_namespaces::OwnerNamespaces;
use crate::ids::TaskId;
use crate::kernel::fields::{lines, parse_u64, words};
use crate::kernel::network::inet_diag;
use crate::kernel::network::netlink::Netlink;
use crate::kernel::network::remote_hosts::{Connection, parse_connection};
use crate::kernel::network::sleeping_threads::sockets_to_read;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Reading;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, SocketWaiter, WaitClass, Waits, class};
use crate::units::SmallSort;

/// Threads examined an interval.
const MAX_THREADS: usize = 64;
/// Owners of locks among them.
const MAX_OWNERS: usize = 8;
/// With more sockets none is examined: a dump costs 1.3 µs a socket.
const MAX_SOCKETS: u64 = 2000;
/// Only threads that were seen asleep in a socket in this share of the sub-samples are examined. A limit on cost, not a judgement: a dump
/// for each thread that slept for a moment would cost more than all else.
pub(super) const MIN_EXAMINED_SHARE: f64 = 0.5;

/// Adds the threads that were asleep in a socket with the connection that they receive from.
pub(super) fn read_connections(waits: &mut Waits, threads: &[IpcThread], root: &Root, files: &mut TaskFiles, machine: &[u8]) {
    let owners = sleeping_lock_owners(waits);
    let mut sleepers = long_sleepers(threads, waits.sub_samples.len()).peekable();
    if (sleepers.peek().is_none() && owners.is_empty()) || !has_few_sockets(root, "proc/net") || !root.is_host() {
        return;
    }
    let is_owner = |task: TaskId| owners.iter().any(|&(owner, _)| owner == task);
    let sleepers = sleepers.filter(|thread| !is_owner(thread.task)).map(|thread| (thread.task, thread.group));
    let mut receivers: Vec<Receiver> =
        sleepers.filter_map(|(task, group)| Some((task, group, receiving_socket(task, files, machine)?))).collect();
    for &(task, group) in &owners {
        receivers.extend(sockets_to_read(task, files, machine).into_iter().map(|inode| (task, group, inode)));
    }
    let wanted = inodes(&receivers);
    if wanted.is_empty() {
        return;
    }
    let Ok(connections) = tcp_sockets(|socket| wanted.contains(&socket.inode)) else { return };
    waits.socket_waiters = socket_waiters(receivers, &connections);
}

/// Adds the owners of locks that are asleep so in other network namespaces, by dumps over sockets that were opened there.
pub fn read_other_namespaces(
    waits: &mut Waits,
    namespaces: &mut OwnerNamespaces<'_>,
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
) {
    let mut by_namespace: BTreeMap<u64, Vec<Receiver>> = BTreeMap::new();
    for (task, group) in sleeping_lock_owners(waits) {
        let Some(namespace) = namespaces.of_process(task.pid, files) else { continue };
        let sockets = sockets_to_read(task, files, machine);
        by_namespace.entry(namespace).or_default().extend(sockets.into_iter().map(|inode| (task, group, inode)));
    }
    for (namespace, receivers) in by_namespace {
        let wanted = inodes(&receivers);
        let Some((owner, ..)) = receivers.first() else { continue };
        if !has_few_sockets(root, &format!("proc/{}/net", owner.pid)) {
            continue;
        }
        let Some(netlink) = namespaces.diag_socket(namespace) else { continue };
        if let Ok(connections) = tcp_sockets_over(netlink, |socket| wanted.contains(&socket.inode)) {
            waits.socket_waiters.extend(socket_waiters(receivers, &connections));
        }
    }
    waits.socket_waiters.small_sort_by_key(|waiter| waiter.task);
}

/// A thread that waits for data, the group of its row, and the inode of the socket.
type Receiver = (TaskId, u16, u32);

fn inodes(receivers: &[Receiver]) -> FxHashSet<u32> {
    receivers.iter().map(|&(.., inode)| inode).collect()
}

/// Those that receive from one of these connections.
fn socket_waiters(receivers: Vec<Receiver>, connections: &FxHashMap<u32, (Connection, bool)>) -> Vec<SocketWaiter> {
    let waiter = |(task, group, inode)| {
        let (socket, local_port_listens) = connections.get(&inode)?;
        Some(socket_waiter(task, group, socket, *local_port_listens))
    };
    with_one_connection(receivers.into_iter().filter_map(waiter).collect())
}

pub(super) fn socket_waiter(task: TaskId, group: u16, socket: &Connection, local_port_listens: bool) -> SocketWaiter {
    SocketWaiter {
        task,
        group,
        remote: socket.remote(),
        local_port_listens,
        last_data_sent_ms: socket.tcp_info.last_data_sent_ms,
        last_data_received_ms: socket.tcp_info.last_data_received_ms,
    }
}

/// Sorted by thread; without threads that poll several connections, of which it is not known which one they wait for.
fn with_one_connection(mut rows: Vec<SocketWaiter>) -> Vec<SocketWaiter> {
    rows.small_sort_by_key(|waiter| waiter.task);
    let threads = rows.chunk_by(|a, b| a.task == b.task);
    threads.filter_map(|rows| if let [row] = rows { Some(*row) } else { None }).collect()
}

/// The owners of locks that sleep in a receive or poll call, each with the group of the threads that wait for it.
fn sleeping_lock_owners(waits: &Waits) -> Vec<(TaskId, u16)> {
    let of_futexes = waits.lock_owners.iter().map(|row| (&row.owner, row.group));
    let of_kernel_locks = waits.kernel_lock_owners.iter().map(|row| (&row.owner, row.group));
    let may_receive = |owner: &BlockedWait| {
        let Some(wchan) = owner.wchan.as_ref().filter(|_| owner.state == TaskState::Sleeping) else { return false };
        let class = WaitClass::classify(owner.state, Some(wchan.as_bytes()), None);
        matches!(class, Some(WaitClass::Net | WaitClass::Poll)) || class::may_be_socket(wchan.as_bytes())
    };
    let mut owners: Vec<(TaskId, u16)> = of_futexes
        .chain(of_kernel_locks)
        .filter(|(owner, _)| may_receive(owner))
        .map(|(owner, group)| (owner.task, group))
        .collect();
    owners.small_sort_by_key(|&(task, _)| task);
    owners.dedup_by_key(|&mut (task, _)| task);
    owners.truncate(MAX_OWNERS);
    owners
}

/// The threads that are read.
fn long_sleepers(threads: &[IpcThread], sub_samples: usize) -> impl Iterator<Item = &IpcThread> {
    let least = (sub_samples as f64 * MIN_EXAMINED_SHARE).max(1.0);
    threads.iter().filter(move |thread| f64::from(thread.socket_count) >= least).take(MAX_THREADS)
}

/// Whether a network namespace has few TCP sockets: `TCP: inuse 12 orphan 0 …` of sockstat and sockstat6 in its directory net.
pub(super) fn has_few_sockets(root: &Root, directory: &str) -> bool {
    let count = |file: &str, word: &[u8]| {
        let text = root.read_once(format!("{directory}/{file}")).ok()?;
        let line = lines(&text).find_map(|line| line.strip_prefix(word))?;
        words(line).nth(1).and_then(parse_u64)
    };
    let six = count("sockstat6", b"TCP6:").unwrap_or(0);
    count("sockstat", b"TCP:").is_some_and(|four| four.saturating_add(six) <= MAX_SOCKETS)
}

/// The wanted connections and listening sockets by inode, and whether a socket listens at their local port.
pub(super) fn tcp_sockets(wanted: impl Fn(&Connection) -> bool) -> Reading<FxHashMap<u32, (Connection, bool)>> {
    tcp_sockets_over(&mut Netlink::open(SockProtocol::NetlinkSockDiag)?, wanted)
}

/// Those of the network namespace of a sock_diag socket.
pub(super) fn tcp_sockets_over(
    netlink: &mut Netlink,
    wanted: impl Fn(&Connection) -> bool,
) -> Reading<FxHashMap<u32, (Connection, bool)>> {
    let (mut listening, mut found) = (FxHashSet::default(), Vec::new());
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
            if socket.is_listening() {
                listening.insert(socket.ports.0);
            }
            if wanted(&socket) {
                found.push(socket);
            }
        })?;
    }
    let by_inode = |socket: Connection| {
        let local_port_listens = listening.contains(&socket.ports.0);
        (socket.inode, (socket, local_port_listens))
    };
    Ok(found.into_iter().map(by_inode).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    fn socket(stream: &TcpStream) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn a_connection_has_its_times_and_which_end_opened_it() {
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
        // The kernel counts milliseconds by its tick: repeated until they differ.
        for _ in 0..1000 {
            client.write_all(b"?").unwrap();
            pushed.write_all(b"!").unwrap();
            let found = match tcp_sockets(|socket| wanted.contains(&socket.inode)) {
                Ok(found) => found,
                Err(why) => return println!("skipped: this kernel has no INET_DIAG ({why:?})"),
            };
            let of = |stream| found.get(&socket(stream)).unwrap();
            let sent_last = |stream| {
                let info = &of(stream).0.tcp_info;
                info.last_data_sent_ms <= info.last_data_received_ms
            };
            assert_eq!([&client, &idle, &asked, &pushed].map(|stream| of(stream).1), [false, false, true, true]);
            assert_eq!((of(&client).0.remote_address, of(&client).0.ports.1), (address.ip(), address.port()));
            if sent_last(&client) && !sent_last(&idle) {
                return;
            }
        }
        panic!("the times of the two connections do not differ");
    }

    #[test]
    fn a_thread_that_polls_several_connections_has_no_row() {
        let row = |tid: u32, port: u16| SocketWaiter {
            task: TaskId { pid: 1, tid, start_ticks: 1 },
            group: 0,
            remote: SocketAddr::from(([10, 0, 0, 5], port)),
            local_port_listens: false,
            last_data_sent_ms: 5,
            last_data_received_ms: 9,
        };
        assert_eq!(with_one_connection(vec![row(3, 80), row(1, 80), row(2, 80), row(3, 81)]), [row(1, 80), row(2, 80)]);
    }

    #[test]
    fn only_threads_that_sleep_there_for_half_of_the_time_are_read() {
        let thread = |tid, socket_count| {
            let task = TaskId { pid: 1, tid, start_ticks: 1 };
            IpcThread { group: 0, task, pipe_count: 0, socket_count, beside_storage: false }
        };
        let threads = [thread(1, 10), thread(2, 5), thread(3, 4)];
        assert_eq!(long_sleepers(&threads, 10).map(|thread| thread.task.tid).collect::<Vec<_>>(), [1, 2]);
    }
}
