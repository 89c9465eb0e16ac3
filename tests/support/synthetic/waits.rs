//! Synthetic rows of sub-samples that count as wanted, one wait for each wait class: a part of `synthetic`.

use stalltop::ids::TaskId;
use stalltop::interval::wait_counts::GroupWaits;
use stalltop::sample::Name;
use stalltop::sample::task::{RawSyscall, TaskState};
use stalltop::sample::waits::{BlockedWait, GroupWait, ObservedWait, ThreadWait, WaitClass, WaitQueue};

/// Waits beside the one of each class, whose number is `WaitClass as u32`.
pub const OTHER_BLOCKED: u32 = 100;
pub const HIDDEN_BLOCKED: u32 = 101;
const FILE_LOCK: u32 = 102;
/// The futex call of a contended mutex
pub const MUTEX: u32 = 103;
/// A full pipe; an empty one is the wait of `WaitClass::Pipe`.
pub const PIPE_WRITE: u32 = 104;
/// A wait in state t: stopped by its tracer
pub const TRACED: u32 = 105;

/// A futex call on memory of its process alone that is neither that of a mutex nor one with a timeout: of a condition variable
pub const PRIVATE_FUTEX: u32 = 106;

/// An empty Unix socket
pub const UNIX_SOCKET: u32 = 107;

/// The waits that the rows refer to.
pub fn observed() -> Vec<ObservedWait> {
    use TaskState::{Blocked, Running, Sleeping, Stopped, Traced};
    let of_class = |class| match class {
        WaitClass::Running => (Running, ""),
        WaitClass::Disk => (Blocked, "submit_bio_wait"),
        WaitClass::Aio => (Sleeping, "read_events"),
        WaitClass::Lock => (Blocked, "rwsem_down_write_slowpath"),
        WaitClass::Net => (Sleeping, "inet_csk_accept"),
        WaitClass::Pipe => (Sleeping, "anon_pipe_read"),
        WaitClass::Timer => (Sleeping, "hrtimer_nanosleep"),
        WaitClass::Poll => (Sleeping, "do_epoll_wait"),
        WaitClass::Child => (Sleeping, "do_wait"),
        WaitClass::Vfork => (Blocked, "kernel_clone"),
        WaitClass::Memory => (Blocked, "shrink_node"),
        WaitClass::Frozen => (Stopped, ""),
        WaitClass::Hidden => (Sleeping, ""),
        WaitClass::Other => (Sleeping, "sigsuspend"),
        WaitClass::Futex => (Sleeping, "futex_do_wait"),
        WaitClass::CoreDump => (Blocked, "coredump_task_exit"),
    };
    let more = [
        (OTHER_BLOCKED, (Blocked, "some_driver")),
        (HIDDEN_BLOCKED, (Blocked, "")),
        (FILE_LOCK, (Sleeping, "locks_lock_inode_wait")),
    ];
    let all = WaitClass::ALL.into_iter().map(|class| (class as u32, of_class(class))).chain(more);
    let wait = |(id, (state, wchan)): (u32, (TaskState, &str))| ObservedWait {
        id,
        state,
        wchan: (!wchan.is_empty()).then(|| Name::from(wchan)),
        syscall: None,
        has_timeout: false,
        is_behind_named_owner: false,
        java_lock: None,
        wait_event: None,
    };
    let mutex = ObservedWait {
        id: MUTEX,
        state: Sleeping,
        wchan: Some(Name::from("futex_do_wait")),
        syscall: Some(RawSyscall { number: 202, arguments: [0, 0x80, 2] }),
        has_timeout: false,
        is_behind_named_owner: false,
        java_lock: None,
        wait_event: None,
    };
    let private = ObservedWait {
        id: PRIVATE_FUTEX,
        syscall: Some(RawSyscall { number: 202, arguments: [0, 0x189, 3] }),
        ..mutex.clone()
    };
    // In the order of their numbers.
    let last = [
        mutex,
        wait((PIPE_WRITE, (Sleeping, "anon_pipe_write"))),
        wait((TRACED, (Traced, ""))),
        private,
        wait((UNIX_SOCKET, (Sleeping, "unix_stream_data_wait"))),
    ];
    all.map(wait).chain(last).collect()
}

/// Threads of one group in one sub-sample that wait for a mutex, all at one address or several at each.
pub fn mutex(group: u16, threads: u16) -> GroupWait {
    GroupWait { group, wait: MUTEX, active: true, threads, at_shared_address: threads }
}

/// The rows of one group in one sub-sample.
pub fn group(counts: &GroupWaits) -> Vec<GroupWait> {
    let counted = [
        (WaitClass::Running as u32, counts.running),
        (WaitClass::Disk as u32, counts.storage),
        (WaitClass::Aio as u32, counts.aio),
        (WaitClass::Lock as u32, counts.lock_contended.saturating_sub(counts.file_lock)),
        (WaitClass::Pipe as u32, counts.ipc_peer),
        (WaitClass::Memory as u32, counts.memory),
        (WaitClass::Futex as u32, counts.lock_inferred),
        (OTHER_BLOCKED, counts.other_blocked.saturating_sub(counts.hidden_blocked)),
        (HIDDEN_BLOCKED, counts.hidden_blocked),
        (FILE_LOCK, counts.file_lock),
    ];
    let row = |(wait, threads)| GroupWait { group: counts.group, wait, active: true, threads, at_shared_address: 0 };
    let mut rows: Vec<GroupWait> = counted.into_iter().filter(|&(_, threads)| threads > 0).map(row).collect();
    rows.sort_by_key(|row| row.wait);
    rows
}

/// The rows of one thread: in how many sub-samples it was in each class.
pub fn thread(task: TaskId, group: u16, counts: &[(WaitClass, u16)]) -> Vec<ThreadWait> {
    let row = |&(class, seen_count): &(WaitClass, u16)| ThreadWait { task, wait: class as u32, group, seen_count };
    let mut rows: Vec<ThreadWait> = counts.iter().filter(|(_, count)| *count > 0).map(row).collect();
    rows.sort_by_key(|row| row.wait);
    rows
}

/// The wait of a thread of group 0 that ten sub-samples saw blocked, in an unknown place.
pub fn blocked(task: TaskId, comm: impl Into<Name>) -> BlockedWait {
    BlockedWait {
        task,
        group: 0,
        comm: comm.into(),
        state: TaskState::Blocked,
        wchan: None,
        syscall: None,
        seen_count: 10,
        last_sub_sample: 9,
        blocked_since_ns: 0,
        file: None,
        disk: None,
        mount: None,
        file_system: None,
        has_timeout: false,
    }
}

/// The wait of a thread of group 0 that ten sub-samples saw asleep there.
pub fn asleep(task: TaskId, comm: &str, wchan: &str) -> BlockedWait {
    BlockedWait { state: TaskState::Sleeping, wchan: Some(wchan.into()), ..blocked(task, comm) }
}

/// A queue of a group, of threads that wait for no futex.
pub fn queue(group: u16, wait: u32, seen_count: u32) -> WaitQueue {
    WaitQueue { group, wait, futex_address: None, seen_count, file: None, lock_holder: None }
}
