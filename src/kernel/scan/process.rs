//! A known process: what the scan keeps of it from one reading to the next.
//!
//! While the CPU clock of a process (`process_clock`) does not advance, none of its threads ran: no file of it is read again, and
//! consecutive samples share one `Process`. Exceptions are pending readings, such as threads in D, and what changes without it running,
//! its memory and its freezing, which is read in turns (`turns`). Its cgroup is read when it runs.
//!
//! `discover` reads a new process, `rescan` reads it again for a sample (`process/read.rs`), `sub_sample` reads its hot threads
//! between two samples (`process/sub_sample.rs`). The list of threads is in `process/threads.rs`.

mod read;
mod sub_sample;
mod threads;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ScanContext;
use super::cpu_time_check::CpuTimeCheck;
use super::thread::{JavaWait, KnownThread, ReadOptions};
use crate::kernel::task;
use crate::kernel::task::files::{AfterRead, ProcessFile, TaskDescriptors};
use crate::kernel::task::memory::may_hold_memory_lock;
use crate::sample::task::{Process, RawSyscall, TaskState, Thread};
use crate::sample::waits::{ACTIVE_NS, JavaLock, WaitClass};

/// A process that ran within this time is sub-sampled, and its descriptors stay open.
const RECENT_NS: u64 = ACTIVE_NS;
/// Where there are few processes, sub-samples poll the CPU clocks of those that ran within this time.
const POLLED_NS: u64 = 30_000_000_000;
/// Facts of a process that runs are read again after this time: it may write its state into its command line or be moved to another
/// cgroup.
const FACTS_TTL_NS: u64 = 10_000_000_000;

/// What is kept of a process between two readings.
#[derive(Debug)]
pub struct KnownProcess {
    pub pid: u32,
    /// As in the last sample
    pub sampled: Arc<Process>,
    state: ProcessState,
    pub hidden: HiddenThreads,
    pub facts: FactsState,
    /// Process CPU clock when the process was last read, ns; `None` where clocks cannot be read
    clock_ns: Option<u64>,
    /// CLOCK_BOOTTIME
    first_seen_ns: u64,
    /// CLOCK_BOOTTIME when it was last seen to have run; `None` if it has not run since it was first seen
    last_ran_ns: Option<u64>,
    /// stat field 48: changes with execve
    arg_start: u64,
}

/// Whether the threads of a process are kept.
#[derive(Debug)]
enum ProcessState {
    /// It did not run in the last seconds and none of its threads is running or blocked: the last sample has all that is known of
    /// its threads. Nothing is read until its CPU clock advances or its turn comes.
    Parked,
    /// It ran recently, or some of its threads is running or blocked.
    Active(Box<ActiveProcess>),
}

/// What is kept of a process that is not parked.
#[derive(Debug, Default)]
pub struct ActiveProcess {
    /// Parallel to `KnownProcess::sampled.threads`
    threads: Vec<KnownThread>,
    /// Indices of the threads that sub-samples read, sorted
    hot: Vec<usize>,
    /// Interval number, and the number of its group in it; see `kernel/waits.rs`
    group: Option<(u32, u16)>,
    cpu_time_check: CpuTimeCheck,
    /// In the last sub-sample in which it ran, a thread ran that had waited for long: a lock is handed over.
    runs_in_turn: bool,
    /// The last scan or sub-sample has read the CPU clock of the process.
    clock_is_current: bool,
    reread: Reread,
    /// CLOCK_BOOTTIME when it last began to run or had a hot thread that was not steady
    last_unsteady_ns: u64,
    /// Number of the sub-sample that reads it next
    due_sub_sample: u32,
    descriptors: TaskDescriptors,
}

/// What the next scan reads of an active process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reread {
    /// Nothing, unless its CPU clock has advanced.
    #[default]
    WhenClockAdvances,
    /// Threads that may change state while the clock does not advance: running, blocked, or read by a sub-sample only.
    ThreadsThatMayChange,
    /// Everything: a sub-sample read more than the last sample has, or a thread was missing from the list.
    Everything,
}

/// Threads of a process about which the kernel withholds something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenThreads {
    /// Threads whose wait channel is hidden from this user
    pub wait_channels: u32,
    /// Threads without schedstat
    pub schedstats: u32,
}

/// What a rescan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    Unchanged,
    Changed,
    /// It ended, and its pid may belong to another process.
    Gone,
}

/// Whether the facts of a process must be read.
#[derive(Clone, Copy, Debug, Default)]
pub enum FactsState {
    /// They were never read.
    #[default]
    Unread,
    /// They were never read, and the process ran meanwhile.
    UnreadAndRan,
    /// They are valid. `cmdline_skipped`: but for the command line, which was not read because reading it could hang. `ran`: the process has
    /// run since, and may have changed its title before it fell asleep.
    Read { read_ns: u64, cmdline_skipped: bool, ran: bool },
    /// The process ran, and they may have changed.
    Outdated,
}

impl FactsState {
    /// The process ran; `executed`: its name or the address of its arguments changed, so it has called execve.
    pub fn record_run(&mut self, executed: bool, now_ns: u64) {
        match *self {
            FactsState::Unread => *self = FactsState::UnreadAndRan,
            FactsState::Read { read_ns, cmdline_skipped, .. }
                if executed || cmdline_skipped || now_ns.saturating_sub(read_ns) > FACTS_TTL_NS =>
            {
                *self = FactsState::Outdated;
            }
            FactsState::Read { read_ns, cmdline_skipped, .. } => {
                *self = FactsState::Read { read_ns, cmdline_skipped, ran: true };
            }
            _ => {}
        }
    }

    /// Whether the facts must be read.
    pub fn is_due(self, now_ns: u64) -> bool {
        match self {
            FactsState::Read { read_ns, ran, .. } => ran && now_ns.saturating_sub(read_ns) > FACTS_TTL_NS,
            FactsState::Unread | FactsState::UnreadAndRan | FactsState::Outdated => true,
        }
    }

    /// Due, of a process that ran or has hot threads.
    pub fn is_urgent(self, hot: bool) -> bool {
        match self {
            FactsState::Unread => hot,
            FactsState::UnreadAndRan | FactsState::Outdated => true,
            FactsState::Read { .. } => false,
        }
    }

    /// Whether they were read before.
    pub fn was_read(self) -> bool {
        matches!(self, FactsState::Read { .. } | FactsState::Outdated)
    }
}

impl KnownProcess {
    /// Its threads and the indices of the hot ones; none of a parked process.
    pub fn threads(&self) -> (&[KnownThread], &[usize]) {
        match &self.state {
            ProcessState::Parked => (&[], &[]),
            ProcessState::Active(active) => (&active.threads, &active.hot),
        }
    }

    /// Its CPU clock, ns, if the last scan or sub-sample has read it: while it does not advance, none of its threads runs.
    pub fn current_clock_ns(&self) -> Option<u64> {
        match &self.state {
            ProcessState::Active(active) if active.clock_is_current => self.clock_ns,
            _ => None,
        }
    }

    /// Calls `visit` with each thread that sub-samples read, and with what the last sample has of it.
    pub fn for_each_hot_thread(&mut self, mut visit: impl FnMut(&Process, &mut KnownThread, &Thread)) {
        let ProcessState::Active(active) = &mut self.state else { return };
        let ActiveProcess { threads, hot, .. } = &mut **active;
        for &index in hot.iter() {
            if let Some((thread, sampled)) = threads.get_mut(index).zip(self.sampled.threads.get(index)) {
                visit(&self.sampled, thread, sampled);
            }
        }
    }

    /// Forgets the readings of run time of all its threads.
    pub fn clear_run_times(&mut self) {
        if let ProcessState::Active(active) = &mut self.state {
            active.threads.iter_mut().for_each(|thread| thread.run_times.clear());
        }
    }

    /// Sets for which locks of Java those of its threads wait that were read, by thread id; sub-samples read threads that wait for one from now on.
    pub fn set_java_waits(&mut self, waits: &FxHashMap<u32, Option<JavaLock>>, context: &ScanContext) {
        if self.is_parked() && waits.values().all(Option::is_none) {
            return;
        }
        let mut active = self.activate(context);
        for thread in &mut active.threads {
            match waits.get(&thread.tid).filter(|_| thread.state == TaskState::Sleeping) {
                Some(lock) => thread.java_wait = lock.map_or(JavaWait::NoLock, JavaWait::Lock),
                // Without schedstat it is not known whether it ran.
                None if thread.schedstat.is_none() => thread.java_wait = JavaWait::NotRead,
                None => {}
            }
        }
        let waits = |(_, thread): &(usize, &KnownThread)| thread.java_wait.lock().is_some();
        let waiting: Vec<usize> = active.threads.iter().enumerate().filter(waits).map(|(index, _)| index).collect();
        if active.threads.iter().any(|thread| thread.java_wait.lock().is_some() && thread.futex_wait.is_none()) {
            // Their waits were not read.
            active.reread = Reread::Everything;
        }
        active.hot.extend(waiting);
        active.hot.sort_unstable();
        active.hot.dedup();
        self.state = ProcessState::Active(active);
    }

    /// The threads that sub-samples read.
    pub fn hot_threads(&self) -> impl Iterator<Item = &KnownThread> {
        let (threads, hot) = self.threads();
        hot.iter().filter_map(|&index| threads.get(index))
    }

    pub fn is_parked(&self) -> bool {
        matches!(self.state, ProcessState::Parked)
    }

    /// The number of its group in this interval, if it was set in this interval.
    pub fn group_number(&self, interval: u32) -> Option<u16> {
        let ProcessState::Active(active) = &self.state else { return None };
        active.group.filter(|(of, _)| *of == interval).map(|(_, number)| number)
    }

    pub fn set_group_number(&mut self, interval: u32, number: u16) {
        if let ProcessState::Active(active) = &mut self.state {
            active.group = Some((interval, number));
        }
    }

    /// Its parent or executable changed, and with it its group.
    pub fn clear_group(&mut self) {
        if let ProcessState::Active(active) = &mut self.state {
            active.group = None;
        }
    }

    /// Whether it ran in the last 5 s.
    pub fn ran_recently(&self, now_ns: u64) -> bool {
        self.last_ran_ns.is_some_and(|ran| now_ns.saturating_sub(ran) <= RECENT_NS)
    }

    /// Whether it ran in the last half minute.
    pub fn ran_in_last_half_minute(&self, now_ns: u64) -> bool {
        self.last_ran_ns.is_some_and(|ran| now_ns.saturating_sub(ran) <= POLLED_NS)
    }

    pub fn is_zombie(&self) -> bool {
        self.sampled.threads.first().is_some_and(|leader| leader.state == TaskState::Zombie)
    }

    /// Whether sub-samples read it: one of its threads is hot, or it ran recently.
    pub fn is_sub_sampled(&self, now_ns: u64) -> bool {
        !self.threads().1.is_empty() || (self.ran_recently(now_ns) && !self.sampled.kernel_thread)
    }

    /// Whether one of its hot threads is in D, a vfork parent and frozen threads excepted.
    pub fn has_stuck_thread(&self) -> bool {
        self.hot_threads().any(KnownThread::is_uninterruptible)
    }

    /// Whether one of its hot threads may wait for a device: in D, or asleep for asynchronous completions, for memory or for FUSE.
    pub fn has_blocked_thread(&self) -> bool {
        let blocked_class = |class| matches!(class, WaitClass::Aio | WaitClass::Memory | WaitClass::Disk);
        let is_blocked =
            |thread: &KnownThread| thread.state == TaskState::Blocked || thread.wait_class.is_some_and(blocked_class);
        self.hot_threads().any(is_blocked)
    }

    /// Whether reading its memory (cmdline, owners of its locks) could hang: a thread in D may hold the lock of the address space.
    pub fn memory_read_may_hang(&self) -> bool {
        let is_in_page_fault = |thread: &KnownThread| thread.wait.syscall().is_ok_and(RawSyscall::is_page_fault);
        let may_hold = |thread: &KnownThread| may_hold_memory_lock(thread.state, thread.wait_class, is_in_page_fault(thread));
        self.threads().0.iter().any(may_hold)
    }

    /// Reads its parent again: the one it had ended.
    pub fn refresh_parent(&mut self, context: &mut ScanContext) {
        let text = context
            .files
            .read_process_file(self.pid, ProcessFile::Stat, &mut TaskDescriptors::default(), AfterRead::Close)
            .ok();
        if let Some(stat) = text.and_then(task::parse_stat).filter(|stat| stat.start_ticks == self.sampled.start_ticks)
            && stat.ppid != self.sampled.ppid
        {
            Arc::make_mut(&mut self.sampled).ppid = stat.ppid;
            self.clear_group();
        }
    }

    /// Parks it if nothing of it need be read before its CPU clock advances. This also closes its descriptors.
    pub fn park_if_idle(&mut self, now_ns: u64) {
        let ProcessState::Active(active) = &self.state else { return };
        let blocked = |thread: &KnownThread| thread.state == TaskState::Blocked;
        let settled =
            active.reread == Reread::WhenClockAdvances && active.hot.is_empty() && !active.threads.iter().any(blocked);
        if settled && self.clock_ns.is_some() && !self.ran_recently(now_ns) {
            self.state = ProcessState::Parked;
        }
    }

    /// Takes out what is kept of its threads, to be put back as `ProcessState::Active`. That of a parked process is made from the
    /// last sample.
    fn activate(&mut self, context: &ScanContext) -> Box<ActiveProcess> {
        match std::mem::replace(&mut self.state, ProcessState::Parked) {
            ProcessState::Active(active) => active,
            ProcessState::Parked => {
                let known = |thread| KnownThread::from_sample(thread, self.first_seen_ns, context);
                let threads: Vec<KnownThread> = self.sampled.threads.iter().map(known).collect();
                let cpu_time_check = CpuTimeCheck::new(self.clock_ns, threads.iter().map(|thread| thread.schedstat));
                Box::new(ActiveProcess { threads, cpu_time_check, ..ActiveProcess::default() })
            }
        }
    }

    fn read_options(&self, context: &ScanContext, for_sample: bool) -> ReadOptions {
        ReadOptions {
            pid: self.pid,
            after_read: AfterRead::keep_open_if(context.clocks.are_available() && self.ran_recently(context.now_ns)),
            for_sample,
            kernel_thread: self.sampled.kernel_thread,
            may_read_waits: context.can_inspect_tasks_of(self.sampled.uid),
        }
    }

    /// Records that it ran. A process that slept until now is not steady at first.
    fn record_run(&mut self, active: &mut ActiveProcess, now_ns: u64) {
        if !self.ran_recently(now_ns) {
            active.last_unsteady_ns = now_ns;
        }
        self.last_ran_ns = Some(now_ns);
    }
}

impl ActiveProcess {
    fn record_unsteady(&mut self, now_ns: u64) {
        if !self.hot.iter().filter_map(|&index| self.threads.get(index)).all(KnownThread::is_steady) {
            self.last_unsteady_ns = now_ns;
        }
    }

    /// The indices of the hot threads that this scan or sub-sample has not read, those that have waited longest first.
    fn unread_hot(&self, now_ns: u64) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let hot = self.hot.iter().filter_map(|&index| Some((self.threads.get(index)?, index)));
        let unread = hot.filter(|(thread, _)| thread.last_read_ns != now_ns);
        let mut unread: Vec<(u64, usize)> = unread.map(|(thread, index)| (thread.waiting_since_ns(), index)).collect();
        unread.sort_unstable();
        unread.into_iter().map(|(_, index)| index)
    }

    /// After all threads were read.
    fn reset_cpu_time_check(&mut self, clock_ns: Option<u64>) {
        self.cpu_time_check = CpuTimeCheck::new(clock_ns, self.threads.iter().map(|thread| thread.schedstat));
    }
}
