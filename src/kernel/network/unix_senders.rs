//! Finds the threads that wait for a receiver on a Unix socket: sockets that are full (sock_diag UNIX_DIAG), the processes at both
//! ends, and the sender's threads that sleep in a send or poll call on them; and those in connect (`unix_connects`).
//!
//! A dump is made seldom; each second only while a socket is full, or while a sub-sample saw a thread in such a wait. The processes are
//! searched only of sockets that are full in two dumps, or on which a thread has waited as long. Sockets of other network namespaces are dumped over a socket opened there.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::listeners::socket_owner::SocketOwners;
use super::namespaces::NamespaceReader;
use super::sleeping_threads::{SleepingThreads, search_threads};
use super::unix_connects::UnixConnects;
use crate::ids::ProcessId;
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::waits::unix_sockets::{FullSocket, dump_full_sockets, dump_names, open_unix_diag};
use crate::sample::network::unix_senders::{MAX_UNIX_SENDERS, UnixSenders};
use crate::sample::task::{Process, Tasks};
use crate::sample::waits::Waits;
use crate::sample::{Absent, Name, Reading};
use crate::units::SmallSort;

/// While no socket is full the next dump comes after this many times the cost of the last, within these bounds: 0.1 ms every 5 s with
/// 200 sockets.
const IDLE_INTERVAL_PER_COST: u32 = 50_000;
const MIN_IDLE_INTERVAL: Duration = Duration::from_secs(5);
const MAX_IDLE_INTERVAL: Duration = Duration::from_secs(60);
/// Otherwise after this many times: at most 1 % of one CPU.
const INTERVAL_PER_COST: u32 = 100;
/// A receiver that reads changes its queue in less than this time: not quite the second between two samples.
pub const MIN_FULL_NS: u64 = 900_000_000;
/// Sockets whose processes are searched.
const MAX_SOCKETS: usize = 512;

/// Since when a socket is full, and its queues then.
#[derive(Clone, Copy, Debug)]
struct FullSince {
    queues: (u32, u32),
    since_ns: u64,
}

/// Keeps what it found until the next dump.
#[derive(Debug, Default)]
pub struct UnixSenderReader {
    pacer: CostPacer,
    /// While no socket is full: the next dump without a thread that was seen in such a wait
    idle_until: Option<Instant>,
    full: FxHashMap<u32, FullSince>,
    owners: SocketOwners,
    connects: UnixConnects,
    rows: Vec<UnixSenders>,
}

/// Process, receiver, kind and address of a row.
type RowKey = (ProcessId, Option<ProcessId>, bool, Option<Name>);

impl UnixSenderReader {
    /// The threads that wait at `now_ns` (CLOCK_BOOTTIME), as of the last dump. `tasks` and `waits` are those of the sample.
    pub fn sample(
        &mut self,
        root: &Root,
        files: &mut TaskFiles,
        machine: &[u8],
        now_ns: u64,
        (tasks, waits): (Option<&Tasks>, &Waits),
        namespaces: &mut NamespaceReader,
    ) -> Reading<Vec<UnixSenders>> {
        if !root.is_host() {
            return Err(Absent::NotRead);
        }
        if !self.is_due(waits) {
            return Ok(self.rows.clone());
        }
        let (begin, timer) = (Instant::now(), CpuTimer::start());
        let mut sockets = open_unix_diag();
        let own = sockets.as_mut().map_err(|why| *why).and_then(dump_full_sockets);
        let inside = namespaces.unix_sockets().filter_map(|socket| dump_full_sockets(socket).ok());
        let dumped = own.map(|own| [own].into_iter().chain(inside).flatten().collect::<Vec<FullSocket>>());
        let waiting = self.update_full(dumped.as_deref().unwrap_or_default(), now_ns);
        self.rows =
            if waiting.is_empty() { Vec::new() } else { self.search(&waiting, root, files, machine, tasks, namespaces) };
        let found_senders = !self.rows.is_empty();
        self.rows.extend(self.connects.search(tasks, now_ns, (root, machine), files, &mut self.owners, namespaces));
        let cost = timer.elapsed();
        self.pacer.schedule_next(begin, cost, INTERVAL_PER_COST);
        let idle = cost.saturating_mul(IDLE_INTERVAL_PER_COST).clamp(MIN_IDLE_INTERVAL, MAX_IDLE_INTERVAL);
        // A full socket whose sender does something else meanwhile is no reason to look often.
        let has_no_sender = self.full.is_empty() || (!waiting.is_empty() && !found_senders);
        let is_idle = has_no_sender && !self.connects.is_waiting();
        self.idle_until = is_idle.then(|| begin + idle);
        dumped.map(|_| self.rows.clone())
    }

    fn is_due(&self, waits: &Waits) -> bool {
        let now = Instant::now();
        let was_seen = || waits.observed.iter().any(|wait| wait.wchan.as_ref().is_some_and(is_unix_send));
        match self.idle_until {
            Some(until) => now >= until || (self.pacer.is_due(now) && was_seen()),
            None => self.pacer.is_due(now),
        }
    }

    /// Updates since when each socket is full. Returns those that have been full for `MIN_FULL_NS`.
    fn update_full(&mut self, dumped: &[FullSocket], now_ns: u64) -> Vec<(FullSocket, u64)> {
        let before = std::mem::take(&mut self.full);
        let mut waiting = Vec::new();
        for socket in dumped.iter().take(MAX_SOCKETS) {
            let queues = (socket.queued_bytes, socket.unread_bytes);
            let same = before.get(&socket.inode).filter(|full| full.queues == queues);
            let since_ns = same.map_or(now_ns, |full| full.since_ns);
            self.full.insert(socket.inode, FullSince { queues, since_ns });
            if now_ns.saturating_sub(since_ns) >= MIN_FULL_NS {
                waiting.push((*socket, since_ns));
            }
        }
        waiting
    }

    fn search(
        &mut self,
        waiting: &[(FullSocket, u64)],
        root: &Root,
        files: &mut TaskFiles,
        machine: &[u8],
        tasks: Option<&Tasks>,
        namespaces: &mut NamespaceReader,
    ) -> Vec<UnixSenders> {
        let ends = waiting.iter().flat_map(|(socket, _)| [Some(socket.inode), socket.peer]);
        self.owners.search_now(root, ends.flatten());
        let inodes = waiting.iter().map(|(socket, _)| socket.inode);
        let threads = search_threads(&self.owners, inodes, root, files, machine);
        if threads.is_empty() {
            return Vec::new();
        }
        let ends: FxHashSet<u32> = waiting.iter().flat_map(|(socket, _)| [Some(socket.inode), socket.peer]).flatten().collect();
        let own = open_unix_diag().and_then(|mut socket| dump_names(&mut socket, &ends));
        let inside = namespaces.unix_sockets().filter_map(|socket| dump_names(socket, &ends).ok());
        let names: FxHashMap<u32, Name> = own.into_iter().chain(inside).flatten().collect();
        let mut rows: FxHashMap<RowKey, UnixSenders> = FxHashMap::default();
        let mut polling: FxHashMap<RowKey, FxHashSet<u32>> = FxHashMap::default();
        for &(socket, full_since_ns) in waiting {
            let Some(Some(threads)) = threads.get(&socket.inode) else { continue };
            let Some(owner) = self.owners.owner(socket.inode) else { continue };
            let process = tasks.and_then(|tasks| tasks.process(owner.0.pid));
            let Some(since_ns) = waiting_since(threads, (full_since_ns, socket.are_datagrams), process) else { continue };
            // The end of a server has the name of its listening socket: in poll it serves its other clients meanwhile.
            let is_client = !socket.are_datagrams && !names.contains_key(&socket.inode);
            let polls = is_client && !threads.polling.is_empty();
            if threads.sending.is_empty() && !polls {
                continue;
            }
            let receiver = socket.peer.and_then(|peer| self.owners.owner(peer));
            let address = socket.peer.and_then(|peer| names.get(&peer).cloned());
            let key = (owner.0, receiver.as_ref().map(|(process, _)| *process), socket.are_datagrams, address.clone());
            if polls {
                polling.entry(key.clone()).or_default().extend(&threads.polling);
            }
            let row = UnixSenders {
                owner,
                receiver,
                are_datagrams: socket.are_datagrams,
                address,
                sockets: 1,
                threads: u32::try_from(threads.sending.len()).unwrap_or(u32::MAX),
                polling_threads: 0,
                since_boottime_ns: since_ns,
                unread_bytes: u64::from(socket.unread_bytes),
                backlog: None,
            };
            match rows.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(row);
                }
                Entry::Occupied(mut entry) => add(entry.get_mut(), &row),
            }
        }
        for (key, tids) in polling {
            if let Some(row) = rows.get_mut(&key) {
                row.polling_threads = u32::try_from(tids.len()).unwrap_or(u32::MAX);
            }
        }
        let mut rows: Vec<UnixSenders> = rows.into_values().collect();
        rows.small_sort_by_key(|row| {
            let threads = row.threads.saturating_add(row.polling_threads);
            (std::cmp::Reverse(threads), row.owner.0, row.receiver.as_ref().map(|(process, _)| *process), row.are_datagrams)
        });
        rows.truncate(MAX_UNIX_SENDERS);
        rows
    }
}

/// Whether a thread with this wait channel may wait for room in a Unix socket.
fn is_unix_send(wchan: &Name) -> bool {
    matches!(wchan.as_bytes(), b"sock_alloc_send_pskb" | b"sock_wait_for_wmem" | b"unix_wait_for_peer")
}

/// Since when the first of the threads waits, of datagrams the last one: since the thread last ran, or, if no reading found that it ran,
/// since the socket is full. A thread that waits for a slow receiver runs now and then.
fn waiting_since(
    threads: &SleepingThreads,
    (full_since_ns, are_datagrams): (u64, bool),
    process: Option<&Arc<Process>>,
) -> Option<u64> {
    let last_ran = |tid: u32| process.and_then(|process| process.thread(tid)).and_then(|thread| thread.last_timeslice_ns);
    let sending = threads.sending.iter().map(|&tid| last_ran(tid).unwrap_or(full_since_ns));
    let polling = threads.polling.first().map(|_| full_since_ns);
    if are_datagrams { sending.max() } else { sending.chain(polling).min() }
}

/// Adds a row of one socket to the row of its process and receiver.
fn add(row: &mut UnixSenders, one: &UnixSenders) {
    row.sockets = row.sockets.saturating_add(one.sockets);
    row.threads = row.threads.saturating_add(one.threads);
    // Datagram sockets with one receiver share its queue: each datagram that it reads lets one of their threads proceed.
    if row.are_datagrams {
        row.since_boottime_ns = row.since_boottime_ns.max(one.since_boottime_ns);
        row.unread_bytes = row.unread_bytes.max(one.unread_bytes);
    } else {
        row.since_boottime_ns = row.since_boottime_ns.min(one.since_boottime_ns);
        row.unread_bytes = row.unread_bytes.saturating_add(one.unread_bytes);
    }
}
