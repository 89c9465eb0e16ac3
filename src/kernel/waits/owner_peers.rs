//! Finds the processes at the other ends of the pipes and sockets in which owners of locks, or selected threads of a group, wait.
//! `peer_waits` reads what they do, `asked_connections` for which hosts they wait themselves.
//!
//! The pipe or socket is that of the owner's system call, or of its poll call for few descriptors. Which process has the other end open
//! is searched in the descriptors of all processes: only for ends that are not known yet, and so seldom that it takes 1 % of a CPU at
//! most. `interval::owner_peers` decides which owners wait for an answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::asked_connections::{is_of_lock_owner, read_asked_connections};
use super::group_waiters::group_waiters;
use super::ipc_peers::{Endpoint, endpoint_of_call, parse_inode, read_end_of_descriptor, read_open_endpoints};
use super::owner_namespaces::OwnerNamespaces;
use super::peer_waits::peer_waits;
use super::remote_waits::{has_few_sockets, tcp_sockets_over};
use super::unix_sockets::{dump_stream_peers, open_unix_diag};
use crate::ids::{ProcessId, TaskId};
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::fields::parse_u32;
use crate::kernel::network::netlink::Netlink;
use crate::kernel::network::remote_hosts::Connection;
use crate::kernel::network::sleeping_threads::descriptors_to_read;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::{Process, TaskState, Tasks};
use crate::sample::waits::{BlockedWait, OwnerPeer, Syscall, WaitClass, Waits, class};
use crate::units::SmallSort;

/// Bounds of an interval: owners examined, and threads read of the processes at the other ends, of a process all or none.
const MAX_OWNERS: usize = 16;
const MAX_PEER_THREADS: usize = 64;
/// A search of all processes ends without a result after this many descriptors, about 30 ms.
const MAX_DESCRIPTORS: usize = 20_000;
/// Descriptors of a process whose pipes are compared with those of another one.
const MAX_COMPARED: usize = 1024;
/// The next search, and the next look at groups in sockets, come after this many times the cost of the last: at most 1 % of one CPU.
const INTERVAL_PER_COST: u32 = 100;
/// A result, also that no process was found, is used for this time: another process may inherit the end meanwhile.
const CACHE_TTL: Duration = Duration::from_secs(30);

/// Processes that are followed from one to the next.
const MAX_CHAINED_PEERS: usize = 3;

/// An end of a pipe or socket, and the process of the owner that waits at it.
type AwaitedEnd = (u32, Endpoint);
/// An owner, or another thread that waits, with the group of its row and its ends.
type Waiting = (TaskId, u16, Vec<AwaitedEnd>);
/// A process at the other end, the group of the threads that wait, and its ends.
type PeerProcess<'t> = (&'t Arc<Process>, u16, FxHashSet<Endpoint>);

/// Keeps which processes were found.
#[derive(Debug, Default)]
pub struct OwnerPeerReader {
    known: FxHashMap<AwaitedEnd, KnownPeer>,
    search_pacer: CostPacer,
    /// Of groups whose threads wait in sockets
    group_pacer: CostPacer,
}

#[derive(Debug)]
struct KnownPeer {
    found_at: Instant,
    peer: Option<Peer>,
}

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer {
    process: ProcessId,
    end: Endpoint,
    may_answer: bool,
}

impl OwnerPeerReader {
    /// Adds these processes, and the waits of their threads, to waits that have the owners of locks. `servers`: pids of processes that owe
    /// answers to others of this host, which are read, too.
    pub fn read(
        &mut self,
        waits: &mut Waits,
        (tasks, servers): (Option<&Tasks>, &[u32]),
        (root, machine): (&Root, &[u8]),
        files: &mut TaskFiles,
        namespaces: &mut OwnerNamespaces<'_>,
    ) {
        let mut owners = waiting_owners(waits, machine);
        let in_loops: Vec<(TaskId, u16)> =
            owners.iter().filter(|owner| is_event_loop(owner, machine)).map(|owner| (owner.task, owner.group)).collect();
        let asked = match in_loops.is_empty() {
            true => FxHashMap::default(),
            false => read_asked_connections(waits, in_loops.into_iter(), is_of_lock_owner, (root, machine), files, namespaces),
        };
        let begin = Instant::now();
        if self.group_pacer.is_due(begin) {
            let timer = CpuTimer::start();
            for waiter in group_waiters(waits, files) {
                if !owners.iter().any(|owner| owner.task == waiter.task) {
                    owners.push(waiter);
                }
            }
            self.group_pacer.schedule_next(begin, timer.elapsed(), INTERVAL_PER_COST);
        }
        let Some(tasks) = tasks.filter(|_| !owners.is_empty() || !servers.is_empty()) else { return };
        let last = u16::try_from(waits.sub_samples.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let awaited = |owner: &BlockedWait| {
            let ends = match asked.get(&owner.task) {
                Some(&inode) => vec![Endpoint::Socket(inode)],
                None => awaited_ends(owner, owner.last_sub_sample == last, files, machine),
            };
            (owner.task, owner.group, ends.into_iter().map(|end| (owner.task.pid, end)).collect())
        };
        let mut waiting: Vec<Waiting> = owners.iter().map(awaited).collect();
        let mut processes: Vec<PeerProcess> =
            servers.iter().filter_map(|&pid| Some((tasks.process(pid)?, 0, FxHashSet::default()))).collect();
        let (mut known, mut left) = (FxHashSet::default(), MAX_PEER_THREADS);
        for _ in 0..MAX_CHAINED_PEERS {
            self.search(waiting.iter().flat_map(|(.., ends)| ends).copied(), tasks, root, files, namespaces);
            self.add_peers(&waiting, tasks, waits, &mut processes);
            processes.retain(|(process, ..)| {
                let rest = left.checked_sub(process.threads.len()).filter(|_| known.insert(process.pid));
                left = rest.unwrap_or(left);
                rest.is_some()
            });
            let sleeping = processes.iter().flat_map(|(process, group, _)| {
                let threads = process.threads.iter().filter(|thread| thread.state == TaskState::Sleeping);
                threads.map(|thread| (process.task_id(thread), *group))
            });
            let asked = read_asked_connections(waits, sleeping, |_| true, (root, machine), files, namespaces);
            waiting.clear();
            for (process, group, ends) in processes.drain(..) {
                let rows = peer_waits(waits, (process, group), (&ends, &asked), (root, machine), files);
                waits.peer_waits.extend(rows);
                let of_process = asked.iter().filter(|(task, _)| task.pid == process.pid);
                waiting.extend(of_process.map(|(&task, &inode)| (task, group, vec![(task.pid, Endpoint::Socket(inode))])));
            }
            if waiting.is_empty() {
                break;
            }
        }
        waits.owner_peers.small_sort_by_key(|peer| peer.owner);
        waits.peer_waits.small_sort_by_key(|wait| wait.task);
    }

    /// Adds the processes for which these threads wait, as far as they are known, to the waits and to the processes.
    fn add_peers<'t>(&self, waiting: &[Waiting], tasks: &'t Tasks, waits: &mut Waits, processes: &mut Vec<PeerProcess<'t>>) {
        for (owner, group, ends) in waiting {
            let mut found = ends.iter().filter_map(|end| self.known.get(end)?.peer);
            // In poll for several it is not known which one the thread waits for.
            let (Some(peer), None) = (found.next(), found.next()) else { continue };
            // Workers that wait for a dispatcher, which has connected to them, have no request for it.
            if !peer.may_answer && !is_lock_owner(waits, *owner) && !waits.socket_waiters.iter().any(|row| row.task == *owner) {
                continue;
            }
            let Some(process) = tasks.process(peer.process.pid).filter(|process| process.id() == peer.process) else {
                continue;
            };
            match processes.iter_mut().find(|(known, ..)| known.pid == process.pid) {
                // A thread that waits for the next request of a holder that was answered does not serve the others.
                Some((.., ends)) if !has_moved_on(waits, *owner) => {
                    ends.insert(peer.end);
                }
                Some(_) => {}
                // Those seen last come first.
                None => processes.push((process, *group, FxHashSet::from_iter([peer.end]))),
            }
            let is_pipe = !matches!(peer.end, Endpoint::Socket(_));
            waits.owner_peers.push(OwnerPeer { owner: *owner, peer: process.pid, is_pipe, may_answer: peer.may_answer });
        }
    }

    /// Searches for the processes at the other ends that are not known.
    fn search(
        &mut self,
        awaited: impl Iterator<Item = AwaitedEnd>,
        tasks: &Tasks,
        root: &Root,
        files: &mut TaskFiles,
        namespaces: &mut OwnerNamespaces<'_>,
    ) {
        self.known.retain(|_, known| known.found_at.elapsed() < CACHE_TTL);
        let unknown: FxHashSet<AwaitedEnd> = awaited.filter(|end| !self.known.contains_key(end)).collect();
        let begin = Instant::now();
        if unknown.is_empty() || !self.search_pacer.is_due(begin) {
            return;
        }
        let timer = CpuTimer::start();
        let mut sockets: BTreeMap<Option<u64>, Vec<(u32, u32)>> = BTreeMap::new();
        for &(pid, end) in unknown.iter().filter(|_| root.is_host()) {
            if let Endpoint::Socket(inode) = end {
                sockets.entry(namespaces.of_process(pid, files)).or_default().push((pid, inode));
            }
        }
        let mut peers = FxHashMap::default();
        for (namespace, sockets) in sockets {
            peers.extend(match namespace {
                None => open_unix_diag().map(|mut netlink| socket_peers(&mut netlink, &sockets, root)).unwrap_or_default(),
                Some(inode) => {
                    let netlink = namespaces.diag_socket(inode);
                    netlink.map(|netlink| socket_peers(netlink, &sockets, root)).unwrap_or_default()
                }
            });
        }
        // What is to be found, and whether that may answer; of pipes that is read later.
        let other_end = |end: Endpoint| match end {
            Endpoint::Socket(socket) => {
                peers.get(&socket).map(|&(peer, may_answer)| (Endpoint::Socket(peer), Some(may_answer)))
            }
            pipe_end => pipe_end.other_pipe_end().map(|other| (other, None)),
        };
        let wanted: FxHashSet<Endpoint> = unknown.iter().filter_map(|(_, end)| Some(other_end(*end)?.0)).collect();
        let holders = find_holders(tasks, &wanted, root, files);
        for (pid, end) in unknown {
            let found = other_end(end).and_then(|(other, may_answer)| {
                let mut all = holders.get(&other)?.iter();
                // With several, the owner's own process among them, it is not known which of them is to act.
                let (Some(&process), None) = (all.next(), all.next()) else { return None };
                if process.pid == pid {
                    return None;
                }
                let may_answer = may_answer.unwrap_or_else(|| reads_pipe_of(process.pid, pid, root, files));
                Some(Peer { process, end: other, may_answer })
            });
            self.known.insert((pid, end), KnownPeer { found_at: begin, peer: found });
        }
        self.search_pacer.schedule_next(begin, timer.elapsed(), INTERVAL_PER_COST);
    }
}

/// The last wait of each owner of a lock that sleeps in a pipe, a socket or poll, those seen last first.
fn waiting_owners(waits: &Waits, machine: &[u8]) -> Vec<BlockedWait> {
    let is_waiting = |wait: &&BlockedWait| {
        let call = wait.syscall.and_then(|call| Syscall::from_number(machine, call));
        let wchan = wait.wchan.as_ref().map(|wchan| wchan.as_bytes());
        let class = WaitClass::classify(wait.state, wchan, call);
        wait.state == TaskState::Sleeping
            && (matches!(class, Some(WaitClass::Pipe | WaitClass::Net | WaitClass::Poll))
                || wchan.is_some_and(class::may_be_socket)
                || call.is_some_and(|call| call.name == "io_uring_enter"))
    };
    let mut owners: Vec<BlockedWait> = waits.lock_owner_waits().filter(is_waiting).cloned().collect();
    owners.small_sort_by_key(|wait| (wait.task, Reverse(wait.last_sub_sample)));
    owners.dedup_by_key(|wait| wait.task);
    owners.small_sort_by_key(|wait| (Reverse(wait.last_sub_sample), wait.task));
    owners.truncate(MAX_OWNERS);
    owners
}

/// Whether a thread owned a lock, and the last sub-sample did not see it so.
fn has_moved_on(waits: &Waits, task: TaskId) -> bool {
    let last = u16::try_from(waits.sub_samples.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let mut rows = waits.lock_owner_waits().filter(|owner| owner.task == task).peekable();
    rows.peek().is_some() && rows.all(|owner| owner.last_sub_sample != last)
}

fn is_lock_owner(waits: &Waits, task: TaskId) -> bool {
    waits.lock_owner_waits().any(|owner| owner.task == task)
}

/// Whether an owner is in a call that may wait for many connections.
fn is_event_loop(owner: &BlockedWait, machine: &[u8]) -> bool {
    let call = owner.syscall.and_then(|call| Syscall::from_number(machine, call));
    call.is_some_and(|call| {
        matches!(
            call.name,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select" | "pselect6" | "io_uring_enter"
        )
    })
}

/// The ends at which an owner waits. `is_there`: the last sub-sample saw it there, so that its poll call can be read.
fn awaited_ends(owner: &BlockedWait, is_there: bool, files: &mut TaskFiles, machine: &[u8]) -> Vec<Endpoint> {
    let pid = owner.task.pid;
    let Some(call) = owner.syscall.and_then(|call| Syscall::from_number(machine, call)) else { return Vec::new() };
    match call.name {
        "poll" | "ppoll" if is_there => {
            let descriptors = descriptors_to_read(owner.task, files, machine);
            descriptors.into_iter().filter_map(|at| read_end_of_descriptor(pid, at, files).ok()?).collect()
        }
        _ => endpoint_of_call(pid, call, files).ok().flatten().into_iter().collect(),
    }
}

/// The other ends of Unix sockets, and of TCP connections within this host, and whether these may have a request to answer, by the sockets
/// alone. `awaited`: pids and inodes in the network namespace of `netlink`, a sock_diag socket.
fn socket_peers(netlink: &mut Netlink, awaited: &[(u32, u32)], root: &Root) -> FxHashMap<u32, (u32, bool)> {
    let sockets: FxHashSet<u32> = awaited.iter().map(|&(_, inode)| inode).collect();
    let unix = dump_stream_peers(netlink, &sockets).unwrap_or_default();
    let mut peers: FxHashMap<u32, (u32, bool)> =
        unix.into_iter().map(|(socket, peer)| (socket, (peer.inode, !peer.is_client))).collect();
    let Some((pid, _)) = awaited.iter().find(|(_, inode)| !peers.contains_key(inode)) else { return peers };
    if !has_few_sockets(root, &format!("proc/{pid}/net")) {
        return peers;
    }
    let is_wanted = |socket: &Connection| socket.is_local || sockets.contains(&socket.inode);
    let Ok(connections) = tcp_sockets_over(netlink, is_wanted) else { return peers };
    for socket in &sockets {
        let Some((one, _)) = connections.get(socket) else { continue };
        if let Some((other, _)) = connections.values().find(|(other, _)| is_other_end(one, other)) {
            peers.insert(*socket, (other.inode, false));
        }
    }
    peers
}

fn is_other_end(one: &Connection, other: &Connection) -> bool {
    let is_mirrored = one.ports == (other.ports.1, other.ports.0);
    is_mirrored && one.local_address == other.remote_address && one.remote_address == other.local_address
}

/// The processes that have these ends open; none of any if there are too many descriptors.
fn find_holders(
    tasks: &Tasks,
    wanted: &FxHashSet<Endpoint>,
    root: &Root,
    files: &mut TaskFiles,
) -> FxHashMap<Endpoint, FxHashSet<ProcessId>> {
    let mut holders: FxHashMap<Endpoint, FxHashSet<ProcessId>> = FxHashMap::default();
    let mut left = if wanted.is_empty() { return holders } else { MAX_DESCRIPTORS };
    let is_wanted_pipe = |pipe: u32| wanted.contains(&Endpoint::PipeRead(pipe)) || wanted.contains(&Endpoint::PipeWrite(pipe));
    for process in tasks.processes.iter().filter(|process| !process.kernel_thread) {
        let pid = process.pid;
        let Ok(descriptors) = root.list_directory(format!("proc/{pid}/fd")) else { continue };
        let Some(rest) = left.checked_sub(descriptors.len()) else { return FxHashMap::default() };
        left = rest;
        for descriptor in descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())) {
            let Ok(target) = files.read_link(format_args!("{pid}/fd/{descriptor}")) else { continue };
            let socket = parse_inode(target.as_bytes(), b"socket:[").map(Endpoint::Socket);
            let ends = match parse_inode(target.as_bytes(), b"pipe:[") {
                Some(pipe) if is_wanted_pipe(pipe) => read_open_endpoints(pid, descriptor, files),
                _ => socket.into_iter().collect(),
            };
            for end in ends.into_iter().filter(|end| wanted.contains(end)) {
                holders.entry(end).or_default().insert(process.id());
            }
        }
    }
    holders
}

/// Whether a process reads a pipe into which another one writes.
fn reads_pipe_of(reader: u32, writer: u32, root: &Root, files: &mut TaskFiles) -> bool {
    let mut open_ends = |pid: u32| -> FxHashSet<Endpoint> {
        let descriptors = root.list_directory(format!("proc/{pid}/fd")).unwrap_or_default();
        let numbers = descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())).take(MAX_COMPARED);
        numbers.flat_map(|descriptor| read_open_endpoints(pid, descriptor, files)).collect()
    };
    let (read, written) = (open_ends(reader), open_ends(writer));
    written.iter().any(|end| matches!(*end, Endpoint::PipeWrite(pipe) if read.contains(&Endpoint::PipeRead(pipe))))
}

#[cfg(test)]
mod tests;
