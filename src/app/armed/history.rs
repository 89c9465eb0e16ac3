//! The last minutes in memory, with the baselines at their beginning: a capture begins with them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::recording::{FrameBacklog, FrameSummary, HistoryRing, Redaction, Timestamp};

/// Samples between two copies of the baselines.
const BASELINES_EVERY: u64 = 32;

/// The ring takes at most this part of the space that captures may have: a capture is mostly its pre-roll.
const MAX_SHARE_OF_CAPTURES: u64 = 8;

/// The most bytes in memory, for any time and interval.
const MAX_BYTES: u64 = 32 << 20;

/// Half the time between two samples of an event.
const TOLERANCE_NS: u64 = 50_000_000;

/// The samples of the ordinary interval. During a capture, those between them are left out.
pub struct History {
    ring: HistoryRing,
    interval_ns: u64,
    /// Numbers of samples, with the baselines before them
    baselines: VecDeque<(u64, Baselines)>,
    last_kept_ns: Option<u64>,
}

impl History {
    /// `capture_bytes`: what all captures may have on the disk.
    pub fn new(pre_roll: Duration, interval: Duration, capture_bytes: u64, redaction: Redaction) -> History {
        let samples = pre_roll.as_nanos().div_ceil(interval.as_nanos().max(1)) + 1;
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        let bytes = usize::try_from(MAX_BYTES.min(capture_bytes / MAX_SHARE_OF_CAPTURES)).unwrap_or(usize::MAX);
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let ring = HistoryRing::new(samples, bytes, redaction);
        History { ring, interval_ns, baselines: VecDeque::new(), last_kept_ns: None }
    }

    /// Whether an ordinary interval has passed between the last sample that was added and this one.
    pub fn is_due(&self, sample: &TimedSample) -> bool {
        // A sample may be some milliseconds early.
        let passed = |last_ns: u64| sample.sample.at.boottime_ns.saturating_sub(last_ns) + TOLERANCE_NS >= self.interval_ns;
        self.last_kept_ns.is_none_or(passed)
    }

    /// Adds a sample. `baselines` are those before it.
    pub fn add(&mut self, sample: &TimedSample, summary: FrameSummary, baselines: impl FnOnce() -> Baselines) {
        let at = sample.sample.at;
        self.last_kept_ns = Some(at.boottime_ns);
        self.ring.add_missed(sample.missed, at.into());
        let number = self.ring.evicted() + self.ring.len() as u64;
        if number.is_multiple_of(BASELINES_EVERY) {
            self.baselines.push_back((number, baselines()));
        }
        self.ring.push_with_summary(&sample.sample, summary);
        // The newest ones at or before the oldest sample stay.
        while self.baselines.get(1).is_some_and(|(number, _)| *number <= self.ring.evicted()) {
            self.baselines.pop_front();
        }
    }

    /// Adds a mark after the newest sample.
    pub fn mark(&mut self, at: Timestamp, text: &str) {
        self.ring.add_mark(at, text);
    }

    /// All that is kept, and the baselines at its beginning.
    pub fn backlog(&self) -> (FrameBacklog, Baselines) {
        let baselines = self.baselines.front().map(|(_, baselines)| baselines.clone());
        (self.ring.backlog(), baselines.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::recorder;
    use crate::baseline::{BaselineKey, DeviceIdentity, SizeClass};
    use crate::interval::disk::Operation;
    use crate::recording::{Recorder, RecorderOptions, Replayer};
    use crate::sample::{Instant, Sample};
    use crate::synthetic;
    use crate::units::Millis;

    fn sample(ms: u64) -> TimedSample {
        let at = Instant { boottime_ns: ms * 1_000_000, monotonic_ns: ms * 1_000_000, realtime_ns: 0 };
        TimedSample::new(Arc::new(Sample::empty(at)), 0)
    }

    #[test]
    fn an_event_does_not_push_the_minutes_before_it_out() {
        let mut history = History::new(Duration::from_secs(60), Duration::from_secs(1), 1 << 30, Redaction::Nothing);
        let device = DeviceIdentity("sda".into());
        let key = BaselineKey { device, operation: Operation::Read, size: SizeClass::Small };
        // The latency says at which time they were the baselines.
        let baselines = |ms: u64| {
            let mut baselines = Baselines::default();
            baselines.set(key.clone(), Millis(1.0 + ms as f64));
            baselines
        };
        for ms in (0..60).map(|second| second * 1000).chain((0..300).map(|tenth| 60_000 + tenth * 100)) {
            let sample = sample(ms);
            if history.is_due(&sample) {
                history.add(&sample, FrameSummary::default(), || baselines(ms));
            }
        }
        let (backlog, first_baselines) = history.backlog();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("capture.stalltop");
        let meta = recorder::meta(&synthetic::host(), Duration::from_secs(1), Redaction::Nothing);
        let options = RecorderOptions { backlog, reserve_free_space: false, ..RecorderOptions::default() };
        Recorder::create(&path, &meta, options).unwrap().finish(Duration::from_secs(60));
        let replayer = Replayer::open(&path).unwrap();
        let seconds = (0..replayer.len()).map(|index| replayer.timestamp(index).unwrap().boottime_ns / 1_000_000_000);
        let seconds: Vec<u64> = seconds.collect();
        assert!(seconds[0] <= 30, "{seconds:?}");
        assert_eq!(seconds, (seconds[0]..90).collect::<Vec<_>>());
        let latency = first_baselines.get(&key).and_then(|baseline| baseline.latency());
        assert_eq!(latency, Some(Millis(1.0)), "those at or before the oldest sample");
    }
}
