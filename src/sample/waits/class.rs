//! Wait classes: what a thread waits for, from the kernel function in which it sleeps (wchan). The table is data: function names as in
//! Linux 6.18, and older names beside them.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::syscall::Syscall;
use crate::sample::task::TaskState;

/// What a thread is doing or waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum WaitClass {
    /// R: on a CPU or waiting for one
    Running,
    /// D in the block or file system layer, or S in a file system with interruptible waits (FUSE)
    Disk,
    /// Asleep for asynchronous completions (libaio, io_uring)
    Aio,
    /// A held lock: a futex whose call shows contention, a file lock, a kernel rwsem or mutex
    Lock,
    /// A socket
    Net,
    Pipe,
    /// nanosleep and friends
    Timer,
    /// epoll, poll, select
    Poll,
    /// wait() for a child
    Child,
    /// A vfork parent: D, counted in the load average, harmless
    Vfork,
    /// Memory reclaim, or throttled by it
    Memory,
    /// Frozen by a cgroup, stopped or traced
    Frozen,
    /// The wait channel is hidden from this user
    Hidden,
    Other,
    /// A futex or semaphore not known to be a held lock: a condition variable, a work queue, or a lock after all. Idle unless its group
    /// shows otherwise.
    Futex,
}

impl WaitClass {
    /// How many there are: the length of an array indexed by `WaitClass as usize`.
    pub const COUNT: usize = 15;

    pub const ALL: [WaitClass; WaitClass::COUNT] = [
        WaitClass::Running,
        WaitClass::Disk,
        WaitClass::Aio,
        WaitClass::Lock,
        WaitClass::Net,
        WaitClass::Pipe,
        WaitClass::Timer,
        WaitClass::Poll,
        WaitClass::Child,
        WaitClass::Vfork,
        WaitClass::Memory,
        WaitClass::Frozen,
        WaitClass::Hidden,
        WaitClass::Other,
        WaitClass::Futex,
    ];

    /// The word on the screen and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitClass::Running => "running",
            WaitClass::Disk => "disk",
            WaitClass::Aio => "aio",
            WaitClass::Lock => "lock",
            WaitClass::Net => "net",
            WaitClass::Pipe => "pipe",
            WaitClass::Timer => "timer",
            WaitClass::Poll => "poll",
            WaitClass::Child => "child",
            WaitClass::Vfork => "vfork",
            WaitClass::Memory => "memory",
            WaitClass::Frozen => "frozen",
            WaitClass::Hidden => "hidden",
            WaitClass::Other => "other",
            WaitClass::Futex => "futex",
        }
    }

    /// The class of a thread from its state, wait channel and system call, as far as they are known. State and channel are read at different
    /// moments: `None` for a pair that cannot be (D in epoll), which must be read again.
    pub fn classify(state: TaskState, channel: Option<&[u8]>, call: Option<Syscall>) -> Option<WaitClass> {
        match state {
            TaskState::Running => return Some(WaitClass::Running),
            TaskState::Stopped | TaskState::Traced => return Some(WaitClass::Frozen),
            TaskState::Zombie | TaskState::Dead | TaskState::Idle | TaskState::Other => return Some(WaitClass::Other),
            TaskState::Sleeping | TaskState::Blocked => {}
        }
        let Some(channel) = channel else { return Some(WaitClass::Hidden) };
        let class = WaitClass::from_wchan(strip_compiler_suffix(channel));
        let class = match (class, call) {
            (Some(WaitClass::Futex), Some(call)) if call.is_contended_futex() => WaitClass::Lock,
            (Some(class), _) => class,
            // wait_woken and others serve sockets, terminals and inotify alike: the system call says which.
            (None, Some(call)) => call.wait_class(state),
            (None, None) => WaitClass::Other,
        };
        let in_kernel_lock = || KERNEL_LOCK_FUNCTIONS.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel));
        match (state, class) {
            (TaskState::Blocked, _) if never_uninterruptible(class) => None,
            (TaskState::Blocked, WaitClass::Disk | WaitClass::Other) if in_kernel_lock() => Some(WaitClass::Lock),
            (TaskState::Sleeping, WaitClass::Disk) if !is_fuse_request(channel) => Some(WaitClass::Other),
            _ => Some(class),
        }
    }

    /// Whether threads wait there only in S, so that the channel also gives the state.
    pub fn wchan_is_interruptible(channel: &[u8]) -> bool {
        use WaitClass::{Aio, Futex, Net, Pipe, Poll, Timer};
        matches!(WaitClass::from_wchan(strip_compiler_suffix(channel)), Some(Aio | Futex | Net | Pipe | Poll | Timer))
    }

    fn from_wchan(symbol: &[u8]) -> Option<WaitClass> {
        if let Some(&(_, class)) = EXACT_NAMES.iter().find(|(name, _)| name.as_bytes() == symbol) {
            return Some(class);
        }
        let with_its_letter = PREFIXES_BY_FIRST_BYTE.get(usize::from(*symbol.first()?))?;
        with_its_letter.iter().find(|(name, _)| symbol.starts_with(name.as_bytes())).map(|&&(_, class)| class)
    }
}

/// Classes that are never in D, frozen threads excepted.
fn never_uninterruptible(class: WaitClass) -> bool {
    use WaitClass::{Aio, Child, Futex, Net, Pipe, Poll, Timer};
    matches!(class, Aio | Child | Futex | Net | Pipe | Poll | Timer)
}

/// Whether a thread there waits for the answer of a FUSE file system, interruptibly in S. The threads of the file system itself wait for
/// requests in fuse_dev_do_read.
pub fn is_fuse_request(channel: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["request_wait_answer", "__fuse_request_send", "__fuse_simple_request", "fuse_simple_request"];
    NAMES.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel))
}

/// Whether a thread there waits for a file lock (flock, fcntl), whose holder is in /proc/locks.
pub fn is_file_lock(channel: &[u8]) -> bool {
    const NAMES: [&str; 5] = ["locks_lock_inode_wait", "flock_lock", "posix_lock", "fcntl_setlk", "do_lock_file_wait"];
    NAMES.iter().any(|name| channel.starts_with(name.as_bytes()))
}

/// Whether a thread there waits for storage that is no block device of this host: of a server, or FUSE.
pub fn is_non_block_storage(channel: &[u8]) -> bool {
    const NAMES: [&str; 13] = [
        "nfs",
        "rpc_",
        "cifs",
        "smb",
        "ceph",
        "fuse_",
        "__fuse_",
        "request_wait_answer",
        "v9fs",
        "p9_",
        "afs_",
        "gfs2",
        "netfs_",
    ];
    NAMES.iter().any(|name| channel.starts_with(name.as_bytes()))
}

/// The kernel omits its locking functions from wchan: a thread in D in these functions waits for the lock they take (of an inode, a
/// directory, an address space). They wait for I/O in other functions that they call.
const KERNEL_LOCK_FUNCTIONS: &[&str] = &[
    "ext4_file_write_iter", // with ext4_buffered_write_iter and ext4_dio_write_iter inlined: the inode
    "ext4_buffered_write_iter",
    "ext4_dio_write_iter",
    "ext4_file_read_iter",
    "ext4_dio_read_iter",
    "xfs_ilock",
    "xfs_file_buffered_write",
    "btrfs_inode_lock",
    "generic_file_write_iter",
    "path_openat", // a directory
    "open_last_lookups",
    "lookup_slow",
    "filename_create",
    "do_unlinkat",
    "do_rmdir",
    "do_renameat2",
    "lock_rename",
    "iterate_dir",
    "do_truncate",
    "vfs_fallocate",
    "chmod_common",
    "chown_common",
    "lock_mm_and_find_vma", // an address space; since 6.5
    "do_user_addr_fault",   // before
    "__do_page_fault",      // before 5.4
    "do_page_fault",        // arm64
    "vm_mmap_pgoff",
    "__vm_munmap",
    "do_madvise",
    "do_mprotect_pkey",
];

/// Without `.isra.0`, `.constprop.0`, `.part.0`, `.cold`: suffixes of the compiler, different in each build.
pub fn strip_compiler_suffix(symbol: &[u8]) -> &[u8] {
    match symbol.iter().position(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => &symbol[..dot],
        _ => symbol,
    }
}

/// Whole names, where a prefix would match other functions.
const EXACT_NAMES: &[(&str, WaitClass)] = &[
    ("kernel_clone", WaitClass::Vfork), // since 5.10; wait_for_vfork_done inlined into it
    ("_do_fork", WaitClass::Vfork),     // 4.2 to 5.9
    ("do_fork", WaitClass::Vfork),
    ("wait_for_vfork_done", WaitClass::Vfork),
    ("io_schedule", WaitClass::Disk),
    ("io_schedule_timeout", WaitClass::Disk),
    ("read_events", WaitClass::Aio),
    ("io_cqring_wait", WaitClass::Aio),
    ("wait_for_space", WaitClass::Pipe),
    ("do_wait", WaitClass::Child),
    ("do_wait_intr", WaitClass::Child),
    ("sigsuspend", WaitClass::Other),
    ("schedule_hrtimeout_range", WaitClass::Poll),
    ("schedule_hrtimeout_range_clock", WaitClass::Poll),
    ("get_signal", WaitClass::Frozen),
    ("do_signal_stop", WaitClass::Frozen),
    ("ptrace_stop", WaitClass::Frozen),
    ("throttle_direct_reclaim", WaitClass::Memory),
    ("balance_dirty_pages", WaitClass::Disk), // a writer held back until the disk has caught up
    ("sync_inodes_sb", WaitClass::Disk),
    ("writeback_inodes_sb", WaitClass::Disk),
    ("percpu_down_write", WaitClass::Lock),
];

/// `PREFIXES` by the first byte, because it is searched a thousand times a second.
static PREFIXES_BY_FIRST_BYTE: LazyLock<Vec<Vec<&(&str, WaitClass)>>> = LazyLock::new(|| {
    let with_letter = |letter: u8| PREFIXES.iter().filter(|(name, _)| name.as_bytes().first() == Some(&letter)).collect();
    (0..=u8::MAX).map(with_letter).collect()
});

/// First match wins.
const PREFIXES: &[(&str, WaitClass)] = &[
    // The block layer
    ("submit_bio_wait", WaitClass::Disk),
    ("blk_", WaitClass::Disk),
    ("blkdev_", WaitClass::Disk),
    ("__blkdev_", WaitClass::Disk),
    ("rq_qos_wait", WaitClass::Disk),
    ("wbt_wait", WaitClass::Disk),
    ("bio_", WaitClass::Disk),
    ("bt_get", WaitClass::Disk), // before 5.0: no free request tag
    ("get_request", WaitClass::Disk),
    ("dio_await", WaitClass::Disk),
    ("do_blockdev_direct_IO", WaitClass::Disk),
    ("__blockdev_direct_IO", WaitClass::Disk),
    ("iomap_", WaitClass::Disk),
    ("__iomap_dio_rw", WaitClass::Disk),
    ("md_", WaitClass::Disk),
    ("raid", WaitClass::Disk),
    ("dm_", WaitClass::Disk),
    // Pages and buffers
    ("folio_wait", WaitClass::Disk),
    ("__folio_lock", WaitClass::Disk),
    ("folio_lock", WaitClass::Disk),
    ("wait_on_page", WaitClass::Disk),
    ("__lock_page", WaitClass::Disk),
    ("sleep_on_page", WaitClass::Disk),
    ("wait_on_buffer", WaitClass::Disk),
    ("__wait_on_buffer", WaitClass::Disk),
    ("__lock_buffer", WaitClass::Disk),
    ("bit_wait_io", WaitClass::Disk),
    ("__filemap_fdatawait", WaitClass::Disk),
    ("filemap_", WaitClass::Disk),
    ("swap_read", WaitClass::Disk),
    // File systems
    ("jbd2_", WaitClass::Disk),
    ("do_get_write_access", WaitClass::Disk),
    ("add_transaction_credits", WaitClass::Disk),
    ("wait_transaction_locked", WaitClass::Disk),
    ("start_this_handle", WaitClass::Disk),
    ("ext4_", WaitClass::Disk),
    ("xfs_", WaitClass::Disk),
    ("xlog_", WaitClass::Disk),
    ("btrfs_", WaitClass::Disk),
    ("wait_current_trans", WaitClass::Disk), // btrfs, as the next four
    ("wait_for_commit", WaitClass::Disk),
    ("wait_log_commit", WaitClass::Disk),
    ("wait_extent_bit", WaitClass::Disk),
    ("handle_reserve_ticket", WaitClass::Disk),
    ("f2fs_", WaitClass::Disk),
    ("zil_", WaitClass::Disk),
    ("zio_", WaitClass::Disk),
    ("cv_wait_common", WaitClass::Disk), // ZFS on Linux, state D
    ("nfs", WaitClass::Disk),
    ("rpc_wait", WaitClass::Disk),
    ("cifs_", WaitClass::Disk),
    ("smb2_", WaitClass::Disk),
    ("ceph_", WaitClass::Disk),
    ("fuse_", WaitClass::Disk),
    ("__fuse_", WaitClass::Disk),             // request_wait_answer, where it is inlined
    ("request_wait_answer", WaitClass::Disk), // FUSE
    ("wb_wait_for_completion", WaitClass::Disk),
    ("wait_sb_inodes", WaitClass::Disk),
    ("inode_wait_for_writeback", WaitClass::Disk),
    ("__inode_wait_for_writeback", WaitClass::Disk),
    ("inode_sleep_on_writeback", WaitClass::Disk),
    // Locks
    ("futex_", WaitClass::Futex), // futex_do_wait; futex_wait_queue (5.16 to 6.12), futex_wait_queue_me before
    ("__futex", WaitClass::Futex),
    ("do_futex", WaitClass::Futex),
    ("rt_mutex", WaitClass::Lock),
    ("__rt_mutex", WaitClass::Lock),
    ("locks_lock_inode_wait", WaitClass::Lock),
    ("flock_lock", WaitClass::Lock),
    ("posix_lock", WaitClass::Lock),
    ("fcntl_setlk", WaitClass::Lock),
    ("do_lock_file_wait", WaitClass::Lock),
    ("rwsem_", WaitClass::Lock),
    ("__down_", WaitClass::Lock), // __down_read, __down_write …: before 5.x the rwsem slow paths
    ("down_", WaitClass::Lock),
    ("call_rwsem", WaitClass::Lock),
    ("__mutex_lock", WaitClass::Lock),
    ("mutex_lock", WaitClass::Lock),
    ("percpu_rwsem", WaitClass::Lock), // a frozen file system holds it
    ("__percpu_down", WaitClass::Lock),
    ("do_semtimedop", WaitClass::Futex),
    ("__do_semtimedop", WaitClass::Futex),
    ("SyS_semtimedop", WaitClass::Futex),
    // Memory
    ("shrink_", WaitClass::Memory),
    ("try_to_free", WaitClass::Memory),
    ("reclaim_throttle", WaitClass::Memory),
    ("congestion_wait", WaitClass::Memory),
    ("wait_iff_congested", WaitClass::Memory),
    ("mem_cgroup_", WaitClass::Memory),
    ("__mem_cgroup", WaitClass::Memory),
    ("__alloc_pages", WaitClass::Memory),
    ("compact", WaitClass::Memory),
    // Sockets
    ("inet_csk_accept", WaitClass::Net),
    ("inet_", WaitClass::Net),
    ("tcp_", WaitClass::Net),
    ("sk_", WaitClass::Net),
    ("sock_", WaitClass::Net),
    ("unix_", WaitClass::Net),
    ("__skb_", WaitClass::Net),
    ("skb_", WaitClass::Net),
    ("udp_", WaitClass::Net),
    ("netlink_", WaitClass::Net),
    ("packet_", WaitClass::Net),
    ("vsock_", WaitClass::Net),
    // The rest
    ("anon_pipe_", WaitClass::Pipe),
    ("pipe_", WaitClass::Pipe),
    ("fifo_", WaitClass::Pipe),
    ("wait_for_partner", WaitClass::Pipe),
    ("hrtimer_nanosleep", WaitClass::Timer),
    ("do_nanosleep", WaitClass::Timer),
    ("common_nsleep", WaitClass::Timer),
    ("alarm_timer_nsleep", WaitClass::Timer),
    ("timerfd_", WaitClass::Timer),
    ("do_epoll_wait", WaitClass::Poll),
    ("ep_poll", WaitClass::Poll),
    ("poll_schedule_timeout", WaitClass::Poll),
    ("do_sys_poll", WaitClass::Poll),
    ("do_select", WaitClass::Poll),
    ("do_pselect", WaitClass::Poll),
    ("__refrigerator", WaitClass::Frozen),
    ("refrigerator", WaitClass::Frozen),
    ("freezer", WaitClass::Frozen),
    ("do_freezer_trap", WaitClass::Frozen),
    ("ptrace_", WaitClass::Frozen),
    ("do_sigtimedwait", WaitClass::Timer),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: TaskState, channel: &str) -> Option<WaitClass> {
        WaitClass::classify(state, Some(channel.as_bytes()), None)
    }

    #[test]
    fn every_class_stands_at_its_own_index() {
        for (index, class) in WaitClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, index);
        }
    }

    #[test]
    fn what_the_lab_saw_on_6_18() {
        let seen = [
            (TaskState::Sleeping, "futex_do_wait", WaitClass::Futex),
            (TaskState::Sleeping, "do_epoll_wait", WaitClass::Poll),
            (TaskState::Sleeping, "poll_schedule_timeout.constprop.0", WaitClass::Poll),
            (TaskState::Sleeping, "hrtimer_nanosleep", WaitClass::Timer),
            (TaskState::Sleeping, "anon_pipe_read", WaitClass::Pipe),
            (TaskState::Sleeping, "inet_csk_accept", WaitClass::Net),
            (TaskState::Sleeping, "locks_lock_inode_wait", WaitClass::Lock),
            (TaskState::Sleeping, "do_wait", WaitClass::Child),
            (TaskState::Blocked, "kernel_clone", WaitClass::Vfork),
            (TaskState::Blocked, "__iomap_dio_rw", WaitClass::Disk),
            (TaskState::Blocked, "submit_bio_wait", WaitClass::Disk),
            (TaskState::Blocked, "folio_wait_bit_common", WaitClass::Disk),
            (TaskState::Blocked, "jbd2_log_wait_commit", WaitClass::Disk),
            (TaskState::Sleeping, "read_events", WaitClass::Aio),
            (TaskState::Sleeping, "io_cqring_wait", WaitClass::Aio),
            (TaskState::Blocked, "percpu_rwsem_wait", WaitClass::Lock),
        ];
        for (state, channel, class) in seen {
            assert_eq!(of(state, channel), Some(class), "{channel}");
        }
    }

    #[test]
    fn what_other_kernels_and_file_systems_show() {
        let seen = [
            ("wait_for_commit", WaitClass::Disk),
            ("handle_reserve_ticket.isra.0", WaitClass::Disk),
            ("__fuse_simple_request", WaitClass::Disk),
            ("do_user_addr_fault", WaitClass::Lock),
        ];
        for (channel, class) in seen {
            assert_eq!(of(TaskState::Blocked, channel), Some(class), "{channel}");
        }
    }

    #[test]
    fn only_the_call_makes_a_futex_a_lock() {
        let wait = |operation, value| {
            let call = Syscall { name: "futex", arguments: [0x1000, operation, value] };
            WaitClass::classify(TaskState::Sleeping, Some(b"futex_do_wait"), Some(call))
        };
        assert_eq!(wait(0x80, 2), Some(WaitClass::Lock));
        assert_eq!(wait(0x189, 0), Some(WaitClass::Futex));
    }

    #[test]
    fn in_d_some_functions_mean_the_lock_that_they_take() {
        assert_eq!(of(TaskState::Blocked, "ext4_file_write_iter"), Some(WaitClass::Lock));
        assert_eq!(of(TaskState::Blocked, "path_openat"), Some(WaitClass::Lock));
        assert_eq!(of(TaskState::Sleeping, "path_openat"), Some(WaitClass::Other), "a FIFO that nobody else has open");
        assert!(is_file_lock(b"locks_lock_inode_wait") && !is_file_lock(b"futex_do_wait"));
    }

    #[test]
    fn who_waits_for_a_file_system_in_user_space_does_so_asleep() {
        assert_eq!(of(TaskState::Sleeping, "request_wait_answer"), Some(WaitClass::Disk));
        assert_eq!(of(TaskState::Sleeping, "__fuse_simple_request.isra.0"), Some(WaitClass::Disk));
        assert_eq!(
            of(TaskState::Sleeping, "fuse_dev_do_read"),
            Some(WaitClass::Other),
            "the file system itself, with nothing to do"
        );
        assert_eq!(of(TaskState::Sleeping, "folio_wait_bit"), Some(WaitClass::Other));
    }

    #[test]
    fn a_pair_that_cannot_be_is_read_again() {
        assert_eq!(of(TaskState::Blocked, "do_epoll_wait"), None);
        assert_eq!(of(TaskState::Blocked, "futex_do_wait"), None);
        assert_eq!(WaitClass::classify(TaskState::Sleeping, None, None), Some(WaitClass::Hidden));
    }
}
