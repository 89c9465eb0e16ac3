//! Idle-but-blocked, the headline figure: the share of CPU time that was available while a blocked thread could have used it.
//! An upper bound of what can be gained. docs/metrics.md, "Idle but blocked".
//!
//! Blocked threads are those on storage (in D, or asleep for asynchronous completions while a device has requests in flight),
//! those in memory reclaim, those that wait for a lock whose holder is known, and, in a group with a thread on storage, those that wait for a
//! lock or for a process of the group.
//! `blocked_counts` counts them in one sub-sample; `weighted_sub_samples` says how much time each sub-sample counts for.

mod blocked_counts;
pub mod kernel_locks;
mod weighted_sub_samples;

use rustc_hash::FxHashSet;

use crate::ids::{DiskId, GroupId};
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::cpu::CpuSpan;
use crate::interval::disk::DiskSpan;
use crate::interval::ipc_peers::IpcPeers;
use crate::interval::lock_holders::{HolderActivity, LockHolder, holder_of_group};
use crate::interval::locks::LockSpans;
use crate::interval::pressure::PressureSpan;
use crate::interval::server_connections::waiting_connections;
use crate::interval::task::TaskSpan;
use crate::interval::wait_counts::{GroupWaits, WaitCounts};
use crate::interval::wait_queues::{WaitQueueKind, WaitQueueSpan, wait_queues};
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Host, Name, Reading, Sample};
use crate::units::SmallSort;
use crate::units::reaches_threshold;
use blocked_counts::{BlockedCounts, GroupConditions, Holders};
use kernel_locks::{KernelLockCounter, KernelLocks};
use weighted_sub_samples::{WeightedSubSample, weighted_sub_samples};

/// Idle-but-blocked with its parts, as shares of all CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleBlocked {
    /// Share of all CPUs that was available while a blocked thread could have used it, 0 to 1
    pub ratio: f64,
    /// `ratio` as a number of CPUs
    pub cpus: f64,
    /// The same if each connection that waits for a blocked server were a blocked thread; at least `ratio`
    pub ratio_with_connections: f64,
    /// `available` − `ratio`: the share that is really free
    pub free: f64,
    /// idle + iowait as a share of all CPUs, over the same sub-samples
    pub available: f64,
    /// There may be blocked threads that were not counted: the figure is a lower bound and is shown with `≥`
    pub lower_bound: bool,
    /// Mean number of blocked threads
    pub blocked_threads: f64,
    /// Groups with blocked threads, most blocked threads first
    pub groups: Vec<BlockedGroup>,
    /// Threads that wait for locks inside the kernel and do not count as blocked; `None` if there were none
    pub kernel_locks: Option<KernelLocks>,
    pub cross_checks: CrossChecks,
    /// Number of sub-samples used
    pub sub_samples: u32,
}

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
    /// Threads that wait for a lock that is certainly held, in a group with a thread on storage
    pub lock_contended: f64,
    /// Threads in a futex wait that may be for a lock (inferred), in a group with a thread on storage
    pub lock_inferred: f64,
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

    /// Whether its chain ends at storage that is no block device of this host.
    pub fn is_non_block_storage(&self) -> bool {
        self.holder.as_ref().is_some_and(BlockedThread::is_non_block_storage)
    }

    /// Connections beyond the blocked threads: those that no blocked thread serves.
    pub fn connections_behind(&self) -> f64 {
        (self.waiting_connections.map_or(0.0, f64::from) - self.blocked_threads()).max(0.0)
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

/// What other metrics (iowait, PSI, D threads, in flight, run queue) say of the same interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrossChecks {
    pub iowait: Option<f64>,
    pub psi_io_some: Option<f64>,
    /// Mean number of threads in D, kernel threads excepted, and of threads in S that wait for reclaim or FUSE
    pub d_threads: f64,
    /// Mean number of requests in flight; `None` if diskstats could not be read
    pub in_flight: Option<f64>,
    /// Mean number of threads waiting for a CPU
    pub run_queue_wait: Option<f64>,
}

/// Without privilege an active thread with a hidden wait channel may wait for completions if at least so many requests were in flight on
/// average: with fewer there was nothing to wait for most of the time.
const MIN_COMPLETIONS_IN_FLIGHT: f64 = 0.5;

/// A device with at least this mean number of requests in flight is busy: below, threads that are on storage all the time do not wait for it.
const MIN_BUSY_CONCURRENCY: f64 = 0.2;

/// Mean number of threads on storage from which a holder on storage may be one of the group. docs/metrics.md, "Fixed thresholds".
const MIN_ON_STORAGE_THREADS: f64 = 0.05;

/// Other spans of the same interval that idle-but-blocked is computed from.
pub(super) struct Spans<'a> {
    pub cpu: Option<&'a CpuSpan>,
    pub tasks: Option<&'a TaskSpan>,
    pub pressure: &'a PressureSpan,
    pub disks: &'a [DiskSpan],
    pub blocked_threads: &'a [BlockedThread],
    pub wait_counts: &'a WaitCounts,
    pub locks: &'a LockSpans,
}

impl IdleBlocked {
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, spans: &Spans<'_>) -> Option<IdleBlocked> {
        let Spans { cpu, tasks, pressure, disks, blocked_threads, wait_counts, locks } = *spans;
        let cpus = newer.cpu.as_ref().ok()?.cpus.len().max(1) as f64;
        let weighted: Vec<WeightedSubSample> = weighted_sub_samples(host.ticks_per_second as f64, older, newer, cpus);
        let whole: f64 = weighted.iter().map(|entry| entry.seconds).sum();
        if whole <= 0.0 {
            return None;
        }
        let ipc_peers = IpcPeers::new(&newer.waits, wait_counts);
        let holders = Holders { futex: &locks.futex_holders, kernel: &locks.kernel_holders };
        let conditions = GroupConditions::new(older, newer, (wait_counts, &weighted), disks, (&ipc_peers, holders));
        let mut result =
            IdleBlocked { sub_samples: u32::try_from(weighted.len()).unwrap_or(u32::MAX), ..IdleBlocked::default() };
        let mut groups: Vec<Option<BlockedGroup>> = vec![None; newer.waits.groups.len()];
        let (mut in_flight, mut d_threads) = (Some(0.0), 0.0);
        let connections = waiting_connections(&newer.waits, wait_counts);
        let mut kernel_locks = KernelLockCounter::new(host, older, newer);
        for entry in &weighted {
            let part = entry.seconds / whole;
            let outstanding = entry.sub_sample.in_flight;
            in_flight = in_flight.zip(outstanding).map(|(sum, now)| sum + f64::from(now) * part);
            let rows = wait_counts.sub_samples.get(entry.index).map(Vec::as_slice).unwrap_or_default();
            let counted: Vec<BlockedCounts> = conditions.blocked_counts(rows, outstanding);
            let blocked: f64 = counted.iter().map(BlockedCounts::total).sum();
            let stuck = entry.available_cpus.min(blocked);
            result.cpus += stuck * part;
            let waiting: f64 = rows.iter().zip(&counted).map(|(row, counted)| waiters(counted, row.group, &connections)).sum();
            result.ratio_with_connections += entry.available_cpus.min(waiting) * part / cpus;
            result.available += entry.available_cpus * part / cpus;
            result.blocked_threads += blocked * part;
            if let Some(counter) = &mut kernel_locks {
                counter.add(entry.sub_sample, part, entry.available_cpus, |group| {
                    conditions.is_behind_storage(group, rows)
                        || conditions.is_kernel_lock_behind_storage(group)
                        || GroupConditions::is_in_reclaim(group, rows)
                });
            }
            for (row, counted) in rows.iter().zip(&counted) {
                d_threads += (f64::from(row.storage) + f64::from(row.memory) + f64::from(row.other_blocked)) * part;
                let index = usize::from(row.group);
                let (Some(slot), Some(id)) = (groups.get_mut(index), newer.waits.groups.get(index)) else { continue };
                if counted.total() > 0.0 {
                    let group = slot.get_or_insert_with(|| BlockedGroup::new(id, older, newer));
                    group.add(counted, part, stuck * part / cpus * counted.total() / blocked);
                }
            }
        }
        result.ratio = result.cpus / cpus;
        result.kernel_locks = kernel_locks.and_then(|counter| counter.finish(cpus, &locks.kernel_holders));
        // CPU time that no tick has counted is used all the same, though /proc/stat counts it as idle.
        if let Some(cpu) = cpu.filter(|cpu| cpu.hidden_cpus > 0.0) {
            result.available = result.available.min(cpu.available());
            result.limit_to_available(cpus, &mut groups);
        }
        result.free = (result.available - result.ratio).max(0.0);
        result.lower_bound = is_lower_bound(host, newer, wait_counts, in_flight);
        let mut found = Vec::new();
        let only_busy = only_busy_disk(newer, disks);
        for (index, group) in groups.into_iter().enumerate() {
            let Some(mut group) = group else { continue };
            let number = u16::try_from(index).unwrap_or(u16::MAX);
            group.wait_queues = wait_queues(&newer.waits, wait_counts, &ipc_peers, number, result.sub_samples);
            group.waiting_connections = connections.get(index).copied().unwrap_or(Ok(0));
            let kernel = holder_of_group(&locks.kernel_holders, index).filter(|holder| holder.is_behind_storage());
            group.lock_holder = holder_of_group(&locks.futex_holders, index).or(kernel).cloned();
            group.holder = find_holder(host, wait_counts, blocked_threads, index, &group);
            group.holder_device = holder_device(group.holder.as_ref(), only_busy);
            group.seen_on_storage = u32::try_from(threads_on_storage(blocked_threads, index).count()).unwrap_or(u32::MAX);
            found.push(group);
        }
        let waiters = |group: &BlockedGroup| group.blocked_threads() + group.connections_behind();
        found.small_sort_by(|a, b| waiters(b).total_cmp(&waiters(a)));
        result.groups = found;
        result.cross_checks = CrossChecks {
            iowait: cpu.map(|cpu| cpu.total.iowait),
            psi_io_some: pressure.io_some.map(|share| share.0),
            d_threads,
            in_flight,
            run_queue_wait: tasks.and_then(|tasks| tasks.run_queue_wait),
        };
        Some(result)
    }

    /// Reduces the blocked shares in proportion, so that together they are no more than what was available.
    fn limit_to_available(&mut self, cpus: f64, groups: &mut [Option<BlockedGroup>]) {
        self.ratio_with_connections = self.ratio_with_connections.min(self.available);
        if self.ratio <= self.available {
            return;
        }
        let part = self.available / self.ratio;
        self.ratio = self.available;
        self.cpus = self.ratio * cpus;
        groups.iter_mut().flatten().for_each(|group| group.ratio *= part);
    }
}

/// The blocked threads of a group in one sub-sample, or the connections that wait for them if there are more.
fn waiters(counted: &BlockedCounts, group: u16, connections: &[Reading<u32>]) -> f64 {
    let threads = counted.total();
    let connections = connections.get(usize::from(group)).map_or(0.0, |known| known.map_or(0.0, f64::from));
    if threads > 0.0 { threads.max(connections) } else { 0.0 }
}

/// Whether there may be more blocked threads than were counted: processes are hidden, the number of requests in flight is unknown
/// where it decides, or an active thread has a hidden wait channel and threads of its group are in D. Without privilege such a
/// thread may also wait for completions.
fn is_lower_bound(host: &Host, newer: &Sample, counts: &WaitCounts, in_flight: Option<f64>) -> bool {
    if newer.tasks.as_ref().is_ok_and(|tasks| tasks.hidden.processes) {
        return true;
    }
    let mut sub_samples = newer.waits.sub_samples.iter().zip(&counts.sub_samples);
    let needs_in_flight = |rows: &[GroupWaits]| rows.iter().any(|row| row.aio > 0 || row.hidden_blocked > 0);
    if sub_samples.any(|(sub_sample, rows)| sub_sample.in_flight.is_none() && needs_in_flight(rows)) {
        return true;
    }
    let rows = counts.sub_samples.iter().flatten();
    let in_d: FxHashSet<u16> = rows.filter(|row| row.storage > 0 || row.other_blocked > 0).map(|row| row.group).collect();
    let completions =
        !host.privilege.has_cap_sys_ptrace && in_flight.is_some_and(|requests| requests >= MIN_COMPLETIONS_IN_FLIGHT);
    let mut at_work = counts.threads.iter().filter(|waits| waits.count(WaitClass::Hidden) > 0);
    at_work.any(|waits| completions || in_d.contains(&waits.group))
}

impl BlockedGroup {
    fn new(id: &GroupId, older: &Sample, newer: &Sample) -> BlockedGroup {
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

    fn add(&mut self, counted: &BlockedCounts, part: f64, ratio: f64) {
        self.storage += counted.storage * part;
        self.aio += counted.aio * part;
        self.memory += counted.memory * part;
        self.hidden += counted.hidden * part;
        self.lock_contended += counted.lock_contended * part;
        self.lock_inferred += counted.lock_inferred * part;
        self.behind_ipc_peer += counted.behind_ipc_peer * part;
        self.ratio += ratio;
    }
}

/// Name and number of processes of a group. A group that has ended has the name under which it was last seen, in the older sample or by the
/// sub-samples.
pub fn group_label(id: &GroupId, older: &Sample, newer: &Sample) -> GroupLabel {
    let seen = [newer, older].into_iter().find_map(|sample| {
        let mut members = sample.tasks.as_ref().ok()?.members(id);
        let first = members.next()?;
        let processes = u32::try_from(members.count()).unwrap_or(u32::MAX).saturating_add(1);
        Some(GroupLabel { name: first.comm.clone(), processes, pid: (processes == 1).then_some(first.pid) })
    });
    seen.unwrap_or_else(|| {
        let index = newer.waits.groups.iter().position(|group| group == id);
        let at_work = newer.waits.blocked.iter().find(|thread| index == Some(usize::from(thread.group)));
        let name = at_work.map(|thread| thread.comm.clone()).unwrap_or_default();
        GroupLabel { name, processes: 0, pid: at_work.map(|thread| thread.task.pid) }
    })
}

/// Name of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupLabel {
    pub name: Name,
    pub processes: u32,
    /// Of a group of one process
    pub pid: Option<u32>,
}

fn threads_on_storage(blocked: &[BlockedThread], group: usize) -> impl Iterator<Item = &BlockedThread> {
    let there = move |thread: &&BlockedThread| usize::from(thread.group) == group && thread.class == WaitClass::Disk;
    blocked.iter().filter(there)
}

/// The thread at the end of a group's chain: of the process that /proc/locks names as holder of a file lock, if it keeps the lock; else the
/// one seen on storage most often. A contended lock is held through an fsync rather than through a read that missed the cache. If the lock
/// is passed around any holder will do, best one with a known file.
fn find_holder(
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
        let call = thread.syscall.and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
        queued && call.is_some_and(Syscall::is_fsync_family)
    };
    let rank = |thread: &&BlockedThread| {
        let is_named = Some(thread.task.pid) == named;
        (is_named && !goes_round, syncs(thread), thread.disk.is_some(), is_named, thread.seen_count)
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

/// The device of the holder's file, or the only busy device.
fn holder_device(holder: Option<&BlockedThread>, only_busy: Option<DiskId>) -> Option<(DiskId, DeviceEvidence)> {
    match holder {
        Some(holder) if holder.disk.is_some() => holder.disk.map(|disk| (disk, DeviceEvidence::File)),
        Some(holder) if holder.is_non_block_storage() => None,
        _ => only_busy.map(|disk| (disk, DeviceEvidence::OnlyBusy)),
    }
}

/// The only busy device. A device below another busy one is not counted.
fn only_busy_disk(newer: &Sample, disks: &[DiskSpan]) -> Option<DiskId> {
    let facts = newer.disks.as_ref().ok()?;
    let at_work =
        |span: &&DiskSpan| span.stalled || span.operations().map(|(_, op)| op.concurrency).sum::<f64>() >= MIN_BUSY_CONCURRENCY;
    let busy: Vec<&DiskSpan> = disks.iter().filter(at_work).collect();
    let below: Vec<DiskId> =
        busy.iter().filter_map(|span| facts.get(span.index)).flat_map(|disk| disk.facts.slaves.iter().copied()).collect();
    let mut top = busy.iter().filter(|span| !below.contains(&span.id));
    top.next().filter(|_| top.next().is_none()).map(|only| only.id)
}
