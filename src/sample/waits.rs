//! The sub-samples: what the hot threads were seen doing, several times between two samples.
//!
//! Kept as counts per group and wait class, not as raw sweeps. `WaitClass` and its table from kernel symbols live in
//! `waits/class.rs`.

pub mod class;
pub mod syscall;

use serde::{Deserialize, Serialize};

pub use class::WaitClass;
pub use syscall::{FutexWait, Syscall};

use super::Name;
use super::cpu::CpuTimes;
use super::task::{RawSyscall, TaskState};
use crate::ids::{DiskId, GroupId, TaskId};

/// All sub-samples since the sample before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// In time order. The last one belongs to the sample itself.
    pub sub_samples: Vec<SubSample>,
    /// The groups that `GroupWaits::group` points into.
    pub groups: Vec<GroupId>,
    /// Each hot thread with what it was seen doing; sorted by task.
    pub threads: Vec<ThreadWaits>,
    /// Threads seen blocked (on storage, in reclaim, in an unknown D state): a row for each wait in which a thread was seen, sorted by
    /// task, of at most `MAX_BLOCKED_THREADS` threads. `interval::blocked_threads` makes one entry a thread of them.
    pub blocked: Vec<BlockedThread>,
    /// What the threads of groups with a thread on storage were seen queueing for; sorted by group and kind.
    pub wait_queues: Vec<WaitQueue>,
    /// Sub-samples that were left out because sampling had passed its budget.
    pub skipped_sub_samples: u32,
}

/// Blocked threads that are kept one by one; the others are only counted.
pub const MAX_BLOCKED_THREADS: usize = 32;

/// One look at the hot threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubSample {
    /// CLOCK_BOOTTIME
    pub boottime_ns: u64,
    /// The line `cpu` of /proc/stat at that moment, cumulative; `None` where it could not be read, and where nobody was stuck
    /// and another look was to read it soon.
    pub cpu: Option<CpuTimes>,
    /// Requests outstanding on all whole devices that stand on no other; `None` where diskstats could not be read.
    pub in_flight: Option<u32>,
    /// Groups with at least one thread in a class that counts, sorted by `group`.
    pub groups: Vec<GroupWaits>,
}

/// How many threads of one group were in which kind of wait at one sub-sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupWaits {
    /// Index into `Waits::groups`
    pub group: u16,
    /// R
    pub running: u16,
    /// D in the block or file system layer; S where it waits for a file system in user space (FUSE)
    pub storage: u16,
    /// Asleep for asynchronous completions (libaio, io_uring)
    pub aio: u16,
    /// In memory reclaim or throttled by it
    pub memory: u16,
    /// In D with a wait channel that says neither storage nor memory (or hides it)
    pub other_blocked: u16,
    /// D with a hidden wait channel (part of `other_blocked`)
    pub hidden_blocked: u16,
    /// In a lock wait that the futex call itself shows to be contention; active or not
    pub lock_contended: u16,
    /// In a lock wait that nothing but the wait channel shows, by a worker whose timeslices moved in the last 5 s
    pub lock_inferred: u16,
    /// Asleep in a pipe or socket read, by a worker whose timeslices moved in the last 5 s
    pub ipc_peer: u16,
    /// Part of `peer`: the other end is held by a process of the group that has a thread on storage, and none that works on
    pub behind_ipc_peer: u16,
    /// Part of `lock_contended`: in a lock of a file (flock, fcntl)
    pub file_lock: u16,
}

/// What threads of one group wait for that one of their group may have to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitQueueKind {
    /// A mutex of the program: its futex call shows that somebody holds it
    Mutex,
    /// A condition variable, a semaphore, a read-write lock …: a futex or semop that may also be idling
    Futex,
    /// flock, fcntl
    FileLock,
    /// A lock inside the kernel (of an inode, of an address space): state D
    KernelLock,
    /// The other end of a pipe
    Pipe,
    /// The other end of a socket
    Socket,
    /// The answer of a remote host: the other end of a TCP connection that this side has made, and on which it spoke last. It
    /// is told, and counts as nothing.
    Remote,
}

/// One kind of queue of one group, over all sub-samples since the sample before.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitQueue {
    /// Index into `Waits::groups`
    pub group: u16,
    pub kind: WaitQueueKind,
    /// Times a thread was seen in it: divided by the number of sub-samples, how many threads wait on average
    pub seen_count: u32,
    /// Part of `times`: at the one futex address, or remote port, that most wait at
    pub seen_at_one_address: u32,
    /// The kernel function that the last one sleeps in
    pub wchan: Option<Name>,
    /// The lock's file, by the descriptor of the last one's call; of a remote host its address and port
    pub file: Option<Name>,
    /// The process that has it: of a file's lock by /proc/locks, of a pipe or socket by its other end
    pub holder: Option<u32>,
}

/// One hot thread: how often it was seen in each class since the last sample.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadWaits {
    pub task: TaskId,
    /// Index into `Waits::groups`
    pub group: u16,
    /// Times seen, indexed by `WaitClass as usize`; their sum is how often it was looked at.
    pub class_counts: [u16; WaitClass::COUNT],
}

impl ThreadWaits {
    /// Times it was looked at.
    pub fn sub_sample_count(&self) -> u32 {
        self.class_counts.iter().map(|&times| u32::from(times)).sum()
    }
}

/// A blocked thread in one wait: the same state, wait channel, system call and descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedThread {
    pub task: TaskId,
    /// Index into `Waits::groups`
    pub group: u16,
    /// Its own name (a thread may be called otherwise than its process)
    pub comm: Name,
    /// stat field 3
    pub state: TaskState,
    /// What `WaitClass::classify` makes of state, wait channel and system call
    pub class: WaitClass,
    /// wchan: the kernel function it sleeps in
    pub wchan: Option<Name>,
    pub syscall: Option<RawSyscall>,
    /// Sub-samples since the last sample that saw it in this wait
    pub seen_count: u16,
    /// The last of them: index into `Waits::sub_samples`
    pub last_sub_sample: u16,
    /// CLOCK_BOOTTIME since when it has been in this wait, as that sub-sample saw it: its timeslices had not moved since
    pub blocked_since_ns: u64,
    /// The file that the call's descriptor names; /proc/PID/fd
    pub file: Option<Name>,
    /// The whole device that file is on, by fdinfo's mnt_id and mountinfo
    pub disk: Option<DiskId>,
    /// Where the file system of that file is mounted
    pub mount: Option<Name>,
}

impl BlockedThread {
    /// /proc/PID/syscall of a thread that is blocked outside a system call: a page fault.
    pub fn is_page_fault(&self) -> bool {
        self.syscall.is_some_and(|call| call.number == -1)
    }

    /// Whether it waits for storage that is no block device of this machine.
    pub fn is_non_block_storage(&self) -> bool {
        self.wchan.as_ref().is_some_and(|channel| class::is_non_block_storage(channel.as_bytes()))
    }
}
