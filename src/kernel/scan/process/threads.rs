//! The threads of a process that ran, for a sample: as few of them as explain its clock; and what the kernel would add up over
//! all of them, which takes it milliseconds where there are ten thousand, from what these few have done.

use std::sync::Arc;

use super::{ActiveState, KnownProcess, update_sums_from_stat};
use crate::kernel::scan::ScanContext;
use crate::kernel::scan::cpu_time_check::CpuTimeCheck;
use crate::kernel::scan::thread::{KnownThread, ProcessStat, ReadOptions, ThreadChange};
use crate::kernel::scan::thread_activity::LARGE_PROCESS_THREADS;
use crate::kernel::task::files::ProcessFile;
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Process, TaskState, Thread};
use crate::units::Counter;

/// So often a large process's own stat is read all the same: it has what threads did that no sample has seen.
pub const SUMS_TTL_NS: u64 = 5_000_000_000;
/// Threads that are likely to have run are asked so often more, before all others are, where there are so many others for
/// each. One of them that was on a CPU when the clock was read is most often off it a moment later.
const EXTRA_TRIES: u32 = 3;
const THREADS_PER_HOT_THREAD: usize = 32;

/// What a look at the threads of a process found.
#[derive(Debug, Default)]
pub struct ThreadChanges {
    /// Some thread is gone.
    pub thread_gone: bool,
    /// What its clock says beyond its threads moved though none of them was running: some thread has ended.
    pub unexplained_cpu_time: bool,
    /// Who ran, by tid; some twice
    pub ran_tids: Vec<u32>,
    growth: ThreadGrowth,
}

/// What the kernel said of a process when it added up its threads.
#[derive(Debug, Default)]
pub struct KernelSums {
    read_ns: u64,
    /// User and system
    ticks: (Counter, Counter),
    /// What they had grown by since the time before, at first in its whole life
    last_growth: (u64, u64),
}

impl KernelSums {
    fn update(&mut self, stat: &Stat<'_>, now_ns: u64) {
        let grown = |new: Counter, old: Counter| new.0.saturating_sub(old.0);
        let both = (grown(stat.user_ticks, self.ticks.0), grown(stat.system_ticks, self.ticks.1));
        if both != (0, 0) {
            self.last_growth = both;
        }
        (self.read_ns, self.ticks) = (now_ns, (stat.user_ticks, stat.system_ticks));
    }
}

/// What threads have done since they were last read.
#[derive(Debug, Default)]
struct ThreadGrowth {
    user_ticks: u64,
    system_ticks: u64,
    guest_ticks: u64,
    minor_faults: u64,
    major_faults: u64,
}

impl ThreadGrowth {
    fn add_thread(&mut self, old: &Thread, new: &Thread) {
        let grown = |old: Counter, new: Counter| new.0.saturating_sub(old.0);
        self.user_ticks += grown(old.user_ticks, new.user_ticks);
        self.system_ticks += grown(old.system_ticks, new.system_ticks);
        self.guest_ticks += grown(old.guest_ticks, new.guest_ticks);
        self.minor_faults += grown(old.minor_faults, new.minor_faults);
        self.major_faults += grown(old.major_faults, new.major_faults);
    }

    /// The kernel says of a process in how many ticks it ran, by its clock, and divides them as it was seen at clock ticks: so
    /// do we, with what it saw last, since many threads that run for a moment have no tick of their own.
    fn apply_to(&self, process: &mut Process, all_ticks: u64, last: &KernelSums) {
        let ran = all_ticks.saturating_sub(process.user_ticks.0.saturating_add(process.system_ticks.0));
        let user = u128::from(self.user_ticks) + u128::from(last.last_growth.0);
        let both = user + u128::from(self.system_ticks) + u128::from(last.last_growth.1);
        let (base, since) = (last.ticks.0.0, all_ticks.saturating_sub(last.ticks.0.0.saturating_add(last.ticks.1.0)));
        let user =
            (u128::from(since) * user + both / 2).checked_div(both).and_then(|user| u64::try_from(user).ok()).unwrap_or(since);
        let user = base.saturating_add(user).saturating_sub(process.user_ticks.0).min(ran);
        let add = |counter: &mut Counter, grown: u64| counter.0 = counter.0.saturating_add(grown);
        add(&mut process.user_ticks, user);
        add(&mut process.system_ticks, ran - user);
        add(&mut process.guest_ticks, self.guest_ticks.min(user));
        add(&mut process.minor_faults, self.minor_faults);
        add(&mut process.major_faults, self.major_faults);
    }
}

impl KnownProcess {
    /// Whether its sums are added up here this time.
    pub(super) fn sums_threads_itself(&self, clock_ns: Option<u64>, now_ns: u64) -> bool {
        let fresh = |summed: &KernelSums| now_ns.saturating_sub(summed.read_ns) < SUMS_TTL_NS;
        let summed = self.active.kernel_sums.as_deref().is_some_and(fresh);
        self.active.threads.len() >= LARGE_PROCESS_THREADS
            && clock_ns.is_some()
            && self.active.cpu_time_check.is_known()
            && summed
    }

    /// The kernel was asked. What few threads did need not be remembered: it is asked each time.
    pub(super) fn record_kernel_sums(&mut self, stat: &Stat<'_>, now_ns: u64) {
        if self.active.threads.len() >= LARGE_PROCESS_THREADS {
            self.active.kernel_sums.get_or_insert_default().update(stat, now_ns);
        }
    }

    /// Adds up what its threads did; asks the kernel after all where threads began or ended.
    pub(super) fn apply_thread_growth(&mut self, eye: &mut ScanContext, found: &ThreadChanges) {
        if found.thread_gone || found.unexplained_cpu_time || self.sampled.threads.len() != self.active.threads.len() {
            let text = eye.files.read_process_file(self.pid, ProcessFile::Stat, &mut self.active.descriptors, true).ok();
            if let Some(stat) = text.and_then(task::parse_stat) {
                update_sums_from_stat(Arc::make_mut(&mut self.sampled), &stat, self.active.threads.len());
                self.record_kernel_sums(&stat, eye.now_ns);
            }
        } else if let Some((clock_ns, summed)) = self.clock_ns.zip(self.active.kernel_sums.as_deref()) {
            found.growth.apply_to(Arc::make_mut(&mut self.sampled), eye.ns_to_ticks(clock_ns), summed);
        }
    }

    /// First those that are likely to have run or changed; the others only when that does not explain the clock.
    pub(super) fn rescan_threads(
        &mut self,
        eye: &mut ScanContext,
        clock_ns: Option<u64>,
        ran: bool,
        lent: Option<ProcessStat>,
    ) -> ThreadChanges {
        let alone = clock_ns.is_some() && self.active.threads.len() == 1;
        let glance = ReadOptions { ran: alone.then_some(ran), process_stat: lent, ..self.read_options(eye, true) };
        if let Some(known) = self.active.threads.first_mut().filter(|_| lent.is_some()) {
            known.comm = self.sampled.comm.clone();
        }
        let (before, now_ns) = (self.active.cpu_time_check, eye.now_ns);
        let mut found = ThreadChanges::default();
        self.active.older_than_clock = false;
        let likely = |known: &KnownThread| known.is_hot(now_ns) || known.is_unsettled();
        self.rescan_matching(eye, glance, likely, &mut found);
        let few = !self.active.hot.is_empty() && self.active.hot.len() * THREADS_PER_HOT_THREAD <= self.active.threads.len();
        for _ in 0..if few { EXTRA_TRIES } else { 0 } {
            if self.active.cpu_time_check.accounts_for(self.clock_ns) || !self.active.cpu_time_check.is_known() {
                break;
            }
            self.clock_ns = eye.clocks.cpu_ns(self.pid);
            self.rescan_matching(eye, glance, likely, &mut found);
        }
        if self.active.cpu_time_check.accounts_for(self.clock_ns) {
            return found;
        }
        self.active.older_than_clock = eye.thread_activity.prepare_for_process(self.active.threads.len());
        self.rescan_matching(eye, glance, |known| known.last_read_ns != now_ns, &mut found);
        self.reset_cpu_time_check(self.clock_ns);
        let runs = |known: &KnownThread| known.state == TaskState::Running;
        found.unexplained_cpu_time =
            !self.active.cpu_time_check.has_same_remainder(&before) && !self.active.threads.iter().any(runs);
        if self.active.older_than_clock {
            self.active.cpu_time_check = CpuTimeCheck::default();
        }
        self.single_threaded &=
            lent.is_none_or(|lent| lent.state == TaskState::Running || self.thread_accounts_for(self.clock_ns));
        found
    }

    fn rescan_matching(
        &mut self,
        eye: &mut ScanContext,
        glance: ReadOptions,
        wanted: impl Fn(&KnownThread) -> bool,
        found: &mut ThreadChanges,
    ) {
        let Self { active: up, sampled: shared, .. } = self;
        let ActiveState { threads, cpu_time_check: books, .. } = &mut **up;
        let many = threads.len() >= LARGE_PROCESS_THREADS;
        let pairs = threads.iter_mut().zip(Arc::make_mut(shared).threads_mut());
        for (known, thread) in pairs.filter(|(known, _)| wanted(known)) {
            let before = known.schedstat;
            match known.rescan(eye, glance) {
                ThreadChange::Unchanged => {}
                ThreadChange::Changed(figures) if figures.start_ticks == thread.start_ticks => {
                    eye.tasks_read += 1;
                    let new = known.to_sample(&figures);
                    found.growth.add_thread(thread, &new);
                    found.ran_tids.extend(many.then_some(known.tid));
                    *thread = new;
                }
                // Only a glance is content with less than the figures.
                ThreadChange::Asleep => {}
                ThreadChange::Changed(_) | ThreadChange::Gone => found.thread_gone = true,
            }
            books.update_thread(before, known.schedstat);
        }
    }
}
