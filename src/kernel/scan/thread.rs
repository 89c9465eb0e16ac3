//! One thread as it was last looked at, and how to look again with as few reads as the truth allows: schedstat first,
//! the rest only when it ran or was not at rest.

mod wait;

use self::wait::classify_wait;
use super::context::ScanContext;
use crate::kernel::task::files::{TaskDescriptors, ThreadFile, is_task_gone};
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Schedstat, TaskState, Thread, WaitState};
use crate::sample::waits::{FutexWait, Syscall, WaitClass};
use crate::sample::{Absent, Name, Reading};
use crate::units::{Counter, delta};

/// A worker is active when its timeslices moved within so long: in a convoy of 64 each has its turn every second or so,
/// a parked one never.
pub const ACTIVE_NS: u64 = 5_000_000_000;

/// Who worked within so long is the first to be asked whether it did again.
const VERY_RECENT_NS: u64 = 1_000_000_000;

/// A thread that is runnable and waited this long for a CPU since the sample before is asked which CPUs it may use.
const MIN_RUN_DELAY_NS: u64 = 5_000_000;
/// Its answer holds for so long: whoever sets it anew (taskset, a cpuset) is seen then.
const AFFINITY_TTL_NS: u64 = 10_000_000_000;

/// What is remembered of a thread between two looks.
#[derive(Debug)]
pub struct KnownThread {
    pub tid: u32,
    pub comm: Name,
    pub state: TaskState,
    pub wait: WaitState,
    /// Of the wait; `None` when it is not known, or when state and channel did not fit together.
    pub wait_class: Option<WaitClass>,
    /// It is asleep in a lock that somebody else holds.
    pub lock_contended: bool,
    /// What its call says, if it is a futex call
    pub futex_wait: Option<FutexWait>,
    /// It is asleep in a futex or a semaphore that it gives up by itself after a time.
    pub has_timeout: bool,
    /// It keeps its wait even from those who may see others': until a sample sees it after all, it is not asked between two.
    wchan_is_hidden: bool,
    first_seen_ns: u64,
    /// When its timeslices were seen to move; `None` for one that did not since it was first seen.
    pub last_timeslice_ns: Option<u64>,
    /// Where this interval's record of it is; see `kernel/waits.rs`.
    pub wait_record: Option<(u32, usize)>,
    /// What of it is in the last sample is older than the last look.
    pub sample_is_stale: bool,
    /// CLOCK_BOOTTIME of the last look
    pub last_read_ns: u64,
    pub schedstat: Option<Schedstat>,
    ticks: (Counter, Counter),
    /// The CPUs it may use, and when that was read.
    cpus_allowed_list: Option<Box<(Name, u64)>>,
    /// Its run-queue wait at the last sample.
    sampled_run_delay: Option<Counter>,
    descriptors: TaskDescriptors,
}

/// What a look found.
pub enum ThreadChange {
    /// Nothing moved.
    Unchanged,
    /// Its figures, to be put into the next sample. `sched` and waits are in the `KnownThread`.
    Changed(StatCounters),
    /// It ran and sleeps again. Its figures were not read: the next sample does that.
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
}

/// Why a thread is looked at, and how much may be spent on it.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    pub pid: u32,
    /// Another look will follow soon: keep descriptors.
    pub keep_open: bool,
    /// For a sample: what is stale must be read also when nothing moved since.
    pub for_sample: bool,
    /// A kernel thread's waits are nobody's work.
    pub kernel_thread: bool,
    /// Its wait channels and system calls may be read.
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
        }
    }

    /// User and system
    pub fn ticks(&self) -> (Counter, Counter) {
        (self.user_ticks, self.system_ticks)
    }
}

impl KnownThread {
    /// A thread seen for the first time. `born` is whether it cannot have been there at the sweep before.
    pub fn new(
        tid: u32,
        comm: Name,
        state: TaskState,
        ticks: (Counter, Counter),
        sched: Option<Schedstat>,
        now_ns: u64,
        born: bool,
    ) -> Self {
        KnownThread {
            tid,
            comm,
            state,
            wait: WaitState::default(),
            wait_class: classify_wait(state, &Err(Absent::NotRead), None),
            lock_contended: false,
            futex_wait: None,
            has_timeout: false,
            wchan_is_hidden: false,
            first_seen_ns: now_ns,
            last_timeslice_ns: born.then_some(now_ns),
            wait_record: None,
            sample_is_stale: false,
            last_read_ns: now_ns,
            schedstat: sched,
            ticks,
            cpus_allowed_list: None,
            sampled_run_delay: None,
            descriptors: TaskDescriptors::default(),
        }
    }

    /// One that was at rest, as the last sample has it; `machine` is the host's.
    pub fn from_sample(thread: &Thread, first_seen_ns: u64, machine: &Name) -> Self {
        let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(machine.as_bytes(), call));
        let ticks = (thread.user_ticks, thread.system_ticks);
        KnownThread {
            wait: thread.wait.clone(),
            wait_class: classify_wait(thread.state, &thread.wait.wchan, call),
            futex_wait: call.and_then(Syscall::futex_wait),
            last_timeslice_ns: thread.last_timeslice_ns,
            cpus_allowed_list: thread.cpus_allowed_list.clone().map(|cpus| Box::new((cpus, 0))),
            sampled_run_delay: thread.schedstat.map(|sched| sched.run_delay_ns),
            ..KnownThread::new(thread.tid, thread.comm.clone(), thread.state, ticks, thread.schedstat, first_seen_ns, false)
        }
    }

    /// Whether it works, however slowly.
    pub fn is_active(&self, now_ns: u64) -> bool {
        self.last_timeslice_ns.is_some_and(|moved| now_ns.saturating_sub(moved) <= ACTIVE_NS)
    }

    /// Since when it has been in this one wait, as far as we have seen it.
    pub fn waiting_since_ns(&self) -> u64 {
        self.last_timeslice_ns.unwrap_or(self.first_seen_ns)
    }

    /// Whether sub-samples look at it: it works, runs, is blocked, or was seen to wait for a lock that is held.
    pub fn is_hot(&self, now_ns: u64) -> bool {
        match self.state {
            TaskState::Running => true,
            TaskState::Blocked => self.is_stuck(),
            TaskState::Sleeping => self.lock_contended || self.wait_class == Some(WaitClass::Disk) || self.is_active(now_ns),
            _ => false,
        }
    }

    /// Whether it runs, or waits for something that shows no trouble.
    pub fn is_calm(&self) -> bool {
        use WaitClass::{Child, Hidden, Net, Pipe, Poll, Timer};
        match (self.state, self.wait_class) {
            (TaskState::Running, _) => true,
            (TaskState::Sleeping, Some(WaitClass::Futex)) => self.is_idle_wait(),
            (TaskState::Sleeping, class) => matches!(class, Some(Timer | Poll | Net | Pipe | Child | Hidden)),
            _ => false,
        }
    }

    /// Whether its futex or semaphore is one that gives up by itself, or a wait to be given something to do.
    pub fn is_idle_wait(&self) -> bool {
        self.has_timeout || matches!(self.futex_wait, Some(FutexWait::IdleRuntimeThread { .. }))
    }

    /// In D, and not for nothing.
    pub fn is_stuck(&self) -> bool {
        self.state == TaskState::Blocked && !self.is_harmless()
    }

    /// In D for nothing: a vfork parent, a frozen task.
    pub fn is_harmless(&self) -> bool {
        matches!(self.wait_class, Some(WaitClass::Vfork | WaitClass::Frozen))
    }

    /// Whether it worked a moment ago, or does not stand still: when those explain the clock of their process, no other ran.
    pub fn likely_ran(&self, now_ns: u64) -> bool {
        let lately = self.last_timeslice_ns.is_some_and(|moved| now_ns.saturating_sub(moved) <= VERY_RECENT_NS);
        lately || self.is_unsettled() || self.wait_class.is_none()
    }

    /// Whether it may have left its state without having run: only a runnable task, or one that is woken from D. One that a
    /// sub-sample found gone is still in the list: another may have begun in its place.
    pub fn is_unsettled(&self) -> bool {
        self.sample_is_stale || matches!(self.state, TaskState::Running | TaskState::Dead) || self.is_stuck()
    }

    pub fn close_descriptors(&mut self) {
        self.descriptors.close_all();
    }

    /// For the next sample.
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
            schedstat: self.schedstat,
            last_timeslice_ns: self.last_timeslice_ns,
            wait: self.wait.clone(),
            cpus_allowed_list: self.cpus_allowed_list.as_deref().map(|(cpus, _)| cpus.clone()),
        }
    }

    /// Looks again.
    pub fn rescan(&mut self, context: &mut ScanContext, options: ReadOptions) -> ThreadChange {
        let now_ns = context.now_ns;
        self.last_read_ns = now_ns;
        let keep_rest = options.keep_open && self.is_active(now_ns);
        if !keep_rest {
            self.descriptors.close_all_but_schedstat();
        }
        let sched = match self.read_schedstat(context, options) {
            Ok(sched) => sched,
            Err(why) if is_task_gone(why) && self.schedstat.is_some() => return ThreadChange::Gone,
            Err(_) => None,
        };
        let ran = sched.zip(self.schedstat).is_some_and(|(new, old)| new.timeslices != old.timeslices);
        let at_rest = matches!(self.state, TaskState::Sleeping | TaskState::Blocked | TaskState::Idle);
        // A timeslice is counted as it begins, its time only as it ends: it may have been read in the middle.
        let same_time = sched.map(|sched| sched.run_ns) == self.schedstat.map(|sched| sched.run_ns);
        if sched.is_some() && !ran && same_time && at_rest && !(options.for_sample && self.sample_is_stale) {
            return self.reread_wait(context, options, keep_rest);
        }
        // Who was running mostly still is.
        if ran && !options.for_sample && at_rest && self.is_asleep_again(context, options, keep_rest) {
            (self.schedstat, self.last_timeslice_ns, self.sample_is_stale) = (sched, Some(now_ns), true);
            return ThreadChange::Asleep;
        }
        let figures = match self.read_stat(context, options, keep_rest) {
            Ok(figures) => figures,
            Err(why) if is_task_gone(why) => return ThreadChange::Gone,
            Err(_) => return ThreadChange::Unchanged,
        };
        // Without schedstat its CPU time must do, which moves only by ticks.
        let ticks = figures.ticks();
        let ran = ran || (sched.is_none() && ticks != self.ticks);
        self.ticks = ticks;
        self.schedstat = sched;
        if ran {
            self.last_timeslice_ns = Some(now_ns);
        }
        if ran || !matches!(self.state, TaskState::Sleeping | TaskState::Blocked) {
            self.clear_wait();
        }
        self.read_wait_if_due(context, options, keep_rest);
        if options.for_sample {
            self.read_affinity_if_due(context, options);
        }
        self.sample_is_stale = !options.for_sample;
        ThreadChange::Changed(figures)
    }

    /// Which CPUs it may use, when it had to wait for one.
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

    /// It did not run, so its wait is the same one. It may be one that was missed, or not wanted before.
    fn reread_wait(&mut self, context: &mut ScanContext, options: ReadOptions, keep: bool) -> ThreadChange {
        let before = self.wait.wchan.is_ok();
        self.read_wait_if_due(context, options, keep);
        if self.wait.wchan.is_ok() == before {
            return ThreadChange::Unchanged;
        }
        if !options.for_sample {
            self.sample_is_stale = true;
            return ThreadChange::Unchanged;
        }
        match self.read_stat(context, options, keep) {
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
            options.keep_open,
        )?;
        Ok(task::parse_schedstat(text).filter(|_| context.has_schedstat))
    }

    fn read_stat(&mut self, context: &mut ScanContext, options: ReadOptions, keep: bool) -> Reading<StatCounters> {
        let text = context.files.read_thread_file(options.pid, self.tid, ThreadFile::Stat, &mut self.descriptors, keep)?;
        let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
        self.comm = context.interner.reuse_or_intern(&self.comm, stat.comm);
        self.state = stat.state;
        Ok(StatCounters::from_stat(&stat))
    }
}
