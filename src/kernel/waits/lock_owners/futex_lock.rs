//! A futex lock for which threads wait, and where it is.

use crate::sample::waits::{FutexWait, JavaLock, OwnerField};

/// Where threads wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockPlace {
    /// At an address of a process with this pid
    Private { pid: u32, address: u64 },
    /// At the same address of the processes of a group, which share its memory
    Shared { group: u16, address: u64 },
}

impl LockPlace {
    pub fn new(group: u16, pid: u32, address: u64, is_shared: bool) -> LockPlace {
        match is_shared {
            true => LockPlace::Shared { group, address },
            false => LockPlace::Private { pid, address },
        }
    }
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
    /// `LockOwner::awaited_java_lock`
    pub awaited_java_lock: Option<JavaLock>,
}

/// The futex call of a thread.
#[derive(Clone, Copy, Debug)]
pub struct FutexCall {
    pub wait: FutexWait,
    /// The lock is in memory that processes share.
    pub is_shared: bool,
    pub has_timeout: bool,
}
