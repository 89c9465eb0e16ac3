//! Looks between two sweeps: who is looked at, and which looks would be at nobody.

use super::process::KnownProcess;
use super::process::sub_sample::{CALM_INTERVAL, CALM_INTERVAL_OF_MANY};
use super::{TaskScanner, select_mut};

/// So few processes that sub-samples ask the clocks of all that ran in the last half minute, not only in the last seconds.
const MAX_PROCESSES_TO_POLL: usize = 300;

impl TaskScanner {
    /// Looks between two sweeps at the threads that work, run or are blocked.
    pub fn sub_sample(&mut self, now_ns: u64) {
        self.context.now_ns = now_ns;
        self.context.sub_sample_number = self.context.sub_sample_number.wrapping_add(1);
        let warming_up = self.is_warming_up(now_ns);
        let asks_sleepers = self.polls_sleeping(now_ns);
        let Self { processes, sub_sampled: awake, clock_polled: warm, active: up, context: eye, .. } = self;
        select_mut(processes, awake).for_each(|known| known.sub_sample(eye));
        if asks_sleepers {
            let dozes = |known: &&mut KnownProcess| {
                !known.is_sub_sampled(now_ns) && (warming_up || known.ran_in_last_half_minute(now_ns))
            };
            select_mut(processes, warm).filter(dozes).for_each(|known| known.sub_sample(eye));
            // Also who was at rest may have run.
            up.extend_from_slice(warm);
            up.sort_unstable();
            up.dedup();
            self.find_sub_sampled(now_ns);
        }
    }

    /// How many of the next sub-samples would look at nobody: whoever works is calm, and has his turn later. Those that sleep
    /// and are asked for their clocks all the same wait as long.
    pub fn idle_sub_samples(&self, now_ns: u64) -> u32 {
        if !self.context.clocks.are_available() || self.is_warming_up(now_ns) {
            return 0;
        }
        let most = if self.polls_sleeping(now_ns) { CALM_INTERVAL } else { CALM_INTERVAL_OF_MANY } - 1;
        let awake = self.sub_sampled.iter().filter_map(|&place| self.processes.get(place));
        awake.map(|known| known.sub_samples_until_due(self.context.sub_sample_number)).fold(most, u32::min)
    }

    /// A sub-sample that would look at nobody is over.
    pub fn skip_sub_sample(&mut self) {
        self.context.sub_sample_number = self.context.sub_sample_number.wrapping_add(1);
    }

    /// Whether sub-samples ask the clocks of those, too, that did not run in the last seconds.
    fn polls_sleeping(&self, now_ns: u64) -> bool {
        self.context.clocks.are_available() && (self.processes.len() <= MAX_PROCESSES_TO_POLL || self.is_warming_up(now_ns))
    }

    /// Found by sweeps only: to walk through all processes at each sub-sample costs more than to ask these.
    pub(super) fn find_clock_polled(&mut self, now_ns: u64) {
        let (warming_up, asks_sleepers) = (self.is_warming_up(now_ns), self.polls_sleeping(now_ns));
        let Self { processes, clock_polled: warm, own_pid, .. } = self;
        let may_run =
            |known: &KnownProcess| (warming_up || known.ran_in_last_half_minute(now_ns)) && !known.sampled.kernel_thread;
        let wanted = |known: &KnownProcess| asks_sleepers && may_run(known) && known.pid != *own_pid;
        warm.clear();
        warm.extend((0..).zip(processes).filter(|(_, known)| wanted(known)).map(|(index, _)| index));
    }

    pub(super) fn find_sub_sampled(&mut self, now_ns: u64) {
        let Self { processes, active: up, sub_sampled: awake, own_pid, context: eye, .. } = self;
        let is_awake = |known: &KnownProcess| known.is_sub_sampled(now_ns) && known.pid != *own_pid;
        awake.clear();
        awake.extend(up.iter().copied().filter(|&index| processes.get(index).is_some_and(is_awake)));
        eye.sub_sampled_count = awake.len();
    }
}
