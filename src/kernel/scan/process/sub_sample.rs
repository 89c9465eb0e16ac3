//! A process between two samples: its hot threads are looked at, and the others where its clock shows that one of them ran.

use super::{ActiveState, KnownProcess};
use crate::kernel::scan::ScanContext;
use crate::kernel::scan::thread::{KnownThread, ReadOptions, ThreadChange};
use crate::sample::task::TaskState;

/// With so few threads all of them are looked at, else only those known to be hot.
const FEW_THREADS: usize = 64;
/// A process none of whose hot threads was in trouble for so long is calm.
const CALM_NS: u64 = 2_000_000_000;
/// A calm process has its turn in one of so many sub-samples: more than three times a second, or, where many processes are
/// awake, two and a half times: a mean over many needs fewer looks at each.
pub(in crate::kernel::scan) const CALM_INTERVAL: u32 = 3;
pub(in crate::kernel::scan) const CALM_INTERVAL_OF_MANY: u32 = 4;
const MANY_PROCESSES: usize = 32;

impl KnownProcess {
    /// How many of the sub-samples after this one come before its turn.
    pub fn sub_samples_until_due(&self, look: u32) -> u32 {
        self.active.due_sub_sample.saturating_sub(look).saturating_sub(1)
    }

    /// Looks at its hot threads between two samples, if it is its turn.
    pub fn sub_sample(&mut self, eye: &mut ScanContext) {
        if eye.sub_sample_number < self.active.due_sub_sample {
            return;
        }
        let threads = self.sampled.threads.len();
        let many = threads > FEW_THREADS;
        // The clock of a process adds up its threads' each time: a few of them are sooner asked themselves.
        let by_threads = many && threads / FEW_THREADS > self.active.hot.len();
        if self.active.is_parked() && (by_threads || eye.clocks.cpu_ns(self.pid) == self.clock_ns) {
            return;
        }
        self.activate(eye);
        self.record_trouble(eye.now_ns);
        self.active.due_sub_sample = self.next_due_sub_sample(eye);
        if by_threads {
            return self.sub_sample_hot(eye, self.read_options(eye, false));
        }
        let clock_ns = eye.clocks.cpu_ns(self.pid);
        let ran = clock_ns.is_none() || clock_ns != self.clock_ns;
        let runs = |thread: &KnownThread| thread.state == TaskState::Running;
        if !ran && !self.active.hot.iter().any(|&index| self.active.threads.get(index).is_some_and(runs)) {
            return;
        }
        self.clock_ns = clock_ns;
        if ran {
            self.active.newer_than_sample = true;
            self.record_run(eye.now_ns);
        }
        let alone = clock_ns.is_some() && self.active.threads.len() == 1;
        let glance = ReadOptions { ran: alone.then_some(ran), ..self.read_options(eye, false) };
        if many {
            return self.sub_sample_hot(eye, glance);
        }
        self.sub_sample_matching(eye, glance, KnownThread::likely_ran);
        if !self.active.cpu_time_check.accounts_for(clock_ns) {
            self.sub_sample_matching(eye, glance, |thread, now_ns| !thread.likely_ran(now_ns));
        }
        if !self.active.cpu_time_check.accounts_for(clock_ns) {
            for index in 0..self.active.threads.len() {
                if self.active.hot.binary_search(&index).is_err() {
                    self.sub_sample_thread(index, eye, glance);
                }
            }
            self.reset_cpu_time_check(clock_ns);
        }
        self.find_hot(eye.now_ns);
    }

    /// Which sub-sample looks at it after this one: the next, or, where all has been calm, one of the next few. What a
    /// thread was seen doing is counted until it is looked at again, and the turn is fixed before it is seen, so that
    /// nothing weighs more or less for being looked at less often. All who are calm have their turn in the same sub-sample,
    /// another one after each sample: those between have nothing to look at, and nobody need wake up for them.
    fn next_due_sub_sample(&self, eye: &ScanContext) -> u32 {
        let calm = eye.now_ns.saturating_sub(self.active.last_trouble_ns) > CALM_NS;
        let turns = match calm {
            true if eye.sub_sampled_count > MANY_PROCESSES => CALM_INTERVAL_OF_MANY,
            true => CALM_INTERVAL,
            false => 1,
        };
        eye.sub_sample_number.wrapping_add(turns - eye.sub_sample_number.wrapping_add(eye.scan_number) % turns)
    }

    /// At its hot threads that are of this kind.
    fn sub_sample_matching(&mut self, eye: &mut ScanContext, glance: ReadOptions, kind: fn(&KnownThread, u64) -> bool) {
        for place in 0..self.active.hot.len() {
            if let Some(&index) = self.active.hot.get(place)
                && self
                    .active
                    .threads
                    .get(index)
                    .is_some_and(|thread| thread.last_read_ns != eye.now_ns && kind(thread, eye.now_ns))
            {
                self.sub_sample_thread(index, eye, glance);
            }
        }
    }

    fn sub_sample_hot(&mut self, eye: &mut ScanContext, glance: ReadOptions) {
        for place in 0..self.active.hot.len() {
            if let Some(&index) = self.active.hot.get(place) {
                self.sub_sample_thread(index, eye, glance);
            }
        }
    }

    fn sub_sample_thread(&mut self, index: usize, eye: &mut ScanContext, glance: ReadOptions) {
        let ActiveState { threads, cpu_time_check: books, unsettled, .. } = &mut *self.active;
        let Some(thread) = threads.get_mut(index) else { return };
        let before = thread.schedstat;
        match thread.rescan(eye, glance) {
            ThreadChange::Unchanged => {}
            ThreadChange::Changed(_) | ThreadChange::Asleep => eye.tasks_read += 1,
            ThreadChange::Gone => thread.state = TaskState::Dead,
        }
        books.update_thread(before, thread.schedstat);
        *unsettled |= thread.is_unsettled();
    }

    fn find_hot(&mut self, now_ns: u64) {
        let ActiveState { threads, hot, .. } = &mut *self.active;
        hot.clear();
        if !self.sampled.kernel_thread {
            hot.extend(threads.iter().enumerate().filter(|(_, thread)| thread.is_hot(now_ns)).map(|(index, _)| index));
            self.record_trouble(now_ns);
        }
    }
}
