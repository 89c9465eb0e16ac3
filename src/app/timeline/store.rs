//! The samples that can be shown, by index, with what adds to them: live input and the ring that keeps the newest samples in
//! memory, or a recording in files.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::checkpoints::IndexedSamples;
use super::file_input::FileInput;
use super::live_input::LiveInput;
use super::playback::PlaybackTimer;
use crate::recording::{HistoryRing, Mark, Meta, SummarySeverity, Timestamp};
use crate::sample::{Host, Instant, Sample};
use crate::state;

#[allow(clippy::large_enum_variant, reason = "there is one store in the program")]
pub enum Store {
    Live(LiveInput),
    File(FileInput),
}

/// The samples in memory, all of one host and boot.
pub struct RingSamples {
    pub ring: HistoryRing,
    pub host: Arc<Host>,
}

/// The most bytes of samples that are kept in memory, for any `--history`.
const MAX_HISTORY_BYTES: usize = 16 << 20;

impl RingSamples {
    /// `history`: how long samples are kept.
    pub fn new(meta: &Meta, history: Duration) -> RingSamples {
        let samples = history.as_nanos().div_ceil(meta.interval.as_nanos().max(1));
        let samples = usize::try_from(samples).unwrap_or(usize::MAX).max(2);
        let ring = HistoryRing::new(samples, MAX_HISTORY_BYTES, meta.redaction);
        RingSamples { ring, host: Arc::new(meta.host.clone()) }
    }

    fn index(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.ring.evicted())?).ok()
    }
}

impl Store {
    /// `None` where samples arrive live: they are not played.
    pub fn playback(&self) -> Option<&PlaybackTimer> {
        match self {
            Store::Live(_) => None,
            Store::File(file) => Some(&file.playback),
        }
    }

    /// As `playback`.
    pub fn playback_mut(&mut self) -> Option<&mut PlaybackTimer> {
        match self {
            Store::Live(_) => None,
            Store::File(file) => Some(&mut file.playback),
        }
    }

    /// When the sample was taken; without decoding it.
    pub fn timestamp(&self, index: u64) -> Option<Timestamp> {
        match self {
            Store::Live(live) => live.samples.ring.timestamp(live.samples.index(index)?),
            Store::File(file) => file.samples.timestamp(index),
        }
    }

    pub fn instant(&self, index: u64) -> Option<Instant> {
        self.timestamp(index).map(Instant::from)
    }

    pub fn realtime_ns(&self, index: u64) -> Option<i64> {
        self.timestamp(index).map(|at| at.realtime_ns)
    }

    /// The last sample taken at or before that time; the first sample where there is none. `None` without samples.
    pub fn index_at_time(&self, realtime_ns: i64) -> Option<u64> {
        let indices = self.indices();
        if indices.is_empty() {
            return None;
        }
        match self {
            // From the end: the clock may have been set meanwhile, so that the times need not ascend.
            Store::Live(_) => {
                let taken_before = |index: &u64| self.realtime_ns(*index).is_some_and(|at| at <= realtime_ns);
                Some(indices.clone().rev().find(taken_before).unwrap_or(indices.start))
            }
            Store::File(file) => Some(file.samples.index_at_time(realtime_ns)),
        }
    }

    /// The share of the host that was idle but blocked in the interval that the sample ends, 0 … 1, as the recorder evaluated it.
    pub fn blocked_share(&self, index: u64) -> Option<f64> {
        let summary = match self {
            Store::Live(live) => live.samples.ring.frame_summary(live.samples.index(index)?),
            Store::File(file) => file.samples.replayer.frame_summary(usize::try_from(index).ok()?),
        }?;
        (summary.worst_severity != SummarySeverity::NotEvaluated).then(|| f64::from(summary.blocked) / 255.0)
    }

    /// The marks among the samples, in the order of time.
    pub fn marks(&self) -> Arc<[state::Mark]> {
        match self {
            Store::Live(live) => live.samples.ring.marks().map(shown_mark).collect(),
            Store::File(file) => file.samples.replayer.marks().iter().map(shown_mark).collect(),
        }
    }
}

impl IndexedSamples for RingSamples {
    fn indices(&self) -> Range<u64> {
        self.ring.evicted()..self.ring.evicted() + self.ring.len() as u64
    }

    fn sample(&mut self, index: u64) -> Option<Arc<Sample>> {
        self.ring.sample(self.index(index)?).ok()
    }

    fn host(&self, _: u64) -> Arc<Host> {
        Arc::clone(&self.host)
    }
}

impl IndexedSamples for Store {
    fn indices(&self) -> Range<u64> {
        match self {
            Store::Live(live) => live.samples.indices(),
            Store::File(file) => file.samples.indices(),
        }
    }

    fn sample(&mut self, index: u64) -> Option<Arc<Sample>> {
        match self {
            Store::Live(live) => live.samples.sample(index),
            Store::File(file) => file.samples.sample(index),
        }
    }

    fn host(&self, index: u64) -> Arc<Host> {
        match self {
            Store::Live(live) => live.samples.host(index),
            Store::File(file) => file.samples.host(index),
        }
    }
}

fn shown_mark(mark: &Mark) -> state::Mark {
    state::Mark { realtime_ns: mark.at.realtime_ns, text: mark.text.clone() }
}
