//! A known thread: what the scan keeps of it, and how it is read again. schedstat is read first, stat, wchan and syscall only if
//! schedstat shows that the thread ran, or if its state may change without it running.

mod activity;
mod run_times;
mod wait;

use self::run_times::RunTimes;
use self::wait::classify_wait;
use super::context::ScanContext;
use crate::kernel::task::files::{AfterRead, TaskDescriptors, ThreadFile, is_task_gone};
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Schedstat, Scheduling, TaskState, Thread, WaitState};
use crate::sample::waits::{FutexWait, JavaLock, Syscall, WaitClass, WaitEvent};
use crate::sample::{Absent, Name, Reading};
use crate::units::{Counter, delta};

/// The allowed CPUs of a runnable thread are read if it waited for a CPU at least so long since the last sample.
const MIN_RUN_DELAY_NS: u64 = 5_000_000;
/// They are read again after this time, so that taskset or a changed cpuset is seen.
const AFFINITY_TTL_NS: u64 = 10_000_000_000;

/// Whether a thread that sleeps waits for a lock of Java, as far as that was read since it last ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JavaWait {
    #[default]
    NotRead,
    NoLock,
    Lock(JavaLock),
}

impl JavaWait {
    pub fn lock(self) -> Option<JavaLock> {
        match self {
            JavaWait::Lock(lock) => Some(lock),
            JavaWait::NotRead | JavaWait::NoLock => None,
        }
    }
}

/// What is kept of a thread between two readings.
#[derive(Debug)]
pub struct KnownThread {
    pub tid: u32,
    pub comm: Name,
    pub state: TaskState,
    pub wait: WaitState,
    /// Class of `wait`; `None` if it is unknown, or if state and wait channel contradict each other
    pub wait_class: Option<WaitClass>,
    /// What the arguments of its futex call say
    pub futex_wait: Option<FutexWait>,
    /// Its futex or semaphore call has a timeout.
    pub has_timeout: bool,
    /// What it waited for in the last sub-sample is a lock that names its owner.
    pub is_behind_named_owner: bool,
    /// Sub-samples since it last ran in which its wait looked like one for a read-write lock, and the last reading of that found none
    pub unconfirmed_rw_lock: u8,
    /// What its process said in the last sub-sample that it waits for: `waits::wait_events`
    pub wait_event: Option<WaitEvent>,
    /// Set by `waits::java_locks`
    pub java_wait: JavaWait,
    /// Its wait channel is hidden even from a privileged user: only samples try to read it.
    wchan_is_hidden: bool,
    first_seen_ns: u64,
    /// CLOCK_BOOTTIME when its timeslices were last seen to have grown; `None` if they have not since it was first seen
    pub last_timeslice_ns: Option<u64>,
    /// Interval number, and its index in `Waits::threads`; see `kernel/waits.rs`
    pub wait_record: Option<(u32, usize)>,
    /// It was read after the last sample.
    pub sample_is_stale: bool,
    /// CLOCK_BOOTTIME of the last reading
    pub last_read_ns: u64,
    pub schedstat: Option<Schedstat>,
    ticks: (Counter, Counter),
    /// Since the last sample
    pub run_times: RunTimes,
    /// status Cpus_allowed_list, and when it was read
    cpus_allowed_list: Option<Box<(Name, u64)>>,
    /// Run delay (schedstat field 2) at the last sample
    sampled_run_delay: Option<Counter>,
    descriptors: TaskDescriptors,
}

/// What a reading found.
pub enum ThreadChange {
    /// It did not run.
    Unchanged,
    /// The counters of its stat, for the next sample; schedstat and wait are in the `KnownThread`.
    Changed(StatCounters),
    /// It ran and sleeps again. Its stat was not read; the next sample reads it.
    Asleep,
    Gone,
}

/// The counters of a thread's stat.
#[derive(Clone, Copy, Debug)]
pub struct StatCounters {
    pub start_ticks: u64,
    pub processor: u32,
    pub user_ticks: Counter,
    pub system_ticks: Counter,
    pub minor_faults: Counter,
    pub major_faults: Counter,
    pub block_io_delay_ticks: Counter,
    pub guest_ticks: Counter,
    pub background: bool,
    pub scheduling: Scheduling,
}

/// What a reading of a thread may open and must read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    pub pid: u32,
    /// Descriptors stay open where another reading will follow soon.
    pub after_read: AfterRead,
    /// The reading is for a sample: what the last sample lacks is read even if the thread has not run since.
    pub for_sample: bool,
    /// Waits of kernel threads are not read.
    pub kernel_thread: bool,
    /// This user may read its wait channel and system call.
    pub may_read_waits: bool,
}

impl StatCounters {
    pub fn from_stat(stat: &Stat<'_>) -> StatCounters {
        StatCounters {
            start_ticks: stat.start_ticks,
            processor: stat.processor,
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            block_io_delay_ticks: stat.block_io_delay_ticks,
            guest_ticks: stat.guest_ticks,
            background: stat.background,
            scheduling: stat.scheduling,
        }
    }

    /// User and system
    pub fn ticks(&self) -> (Counter, Counter) {
        (self.user_ticks, self.system_ticks)
    }
}

impl KnownThread {
    /// A thread seen for the first time. `last_timeslice_ns`: now, if it started after the last scan, so that it has run.
    pub fn new(
        tid: u32,
        comm: Name,
        state: TaskState,
        ticks: (Counter, Counter),
        sched: Option<Schedstat>,
        now_ns: u64,
        last_timeslice_ns: Option<u64>,
    ) -> Self {
        KnownThread {
            tid,
            comm,
            state,
            wait: WaitState::default(),
            wait_class: classify_wait(state, &Err(Absent::NotRead), None),
            futex_wait: None,
            has_timeout: false,
            is_behind_named_owner: false,
            unconfirmed_rw_lock: 0,
            wait_event: None,
            java_wait: JavaWait::NotRead,
            wchan_is_hidden: false,
            first_seen_ns: now_ns,
            last_timeslice_ns,
            wait_record: None,
            sample_is_stale: false,
            last_read_ns: now_ns,
            schedstat: sched,
            ticks,
            run_times: RunTimes::default(),
            cpus_allowed_list: None,
            sampled_run_delay: None,
            descriptors: TaskDescriptors::default(),
        }
    }

    /// A thread of a parked process, as in the last sample.
    pub fn from_sample(thread: &Thread, first_seen_ns: u64, context: &ScanContext) -> Self {
        let machine = context.machine.as_bytes();
        let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(machine, call));
        let ticks = (thread.user_ticks, thread.system_ticks);
        let mut known = KnownThread {
            wait: thread.wait.clone(),
            wait_class: classify_wait(thread.state, &thread.wait.wchan, call),
            futex_wait: call.and_then(|call| context.futex_wait(call, false)),
            last_timeslice_ns: thread.last_timeslice_ns,
            cpus_allowed_list: thread.cpus_allowed_list.clone().map(|cpus| Box::new((cpus, 0))),
            sampled_run_delay: thread.schedstat.map(|sched| sched.run_delay_ns),
            ..KnownThread::new(thread.tid, thread.comm.clone(), thread.state, ticks, thread.schedstat, first_seen_ns, None)
        };
        // A sample does not have it. Without a timeout the thread would have been hot, and its process not parked.
        known.has_timeout = known.likely_mutex().is_some() || known.may_wait_for_rw_lock() || known.waits_in_semaphore();
        known
    }

    /// The thread as the next sample has it.
    pub fn to_sample(&self, figures: &StatCounters) -> Thread {
        Thread {
            tid: self.tid,
            start_ticks: figures.start_ticks,
            comm: self.comm.clone(),
            state: self.state,
            processor: figures.processor,
            user_ticks: figures.user_ticks,
            system_ticks: figures.system_ticks,
            minor_faults: figures.minor_faults,
            major_faults: figures.major_faults,
            block_io_delay_ticks: figures.block_io_delay_ticks,
            guest_ticks: figures.guest_ticks,
            background: figures.background,
            scheduling: Some(figures.scheduling),
            schedstat: self.schedstat,
            last_timeslice_ns: self.last_timeslice_ns,
            wait: self.wait.clone(),
            cpus_allowed_list: self.cpus_allowed_list.as_deref().map(|(cpus, _)| cpus.clone()),
        }
    }

    /// Reads it again.
    pub fn rescan(&mut self, context: &mut ScanContext, options: ReadOptions) -> ThreadChange {
        let now_ns = context.now_ns;
        self.last_read_ns = now_ns;
        let after = if self.is_active(now_ns) { options.after_read } else { AfterRead::Close };
        if after == AfterRead::Close {
            self.descriptors.close_all_but_schedstat();
        }
        let sched = match self.read_schedstat(context, options) {
            Ok(sched) => sched,
            Err(why) if is_task_gone(why) && self.schedstat.is_some() => return ThreadChange::Gone,
            Err(_) => None,
        };
        let ran = sched.zip(self.schedstat).is_some_and(|(new, old)| new.timeslices != old.timeslices);
        let is_asleep = matches!(self.state, TaskState::Sleeping | TaskState::Blocked | TaskState::Idle);
        // The kernel counts a timeslice when it begins and its time when it ends: the last reading may have been in between.
        let same_time = sched.map(|sched| sched.run_ns) == self.schedstat.map(|sched| sched.run_ns);
        if sched.is_some() && !ran && same_time && is_asleep && !(options.for_sample && self.sample_is_stale) {
            return self.reread_wait(context, options, after);
        }
        // A thread that was runnable usually still is, so wchan would say nothing.
        if ran && !options.for_sample && is_asleep && self.is_asleep_again(context, options, after) {
            (self.schedstat, self.last_timeslice_ns, self.sample_is_stale) = (sched, Some(now_ns), true);
            return ThreadChange::Asleep;
        }
        let state_before = self.state;
        let figures = match self.read_stat(context, options, after) {
            Ok(figures) => figures,
            Err(why) if is_task_gone(why) => return ThreadChange::Gone,
            Err(_) => return ThreadChange::Unchanged,
        };
        // Without schedstat only its CPU time shows that it ran, in whole ticks.
        let ticks = figures.ticks();
        let ran = ran || (sched.is_none() && ticks != self.ticks);
        self.ticks = ticks;
        // Those of kernel threads are not used.
        if !options.kernel_thread {
            self.run_times.add(figures.processor, self.schedstat.map(|old| old.run_ns), sched.map(|new| new.run_ns));
        }
        self.schedstat = sched;
        if ran {
            self.last_timeslice_ns = Some(now_ns);
        }
        let has_new_state = self.state != state_before;
        if ran || has_new_state || !matches!(self.state, TaskState::Sleeping | TaskState::Blocked) {
            self.clear_wait();
        }
        self.read_wait_if_due(context, options, after);
        // A thawed thread is in the wait in which it was frozen, which may be a lock.
        if !ran && has_new_state && state_before == TaskState::Blocked && !options.kernel_thread {
            self.read_parked_wait(context, options);
        }
        if options.for_sample {
            self.read_affinity_if_due(context, options);
        }
        self.sample_is_stale = !options.for_sample;
        ThreadChange::Changed(figures)
    }

    /// Reads which CPUs it may use, if it had to wait for one.
    fn read_affinity_if_due(&mut self, context: &mut ScanContext, options: ReadOptions) {
        let delay = self.schedstat.map(|sched| sched.run_delay_ns);
        let waited = delta(delay, std::mem::replace(&mut self.sampled_run_delay, delay));
        let known =
            self.cpus_allowed_list.as_deref().is_some_and(|(_, at)| context.now_ns.saturating_sub(*at) < AFFINITY_TTL_NS);
        let waits = self.state == TaskState::Running && waited.is_some_and(|waited| waited >= MIN_RUN_DELAY_NS);
        if known || !waits || options.kernel_thread || context.affinity_reads_left == 0 {
            return;
        }
        context.affinity_reads_left -= 1;
        let text = context.files.read_once(format_args!("{}/task/{}/status", options.pid, self.tid));
        let cpus = text.ok().and_then(task::parse_cpus_allowed_list).map(|cpus| context.interner.intern(cpus));
        self.cpus_allowed_list = cpus.map(|cpus| Box::new((cpus, context.now_ns)));
    }

    /// It did not run, so it is in the same wait, which may not have been read yet.
    fn reread_wait(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) -> ThreadChange {
        let (before, java_wait) = (self.wait.wchan.is_ok(), self.java_wait);
        self.read_wait_if_due(context, options, after);
        self.java_wait = if self.state == TaskState::Sleeping { java_wait } else { JavaWait::NotRead };
        if self.wait.wchan.is_ok() == before {
            return ThreadChange::Unchanged;
        }
        if !options.for_sample {
            self.sample_is_stale = true;
            return ThreadChange::Unchanged;
        }
        match self.read_stat(context, options, after) {
            Ok(figures) => ThreadChange::Changed(figures),
            Err(_) => ThreadChange::Unchanged,
        }
    }

    fn read_schedstat(&mut self, context: &mut ScanContext, options: ReadOptions) -> Reading<Option<Schedstat>> {
        let text = context.files.read_thread_file(
            options.pid,
            self.tid,
            ThreadFile::Schedstat,
            &mut self.descriptors,
            options.after_read,
        )?;
        Ok(task::parse_schedstat(text).filter(|_| context.has_schedstat))
    }

    fn read_stat(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) -> Reading<StatCounters> {
        let text = context.files.read_thread_file(options.pid, self.tid, ThreadFile::Stat, &mut self.descriptors, after)?;
        let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
        self.comm = context.interner.reuse_or_intern(&self.comm, stat.comm);
        self.state = stat.state;
        Ok(StatCounters::from_stat(&stat))
    }
}
