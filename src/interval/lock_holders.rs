//! Holders of futex locks that the locks themselves name, and what they do while other threads wait. docs/metrics.md, "Lock holders".

use std::collections::BTreeSet;
use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::deadlocks::Deadlock;
use super::remote_waits::awaits_answer;
use super::wait_counts::WaitCounts;
use crate::ids::TaskId;
use crate::sample::task::TaskState;
use crate::sample::waits::{FutexWait, LockOwner, OwnerField, Syscall, WaitClass, Waits};
use crate::sample::{Host, Sample};
use crate::units::SmallSort;

/// What the holder of a lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderActivity {
    /// On storage
    Storage,
    /// In memory reclaim
    Memory,
    /// In D for another reason: a lock or an operation of the kernel
    Uninterruptible,
    /// Asleep for a fixed time
    Timer,
    /// Asleep until this host answers its request
    RemoteHost(SocketAddr),
    /// Asleep until a child process ends
    Child,
    /// Asleep until another lock is released, whose holder does not wait for an event
    Lock,
    /// Asleep for a futex lock of a deadlock
    Deadlock,
    /// Stopped, traced or frozen
    Stopped,
    /// Runnable, on a CPU or not
    Running,
    /// Asleep until an event or data comes: a thread that waits for work under the lock, while the others have none (leader and
    /// followers), looks the same
    Event,
}

/// Locks that are followed from one holder to the next.
const MAX_CHAIN: usize = 8;

impl HolderActivity {
    /// Of one thread; that of `Lock` is decided by `chain_end`.
    fn new(owner: &BlockedThread, waits: &Waits) -> HolderActivity {
        match (owner.state, owner.class) {
            (TaskState::Running, _) => HolderActivity::Running,
            (TaskState::Stopped | TaskState::Traced, _) | (_, WaitClass::Frozen) => HolderActivity::Stopped,
            (_, WaitClass::Disk) => HolderActivity::Storage,
            (_, WaitClass::Memory) => HolderActivity::Memory,
            (_, WaitClass::Child | WaitClass::Vfork) => HolderActivity::Child,
            (TaskState::Blocked, _) => HolderActivity::Uninterruptible,
            (_, WaitClass::Timer) => HolderActivity::Timer,
            (_, WaitClass::Lock) => HolderActivity::Lock,
            (_, WaitClass::Net) => {
                let asked = waits.socket_waiters.iter().find(|waiter| waiter.task == owner.task && awaits_answer(waiter));
                asked.map_or(HolderActivity::Event, |waiter| HolderActivity::RemoteHost(waiter.remote))
            }
            _ => HolderActivity::Event,
        }
    }
}

/// The holder of the locks that threads of one group wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct LockHolder {
    /// Index into `Waits::groups`
    pub group: u16,
    /// Mean number of threads that wait for a lock whose holder is in `activity` or in another one that is no `Event`
    pub waiters: f64,
    /// Share of the group's threads in contended futexes that these are, 0 to 1
    pub share: f64,
    /// What holders did while most threads waited
    pub activity: HolderActivity,
    /// The holder of the lock with most waiters, in that activity
    pub thread: BlockedThread,
    /// Of a holder in `Lock`: the thread at the end of the chain of futex locks, and what it does
    pub chain_end: Option<(BlockedThread, HolderActivity)>,
    /// Different threads that were seen in that activity with that lock held
    pub holders: u32,
    pub field: OwnerField,
}

impl LockHolder {
    /// What the thread at the end of the chain of locks does
    pub fn last_activity(&self) -> HolderActivity {
        self.chain_end.as_ref().map_or(self.activity, |&(_, activity)| activity)
    }
}

/// One entry a group whose lock holders do something else than wait for an event; sorted by group.
pub fn lock_holders(host: &Host, newer: &Sample, counts: &WaitCounts, deadlocks: &[Deadlock]) -> Vec<LockHolder> {
    let waits = &newer.waits;
    let owners: Vec<Owner> = waits.lock_owners.iter().map(|row| Owner::new(host, waits, row)).collect();
    let mut groups: FxHashMap<u16, Vec<&Owner>> = FxHashMap::default();
    for owner in &owners {
        // Threads behind a leader that waits for work, at whatever distance, are followers.
        let is_blocked = match chain_end(&owners, owner, deadlocks) {
            ChainEnd::Holder(end) => end.activity != HolderActivity::Event,
            ChainEnd::Deadlock => true,
            ChainEnd::Unknown => false,
        };
        if is_blocked {
            groups.entry(owner.row.group).or_default().push(owner);
        }
    }
    let sub_samples = waits.sub_samples.len().max(1) as f64;
    let holder = |(group, there): (u16, Vec<&Owner>)| {
        let mut activities: FxHashMap<HolderActivity, u32> = FxHashMap::default();
        for owner in &there {
            let sum = activities.entry(owner.activity).or_default();
            *sum = sum.saturating_add(owner.row.waiters);
        }
        let waiters = f64::from(activities.values().fold(0_u32, |sum, &waiters| sum.saturating_add(waiters)));
        let (activity, _) = activities.into_iter().max_by_key(|&(activity, waiters)| (waiters, activity))?;
        let there = || there.iter().filter(|owner| owner.activity == activity);
        let most = *there().max_by_key(|owner| (owner.row.waiters, owner.thread.syscall.is_some(), owner.row.owner.task))?;
        let holders: BTreeSet<TaskId> =
            there().filter(|owner| owner.lock() == most.lock()).map(|owner| owner.thread.task).collect();
        let (activity, end) = match chain_end(&owners, most, deadlocks) {
            ChainEnd::Holder(end) if end.lock() != most.lock() => (activity, Some((end.thread.clone(), end.activity))),
            ChainEnd::Deadlock => (HolderActivity::Deadlock, None),
            _ => (activity, None),
        };
        Some(LockHolder {
            group,
            waiters: waiters / sub_samples,
            share: (waiters / contended_sightings(waits, counts, group).max(1.0)).min(1.0),
            activity,
            thread: most.thread.clone(),
            chain_end: end,
            holders: u32::try_from(holders.len()).unwrap_or(u32::MAX),
            field: most.row.field,
        })
    };
    let mut list: Vec<LockHolder> = groups.into_iter().filter_map(holder).collect();
    list.small_sort_by_key(|holder| holder.group);
    list
}

/// The entry of a group in a list that is sorted by group.
pub fn holder_of_group(holders: &[LockHolder], group: usize) -> Option<&LockHolder> {
    holders.iter().find(|holder| usize::from(holder.group) == group)
}

struct Owner<'a> {
    activity: HolderActivity,
    thread: BlockedThread,
    /// Address of the futex lock that it waits for itself
    wanted: Option<u64>,
    row: &'a LockOwner,
}

impl<'a> Owner<'a> {
    fn new(host: &Host, waits: &Waits, row: &'a LockOwner) -> Owner<'a> {
        let thread = BlockedThread::new(host.machine.as_bytes(), &row.owner);
        let call = row.owner.syscall.and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
        let wanted = call.filter(|call| call.is_contended_futex()).and_then(Syscall::futex_wait).map(FutexWait::address);
        Owner { activity: HolderActivity::new(&thread, waits), thread, wanted, row }
    }

    /// The lock that it holds: an address of its process
    fn lock(&self) -> (u32, u64) {
        (self.thread.task.pid, self.row.futex_address)
    }
}

/// Where a chain of futex locks leads.
enum ChainEnd<'a, 'b> {
    /// To a holder that does not wait for a futex lock
    Holder(&'b Owner<'a>),
    /// To a thread of a deadlock
    Deadlock,
    /// To a lock whose holder is not known, over too many locks, or back to a thread of the chain, which then took its locks one after the
    /// other
    Unknown,
}

/// Follows the locks from a holder to the holder of the lock for which it waits, and so on.
fn chain_end<'a, 'b>(owners: &'b [Owner<'a>], first: &'b Owner<'a>, deadlocks: &[Deadlock]) -> ChainEnd<'a, 'b> {
    let mut last = first;
    for _ in 0..MAX_CHAIN {
        let Some(wanted) = last.wanted else { return ChainEnd::Holder(last) };
        let wanted = (last.thread.task.pid, wanted);
        let next = owners.iter().filter(|owner| owner.lock() == wanted).max_by_key(|owner| owner.row.owner.seen_count);
        let Some(next) = next else { return ChainEnd::Unknown };
        if deadlocks.iter().flat_map(|deadlock| &deadlock.threads).any(|thread| thread.task == next.thread.task) {
            return ChainEnd::Deadlock;
        }
        last = next;
    }
    ChainEnd::Unknown
}

/// Sightings of threads of a group in a futex call that shows a held lock.
fn contended_sightings(waits: &Waits, counts: &WaitCounts, group: u16) -> f64 {
    let is_contended = |wait: u32| {
        let futex = counts.class_of(wait).and_then(|wait| wait.futex);
        matches!(futex, Some(FutexWait::ContendedMutex { .. } | FutexWait::PiLock { .. }))
    };
    let rows = waits.sub_samples.iter().flat_map(|sub_sample| &sub_sample.waits);
    rows.filter(|row| row.group == group && is_contended(row.wait)).map(|row| f64::from(row.threads)).sum()
}
