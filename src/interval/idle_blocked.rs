//! Idle-but-blocked, the headline figure: the share of CPU time that was available while a blocked thread could have used it.
//! An upper bound of what can be gained. docs/metrics.md, "Idle but blocked".
//!
//! Blocked threads are those on storage (in D, or asleep for asynchronous completions while a device has requests in flight),
//! those in memory reclaim, those that wait for a lock whose holder is known, and, in a group with a thread on storage, those that wait for a
//! lock that it may hold, or for a process of the group.
//! `blocked_counts` counts them in one sub-sample, `blocked_group` sums them by group; `weighted_sub_samples` says how much time each
//! sub-sample counts for.

mod blocked_counts;
mod blocked_group;
pub mod kernel_locks;
mod weighted_sub_samples;

use rustc_hash::FxHashSet;

use crate::interval::aio_waits::AioWaits;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::cpu::CpuSpan;
use crate::interval::disk::DiskSpan;
use crate::interval::ipc_peers::IpcPeers;
use crate::interval::lock_holders::holder_of_group;
use crate::interval::locks::LockSpans;
use crate::interval::pressure::PressureSpan;
use crate::interval::server_connections::waiting_connections;
use crate::interval::storage_turns::StorageTurns;
use crate::interval::task::TaskSpan;
use crate::interval::wait_counts::{GroupWaits, WaitCounts};
use crate::interval::wait_queues::wait_queues;
use crate::sample::waits::WaitClass;
use crate::sample::{Host, Reading, Sample};
use crate::units::SmallSort;

pub use blocked_group::{BlockedGroup, DeviceEvidence, MIN_NAMED_THREADS};

use blocked_counts::{BlockedCounts, GroupConditions, Holders};
use blocked_group::{find_holder, holder_device, only_busy_disk, threads_on_storage};
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

impl CrossChecks {
    /// What does not come from sub-samples, and so belongs to the whole of an interval.
    pub(super) fn from_counters(cpu: Option<&CpuSpan>, pressure: &PressureSpan, tasks: Option<&TaskSpan>) -> CrossChecks {
        CrossChecks {
            iowait: cpu.map(|cpu| cpu.total.iowait),
            psi_io_some: pressure.io_some.map(|share| share.0),
            run_queue_wait: tasks.and_then(|tasks| tasks.run_queue_wait),
            ..CrossChecks::default()
        }
    }
}

/// Without privilege an active thread with a hidden wait channel may wait for completions if at least so many requests were in flight on
/// average: with fewer there was nothing to wait for most of the time.
const MIN_COMPLETIONS_IN_FLIGHT: f64 = 0.5;

/// Other spans of the same interval that idle-but-blocked is computed from.
pub(super) struct Spans<'a> {
    pub cpu: Option<&'a CpuSpan>,
    pub tasks: Option<&'a TaskSpan>,
    pub pressure: &'a PressureSpan,
    pub disks: &'a [DiskSpan],
    pub blocked_threads: &'a [BlockedThread],
    pub wait_counts: &'a WaitCounts,
    pub locks: &'a LockSpans,
    pub turns: &'a StorageTurns,
    pub aio_waits: &'a AioWaits,
}

impl IdleBlocked {
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, spans: &Spans<'_>) -> Option<IdleBlocked> {
        let Spans { cpu, tasks, pressure, disks, blocked_threads, wait_counts, locks, turns, aio_waits } = *spans;
        let cpus = newer.cpu.as_ref().ok()?.cpus.len().max(1) as f64;
        let weighted: Vec<WeightedSubSample> = weighted_sub_samples(host.ticks_per_second as f64, older, newer, cpus);
        let whole: f64 = weighted.iter().map(|entry| entry.seconds).sum();
        if whole <= 0.0 {
            return None;
        }
        let ipc_peers = IpcPeers::new(&newer.waits, wait_counts);
        let holders = Holders {
            futex: &locks.futex_holders,
            kernel: &locks.kernel_holders,
            event_waiter_shares: &locks.event_waiter_shares,
        };
        let conditions = GroupConditions::new(
            older,
            newer,
            (wait_counts, &weighted),
            (disks, aio_waits),
            (&ipc_peers, holders, turns),
            blocked_threads,
        );
        let mut result =
            IdleBlocked { sub_samples: u32::try_from(weighted.len()).unwrap_or(u32::MAX), ..IdleBlocked::default() };
        let mut groups: Vec<Option<BlockedGroup>> = vec![None; newer.waits.groups.len()];
        let (mut in_flight, mut d_threads) = (Some(0.0), 0.0);
        let connections = waiting_connections(&newer.waits, wait_counts);
        let mut kernel_locks = KernelLockCounter::new(host, older, newer, wait_counts);
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
                counter.add(entry.sub_sample, part, entry.available_cpus, |group, wait| {
                    let is_behind = match wait.is_lock {
                        true => conditions.is_kernel_lock_behind_storage(group, rows, wait.held_on_storage()),
                        false => conditions.is_behind_storage(group, rows),
                    };
                    is_behind || GroupConditions::is_in_reclaim(group, rows)
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
            if !group.waits_for_no_block_device() {
                group.holder_device = holder_device(group.thread_on_storage(), only_busy);
            }
            group.seen_on_storage = u32::try_from(threads_on_storage(blocked_threads, index).count()).unwrap_or(u32::MAX);
            found.push(group);
        }
        let waiters = |group: &BlockedGroup| group.blocked_threads() + group.connections_behind();
        found.small_sort_by(|a, b| waiters(b).total_cmp(&waiters(a)));
        result.groups = found;
        result.cross_checks = CrossChecks { d_threads, in_flight, ..CrossChecks::from_counters(cpu, pressure, tasks) };
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
    let mut hidden = counts.threads.iter().filter(|waits| waits.count(WaitClass::Hidden) > 0);
    hidden.any(|waits| completions || in_d.contains(&waits.group))
}
