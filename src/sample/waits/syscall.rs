//! System calls: names by number and architecture, and what the arguments of a futex call say about the wait.

mod numbers;

use super::java_lock::JavaLockKind;
use crate::sample::task_state::RawSyscall;

/// A system call that classification uses. Numbers differ between architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    pub name: &'static str,
    pub arguments: [u64; 3],
}

/// What the arguments of a futex call say about the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWait {
    /// A lock that another thread holds, certainly: FUTEX_LOCK_PI or FUTEX_LOCK_PI2.
    PiLock { address: u64 },
    /// Most likely such a lock: FUTEX_WAIT with value 2, that of a contended mutex of glibc or of the Go runtime. All waiters share the
    /// address; a condition variable of musl looks the same, with an address for each waiter.
    ContendedMutex { address: u64 },
    /// A lock that another thread holds: FUTEX_WAIT with a value in which FUTEX_WAITERS and a number that a thread may have are set, that
    /// of a robust mutex of glibc and of a mutex of musl.
    OwnerWord { address: u64 },
    /// FUTEX_WAIT_BITSET with value 2: that of a contended mutex of Rust's standard library, and of one of glibc (2.34 and later) by a
    /// thread that waits with a timeout. A condition variable may look the same: which threads wake its waiters shows what it is, or the
    /// words beside the futex.
    LikelyMutex { address: u64 },
    /// FUTEX_WAIT_BITSET with value 3: that of a read-write lock of glibc (2.25 and later) that is held. Words beside the futex show whether it
    /// is one, and name its writer: the counter of a condition variable may have that value, too. `address` is that of the first of its two futexes.
    LikelyRwLock { address: u64 },
    /// FUTEX_WAIT_PRIVATE with value 0: no lock, since 0 is a free one. An idle thread of the Go runtime waits for work like this.
    IdleRuntimeThread { address: u64 },
    /// A lock that another process holds: not by the call, but by the wait event of its process, PostgreSQL's (`WaitEvent`).
    LightweightLock { address: u64 },
    /// A read-write lock of glibc that a writer holds: not by the call, but as its words say (`ObservedWait::is_behind_named_owner`).
    RwLock { address: u64 },
    /// A lock of Java that another thread owns: not by the call, but as the virtual machine says (`ObservedWait::java_lock`).
    JavaLock { kind: JavaLockKind, address: u64 },
    /// Anything else: a condition variable, a semaphore, a join. Idle unless its group shows otherwise.
    Unknown { address: u64 },
}

impl FutexWait {
    /// Of the futex
    pub fn address(self) -> u64 {
        let (FutexWait::PiLock { address }
        | FutexWait::ContendedMutex { address }
        | FutexWait::OwnerWord { address }
        | FutexWait::LikelyMutex { address }
        | FutexWait::LikelyRwLock { address }
        | FutexWait::RwLock { address }
        | FutexWait::IdleRuntimeThread { address }
        | FutexWait::LightweightLock { address }
        | FutexWait::JavaLock { address, .. }
        | FutexWait::Unknown { address }) = self;
        address
    }
}

/// The address of the first futex of the read-write lock of glibc that has one at this address.
pub fn rw_lock_address(address: u64) -> u64 {
    address / RW_LOCK_FUTEXES * RW_LOCK_FUTEXES
}

/// Whether an operation of futex, its second argument, is one on memory that processes share.
pub fn is_shared_operation(operation: u64) -> bool {
    operation & FUTEX_PRIVATE_FLAG == 0
}

/// Whether the value of a futex call is the word of a lock that names its owner, with FUTEX_WAITERS. A semaphore and a read-write lock of
/// musl have −1.
pub fn is_owner_word(value: u64) -> bool {
    value & FUTEX_WAITERS != 0 && (1..=MAX_TID).contains(&(value & FUTEX_TID_MASK))
}

const FUTEX_CMD_MASK: u64 = 0x7f;
const FUTEX_PRIVATE_FLAG: u64 = 0x80;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;
/// The lock has waiters in the kernel; include/uapi/linux/futex.h
pub const FUTEX_WAITERS: u64 = 0x8000_0000;
/// The thread id in the word of such a lock
pub const FUTEX_TID_MASK: u64 = 0x3fff_ffff;
/// The highest thread id: PID_MAX_LIMIT of include/linux/threads.h
pub const MAX_TID: u64 = 4 << 20;
/// 0 free, 1 held, 2 held with waiters: lowlevellock of glibc, and mutexes after Drepper, "Futexes Are Tricky".
const CONTENDED_FUTEX_VALUE: u64 = 2;
/// `__wrphase_futex` and `__writers_futex` of a read-write lock of glibc: 1 held by a writer, with 2 that threads wait. The two are neighbours,
/// the first one at a multiple of 8.
const RW_LOCK_FUTEX_VALUE: u64 = 3;
const RW_LOCK_FUTEXES: u64 = 8;

impl Syscall {
    /// The call with this number on `machine` (`Host::machine`); `None` if classification does not use it.
    pub fn from_number(machine: &[u8], call: RawSyscall) -> Option<Syscall> {
        let name = numbers::name(machine, call)?;
        Some(Syscall { name, arguments: call.arguments })
    }

    /// Whether it is fsync or a similar call, which returns when the data is on the device.
    pub fn is_fsync_family(self) -> bool {
        matches!(self.name, "fsync" | "fdatasync" | "sync_file_range" | "msync" | "sync" | "syncfs")
    }

    /// Whether it reads or writes the file of its descriptor, or waits for that.
    pub fn is_file_io(self) -> bool {
        self.file_descriptor().is_some() && !matches!(self.name, "flock" | "fcntl")
    }

    /// Whether it changes the memory map of its process, or reads pages into it.
    pub fn is_memory_map_call(self) -> bool {
        const NAMES: [&str; 11] = [
            "mmap",
            "munmap",
            "mremap",
            "mprotect",
            "madvise",
            "process_madvise",
            "mlock",
            "mlockall",
            "brk",
            "shmat",
            "shmdt",
        ];
        NAMES.contains(&self.name)
    }

    /// Its file descriptor, the first argument.
    pub fn file_descriptor(self) -> Option<u64> {
        let by_descriptor = matches!(
            self.name,
            "read"
                | "write"
                | "pread64"
                | "pwrite64"
                | "readv"
                | "writev"
                | "preadv"
                | "pwritev"
                | "preadv2"
                | "pwritev2"
                | "fsync"
                | "fdatasync"
                | "sync_file_range"
                | "syncfs"
                | "fallocate"
                | "ftruncate"
                | "flock"
                | "fcntl"
        );
        by_descriptor.then_some(self.arguments[0])
    }

    /// What a futex call waits for; `None` for every other call, those of futex_wait and futex_waitv included.
    pub fn futex_wait(self) -> Option<FutexWait> {
        if self.name != "futex" {
            return None;
        }
        let [address, operation, value] = self.arguments;
        // The kernel prints registers: the upper half of an int argument may be anything.
        let (command, value) = (operation & FUTEX_CMD_MASK, value & 0xffff_ffff);
        Some(match (command, value) {
            (FUTEX_LOCK_PI | FUTEX_LOCK_PI2, _) => FutexWait::PiLock { address },
            (FUTEX_WAIT, CONTENDED_FUTEX_VALUE) => FutexWait::ContendedMutex { address },
            (FUTEX_WAIT, _) if is_owner_word(value) => FutexWait::OwnerWord { address },
            (FUTEX_WAIT_BITSET, CONTENDED_FUTEX_VALUE) => FutexWait::LikelyMutex { address },
            (FUTEX_WAIT_BITSET, RW_LOCK_FUTEX_VALUE) => FutexWait::LikelyRwLock { address: rw_lock_address(address) },
            (FUTEX_WAIT, 0) if operation & FUTEX_PRIVATE_FLAG != 0 => FutexWait::IdleRuntimeThread { address },
            _ => FutexWait::Unknown { address },
        })
    }

    /// Whether it waits at futexes or for semaphores, until a timeout if it has one.
    pub fn may_have_timeout(self) -> bool {
        matches!(self.name, "futex" | "futex_wait" | "futex_waitv" | "semtimedop")
    }

    /// Whether it is a futex call on a lock that another thread holds.
    pub fn is_contended_futex(self) -> bool {
        matches!(
            self.futex_wait(),
            Some(FutexWait::ContendedMutex { .. } | FutexWait::OwnerWord { .. } | FutexWait::PiLock { .. })
        )
    }

    /// Whether it is a futex call that may be on a mutex which does not name its holder.
    pub fn is_likely_mutex(self) -> bool {
        matches!(self.futex_wait(), Some(FutexWait::LikelyMutex { .. }))
    }

    /// Whether it is a futex call that may be on a read-write lock.
    pub fn is_likely_rw_lock(self) -> bool {
        matches!(self.futex_wait(), Some(FutexWait::LikelyRwLock { .. }))
    }

    /// Whether it is a futex call on memory that processes share.
    pub fn is_shared_futex(self) -> bool {
        self.name == "futex" && is_shared_operation(self.arguments[1])
    }

    /// Whether it is the futex call of an idle thread of a language runtime.
    pub fn is_idle_runtime_thread(self) -> bool {
        matches!(self.futex_wait(), Some(FutexWait::IdleRuntimeThread { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn futex(operation: u64, value: u64) -> Option<FutexWait> {
        Syscall::from_number(b"x86_64", RawSyscall { number: 202, arguments: [0x1000, operation, value] })?.futex_wait()
    }

    #[test]
    fn a_contended_mutex_is_told_from_a_condition_variable() {
        assert_eq!(futex(0x80, 2), Some(FutexWait::ContendedMutex { address: 0x1000 }));
        assert_eq!(futex(0x189, 0), Some(FutexWait::Unknown { address: 0x1000 }), "condition variable");
        assert_eq!(futex(0x109, 0), Some(FutexWait::Unknown { address: 0x1000 }), "PostgreSQL's semaphore");
        assert_eq!(futex(0x80, 0), Some(FutexWait::IdleRuntimeThread { address: 0x1000 }), "an idle thread of the Go runtime");
        assert_eq!(futex(0, 0), Some(FutexWait::Unknown { address: 0x1000 }), "shared: a semaphore of musl");
        assert_eq!(futex(0x86, 0), Some(FutexWait::PiLock { address: 0x1000 }), "a mutex with priority inheritance");
        let owner_word = Some(FutexWait::OwnerWord { address: 0x1000 });
        assert_eq!(futex(0x80, 0x8000_1267), owner_word, "a robust mutex of glibc, a recursive mutex of musl");
        assert_eq!(futex(0, 0x8000_0010), owner_word, "shared: a mutex of musl");
        assert_eq!(futex(0x80, 0x8000_0000), Some(FutexWait::Unknown { address: 0x1000 }), "without a thread id");
        assert_eq!(futex(0x80, 0xffff_ffff_ffff_ffff), Some(FutexWait::Unknown { address: 0x1000 }), "a semaphore of musl");
        let rw_lock =
            |address| Syscall::from_number(b"x86_64", RawSyscall { number: 202, arguments: [address, 0x189, 3] })?.futex_wait();
        assert_eq!(rw_lock(0x1008), Some(FutexWait::LikelyRwLock { address: 0x1008 }), "readers behind a writer, glibc");
        assert_eq!(rw_lock(0x100c), Some(FutexWait::LikelyRwLock { address: 0x1008 }), "writers behind it");
    }

    #[test]
    fn numbers_belong_to_a_machine() {
        let fsync = RawSyscall { number: 82, arguments: [3, 0, 0] };
        assert_eq!(Syscall::from_number(b"aarch64", fsync).map(|call| call.name), Some("fsync"));
        assert_eq!(Syscall::from_number(b"x86_64", fsync).map(|call| call.name), Some("rename"));
        assert_eq!(Syscall::from_number(b"s390x", fsync), None);
    }

    #[test]
    fn a_32_bit_program_has_numbers_of_its_own() {
        let name = |machine: &[u8], number| {
            let call = RawSyscall { number, arguments: [0; 3] };
            Syscall::from_number(machine, call.of_32_bit_program()).map(|call| call.name)
        };
        let calls = [240, 422, 118, 3, 143].map(|number| name(b"x86_64", number));
        assert_eq!(calls, ["futex", "futex", "fsync", "read", "flock"].map(Some));
        assert_eq!([name(b"x86_64", 202), name(b"aarch64", 240)], [None; 2]);
        assert_eq!(name(b"x86_64", -1), None, "a page fault");
    }
}
