//! Sub-samples: readings of the hot threads, about ten times between two samples.
//!
//! A wait is a combination of state, wait channel and system call (`ObservedWait`). Each sub-sample has the number of threads in each
//! wait by group; each hot thread has the number of sub-samples that saw it in each wait. `interval::wait_counts` classifies the
//! waits (`class`), so that a wrong class can be corrected for recordings, too.

pub mod class;
mod java_lock;
mod lock_owner;
mod observed;
pub mod syscall;
mod wait_event;

use std::net::SocketAddr;

pub use class::WaitClass;
pub use java_lock::{JavaLock, JavaLockKind};
pub use lock_owner::{KernelLockOwner, LockOwner, OwnerField, WakerChecks};
pub use observed::{GroupWait, IpcHolder, IpcWaiter, ObservedWait, ThreadWait};
pub use syscall::{FutexWait, Syscall};
pub use wait_event::{WaitEvent, WaitEventClass};

use super::cpu::CpuTimes;
use super::task_state::{RawSyscall, TaskState};
use super::{Absent, Name};
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
    /// The `MAX_WAIT_QUEUES` wait queues with the most sightings; sorted by group, wait and address. `interval::wait_queues`
    /// classifies them.
    pub wait_queues: Vec<WaitQueue>,
    /// The owners of futex locks for which threads wait: the `MAX_LOCK_OWNERS` rows with the most waiters, guesses last; sorted by
    /// group, address and owner
    pub lock_owners: Vec<LockOwner>,
    /// The owners of locks inside the kernel for which threads wait: the `MAX_LOCK_OWNERS` rows with the most waiters; sorted by group,
    /// lock and owner
    pub kernel_lock_owners: Vec<KernelLockOwner>,
    /// Sub-samples that read the owners of locks inside the kernel
    pub kernel_lock_readings: u32,
    /// Processes at the other ends of the pipes and sockets in which owners of locks, or selected threads of a group, wait;
    /// sorted by owner
    pub owner_peers: Vec<OwnerPeer>,
    /// Waits of the threads of these processes, without threads that wait for another process: a row for each wait of a thread,
    /// sorted by task. `group` is that of the threads behind the lock.
    pub peer_waits: Vec<BlockedWait>,
    /// Threads that wait for data of a remote host; sorted by task. `interval::remote_waits` selects those that wait for an
    /// answer. Threads of processes in `owner_peers` are included.
    pub socket_waiters: Vec<SocketWaiter>,
    /// Pipes between two processes, one of which waits in a pipe while the other waits in one or is busy; sorted.
    /// `interval::pipelines` says which waits for which.
    pub pipe_links: Vec<PipeLink>,
    /// Processes of which a thread was seen stopped by a tracer; sorted
    pub traced: Vec<TracedProcess>,
    /// Processes that dump core, of those with a thread in D in a function in which threads may wait for that; sorted
    pub core_dumps: Vec<CoreDump>,
    /// Sockets of processes that are blocked, stopped, or runnable in a throttled cgroup, with requests or connections that they have not served; sorted.
    /// `interval::server_connections` counts those that wait.
    pub server_sockets: Vec<ServerSocket>,
    /// Groups of such processes whose sockets could not be read, or not all of them; sorted, one row a group
    pub unread_servers: Vec<UnreadServer>,
    /// Threads in pipes and Unix sockets, in groups with a thread on storage; sorted by task
    pub ipc_waiters: Vec<IpcWaiter>,
    /// The processes that have the other ends open; sorted
    pub ipc_holders: Vec<IpcHolder>,
    /// Sub-samples skipped because they had used up their CPU budget.
    pub skipped_sub_samples: u32,
}

impl Waits {
    /// Whether the process dumps core, as far as that was read.
    pub fn dumps_core(&self, pid: u32) -> bool {
        self.core_dumps.binary_search(&CoreDump { pid }).is_ok()
    }

    /// The last waits of the owners of locks: of those by futex words, then of those inside the kernel.
    pub fn lock_owner_waits(&self) -> impl Iterator<Item = &BlockedWait> {
        self.lock_owners.iter().map(|row| &row.owner).chain(self.kernel_lock_owners.iter().map(|row| &row.owner))
    }

    /// The wait with this number.
    pub fn observed_wait(&self, id: u32) -> Option<&ObservedWait> {
        let at = self.observed.binary_search_by_key(&id, |wait| wait.id).ok()?;
        self.observed.get(at)
    }
}

/// A thread with a timeslice within this time is active: it is sub-sampled, and may be waiting for work in a futex, pipe or socket. In a
/// convoy of 64 threads each gets a timeslice about once a second, a parked thread none.
pub const ACTIVE_NS: u64 = 5_000_000_000;

/// Blocked threads that are kept one by one; the others are only counted.
pub const MAX_BLOCKED_THREADS: usize = 32;

/// Wait queues of a sample, of all groups: those with the most sightings. The threads of the others are in `SubSample::waits`.
pub const MAX_WAIT_QUEUES: usize = 64;

/// Rows of `Waits::lock_owners` in a sample, and of `kernel_lock_owners`.
pub const MAX_LOCK_OWNERS: usize = 64;

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

/// Threads of one group in one wait at one place: at one futex address, or for one lock of a file or of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitQueue {
    /// Index into `Waits::groups`
    pub group: u16,
    /// `ObservedWait::id`
    pub wait: u32,
    /// First argument of the futex call, behind a lock of Java the address of that; `None` of any other wait
    pub futex_address: Option<u64>,
    /// Sightings of threads in it; at a futex address only those of sub-samples that saw several threads of the group there
    pub seen_count: u32,
    /// The file of the descriptor of the last thread's system call; /proc/PID/fd
    pub file: Option<Name>,
    /// The process that /proc/locks names as holder of the lock for which the last thread's process waits
    pub lock_holder: Option<u32>,
}

/// A thread asleep in a receive call on a connected TCP socket, or in an event loop that watches it: then the connection of its last request;
/// by sock_diag at the end of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketWaiter {
    pub task: TaskId,
    /// Index into `Waits::groups`
    pub group: u16,
    pub remote: SocketAddr,
    /// A socket of this host listens at the local port: the remote host opened the connection.
    pub local_port_listens: bool,
    /// tcpi_last_data_sent: ms since data was last sent
    pub last_data_sent_ms: u32,
    /// tcpi_last_data_recv: ms since data was last received
    pub last_data_received_ms: u32,
}

/// The process at the other end of the pipe or socket in which a thread waits: the only other one that has that end open; /proc/PID/fd and
/// sock_diag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerPeer {
    /// The owner of a lock, a selected thread of a group whose threads wait in sockets, or a thread of such a peer that sent a
    /// request itself
    pub owner: TaskId,
    /// Pid of the process at the other end
    pub peer: u32,
    /// It is a pipe; otherwise a Unix socket, or a TCP connection of this host
    pub is_pipe: bool,
    /// The other end may have a request to answer: of a Unix socket, it did not open the connection; of a pipe, its process reads another
    /// pipe into which the owner's process writes. Always false of TCP: `SocketWaiter` says it.
    pub may_answer: bool,
}

/// Two processes of which one has the write end of a pipe open and the other one the read end; /proc/PID/fd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipeLink {
    /// Pid
    pub writer: u32,
    /// Pid
    pub reader: u32,
    /// A thread of the writer was asleep in a write to it at the sample; false if that was not read
    pub is_full: bool,
}

/// A process of which a sub-sample saw a thread in state t, and the process that traces that thread (ptrace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TracedProcess {
    pub pid: u32,
    /// `TracerPid` of /proc/PID/task/TID/status
    pub tracer: u32,
}

/// A process that dumps core: `CoreDumping` of /proc/PID/status is 1 (since Linux 4.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreDump {
    pub pid: u32,
}

/// A group whose processes have sockets that are missing in `Waits::server_sockets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadServer {
    /// Index into `Waits::groups`
    pub group: u16,
    /// `Absent::NotRead` of too many sockets or processes
    pub reason: Absent,
}

/// A socket on which clients may wait for a process that does not serve them: it has blocked threads, is stopped or frozen, or its
/// cgroup is throttled by its CPU quota. Either a listening socket whose accept queue is not empty, or an accepted connection with
/// received data that is unread or that may have no answer. From sock_diag at the end of the interval; of a process in another network
/// namespace from its /proc/PID/net/tcp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerSocket {
    /// Index into `Waits::groups`
    pub group: u16,
    pub pid: u32,
    /// `None` of a Unix socket
    pub local_port: Option<u16>,
    /// Of a listening socket: connections that the process has not accepted
    pub accept_queue: u32,
    /// Of a connection: received bytes that the process has not read
    pub unread_bytes: u32,
    /// tcpi_last_data_sent: ms since data was last sent; `None` where tcp_info is not known
    pub last_data_sent_ms: Option<u32>,
    /// tcpi_last_data_recv: ms since data was last received
    pub last_data_received_ms: Option<u32>,
    /// tcpi_data_segs_in: segments with data that were received
    pub data_segments_in: Option<u32>,
    /// tcpi_data_segs_out: segments with data that were sent
    pub data_segments_out: Option<u32>,
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
    /// Its type, as `ext4` or `nfs4`; mountinfo
    pub file_system: Option<Name>,
    /// Of the owner of a lock: its futex call has a timeout. Of another system call it says nothing.
    pub has_timeout: bool,
}

impl BlockedWait {
    /// One sighting, of which only the state is known.
    pub fn new(task: TaskId, group: u16, comm: Name, state: TaskState) -> BlockedWait {
        BlockedWait {
            task,
            group,
            comm,
            state,
            wchan: None,
            syscall: None,
            seen_count: 1,
            last_sub_sample: 0,
            blocked_since_ns: 0,
            file: None,
            disk: None,
            mount: None,
            file_system: None,
            has_timeout: false,
        }
    }
}
