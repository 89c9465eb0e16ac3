//! What a recording is to contain while its disk has not yet created it.

use super::Session;
use crate::app::sampling::TimedSample;
use crate::recording::{FrameSummary, Gap, GapReason, Timestamp};

/// Records that wait at most. Further samples become a gap.
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
        if self.0.len() < MAX_RECORDS {
            return self.0.push(PendingRecord::Sample(sample.clone(), summary));
        }
        let (lost, at) = (sample.missed.saturating_add(1), sample.sample.at.into());
        match self.0.last_mut() {
            Some(PendingRecord::Gap(gap)) if gap.reason == GapReason::DiskTooSlow => {
                gap.lost_samples = gap.lost_samples.saturating_add(lost);
                gap.to = at;
            }
            _ => {
                let reason = GapReason::DiskTooSlow;
                self.0.push(PendingRecord::Gap(Gap { samples_before: 0, lost_samples: lost, from: at, to: at, reason }));
            }
        }
    }

    pub fn gap(&mut self, gap: &Gap) {
        self.push(PendingRecord::Gap(gap.clone()));
    }

    pub fn mark(&mut self, at: Timestamp, text: &str) {
        self.push(PendingRecord::Mark(at, text.to_owned()));
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

    fn push(&mut self, record: PendingRecord) {
        if self.0.len() < MAX_RECORDS {
            self.0.push(record);
        }
    }
}
