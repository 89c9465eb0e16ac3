//! Reads the owners of futex locks for which threads wait: the owner's thread id from the memory of the process
//! (process_vm_readv, `futex_words`), and what that thread does (`holder_wait`).
//!
//! process_vm_readv needs the same permission as /proc/PID/syscall, which led to the futex address.

mod futex_lock;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use self::futex_lock::LockPlace;
pub use self::futex_lock::{FutexCall, FutexLock};
use super::futex_words::{LockLayout, NamedOwner, read_owner};
use super::holder_wait::{HolderFiles, is_same_wait};
use super::namespace_tids::NamespaceTids;
use super::reading_turns::ReadingTurns;
use crate::ids::TaskId;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::{parse_stat, parse_tgid};
use crate::sample::task::TaskState;
use crate::sample::waits::syscall::{is_shared_operation, rw_lock_address};
use crate::sample::waits::{BlockedWait, LockOwner, MAX_LOCK_OWNERS};
use crate::sample::{Absent, Name};
use crate::units::SmallSort;

/// The locks for which threads wait, and the owners seen since the last sample.
#[derive(Debug, Default)]
pub struct LockOwners {
    /// Of the current sub-sample
    locks: FxHashMap<LockPlace, ContendedLock>,
    /// Those of which the last reading named the owner
    named: FxHashMap<LockPlace, LastOwner>,
    turns: ReadingTurns<LockPlace>,
    /// Since the last sample
    readings: FxHashMap<LockPlace, Readings>,
    /// With the place of a lock whose owner was read
    rows: Vec<(Option<LockPlace>, LockOwner)>,
    tids: NamespaceTids,
    holder_files: HolderFiles,
}

/// Sub-samples in which threads waited for a lock, and those of them in which its owner was read.
#[derive(Clone, Copy, Debug, Default)]
struct Readings {
    sub_samples: u32,
    read: u32,
}

impl Readings {
    /// The waiters of all sub-samples, estimated from those of the readings.
    fn of_all_sub_samples(self, waiters: u32) -> u32 {
        let all = u64::from(waiters) * u64::from(self.sub_samples) / u64::from(self.read.max(1));
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

/// A lock and how its owner is read.
#[derive(Debug)]
struct ContendedLock {
    lock: FutexLock,
    layout: LockLayout,
    /// CPU clock of the process in this sub-sample, if no other process can change the lock
    clock_ns: Option<u64>,
}

/// The owner of a lock, and the CPU clock of its process before it was read.
#[derive(Debug)]
struct LastOwner {
    owner: BlockedWait,
    clock_ns: Option<u64>,
}

impl LockOwners {
    /// Begins a sub-sample.
    pub fn clear_waiters(&mut self) {
        self.locks.clear();
    }

    /// Counts a thread that may wait for a lock that another thread holds, by its futex call. `clock_ns`: `current_clock_ns` of its process.
    /// Returns whether the last reading of that lock named its owner.
    pub fn add_waiter(&mut self, group: u16, (pid, clock_ns): (u32, Option<u64>), call: FutexCall) -> bool {
        let FutexCall { wait, is_shared, has_timeout } = call;
        let Some((layout, address)) = LockLayout::of_wait(wait, has_timeout) else { return false };
        let place = LockPlace::new(group, pid, address, is_shared);
        let contended = self.locks.entry(place).or_insert_with(|| ContendedLock {
            lock: FutexLock {
                group,
                pid,
                address,
                is_shared,
                field: layout.field(),
                waiters: 0,
                timed_waiters: 0,
                awaited_java_lock: None,
            },
            layout,
            clock_ns: clock_ns.filter(|_| !is_shared),
        });
        let lock = &mut contended.lock;
        lock.waiters = lock.waiters.saturating_add(1);
        lock.timed_waiters = lock.timed_waiters.saturating_add(u32::from(has_timeout));
        if layout != LockLayout::TimedGlibcMutex {
            // A thread without a timeout waits for a lock, and so do the others there.
            contended.layout = layout;
        }
        self.named.contains_key(&place)
    }

    /// Ends the sub-sample with this number: reads the owners of `MAX_LOCKS` locks.
    pub fn read_owners(&mut self, files: &mut TaskFiles, (sub_sample, now_ns): (u16, u64)) {
        let locks = std::mem::take(&mut self.locks);
        self.named.retain(|place, _| locks.contains_key(place));
        self.turns.chained.retain(|place| locks.contains_key(place));
        let selected = self.turns.select(locks.iter().map(|(&place, of)| (place, of.lock.waiters)).collect());
        for place in &selected {
            self.turns.chained.remove(place);
        }
        locks.keys().for_each(|&place| self.readings.entry(place).or_default().sub_samples += 1);
        for place in selected {
            let Some(&ContendedLock { lock, layout, clock_ns }) = locks.get(&place) else { continue };
            self.readings.entry(place).or_default().read += 1;
            let last = self.named.remove(&place).filter(|last| clock_ns.is_some() && last.clock_ns == clock_ns);
            let owner = match last.filter(|last| self.holder_files.is_still_in(files, &last.owner)) {
                Some(last) => Some(last.owner),
                None => self.read_owner(files, lock, layout),
            };
            if let Some(owner) = owner {
                if owner.state == TaskState::Dead {
                    self.turns.chained.insert(place);
                }
                if let Some(next) = next_places(&owner, lock).into_iter().flatten().find(|next| locks.contains_key(next)) {
                    self.turns.chained.extend([place, next]);
                }
                self.named.insert(place, LastOwner { owner: owner.clone(), clock_ns });
                self.count(Some(place), lock, BlockedWait { last_sub_sample: sub_sample, blocked_since_ns: now_ns, ..owner });
            }
        }
        self.holder_files.finish_sub_sample();
    }

    /// Ends the interval.
    pub fn finish_interval(&mut self) -> Vec<LockOwner> {
        self.tids.finish_interval();
        let readings = std::mem::take(&mut self.readings);
        let of_all_sub_samples = |(place, row): (Option<LockPlace>, LockOwner)| {
            let Some(readings) = place.and_then(|place| readings.get(&place)) else { return row };
            let (waiters, timed_waiters) = (row.waiters, row.timed_waiters);
            let [waiters, timed_waiters] = [waiters, timed_waiters].map(|count| readings.of_all_sub_samples(count));
            LockOwner { waiters, timed_waiters, ..row }
        };
        let mut rows: Vec<LockOwner> = std::mem::take(&mut self.rows).into_iter().map(of_all_sub_samples).collect();
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
        let tid = self.tids.in_our_namespace(files, pid, named.tid);
        let wait = match tid.and_then(|tid| self.holder_files.read_wait(files, pid, tid, group)) {
            None if is_shared => {
                let process = read_process_of(files, tid?)?;
                self.holder_files.read_wait(files, process, tid?, group)?
            }
            // Waits with a timeout end all the same, and what they wait for may be no mutex.
            None if layout != LockLayout::TimedGlibcMutex
                && has_few_users(files, pid, named)
                && match tid {
                    Some(tid) => is_gone(files, tid),
                    None => self.tids.has_no_thread(files, pid, named.tid),
                } =>
            {
                let task = TaskId { pid, tid: named.tid, start_ticks: 0 };
                BlockedWait::new(task, group, Name::default(), TaskState::Dead)
            }
            wait => wait?,
        };
        // A lock that was passed on in between has an owner that did something else.
        (read_owner(pid, address, layout) == Some(named)).then_some(wait)
    }

    /// Counts a lock of which this thread was found to be the owner in this sub-sample otherwise than from the memory of the process.
    pub fn record(&mut self, lock: FutexLock, owner: BlockedWait) {
        self.count(None, lock, owner);
    }

    /// Counts a sub-sample in which threads waited for a lock whose owner is read otherwise, and only in some of them.
    pub fn record_reading(&mut self, lock: FutexLock, is_read: bool, owner: Option<BlockedWait>) {
        let place = LockPlace::new(lock.group, lock.pid, lock.address, lock.is_shared);
        let readings = self.readings.entry(place).or_default();
        readings.sub_samples += 1;
        readings.read += u32::from(is_read);
        if let Some(owner) = owner {
            self.count(Some(place), lock, owner);
        }
    }

    fn count(&mut self, place: Option<LockPlace>, lock: FutexLock, owner: BlockedWait) {
        let same = self.rows.iter_mut().find(|(of, row)| {
            (*of, row.group, row.futex_address, row.awaited_java_lock)
                == (place, lock.group, lock.address, lock.awaited_java_lock)
                && is_same_wait(&row.owner, &owner)
        });
        match same {
            Some((_, row)) => {
                row.waiters = row.waiters.saturating_add(lock.waiters);
                row.timed_waiters = row.timed_waiters.saturating_add(lock.timed_waiters);
                row.owner.has_timeout |= owner.has_timeout;
                row.owner.seen_count = row.owner.seen_count.saturating_add(1);
                row.owner.last_sub_sample = owner.last_sub_sample;
                row.field = lock.field;
            }
            None => {
                let FutexLock { group, is_shared, field, waiters, timed_waiters, awaited_java_lock, .. } = lock;
                let row = LockOwner {
                    group,
                    futex_address: lock.address,
                    is_shared,
                    field,
                    waiters,
                    owner,
                    kernel_lock: None,
                    timed_waiters,
                    awaited_java_lock,
                };
                self.rows.push((place, row));
            }
        }
    }
}

/// The place of the lock for which the owner of a lock waits, if its system call has the arguments of a futex call on one: a mutex, or a
/// read-write lock, which has its place at the first of its two futexes.
fn next_places(owner: &BlockedWait, lock: FutexLock) -> Option<[LockPlace; 2]> {
    let [address, operation, _] = owner.syscall?.arguments;
    let place = |address| LockPlace::new(lock.group, owner.task.pid, address, is_shared_operation(operation));
    Some([place(address), place(rw_lock_address(address))])
}

/// The pid of the process with this thread.
fn read_process_of(files: &mut TaskFiles, tid: u32) -> Option<u32> {
    parse_tgid(files.read_once(format_args!("{tid}/status")).ok()?)
}

/// Whether no process has a thread with this number in /proc. A child of vfork waits for mutexes of its parent's threads.
fn is_gone(files: &mut TaskFiles, tid: u32) -> bool {
    matches!(files.read_once(format_args!("{tid}/stat")), Err(Absent::Vanished | Absent::NoSuchFile))
}

/// What looks like a mutex and is none seldom has no more users than the process has threads; a robust one is unlocked by the kernel.
fn has_few_users(files: &mut TaskFiles, pid: u32, named: NamedOwner) -> bool {
    let threads =
        files.read_once(format_args!("{pid}/stat")).ok().and_then(parse_stat).map(|stat| u64::from(stat.thread_count));
    named.users.zip(threads).is_some_and(|(users, threads)| u64::from(users) <= threads + 1)
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use super::super::futex_words::can_read;
    use super::super::reading_turns::MAX_LOCKS;
    use super::*;
    use crate::kernel::root::Root;
    use crate::sample::waits::FutexWait;

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

        /// The rows of as many sub-samples, each with one thread that waits for each mutex, with a timeout or without.
        fn rows(&self, owners: &mut LockOwners, sub_samples: u16, has_timeout: bool) -> Vec<LockOwner> {
            let mut files = TaskFiles::open(&Root::host()).unwrap();
            for number in 0..sub_samples {
                owners.clear_waiters();
                for mutex in &self.0 {
                    let address = std::ptr::from_ref(mutex) as u64;
                    let wait = match has_timeout {
                        true => FutexWait::LikelyMutex { address },
                        false => FutexWait::ContendedMutex { address },
                    };
                    owners.add_waiter(0, (std::process::id(), None), FutexCall { wait, is_shared: false, has_timeout });
                }
                owners.read_owners(&mut files, (number, 0));
            }
            owners.finish_interval()
        }
    }

    #[test]
    fn with_many_locks_all_of_them_are_read_in_turn_and_the_number_of_readings_is_limited() {
        if !can_read() {
            return;
        }
        let (mutexes, mut owners) = (Mutexes::new(), LockOwners::default());
        let named: Vec<Vec<u64>> =
            (0..4).map(|_| mutexes.rows(&mut owners, 1, false).iter().map(|row| row.futex_address).collect()).collect();
        let all: FxHashSet<u64> = named.iter().flatten().copied().collect();
        assert_eq!((named.iter().map(Vec::len).max(), all.len()), (Some(MAX_LOCKS), 20));
    }

    #[test]
    fn while_a_process_does_not_run_its_locks_have_the_same_owner_and_are_not_read() {
        if !can_read() {
            return;
        }
        let (mut mutexes, mut owners) = (Mutexes::new(), LockOwners::default());
        let mut files = TaskFiles::open(&Root::host()).unwrap();
        let mut has_owner = |mutexes: &Mutexes, clock_ns, is_shared| {
            owners.clear_waiters();
            let wait = FutexWait::ContendedMutex { address: std::ptr::from_ref(&mutexes.0[0]) as u64 };
            owners.add_waiter(0, (std::process::id(), clock_ns), FutexCall { wait, is_shared, has_timeout: false });
            owners.read_owners(&mut files, (0, 0));
            owners.finish_interval().len() == 1
        };
        assert!(has_owner(&mutexes, Some(7), false));
        mutexes.0[0][2] = 0;
        assert!(has_owner(&mutexes, Some(7), false));
        assert!(!has_owner(&mutexes, Some(8), false), "it ran");
        mutexes = Mutexes::new();
        assert!(has_owner(&mutexes, None, false));
        mutexes.0[0][2] = 0;
        assert!(!has_owner(&mutexes, None, false), "whether it ran is unknown");
        mutexes = Mutexes::new();
        assert!(has_owner(&mutexes, Some(8), true));
        mutexes.0[0][2] = 0;
        assert!(!has_owner(&mutexes, Some(8), true), "another process may unlock it");
    }

    #[test]
    fn waiters_of_locks_that_are_read_in_turn_are_those_of_all_sub_samples() {
        if !can_read() {
            return;
        }
        let (mutexes, mut owners) = (Mutexes::new(), LockOwners::default());
        let rows = mutexes.rows(&mut owners, 10, false);
        let waiters: Vec<u32> = rows.iter().map(|row| row.waiters).collect();
        assert_eq!(waiters, [10; 20]);
        assert!(rows.iter().any(|row| row.owner.seen_count < 10), "in turn");
    }

    #[test]
    fn threads_that_wait_with_a_timeout_are_counted_apart() {
        if !can_read() {
            return;
        }
        let (mutexes, mut owners) = (Mutexes::new(), LockOwners::default());
        assert_eq!(mutexes.rows(&mut owners, 1, true).len(), MAX_LOCKS);
        let mut files = TaskFiles::open(&Root::host()).unwrap();
        let address = std::ptr::from_ref(&mutexes.0[0]) as u64;
        let mut wait = |wait, has_timeout| {
            owners.add_waiter(0, (std::process::id(), None), FutexCall { wait, is_shared: false, has_timeout })
        };
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
