//! Reads the owners of futex locks for which threads wait: the owner's thread id from the memory of the process
//! (process_vm_readv, `futex_words`), and what that thread does (`holder_wait`).
//!
//! process_vm_readv takes the same permission as /proc/PID/syscall, which led to the futex address.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::futex_words::{LockLayout, NamedOwner, read_owner};
use super::holder_wait::{is_same_wait, read_holder_wait};
use super::namespace_tids::NamespaceTids;
use crate::ids::TaskId;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::{parse_stat, parse_tgid};
use crate::sample::task::TaskState;
use crate::sample::waits::syscall::is_shared_operation;
use crate::sample::waits::{BlockedWait, FutexWait, LockOwner, MAX_LOCK_OWNERS, OwnerField};
use crate::sample::{Absent, Name};
use crate::units::SmallSort;

/// Locks whose owner is read in one sub-sample: each takes about 25 µs. If there are more, these are half of them: locks in a chain, then
/// those with the most waiters. The others take turns in the other half.
const MAX_LOCKS: usize = 8;

/// The locks for which threads wait, and the owners seen since the last sample.
#[derive(Debug, Default)]
pub struct LockOwners {
    /// Of the current sub-sample
    locks: FxHashMap<LockPlace, (FutexLock, LockLayout)>,
    /// Those of which the last reading named the owner
    named: FxHashSet<LockPlace>,
    /// Those of which the last reading named an owner that waits at a futex, and those at that futex: a deadlock of locks with few
    /// waiters is seen only if all of its locks are read in most sub-samples.
    chained: FxHashSet<LockPlace>,
    /// The lock that was read last in its turn
    last_in_turn: Option<LockPlace>,
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
    /// Part of `waiters`: with a timeout
    pub timed_waiters: u32,
}

impl LockOwners {
    /// Begins a sub-sample.
    pub fn clear_waiters(&mut self) {
        self.locks.clear();
    }

    /// Counts a thread that may wait for a lock that another thread holds, by its futex call. `is_shared`: the lock is in memory that
    /// processes share. Returns whether the last reading of that lock named its owner.
    pub fn add_waiter(&mut self, group: u16, pid: u32, wait: FutexWait, (is_shared, has_timeout): (bool, bool)) -> bool {
        let Some((layout, address)) = LockLayout::of_wait(wait, has_timeout) else { return false };
        let place = LockPlace::new(group, pid, address, is_shared);
        let lock = FutexLock { group, pid, address, is_shared, field: layout.field(), waiters: 0, timed_waiters: 0 };
        let (lock, of_all) = self.locks.entry(place).or_insert((lock, layout));
        lock.waiters = lock.waiters.saturating_add(1);
        lock.timed_waiters = lock.timed_waiters.saturating_add(u32::from(has_timeout));
        if layout != LockLayout::TimedGlibcMutex {
            // A thread without a timeout waits for a lock, and so do the others there.
            *of_all = layout;
        }
        self.named.contains(&place)
    }

    /// Ends the sub-sample with this number: reads the owners of `MAX_LOCKS` locks.
    pub fn read_owners(&mut self, files: &mut TaskFiles, (sub_sample, now_ns): (u16, u64)) {
        let locks = std::mem::take(&mut self.locks);
        self.named.retain(|place| locks.contains_key(place));
        self.chained.retain(|place| locks.contains_key(place));
        let selected = self.select(&locks);
        for place in &selected {
            self.named.remove(place);
            self.chained.remove(place);
        }
        for place in selected {
            let Some(&(lock, layout)) = locks.get(&place) else { continue };
            if let Some(owner) = self.read_owner(files, lock, layout) {
                self.named.insert(place);
                if let Some(next) = next_place(&owner, lock).filter(|next| locks.contains_key(next)) {
                    self.chained.extend([place, next]);
                }
                self.record(lock, BlockedWait { last_sub_sample: sub_sample, blocked_since_ns: now_ns, ..owner });
            }
        }
    }

    /// The locks that are read in this sub-sample.
    fn select(&mut self, locks: &FxHashMap<LockPlace, (FutexLock, LockLayout)>) -> Vec<LockPlace> {
        let mut places: Vec<(LockPlace, u32)> = locks.iter().map(|(&place, (lock, _))| (place, lock.waiters)).collect();
        places.small_sort_by_key(|&(place, waiters)| (!self.chained.contains(&place), Reverse(waiters), place));
        let mut places: Vec<LockPlace> = places.into_iter().map(|(place, _)| place).collect();
        if places.len() <= MAX_LOCKS {
            return places;
        }
        let mut others = places.split_off(MAX_LOCKS / 2);
        others.sort_unstable();
        let next = others.partition_point(|&place| self.last_in_turn.is_some_and(|last| place <= last));
        let next = if next == others.len() { 0 } else { next };
        others.rotate_left(next);
        others.truncate(MAX_LOCKS / 2);
        self.last_in_turn = others.last().copied();
        places.extend(others);
        places
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
            // Waits with a timeout end all the same, and what they wait for may be no mutex.
            None if layout != LockLayout::TimedGlibcMutex && has_ended(files, pid, NamedOwner { tid, ..named }) => {
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
                row.timed_waiters = row.timed_waiters.saturating_add(lock.timed_waiters);
                row.owner.has_timeout |= owner.has_timeout;
                row.owner.seen_count = row.owner.seen_count.saturating_add(1);
                row.owner.last_sub_sample = owner.last_sub_sample;
                row.field = lock.field;
            }
            None => {
                let FutexLock { group, is_shared, field, waiters, timed_waiters, .. } = lock;
                self.rows.push(LockOwner {
                    group,
                    futex_address: address,
                    is_shared,
                    field,
                    waiters,
                    owner,
                    kernel_lock: None,
                    timed_waiters,
                });
            }
        }
    }
}

impl LockPlace {
    fn new(group: u16, pid: u32, address: u64, is_shared: bool) -> LockPlace {
        match is_shared {
            true => LockPlace::Shared { group, address },
            false => LockPlace::Private { pid, address },
        }
    }
}

/// The place of the lock for which the owner of a lock waits, if its system call has the arguments of a futex call on one.
fn next_place(owner: &BlockedWait, lock: FutexLock) -> Option<LockPlace> {
    let [address, operation, _] = owner.syscall?.arguments;
    Some(LockPlace::new(lock.group, owner.task.pid, address, is_shared_operation(operation)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::Root;

    /// Contended mutexes of glibc in the memory of this process.
    #[repr(align(8))]
    struct Mutexes([[u32; 10]; 20]);

    impl Mutexes {
        /// This thread has locked them.
        fn new() -> Mutexes {
            let tid = std::fs::read_link("/proc/thread-self").unwrap();
            let tid = tid.file_name().unwrap().to_str().unwrap().parse().unwrap();
            Mutexes([[2, 0, tid, 1, 0, 0, 0, 0, 0, 0]; 20])
        }

        /// The addresses whose owner each of some sub-samples names, each with one thread that waits, with a timeout or without.
        fn named(&self, owners: &mut LockOwners, sub_samples: u16, has_timeout: bool) -> Vec<Vec<u64>> {
            let mut files = TaskFiles::open(&Root::host()).unwrap();
            let sub_sample = |number| {
                owners.clear_waiters();
                for mutex in &self.0 {
                    let address = std::ptr::from_ref(mutex) as u64;
                    let wait = match has_timeout {
                        true => FutexWait::LikelyMutex { address },
                        false => FutexWait::ContendedMutex { address },
                    };
                    owners.add_waiter(0, std::process::id(), wait, (false, has_timeout));
                }
                owners.read_owners(&mut files, (number, 0));
                owners.finish_interval().iter().map(|row| row.futex_address).collect()
            };
            (0..sub_samples).map(sub_sample).collect()
        }
    }

    #[test]
    fn with_many_locks_all_of_them_are_read_in_turn_and_the_number_of_readings_is_limited() {
        let (mutexes, mut owners) = (Mutexes::new(), LockOwners::default());
        let named = mutexes.named(&mut owners, 4, false);
        if named.iter().all(Vec::is_empty) {
            return println!("skipped: no process_vm_readv here");
        }
        let all: FxHashSet<u64> = named.iter().flatten().copied().collect();
        assert_eq!((named.iter().map(Vec::len).max(), all.len()), (Some(MAX_LOCKS), 20));
    }

    #[test]
    fn threads_that_wait_with_a_timeout_are_counted_apart() {
        let (mutexes, mut owners) = (Mutexes::new(), LockOwners::default());
        if mutexes.named(&mut owners, 1, true) == [Vec::<u64>::new()] {
            return println!("skipped: no process_vm_readv here");
        }
        let mut files = TaskFiles::open(&Root::host()).unwrap();
        let address = std::ptr::from_ref(&mutexes.0[0]) as u64;
        let mut wait = |futex, has_timeout| owners.add_waiter(0, std::process::id(), futex, (false, has_timeout));
        assert!(wait(FutexWait::LikelyMutex { address }, true), "the last reading named its owner");
        wait(FutexWait::LikelyMutex { address }, true);
        wait(FutexWait::ContendedMutex { address }, false);
        assert!(!wait(FutexWait::LikelyMutex { address: address + 8 }, true), "no mutex");
        owners.read_owners(&mut files, (0, 0));
        let rows = owners.finish_interval();
        assert_eq!(
            rows.iter().map(|row| (row.futex_address, row.waiters, row.timed_waiters)).collect::<Vec<_>>(),
            [(address, 3, 2)]
        );
    }
}
