//! Synthetic processes and threads: a part of `synthetic`.

use std::sync::Arc;

use stalltop::sample::task::{Process, ProcessFacts, Schedstat, TaskIo, TaskState, Thread, WaitState};
use stalltop::sample::{Absent, Name};
use stalltop::units::Counter;

/// A sleeping thread that has never run.
pub fn thread(tid: u32, comm: impl Into<Name>) -> ThreadBuilder {
    ThreadBuilder(Thread {
        tid,
        start_ticks: 1,
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
        start_ticks: 1,
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
