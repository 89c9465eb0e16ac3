//! Holders of locks that the locks themselves name, by the group of the threads that wait: of futex locks, and of locks inside the
//! kernel. docs/metrics.md, "Lock holders".

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::deadlocks::Deadlock;
pub use super::holder_activity::HolderActivity;
use super::lock_graph::{ChainEnd, ChainedThread, CycleKind, LockGraph, LockId, Owner};
pub use super::lock_graph::{ChainStep, is_believed};
use super::wait_counts::WaitCounts;
use crate::ids::TaskId;
use crate::sample::waits::{FutexWait, OwnerField, Waits};
use crate::units::{SmallSort, reaches_threshold};

/// The holder of the locks that threads of one group wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct LockHolder {
    /// Index into `Waits::groups`
    pub group: u16,
    /// Mean number of threads that wait for a lock whose holder is in `activity` or, of futex locks, in another one that is no `Event`
    pub waiters: f64,
    /// Of these, those whose holder did not run
    pub waiters_of_sleeping: f64,
    /// Share of the group's threads in contended futexes, or in locks inside the kernel, that these are, 0 to 1
    pub share: f64,
    /// What holders did while most threads waited
    pub activity: HolderActivity,
    /// The holder of the lock with most waiters, in that activity
    pub thread: BlockedThread,
    /// Of a holder that waits for another lock, or for a process of this host: the holder of that lock, or the thread of that process, and
    /// so on to the end of the chain
    pub chain: Vec<ChainedHolder>,
    /// Different threads that were seen in that activity with that lock held
    pub holders: u32,
    pub field: OwnerField,
    /// Part of `waiters`: those of the lock that `thread` holds, and of the locks of `chain`
    pub waiters_of_lock: f64,
    /// The holders of further locks, those with most waiters first
    pub other_locks: Vec<LockHolder>,
}

/// A thread for which the one before it waits.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainedHolder {
    pub thread: BlockedThread,
    pub activity: HolderActivity,
    /// Why
    pub step: ChainStep,
}

impl LockHolder {
    /// The thread at the end of the chain: the holder itself, or one for which it waits
    pub fn last_thread(&self) -> &BlockedThread {
        self.chain.last().map_or(&self.thread, |end| &end.thread)
    }

    /// What the thread at the end of the chain does
    pub fn last_activity(&self) -> HolderActivity {
        self.chain.last().map_or(self.activity, |end| end.activity)
    }

    /// Whether most of the threads wait for the lock that `thread` holds; otherwise `other_locks` must be named, too.
    pub fn has_one_lock(&self) -> bool {
        reaches_threshold(self.waiters_of_lock, self.waiters * MIN_ONE_LOCK_SHARE)
    }

    /// Whether most of the group's threads in locks inside the kernel wait, over that holder, for storage or for memory.
    pub fn is_behind_storage(&self) -> bool {
        matches!(self.last_activity(), HolderActivity::Storage | HolderActivity::Memory)
            && reaches_threshold(self.share, MIN_STORAGE_SHARE)
    }

    /// Whether most of the group's threads in such locks wait for a holder that is neither on storage nor in reclaim, nor in D for a reason
    /// that is not known. A reader is not the only holder.
    pub fn is_off_storage(&self) -> bool {
        use HolderActivity::{Lock, Memory, Storage, Uninterruptible};
        self.field != OwnerField::KernelReader
            && !matches!(self.last_activity(), Storage | Memory | Uninterruptible | Lock)
            && reaches_threshold(self.share, MIN_STORAGE_SHARE)
    }
}

/// Share of a group's threads in locks with a known holder from which what that does decides for all of them.
/// docs/metrics.md, "Fixed thresholds".
const MIN_STORAGE_SHARE: f64 = 0.5;

/// Share of the threads behind one lock from which the holders of the group's other locks are not named.
/// docs/metrics.md, "Fixed thresholds".
pub(super) const MIN_ONE_LOCK_SHARE: f64 = 0.9;

/// Holders of futex locks: one entry a group whose lock holders do something else than wait for an event; sorted by group.
pub fn futex_lock_holders(graph: &LockGraph, waits: &Waits, counts: &WaitCounts, cycles: &[Deadlock]) -> Vec<LockHolder> {
    let in_cycles = threads_in_cycles(cycles);
    let is_blocked = |owner: &Owner| {
        // Threads behind a leader that waits for work, at whatever distance, are followers.
        let is_no_leader = match graph.chain_end(owner, &in_cycles) {
            ChainEnd::Holder(path) => path.last().map_or(owner.activity, |end| end.activity) != HolderActivity::Event,
            ChainEnd::Cycle(_) => true,
            ChainEnd::Unknown => false,
        };
        !owner.field.is_of_kernel() && is_no_leader
    };
    let sub_samples = waits.sub_samples.len().max(1) as f64;
    holders_by_group(graph, &in_cycles, is_blocked, |group| contended_sightings(waits, counts, group) / sub_samples)
}

/// By index into `Waits::groups`: share of the threads in contended futexes whose lock names a holder at the end of whose chain a thread
/// waits for an event: a leader that waits for work, and its followers.
pub fn event_waiter_shares(graph: &LockGraph, waits: &Waits, counts: &WaitCounts, cycles: &[Deadlock]) -> Vec<f64> {
    let mut shares = vec![0.0; waits.groups.len()];
    if graph.owners.is_empty() {
        return shares;
    }
    let in_cycles = threads_in_cycles(cycles);
    for owner in graph.owners.iter().filter(|owner| !owner.field.is_of_kernel()) {
        let ChainEnd::Holder(path) = graph.chain_end(owner, &in_cycles) else { continue };
        if path.last().map_or(owner.activity, |end| end.activity) == HolderActivity::Event
            && let Some(waiters) = shares.get_mut(usize::from(owner.group))
        {
            *waiters += owner.waiters;
        }
    }
    let sub_samples = waits.sub_samples.len().max(1) as f64;
    for (group, share) in (0_u16..).zip(&mut shares).filter(|(_, share)| **share > 0.0) {
        *share = (*share * sub_samples / contended_sightings(waits, counts, group).max(1.0)).min(1.0);
    }
    shares
}

/// Holders of locks inside the kernel: one entry a group; sorted by group.
pub fn kernel_lock_holders(graph: &LockGraph, counts: &WaitCounts, cycles: &[Deadlock]) -> Vec<LockHolder> {
    let sub_samples = counts.sub_samples.len().max(1) as f64;
    let waiting = |group: u16| {
        let rows = counts.sub_samples.iter().flatten().filter(|row| row.group == group);
        rows.map(|row| f64::from(row.kernel_lock)).sum::<f64>() / sub_samples
    };
    holders_by_group(graph, &threads_in_cycles(cycles), |owner| owner.field.is_of_kernel(), waiting)
}

fn threads_in_cycles(cycles: &[Deadlock]) -> Vec<(TaskId, CycleKind)> {
    cycles.iter().flat_map(|cycle| cycle.threads.iter().map(|thread| (thread.wait.task, cycle.kind))).collect()
}

/// `waiting`: mean number of threads of a group in such locks, with or without a known holder.
fn holders_by_group(
    graph: &LockGraph,
    in_cycles: &[(TaskId, CycleKind)],
    counts: impl Fn(&Owner) -> bool,
    waiting: impl Fn(u16) -> f64,
) -> Vec<LockHolder> {
    let mut groups: FxHashMap<u16, Vec<&Owner>> = FxHashMap::default();
    for owner in graph.owners.iter().filter(|owner| counts(owner)) {
        groups.entry(owner.group).or_default().push(owner);
    }
    let holder = |(group, owners): (u16, Vec<&Owner>)| {
        let (locks, first) = holder_of_most(graph, in_cycles, &owners, waiting(group))?;
        let mut others: FxHashMap<LockId, Vec<&Owner>> = FxHashMap::default();
        for owner in owners.iter().filter(|owner| !locks.contains(&owner.lock)) {
            others.entry(owner.lock).or_default().push(owner);
        }
        let others = others.into_values().filter_map(|owners| holder_of_most(graph, in_cycles, &owners, waiting(group)));
        let mut other_locks: Vec<LockHolder> = others.map(|(_, holder)| holder).collect();
        other_locks
            .small_sort_by(|a, b| b.waiters.total_cmp(&a.waiters).then_with(|| a.thread.wait.task.cmp(&b.thread.wait.task)));
        Some(LockHolder { other_locks, ..first })
    };
    let mut list: Vec<LockHolder> = groups.into_iter().filter_map(holder).collect();
    list.small_sort_by_key(|holder| holder.group);
    list
}

/// The lock with most waiters among these of one group, with those of its chain, and its holder; the numbers are those of all. `waiting`: mean number of threads
/// of the group in such locks.
pub(super) fn holder_of_most(
    graph: &LockGraph,
    in_cycles: &[(TaskId, CycleKind)],
    owners: &[&Owner],
    waiting: f64,
) -> Option<(Vec<LockId>, LockHolder)> {
    let mut activities: FxHashMap<HolderActivity, f64> = FxHashMap::default();
    for owner in owners {
        *activities.entry(owner.activity).or_default() += owner.waiters;
    }
    let waiters: f64 = activities.values().sum();
    let waiters_of_running = activities.get(&HolderActivity::Running).copied().unwrap_or_default();
    let (activity, _) = activities.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)))?;
    let there = || owners.iter().filter(|owner| owner.activity == activity);
    let rank = |owner: &Owner| (owner.thread.wait.syscall.is_some(), owner.thread.wait.task);
    let most = *there().max_by(|a, b| a.waiters.total_cmp(&b.waiters).then_with(|| rank(a).cmp(&rank(b))))?;
    let holders: BTreeSet<TaskId> =
        there().filter(|owner| owner.lock == most.lock).map(|owner| owner.thread.wait.task).collect();
    let chained =
        |next: &ChainedThread| ChainedHolder { thread: next.thread.clone(), activity: next.activity, step: next.step };
    let mut locks = vec![most.lock];
    let (activity, chain) = match graph.chain_end(most, in_cycles) {
        ChainEnd::Holder(path) if path.last().is_some_and(|end| end.lock != Some(most.lock)) => {
            locks.extend(path.iter().filter_map(|next| next.lock));
            (activity, path.iter().map(chained).collect())
        }
        ChainEnd::Cycle(kind) => {
            let is_behind_cycle = |owner: &&&Owner| matches!(graph.chain_end(owner, in_cycles), ChainEnd::Cycle(_));
            locks.extend(owners.iter().filter(is_behind_cycle).map(|owner| owner.lock));
            let activity = match kind {
                CycleKind::Deadlock => HolderActivity::Deadlock,
                CycleKind::Timed => HolderActivity::TimedCycle,
            };
            (activity, Vec::new())
        }
        _ => (activity, Vec::new()),
    };
    let holder = LockHolder {
        group: most.group,
        waiters,
        waiters_of_sleeping: waiters - waiters_of_running,
        share: (waiters / waiting.max(f64::MIN_POSITIVE)).min(1.0),
        activity,
        thread: most.thread.clone(),
        chain,
        holders: u32::try_from(holders.len()).unwrap_or(u32::MAX),
        field: most.field,
        waiters_of_lock: owners.iter().filter(|owner| locks.contains(&owner.lock)).map(|owner| owner.waiters).sum(),
        other_locks: Vec::new(),
    };
    Some((locks, holder))
}

/// The entry of a group in a list that is sorted by group.
pub fn holder_of_group(holders: &[LockHolder], group: usize) -> Option<&LockHolder> {
    holders.iter().find(|holder| usize::from(holder.group) == group)
}

/// Sightings of threads of a group in a futex call that shows a held lock.
fn contended_sightings(waits: &Waits, counts: &WaitCounts, group: u16) -> f64 {
    let is_contended = |wait: u32| {
        let futex = counts.class_in_group(group, wait).and_then(|wait| wait.futex);
        matches!(
            futex,
            Some(
                FutexWait::ContendedMutex { .. }
                    | FutexWait::OwnerWord { .. }
                    | FutexWait::RwLock { .. }
                    | FutexWait::PiLock { .. }
                    | FutexWait::LightweightLock { .. }
                    | FutexWait::JavaLock { .. }
            )
        )
    };
    let rows = waits.sub_samples.iter().flat_map(|sub_sample| &sub_sample.waits);
    rows.filter(|row| row.group == group && is_contended(row.wait)).map(|row| f64::from(row.threads)).sum()
}
