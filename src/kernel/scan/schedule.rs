//! Scheduling: which processes sub-samples read, how often, and how much CPU time a scan spends on facts.
//!
//! Of a process with more than 64 threads of which few are hot, sub-samples read these without its CPU clock: a thread that sleeps and
//! begins to run is found by the next scan.
//!
//! These limits decide only what is read next. `interval` and `findings` evaluate what was read.

use super::process::KnownProcess;
use super::{ScanContext, TaskScanner, select_mut};

/// For this long after the first scan it is not known which processes run: sub-samples poll all CPU clocks.
const WARM_UP_NS: u64 = 1_500_000_000;
/// With at most this many processes, sub-samples poll the CPU clocks of all that ran in the last half minute; with more, only of those
/// that ran in the last seconds.
const MAX_PROCESSES_TO_POLL: usize = 300;

/// A process is steady if for this long all its hot threads ran or waited for timers, sockets, pipes or events.
const STEADY_NS: u64 = 2_000_000_000;
/// A steady process is read in one of this many sub-samples, more than three times a second; if more than `MANY_PROCESSES` are
/// sub-sampled, in one of `STEADY_INTERVAL_OF_MANY`: a mean over many needs fewer readings of each.
const STEADY_INTERVAL: u32 = 3;
const STEADY_INTERVAL_OF_MANY: u32 = 4;
const MANY_PROCESSES: usize = 32;

/// CPU time that a scan may spend on facts: in the first scan (short, for a fast first screen), in the next ones (long, so that most
/// facts are known soon), and later.
const FACTS_BUDGET_FIRST_NS: u64 = 16_000_000;
const FACTS_BUDGET_WARM_UP_NS: u64 = 25_000_000;
const FACTS_BUDGET_LATER_NS: u64 = 1_000_000;
/// CPU time for the facts of processes that ran or have hot threads, which are read first; at least this.
const FACTS_BUDGET_URGENT_NS: u64 = 10_000_000;

/// CPU time for facts: first of processes that ran or have hot threads, then of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactsBudget {
    pub urgent_ns: u64,
    pub other_ns: u64,
}

/// `first_scan_ns`: when the first scan was, if there was one before this.
pub fn facts_budget(first_scan_ns: Option<u64>, now_ns: u64) -> FactsBudget {
    let other_ns = match first_scan_ns {
        None => FACTS_BUDGET_FIRST_NS,
        Some(_) if is_warming_up(first_scan_ns, now_ns) => FACTS_BUDGET_WARM_UP_NS,
        Some(_) => FACTS_BUDGET_LATER_NS,
    };
    FactsBudget { urgent_ns: FACTS_BUDGET_URGENT_NS.max(other_ns), other_ns }
}

fn is_warming_up(first_scan_ns: Option<u64>, now_ns: u64) -> bool {
    first_scan_ns.is_none_or(|first| now_ns.saturating_sub(first) < WARM_UP_NS)
}

/// Whether a process has been steady for long enough: all its hot threads were (`KnownThread::is_steady`).
pub fn is_steady(last_unsteady_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(last_unsteady_ns) > STEADY_NS
}

/// Number of the sub-sample that reads a process next, after this one. What a thread was seen doing counts until it is read again,
/// and this number is fixed before the thread is read, so no state weighs more or less for being read less often. All steady
/// processes are read in the same sub-sample, another one after each sample: those between have nothing to read and can be omitted.
pub fn next_due_sub_sample(steady: bool, context: &ScanContext) -> u32 {
    let interval = match steady {
        true if context.sub_sampled_count > MANY_PROCESSES => STEADY_INTERVAL_OF_MANY,
        true => STEADY_INTERVAL,
        false => 1,
    };
    let number = context.sub_sample_number;
    number.wrapping_add(interval - number.wrapping_add(context.scan_number) % interval)
}

impl TaskScanner {
    /// Reads the hot threads between two scans.
    pub fn sub_sample(&mut self, now_ns: u64) {
        self.context.now_ns = now_ns;
        self.skip_sub_sample();
        let polls_sleeping = self.polls_sleeping(now_ns);
        let Self { processes, watched, context, .. } = self;
        let is_due = |known: &&mut KnownProcess| polls_sleeping || known.is_sub_sampled(now_ns);
        select_mut(processes, watched).filter(is_due).for_each(|known| known.sub_sample(context));
        self.context.sub_sampled_count = self.sub_sampled().count();
    }

    /// Counts a sub-sample that was omitted because it would have read nothing.
    pub fn skip_sub_sample(&mut self) {
        self.context.sub_sample_number = self.context.sub_sample_number.wrapping_add(1);
    }

    /// How many of the next sub-samples would read nothing, because all processes that they read are steady and due later. The
    /// clocks of sleeping processes are polled no sooner.
    pub fn idle_sub_samples(&self, now_ns: u64) -> u32 {
        if !self.context.clocks.are_available() || is_warming_up(self.first_scan_ns, now_ns) {
            return 0;
        }
        let most = if self.polls_sleeping(now_ns) { STEADY_INTERVAL } else { STEADY_INTERVAL_OF_MANY } - 1;
        self.sub_sampled().map(|known| known.sub_samples_until_due(self.context.sub_sample_number)).fold(most, u32::min)
    }

    /// After a scan: selects the processes that sub-samples read until the next one. Stalltop itself is left out.
    pub(super) fn update_watched(&mut self, now_ns: u64) {
        let (polls, warming_up) = (self.polls_sleeping(now_ns), is_warming_up(self.first_scan_ns, now_ns));
        let is_polled = |known: &KnownProcess| {
            polls && !known.sampled.kernel_thread && (warming_up || known.ran_in_last_half_minute(now_ns))
        };
        let is_watched = |known: &KnownProcess| known.pid != self.own_pid && (known.is_sub_sampled(now_ns) || is_polled(known));
        let watched = self.processes.iter().enumerate().filter(|(_, known)| is_watched(known)).map(|(index, _)| index);
        self.watched = watched.collect();
        self.context.sub_sampled_count = self.sub_sampled().count();
    }

    /// Whether sub-samples poll the CPU clocks of processes that did not run in the last seconds, too.
    fn polls_sleeping(&self, now_ns: u64) -> bool {
        let few = self.processes.len() <= MAX_PROCESSES_TO_POLL;
        self.context.clocks.are_available() && (few || is_warming_up(self.first_scan_ns, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_fast_at_first_and_little_by_little_later() {
        let second = 1_000_000_000;
        assert_eq!(facts_budget(None, second), FactsBudget { urgent_ns: 16_000_000, other_ns: 16_000_000 });
        assert_eq!(facts_budget(Some(second), 2 * second), FactsBudget { urgent_ns: 25_000_000, other_ns: 25_000_000 });
        assert_eq!(facts_budget(Some(second), 9 * second), FactsBudget { urgent_ns: 10_000_000, other_ns: 1_000_000 });
    }
}
