//! Threads that wait for a mutex of their program while its holder uses no CPU: the mutex names its holder, or the holder is inferred.
//! docs/metrics.md, "Mutex queues".

use super::group_label::{GroupLabel, group_label};
use super::ipc_peers::IpcPeers;
use super::lock_graph::is_believed;
use super::lock_holders::{HolderActivity, LockHolder};
use super::wait_counts::{ThreadWaits, WaitCounts};
use super::wait_queues::{WaitQueueKind, wait_queues};
use crate::ids::GroupId;
use crate::sample::Sample;
use crate::sample::waits::WaitClass;
use crate::units::SmallSort;

/// Threads of a group that wait for a mutex, and their holders.
#[derive(Clone, Debug, PartialEq)]
pub struct MutexQueue {
    pub group: GroupId,
    pub label: GroupLabel,
    /// Mean number of threads that wait for the mutex; where the mutex names its holder, while that does not run
    pub threads: f64,
    /// Different holders that were seen
    pub holders: u32,
    /// The holder, where the mutex names it; otherwise it is inferred that it sleeps for a fixed time
    pub named: Option<LockHolder>,
}

/// Mean number of threads asleep for a fixed time among those of the queue: one holder at a time.
const ONE_HOLDER: std::ops::RangeInclusive<f64> = 0.5..=1.25;

/// Mean number of threads that run up to which the holder uses no CPU.
const MAX_RUNNING_HOLDERS: f64 = 0.2;

/// Fewer threads that were both waiter and holder prove nothing.
const MIN_HOLDERS: u32 = 2;

/// The queues of an interval, longest first.
pub fn mutex_queues(newer: &Sample, counts: &WaitCounts, lock_holders: &[LockHolder]) -> Vec<MutexQueue> {
    let waits = &newer.waits;
    let sub_samples = counts.sub_samples.len().max(1);
    let mean = |seen_count: u32| f64::from(seen_count) / sub_samples as f64;
    let mut groups: Vec<u16> =
        waits.wait_queues.iter().filter(|queue| queue.futex_address.is_some()).map(|queue| queue.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let named = lock_holders.iter().filter(|holder| is_off_cpu(holder.last_activity())).filter_map(|holder| {
        let id = waits.groups.get(usize::from(holder.group))?;
        let label = group_label(id, newer, newer);
        Some(MutexQueue {
            group: id.clone(),
            label,
            threads: holder.waiters_of_sleeping,
            holders: holder.holders,
            named: Some(holder.clone()),
        })
    });
    let mut found: Vec<MutexQueue> = named.collect();
    // Where owners were read nothing is inferred.
    groups.retain(|&group| !waits.lock_owners.iter().any(|row| row.group == group && is_believed(row.field)));
    let on_storage = counts.groups_on_storage(waits.groups.len(), counts.sub_samples.iter().map(|_| 1.0));
    for group in groups {
        let Some(id) = waits.groups.get(usize::from(group)) else { continue };
        let threads = || counts.threads.iter().filter(|thread| thread.group == group);
        let seen = |class: WaitClass, of: &dyn Fn(&ThreadWaits) -> bool| -> u32 {
            threads().filter(|thread| of(thread)).map(|thread| thread.count(class)).sum()
        };
        let was_both = |thread: &ThreadWaits| thread.count(WaitClass::Lock) > 0 && thread.count(WaitClass::Timer) > 0;
        let holders = u32::try_from(threads().filter(|thread| was_both(thread)).count()).unwrap_or(u32::MAX);
        if holders < MIN_HOLDERS || on_storage.get(usize::from(group)).copied().unwrap_or(false) {
            continue;
        }
        let is_one_at_a_time = ONE_HOLDER.contains(&mean(seen(WaitClass::Timer, &was_both)));
        let runs = mean(seen(WaitClass::Running, &|_| true)) > MAX_RUNNING_HOLDERS;
        if !is_one_at_a_time || runs {
            continue;
        }
        let queues = wait_queues(waits, counts, &IpcPeers::default(), group, u32::try_from(sub_samples).unwrap_or(u32::MAX));
        if let Some(queue) = queues.into_iter().find(|queue| queue.kind == WaitQueueKind::Mutex) {
            let label = group_label(id, newer, newer);
            found.push(MutexQueue { group: id.clone(), label, threads: queue.threads, holders, named: None });
        }
    }
    found.small_sort_by(|a, b| b.threads.total_cmp(&a.threads).then_with(|| a.group.cmp(&b.group)));
    found
}

/// Whether a holder keeps the others waiting without work of its own, other than on storage (that is idle-but-blocked).
fn is_off_cpu(activity: HolderActivity) -> bool {
    match activity {
        HolderActivity::Timer
        | HolderActivity::TimedWait
        | HolderActivity::RemoteHost(_)
        | HolderActivity::LocalProcess
        | HolderActivity::Child
        | HolderActivity::FullPipe
        | HolderActivity::FullSocket
        | HolderActivity::Stopped
        | HolderActivity::Uninterruptible => true,
        HolderActivity::Storage
        | HolderActivity::Memory
        | HolderActivity::Lock
        | HolderActivity::Deadlock
        | HolderActivity::TimedCycle
        | HolderActivity::Ended
        | HolderActivity::Running
        | HolderActivity::Event => false,
    }
}
