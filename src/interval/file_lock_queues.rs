//! Queues for file locks (flock, fcntl) whose holder /proc/locks names. docs/metrics.md, "File lock queues".

use super::blocked_threads::BlockedThread;
use super::group_label::{GroupLabel, group_label};
use super::ipc_peers::IpcPeers;
use super::wait_counts::{ThreadWaits, WaitCounts};
use super::wait_queues::{WaitQueueKind, WaitQueueSpan, file_lock_holders, wait_queues};
use crate::ids::GroupId;
use crate::sample::waits::{WaitClass, WaitQueue};
use crate::sample::{Name, Sample};
use crate::units::SmallSort;

/// Threads of a group that wait for the lock of a file, and the process that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileLockQueue {
    pub group: GroupId,
    /// Name of the first process that waits, their number, and the pid if it is one
    pub label: GroupLabel,
    /// Its `kind` is `FileLock`
    pub queue: WaitQueueSpan,
    /// Pid of the process that /proc/locks named as holder at the sample
    pub holder: u32,
    /// What the holder did in the interval
    pub activity: FileLockHolderActivity,
    /// File and holder of the lock that the holder waits for itself, if that is another one
    pub next: Option<(Option<Name>, u32)>,
}

/// What the holder of a lock does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLockHolderActivity {
    /// Its threads are on storage or in memory reclaim
    OnStorage,
    /// Its threads run
    Running,
    /// It waits for locks itself: the lock is passed on
    InQueue,
    /// It waits for a lock all the time, has not run for `MIN_STANDING_NS`, and its group is not on storage: no lock is passed on
    InStandingQueue,
    /// None of these: it sleeps, or is stopped
    Asleep,
}

/// Share of the sub-samples from which a holder is on storage, runs, or waits for locks itself.
const MIN_ACTIVITY_SHARE: f64 = 0.2;

/// A process that was given a lock has run since.
const MIN_STANDING_NS: u64 = 2_000_000_000;

/// Share of the sub-samples in which such a holder waits for a lock.
const MIN_STANDING_SHARE: f64 = 0.9;

/// The queues of an interval, longest first.
pub fn file_lock_queues(newer: &Sample, counts: &WaitCounts, blocked: &[BlockedThread]) -> Vec<FileLockQueue> {
    let waits = &newer.waits;
    let sub_samples = u32::try_from(counts.sub_samples.len()).unwrap_or(u32::MAX);
    let mut found: Vec<FileLockQueue> = Vec::new();
    for (group, _) in file_lock_holders(waits, counts) {
        let Some(id) = waits.groups.get(usize::from(group)) else { continue };
        if found.iter().any(|known| known.group == *id) {
            continue;
        }
        let queues = wait_queues(waits, counts, &IpcPeers::default(), group, sub_samples);
        let queue = queues.into_iter().find(|queue| queue.kind == WaitQueueKind::FileLock);
        let Some((holder, queue)) = queue.and_then(|queue| Some((queue.holder?, queue))) else {
            continue;
        };
        // A process that has ended holds nothing.
        if newer.tasks.as_ref().is_ok_and(|tasks| tasks.process(holder).is_none()) {
            continue;
        }
        let activity = FileLockHolderActivity::new(newer, counts, blocked, holder);
        found.push(FileLockQueue {
            group: id.clone(),
            label: waiters_label(newer, counts, group, id),
            queue,
            holder,
            activity,
            next: next_lock(newer, counts, holder),
        });
    }
    found.small_sort_by(|a, b| b.queue.threads.total_cmp(&a.queue.threads).then_with(|| a.group.cmp(&b.group)));
    found
}

/// File and holder of the file lock that the group of a process waits for, if another process holds it.
fn next_lock(newer: &Sample, counts: &WaitCounts, pid: u32) -> Option<(Option<Name>, u32)> {
    let group = newer.tasks.as_ref().ok()?.process(pid)?.group();
    let index = newer.waits.groups.iter().position(|other| *other == group)?;
    let is_other =
        |queue: &&WaitQueue| usize::from(queue.group) == index && queue.lock_holder.is_some_and(|other| other != pid);
    let is_file_lock = |queue: &&WaitQueue| counts.class_of(queue.wait).is_some_and(|wait| wait.is_file_lock);
    let queue = newer.waits.wait_queues.iter().filter(is_file_lock).find(is_other)?;
    Some((queue.file.clone(), queue.lock_holder?))
}

/// The processes of a group that wait for locks: the holder may be of the same group.
fn waiters_label(newer: &Sample, counts: &WaitCounts, group: u16, id: &GroupId) -> GroupLabel {
    let waits = |thread: &&ThreadWaits| thread.group == group && thread.count(WaitClass::Lock) > 0;
    let mut pids: Vec<u32> = counts.threads.iter().filter(waits).map(|thread| thread.task.pid).collect();
    pids.dedup();
    if pids.is_empty() {
        return group_label(id, newer, newer);
    }
    let process = pids.iter().find_map(|&pid| newer.tasks.as_ref().ok()?.process(pid));
    GroupLabel {
        name: process.map(|process| process.comm.clone()).unwrap_or_default(),
        processes: u32::try_from(pids.len()).unwrap_or(u32::MAX),
        pid: pids.first().copied().filter(|_| pids.len() == 1),
    }
}

impl FileLockHolderActivity {
    fn new(newer: &Sample, counts: &WaitCounts, blocked: &[BlockedThread], holder: u32) -> FileLockHolderActivity {
        let threads = counts.process_threads(holder);
        let least = counts.sub_samples.len().max(1) as f64 * MIN_ACTIVITY_SHARE;
        let is_in = |classes: &[WaitClass]| {
            let seen_count: u32 = threads.iter().flat_map(|thread| classes.iter().map(|&class| thread.count(class))).sum();
            f64::from(seen_count) >= least
        };
        let is_on_storage = || {
            let of_holder = blocked.iter().filter(|thread| thread.wait.task.pid == holder);
            let there = of_holder.filter(|thread| matches!(thread.class, WaitClass::Disk | WaitClass::Memory));
            there.map(|thread| u32::from(thread.wait.seen_count)).sum::<u32>() >= 1
        };
        let stands = || {
            let in_lock: u32 = threads.iter().map(|thread| thread.count(WaitClass::Lock)).sum();
            let on_storage = counts.groups_on_storage(newer.waits.groups.len(), counts.sub_samples.iter().map(|_| 1.0));
            let is_group_on_storage =
                threads.iter().any(|thread| on_storage.get(usize::from(thread.group)).copied().unwrap_or(false));
            f64::from(in_lock) >= counts.sub_samples.len().max(1) as f64 * MIN_STANDING_SHARE
                && !has_run(newer, holder)
                && !is_group_on_storage
                && !is_on_storage()
        };
        match () {
            () if stands() => FileLockHolderActivity::InStandingQueue,
            () if is_in(&[WaitClass::Lock]) => FileLockHolderActivity::InQueue,
            () if is_in(&[WaitClass::Disk, WaitClass::Memory]) || is_on_storage() => FileLockHolderActivity::OnStorage,
            () if is_in(&[WaitClass::Running]) => FileLockHolderActivity::Running,
            () => FileLockHolderActivity::Asleep,
        }
    }
}

/// Whether a thread of the process ran within `MIN_STANDING_NS`.
fn has_run(newer: &Sample, pid: u32) -> bool {
    let Some(process) = newer.tasks.as_ref().ok().and_then(|tasks| tasks.process(pid)) else { return true };
    let last_ns = process.threads.iter().filter_map(|thread| thread.last_timeslice_ns).max();
    last_ns.is_some_and(|last_ns| newer.at.boottime_ns.saturating_sub(last_ns) < MIN_STANDING_NS)
}
