//! Owners of futex locks and of locks inside the kernel: the thread that the lock's memory names, and what that thread did at the same
//! moment.

use super::{BlockedWait, JavaLock};

/// The word that names the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerField {
    /// `pthread_mutex_t.__owner` of glibc: 8 bytes behind the futex word
    #[default]
    GlibcMutex,
    /// The futex word of a lock with priority inheritance, of a robust mutex, or of a mutex of musl (`FUTEX_TID_MASK`)
    FutexWord,
    /// No word: the thread that was woken last at the futex takes the lock, and wakes the next one when it releases it
    Waker(WakerChecks),
    /// `ObjectMonitor::_owner` of a Java virtual machine (HotSpot)
    JavaMonitor,
    /// `pthread_rwlock_t.__cur_writer` of glibc: its writer
    GlibcWriter,
    /// `AbstractOwnableSynchronizer.exclusiveOwnerThread` of a lock of java.util.concurrent (HotSpot)
    JavaSynchronizer,
    /// No word: the process of PostgreSQL that writes the log holds WALWriteLock, by its wait event, its system call and its file
    PostgresLog,
    /// `mutex.owner` of the kernel
    KernelMutex,
    /// `semaphore.last_holder` of the kernel: the task that took it last
    KernelSemaphore,
    /// `rw_semaphore.owner` of the kernel: its writer
    KernelWriter,
    /// `rw_semaphore.owner` of the kernel: the reader that came last, which may have left while another one remains
    KernelReader,
}

impl OwnerField {
    /// Whether the thread that it names may have left the lock, which another one holds.
    pub fn is_hint(self) -> bool {
        matches!(self, OwnerField::KernelReader | OwnerField::KernelSemaphore)
    }

    /// Whether it is a guess that checks have not confirmed.
    pub fn is_unconfirmed(self) -> bool {
        matches!(self, OwnerField::Waker(checks) if !checks.are_mostly_confirmed())
    }

    /// Whether the lock is one inside the kernel.
    pub fn is_of_kernel(self) -> bool {
        use OwnerField::{KernelMutex, KernelReader, KernelSemaphore, KernelWriter};
        matches!(self, KernelMutex | KernelSemaphore | KernelWriter | KernelReader)
    }

    /// Whether the lock is one of a Java program, known by its virtual machine.
    pub fn is_of_java(self) -> bool {
        matches!(self, OwnerField::JavaMonitor | OwnerField::JavaSynchronizer)
    }
}

/// How often it was checked, since the queue has been watched, that the thread taken for the holder of a lock woke the next one there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WakerChecks {
    pub made: u32,
    pub confirmed: u32,
}

impl WakerChecks {
    /// Whether more of them confirmed than contradicted it. `interval` decides what is believed.
    pub fn are_mostly_confirmed(self) -> bool {
        self.confirmed > self.made.saturating_sub(self.confirmed)
    }
}

/// The owner of one futex lock in one wait, by the sub-samples that saw threads wait for the lock. The owner field was read before and
/// after the owner's state, and named the same thread.
#[derive(Clone, Debug, PartialEq)]
pub struct LockOwner {
    /// Index into `Waits::groups`: the group of the threads that wait
    pub group: u16,
    /// First argument of their futex call; of `OwnerField::PostgresLog` the number of the lock, of one of Java its address
    pub futex_address: u64,
    /// The lock is in memory that processes share: the owner may be a thread of another process
    pub is_shared: bool,
    pub field: OwnerField,
    /// Threads that waited at the address, summed over the sub-samples that `owner.seen_count` counts
    pub waiters: u32,
    /// The owner; `seen_count` is the number of sub-samples that saw it own the lock in this wait
    pub owner: BlockedWait,
    /// `KernelLockOwner::lock`, if the owner waits for a lock inside the kernel
    pub kernel_lock: Option<u32>,
    /// Part of `waiters`: with a timeout
    pub timed_waiters: u32,
    /// The lock of Java for which the owner waits itself, of a lock of Java
    pub awaited_java_lock: Option<JavaLock>,
}

/// The owner of one lock inside the kernel in one wait, by the readings that saw threads wait for the lock. The owner had not run since
/// the lock named it.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLockOwner {
    /// Index into `Waits::groups`: the group of the threads that wait
    pub group: u16,
    /// Number of the lock, of this sample only. The kernel's address is not recorded.
    pub lock: u32,
    pub field: OwnerField,
    /// Threads of the group that waited for it, summed over the readings that `owner.seen_count` counts
    pub waiters: u32,
    /// Number of the lock for which the owner waits itself
    pub waits_for: Option<u32>,
    /// The owner; `seen_count` is the number of readings that saw it own the lock in this wait, `group` is that of the threads that wait
    pub owner: BlockedWait,
}
