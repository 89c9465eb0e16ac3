//! Finds the processes and threads of connections that wait for their remote end (`remote_hosts::waiting_sockets`): the process by
//! the socket's inode, its threads by the descriptor of their system call. Expensive, hence only while there are such connections.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::listeners::socket_owner::{SocketOwners, parse_socket_inode};
use super::remote_hosts::{ConnectionTable, MAX_WAITING_SOCKETS, WaitingSocket};
use crate::ids::ProcessId;
use crate::kernel::clock_ns;
use crate::kernel::root::Root;
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::sample::network::waiting_connections::{ConnectionWait, MAX_WAITING_CONNECTIONS, WaitingConnections};
use crate::sample::waits::Syscall;
use crate::sample::{Absent, Reading};

/// Threads whose system call is read in one search.
const MAX_THREADS: usize = 1024;
/// The next search comes after this many times the cost of the last: at most 1 % of one CPU.
const INTERVAL_PER_COST: u32 = 100;

/// Threads asleep in a system call on one socket.
#[derive(Clone, Copy, Debug, Default)]
struct SleepingThreads {
    /// In a send or connect call
    sending: u32,
    /// In a receive call
    receiving: u32,
}

/// Keeps what it found until the next search.
#[derive(Debug, Default)]
pub struct WaitingConnectionReader {
    owners: SocketOwners,
    /// By the inode of the socket; `None`: system calls are not readable
    threads: FxHashMap<u32, Option<SleepingThreads>>,
    next_search: Option<Instant>,
}

impl WaitingConnectionReader {
    /// The rows of the connections that wait, of all network namespaces together.
    pub fn sample(
        &mut self,
        tables: &[&ConnectionTable],
        root: &Root,
        files: &mut TaskFiles,
        machine: &[u8],
    ) -> Vec<WaitingConnections> {
        let sockets: Vec<&WaitingSocket> = tables.iter().flat_map(|table| table.waiting()).take(MAX_WAITING_SOCKETS).collect();
        if sockets.is_empty() {
            self.threads.clear();
            return Vec::new();
        }
        let receiver = |socket: &WaitingSocket| {
            tables.iter().find_map(|table| table.receivers().get(&(socket.remote, socket.local)).copied())
        };
        if self.next_search.is_none_or(|at| Instant::now() >= at) {
            let begin = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
            let ends =
                sockets.iter().copied().flat_map(|socket| [Some(socket.inode), receiver(socket).map(|(inode, _)| inode)]);
            self.owners.search_now(root, ends.flatten().filter(|&inode| inode != 0));
            self.search_threads(&sockets, files, machine);
            let cost = Duration::from_nanos(clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin));
            self.next_search = Some(Instant::now() + cost.saturating_mul(INTERVAL_PER_COST));
        }
        let mut rows: FxHashMap<(Option<ProcessId>, IpAddr, ConnectionWait), WaitingConnections> = FxHashMap::default();
        for socket in sockets {
            let owner = self.owners.owner(socket.inode);
            let threads = owner
                .as_ref()
                .and_then(|_| self.threads.get(&socket.inode).copied().unwrap_or(Some(SleepingThreads::default())));
            let (unread, receiver) = receiver(socket).map_or((0, None), |(inode, unread)| (unread, self.owners.owner(inode)));
            let key = (owner.as_ref().map(|(process, _)| *process), socket.remote.ip(), socket.wait);
            let row = WaitingConnections {
                remote_host: socket.remote.ip(),
                remote_port: Some(socket.remote.port()),
                local_port: Some(socket.local.port()),
                wait: socket.wait,
                connections: 1,
                owner,
                threads: threads.map(|threads| threads.sending),
                receiving_threads: threads.filter(|_| is_unanswered(socket.wait)).map_or(0, |threads| threads.receiving),
                since_boottime_ns: socket.since_ns,
                queued_bytes: u64::from(socket.queued_bytes),
                retries: u32::from(socket.retries),
                receiver,
                unread_bytes: u64::from(unread),
            };
            match rows.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(row);
                }
                Entry::Occupied(mut entry) => add(entry.get_mut(), row),
            }
        }
        let mut rows: Vec<WaitingConnections> = rows.into_values().collect();
        rows.sort_unstable_by_key(|row| {
            let process = row.owner.as_ref().map(|(process, _)| *process);
            let threads = row.threads.unwrap_or(0).saturating_add(row.receiving_threads);
            (Reverse(threads), Reverse(row.connections), row.remote_host, row.wait, process)
        });
        rows.truncate(MAX_WAITING_CONNECTIONS);
        rows
    }

    /// Counts the threads of the owners that sleep in a send, connect or receive call on one of the sockets.
    fn search_threads(&mut self, sockets: &[&WaitingSocket], files: &mut TaskFiles, machine: &[u8]) {
        self.threads.clear();
        let wanted: FxHashSet<u32> = sockets.iter().map(|socket| socket.inode).collect();
        let mut processes: Vec<u32> = wanted.iter().filter_map(|&inode| Some(self.owners.owner(inode)?.0.pid)).collect();
        processes.sort_unstable();
        processes.dedup();
        let mut left = MAX_THREADS;
        let mut tids = Vec::new();
        for pid in processes {
            tids.clear();
            if files.list_threads(pid, &mut tids).is_err() {
                continue;
            }
            let Some(rest) = left.checked_sub(tids.len()) else { return };
            left = rest;
            for &tid in &tids {
                match blocked_socket(pid, tid, files, machine) {
                    Ok(Some((inode, call))) if wanted.contains(&inode) => {
                        if let Some(threads) = self.threads.entry(inode).or_insert(Some(SleepingThreads::default())) {
                            threads.add(call);
                        }
                    }
                    Err(Absent::NoPermission) => self.mark_unreadable(pid, &wanted),
                    _ => {}
                }
            }
        }
    }

    fn mark_unreadable(&mut self, pid: u32, wanted: &FxHashSet<u32>) {
        for &inode in wanted {
            if self.owners.owner(inode).is_some_and(|(process, _)| process.pid == pid) {
                self.threads.insert(inode, None);
            }
        }
    }
}

impl SleepingThreads {
    fn add(&mut self, call: SocketCall) {
        let count = match call {
            SocketCall::Send => &mut self.sending,
            SocketCall::Receive => &mut self.receiving,
        };
        *count = count.saturating_add(1);
    }
}

/// Whether what a receiver waits for may be the answer to data that the remote host has not even acknowledged.
fn is_unanswered(wait: ConnectionWait) -> bool {
    wait == ConnectionWait::Acknowledgement
}

/// What a thread sleeps in.
#[derive(Clone, Copy, Debug)]
enum SocketCall {
    /// A send or connect call
    Send,
    Receive,
}

/// The socket of the send, connect or receive call that a thread sleeps in.
fn blocked_socket(pid: u32, tid: u32, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<(u32, SocketCall)>> {
    let call = task::parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall"))?)?;
    let call = Syscall::from_number(machine, call);
    let Some((call, direction)) = call.and_then(|call| Some((call, socket_call(call)?))) else { return Ok(None) };
    let target = files.read_link(format_args!("{pid}/fd/{}", call.arguments[0]))?;
    Ok(parse_socket_inode(target.as_bytes()).map(|inode| (inode, direction)))
}

fn socket_call(call: Syscall) -> Option<SocketCall> {
    match call.name {
        "connect" | "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile" => Some(SocketCall::Send),
        "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" => Some(SocketCall::Receive),
        _ => None,
    }
}

/// Adds a row of one connection to the row of its process and remote host.
fn add(row: &mut WaitingConnections, one: WaitingConnections) {
    row.remote_port = row.remote_port.filter(|&port| Some(port) == one.remote_port);
    row.local_port = row.local_port.filter(|&port| Some(port) == one.local_port);
    row.connections = row.connections.saturating_add(one.connections);
    row.threads = row.threads.zip(one.threads).map(|(sum, more)| sum.saturating_add(more));
    row.receiving_threads = row.receiving_threads.saturating_add(one.receiving_threads);
    row.since_boottime_ns = row.since_boottime_ns.min(one.since_boottime_ns);
    row.queued_bytes = row.queued_bytes.saturating_add(one.queued_bytes);
    row.retries = row.retries.max(one.retries);
    row.receiver = row.receiver.take().or(one.receiver);
    row.unread_bytes = row.unread_bytes.saturating_add(one.unread_bytes);
}
