//! A group with blocked threads, the holder at the end of its wait chain, and the device that the holder waits for.

use super::blocked_counts::{BlockedCounts, is_on_unknown_wait_of_device};
use crate::ids::{DiskId, GroupId};
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::disk::DiskSpan;
use crate::interval::group_label::{GroupLabel, group_label};
use crate::interval::lock_holders::{HolderActivity, LockHolder};
use crate::interval::wait_counts::WaitCounts;
use crate::interval::wait_queues::{WaitQueueKind, WaitQueueSpan};
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Host, Name, Reading, Sample};
use crate::units::reaches_threshold;

/// A device with at least this mean number of requests in flight is busy: below, threads that are on storage all the time do not wait for it.
const MIN_BUSY_CONCURRENCY: f64 = 0.2;

/// Mean number of threads on storage from which a holder on storage may be one of the group. docs/metrics.md, "Fixed thresholds".
const MIN_ON_STORAGE_THREADS: f64 = 0.05;

/// From so many threads on average what they wait for is named: fewer wait only briefly.
pub const MIN_NAMED_THREADS: f64 = 0.5;

/// A process, or sibling processes, with blocked threads. Thread counts are means over the sub-samples.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedGroup {
    pub group: GroupId,
    /// Name of its process, or of its siblings
    pub name: Name,
    pub processes: u32,
    /// Its pid, if the group is one process
    pub pid: Option<u32>,
    /// Threads on storage: in D in the block or file system layer, or waiting for FUSE
    pub storage: f64,
    /// Threads asleep for asynchronous completions
    pub aio: f64,
    /// Threads in memory reclaim
    pub memory: f64,
    /// Threads in D with a hidden wait channel while some device had requests in flight
    pub hidden: f64,
    /// Threads that wait for a lock that is certainly held, where its holder is known or a thread of the group is on storage
    pub lock_contended: f64,
    /// Threads in a futex wait that may be for a lock (inferred), where a thread of the group is on storage
    pub lock_inferred: f64,
    /// Part of `lock_inferred`: no thread of the group was seen to take its turn on storage
    pub lock_unconfirmed: f64,
    /// Threads that wait in a pipe or socket for a process of the group that is on storage
    pub behind_ipc_peer: f64,
    /// Its part of `IdleBlocked::ratio`
    pub ratio: f64,
    /// The thread at the end of the wait chain: the holder of the lock, or the thread seen on storage most often
    pub holder: Option<BlockedThread>,
    /// The holder of the lock that most of its threads wait for, where the lock names it
    pub lock_holder: Option<LockHolder>,
    /// The device that the holder waits for
    pub holder_device: Option<(DiskId, DeviceEvidence)>,
    /// Number of different threads that were seen on storage in this interval
    pub seen_on_storage: u32,
    /// Queues in which its threads wait, most waiters first
    pub wait_queues: Vec<WaitQueueSpan>,
    /// Connections of clients that wait for its processes, at the sample; an error if none is known and its sockets could not be read
    pub waiting_connections: Reading<u32>,
}

impl BlockedGroup {
    /// Mean number of threads behind a lock.
    pub fn behind_lock(&self) -> f64 {
        self.lock_contended + self.lock_inferred
    }

    /// The named holder of the lock that most of its threads wait for, if it is not a thread of the group on storage: then the wait chain
    /// ends at it.
    pub fn holder_off_storage(&self) -> Option<&LockHolder> {
        let is_outside = |holder: &LockHolder| holder.field.is_of_kernel() && self.storage < MIN_ON_STORAGE_THREADS;
        self.lock_holder.as_ref().filter(|holder| holder.activity != HolderActivity::Storage || is_outside(holder))
    }

    /// Whether its chain ends at no block device of this host: at other storage, or at a holder of its lock that waits for something
    /// else, or computes.
    pub fn waits_for_no_block_device(&self) -> bool {
        self.holder.as_ref().is_some_and(BlockedThread::is_non_block_storage) || self.is_behind_other_activity()
    }

    fn is_behind_other_activity(&self) -> bool {
        let on_storage = self.storage + self.aio + self.memory + self.hidden;
        on_storage < MIN_ON_STORAGE_THREADS && self.lock_holder.as_ref().is_some_and(LockHolder::is_off_storage)
    }

    /// The thread on storage at the end of its chain: the holder, or the one for which the holder of its lock waits in the end.
    pub fn thread_on_storage(&self) -> Option<&BlockedThread> {
        let is_behind = |holder: &&LockHolder| holder.last_activity() == HolderActivity::Storage;
        self.holder.as_ref().or_else(|| self.lock_holder.as_ref().filter(is_behind).map(LockHolder::last_thread))
    }

    /// Connections beyond the blocked threads: those that no blocked thread serves.
    pub fn connections_behind(&self) -> f64 {
        (self.waiting_connections.map_or(0.0, f64::from) - self.blocked_threads()).max(0.0)
    }

    /// Whether its threads wait for locks, and not only briefly.
    pub fn has_lock_queue(&self) -> bool {
        self.behind_lock() >= MIN_NAMED_THREADS
    }

    /// Mean number of blocked threads.
    pub fn blocked_threads(&self) -> f64 {
        self.storage + self.aio + self.memory + self.hidden + self.behind_lock() + self.behind_ipc_peer
    }
}

/// How it is known which device a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceEvidence {
    /// The descriptor of its system call leads to a file on that device.
    File,
    /// It is the only device with requests in flight.
    OnlyBusy,
}

impl BlockedGroup {
    pub(super) fn new(id: &GroupId, older: &Sample, newer: &Sample) -> BlockedGroup {
        let GroupLabel { name, processes, pid } = group_label(id, older, newer);
        BlockedGroup {
            group: id.clone(),
            name,
            processes,
            pid,
            storage: 0.0,
            aio: 0.0,
            memory: 0.0,
            hidden: 0.0,
            lock_contended: 0.0,
            lock_inferred: 0.0,
            lock_unconfirmed: 0.0,
            behind_ipc_peer: 0.0,
            ratio: 0.0,
            holder: None,
            lock_holder: None,
            holder_device: None,
            seen_on_storage: 0,
            wait_queues: Vec::new(),
            waiting_connections: Ok(0),
        }
    }

    pub(super) fn add(&mut self, counted: &BlockedCounts, part: f64, ratio: f64) {
        self.storage += counted.storage * part;
        self.aio += counted.aio * part;
        self.memory += counted.memory * part;
        self.hidden += counted.hidden * part;
        self.lock_contended += counted.lock_contended * part;
        self.lock_inferred += counted.lock_inferred * part;
        self.lock_unconfirmed += counted.lock_unconfirmed * part;
        self.behind_ipc_peer += counted.behind_ipc_peer * part;
        self.ratio += ratio;
    }
}

pub(super) fn threads_on_storage(blocked: &[BlockedThread], group: usize) -> impl Iterator<Item = &BlockedThread> {
    let is_on_storage = |thread: &BlockedThread| thread.class == WaitClass::Disk || is_on_unknown_wait_of_device(thread);
    let there = move |thread: &&BlockedThread| usize::from(thread.wait.group) == group && is_on_storage(thread);
    blocked.iter().filter(there)
}

/// The thread at the end of a group's chain: of the process that /proc/locks names as holder of a file lock, if it keeps the
/// lock; else the one seen on storage most often. A contended lock is held through an fsync rather than through a read that
/// missed the cache. If the lock passes from thread to thread, any holder is right, best one with a known file.
pub(super) fn find_holder(
    host: &Host,
    counts: &WaitCounts,
    blocked: &[BlockedThread],
    index: usize,
    group: &BlockedGroup,
) -> Option<BlockedThread> {
    let exact = group.lock_holder.as_ref().filter(|holder| holder.activity == HolderActivity::Storage);
    if let Some(exact) = exact.filter(|_| reaches_threshold(group.behind_lock(), 1.0)) {
        return Some(exact.thread.clone());
    }
    let first = group.wait_queues.first();
    let named = first.and_then(|queue| queue.holder);
    let goes_round = first.is_some_and(|queue| queue.kind == WaitQueueKind::FileLock)
        && named.is_some_and(|pid| mostly_waits_for_locks(counts, pid));
    let queued = reaches_threshold(group.behind_lock(), 1.0);
    let syncs = |thread: &BlockedThread| {
        let call = thread.wait.syscall.and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
        queued && call.is_some_and(Syscall::is_fsync_family)
    };
    let rank = |thread: &&BlockedThread| {
        let is_named = Some(thread.wait.task.pid) == named;
        (is_named && !goes_round, syncs(thread), thread.wait.disk.is_some(), is_named, thread.wait.seen_count)
    };
    threads_on_storage(blocked, index).max_by_key(rank).cloned()
}

/// Whether a process is on storage for a shorter time than it waits for locks: it holds its lock only for a moment.
fn mostly_waits_for_locks(counts: &WaitCounts, pid: u32) -> bool {
    let threads = counts.process_threads(pid).iter().filter(|thread| thread.count(WaitClass::Disk) > 0);
    let (locks, storage) = threads.fold((0, 0), |(locks, storage), thread| {
        (locks + thread.count(WaitClass::Lock), storage + thread.count(WaitClass::Disk))
    });
    locks > storage
}

/// The device of the holder's file, or the only busy device, unless the file is on a server or a user-space file system.
pub(super) fn holder_device(holder: Option<&BlockedThread>, only_busy: Option<DiskId>) -> Option<(DiskId, DeviceEvidence)> {
    match holder {
        Some(holder) if holder.wait.disk.is_some() => holder.wait.disk.map(|disk| (disk, DeviceEvidence::File)),
        Some(holder) if holder.is_non_block_storage() => None,
        _ => only_busy.map(|disk| (disk, DeviceEvidence::OnlyBusy)),
    }
}

/// Whether the device has requests in flight, on average, for which threads may wait all the time.
pub(super) fn is_busy(span: &DiskSpan) -> bool {
    span.stalled || span.operations().map(|(_, op)| op.concurrency).sum::<f64>() >= MIN_BUSY_CONCURRENCY
}

/// The only busy device. A device below another busy one is not counted.
pub(super) fn only_busy_disk(newer: &Sample, disks: &[DiskSpan]) -> Option<DiskId> {
    let facts = newer.disks.as_ref().ok()?;
    let busy: Vec<&DiskSpan> = disks.iter().filter(|span| is_busy(span)).collect();
    let below: Vec<DiskId> =
        busy.iter().filter_map(|span| facts.get(span.index)).flat_map(|disk| disk.facts.slaves.iter().copied()).collect();
    let mut top = busy.iter().filter(|span| !below.contains(&span.id));
    top.next().filter(|_| top.next().is_none()).map(|only| only.id)
}
