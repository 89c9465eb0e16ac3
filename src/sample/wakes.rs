//! Which thread woke which: counts of one trace of some processes, as the kernel's program (`assets/probe/wakes.bpf.c`) made them.

use super::Name;

/// The counts of one trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wakes {
    /// CLOCK_REALTIME at the beginning
    pub realtime_ns: u64,
    /// From the beginning to the end
    pub span_ns: u64,
    /// The part of it in which the programs were attached
    pub elapsed_ns: u64,
    /// `utsname.machine`: system calls have other numbers on other machines
    pub machine: Name,
    pub processes: Vec<WakeTraceProcess>,
    pub threads: Vec<TracedThread>,
    pub futexes: Vec<TracedFutex>,
    pub waits: Vec<TracedWait>,
    /// Events that were not counted, for lack of a place or of time; `None` if the kernel does not report them
    pub lost_events: Option<u64>,
    /// Processes that were not traced, since there are too many
    pub processes_left_out: usize,
    /// Threads whose system calls this user may not read: if they wait, it is not known in what
    pub hidden_threads: usize,
}

/// A process that was traced.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeTraceProcess {
    pub pid: u32,
    /// At the beginning
    pub name: Name,
    /// It ended within the trace
    pub has_ended: bool,
}

/// A thread of one of them that ran or was woken, or waited all the time.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedThread {
    pub pid: u32,
    pub tid: u32,
    /// Empty if it ended before its name was read
    pub name: Name,
    /// `None`: it had no event, and did not wait all the time
    pub times: Option<ThreadTimes>,
}

/// What a thread did beside waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On a CPU
    pub run_ns: u64,
    /// Woken or preempted, but not on a CPU
    pub runnable_ns: u64,
}

/// A futex at which threads waited. Numbers are of waits that ended within the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedFutex {
    pub address: u64,
    /// Of the process; `None`: in memory that processes share
    pub pid: Option<u32>,
    pub waits: u64,
    /// Waits with a value that only locks wait with: 2, that of a contended mutex; FUTEX_WAITERS with a thread id; FUTEX_LOCK_PI
    pub lock_values: u64,
    pub with_timeout: u64,
    /// Waits with another value than that of the first one
    pub other_values: u64,
    /// Wake-ups by a futex call of a traced thread
    pub wake_ups: u64,
    /// Those by a thread that was itself last woken there
    pub passed_on: u64,
    /// From when these threads were woken there to when they woke the next one there, summed: they may have waited elsewhere meanwhile
    pub passed_on_ns: u64,
}

/// What a thread waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitPlace {
    /// Index into `Wakes::futexes`
    Futex(usize),
    /// The number of a system call; `None` outside of one: a page fault
    Call { number: Option<u16>, uninterruptible: bool },
}

/// Waits of one thread by place, waker, and the place in which that waker itself waited longest meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedWait {
    /// Index into `Wakes::threads`
    pub thread: usize,
    pub place: WaitPlace,
    /// Index into `Wakes::threads`; `None`: woken by an interrupt, a timeout, a signal, or a thread that is not traced or not in a futex call
    pub waker: Option<usize>,
    /// Wake-ups; 0: it still waits
    pub count: u64,
    pub blocked_ns: u64,
    pub held: HeldTime,
}

/// What the waker did until it woke this thread: from the wake-up before, by whatever thread at that futex, or from when this thread
/// began to wait, if that was later. If the futex is that of a lock, the waker held the lock in that time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldTime {
    pub total_ns: u64,
    pub run_ns: u64,
    pub runnable_ns: u64,
    /// Its longest wait each time
    pub wait_ns: u64,
    /// What that was in
    pub wait: Option<WaitPlace>,
}
