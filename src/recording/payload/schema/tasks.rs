//! Columns of tasks, and of what the sub-samples saw them do.

use std::sync::Arc;

use crate::ids::{CgroupId, GroupId, ProcessId, TaskId};
use crate::recording::payload::cells::{Cells, cells, put_at, take_at};
use crate::recording::payload::strings::{Interner, Names};
use crate::recording::wire::Malformed;
use crate::sample::cgroup::Memberships;
use crate::sample::cpu::CpuTimes;
use crate::sample::delays::{Delay, TaskDelays};
use crate::sample::exits::{ExitCpuTime, ExitedTasks, UnlistedExits};
use crate::sample::task::{
    ChildrenCpuTime, HiddenTasks, Process, ProcessFacts, RawSyscall, Schedstat, TaskIo, TaskState, Thread, WaitState,
};
use crate::sample::waits::{BlockedThread, GroupWaits, ThreadWaits, WaitClass, WaitQueue, WaitQueueKind};
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// A process without its threads, but with their number.
pub struct ProcessRow {
    pid: u32,
    start_ticks: u64,
    ppid: u32,
    uid: u32,
    comm: Name,
    cmdline: Reading<Name>,
    executable: Reading<Name>,
    kernel_thread: bool,
    cgroup: Reading<CgroupId>,
    memberships: Option<Arc<Memberships>>,
    user_ticks: Counter,
    system_ticks: Counter,
    guest_ticks: Counter,
    children: Option<ChildrenCpuTime>,
    cpu_ns: Option<Counter>,
    minor_faults: Counter,
    major_faults: Counter,
    resident_pages: u64,
    io: Reading<TaskIo>,
    pub threads: u32,
}

cells! { ProcessRow, 40 {
    pid @ 0, start_ticks @ 1, ppid @ 2, uid @ 3, comm @ 4, cmdline @ 5, executable @ 7, kernel_thread @ 9, cgroup @ 10,
    memberships @ 13, threads @ 15, user_ticks @ 16, system_ticks @ 17, cpu_ns @ 18, minor_faults @ 20, major_faults @ 21,
    resident_pages @ 22, io @ 24, children @ 32, guest_ticks @ 35,
} }
cells! { ChildrenCpuTime, 2 { user_ticks @ 0, system_ticks @ 1 } }

/// In these cells a process counts what its threads count too, so only the rest (ended threads) is kept:
/// (cell of the process, cell of the thread).
pub const SUMS: [(usize, usize); 5] = [(16, 14), (17, 15), (20, 16), (21, 17), (19, 20)];

/// The one of them that has a value only where the process has a clock and the thread has schedstat: its cell, and the
/// cells of the process and of the thread that say so.
pub const CLOCK: (usize, usize, usize) = (19, 18, 19);

/// How many threads the process has.
pub const THREAD_COUNT: usize = 15;

/// Cells of a thread's CPU time.
pub struct ThreadCpu {
    pub user: usize,
    pub system: usize,
    /// Says whether there is the next.
    pub known: usize,
    pub run_ns: usize,
}

pub const THREAD_CPU: ThreadCpu = ThreadCpu { user: 14, system: 15, known: 19, run_ns: 20 };

/// In the waits of a thread: the first class, which is kept as the sum of all, and the others.
pub const LOOKS: usize = 4;
pub const WAIT_CLASSES: std::ops::Range<usize> = LOOKS + 1..36;

/// The thread's cell that holds a moment, kept as the time before the sample, behind the cell that says whether it is
/// known.
pub const SWITCHED: usize = 24;

impl ProcessRow {
    /// `hide_arguments`: the command line is replaced by "hidden".
    pub fn of(process: &Process, hide_arguments: bool) -> ProcessRow {
        ProcessRow {
            pid: process.pid,
            start_ticks: process.start_ticks,
            ppid: process.ppid,
            uid: process.uid,
            comm: process.comm.clone(),
            cmdline: match &process.facts.cmdline {
                Ok(_) if hide_arguments => Err(Absent::Hidden),
                cmdline => cmdline.clone(),
            },
            executable: process.facts.executable.clone(),
            kernel_thread: process.kernel_thread,
            cgroup: process.facts.cgroup.clone(),
            memberships: process.facts.memberships.clone(),
            user_ticks: process.user_ticks,
            system_ticks: process.system_ticks,
            guest_ticks: process.guest_ticks,
            children: process.children_cpu,
            cpu_ns: process.cpu_ns,
            minor_faults: process.minor_faults,
            major_faults: process.major_faults,
            resident_pages: process.resident_pages,
            io: process.io,
            threads: u32::try_from(process.threads.len()).unwrap_or(u32::MAX),
        }
    }

    pub fn with(self, threads: Vec<Thread>) -> Process {
        Process {
            pid: self.pid,
            start_ticks: self.start_ticks,
            ppid: self.ppid,
            uid: self.uid,
            comm: self.comm,
            kernel_thread: self.kernel_thread,
            facts: Arc::new(ProcessFacts {
                cmdline: self.cmdline,
                executable: self.executable,
                cgroup: self.cgroup,
                memberships: self.memberships,
            }),
            user_ticks: self.user_ticks,
            system_ticks: self.system_ticks,
            guest_ticks: self.guest_ticks,
            children_cpu: self.children,
            cpu_ns: self.cpu_ns,
            minor_faults: self.minor_faults,
            major_faults: self.major_faults,
            resident_pages: self.resident_pages,
            io: self.io,
            threads: threads.into(),
        }
    }
}

// In the table the process's pid is cell 0, so each of these stands one further to the right there.
cells! { Thread, 28 {
    tid @ 0, start_ticks @ 1, comm @ 2, state @ 3, processor @ 4, wait @ 5,
    user_ticks @ 13, system_ticks @ 14, minor_faults @ 15, major_faults @ 16, block_io_delay_ticks @ 17, schedstat @ 18,
    last_timeslice_ns @ 22, cpus_allowed_list @ 24, guest_ticks @ 26,
    background @ 27,
} }
cells! { WaitState, 8 { wchan @ 0, syscall @ 2 } }
cells! { RawSyscall, 4 { number @ 0, arguments @ 1 } }
cells! { Schedstat, 3 { run_ns @ 0, run_delay_ns @ 1, timeslices @ 2 } }
cells! { TaskIo, 7 { read_bytes @ 0, write_bytes @ 1, cancelled_write_bytes @ 2, read_syscalls @ 3, write_syscalls @ 4 } }
// Keys first: three cells of identity, then the names.
cells! { ExitedTasks, 16 { owner @ 0, owner_name @ 3, name @ 4, are_threads @ 5, count @ 8, cpu @ 9 } }
cells! { UnlistedExits, 8 { processes @ 0, cpu @ 1, threads @ 3 } }
cells! { ExitCpuTime, 2 { run_ns @ 0, tick_ns @ 1 } }
cells! { HiddenTasks, 6 { wait_channels @ 0, schedstats @ 1, processes @ 2 } }
cells! { TaskId, 3 { pid @ 0, tid @ 1, start_ticks @ 2 } }

cells! { TaskDelays, 24 {
    task @ 0, block_io @ 3, swap_in @ 5, reclaim @ 7, thrashing @ 10, compaction @ 13, write_protect_copy @ 16, irq @ 19,
} }
cells! { Delay, 2 { count @ 0, total_ns @ 1 } }

cells! { GroupWaits, 16 {
    group @ 0, running @ 1, storage @ 2, aio @ 3, memory @ 4, other_blocked @ 5, hidden_blocked @ 6,
    lock_contended @ 7, lock_inferred @ 8, ipc_peer @ 9, behind_ipc_peer @ 10, file_lock @ 11,
} }
cells! { ThreadWaits, 36 { task @ 0, group @ 3, class_counts @ 4 } }
cells! { BlockedThread, 32 {
    task @ 0, group @ 3, comm @ 4, class @ 5, wchan @ 6, syscall @ 8, seen_count @ 13, blocked_since_ns @ 14, file @ 15, disk @ 17,
    mount @ 20, state @ 22, last_sub_sample @ 23,
} }
cells! { WaitQueue, 16 { group @ 0, kind @ 1, seen_count @ 2, seen_at_one_address @ 3, wchan @ 4, file @ 6, holder @ 8 } }

/// A sub-sample without its groups, but with their number. `before_ns` is the time before the sample.
pub struct SubSampleRow {
    pub before_ns: u64,
    pub groups: u32,
    pub in_flight: Option<u32>,
    pub cpu: Option<CpuTimes>,
}

cells! { SubSampleRow, 24 { before_ns @ 0, groups @ 1, in_flight @ 2, cpu @ 4 } }

/// Where the CPU times begin in the row of a sub-sample: kept as differences from the sample's total.
pub const SUB_SAMPLE_CPU: usize = 4 + 1;

/// Kind (0 process, 1 siblings), pid or parent, start time, executable.
impl Cells for GroupId {
    const WIDTH: usize = 4;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        match self {
            GroupId::Process(process) => put_at(process, row, 1, strings),
            GroupId::Siblings { parent, executable } => {
                put_at(&1u64, row, 0, strings);
                put_at(parent, row, 1, strings);
                put_at(executable, row, 3, strings);
            }
        }
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match take_at::<u64>(row, 0, names)? {
            0 => take_at::<ProcessId>(row, 1, names).map(GroupId::Process),
            1 => Ok(GroupId::Siblings { parent: take_at(row, 1, names)?, executable: take_at(row, 3, names)? }),
            _ => Err(Malformed("a group is neither a process nor siblings")),
        }
    }
}

macro_rules! numbered {
    ($type:ty, otherwise $otherwise:expr, { $($variant:path = $number:literal),* $(,)? }) => {
        impl Cells for $type {
            const WIDTH: usize = 1;

            fn put(&self, row: &mut [u64], strings: &mut Interner) {
                let number: u64 = match self { $( $variant => $number ),* };
                number.put(row, strings);
            }

            fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
                Ok(match u64::take(row, names)? { $( $number => $variant, )* _ => $otherwise })
            }
        }
    };
}

numbered! { TaskState, otherwise TaskState::Other, {
    TaskState::Sleeping = 0,
    TaskState::Running = 1,
    TaskState::Blocked = 2,
    TaskState::Idle = 3,
    TaskState::Stopped = 4,
    TaskState::Traced = 5,
    TaskState::Zombie = 6,
    TaskState::Dead = 7,
    TaskState::Other = 8,
} }

numbered! { WaitClass, otherwise WaitClass::Other, {
    WaitClass::Running = 0,
    WaitClass::Disk = 1,
    WaitClass::Aio = 2,
    WaitClass::Lock = 3,
    WaitClass::Net = 4,
    WaitClass::Pipe = 5,
    WaitClass::Timer = 6,
    WaitClass::Poll = 7,
    WaitClass::Child = 8,
    WaitClass::Vfork = 9,
    WaitClass::Memory = 10,
    WaitClass::Frozen = 11,
    WaitClass::Hidden = 12,
    WaitClass::Other = 13,
    WaitClass::Futex = 14,
} }

// A kind that only a later version knows is the one that proves least.
numbered! { WaitQueueKind, otherwise WaitQueueKind::Futex, {
    WaitQueueKind::Futex = 0,
    WaitQueueKind::Mutex = 1,
    WaitQueueKind::FileLock = 2,
    WaitQueueKind::KernelLock = 3,
    WaitQueueKind::Pipe = 4,
    WaitQueueKind::Socket = 5,
    WaitQueueKind::Remote = 6,
} }
