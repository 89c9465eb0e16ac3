//! What a recording is to contain while its disk has not yet created it.

use super::Session;
use crate::app::sampling::TimedSample;
use crate::recording::{FrameSummary, Gap, GapReason, Timestamp};

/// Records that wait at most. Further samples and gaps become one gap; further marks are refused.
const MAX_RECORDS: usize = 64;

/// Samples, gaps and marks, in order.
#[derive(Default)]
pub struct PendingRecords(Vec<PendingRecord>);

enum PendingRecord {
    Sample(TimedSample, FrameSummary),
    Gap(Gap),
    Mark(Timestamp, String),
}

impl PendingRecords {
    pub fn offer(&mut self, sample: &TimedSample, summary: FrameSummary) {
        if !self.is_full() {
            return self.0.push(PendingRecord::Sample(sample.clone(), summary));
        }
        let at = sample.sample.at.into();
        self.lose(sample.missed.saturating_add(1), at, at);
    }

    pub fn gap(&mut self, gap: &Gap) {
        if !self.is_full() {
            return self.0.push(PendingRecord::Gap(gap.clone()));
        }
        self.lose(gap.lost_samples, gap.from, gap.to);
    }

    /// The error says why the recording will lack the mark.
    pub fn mark(&mut self, at: Timestamp, text: &str) -> Result<(), &'static str> {
        if self.is_full() {
            return Err("its disk does not answer");
        }
        self.0.push(PendingRecord::Mark(at, text.to_owned()));
        Ok(())
    }

    /// Gives a recording that has just been created all of them.
    pub fn write_to(self, session: &mut Session) {
        for record in self.0 {
            match record {
                PendingRecord::Sample(sample, summary) => session.offer(sample, summary),
                PendingRecord::Gap(gap) => session.gap(&gap),
                PendingRecord::Mark(at, text) => {
                    // The mark is in memory, and its sender was told that it is accepted.
                    let _ = session.mark(at, &text);
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MAX_RECORDS
    }

    fn lose(&mut self, lost_samples: u64, from: Timestamp, to: Timestamp) {
        let reason = GapReason::DiskTooSlow;
        match self.0.last_mut() {
            Some(PendingRecord::Gap(gap)) if gap.reason == reason => {
                gap.lost_samples = gap.lost_samples.saturating_add(lost_samples);
                gap.to = to;
            }
            _ => self.0.push(PendingRecord::Gap(Gap { samples_before: 0, lost_samples, from, to, reason })),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::app::recorder;
    use crate::baseline::Baselines;
    use crate::recording::{Redaction, Replayer};
    use crate::synthetic;

    #[test]
    fn what_does_not_fit_is_a_gap_or_refused() {
        let mut pending = PendingRecords::default();
        let at = |seconds: u32| Timestamp::from(synthetic::sample(f64::from(seconds)).build().at);
        assert_eq!(pending.mark(at(0), "early"), Ok(()));
        for second in 1..=70_u32 {
            let sample = synthetic::sample(f64::from(second)).shared();
            pending.offer(&TimedSample::new(sample, 0), FrameSummary::default());
        }
        assert_eq!(pending.mark(at(71), "late"), Err("its disk does not answer"));
        let reason = GapReason::NotSampled;
        pending.gap(&Gap { samples_before: 0, lost_samples: 4, from: at(71), to: at(75), reason });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.stalltop");
        let meta = recorder::meta(&synthetic::host(), Duration::from_secs(1), Redaction::Nothing);
        let mut session = Session::create(&file, &meta, &Baselines::default()).unwrap();
        pending.write_to(&mut session);
        assert_eq!(session.finish_patiently().failure(), None);
        let recorded = Replayer::open(&file).unwrap();
        let lost: u64 = recorded.gaps().iter().map(|gap| gap.lost_samples).sum();
        assert_eq!((recorded.len() as u64 + lost, recorded.marks().len()), (74, 1));
        assert!(lost >= 11, "{lost}");
    }
}
