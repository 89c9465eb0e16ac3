//! Joins the segments of a recording: finds repeated samples, numbers all samples, and computes the gaps between them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::Replayer;
use crate::recording::Timestamp;
use crate::recording::format::meta::{Gap, GapReason, Mark};
use crate::recording::read::damage::{Damage, DamageKind};
use crate::recording::read::segment_file::SegmentFile;
use crate::sample::Host;

/// One file of the recording.
pub struct Segment {
    pub file: SegmentFile,
    /// The host and its boot.
    pub host: Arc<Host>,
    /// Samples at its beginning that the segment before has too: after its disk failed, this one repeats what may be lost.
    pub repeated_samples: usize,
    /// Samples of all segments before it, and the sequence number that its own numbers are added to.
    pub first_position: usize,
    pub first_sequence: u64,
}

impl Replayer {
    /// Numbers the samples of all segments, and merges their gaps, marks and damage.
    pub(super) fn merge_segments(&mut self) {
        self.gaps.clear();
        self.marks.clear();
        self.damage.clear();
        if let Some(newest) = self.segments.last().filter(|newest| newest.file.meta() != &self.meta) {
            self.meta = newest.file.meta().clone();
        }
        let (mut first, mut number) = (0, 0_u64);
        let mut before: Option<(Timestamp, Duration, Arc<Host>)> = None;
        for segment in &mut self.segments {
            segment.first_position = first;
            (segment.repeated_samples, segment.first_sequence) =
                segment.overlap_with(before.as_ref().map(|&(last, ..)| last), number);
            let shifted = |own: u64| segment.first_sequence.saturating_add(own);
            let part = &segment.file;
            if let (Some((from, interval, host)), Some(to)) = (&before, segment.first_timestamp()) {
                // The gaps that the segment itself reports before its first sample.
                let own = part.sequence(segment.repeated_samples).unwrap_or(0);
                let recorded = part.gaps().iter().filter(|gap| gap.samples_before == own).map(|gap| gap.lost_samples);
                let recorded = recorded.fold(0, u64::saturating_add);
                let same_run = host.is_same_boot(&segment.host);
                let due = missed_samples_between(*from, to, *interval, same_run).saturating_sub(recorded);
                let gap = Gap { samples_before: number, lost_samples: due, from: *from, to, reason: GapReason::NotSampled };
                self.gaps.extend((due > 0).then_some(gap));
            }
            // A segment that repeats samples repeats the gaps and marks between them too.
            let repeats = segment.repeated_samples > 0;
            let known: FxHashSet<Gap> = self.gaps.iter().filter(|_| repeats).cloned().collect();
            let gaps = part.gaps().iter().map(|gap| Gap { samples_before: shifted(gap.samples_before), ..gap.clone() });
            self.gaps.extend(gaps.filter(|gap| !known.contains(gap)));
            let known: FxHashSet<(Timestamp, String)> =
                self.marks.iter().filter(|_| repeats).map(|mark| (mark.at, mark.text.clone())).collect();
            let marks = part.marks().iter().filter(|mark| known.is_empty() || !known.contains(&(mark.at, mark.text.clone())));
            self.marks.extend(marks.map(|mark| Mark { samples_before: shifted(mark.samples_before), ..mark.clone() }));
            self.damage.extend_from_slice(part.damage());
            if let Some(last) = part.len().checked_sub(1) {
                before = part.timestamp(last).map(|at| (at, part.meta().interval, Arc::clone(&segment.host))).or(before);
                number = part.sequence(last).map_or(number, |own| shifted(own).saturating_add(1));
            }
            first += segment.len();
        }
        let Range { start, end } = self.visible;
        let among = |before: u64| (start == 0 || start < before) && before < end;
        self.gaps.retain(|gap| among(gap.samples_before));
        self.marks.retain(|mark| among(mark.samples_before));
        let unreadable = Damage { bytes: 0..0, kind: DamageKind::UnreadableSegment, lost_samples: 0, from: None, to: None };
        self.damage.extend(std::iter::repeat_n(unreadable, self.unreadable.len()));
    }
}

impl Segment {
    pub fn new(part: SegmentFile) -> Segment {
        let host = Arc::new(part.meta().host.clone());
        Segment { file: part, host, repeated_samples: 0, first_position: 0, first_sequence: 0 }
    }

    /// Samples that no earlier segment has.
    pub fn len(&self) -> usize {
        self.file.len().saturating_sub(self.repeated_samples)
    }

    /// Timestamp of the first of them.
    pub fn first_timestamp(&self) -> Option<Timestamp> {
        self.file.timestamp(self.repeated_samples)
    }

    /// Index in the file of the sample at that position among all.
    pub fn index_in_file(&self, place: usize) -> usize {
        place - self.first_position + self.repeated_samples
    }

    pub fn position(&self, index: usize) -> usize {
        self.first_position + index.saturating_sub(self.repeated_samples)
    }

    /// How many of its samples the segments before it have too, of which the last one has that timestamp and is the one before
    /// `number`; and the sequence number that its own numbers are added to.
    fn overlap_with(&self, last: Option<Timestamp>, number: u64) -> (usize, u64) {
        let repeated = || {
            let index = self.file.index_of_timestamp(last?)?;
            // Sequence numbers never decrease, whatever is in a file.
            let first_number = number.checked_sub(self.file.sequence(index)?.checked_add(1)?)?;
            Some((index + 1, first_number))
        };
        repeated().unwrap_or((0, number))
    }
}

/// Number of samples that were due between two consecutive ones: by BOOTTIME within one boot, by REALTIME between
/// boots.
pub fn missed_samples_between(from: Timestamp, to: Timestamp, interval: Duration, same_run: bool) -> u64 {
    let by_the_wall = || u64::try_from(to.realtime_ns.saturating_sub(from.realtime_ns)).unwrap_or(0);
    let apart = if same_run { to.boottime_ns.saturating_sub(from.boottime_ns) } else { by_the_wall() };
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    apart.saturating_add(interval / 2).checked_div(interval).unwrap_or(0).saturating_sub(1)
}
