//! The samples of a recording by index, and what is known from the frame headers without decoding: times, frame summaries,
//! gaps, marks.

use std::ops::Range;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use crate::app::program::exit::{Exit, Failure};
use crate::findings::Severity;
use crate::recording::{Damage, Replayer, SummarySeverity, Tail, Timestamp};
use crate::report::formatting::pluralize;
use crate::sample::{Host, Sample};
use crate::state::TimelineTick;
use crate::units::SmallSort;

/// The samples of a recording; their indices start at 0.
pub struct RecordingSamples {
    pub replayer: Replayer,
    /// What another replayer of the same recording has found
    more_damage: Vec<Damage>,
}

impl RecordingSamples {
    pub fn new(replayer: Replayer) -> RecordingSamples {
        RecordingSamples { replayer, more_damage: Vec::new() }
    }

    pub fn timestamp(&self, index: u64) -> Option<Timestamp> {
        self.replayer.timestamp(usize::try_from(index).ok()?)
    }

    /// The last sample taken at or before that time; the first sample where there is none.
    pub fn index_at_time(&self, realtime_ns: i64) -> u64 {
        self.replayer.index_at_time(realtime_ns).unwrap_or(0) as u64
    }

    /// All damage that another replayer of the same recording has found so far.
    pub fn add_damage(&mut self, damage: Vec<Damage>) {
        self.more_damage = damage;
    }

    fn damage(&self) -> &[Damage] {
        let own = self.replayer.damage();
        if self.more_damage.len() > own.len() { &self.more_damage } else { own }
    }

    /// A line about damage, or about an incomplete end.
    pub fn problem(&self) -> Option<String> {
        let damage = self.damage();
        if let Some(first) = damage.first() {
            if let Some(unreadable) = self.replayer.unreadable().first() {
                return Some(format!("not whole: {}", unreadable.reason));
            }
            let places = pluralize(damage.len() as u64, "place");
            return Some(format!("damaged in {places}, first at byte {}: {}", first.bytes.start, first.kind));
        }
        match self.replayer.tail() {
            Tail::Torn { offset, .. } => {
                Some(format!("the last frame, at byte {offset}, is incomplete: the recorder was stopped"))
            }
            Tail::Unfinished => {
                Some("the recorder was stopped before it closed the file: all samples it wrote are here".to_owned())
            }
            Tail::Closed | Tail::Growing => None,
        }
    }

    /// The failure with which the program ends where the recording is damaged.
    pub fn damage_failure(&self) -> Option<Failure> {
        let damage = self.damage();
        let lost = damage.iter().map(|damage| damage.lost_samples).fold(0, u64::saturating_add);
        let first = damage.first()?;
        if let Some(unreadable) = self.replayer.unreadable().first() {
            let what = format!("the recording is not whole: {}", unreadable.reason);
            return Some(Failure::new(Exit::Damaged, what, "", "all intact samples were shown; see 'stalltop info'"));
        }
        let what = format!("the recording is damaged at byte {}", first.bytes.start);
        let (places, lost) = (pluralize(damage.len() as u64, "place"), pluralize(lost, "sample"));
        let why = format!("{} ({places}, {lost} lost)", first.kind);
        Some(Failure::new(Exit::Damaged, what, why, "all intact samples were shown; see 'stalltop info --verify'"))
    }

    /// The ticks of the samples that have a frame summary, without decoding them.
    pub fn ticks_from_summaries(&self) -> Vec<(u64, TimelineTick)> {
        let annotations = self.annotations(1);
        let tick = |index: u64| {
            let summary = self.replayer.frame_summary(usize::try_from(index).ok()?)?;
            let worst_severity = match summary.worst_severity {
                SummarySeverity::NotEvaluated => return None,
                SummarySeverity::NoFinding => None,
                SummarySeverity::Note => Some(Severity::Note),
                SummarySeverity::Warning => Some(Severity::Warning),
                SummarySeverity::Critical => Some(Severity::Critical),
            };
            let share = |share: u8| f32::from(share) / 255.0;
            let (busy, blocked) = (share(summary.busy), share(summary.blocked));
            let (gap, mark) = annotations.before(index);
            Some((
                index,
                TimelineTick { realtime_ns: self.timestamp(index)?.realtime_ns, worst_severity, busy, blocked, gap, mark },
            ))
        };
        self.indices().filter_map(tick).collect()
    }

    /// Gaps and marks before samples from that index on.
    pub fn annotations(&self, from: u64) -> Annotations {
        let is_before = |index: u64, sequence: u64| {
            let own = usize::try_from(index).ok().and_then(|index| self.replayer.sequence(index));
            own.is_some_and(|own| own < sequence)
        };
        // Sequences ascend: the first sample that has this one, or a later one.
        let index_of = |sequence: u64| {
            let Range { start: mut low, end: mut high } = self.indices();
            while low < high {
                let middle = low.midpoint(high);
                if is_before(middle, sequence) { low = middle + 1 } else { high = middle }
            }
            (low >= from && low < self.indices().end).then_some(low)
        };
        let gaps = self.replayer.gaps().iter().filter_map(|gap| Some((index_of(gap.samples_before)?, None)));
        let marks =
            self.replayer.marks().iter().filter_map(|mark| Some((index_of(mark.samples_before)?, Some(mark.text.clone()))));
        let mut annotations: Vec<(u64, Option<String>)> = gaps.chain(marks).collect();
        annotations.small_sort_by_key(|(index, _)| *index);
        Annotations(annotations)
    }
}

/// Gaps (`None`) and marks (their text), each with the sample before which it is; in order.
pub struct Annotations(Vec<(u64, Option<String>)>);

impl Annotations {
    /// Whether there is a gap before that sample, and the first mark there.
    pub fn before(&self, index: u64) -> (bool, Option<String>) {
        let at = self.0.partition_point(|annotation| annotation.0 < index);
        let here = self.0.get(at..).unwrap_or_default().iter().take_while(|annotation| annotation.0 == index);
        here.fold((false, None), |(gap, mark), (_, text)| (gap | text.is_none(), mark.or(text.clone())))
    }
}

impl IndexedSamples for RecordingSamples {
    fn indices(&self) -> Range<u64> {
        0..self.replayer.len() as u64
    }

    fn sample(&mut self, index: u64) -> Option<Arc<Sample>> {
        self.replayer.sample(usize::try_from(index).ok()?).ok()
    }

    fn host(&self, index: u64) -> Arc<Host> {
        self.replayer.host(usize::try_from(index).unwrap_or(usize::MAX))
    }
}
