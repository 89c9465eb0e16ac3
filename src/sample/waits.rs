//! Sub-samples: readings of the hot threads, about ten times between two samples.
//!
//! A wait is a combination of state, wait channel and system call (`ObservedWait`). Each sub-sample has the number of threads in each
//! wait by group; each hot thread has the number of sub-samples that saw it in each wait. `interval::wait_counts` classifies the
//! waits (`class`), so that a wrong class can be corrected for recordings, too.

pub mod class;
mod observed;
pub mod syscall;

use serde::{Deserialize, Serialize};

pub use class::WaitClass;
pub use observed::{GroupWait, IpcHolder, IpcWaiter, ObservedWait, ThreadWait};
pub use syscall::{FutexWait, Syscall};

use super::Name;
use super::cpu::CpuTimes;
use super::task::{RawSyscall, TaskState};
use crate::ids::{DiskId, GroupId, TaskId};

/// The sub-samples since the last sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// In time order. The last one belongs to the sample itself.
    pub sub_samples: Vec<SubSample>,
    /// Groups: `GroupWait::group` is an index into this list.
    pub groups: Vec<GroupId>,
    /// Each wait that the rows of `sub_samples` and `threads` refer to; sorted by `id`
    pub observed: Vec<ObservedWait>,
    /// Each hot thread in each of its waits; sorted by task and wait
    pub threads: Vec<ThreadWait>,
    /// Threads seen blocked (on storage, in reclaim, in an unknown D state): a row for each wait in which a thread was seen, sorted by
    /// task, of at most `MAX_BLOCKED_THREADS` threads. `interval::blocked_threads` makes one entry a thread of them.
    pub blocked: Vec<BlockedWait>,
    /// Queues in which threads of groups with a thread on storage waited; sorted by group and kind.
    pub wait_queues: Vec<WaitQueue>,
    /// Threads in pipes and Unix sockets, in groups with a thread on storage; sorted by task
    pub ipc_waiters: Vec<IpcWaiter>,
    /// The processes that have the other ends open; sorted
    pub ipc_holders: Vec<IpcHolder>,
    /// Sub-samples skipped because they had used up their CPU budget.
    pub skipped_sub_samples: u32,
}

/// A thread with a timeslice within this time is active: it is sub-sampled, and may be waiting for work in a futex, pipe or socket. In a
/// convoy of 64 threads each gets a timeslice about once a second, a parked thread none.
pub const ACTIVE_NS: u64 = 5_000_000_000;

/// Blocked threads that are kept one by one; the others are only counted.
pub const MAX_BLOCKED_THREADS: usize = 32;

/// One reading of the hot threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubSample {
    /// CLOCK_BOOTTIME
    pub boottime_ns: u64,
    /// The line `cpu` of /proc/stat at that moment, cumulative. `None` if it could not be read, or was not because no thread was blocked.
    pub cpu: Option<CpuTimes>,
    /// Requests in flight on all whole devices that are not stacked on others; `None` if diskstats could not be read.
    pub in_flight: Option<u32>,
    /// The threads of each group by wait; sorted by group, wait and `active`
    pub waits: Vec<GroupWait>,
}

/// What threads of a group wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitQueueKind {
    /// A mutex of the program, held by another thread as the futex call shows
    Mutex,
    /// Another futex or semop: a condition variable, a semaphore, a read-write lock; may also be idle
    Futex,
    /// flock, fcntl
    FileLock,
    /// A lock of the kernel (of an inode, of an address space): state D
    KernelLock,
    /// The other end of a pipe
    Pipe,
    /// The other end of a socket
    Socket,
    /// An answer of a remote host: the other end of a TCP connection that this host opened and on which it sent last. Shown, but not
    /// counted as blocked.
    Remote,
}

/// One kind of queue of one group, over the sub-samples since the last sample.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitQueue {
    /// Index into `Waits::groups`
    pub group: u16,
    pub kind: WaitQueueKind,
    /// Sightings of threads in it. Divided by the number of sub-samples: mean number of waiting threads
    pub seen_count: u32,
    /// Part of `seen_count`: at the futex address, or the remote port, with most sightings
    pub seen_at_one_address: u32,
    /// wchan of the thread seen last
    pub wchan: Option<Name>,
    /// The file of the lock, by the descriptor of the last thread's system call; or address and port of the remote host
    pub file: Option<Name>,
    /// Pid of the holder: of a file lock by /proc/locks, of a pipe or socket by its other end
    pub holder: Option<u32>,
}

/// A blocked thread in one wait: the same state, wait channel, system call and descriptor. `interval::blocked_threads` classifies it.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedWait {
    pub task: TaskId,
    /// Index into `Waits::groups`
    pub group: u16,
    /// Name of the thread, which may differ from that of its process
    pub comm: Name,
    /// stat field 3
    pub state: TaskState,
    /// wchan: the kernel function it sleeps in
    pub wchan: Option<Name>,
    pub syscall: Option<RawSyscall>,
    /// Sub-samples since the last sample that saw it in this wait
    pub seen_count: u16,
    /// The last of them: index into `Waits::sub_samples`
    pub last_sub_sample: u16,
    /// CLOCK_BOOTTIME since when it has been in this wait, as that sub-sample saw it: its timeslices had not moved since
    pub blocked_since_ns: u64,
    /// The file of the system call's descriptor; /proc/PID/fd
    pub file: Option<Name>,
    /// The whole device with that file, by mnt_id in fdinfo and by mountinfo
    pub disk: Option<DiskId>,
    /// Where the file system of that file is mounted
    pub mount: Option<Name>,
}
