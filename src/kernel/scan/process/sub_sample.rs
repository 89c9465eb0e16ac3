//! Reads a process in a sub-sample: its hot threads, and the others if its CPU clock shows that one of them ran. Of many threads of which
//! few are hot the clock is not read, and none of the others.

use super::super::ScanContext;
use super::super::schedule::{self, next_due_sub_sample};
use super::super::thread::{KnownThread, ReadOptions, ThreadChange};
use super::{ActiveProcess, KnownProcess, ProcessState, Reread};
use crate::sample::task::TaskState;

/// With so few threads all of them may be read, with more only those known to be hot.
const FEW_THREADS: usize = 64;

impl KnownProcess {
    /// How many of the sub-samples after this one pass before it is due.
    pub fn sub_samples_until_due(&self, sub_sample: u32) -> u32 {
        let ProcessState::Active(active) = &self.state else { return 0 };
        active.due_sub_sample.saturating_sub(sub_sample).saturating_sub(1)
    }

    /// Reads its hot threads, if it is due.
    pub fn sub_sample(&mut self, context: &mut ScanContext) {
        let hot_count = match &mut self.state {
            ProcessState::Active(active) if context.sub_sample_number < active.due_sub_sample => {
                active.clock_is_current = false;
                return;
            }
            ProcessState::Active(active) => active.hot.len(),
            ProcessState::Parked => 0,
        };
        let thread_count = self.sampled.threads.len();
        let many = thread_count > FEW_THREADS;
        // The kernel adds up the process clock over all threads: reading a few hot ones of many costs less.
        let without_clock = many && thread_count / FEW_THREADS > hot_count;
        let clock_ns = if without_clock { self.clock_ns } else { context.clocks.cpu_ns(self.pid) };
        let ran = clock_ns.is_none() || clock_ns != self.clock_ns;
        if self.is_parked() && !ran {
            return;
        }
        let mut active = self.activate(context);
        active.clock_is_current = !without_clock;
        active.record_unsteady(context.now_ns);
        active.due_sub_sample = next_due_sub_sample(schedule::is_steady(active.last_unsteady_ns, context.now_ns), context);
        if without_clock {
            active.sub_sample_hot(context, self.read_options(context, false), |_, _| true);
        } else if ran || active.threads.iter().any(|thread| thread.state == TaskState::Running) {
            self.clock_ns = clock_ns;
            if ran {
                active.reread = Reread::Everything;
                self.record_run(&mut active, context.now_ns);
            }
            let options = self.read_options(context, false);
            if many {
                active.sub_sample_until_accounted(self.clock_ns, context, options);
            } else {
                self.sub_sample_few(&mut active, context, options);
            }
        }
        self.state = ProcessState::Active(active);
    }

    /// The hot threads; the others, which are few, only if those do not account for the process's CPU time.
    fn sub_sample_few(&self, active: &mut ActiveProcess, context: &mut ScanContext, options: ReadOptions) {
        active.sub_sample_until_accounted(self.clock_ns, context, options);
        if !active.cpu_time_check.accounts_for(self.clock_ns) {
            for index in 0..active.threads.len() {
                if active.hot.binary_search(&index).is_err() {
                    active.sub_sample_thread(index, context, options);
                }
            }
            active.reset_cpu_time_check(self.clock_ns);
        }
        active.hot.clear();
        if !self.sampled.kernel_thread {
            let is_hot = |(_, thread): &(usize, &KnownThread)| thread.is_hot(context.now_ns);
            active.hot.extend(active.threads.iter().enumerate().filter(is_hot).map(|(index, _)| index));
            active.record_unsteady(context.now_ns);
        }
    }
}

impl ActiveProcess {
    /// Reads the hot threads that are wanted.
    fn sub_sample_hot(&mut self, context: &mut ScanContext, options: ReadOptions, wanted: impl Fn(&KnownThread, u64) -> bool) {
        for place in 0..self.hot.len() {
            if let Some(&index) = self.hot.get(place)
                && self.threads.get(index).is_some_and(|thread| wanted(thread, context.now_ns))
            {
                self.sub_sample_thread(index, context, options);
            }
        }
    }

    /// The hot threads that likely ran; then those that have waited longest, to which most locks are handed over, until the threads account
    /// for the CPU time of the process: no other thread ran. Where threads run in turn, the one that ran last and the one that has waited
    /// longest are read alternately (gain: docs/cost.md, "Stuck threads").
    fn sub_sample_until_accounted(&mut self, clock_ns: Option<u64>, context: &mut ScanContext, options: ReadOptions) {
        let in_turn = std::mem::take(&mut self.runs_in_turn);
        self.sub_sample_hot(context, options, |thread, now_ns| match in_turn {
            true => thread.must_be_read(),
            false => thread.likely_ran(now_ns),
        });
        if self.cpu_time_check.accounts_for(clock_ns) {
            return;
        }
        let (mut unread, mut from_back) = (self.unread_hot(context.now_ns), in_turn);
        while !self.cpu_time_check.accounts_for(clock_ns)
            && let Some(index) = if from_back { unread.next_back() } else { unread.next() }
        {
            let waited_long = self.threads.get(index).is_some_and(|thread| !thread.likely_ran(context.now_ns));
            self.sub_sample_thread(index, context, options);
            let ran = self.threads.get(index).is_some_and(|thread| thread.last_timeslice_ns == Some(context.now_ns));
            self.runs_in_turn |= waited_long && ran;
            from_back = in_turn && !from_back;
        }
    }

    fn sub_sample_thread(&mut self, index: usize, context: &mut ScanContext, options: ReadOptions) {
        let Some(thread) = self.threads.get_mut(index) else { return };
        let before = thread.schedstat;
        match thread.rescan(context, options) {
            ThreadChange::Unchanged => {}
            ThreadChange::Changed(_) | ThreadChange::Asleep => context.tasks_read += 1,
            ThreadChange::Gone => thread.state = TaskState::Dead,
        }
        self.cpu_time_check.update_thread(before, thread.schedstat);
        if thread.may_change_without_running() && self.reread == Reread::WhenClockAdvances {
            self.reread = Reread::ThreadsThatMayChange;
        }
    }
}
