//! Owners of futex locks: the thread that the lock's memory names, and what that thread did at the same moment.

use super::BlockedWait;

/// The word that names the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerField {
    /// `pthread_mutex_t.__owner` of glibc: 8 bytes behind the futex word
    #[default]
    GlibcMutex,
    /// The futex word of a lock with priority inheritance (`FUTEX_TID_MASK`)
    FutexWord,
}

/// The owner of one futex lock in one wait, by the sub-samples that saw threads wait for the lock. The owner field was read before and
/// after the owner's state, and named the same thread.
#[derive(Clone, Debug, PartialEq)]
pub struct LockOwner {
    /// Index into `Waits::groups`: the group of the threads that wait
    pub group: u16,
    /// First argument of their futex call
    pub futex_address: u64,
    pub field: OwnerField,
    /// Threads that waited at the address, summed over the sub-samples that `owner.seen_count` counts
    pub waiters: u32,
    /// The owner; `seen_count` is the number of sub-samples that saw it own the lock in this wait
    pub owner: BlockedWait,
}
