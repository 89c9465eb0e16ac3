//! The numbers of system calls on each architecture.

use std::sync::LazyLock;

use crate::sample::task_state::RawSyscall;

/// The name of the call with this number on `machine` (`Host::machine`); `None` if classification does not use it.
pub(super) fn name(machine: &[u8], call: RawSyscall) -> Option<&'static str> {
    let (names, number) = match (machine, call.number_in_32_bit_program()) {
        (b"x86_64", Some(number)) => (&NAMES_ON_I386, number),
        (b"x86_64", None) => (&NAMES_ON_X86_64, call.number),
        (b"aarch64" | b"riscv64" | b"loongarch64", None) => (&GENERIC_NAMES, call.number),
        _ => return None,
    };
    *names.get(usize::try_from(number).ok()?)?
}

/// Name, number on x86_64, number in the generic table (arm64, riscv64, loongarch64), number on i386. −2: the machine has no such call
/// (−1 is what the kernel writes for a thread blocked outside of a system call).
const SYSCALLS: &[(&str, i64, i64, i64)] = &[
    ("read", 0, 63, 3),
    ("write", 1, 64, 4),
    ("open", 2, -2, 5),
    ("close", 3, 57, 6),
    ("stat", 4, -2, 195),
    ("lstat", 6, -2, 196),
    ("poll", 7, -2, 168),
    ("lseek", 8, 62, 140),
    ("mmap", 9, 222, 192),
    ("mprotect", 10, 226, 125),
    ("munmap", 11, 215, 91),
    ("brk", 12, 214, 45),
    ("ioctl", 16, 29, 54),
    ("pread64", 17, 67, 180),
    ("pwrite64", 18, 68, 181),
    ("readv", 19, 65, 145),
    ("writev", 20, 66, 146),
    ("access", 21, -2, 33),
    ("select", 23, -2, 142),
    ("mremap", 25, 216, 163),
    ("msync", 26, 227, 144),
    ("mincore", 27, 232, 218),
    ("madvise", 28, 233, 219),
    ("shmget", 29, 194, 395),
    ("shmat", 30, 196, 397),
    ("shmctl", 31, 195, 396),
    ("nanosleep", 35, 101, 162),
    ("sendfile", 40, 71, 239),
    ("connect", 42, 203, 362),
    ("accept", 43, 202, -2),
    ("sendto", 44, 206, 369),
    ("recvfrom", 45, 207, 371),
    ("sendmsg", 46, 211, 370),
    ("recvmsg", 47, 212, 372),
    ("setsockopt", 54, 208, 366),
    ("clone", 56, 220, 120),
    ("fork", 57, -2, 2),
    ("vfork", 58, -2, 190),
    ("execve", 59, 221, 11),
    ("exit", 60, 93, 1),
    ("wait4", 61, 260, 114),
    ("semop", 65, 193, -2),
    ("shmdt", 67, 197, 398),
    ("fcntl", 72, 25, 221),
    ("flock", 73, 32, 143),
    ("fsync", 74, 82, 118),
    ("fdatasync", 75, 83, 148),
    ("ftruncate", 77, 46, 194),
    ("getdents", 78, -2, 141),
    ("rename", 82, -2, 38),
    ("mkdir", 83, -2, 39),
    ("rmdir", 84, -2, 40),
    ("creat", 85, -2, 8),
    ("link", 86, -2, 9),
    ("unlink", 87, -2, 10),
    ("symlink", 88, -2, 83),
    ("chmod", 90, -2, 15),
    ("chown", 92, -2, 212),
    ("ptrace", 101, 117, 26),
    ("mlock", 149, 228, 150),
    ("mlockall", 151, 230, 152),
    ("sync", 162, 81, 36),
    ("mount", 165, 40, 21),
    ("umount2", 166, 39, 52),
    ("init_module", 175, 105, 128),
    ("delete_module", 176, 106, 129),
    ("setxattr", 188, 5, 226),
    ("futex", 202, 98, 240),
    ("io_getevents", 208, 4, 247),
    ("getdents64", 217, 61, 220),
    ("semtimedop", 220, 192, 420),
    ("clock_nanosleep", 230, 115, 267),
    ("exit_group", 231, 94, 252),
    ("epoll_wait", 232, -2, 256),
    ("epoll_ctl", 233, 21, 255),
    ("waitid", 247, 95, 284),
    ("openat", 257, 56, 295),
    ("mkdirat", 258, 34, 296),
    ("newfstatat", 262, 79, 300),
    ("unlinkat", 263, 35, 301),
    ("renameat", 264, 38, 302),
    ("linkat", 265, 37, 303),
    ("symlinkat", 266, 36, 304),
    ("fchmodat", 268, 53, 306),
    ("faccessat", 269, 48, 307),
    ("pselect6", 270, 72, 308),
    ("ppoll", 271, 73, 309),
    ("unshare", 272, 97, 310),
    ("sync_file_range", 277, 84, 314),
    ("utimensat", 280, 88, 320),
    ("epoll_pwait", 281, 22, 319),
    ("fallocate", 285, 47, 324),
    ("accept4", 288, 242, 364),
    ("preadv", 295, 69, 333),
    ("pwritev", 296, 70, 334),
    ("perf_event_open", 298, 241, 336),
    ("recvmmsg", 299, 243, 337),
    ("syncfs", 306, 267, 344),
    ("sendmmsg", 307, 269, 345),
    ("setns", 308, 268, 346),
    ("process_vm_readv", 310, 270, 347),
    ("finit_module", 313, 273, 350),
    ("renameat2", 316, 276, 353),
    ("bpf", 321, 280, 357),
    ("execveat", 322, 281, 358),
    ("userfaultfd", 323, 282, 374),
    ("preadv2", 327, 286, 378),
    ("pwritev2", 328, 287, 379),
    ("statx", 332, 291, 383),
    ("io_pgetevents", 333, 292, 385),
    ("io_uring_enter", 426, 426, 426),
    ("clone3", 435, 435, 435),
    ("process_madvise", 440, 440, 440),
    ("epoll_pwait2", 441, 441, 441),
    ("futex_waitv", 449, 449, 449),
    ("futex_wait", 455, 455, 455),
];

/// Other calls of i386 with the same arguments: with 32-bit numbers, or with 64-bit times.
const OTHERS_ON_I386: &[(&str, i64)] = &[
    ("fcntl", 55),
    ("mmap", 90),
    ("ftruncate", 93),
    ("stat", 106),
    ("lstat", 107),
    ("sendfile", 187),
    ("clock_nanosleep", 407),
    ("pselect6", 413),
    ("ppoll", 414),
    ("io_pgetevents", 416),
    ("recvmmsg", 417),
    ("futex", 422),
];

/// The names by their numbers: each interval looks up the calls of some dozens of waits, each sub-sample those of threads.
static NAMES_ON_X86_64: LazyLock<Vec<Option<&str>>> =
    LazyLock::new(|| names_by_number(SYSCALLS.iter().map(|&(name, number, ..)| (name, number))));
static GENERIC_NAMES: LazyLock<Vec<Option<&str>>> =
    LazyLock::new(|| names_by_number(SYSCALLS.iter().map(|&(name, _, number, _)| (name, number))));
static NAMES_ON_I386: LazyLock<Vec<Option<&str>>> = LazyLock::new(|| {
    let calls = SYSCALLS.iter().map(|&(name, _, _, number)| (name, number));
    names_by_number(calls.chain(OTHERS_ON_I386.iter().copied()))
});

fn names_by_number(calls: impl Iterator<Item = (&'static str, i64)>) -> Vec<Option<&'static str>> {
    let mut names = Vec::new();
    for (name, number) in calls {
        let Ok(number) = usize::try_from(number) else { continue };
        names.resize(names.len().max(number + 1), None);
        if let Some(place) = names.get_mut(number) {
            *place = Some(name);
        }
    }
    names
}
