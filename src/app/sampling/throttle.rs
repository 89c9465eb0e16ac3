//! How often the machine is looked at when looking is dear: a sample that costs more than a quarter of its interval is taken
//! for every second due time only, or every third, so that a box in trouble is not troubled more.

use std::time::Duration;

use nix::time::ClockId;

use crate::kernel::scan::read_clock_ns;

/// The share of one CPU that samples may take. Sub-samples have their own, smaller one.
const MAX_CPU_SHARE: f64 = 0.25;
/// However dear a sample, one in so many due times has one.
const MAX_STRIDE: u32 = 10;

/// What the samples have cost lately.
#[derive(Debug, Default)]
pub struct Throttle {
    /// The last two, newest first. The first sample reads what later ones remember, and does not count.
    recent_costs: [Option<Duration>; 2],
    first_done: bool,
}

impl Throttle {
    /// After a sample that cost so much: of so many due times the next one has a sample. One dear sample by itself changes
    /// nothing.
    pub fn stride(&mut self, cost: Duration, interval: Duration) -> u32 {
        if !std::mem::replace(&mut self.first_done, true) {
            return 1;
        }
        let [last, _] = self.recent_costs;
        self.recent_costs = [Some(cost), last];
        let typical = last.map_or(Duration::ZERO, |last| last.min(cost));
        let intervals = typical.as_secs_f64() / (interval.as_secs_f64().max(0.001) * MAX_CPU_SHARE);
        (intervals.ceil() as u32).clamp(1, MAX_STRIDE)
    }
}

/// What the work gives, and the CPU time of this thread that it took.
pub fn with_cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let clock = || read_clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
    let begin = clock();
    let made = work();
    (made, Duration::from_nanos(clock().saturating_sub(begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_kept_and_one_dear_sample_changes_nothing() {
        let mut pace = Throttle::default();
        let mut one_in = |ms: u64| pace.stride(Duration::from_millis(ms), Duration::from_secs(1));
        let said = [3000, 10, 900, 10, 240, 250, 260, 600, 600, 9000, 9000, 5].map(&mut one_in);
        assert_eq!(said, [1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 10, 1]);
    }
}
