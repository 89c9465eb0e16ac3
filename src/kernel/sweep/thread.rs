//! One thread as it was last looked at, and how to look again with as few reads as the truth allows: schedstat first,
//! the rest only when it ran or was not at rest.

mod wait;

use self::wait::class_of;
use super::Eye;
use crate::kernel::task::files::{Kept, ThreadFile, is_gone};
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Sched, TaskState, Thread, Wait};
use crate::sample::waits::{Call, Futex, WaitClass};
use crate::sample::{Absent, Name, Reading};
use crate::units::{Counter, growth};

/// A worker is active when its timeslices moved within so long: in a convoy of 64 each has its turn every second or so,
/// a parked one never.
pub const ACTIVE_NS: u64 = 5_000_000_000;

/// Who worked within so long is the first to be asked whether it did again.
const A_MOMENT_NS: u64 = 1_000_000_000;

/// A thread that is runnable and waited this long for a CPU since the sample before is asked which CPUs it may use.
const KEPT_WAITING_NS: u64 = 5_000_000;
/// Its answer holds for so long: whoever sets it anew (taskset, a cpuset) is seen then.
const ALLOWED_STALE_NS: u64 = 10_000_000_000;

/// What is remembered of a thread between two looks.
#[derive(Debug)]
pub struct KnownThread {
    pub tid: u32,
    pub comm: Name,
    pub state: TaskState,
    pub wait: Wait,
    /// Of the wait; `None` when it is not known, or when state and channel did not fit together.
    pub class: Option<WaitClass>,
    /// It is asleep in a lock that somebody else holds.
    pub contended: bool,
    /// What its call says, if it is a futex call
    pub futex: Option<Futex>,
    /// It is asleep in a futex or a semaphore that it gives up by itself after a time.
    pub timed: bool,
    /// It keeps its wait even from those who may see others': until a sample sees it after all, it is not asked between two.
    guarded: bool,
    first_seen_ns: u64,
    /// When its timeslices were seen to move; `None` for one that did not since it was first seen.
    pub moved_ns: Option<u64>,
    /// Where this interval's record of it is; see `kernel/waits.rs`.
    pub record: Option<(u32, usize)>,
    /// What of it is in the last sample is older than the last look.
    pub stale: bool,
    /// CLOCK_BOOTTIME of the last look
    pub looked_ns: u64,
    pub sched: Option<Sched>,
    ticks: (Counter, Counter),
    /// The CPUs it may use, and when that was read.
    allowed: Option<Box<(Name, u64)>>,
    /// Its run-queue wait at the last sample.
    sampled_delay: Option<Counter>,
    kept: Kept,
}

/// What a look found.
pub enum Look {
    /// Nothing moved.
    Same,
    /// Its figures, to be put into the next sample. `sched` and waits are in the `KnownThread`.
    Moved(Figures),
    /// It ran and sleeps again. Its figures were not read: the next sample does that.
    Asleep,
    Gone,
}

/// The counters of a thread's stat.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
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
pub struct Glance {
    pub pid: u32,
    /// Another look will follow soon: keep descriptors.
    pub keep: bool,
    /// For a sample: what is stale must be read also when nothing moved since.
    pub full: bool,
    /// A kernel thread's waits are nobody's work.
    pub kernel_thread: bool,
    /// Its wait channels and system calls may be read.
    pub permitted: bool,
    /// It is its process's only thread, and by the process's clock it ran since the last look, or did not.
    pub ran: Option<bool>,
    /// It is all of its process: the stat of that is its own.
    pub lone: bool,
    /// And it was just read.
    pub lent: Option<Lent>,
}

/// What the stat of a process says of its only thread.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    pub state: TaskState,
    pub figures: Figures,
}

impl Lent {
    pub fn of(stat: &Stat<'_>) -> Lent {
        Lent { state: stat.state, figures: Figures::of(stat) }
    }
}

impl Figures {
    pub fn of(stat: &Stat<'_>) -> Figures {
        Figures {
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
        sched: Option<Sched>,
        now_ns: u64,
        born: bool,
    ) -> Self {
        KnownThread {
            tid,
            comm,
            state,
            wait: Wait::default(),
            class: class_of(state, &Err(Absent::NotRead), None),
            contended: false,
            futex: None,
            timed: false,
            guarded: false,
            first_seen_ns: now_ns,
            moved_ns: born.then_some(now_ns),
            record: None,
            stale: false,
            looked_ns: now_ns,
            sched,
            ticks,
            allowed: None,
            sampled_delay: None,
            kept: Kept::default(),
        }
    }

    /// One that was at rest, as the last sample has it; `machine` is the host's.
    pub fn again(thread: &Thread, first_seen_ns: u64, machine: &Name) -> Self {
        let call = thread.wait.call().ok().and_then(|call| Call::from_number(machine.as_bytes(), call));
        let ticks = (thread.user_ticks, thread.system_ticks);
        KnownThread {
            wait: thread.wait.clone(),
            class: class_of(thread.state, &thread.wait.channel, call),
            futex: call.and_then(Call::futex),
            moved_ns: thread.switched_ns,
            allowed: thread.allowed.clone().map(|cpus| Box::new((cpus, 0))),
            sampled_delay: thread.sched.map(|sched| sched.run_delay_ns),
            ..KnownThread::new(thread.tid, thread.comm.clone(), thread.state, ticks, thread.sched, first_seen_ns, false)
        }
    }

    /// Whether it works, however slowly.
    pub fn is_active(&self, now_ns: u64) -> bool {
        self.moved_ns.is_some_and(|moved| now_ns.saturating_sub(moved) <= ACTIVE_NS)
    }

    /// Since when it has been in this one wait, as far as we have seen it.
    pub fn waits_since_ns(&self) -> u64 {
        self.moved_ns.unwrap_or(self.first_seen_ns)
    }

    /// Whether sub-samples look at it: it works, runs, is blocked, or was seen to wait for a lock that is held.
    pub fn is_hot(&self, now_ns: u64) -> bool {
        match self.state {
            TaskState::Running => true,
            TaskState::Blocked => self.is_stuck(),
            TaskState::Sleeping => self.contended || self.class == Some(WaitClass::Disk) || self.is_active(now_ns),
            _ => false,
        }
    }

    /// Whether it runs, or waits for something that shows no trouble.
    pub fn is_calm(&self) -> bool {
        use WaitClass::{Child, Hidden, Net, Pipe, Poll, Timer};
        match (self.state, self.class) {
            (TaskState::Running, _) => true,
            (TaskState::Sleeping, Some(WaitClass::Futex)) => self.idles(),
            (TaskState::Sleeping, class) => matches!(class, Some(Timer | Poll | Net | Pipe | Child | Hidden)),
            _ => false,
        }
    }

    /// Whether its futex or semaphore is one that gives up by itself, or a wait to be given something to do.
    pub fn idles(&self) -> bool {
        self.timed || matches!(self.futex, Some(Futex::Note { .. }))
    }

    /// In D, and not for nothing.
    pub fn is_stuck(&self) -> bool {
        self.state == TaskState::Blocked && !self.is_harmless()
    }

    /// In D for nothing: a vfork parent, a frozen task.
    pub fn is_harmless(&self) -> bool {
        matches!(self.class, Some(WaitClass::Vfork | WaitClass::Frozen))
    }

    /// Whether it worked a moment ago, or does not stand still: when those explain the clock of their process, no other ran.
    pub fn is_likely_to_have_moved(&self, now_ns: u64) -> bool {
        let lately = self.moved_ns.is_some_and(|moved| now_ns.saturating_sub(moved) <= A_MOMENT_NS);
        lately || self.is_unsettled() || self.class.is_none()
    }

    /// Whether it may have left its state without having run: only a runnable task, or one that is woken from D. One that a
    /// sub-sample found gone is still in the list: another may have begun in its place.
    pub fn is_unsettled(&self) -> bool {
        self.stale || matches!(self.state, TaskState::Running | TaskState::Dead) || self.is_stuck()
    }

    pub fn release(&mut self) {
        self.kept.release();
    }

    /// For the next sample.
    pub fn thread(&self, figures: &Figures) -> Thread {
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
            sched: self.sched,
            switched_ns: self.moved_ns,
            wait: self.wait.clone(),
            allowed: self.allowed.as_deref().map(|(cpus, _)| cpus.clone()),
        }
    }

    /// Looks again.
    pub fn look(&mut self, eye: &mut Eye, glance: Glance) -> Look {
        let now_ns = eye.now_ns;
        self.looked_ns = now_ns;
        let keep_rest = glance.keep && self.is_active(now_ns);
        if !keep_rest {
            self.kept.release_all_but_schedstat();
        }
        let told = glance.ran.filter(|_| self.sched.is_some());
        let rests = match told {
            // Of one that ran only the next sample's figures want more than that.
            Some(ran) => !glance.full || !(ran || self.stale),
            None => eye.ran.is_at_rest(glance.pid, self.tid, self.sched.as_ref()),
        };
        let sched = match if rests { Ok(self.sched) } else { self.read_schedstat(eye, glance) } {
            Ok(sched) => sched,
            Err(why) if is_gone(why) && self.sched.is_some() => return Look::Gone,
            Err(_) => None,
        };
        let ran = told.unwrap_or(match (sched, self.sched) {
            (Some(new), Some(old)) => new.timeslices != old.timeslices,
            _ => false,
        });
        let at_rest = matches!(self.state, TaskState::Sleeping | TaskState::Blocked | TaskState::Idle);
        // A timeslice is counted as it begins, its time only as it ends: it may have been read in the middle.
        let same_time = sched.map(|sched| sched.run_ns) == self.sched.map(|sched| sched.run_ns);
        if sched.is_some() && !ran && same_time && at_rest && !(glance.full && self.stale) {
            return self.look_at_wait_again(eye, glance, keep_rest);
        }
        // Who was running mostly still is.
        if ran && !glance.full && at_rest && self.sleeps_again(eye, glance, keep_rest) {
            (self.sched, self.moved_ns, self.stale) = (sched, Some(now_ns), true);
            return Look::Asleep;
        }
        let figures = match self.read_figures(eye, glance, keep_rest) {
            Ok(figures) => figures,
            Err(why) if is_gone(why) => return Look::Gone,
            Err(_) => return Look::Same,
        };
        // Without schedstat its CPU time must do, which moves only by ticks.
        let ticks = figures.ticks();
        let ran = ran || (sched.is_none() && ticks != self.ticks);
        self.ticks = ticks;
        self.sched = sched;
        if ran {
            self.moved_ns = Some(now_ns);
        }
        if ran || !matches!(self.state, TaskState::Sleeping | TaskState::Blocked) {
            self.forget_wait();
        }
        self.read_wait_if_due(eye, glance, keep_rest);
        if glance.full {
            self.read_allowed_if_due(eye, glance);
        }
        self.stale = !glance.full;
        Look::Moved(figures)
    }

    /// Which CPUs it may use, when it had to wait for one.
    fn read_allowed_if_due(&mut self, eye: &mut Eye, glance: Glance) {
        let delay = self.sched.map(|sched| sched.run_delay_ns);
        let waited = growth(delay, std::mem::replace(&mut self.sampled_delay, delay));
        let known = self.allowed.as_deref().is_some_and(|(_, at)| eye.now_ns.saturating_sub(*at) < ALLOWED_STALE_NS);
        let waits = self.state == TaskState::Running && waited.is_some_and(|waited| waited >= KEPT_WAITING_NS);
        if known || !waits || glance.kernel_thread || eye.allowed_left == 0 {
            return;
        }
        eye.allowed_left -= 1;
        let text = eye.files.once(format_args!("{}/task/{}/status", glance.pid, self.tid));
        let cpus = text.ok().and_then(task::allowed_cpus).map(|cpus| eye.names.shared(cpus));
        self.allowed = cpus.map(|cpus| Box::new((cpus, eye.now_ns)));
    }

    /// It did not run, so its wait is the same one. It may be one that was missed, or not wanted before.
    fn look_at_wait_again(&mut self, eye: &mut Eye, glance: Glance, keep: bool) -> Look {
        let before = self.wait.channel.is_ok();
        self.read_wait_if_due(eye, glance, keep);
        if self.wait.channel.is_ok() == before {
            return Look::Same;
        }
        if !glance.full {
            self.stale = true;
            return Look::Same;
        }
        // Its state may have been read again since it was lent.
        match glance.lent.map_or_else(|| self.read_stat(eye, glance, keep), |lent| Ok(lent.figures)) {
            Ok(figures) => Look::Moved(figures),
            Err(_) => Look::Same,
        }
    }

    fn read_schedstat(&mut self, eye: &mut Eye, glance: Glance) -> Reading<Option<Sched>> {
        let text = eye.files.thread(glance.pid, self.tid, ThreadFile::Schedstat, &mut self.kept, glance.keep)?;
        Ok(task::schedstat(text).filter(|_| eye.has_schedstat))
    }

    fn read_figures(&mut self, eye: &mut Eye, glance: Glance, keep: bool) -> Reading<Figures> {
        let Some(lent) = glance.lent else { return self.read_stat(eye, glance, keep) };
        self.state = lent.state;
        Ok(lent.figures)
    }

    fn read_stat(&mut self, eye: &mut Eye, glance: Glance, keep: bool) -> Reading<Figures> {
        let file = if glance.lone { ThreadFile::ProcessStat } else { ThreadFile::Stat };
        let text = eye.files.thread(glance.pid, self.tid, file, &mut self.kept, keep)?;
        let stat = task::stat(text).ok_or(Absent::Malformed)?;
        self.comm = eye.names.unless_same(&self.comm, stat.comm);
        self.state = stat.state;
        Ok(Figures::of(&stat))
    }
}
