//! A recording's samples by their numbers, and what it says of them without any being read: when they were taken, what the
//! recorder saw, what is missing before them, which words were put there.

use std::ops::Range;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use crate::findings::Severity;
use crate::recording::{Mark, Replayer, SummarySeverity, Timestamp};
use crate::sample::{self, Host, Sample};
use crate::state::{self, TimelineTick};

/// The file's samples; its numbers begin with 0.
pub struct RecordingSamples {
    pub replayer: Replayer,
}

impl RecordingSamples {
    pub fn timestamp(&self, number: u64) -> Option<Timestamp> {
        self.replayer.timestamp(usize::try_from(number).ok()?)
    }

    pub fn realtime_ns(&self, number: u64) -> Option<i64> {
        self.timestamp(number).map(|moment| moment.realtime_ns)
    }

    pub fn instant(&self, number: u64) -> Option<sample::Instant> {
        let Timestamp { boottime_ns, realtime_ns } = self.timestamp(number)?;
        Some(sample::Instant { boottime_ns, monotonic_ns: boottime_ns, realtime_ns })
    }

    pub fn index_at_time(&self, realtime_ns: i64) -> u64 {
        self.replayer.index_at_time(realtime_ns).unwrap_or(0) as u64
    }

    pub fn marks(&self) -> Arc<[state::Mark]> {
        let mark = |mark: &Mark| state::Mark { realtime_ns: mark.at.realtime_ns, text: mark.text.clone() };
        self.replayer.marks().iter().map(mark).collect()
    }

    /// What the recorder saw, where it is kept.
    pub fn ticks_from_summaries(&self) -> Vec<(u64, TimelineTick)> {
        let notes = self.annotations(1);
        let tick = |number: u64| {
            let digest = self.replayer.frame_summary(usize::try_from(number).ok()?)?;
            let worst = match digest.worst_severity {
                SummarySeverity::NotEvaluated => return None,
                SummarySeverity::NoFinding => None,
                SummarySeverity::Note => Some(Severity::Note),
                SummarySeverity::Warning => Some(Severity::Warning),
                SummarySeverity::Critical => Some(Severity::Critical),
            };
            let share = |share: u8| f32::from(share) / 255.0;
            let (busy, blocked) = (share(digest.busy), share(digest.blocked));
            let (gap, mark) = notes.before(number);
            Some((
                number,
                TimelineTick { realtime_ns: self.realtime_ns(number)?, worst_severity: worst, busy, blocked, gap, mark },
            ))
        };
        self.indices().filter_map(tick).collect()
    }

    /// Samples from that number on before which something is missing, or a mark was set.
    pub fn annotations(&self, from: u64) -> Annotations {
        let is_before = |number: u64, sequence: u64| {
            let own = usize::try_from(number).ok().and_then(|index| self.replayer.sequence(index));
            own.is_some_and(|own| own < sequence)
        };
        // Sequences ascend: the first sample that has this one, or a later one.
        let number_of = |sequence: u64| {
            let Range { start: mut low, end: mut high } = self.indices();
            while low < high {
                let middle = low.midpoint(high);
                if is_before(middle, sequence) { low = middle + 1 } else { high = middle }
            }
            (low >= from && low < self.indices().end).then_some(low)
        };
        let gaps = self.replayer.gaps().iter().filter_map(|gap| Some((number_of(gap.samples_before)?, None)));
        let marks =
            self.replayer.marks().iter().filter_map(|mark| Some((number_of(mark.samples_before)?, Some(mark.text.clone()))));
        let mut notes: Vec<(u64, Option<String>)> = gaps.chain(marks).collect();
        notes.sort_by_key(|(number, _)| *number);
        Annotations(notes)
    }
}

/// Before which samples something is missing, or a word was put (which), in their order.
pub struct Annotations(Vec<(u64, Option<String>)>);

impl Annotations {
    /// Whether something is missing before that sample, and the first word there.
    pub fn before(&self, number: u64) -> (bool, Option<String>) {
        let at = self.0.partition_point(|note| note.0 < number);
        let here = self.0.get(at..).unwrap_or_default().iter().take_while(|note| note.0 == number);
        here.fold((false, None), |(gap, mark), (_, word)| (gap | word.is_none(), mark.or(word.clone())))
    }
}

impl IndexedSamples for RecordingSamples {
    fn indices(&self) -> Range<u64> {
        0..self.replayer.len() as u64
    }

    fn sample(&mut self, number: u64) -> Option<Arc<Sample>> {
        self.replayer.sample(usize::try_from(number).ok()?).ok()
    }

    fn host(&self, number: u64) -> Arc<Host> {
        self.replayer.host(usize::try_from(number).unwrap_or(usize::MAX))
    }
}
