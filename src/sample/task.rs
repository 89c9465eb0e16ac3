//! Tasks: every thread of every process.
//!
//! Two samples share the `Arc` of a process that did not run between them. `Arc::ptr_eq` then shows that nothing changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cgroup::{Controller, Memberships};
pub use super::task_state::{RawSyscall, TaskState};
use super::waits::{WaitClass, class};
use super::{Absent, Name, Reading};
use crate::ids::{CgroupId, CpuId, GroupId, ProcessId, TaskId};
use crate::units::Counter;

/// All tasks that this user can see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tasks {
    /// Sorted by pid.
    pub processes: Vec<Arc<Process>>,
    /// Names of their owners; shared between samples until a new uid appears.
    pub users: Arc<BTreeMap<u32, Name>>,
    /// What could not be seen.
    pub hidden: HiddenTasks,
    /// When processes were read, where that was later than the sample. Sorted by pid and by time; usually empty.
    pub read_times: Vec<ReadTime>,
    /// Of the busiest threads that ran on several CPUs since the last sample; sorted by task, in the order of the readings
    pub run_times: Vec<RunTime>,
}

/// One of the readings of a thread since the last sample, those of sub-samples included: its run time, and the CPU it was on. Of
/// readings on the same CPU in a row the last one is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTime {
    pub task: TaskId,
    /// schedstat field 1
    pub run_ns: Counter,
    /// stat field 39; `None` where stat was not read with it: the reading before the first one with a CPU, and after a sub-sample that
    /// found the thread asleep again
    pub cpu: Option<CpuId>,
}

/// This process and those behind it, in the order of pids, were read at this time or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTime {
    pub pid: u32,
    /// CLOCK_BOOTTIME, ns
    pub boottime_ns: u64,
}

impl Tasks {
    /// The process with this pid.
    pub fn process(&self, pid: u32) -> Option<&Arc<Process>> {
        let at = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        self.processes.get(at)
    }

    /// CLOCK_BOOTTIME when the counters of the process were read, ns, within a few ms; `None` at the time of the sample.
    pub fn read_time_ns(&self, pid: u32) -> Option<u64> {
        let behind = self.read_times.partition_point(|read| read.pid <= pid);
        self.read_times.get(behind.checked_sub(1)?).map(|read| read.boottime_ns)
    }

    /// The readings of the run time of the thread; empty if they were not kept, or if it ran on one CPU.
    pub fn run_times(&self, task: TaskId) -> &[RunTime] {
        let first = self.run_times.partition_point(|reading| reading.task < task);
        let end = self.run_times.partition_point(|reading| reading.task <= task);
        self.run_times.get(first..end).unwrap_or_default()
    }

    /// The processes of a group.
    pub fn members<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Arc<Process>> {
        let among = match group {
            GroupId::Process(id) => self.process(id.pid).map_or(&[][..], std::slice::from_ref),
            GroupId::Siblings { .. } => &self.processes,
        };
        among.iter().filter(move |process| match group {
            GroupId::Process(id) => process.id() == *id,
            GroupId::Siblings { parent, .. } => process.ppid == *parent && process.group() == *group,
        })
    }

    /// The thread with this identity, and its process.
    pub fn thread(&self, task: TaskId) -> Option<(&Arc<Process>, &Thread)> {
        let process = self.process(task.pid)?;
        let thread = process.thread(task.tid)?;
        (thread.start_ticks == task.start_ticks).then_some((process, thread))
    }
}

/// What this user cannot see of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenTasks {
    /// Tasks asleep or blocked whose wait channel is hidden.
    pub wait_channels: u32,
    /// Tasks without schedstat.
    pub schedstats: u32,
    /// Whole processes are missing (hidepid, or a pid namespace that is not the host's).
    pub processes: bool,
}

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    pub pid: u32,
    /// stat field 22
    pub start_ticks: u64,
    /// stat field 4
    pub ppid: u32,
    /// Owner of /proc/PID (effective uid)
    pub uid: u32,
    /// stat field 2
    pub comm: Name,
    /// PF_KTHREAD in stat field 9
    pub kernel_thread: bool,
    pub facts: Arc<ProcessFacts>,
    /// stat fields 14, 15, exited threads included
    pub user_ticks: Counter,
    pub system_ticks: Counter,
    /// stat field 43, ticks, threads that ended included: the part of `user_ticks` that ran guests
    pub guest_ticks: Counter,
    /// stat fields 16, 17: children that exited and were waited for, and theirs
    pub children_cpu: Option<ChildrenCpuTime>,
    /// The process CPU clock, ns, ended threads included; clock_gettime on clock id (~pid)<<3|2
    pub cpu_ns: Option<Counter>,
    /// stat fields 10, 12
    pub minor_faults: Counter,
    pub major_faults: Counter,
    /// stat field 24, pages
    pub resident_pages: u64,
    /// stat field 23: its address space; `None` in recordings of earlier versions
    pub virtual_bytes: Option<u64>,
    /// statm field 3, pages: the part of its resident memory that is mapped from files or shared. Read with the facts: of a process
    /// that runs at most some ten seconds old. `None` of kernel threads, and in recordings of earlier versions
    pub shared_pages: Option<u64>,
    pub io: Reading<TaskIo>,
    /// Sorted by tid; the tid of the leader is the pid. Samples share the list if only facts changed
    pub threads: Arc<[Thread]>,
}

/// Facts of a process that rarely change and are slow to read. Processes with equal facts share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// cmdline, arguments separated by NUL, cut at 4 KiB; read when the process is new or has called execve
    pub cmdline: Reading<Name>,
    /// Target of /proc/PID/exe
    pub executable: Reading<Name>,
    /// The cgroup that limits its CPU (v2, else the v1 cpu hierarchy); /proc/PID/cgroup
    pub cgroup: Reading<CgroupId>,
    /// Its cgroups of other controllers, if they differ from `cgroup`; /proc/PID/cgroup
    pub memberships: Option<Arc<Memberships>>,
}

impl Default for ProcessFacts {
    /// Nothing was read yet.
    fn default() -> ProcessFacts {
        let (cmdline, executable, cgroup) = (Err(Absent::NotRead), Err(Absent::NotRead), Err(Absent::NotRead));
        ProcessFacts { cmdline, executable, cgroup, memberships: None }
    }
}

impl Process {
    pub fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// Whether every thread is stopped by a signal, traced, or frozen by its cgroup.
    pub fn is_stopped(&self) -> bool {
        !self.kernel_thread && !self.threads.is_empty() && self.threads.iter().all(Thread::is_stopped)
    }

    pub fn task_id(&self, thread: &Thread) -> TaskId {
        TaskId { pid: self.pid, tid: thread.tid, start_ticks: thread.start_ticks }
    }

    /// Its threads, to be changed; copied first if another sample shares them.
    pub fn threads_mut(&mut self) -> &mut [Thread] {
        Arc::make_mut(&mut self.threads)
    }

    /// The thread with this tid.
    pub fn thread(&self, tid: u32) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&tid, |thread| thread.tid).ok()?;
        self.threads.get(at)
    }

    /// The cgroup of this controller.
    pub fn cgroup_for(&self, controller: Controller) -> Option<&CgroupId> {
        match &self.facts.memberships {
            Some(memberships) if controller != Controller::Cpu => memberships.for_controller(controller),
            _ => self.facts.cgroup.as_ref().ok(),
        }
    }

    /// Its group: the processes with the same parent and executable. Children of init form no group.
    pub fn group(&self) -> GroupId {
        let siblings = self.ppid > 2 && !self.kernel_thread;
        match (&self.facts.executable, siblings) {
            (Ok(executable), true) => GroupId::Siblings { parent: self.ppid, executable: executable.clone() },
            (Err(_), true) => GroupId::Siblings { parent: self.ppid, executable: self.comm.clone() },
            (_, false) => GroupId::Process(self.id()),
        }
    }
}

/// CPU time of children that ended and were waited for. The kernel scales it from exact run time, like that of the process. Children
/// of a parent that ignores SIGCHLD are not counted anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildrenCpuTime {
    pub user_ticks: Counter,
    pub system_ticks: Counter,
}

/// One thread; /proc/PID/task/TID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    /// stat field 22
    pub start_ticks: u64,
    /// stat field 2
    pub comm: Name,
    /// stat field 3
    pub state: TaskState,
    /// stat field 39: the CPU it ran on last
    pub processor: u32,
    /// stat fields 14, 15
    pub user_ticks: Counter,
    pub system_ticks: Counter,
    /// stat fields 10, 12
    pub minor_faults: Counter,
    pub major_faults: Counter,
    /// stat field 42, ticks; 0 without kernel.task_delayacct
    pub block_io_delay_ticks: Counter,
    /// stat field 43, ticks: the part of `user_ticks` that ran guests
    pub guest_ticks: Counter,
    /// stat fields 41 and 19: SCHED_IDLE, or nice 19. Other threads get the CPU first, but not necessarily those of another
    /// session or cgroup
    pub background: bool,
    /// schedstat
    pub schedstat: Option<Schedstat>,
    /// CLOCK_BOOTTIME of the last reading that found its timeslices increased; `None` if none has
    pub last_timeslice_ns: Option<u64>,
    /// The kernel function and system call that it sleeps in
    pub wait: WaitState,
    /// status Cpus_allowed_list: the CPUs it may run on; read only of a thread that waits for one
    pub cpus_allowed_list: Option<Name>,
    /// `None` in recordings of earlier versions
    pub scheduling: Option<Scheduling>,
}

impl Thread {
    /// Whether it runs no more until another process continues it: stopped by a signal, traced, or frozen by its cgroup.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, TaskState::Stopped | TaskState::Traced) || self.is_frozen()
    }

    /// Whether its cgroup froze it.
    pub fn is_frozen(&self) -> bool {
        let Ok(wchan) = &self.wait.wchan else { return false };
        match self.state {
            // Since Linux 6.1 frozen threads are in D in functions in which no other thread is.
            TaskState::Blocked => WaitClass::classify_settled(self.state, Some(wchan.as_bytes()), None) == WaitClass::Frozen,
            TaskState::Sleeping => class::is_freezer(wchan.as_bytes()),
            _ => false,
        }
    }
}

/// Scheduling policy and nice value; /proc/PID/task/TID/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// stat field 41: a SCHED_… constant of sched(7)
    pub policy: u8,
    /// stat field 19, −20 … 19; other policies than SCHED_OTHER and SCHED_BATCH do not use it
    pub nice: i8,
    /// stat field 40: 1 … 99 for SCHED_FIFO and SCHED_RR, else 0; 0 in recordings of earlier versions
    pub rt_priority: u8,
}

/// Policies of sched(7): include/uapi/linux/sched.h.
pub const SCHED_OTHER: u8 = 0;
pub const SCHED_FIFO: u8 = 1;
pub const SCHED_RR: u8 = 2;
pub const SCHED_BATCH: u8 = 3;
pub const SCHED_IDLE: u8 = 5;
pub const SCHED_DEADLINE: u8 = 6;

impl Scheduling {
    /// stat field 18, as PRI in top: 20 + nice, negative for real-time policies. `None` where the real-time priority is unknown.
    pub fn priority(self) -> Option<i16> {
        match self.policy {
            SCHED_FIFO | SCHED_RR => (self.rt_priority > 0).then(|| -1 - i16::from(self.rt_priority)),
            SCHED_DEADLINE => Some(-101),
            _ => Some(20 + i16::from(self.nice)),
        }
    }
}

/// /proc/PID/task/TID/schedstat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU
    pub run_ns: Counter,
    /// Time runnable, but without a CPU
    pub run_delay_ns: Counter,
    /// Times it was given a CPU
    pub timeslices: Counter,
}

/// /proc/PID/io of a process, without rchar and wchar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskIo {
    pub read_bytes: Counter,
    pub write_bytes: Counter,
    pub cancelled_write_bytes: Counter,
    /// syscr
    pub read_syscalls: Counter,
    /// syscw
    pub write_syscalls: Counter,
}

/// The kernel function and the system call that a thread waits in, as far as they were read. `kernel/scan/thread/wait.rs` reads
/// them; `waits/class.rs` makes a wait class of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitState {
    /// wchan: the kernel function it sleeps in, without compiler suffixes. `Absent::Hidden` if the kernel answers 0 for a task of another
    /// user; `Absent::Vanished` if it had moved on; `Absent::NotRead` if it was not read.
    pub wchan: Reading<Name>,
    /// syscall; read only if wchan does not say enough
    pub syscall: Reading<Arc<RawSyscall>>,
}

impl WaitState {
    /// The system call by value.
    pub fn syscall(&self) -> Reading<RawSyscall> {
        self.syscall.as_deref().copied().map_err(|why| *why)
    }
}

impl Default for WaitState {
    fn default() -> WaitState {
        WaitState { wchan: Err(Absent::NotRead), syscall: Err(Absent::NotRead) }
    }
}
