//! Reads the owners of futex locks for which threads wait: the owner's thread id from the memory of the process
//! (process_vm_readv), and what that thread does (`holder_wait`).
//!
//! process_vm_readv takes the same permission as /proc/PID/syscall, which led to the futex address.

use std::cmp::Reverse;
use std::io;

use rustc_hash::FxHashMap;

use super::holder_wait::{is_same_wait, read_holder_wait};
use super::namespace_tids::NamespaceTids;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::memory::read_memory;
use crate::kernel::task::parse_tgid;
use crate::sample::waits::syscall::{FUTEX_TID_MASK, FUTEX_WAITERS};
use crate::sample::waits::{BlockedWait, FutexWait, LockOwner, MAX_LOCK_OWNERS, OwnerField};
use crate::units::SmallSort;

/// Locks whose owner is read in one sub-sample, those with the most waiters first: each takes about 25 µs.
const MAX_LOCKS: usize = 8;
const TID_MASK: u32 = FUTEX_TID_MASK as u32;
const WAITERS: u32 = FUTEX_WAITERS as u32;
/// The futex word of a pthread mutex of glibc with waiters
const CONTENDED: u32 = 2;

/// The futex word and the two words behind it
const LOCK_BYTES: usize = 12;

/// The locks for which threads wait, and the owners seen since the last sample.
#[derive(Debug, Default)]
pub struct LockOwners {
    /// Of the current sub-sample
    locks: FxHashMap<LockPlace, FutexLock>,
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
        let (field, address) = match wait {
            FutexWait::ContendedMutex { address } => (OwnerField::GlibcMutex, address),
            FutexWait::PiLock { address } | FutexWait::OwnerWord { address } => (OwnerField::FutexWord, address),
            FutexWait::LikelyMutex { .. } | FutexWait::IdleRuntimeThread { .. } | FutexWait::Unknown { .. } => return,
        };
        let place = match is_shared {
            true => LockPlace::Shared { group, address },
            false => LockPlace::Private { pid, address },
        };
        let lock = FutexLock { group, pid, address, is_shared, field, waiters: 0 };
        let lock = self.locks.entry(place).or_insert(lock);
        lock.waiters = lock.waiters.saturating_add(1);
    }

    /// Ends the sub-sample with this number: reads the owners of the locks with the most waiters.
    pub fn read_owners(&mut self, files: &mut TaskFiles, (sub_sample, now_ns): (u16, u64)) {
        let mut locks: Vec<(LockPlace, FutexLock)> = self.locks.drain().collect();
        locks.small_sort_by_key(|&(place, lock)| (Reverse(lock.waiters), place));
        for (_, lock) in locks.into_iter().take(MAX_LOCKS) {
            if let Some(owner) = self.read_owner(files, lock) {
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

    fn read_owner(&mut self, files: &mut TaskFiles, lock: FutexLock) -> Option<BlockedWait> {
        let FutexLock { group, pid, address, is_shared, field, .. } = lock;
        let named = owner_tid(read_words(pid, address).ok()?, field)?;
        let tid = self.tids.in_our_namespace(files, pid, named)?;
        let wait = match read_holder_wait(files, pid, tid, group) {
            None if is_shared => {
                let process = read_process_of(files, tid)?;
                read_holder_wait(files, process, tid, group)?
            }
            wait => wait?,
        };
        // A lock that was passed on in between has an owner that did something else.
        (owner_tid(read_words(pid, address).ok()?, field) == Some(named)).then_some(wait)
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

/// The thread id in the owner field of a lock with these words, in the pid namespace of its process; `None` if the lock has no owner
/// or no waiter.
fn owner_tid([word, _, owner]: [u32; 3], field: OwnerField) -> Option<u32> {
    let tid = match field {
        OwnerField::GlibcMutex if word == CONTENDED => owner,
        OwnerField::FutexWord if word & WAITERS != 0 => word & TID_MASK,
        _ => 0,
    };
    (tid != 0).then_some(tid)
}

/// The pid of the process with this thread.
fn read_process_of(files: &mut TaskFiles, tid: u32) -> Option<u32> {
    parse_tgid(files.read_once(format_args!("{tid}/status")).ok()?)
}

/// Three words of a process's memory.
fn read_words(pid: u32, address: u64) -> io::Result<[u32; 3]> {
    let mut bytes = [0; LOCK_BYTES];
    read_memory(pid, address, &mut bytes)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
    Ok([[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contended_mutex_of_glibc_names_its_owner_behind_the_futex_word() {
        assert_eq!(owner_tid([2, 1, 4711], OwnerField::GlibcMutex), Some(4711));
        assert_eq!(owner_tid([1, 1, 4711], OwnerField::GlibcMutex), None, "no thread waits");
        assert_eq!(owner_tid([2, 0, 0], OwnerField::GlibcMutex), None, "it is handed over");
    }

    #[test]
    fn a_lock_with_priority_inheritance_names_its_owner_in_the_futex_word() {
        assert_eq!(owner_tid([WAITERS | 4711, 7, 8], OwnerField::FutexWord), Some(4711));
        // FUTEX_OWNER_DIED
        assert_eq!(owner_tid([WAITERS | 0x4000_0000 | 4711, 7, 8], OwnerField::FutexWord), Some(4711));
        assert_eq!(owner_tid([4711, 7, 8], OwnerField::FutexWord), None, "no thread waits");
    }

    #[test]
    fn the_words_of_a_lock_are_read_from_the_memory_of_its_process() {
        let words = [2, 1, 4711];
        match read_words(std::process::id(), std::ptr::from_ref(&words) as u64) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => println!("skipped: no process_vm_readv here ({error})"),
            read => assert_eq!(read.unwrap(), words),
        }
    }

    #[test]
    fn memory_that_is_not_mapped_is_an_error() {
        assert!(read_words(std::process::id(), 8).is_err());
    }
}
