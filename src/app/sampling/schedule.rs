//! When samples are due: at the start, shortly after it, then at the start + n · interval; with a span, at its end.

use std::time::{Duration, Instant};

/// The second sample is due this soon, so that the screen soon has an interval to show.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub struct Schedule {
    interval: Duration,
    next: Instant,
    /// Due times are whole intervals after this
    origin: Instant,
    /// The last due time that `missed` has counted
    counted_until: Instant,
    /// Due times before `next` that the throttle skips
    skipped: u32,
    end: Option<Instant>,
    /// Samples without which it does not end
    min_samples: u32,
    /// From the first sample to the second
    first_interval: Duration,
}

impl Schedule {
    /// The first sample is due now.
    pub fn new(interval: Duration, span: Option<Duration>) -> Schedule {
        let now = Instant::now();
        Schedule {
            interval,
            next: now,
            origin: now,
            counted_until: now,
            skipped: 0,
            end: span.map(|span| now + span),
            min_samples: 0,
            first_interval: FIRST_INTERVAL,
        }
    }

    /// The second sample is due after a whole interval.
    pub fn without_early_sample(self) -> Schedule {
        Schedule { first_interval: self.interval, ..self }
    }

    /// The end waits for so many samples, where they take long.
    pub fn with_min_samples(self, min_samples: u32) -> Schedule {
        Schedule { min_samples, ..self }
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The due time of the next sample.
    pub fn next_due(&self) -> Instant {
        self.next
    }

    /// Due times before the next sample that the throttle skips.
    pub fn skipped(&self) -> u32 {
        self.skipped
    }

    /// How long after its due time a sample starts.
    pub fn lateness(&self, started: Instant) -> Duration {
        started.saturating_duration_since(self.next)
    }

    /// The number of due times without a sample since the last sample, without those that were skipped.
    pub fn missed(&mut self, started: Instant) -> u64 {
        let here = self.origin + self.interval * self.intervals_before(started);
        let passed = self.intervals_before(here).saturating_sub(self.intervals_before(self.counted_until));
        self.counted_until = self.counted_until.max(here);
        u64::from(passed).saturating_sub(1 + u64::from(self.skipped))
    }

    /// Moves to the due time that is `stride` intervals later, or the first one after `now`: missed samples are not taken
    /// later. Returns false at the end.
    pub fn advance(&mut self, now: Instant, stride: u32) -> bool {
        self.min_samples = self.min_samples.saturating_sub(1);
        if self.end.is_some_and(|end| self.next >= end) {
            if self.min_samples == 0 {
                return false;
            }
            self.end = Some(now + self.interval);
        }
        let early = self.origin + self.first_interval;
        if self.next == self.origin && self.interval > self.first_interval * 2 && now < early {
            (self.next, self.skipped) = (early, 0);
        } else {
            // From the due time of this sample: one that took long has used up a part of the pause.
            let soonest = self.intervals_before(now).saturating_add(1);
            let wanted = self.intervals_before(self.next).saturating_add(stride);
            self.skipped = wanted.saturating_sub(soonest);
            self.next = self.origin + self.interval * soonest.max(wanted);
        }
        if let Some(end) = self.end
            // A rest that is too short for an interval is part of the last one.
            && self.next + self.interval.min(FIRST_INTERVAL) > end
        {
            (self.next, self.skipped) = (end, 0);
        }
        true
    }

    /// The next sample is due now, and is the last one.
    pub fn end_at(&mut self, now: Instant) {
        (self.next, self.end) = (now, Some(now));
    }

    /// The next sample is due at that time, unless it is due earlier; those after it are due when they were.
    pub fn bring_forward(&mut self, at: Instant) {
        if at < self.next {
            (self.next, self.skipped) = (at, 0);
        }
    }

    /// Another interval from now on.
    pub fn set_interval(&mut self, interval: Duration, now: Instant) {
        self.interval = interval;
        self.next = now + interval.min(self.first_interval);
        (self.origin, self.counted_until) = (now, now);
        self.skipped = 0;
    }

    /// Whole intervals from the origin to that time.
    fn intervals_before(&self, at: Instant) -> u32 {
        let intervals = at.saturating_duration_since(self.origin).as_nanos() / self.interval.as_nanos().max(1);
        u32::try_from(intervals).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_do_not_drift() {
        let mut schedule = Schedule::new(Duration::from_secs(1), None);
        let start = schedule.next_due();
        schedule.advance(start + Duration::from_millis(5), 1);
        assert_eq!(schedule.next_due(), start + FIRST_INTERVAL, "the first interval is short");
        schedule.advance(start + Duration::from_millis(260), 1);
        assert_eq!(schedule.next_due(), start + Duration::from_secs(1));
        schedule.advance(start + Duration::from_millis(1040), 1);
        assert_eq!(schedule.next_due(), start + Duration::from_secs(2));
        assert_eq!(schedule.lateness(start + Duration::from_millis(2300)), Duration::from_millis(300));
        schedule.advance(start + Duration::from_millis(5300), 1);
        assert_eq!(schedule.next_due(), start + Duration::from_secs(6), "missed samples are not taken later");
    }

    #[test]
    fn due_times_without_a_sample_are_counted_once() {
        let mut schedule = Schedule::new(Duration::from_secs(1), None);
        let start = schedule.next_due();
        let mut missed = |ms: u64| {
            let now = start + Duration::from_millis(ms);
            let missed = schedule.missed(now);
            schedule.advance(now + Duration::from_millis(5), 1);
            missed
        };
        let counted: Vec<u64> = [0, 250, 1000, 2400, 3000, 33_100, 34_000, 35_999, 36_001].map(&mut missed).to_vec();
        assert_eq!(counted, [0, 0, 0, 0, 0, 29, 0, 0, 0], "stopped for 30 s");
        // A sample that takes three seconds.
        schedule.advance(start + Duration::from_millis(39_500), 1);
        assert_eq!(schedule.next_due(), start + Duration::from_secs(40));
        assert_eq!(schedule.missed(start + Duration::from_secs(40)), 3);
    }

    #[test]
    fn skipped_due_times_are_not_missed_and_do_not_move_the_others() {
        let mut schedule = Schedule::new(Duration::from_secs(1), None);
        let start = schedule.next_due();
        let at = |ms: u64| start + Duration::from_millis(ms);
        schedule.advance(at(900), 3);
        assert_eq!((schedule.next_due(), schedule.skipped()), (at(3000), 2));
        assert_eq!(schedule.missed(at(3010)), 0);
        // This sample takes 1.2 s: one of the two due times to skip has passed when it is done.
        schedule.advance(at(4210), 3);
        assert_eq!((schedule.next_due(), schedule.skipped()), (at(6000), 1));
        assert_eq!(schedule.missed(at(9_020)), 4, "of the five between, only the one at 5 s was skipped");
    }

    #[test]
    fn the_end_waits_for_the_wanted_samples() {
        let interval = Duration::from_millis(200);
        let mut schedule = Schedule::new(interval, Some(interval * 2)).with_min_samples(3);
        // Each sample takes a second.
        let start = schedule.next_due();
        assert!(schedule.advance(start + Duration::from_secs(1), 1));
        assert!(schedule.advance(start + Duration::from_secs(2), 1));
        assert!(!schedule.advance(start + Duration::from_secs(3), 1));
    }

    #[test]
    fn a_span_ends_with_a_sample() {
        let mut schedule = Schedule::new(Duration::from_secs(1), Some(Duration::from_millis(2100)));
        let start = schedule.next_due();
        let mut times = Vec::new();
        while schedule.advance(schedule.next_due(), 1) {
            times.push((schedule.next_due() - start).as_millis());
        }
        assert_eq!(times, [250, 1000, 2100]);
    }

    #[test]
    fn a_sample_out_of_turn_moves_no_other_and_hides_no_missed_one() {
        let mut schedule = Schedule::new(Duration::from_secs(1), None);
        let start = schedule.next_due();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(schedule.missed(at(1000)) == 0 && schedule.advance(at(1005), 1));
        schedule.bring_forward(at(1400));
        assert_eq!((schedule.next_due(), schedule.missed(at(1401))), (at(1400), 0));
        schedule.advance(at(1406), 1);
        schedule.bring_forward(at(2500));
        assert_eq!((schedule.next_due(), schedule.missed(at(2000))), (at(2000), 0), "the next one is due earlier");
        schedule.advance(at(2005), 3);
        schedule.bring_forward(at(2200));
        assert_eq!((schedule.next_due(), schedule.skipped()), (at(2200), 0));
        schedule.missed(at(2200));
        schedule.advance(at(2205), 1);
        assert_eq!((schedule.next_due(), schedule.missed(at(5000))), (at(3000), 2), "those at 3 and 4 s");
        let mut ending = Schedule::new(Duration::from_secs(1), Some(Duration::from_secs(1)));
        let start = ending.next_due();
        ending.advance(start, 1);
        ending.bring_forward(start + Duration::from_millis(100));
        assert!(ending.advance(ending.next_due(), 1));
        assert_eq!(ending.next_due(), start + Duration::from_secs(1));
        assert!(!ending.advance(ending.next_due(), 1));
    }

    #[test]
    fn a_new_interval_counts_from_now() {
        let mut schedule = Schedule::new(Duration::from_secs(1), None);
        let now = schedule.next_due() + Duration::from_secs(10);
        schedule.set_interval(Duration::from_secs(5), now);
        assert_eq!(schedule.next_due(), now + FIRST_INTERVAL);
        schedule.advance(schedule.next_due(), 1);
        assert_eq!(schedule.next_due(), now + Duration::from_secs(5));
    }
}
