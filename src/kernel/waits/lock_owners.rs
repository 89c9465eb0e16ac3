//! Reads the owners of futex locks for which threads wait: the owner's thread id from the memory of the process
//! (process_vm_readv, `futex_words`), and what that thread does (`holder_wait`).
//!
//! process_vm_readv takes the same permission as /proc/PID/syscall, which led to the futex address.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::futex_words::{LockLayout, NamedOwner, read_owner};
use super::holder_wait::{is_same_wait, read_holder_wait};
use super::namespace_tids::NamespaceTids;
use crate::ids::TaskId;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::{parse_stat, parse_tgid};
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, FutexWait, LockOwner, MAX_LOCK_OWNERS, OwnerField};
use crate::sample::{Absent, Name};
use crate::units::SmallSort;

/// Locks whose owner is read in one sub-sample, those with the most waiters first: each takes about 25 µs.
const MAX_LOCKS: usize = 8;

/// The locks for which threads wait, and the owners seen since the last sample.
#[derive(Debug, Default)]
pub struct LockOwners {
    /// Of the current sub-sample
    locks: FxHashMap<LockPlace, (FutexLock, LockLayout)>,
    rows: Vec<LockOwner>,
    tids: NamespaceTids,
}

/// Where threads wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum LockPlace {
    /// At an address of a process with this pid
    Private { pid: u32, address: u64 },
    /// At the same address of the processes of a group, which share its memory
    Shared { group: u16, address: u64 },
}

/// A futex lock for which threads wait.
#[derive(Clone, Copy, Debug)]
pub struct FutexLock {
    pub group: u16,
    /// Of the thread seen last; of a shared lock its memory is read
    pub pid: u32,
    pub address: u64,
    pub is_shared: bool,
    pub field: OwnerField,
    pub waiters: u32,
}

impl LockOwners {
    /// Begins a sub-sample.
    pub fn clear_waiters(&mut self) {
        self.locks.clear();
    }

    /// Counts a thread that waits for a lock that another thread holds, by its futex call. `is_shared`: the lock is in memory that
    /// processes share.
    pub fn add_waiter(&mut self, group: u16, pid: u32, wait: FutexWait, is_shared: bool) {
        let Some((layout, address)) = LockLayout::of_wait(wait) else { return };
        let place = match is_shared {
            true => LockPlace::Shared { group, address },
            false => LockPlace::Private { pid, address },
        };
        let lock = FutexLock { group, pid, address, is_shared, field: layout.field(), waiters: 0 };
        let (lock, _) = self.locks.entry(place).or_insert((lock, layout));
        lock.waiters = lock.waiters.saturating_add(1);
    }

    /// Ends the sub-sample with this number: reads the owners of the locks with the most waiters.
    pub fn read_owners(&mut self, files: &mut TaskFiles, (sub_sample, now_ns): (u16, u64)) {
        let mut locks: Vec<(LockPlace, (FutexLock, LockLayout))> = self.locks.drain().collect();
        locks.small_sort_by_key(|&(place, (lock, _))| (Reverse(lock.waiters), place));
        for (_, (lock, layout)) in locks.into_iter().take(MAX_LOCKS) {
            if let Some(owner) = self.read_owner(files, lock, layout) {
                self.record(lock, BlockedWait { last_sub_sample: sub_sample, blocked_since_ns: now_ns, ..owner });
            }
        }
    }

    /// Ends the interval.
    pub fn finish_interval(&mut self) -> Vec<LockOwner> {
        self.tids.finish_interval();
        let mut rows = std::mem::take(&mut self.rows);
        if rows.len() > MAX_LOCK_OWNERS {
            rows.small_sort_by_key(|row| (row.field.is_unconfirmed(), Reverse(row.waiters), row.group, row.futex_address));
            rows.truncate(MAX_LOCK_OWNERS);
        }
        rows.small_sort_by_key(|row| (row.group, row.futex_address, row.owner.task, row.owner.last_sub_sample));
        rows
    }

    fn read_owner(&mut self, files: &mut TaskFiles, lock: FutexLock, layout: LockLayout) -> Option<BlockedWait> {
        let FutexLock { group, pid, address, is_shared, .. } = lock;
        let named = read_owner(pid, address, layout)?;
        let tid = self.tids.in_our_namespace(files, pid, named.tid)?;
        let wait = match read_holder_wait(files, pid, tid, group) {
            None if is_shared => {
                let process = read_process_of(files, tid)?;
                read_holder_wait(files, process, tid, group)?
            }
            None if has_ended(files, pid, NamedOwner { tid, ..named }) => {
                let task = TaskId { pid, tid, start_ticks: 0 };
                BlockedWait::new(task, group, Name::default(), TaskState::Dead)
            }
            wait => wait?,
        };
        // A lock that was passed on in between has an owner that did something else.
        (read_owner(pid, address, layout) == Some(named)).then_some(wait)
    }

    /// Counts a lock of which this thread was seen to be the owner.
    pub fn record(&mut self, lock: FutexLock, owner: BlockedWait) {
        let address = lock.address;
        let same = self
            .rows
            .iter_mut()
            .find(|row| (row.group, row.futex_address) == (lock.group, address) && is_same_wait(&row.owner, &owner));
        match same {
            Some(row) => {
                row.waiters = row.waiters.saturating_add(lock.waiters);
                row.owner.seen_count = row.owner.seen_count.saturating_add(1);
                row.owner.last_sub_sample = owner.last_sub_sample;
                row.field = lock.field;
            }
            None => {
                let FutexLock { group, is_shared, field, waiters, .. } = lock;
                self.rows.push(LockOwner {
                    group,
                    futex_address: address,
                    is_shared,
                    field,
                    waiters,
                    owner,
                    kernel_lock: None,
                });
            }
        }
    }
}

/// The pid of the process with this thread.
fn read_process_of(files: &mut TaskFiles, tid: u32) -> Option<u32> {
    parse_tgid(files.read_once(format_args!("{tid}/status")).ok()?)
}

/// Whether no process has the thread that a mutex names. A child of vfork waits for mutexes of its parent's threads. What looks like
/// a mutex and is none seldom has so few users; a robust one is unlocked by the kernel.
fn has_ended(files: &mut TaskFiles, pid: u32, named: NamedOwner) -> bool {
    let is_gone = matches!(files.read_once(format_args!("{}/stat", named.tid)), Err(Absent::Vanished | Absent::NoSuchFile));
    let threads =
        files.read_once(format_args!("{pid}/stat")).ok().and_then(parse_stat).map(|stat| u64::from(stat.thread_count));
    is_gone && named.users.zip(threads).is_some_and(|(users, threads)| u64::from(users) <= threads + 1)
}
