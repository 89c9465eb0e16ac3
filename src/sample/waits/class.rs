//! Wait classes: what a thread waits for, from its state, the kernel function in which it sleeps (wchan) and its system call. The functions
//! of each class are in `class/table.rs`, those that wait for locks of the kernel in `class/kernel_locks.rs`, those that say more than the class
//! in `class/channels.rs`.

mod channels;
mod kernel_locks;
mod table;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use self::channels::{
    is_empty_unix_socket, is_file_lock, is_freezable_sleep, is_freezer, is_full_pipe, is_full_socket, is_fuse_request,
    is_kernel_delay, is_non_block_file_system, is_non_block_storage, is_request_wait, is_tape, may_be_core_dump, may_be_socket,
};
pub use self::kernel_locks::{HeldOnStorage, KernelLock, is_own_mmap_lock};
use self::table::{EXACT_NAMES, PREFIXES};
use super::syscall::Syscall;
use crate::sample::task_state::TaskState;

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
    /// In D until another thread of its process has written the core dump: the process has crashed
    CoreDump,
}

impl WaitClass {
    /// How many there are: the length of an array indexed by `WaitClass as usize`.
    pub const COUNT: usize = 16;

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
        WaitClass::CoreDump,
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
            WaitClass::CoreDump => "core-dump",
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
        let Some(channel) = channel else {
            // Of a call in D it is not known whether it waits for the disk, but of these.
            let call = call.filter(|call| state == TaskState::Sleeping || call.is_fsync_family());
            return Some(call.map_or(WaitClass::Hidden, |call| class_by_syscall(call, state)));
        };
        // First, because names of such functions begin like those of sockets, of the disk or of ptrace (inet_rtm_newaddr, xfs_ilock).
        if state == TaskState::Blocked && KernelLock::of_function(strip_compiler_suffix(channel)).is_some() {
            return Some(WaitClass::Lock);
        }
        let class = WaitClass::from_wchan(strip_compiler_suffix(channel));
        let class = match (class, call) {
            (Some(WaitClass::Futex), Some(call)) if state == TaskState::Sleeping && call.is_contended_futex() => {
                WaitClass::Lock
            }
            (Some(class), _) => class,
            // wait_woken and others serve sockets, terminals and inotify alike: the system call says which.
            (None, Some(call)) if state == TaskState::Blocked && waits_for_deferred_io(channel, call) => WaitClass::Disk,
            (None, Some(call)) => class_by_syscall(call, state),
            (None, None) => WaitClass::Other,
        };
        match (state, class) {
            (TaskState::Blocked, _) if never_uninterruptible(class) => None,
            (TaskState::Sleeping, WaitClass::Disk) if !is_fuse_request(channel) => Some(WaitClass::Other),
            _ => Some(class),
        }
    }

    /// The class of a thread that was found in this wait again and again and did not run meanwhile: in D in a function in which threads sleep
    /// in S, it was put into D by the freezer if that lets them sleep there; otherwise it is in D for another reason, as for a mutex.
    pub fn classify_settled(state: TaskState, channel: Option<&[u8]>, call: Option<Syscall>) -> WaitClass {
        let is_freezable = || channel.is_some_and(is_freezable_sleep);
        WaitClass::classify(state, channel, call).unwrap_or(if is_freezable() { WaitClass::Frozen } else { WaitClass::Other })
    }

    /// Whether threads wait there only in S, so that the channel also gives the state.
    pub fn wchan_is_interruptible(channel: &[u8]) -> bool {
        use WaitClass::{Aio, Futex, Net, Pipe, Poll, Timer};
        let function = strip_compiler_suffix(channel);
        matches!(WaitClass::from_wchan(function), Some(Aio | Futex | Net | Pipe | Poll | Timer))
            && KernelLock::of_function(function).is_none()
    }

    /// The class of a function, whatever the state of the thread; `None` if it is not listed.
    pub fn from_wchan(symbol: &[u8]) -> Option<WaitClass> {
        if let Some(&(_, class)) = EXACT_NAMES.iter().find(|(name, _)| name.as_bytes() == symbol) {
            return Some(class);
        }
        let with_its_letter = PREFIXES_BY_FIRST_BYTE.get(usize::from(*symbol.first()?))?;
        with_its_letter.iter().find(|(name, _)| symbol.starts_with(name.as_bytes())).map(|&&(_, class)| class)
    }
}

/// The class of a wait whose wait channel alone does not determine it. In D the function waits for something else than the call usually does:
/// sendmsg to a netlink socket for a mutex of the network configuration.
fn class_by_syscall(call: Syscall, state: TaskState) -> WaitClass {
    match call.name {
        "flock" => WaitClass::Lock,
        _ if state == TaskState::Blocked && call.is_fsync_family() => WaitClass::Disk,
        _ if state == TaskState::Blocked => WaitClass::Other,
        "futex" if call.is_contended_futex() => WaitClass::Lock,
        "futex" | "futex_wait" | "futex_waitv" | "semtimedop" | "semop" => WaitClass::Futex,
        "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" | "accept" | "accept4" | "connect" => {
            WaitClass::Net
        }
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => WaitClass::Poll,
        "nanosleep" | "clock_nanosleep" => WaitClass::Timer,
        "wait4" | "waitid" => WaitClass::Child,
        "io_getevents" | "io_pgetevents" | "io_uring_enter" => WaitClass::Aio,
        _ => WaitClass::Other,
    }
}

/// Whether a thread in D in this call for a file waits there for I/O that a kernel thread does for it: XFS (the log, inodes to be freed)
/// or RAID 5. Sockets and terminals wait in `wait_woken` in S.
fn waits_for_deferred_io(channel: &[u8], call: Syscall) -> bool {
    const FUNCTIONS: [&str; 5] = ["__flush_work", "flush_work", "__flush_workqueue", "flush_workqueue", "wait_woken"];
    FUNCTIONS.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel)) && call.is_file_io()
}

/// Classes that are never in D, frozen threads excepted.
fn never_uninterruptible(class: WaitClass) -> bool {
    use WaitClass::{Aio, Child, Futex, Net, Pipe, Poll, Timer};
    matches!(class, Aio | Child | Futex | Net | Pipe | Poll | Timer)
}

/// Without `.isra.0`, `.constprop.0`, `.part.0`, `.cold`: suffixes of the compiler, different in each build.
pub fn strip_compiler_suffix(symbol: &[u8]) -> &[u8] {
    match symbol.iter().position(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => &symbol[..dot],
        _ => symbol,
    }
}

/// `PREFIXES` by the first byte, because it is searched a thousand times a second.
static PREFIXES_BY_FIRST_BYTE: LazyLock<Vec<Vec<&(&str, WaitClass)>>> = LazyLock::new(|| {
    let with_letter = |letter: u8| PREFIXES.iter().filter(|(name, _)| name.as_bytes().first() == Some(&letter)).collect();
    (0..=u8::MAX).map(with_letter).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn class_in(state: TaskState, channel: &str) -> Option<WaitClass> {
        WaitClass::classify(state, Some(channel.as_bytes()), None)
    }

    #[test]
    fn storage_without_a_block_device_is_storage() {
        for name in [
            "nfs_wait_bit_killable",
            "rpc_wait_bit_killable",
            "cifs_wait_mtu_credits",
            "smb2_reconnect",
            "wait_for_response",
            "compound_send_recv",
            "ceph_get_caps",
            "fuse_wait_on_page_writeback",
            "request_wait_answer",
            "v9fs_file_fsync",
            "p9_client_rpc",
            "netfs_wait_for_read",
            "afs_wait_for_operation",
            "gfs2_glock_wait",
        ] {
            assert_eq!(class_in(TaskState::Blocked, name), Some(WaitClass::Disk), "{name}");
            assert!(is_non_block_storage(name.as_bytes()), "{name}");
        }
        let kinds = [
            ("nfs4", true),
            ("fuse.sshfs", true),
            ("fuseblk", false),
            ("ext4", false),
            ("gfs2", false),
            ("overlay", false),
            ("zfs", false),
        ];
        for (kind, is_one) in kinds {
            assert_eq!(is_non_block_file_system(kind.as_bytes()), is_one, "{kind}");
        }
    }

    #[test]
    fn waits_for_requests_are_storage() {
        for name in table::REQUEST_WAITS {
            assert_eq!(class_in(TaskState::Blocked, name), Some(WaitClass::Disk), "{name}");
        }
        assert!(is_request_wait(b"submit_bio_wait") && !is_request_wait(b"ext4_discard_work"));
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
            assert_eq!(class_in(state, channel), Some(class), "{channel}");
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
            assert_eq!(class_in(TaskState::Blocked, channel), Some(class), "{channel}");
        }
    }

    #[test]
    fn in_d_a_call_for_a_file_waits_for_the_io_that_a_kernel_thread_does_for_it() {
        let wait = |state, channel: &str, name| {
            WaitClass::classify(state, Some(channel.as_bytes()), Some(Syscall { name, arguments: [3, 0, 0] }))
        };
        assert_eq!(
            class_in(TaskState::Blocked, "__jbd2_log_wait_for_space"),
            Some(WaitClass::Disk),
            "a full journal, in any call"
        );
        assert_eq!(wait(TaskState::Blocked, "__flush_workqueue", "pwrite64"), Some(WaitClass::Disk));
        assert_eq!(wait(TaskState::Blocked, "__flush_work", "write"), Some(WaitClass::Disk));
        assert_eq!(wait(TaskState::Blocked, "wait_woken", "write"), Some(WaitClass::Disk));
        assert_eq!(wait(TaskState::Blocked, "__flush_work", "ioctl"), Some(WaitClass::Other), "of a driver");
        assert_eq!(wait(TaskState::Blocked, "__flush_work", "flock"), Some(WaitClass::Lock));
        assert_eq!(wait(TaskState::Sleeping, "wait_woken", "read"), Some(WaitClass::Other), "a terminal");
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
        assert_eq!(class_in(TaskState::Blocked, "ext4_file_write_iter"), Some(WaitClass::Lock));
        assert_eq!(class_in(TaskState::Blocked, "path_openat"), Some(WaitClass::Lock));
        assert_eq!(class_in(TaskState::Sleeping, "path_openat"), Some(WaitClass::Other), "a FIFO without another end");
        assert!(is_file_lock(b"locks_lock_inode_wait") && !is_file_lock(b"futex_do_wait"));
    }

    #[test]
    fn in_d_every_function_of_a_kernel_lock_is_a_lock_whatever_its_name_begins_with() {
        let call = |name| Some(Syscall { name, arguments: [3, 0, 0] });
        for (function, _) in kernel_locks::FUNCTIONS {
            for call in [None, call("sendmsg"), call("fsync"), call("wait4"), call("nanosleep")] {
                let class = WaitClass::classify(TaskState::Blocked, Some(function.as_bytes()), call);
                assert_eq!(class, Some(WaitClass::Lock), "{function} {call:?}");
            }
            assert!(!WaitClass::wchan_is_interruptible(function.as_bytes()), "{function}");
        }
        assert_eq!(class_in(TaskState::Blocked, "__synchronize_srcu.part.0"), Some(WaitClass::Lock));
        assert_eq!(class_in(TaskState::Sleeping, "inet_csk_accept"), Some(WaitClass::Net));
        assert!(WaitClass::wchan_is_interruptible(b"inet_csk_accept"));
    }

    #[test]
    fn a_wait_for_a_file_system_in_user_space_is_asleep() {
        assert_eq!(class_in(TaskState::Sleeping, "request_wait_answer"), Some(WaitClass::Disk));
        assert_eq!(class_in(TaskState::Sleeping, "__fuse_simple_request.isra.0"), Some(WaitClass::Disk));
        assert_eq!(
            class_in(TaskState::Sleeping, "fuse_dev_do_read"),
            Some(WaitClass::Other),
            "the file system itself, with nothing to do"
        );
        assert_eq!(class_in(TaskState::Sleeping, "folio_wait_bit"), Some(WaitClass::Other));
    }

    #[test]
    fn in_d_a_call_for_sockets_or_events_says_nothing_of_a_function_that_is_not_known() {
        let call = |name| Some(Syscall { name, arguments: [3, 0, 0] });
        let class = |state, name| WaitClass::classify(state, Some(b"some_function"), call(name));
        for name in ["sendmsg", "recvmsg", "poll", "io_uring_enter", "nanosleep", "wait4", "futex"] {
            assert_eq!(class(TaskState::Blocked, name), Some(WaitClass::Other), "{name}");
            assert_ne!(class(TaskState::Sleeping, name), Some(WaitClass::Other), "{name}");
        }
    }

    #[test]
    fn only_where_the_freezer_leaves_threads_asleep_are_they_frozen_in_d() {
        let settled = |channel: &str| WaitClass::classify_settled(TaskState::Blocked, Some(channel.as_bytes()), None);
        for name in [
            "futex_do_wait",
            "do_epoll_wait",
            "poll_schedule_timeout.constprop.0",
            "hrtimer_nanosleep",
            "unix_stream_read_generic",
        ] {
            assert_eq!(settled(name), WaitClass::Frozen, "{name}");
        }
        for name in ["netlink_recvmsg", "anon_pipe_write", "inet_csk_accept", "do_wait"] {
            assert_eq!(settled(name), WaitClass::Other, "{name}");
        }
        assert_eq!(settled("netlink_dump"), WaitClass::Lock);
        let contended = Some(Syscall { name: "futex", arguments: [0x1000, 0x80, 2] });
        let frozen = WaitClass::classify_settled(TaskState::Blocked, Some(b"futex_do_wait"), contended);
        assert_eq!(frozen, WaitClass::Frozen, "behind a mutex, and frozen there");
    }

    #[test]
    fn a_pair_that_cannot_be_is_read_again() {
        assert_eq!(class_in(TaskState::Blocked, "do_epoll_wait"), None);
        assert_eq!(class_in(TaskState::Blocked, "futex_do_wait"), None);
        assert_eq!(WaitClass::classify(TaskState::Sleeping, None, None), Some(WaitClass::Hidden));
    }
}
