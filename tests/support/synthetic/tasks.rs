//! Synthetic processes and threads, and their cgroups: a part of `synthetic`.

use std::sync::Arc;

use stalltop::ids::{CgroupId, CgroupVersion, ProcessId, TaskId};
use stalltop::sample::cgroup::ContainerName;
use stalltop::sample::cgroup::owner::ContainerRuntime;
use stalltop::sample::task::{Process, ProcessFacts, Schedstat, TaskIo, TaskState, Thread, WaitState};
use stalltop::sample::{Absent, Name};
use stalltop::units::Counter;

/// Tasks start right after the boot, unless a test says otherwise.
const START_TICKS: u64 = 1;

/// A process that `process` makes.
pub fn process_id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: START_TICKS }
}

/// A thread that `thread` makes.
pub fn task_id(pid: u32, tid: u32) -> TaskId {
    TaskId { pid, tid, start_ticks: START_TICKS }
}

/// A sleeping thread that has never run.
pub fn thread(tid: u32, comm: impl Into<Name>) -> ThreadBuilder {
    ThreadBuilder(Thread {
        tid,
        start_ticks: START_TICKS,
        comm: comm.into(),
        state: TaskState::Sleeping,
        processor: 0,
        user_ticks: Counter(0),
        system_ticks: Counter(0),
        minor_faults: Counter(0),
        major_faults: Counter(0),
        block_io_delay_ticks: Counter(0),
        guest_ticks: Counter(0),
        background: false,
        schedstat: Some(Schedstat::default()),
        last_timeslice_ns: None,
        wait: WaitState::default(),
        cpus_allowed_list: None,
        scheduling: None,
    })
}

#[derive(Clone)]
pub struct ThreadBuilder(Thread);

impl ThreadBuilder {
    pub fn started(self, start_ticks: u64) -> Self {
        self.with(|thread| thread.start_ticks = start_ticks)
    }

    pub fn state(self, state: TaskState) -> Self {
        self.with(|thread| thread.state = state)
    }

    /// CPU time, all of it in user mode; the time on a run queue; the number of time slices.
    pub fn ran(self, run_ns: u64, run_delay_ns: u64, timeslices: u64) -> Self {
        self.with(|thread| {
            thread.user_ticks = Counter(run_ns / 10_000_000);
            thread.schedstat = Some(Schedstat {
                run_ns: Counter(run_ns),
                run_delay_ns: Counter(run_delay_ns),
                timeslices: Counter(timeslices),
            });
        })
    }

    pub fn with(mut self, set: impl FnOnce(&mut Thread)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Thread {
        self.0
    }
}

impl From<ThreadBuilder> for Thread {
    fn from(builder: ThreadBuilder) -> Thread {
        builder.0
    }
}

/// A process of root without threads, whose I/O may not be read.
pub fn process(pid: u32, comm: impl Into<Name>) -> ProcessBuilder {
    ProcessBuilder(Process {
        pid,
        start_ticks: START_TICKS,
        ppid: u32::from(pid > 1),
        uid: 0,
        comm: comm.into(),
        kernel_thread: false,
        facts: Arc::default(),
        user_ticks: Counter(0),
        system_ticks: Counter(0),
        guest_ticks: Counter(0),
        children_cpu: None,
        cpu_ns: Some(Counter(0)),
        minor_faults: Counter(0),
        major_faults: Counter(0),
        resident_pages: 0,
        virtual_bytes: None,
        shared_pages: None,
        io: Err(Absent::NoPermission),
        threads: Arc::new([]),
    })
}

#[derive(Clone)]
pub struct ProcessBuilder(Process);

impl ProcessBuilder {
    pub fn started(self, start_ticks: u64) -> Self {
        self.with(|process| process.start_ticks = start_ticks)
    }

    pub fn parent(self, ppid: u32) -> Self {
        self.with(|process| process.ppid = ppid)
    }

    pub fn facts(self, facts: ProcessFacts) -> Self {
        self.with(|process| process.facts = Arc::new(facts))
    }

    pub fn io(self, io: TaskIo) -> Self {
        self.with(|process| process.io = Ok(io))
    }

    /// CPU time of all threads, all of it in user mode.
    pub fn ran(self, run_ns: u64) -> Self {
        self.with(|process| {
            process.user_ticks = Counter(run_ns / 10_000_000);
            process.cpu_ns = Some(Counter(run_ns));
        })
    }

    pub fn threads<T: Into<Thread>>(self, threads: impl IntoIterator<Item = T>) -> Self {
        self.with(|process| process.threads = threads.into_iter().map(Into::into).collect())
    }

    pub fn with(mut self, set: impl FnOnce(&mut Process)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Process {
        self.0
    }
}

impl From<ProcessBuilder> for Process {
    fn from(builder: ProcessBuilder) -> Process {
        builder.0
    }
}

impl From<ProcessBuilder> for Arc<Process> {
    fn from(builder: ProcessBuilder) -> Arc<Process> {
        Arc::new(builder.0)
    }
}

/// A cgroup of version 2.
pub fn cgroup_id(path: &str) -> CgroupId {
    CgroupId { version: CgroupVersion::V2, path: path.into() }
}

/// The name of a container of Docker, in no pod.
pub fn docker_name(id: impl Into<Name>, name: impl Into<Name>) -> ContainerName {
    ContainerName {
        id: id.into(),
        runtime: ContainerRuntime::Docker,
        name: name.into(),
        pod_uid: None,
        pod: None,
        namespace: None,
    }
}
