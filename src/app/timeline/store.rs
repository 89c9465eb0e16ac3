//! The samples that can be shown, by index: those that a ring in memory still holds, or those of a recording in files.

use std::ops::Range;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use super::recording_samples::RecordingSamples;
use crate::recording::{HistoryRing, Mark, SummarySeverity, Timestamp};
use crate::sample::{Host, Instant, Sample};
use crate::state;

#[allow(clippy::large_enum_variant, reason = "there is one store in the program")]
pub enum Store {
    Ring(RingSamples),
    File(RecordingSamples),
}

/// The samples in memory, all of one host and boot.
pub struct RingSamples {
    pub ring: HistoryRing,
    pub host: Arc<Host>,
}

impl RingSamples {
    fn index(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.ring.evicted())?).ok()
    }
}

impl Store {
    /// When the sample was taken; without decoding it.
    pub fn timestamp(&self, index: u64) -> Option<Timestamp> {
        match self {
            Store::Ring(samples) => samples.ring.timestamp(samples.index(index)?),
            Store::File(samples) => samples.timestamp(index),
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
            Store::Ring(_) => {
                let taken_before = |index: &u64| self.realtime_ns(*index).is_some_and(|at| at <= realtime_ns);
                Some(indices.clone().rev().find(taken_before).unwrap_or(indices.start))
            }
            Store::File(samples) => Some(samples.index_at_time(realtime_ns)),
        }
    }

    /// The share of the host that was idle but blocked in the interval that the sample ends, 0 … 1, as the recorder evaluated it.
    pub fn blocked_share(&self, index: u64) -> Option<f64> {
        let summary = match self {
            Store::Ring(samples) => samples.ring.frame_summary(samples.index(index)?),
            Store::File(samples) => samples.replayer.frame_summary(usize::try_from(index).ok()?),
        }?;
        (summary.worst_severity != SummarySeverity::NotEvaluated).then(|| f64::from(summary.blocked) / 255.0)
    }

    /// The marks among the samples, in the order of time.
    pub fn marks(&self) -> Arc<[state::Mark]> {
        match self {
            Store::Ring(samples) => samples.ring.marks().map(shown_mark).collect(),
            Store::File(samples) => samples.replayer.marks().iter().map(shown_mark).collect(),
        }
    }
}

impl IndexedSamples for Store {
    fn indices(&self) -> Range<u64> {
        match self {
            Store::Ring(samples) => samples.ring.evicted()..samples.ring.evicted() + samples.ring.len() as u64,
            Store::File(samples) => samples.indices(),
        }
    }

    fn sample(&mut self, index: u64) -> Option<Arc<Sample>> {
        match self {
            Store::Ring(samples) => {
                let index = samples.index(index)?;
                samples.ring.sample(index).ok()
            }
            Store::File(samples) => samples.sample(index),
        }
    }

    fn host(&self, index: u64) -> Arc<Host> {
        match self {
            Store::Ring(samples) => Arc::clone(&samples.host),
            Store::File(samples) => samples.host(index),
        }
    }
}

fn shown_mark(mark: &Mark) -> state::Mark {
    state::Mark { realtime_ns: mark.at.realtime_ns, text: mark.text.clone() }
}
