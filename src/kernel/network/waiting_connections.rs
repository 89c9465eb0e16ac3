//! Finds the processes and threads of connections that wait for their remote end (`remote_hosts::waiting_sockets`): the process by
//! the socket's inode, its threads by `sleeping_threads`. Expensive, hence only while there are such connections.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};

use super::listeners::socket_owner::SocketOwners;
use super::remote_hosts::{ConnectionTable, MAX_WAITING_SOCKETS, WaitingSocket};
use super::sleeping_threads::{SleepingThreads, ThreadsBySocket, search_threads};
use crate::ids::ProcessId;
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::waits::tcp_files::read_listening_ports;
use crate::sample::Name;
use crate::sample::network::waiting_connections::{ConnectionWait, MAX_WAITING_CONNECTIONS, WaitingConnections};
use crate::units::SmallSort;

/// The next search comes after this many times the cost of the last: at most 1 % of one CPU.
const INTERVAL_PER_COST: u32 = 100;

/// Sockets to name servers that are searched for: most of many are kept open without a lookup.
const MAX_LOOKUPS: usize = 128;

/// The time since a request was sent has the resolution of a clock tick; the next one on the connection comes seconds later.
const SAME_REQUEST_NS: u64 = 1_000_000_000;

/// Process, remote host, reason and port of the receiver: the connections of one row.
type RowKey = (Option<ProcessId>, IpAddr, ConnectionWait, Option<u16>);

/// Keeps what it found until the next search.
#[derive(Debug, Default)]
pub struct WaitingConnectionReader {
    owners: SocketOwners,
    threads: ThreadsBySocket,
    /// By process with threads in poll: the ports at which sockets of its network namespace listen; `None` if that is not known
    listening_ports: FxHashMap<u32, Option<FxHashSet<u16>>>,
    /// Sockets on which no thread slept when the threads that wait for the answer were searched for, with the time of the request: an
    /// event loop has many of them for hours
    unattended: FxHashMap<u32, u64>,
    pacer: CostPacer,
}

impl WaitingConnectionReader {
    /// The rows of the connections that wait, of all network namespaces together.
    pub fn sample(
        &mut self,
        tables: &[&ConnectionTable],
        lookups: &[&WaitingSocket],
        root: &Root,
        files: &mut TaskFiles,
        machine: &[u8],
    ) -> Vec<WaitingConnections> {
        let connections = tables.iter().flat_map(|table| table.waiting()).take(MAX_WAITING_SOCKETS);
        let answers = self.attended_answers(tables);
        let sockets: Vec<&WaitingSocket> =
            lookups.iter().copied().take(MAX_LOOKUPS).chain(connections).chain(answers).collect();
        if sockets.is_empty() {
            self.threads.clear();
            return Vec::new();
        }
        let receiver = |socket: &WaitingSocket| {
            tables.iter().find_map(|table| table.receivers().get(&(socket.remote, socket.local)).copied())
        };
        if self.pacer.is_due(Instant::now()) {
            let timer = CpuTimer::start();
            let ends =
                sockets.iter().copied().flat_map(|socket| [Some(socket.inode), receiver(socket).map(|(inode, _)| inode)]);
            self.owners.search_now(root, ends.flatten().filter(|&inode| inode != 0));
            let inodes = sockets.iter().map(|socket| socket.inode);
            self.threads = search_threads(&self.owners, inodes, root, files, machine);
            self.update_listening_ports(&sockets, root);
            self.update_unattended(&sockets);
            self.pacer.schedule_next(Instant::now(), timer.elapsed(), INTERVAL_PER_COST);
        }
        let mut rows: FxHashMap<RowKey, WaitingConnections> = FxHashMap::default();
        let mut polling: FxHashMap<RowKey, FxHashSet<u32>> = FxHashMap::default();
        let mut receiving: FxHashMap<RowKey, FxHashSet<u32>> = FxHashMap::default();
        for socket in sockets {
            let owner = self.owners.owner(socket.inode);
            // Without an entry none of its threads sleeps there.
            let threads =
                owner.as_ref().and_then(|_| self.threads.get(&socket.inode).cloned().unwrap_or(Some(Default::default())));
            let (unread, receiver) = receiver(socket).map_or((0, None), |(inode, unread)| (unread, self.owners.owner(inode)));
            let row = WaitingConnections {
                remote_host: socket.remote.ip(),
                remote_port: Some(socket.remote.port()),
                local_port: Some(socket.local.port()),
                wait: socket.wait,
                connections: 1,
                owner,
                threads: threads.as_ref().map(|threads| thread_count(&threads.sending)),
                receiving_threads: 0,
                polling_threads: 0,
                since_boottime_ns: socket.since_ns,
                queued_bytes: u64::from(socket.queued_bytes),
                retries: u32::from(socket.retries),
                receiver,
                unread_bytes: u64::from(unread),
                longest_answer_ms: socket.longest_answer_ms.filter(|_| socket.wait == ConnectionWait::Answer),
            };
            let process = row.owner.as_ref().map(|(process, _)| *process);
            let key = (process, row.remote_host, row.wait, row.receiver_port());
            let receives = threads.as_ref().map_or(&[][..], |threads| receiving_threads(threads, socket.wait));
            // A program may keep a socket open without a lookup, and a connection whose answer it reads later.
            if matches!(socket.wait, ConnectionWait::NameServer | ConnectionWait::Answer) && receives.is_empty() {
                continue;
            }
            // One thread may poll many sockets.
            receiving.entry(key).or_default().extend(receives);
            if let Some(threads) = &threads {
                let waits = match socket.wait {
                    // An event loop serves its other connections meanwhile.
                    ConnectionWait::Connect => Some(&threads.polling_few),
                    _ => self.is_client(socket, row.owner.as_ref()).then_some(&threads.polling),
                };
                polling.entry(key).or_default().extend(waits.into_iter().flatten());
            }
            match rows.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(row);
                }
                Entry::Occupied(mut entry) => add(entry.get_mut(), row),
            }
        }
        for (key, threads) in polling {
            if let Some(row) = rows.get_mut(&key) {
                row.polling_threads = u32::try_from(threads.len()).unwrap_or(u32::MAX);
            }
        }
        for (key, threads) in receiving {
            if let Some(row) = rows.get_mut(&key) {
                row.receiving_threads = u32::try_from(threads.len()).unwrap_or(u32::MAX);
            }
        }
        let mut rows: Vec<WaitingConnections> = rows.into_values().collect();
        rows.small_sort_by_key(|row| {
            let process = row.owner.as_ref().map(|(process, _)| *process);
            let threads = row.threads.unwrap_or(0).saturating_add(row.receiving_threads).saturating_add(row.polling_threads);
            (Reverse(threads), Reverse(row.connections), row.remote_host, row.remote_port, row.wait, process)
        });
        rows.truncate(MAX_WAITING_CONNECTIONS);
        rows
    }

    /// The connections that wait for an answer, without those on which no thread slept since the request was sent.
    fn attended_answers<'t>(&mut self, tables: &[&'t ConnectionTable]) -> Vec<&'t WaitingSocket> {
        let before = std::mem::take(&mut self.unattended);
        let mut attended = Vec::new();
        for socket in tables.iter().flat_map(|table| table.awaited_answers()).take(MAX_WAITING_SOCKETS) {
            match before.get(&socket.inode) {
                Some(&since_ns) if since_ns.abs_diff(socket.since_ns) < SAME_REQUEST_NS => {
                    self.unattended.insert(socket.inode, since_ns);
                }
                _ => attended.push(socket),
            }
        }
        attended
    }

    /// Notes the connections on which no thread was found that waits for the answer.
    fn update_unattended(&mut self, sockets: &[&WaitingSocket]) {
        for socket in sockets.iter().filter(|socket| socket.wait == ConnectionWait::Answer) {
            let threads = self.threads.get(&socket.inode).and_then(Option::as_ref);
            if threads.is_none_or(|threads| threads.receiving_few.is_empty()) {
                self.unattended.insert(socket.inode, socket.since_ns);
            }
        }
    }

    /// Reads where the processes with threads in poll listen.
    fn update_listening_ports(&mut self, sockets: &[&WaitingSocket], root: &Root) {
        self.listening_ports.clear();
        for socket in sockets {
            let polls = self
                .threads
                .get(&socket.inode)
                .is_some_and(|threads| threads.as_ref().is_some_and(|it| !it.polling.is_empty()));
            if let Some((process, _)) = self.owners.owner(socket.inode).filter(|_| polls) {
                self.listening_ports.entry(process.pid).or_insert_with(|| read_listening_ports(root, process.pid).ok());
            }
        }
    }

    /// Whether this host certainly opened a connection that makes no progress: no socket listens at its local port. A server in poll
    /// serves its other clients meanwhile.
    fn is_client(&self, socket: &WaitingSocket, owner: Option<&(ProcessId, Name)>) -> bool {
        let listening = owner.and_then(|(process, _)| self.listening_ports.get(&process.pid)?.as_ref());
        matches!(socket.wait, ConnectionWait::ClosedWindow | ConnectionWait::Acknowledgement)
            && listening.is_some_and(|ports| !ports.contains(&socket.local.port()))
    }
}

fn thread_count(tids: &[u32]) -> u32 {
    u32::try_from(tids.len()).unwrap_or(u32::MAX)
}

/// Threads that wait for the answer to data that the remote host has not even acknowledged, to a lookup, or to a request.
fn receiving_threads(threads: &SleepingThreads, wait: ConnectionWait) -> &[u32] {
    match wait {
        ConnectionWait::Acknowledgement | ConnectionWait::NameServer => &threads.receiving,
        ConnectionWait::Answer => &threads.receiving_few,
        _ => &[],
    }
}

/// Adds a row of one connection to the row of its process and remote host.
fn add(row: &mut WaitingConnections, one: WaitingConnections) {
    row.remote_port = row.remote_port.filter(|&port| Some(port) == one.remote_port);
    row.local_port = row.local_port.filter(|&port| Some(port) == one.local_port);
    row.connections = row.connections.saturating_add(one.connections);
    row.threads = row.threads.zip(one.threads).map(|(sum, more)| sum.saturating_add(more));
    row.since_boottime_ns = row.since_boottime_ns.min(one.since_boottime_ns);
    row.queued_bytes = row.queued_bytes.saturating_add(one.queued_bytes);
    row.retries = row.retries.max(one.retries);
    row.receiver = row.receiver.take().or(one.receiver);
    row.unread_bytes = row.unread_bytes.saturating_add(one.unread_bytes);
    row.longest_answer_ms = row.longest_answer_ms.max(one.longest_answer_ms);
}
