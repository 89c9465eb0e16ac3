//! The intervals that graphs need one by one: of a replay, those of the stretch of time that is displayed, where it is short.

use std::ops::Range;
use std::time::Instant;

use super::Timeline;
use super::checkpoints::{Cursor, IndexedSamples};
use super::file_input::FileInput;
use super::store::Store;
use crate::sample::Host;
use crate::state::Event;
use crate::state::history::{IntervalSummary, MAX_INTERVALS};

/// The intervals whose figures the screen has, by the sample that ends each.
#[derive(Debug)]
pub struct KnownIntervals {
    /// Sorted, with gaps between them
    ranges: Vec<Range<u64>>,
    /// The screen keeps at least so many before and after the last one it was given.
    reach: u64,
}

impl KnownIntervals {
    pub fn new(reach: usize) -> KnownIntervals {
        KnownIntervals { ranges: Vec::new(), reach: reach as u64 }
    }

    /// The screen was given these, the last one last.
    pub fn add(&mut self, added: Range<u64>) {
        if added.is_empty() {
            return;
        }
        let kept = added.end.saturating_sub(self.reach)..added.start.saturating_add(self.reach);
        let mut merged = added.start.max(kept.start)..added.end;
        self.ranges.retain_mut(|range| {
            *range = range.start.max(kept.start)..range.end.min(kept.end);
            let touches = range.start <= merged.end && merged.start <= range.end;
            if touches && !range.is_empty() {
                merged = range.start.min(merged.start)..range.end.max(merged.end);
            }
            !touches && !range.is_empty()
        });
        let place = self.ranges.partition_point(|range| range.start < merged.start);
        self.ranges.insert(place, merged);
    }

    pub fn contain(&self, wanted: Range<u64>) -> bool {
        self.first_missing(wanted).is_none()
    }

    /// The first of these that the screen does not have, and those after it up to a known one.
    pub fn first_missing(&self, wanted: Range<u64>) -> Option<Range<u64>> {
        let (mut start, mut end) = (wanted.start, wanted.end);
        for range in &self.ranges {
            if range.contains(&start) {
                start = range.end;
            } else if range.start > start {
                end = end.min(range.start);
            }
        }
        (start < end).then_some(start..end)
    }
}

/// The displayed stretch, and how far its intervals have been evaluated.
#[derive(Default)]
pub struct GraphIntervals {
    stretch: Option<Range<i64>>,
    /// The intervals of the stretch
    wanted: Range<u64>,
    /// Behind the last one that was evaluated
    cursor: Option<Cursor>,
}

impl GraphIntervals {
    /// The intervals of the stretch, by the sample that ends each.
    pub fn wanted(&self) -> Range<u64> {
        self.wanted.clone()
    }
}

impl Timeline {
    /// The screen shows this stretch of time, as begin and end in nanoseconds since the Unix epoch, interval by interval.
    pub fn show_stretch(&mut self, stretch: Option<Range<i64>>) {
        if self.graph_intervals.stretch == stretch {
            return;
        }
        let wanted = match (&stretch, &self.store) {
            (Some(stretch), Store::File(FileInput { samples, .. })) => {
                let indices = samples.indices();
                let first = (samples.index_at_time(stretch.start) + 1).max(indices.start + 1);
                let end = (samples.index_at_time(stretch.end) + 1).min(indices.end);
                first..end.min(first + MAX_INTERVALS as u64)
            }
            _ => 0..0,
        };
        self.graph_intervals = GraphIntervals { stretch, wanted, cursor: self.graph_intervals.cursor.take() };
    }

    /// Called before another interval is displayed: the screen forgets those of another boot.
    pub(super) fn forget_other_boot(&mut self, to: u64) {
        let shown = self.shown_index().map(|index| self.store.host(index));
        if shown.is_some_and(|shown| !shown.is_same_boot(&self.store.host(to))) {
            self.known_intervals.ranges.clear();
        }
    }

    /// Whether intervals of the stretch are still to be evaluated.
    pub(super) fn has_graph_intervals_to_add(&self) -> bool {
        !self.known_intervals.contain(self.graph_intervals.wanted.clone())
    }

    /// Evaluates the missing intervals of the stretch.
    pub(super) fn add_graph_intervals(&mut self, until: Instant) -> Vec<Event> {
        let Some(missing) = self.known_intervals.first_missing(self.graph_intervals.wanted.clone()) else { return Vec::new() };
        // With a cursor of its own: the next step of the user continues at the displayed interval.
        self.evaluation.exchange_cursor(&mut self.graph_intervals.cursor);
        let (mut next, mut summaries) = (missing.start, Vec::new());
        let shown = self.shown_index().map(|index| self.store.host(index));
        while next < missing.end && self.evaluation.advance_to(&mut self.store, next, until) {
            let evaluation = self.evaluation.evaluation_at(&mut self.store, next);
            // The screen keeps the intervals of one boot.
            let is_kept = |host: &Host| shown.as_ref().is_some_and(|shown| shown.is_same_boot(host));
            let kept = evaluation.as_ref().filter(|evaluation| is_kept(&evaluation.interval.host));
            summaries.extend(kept.map(|kept| IntervalSummary::from_evaluation(kept, self.task_past.task)));
            next += 1;
        }
        self.evaluation.exchange_cursor(&mut self.graph_intervals.cursor);
        self.known_intervals.add(missing.start..next);
        if summaries.is_empty() { Vec::new() } else { vec![Event::GraphIntervals(summaries)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_intervals_are_evaluated() {
        let mut known = KnownIntervals::new(600);
        assert_eq!(known.first_missing(100..700), Some(100..700));
        known.add(300..360);
        assert_eq!(known.first_missing(100..700), Some(100..300));
        known.add(100..300);
        assert_eq!(known.first_missing(100..700), Some(360..700));
        known.add(500..501);
        assert_eq!(known.first_missing(100..700), Some(360..500));
        known.add(360..500);
        known.add(501..700);
        assert!(known.contain(100..700) && known.contain(350..350));
    }

    #[test]
    fn what_the_screen_no_longer_keeps_is_missing() {
        let mut known = KnownIntervals::new(600);
        known.add(100..700);
        known.add(1000..1001);
        assert_eq!(known.first_missing(100..700), Some(100..401));
        assert!(known.contain(401..700) && known.contain(1000..1001));
        known.add(5000..5060);
        assert_eq!(known.first_missing(401..700), Some(401..700));
    }
}
