//! Wait classes: what a thread waits for, from its state, the kernel function in which it sleeps (wchan) and its system call. The functions
//! of each class are in `class/table.rs`, those that wait for locks of the kernel in `class/kernel_locks.rs`, those that say more than the class
//! in `class/channels.rs`.

mod channels;
mod kernel_locks;
mod table;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
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
        let function = strip_compiler_suffix(channel);
        // First, because names of such functions begin like those of sockets, of the disk or of ptrace (inet_rtm_newaddr, xfs_ilock).
        if state == TaskState::Blocked && KernelLock::of_function(function).is_some() {
            return Some(WaitClass::Lock);
        }
        let class = WaitClass::from_wchan(function);
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
        let settled = || if is_freezable() { WaitClass::Frozen } else { WaitClass::Other };
        WaitClass::classify(state, channel, call).unwrap_or_else(settled)
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
        if let Some(&class) = CLASS_BY_NAME.get(symbol) {
            return Some(class);
        }
        let with_its_beginning = PREFIXES_BY_BEGINNING.get(symbol.first_chunk::<PREFIX_BEGINNING>()?)?;
        with_its_beginning.iter().find(|(name, _)| symbol.starts_with(name)).map(|&(_, class)| class)
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

/// `EXACT_NAMES` by name: each interval looks up the functions of some dozens of waits.
static CLASS_BY_NAME: LazyLock<FxHashMap<&[u8], WaitClass>> =
    LazyLock::new(|| EXACT_NAMES.iter().map(|&(name, class)| (name.as_bytes(), class)).collect());

/// No prefix is shorter.
const PREFIX_BEGINNING: usize = 3;

/// Prefixes and their classes
type Prefixes = Vec<(&'static [u8], WaitClass)>;

/// `PREFIXES` by their first bytes, in the same order.
static PREFIXES_BY_BEGINNING: LazyLock<FxHashMap<[u8; PREFIX_BEGINNING], Prefixes>> = LazyLock::new(|| {
    let mut by_beginning: FxHashMap<_, Prefixes> = FxHashMap::default();
    for &(name, class) in PREFIXES {
        if let Some(&beginning) = name.as_bytes().first_chunk::<PREFIX_BEGINNING>() {
            by_beginning.entry(beginning).or_default().push((name.as_bytes(), class));
        }
    }
    by_beginning
});
