//! Which sub-samples are due, and what each of them reads beside the threads.

use std::time::Duration;

/// One sub-sample in this many is a full one: it also fetches exits (the kernel's buffer holds about 3,000 of them) and, if
/// there was I/O in the last sample, reads the requests in flight. While a thread is blocked, every sub-sample reads those.
const SUB_SAMPLES_PER_FULL_ONE: u32 = 3;
/// For this long after a thread was seen blocked, every sub-sample reads CPU times and requests in flight: a group counts as
/// blocked between two sub-samples that saw one of its threads blocked.
const BLOCKED_HOLD_NS: u64 = 1_000_000_000;

/// Decides by what was seen; reads nothing. Times are CLOCK_BOOTTIME.
#[derive(Debug, Default)]
pub struct SubSampleSchedule {
    /// See `SUB_SAMPLES_PER_FULL_ONE`
    since_full_one: u32,
    omitted: OmittedSubSamples,
    /// When a thread was last seen blocked
    last_blocked_ns: Option<u64>,
}

/// Sub-samples that the caller omits because they would read no thread.
#[derive(Clone, Copy, Debug, Default)]
struct OmittedSubSamples {
    count: u32,
    first_ns: u64,
    period_ns: u64,
}

impl SubSampleSchedule {
    /// Counts a sub-sample; returns whether it is a full one.
    pub fn begin_sub_sample(&mut self) -> bool {
        self.since_full_one = self.since_full_one.saturating_add(1);
        let is_full = self.since_full_one >= SUB_SAMPLES_PER_FULL_ONE;
        if is_full {
            self.since_full_one = 0;
        }
        is_full
    }

    /// Whether a thread is blocked, or was within the last second.
    pub fn was_blocked_recently(&mut self, is_blocked: bool, now_ns: u64) -> bool {
        if is_blocked {
            self.last_blocked_ns = Some(now_ns);
        }
        self.last_blocked_ns.is_some_and(|blocked_ns| now_ns.saturating_sub(blocked_ns) <= BLOCKED_HOLD_NS)
    }

    /// The next `count` sub-samples are omitted: one after `first`, the others a `period` apart.
    pub fn omit(&mut self, count: u32, now_ns: u64, first: Duration, period: Duration) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.omitted = OmittedSubSamples { count, first_ns: now_ns.saturating_add(ns(first)), period_ns: ns(period) };
    }

    /// The times of the omitted sub-samples that were due before now, which count as taken. Those that are due later are dropped.
    pub fn take_omitted(&mut self, now_ns: u64) -> impl Iterator<Item = u64> + use<> {
        let OmittedSubSamples { count, first_ns, period_ns } = std::mem::take(&mut self.omitted);
        let times = (0..count).map(move |number| first_ns.saturating_add(period_ns.saturating_mul(u64::from(number))));
        let due = times.take_while(move |&time_ns| time_ns < now_ns);
        self.since_full_one = self.since_full_one.saturating_add(u32::try_from(due.clone().count()).unwrap_or(u32::MAX));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    fn each_third_sub_sample_is_a_full_one() {
        let mut schedule = SubSampleSchedule::default();
        let full: Vec<bool> = (0..6).map(|_| schedule.begin_sub_sample()).collect();
        assert_eq!(full, [false, false, true, false, false, true]);
    }

    #[test]
    fn omitted_sub_samples_are_due_at_their_times_and_count() {
        let mut schedule = SubSampleSchedule::default();
        schedule.omit(5, SECOND, TENTH, TENTH);
        let times: Vec<u64> = schedule.take_omitted(SECOND * 13 / 10).collect();
        assert_eq!(times, [SECOND * 11 / 10, SECOND * 12 / 10], "the third is due now");
        assert!(schedule.begin_sub_sample(), "the third after two that were omitted");
        assert_eq!(schedule.take_omitted(u64::MAX).count(), 0);
    }

    #[test]
    fn a_thread_counts_as_blocked_for_a_second() {
        let mut schedule = SubSampleSchedule::default();
        assert!(!schedule.was_blocked_recently(false, SECOND) && schedule.was_blocked_recently(true, 2 * SECOND));
        assert!(schedule.was_blocked_recently(false, 3 * SECOND) && !schedule.was_blocked_recently(false, 3 * SECOND + 1));
    }
}
