//! Queues for file locks (flock, fcntl) whose holder /proc/locks names. docs/metrics.md, "File lock queues".

use super::blocked_threads::BlockedThread;
use super::idle_blocked::{GroupLabel, group_label};
use super::ipc_peers::IpcPeers;
use super::wait_counts::{ThreadWaits, WaitCounts};
use super::wait_queues::{WaitQueueKind, WaitQueueSpan, file_lock_holders, wait_queues};
use crate::ids::GroupId;
use crate::sample::Sample;
use crate::sample::waits::WaitClass;

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
    pub activity: HolderActivity,
}

/// What the holder of a lock does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderActivity {
    /// Its threads are on storage or in memory reclaim
    OnStorage,
    /// Its threads run
    Running,
    /// It waits for locks itself: the lock is passed on
    InQueue,
    /// None of these: it sleeps, or is stopped
    Asleep,
}

/// Share of the sub-samples from which a holder is on storage, runs, or waits for locks itself.
const MIN_ACTIVITY_SHARE: f64 = 0.2;

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
        let activity = HolderActivity::new(counts, blocked, holder);
        found.push(FileLockQueue {
            group: id.clone(),
            label: waiters_label(newer, counts, group, id),
            queue,
            holder,
            activity,
        });
    }
    found.sort_by(|a, b| b.queue.threads.total_cmp(&a.queue.threads).then_with(|| a.group.cmp(&b.group)));
    found
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

impl HolderActivity {
    fn new(counts: &WaitCounts, blocked: &[BlockedThread], holder: u32) -> HolderActivity {
        let threads = counts.process_threads(holder);
        let least = counts.sub_samples.len().max(1) as f64 * MIN_ACTIVITY_SHARE;
        let is_in = |classes: &[WaitClass]| {
            let seen_count: u32 = threads.iter().flat_map(|thread| classes.iter().map(|&class| thread.count(class))).sum();
            f64::from(seen_count) >= least
        };
        let is_on_storage = || {
            let of_holder = blocked.iter().filter(|thread| thread.task.pid == holder);
            let there = of_holder.filter(|thread| matches!(thread.class, WaitClass::Disk | WaitClass::Memory));
            there.map(|thread| u32::from(thread.seen_count)).sum::<u32>() >= 1
        };
        match () {
            () if is_in(&[WaitClass::Lock]) => HolderActivity::InQueue,
            () if is_in(&[WaitClass::Disk, WaitClass::Memory]) || is_on_storage() => HolderActivity::OnStorage,
            () if is_in(&[WaitClass::Running]) => HolderActivity::Running,
            () => HolderActivity::Asleep,
        }
    }
}
