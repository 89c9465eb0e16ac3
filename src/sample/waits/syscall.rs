//! System calls: names by number and architecture, and what the arguments of a futex call say about the wait.

use std::sync::LazyLock;

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
    /// FUTEX_WAIT_PRIVATE with value 0: no lock, since 0 is a free one. An idle thread of the Go runtime waits for work like this.
    IdleRuntimeThread { address: u64 },
    /// A lock that another process holds: not by the call, but by the wait event of its process, PostgreSQL's (`WaitEvent`).
    LightweightLock { address: u64 },
    /// A Java monitor that another thread owns: not by the call, but as the virtual machine says (`ObservedWait::is_in_java_monitor`).
    JavaMonitor { address: u64 },
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
        | FutexWait::IdleRuntimeThread { address }
        | FutexWait::LightweightLock { address }
        | FutexWait::JavaMonitor { address }
        | FutexWait::Unknown { address }) = self;
        address
    }
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

impl Syscall {
    /// The call with this number on `machine` (`Host::machine`); `None` if classification does not use it.
    pub fn from_number(machine: &[u8], call: RawSyscall) -> Option<Syscall> {
        let names = match machine {
            b"x86_64" => &NAMES_ON_X86_64,
            b"aarch64" | b"riscv64" | b"loongarch64" => &GENERIC_NAMES,
            _ => return None,
        };
        let name = (*names.get(usize::try_from(call.number).ok()?)?)?;
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

    /// Whether it is a futex call on memory that processes share.
    pub fn is_shared_futex(self) -> bool {
        self.name == "futex" && is_shared_operation(self.arguments[1])
    }

    /// Whether it is the futex call of an idle thread of a language runtime.
    pub fn is_idle_runtime_thread(self) -> bool {
        matches!(self.futex_wait(), Some(FutexWait::IdleRuntimeThread { .. }))
    }
}

/// Name, number on x86_64, number in the generic table (arm64, riscv64, loongarch64). −2: the machine has no such call (−1 is
/// what the kernel writes for a thread blocked outside of a system call).
const SYSCALLS: &[(&str, i64, i64)] = &[
    ("read", 0, 63),
    ("write", 1, 64),
    ("open", 2, -2),
    ("close", 3, 57),
    ("stat", 4, -2),
    ("lstat", 6, -2),
    ("poll", 7, -2),
    ("lseek", 8, 62),
    ("mmap", 9, 222),
    ("mprotect", 10, 226),
    ("munmap", 11, 215),
    ("brk", 12, 214),
    ("ioctl", 16, 29),
    ("pread64", 17, 67),
    ("pwrite64", 18, 68),
    ("readv", 19, 65),
    ("writev", 20, 66),
    ("access", 21, -2),
    ("select", 23, -2),
    ("mremap", 25, 216),
    ("msync", 26, 227),
    ("mincore", 27, 232),
    ("madvise", 28, 233),
    ("shmget", 29, 194),
    ("shmat", 30, 196),
    ("shmctl", 31, 195),
    ("nanosleep", 35, 101),
    ("sendfile", 40, 71),
    ("connect", 42, 203),
    ("accept", 43, 202),
    ("sendto", 44, 206),
    ("recvfrom", 45, 207),
    ("sendmsg", 46, 211),
    ("recvmsg", 47, 212),
    ("setsockopt", 54, 208),
    ("clone", 56, 220),
    ("fork", 57, -2),
    ("vfork", 58, -2),
    ("execve", 59, 221),
    ("exit", 60, 93),
    ("wait4", 61, 260),
    ("semop", 65, 193),
    ("shmdt", 67, 197),
    ("fcntl", 72, 25),
    ("flock", 73, 32),
    ("fsync", 74, 82),
    ("fdatasync", 75, 83),
    ("ftruncate", 77, 46),
    ("getdents", 78, -2),
    ("rename", 82, -2),
    ("mkdir", 83, -2),
    ("rmdir", 84, -2),
    ("creat", 85, -2),
    ("link", 86, -2),
    ("unlink", 87, -2),
    ("symlink", 88, -2),
    ("chmod", 90, -2),
    ("chown", 92, -2),
    ("ptrace", 101, 117),
    ("mlock", 149, 228),
    ("mlockall", 151, 230),
    ("sync", 162, 81),
    ("mount", 165, 40),
    ("umount2", 166, 39),
    ("init_module", 175, 105),
    ("delete_module", 176, 106),
    ("setxattr", 188, 5),
    ("futex", 202, 98),
    ("io_getevents", 208, 4),
    ("getdents64", 217, 61),
    ("semtimedop", 220, 192),
    ("clock_nanosleep", 230, 115),
    ("exit_group", 231, 94),
    ("epoll_wait", 232, -2),
    ("epoll_ctl", 233, 21),
    ("waitid", 247, 95),
    ("openat", 257, 56),
    ("mkdirat", 258, 34),
    ("newfstatat", 262, 79),
    ("unlinkat", 263, 35),
    ("renameat", 264, 38),
    ("linkat", 265, 37),
    ("symlinkat", 266, 36),
    ("fchmodat", 268, 53),
    ("faccessat", 269, 48),
    ("pselect6", 270, 72),
    ("ppoll", 271, 73),
    ("unshare", 272, 97),
    ("sync_file_range", 277, 84),
    ("utimensat", 280, 88),
    ("epoll_pwait", 281, 22),
    ("fallocate", 285, 47),
    ("accept4", 288, 242),
    ("preadv", 295, 69),
    ("pwritev", 296, 70),
    ("perf_event_open", 298, 241),
    ("recvmmsg", 299, 243),
    ("syncfs", 306, 267),
    ("sendmmsg", 307, 269),
    ("setns", 308, 268),
    ("process_vm_readv", 310, 270),
    ("finit_module", 313, 273),
    ("renameat2", 316, 276),
    ("bpf", 321, 280),
    ("execveat", 322, 281),
    ("userfaultfd", 323, 282),
    ("preadv2", 327, 286),
    ("pwritev2", 328, 287),
    ("statx", 332, 291),
    ("io_pgetevents", 333, 292),
    ("io_uring_enter", 426, 426),
    ("clone3", 435, 435),
    ("process_madvise", 440, 440),
    ("epoll_pwait2", 441, 441),
    ("futex_waitv", 449, 449),
    ("futex_wait", 455, 455),
];

/// The names of `SYSCALLS` by their numbers: each interval looks up the calls of some dozens of waits, each sub-sample those of threads.
static NAMES_ON_X86_64: LazyLock<Vec<Option<&str>>> = LazyLock::new(|| names_by_number(|&(_, number, _)| number));
static GENERIC_NAMES: LazyLock<Vec<Option<&str>>> = LazyLock::new(|| names_by_number(|&(_, _, number)| number));

fn names_by_number(number: fn(&(&str, i64, i64)) -> i64) -> Vec<Option<&'static str>> {
    let mut names = Vec::new();
    for row in SYSCALLS {
        let Ok(number) = usize::try_from(number(row)) else { continue };
        names.resize(names.len().max(number + 1), None);
        if let Some(name) = names.get_mut(number) {
            *name = Some(row.0);
        }
    }
    names
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
        assert_eq!(futex(0x189, 3), Some(FutexWait::Unknown { address: 0x1000 }), "a read-write lock of glibc");
    }

    #[test]
    fn numbers_belong_to_a_machine() {
        let fsync = RawSyscall { number: 82, arguments: [3, 0, 0] };
        assert_eq!(Syscall::from_number(b"aarch64", fsync).map(|call| call.name), Some("fsync"));
        assert_eq!(Syscall::from_number(b"x86_64", fsync).map(|call| call.name), Some("rename"));
        assert_eq!(Syscall::from_number(b"s390x", fsync), None);
    }
}
