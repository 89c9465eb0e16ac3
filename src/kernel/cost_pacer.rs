//! Spaces expensive readings: the next one comes after a multiple of what the last one cost, which bounds their share of one CPU.

use std::time::{Duration, Instant};

/// Says when the next reading is due. The first one is due at once.
#[derive(Debug, Default)]
pub struct CostPacer {
    next: Option<Instant>,
}

impl CostPacer {
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|at| now >= at)
    }

    /// After a reading: the next one is due `interval_per_cost` times its cost after `at`.
    pub fn schedule_next(&mut self, at: Instant, cost: Duration, interval_per_cost: u32) {
        self.next = Some(at + cost.saturating_mul(interval_per_cost));
    }

    /// The next reading is due at this time at the earliest.
    pub fn postpone_until(&mut self, earliest: Instant) {
        self.next = Some(self.next.map_or(earliest, |at| at.max(earliest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_reading_comes_after_a_multiple_of_the_cost() {
        let (mut pacer, begin) = (CostPacer::default(), Instant::now());
        let is_due_after = |pacer: &CostPacer, ms| pacer.is_due(begin + Duration::from_millis(ms));
        assert!(is_due_after(&pacer, 0));
        pacer.schedule_next(begin, Duration::from_millis(3), 100);
        assert_eq!([0, 299, 300].map(|ms| is_due_after(&pacer, ms)), [false, false, true]);
        pacer.schedule_next(begin, Duration::ZERO, 100);
        assert!(is_due_after(&pacer, 0));
    }

    #[test]
    fn a_reading_is_postponed_but_never_advanced() {
        let (mut pacer, begin) = (CostPacer::default(), Instant::now());
        pacer.postpone_until(begin + Duration::from_secs(10));
        assert_eq!([9, 10].map(|seconds| pacer.is_due(begin + Duration::from_secs(seconds))), [false, true]);
        pacer.schedule_next(begin, Duration::from_secs(1), 20);
        pacer.postpone_until(begin + Duration::from_secs(10));
        assert_eq!([10, 20].map(|seconds| pacer.is_due(begin + Duration::from_secs(seconds))), [false, true]);
    }
}
