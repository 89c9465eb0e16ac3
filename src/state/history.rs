//! Summaries of past intervals, for graphs and the timeline.
//!
//! Values come from the catalogue of columns and from `interval`.

mod summary;

use std::collections::VecDeque;

use crate::sample::Instant;
pub use summary::{
    CgroupShare, CpuTime, FollowedTask, GraphFigure, IntervalSummary, LATENCY_CLASSES, MemoryShare, StalledOn, TaskPoint,
    ThreadState, thread_states,
};

/// Summaries of intervals, sorted by time.
#[derive(Clone, Debug)]
pub struct History {
    summaries: VecDeque<IntervalSummary>,
    /// The time of the first interval, which is in the first column of every window
    window_origin_ns: Option<u64>,
    /// Summaries that are kept
    capacity: usize,
}

/// Ten minutes at one interval per second.
pub const MAX_INTERVALS: usize = 600;

/// Columns of a graph on a page at most: two minutes at one interval per second.
pub const MAX_PAGE_COLUMNS: u16 = 121;

impl Default for History {
    fn default() -> History {
        History { summaries: VecDeque::new(), window_origin_ns: None, capacity: MAX_INTERVALS }
    }
}

impl History {
    /// Of a recording, in which the displayed time moves: whatever else is known, the `MAX_INTERVALS` intervals before and after the
    /// last inserted one are kept.
    pub fn for_recording() -> History {
        History { capacity: 2 * MAX_INTERVALS, ..History::default() }
    }

    /// Inserts a summary by its time; replaces one of the same time.
    pub fn insert(&mut self, summary: IntervalSummary) {
        let at = summary.at.boottime_ns;
        self.window_origin_ns.get_or_insert(at);
        let place = self.summaries.partition_point(|known| known.at.boottime_ns < at);
        match self.summaries.get_mut(place) {
            Some(known) if known.at.boottime_ns == at => *known = summary,
            _ => self.summaries.insert(place, summary),
        }
        if self.summaries.len() > self.capacity {
            // Drops the end that is farther from the new summary.
            if place * 2 >= self.summaries.len() {
                self.summaries.pop_front()
            } else {
                self.summaries.pop_back()
            };
        }
    }

    /// The largest value of a figure.
    pub fn peak(&self, figure: &GraphFigure) -> Option<f32> {
        self.summaries.iter().filter_map(|summary| summary.figure(figure)).max_by(f32::total_cmp)
    }

    /// Adds the figures of a process or thread to the summary of the same interval.
    pub fn add_task(&mut self, point: TaskPoint) {
        let place = self.summaries.partition_point(|known| known.at.boottime_ns < point.at.boottime_ns);
        if let Some(known) = self.summaries.get_mut(place).filter(|known| known.at == point.at) {
            known.add_task(point);
        }
    }

    /// Whether some interval does not tell what the task did.
    pub fn lacks_task(&self, task: FollowedTask) -> bool {
        self.summaries.iter().any(|summary| !summary.knows(task))
    }

    /// Removes all summaries, for another recording or boot.
    pub fn clear(&mut self) {
        *self = History { capacity: self.capacity, ..History::default() };
    }

    pub fn len(&self) -> usize {
        self.summaries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.summaries.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &IntervalSummary> + ExactSizeIterator {
        self.summaries.iter()
    }

    /// By index, in the order of time.
    pub fn get(&self, index: usize) -> Option<&IntervalSummary> {
        self.summaries.get(index)
    }

    /// Those of a range of indices; the range is cut at the end.
    pub fn range(&self, range: std::ops::Range<usize>) -> impl DoubleEndedIterator<Item = &IntervalSummary> {
        let end = range.end.min(self.summaries.len());
        self.summaries.range(range.start.min(end)..end)
    }

    /// Those that end at or before `at`, with their index.
    pub fn until(&self, at: Instant) -> impl DoubleEndedIterator<Item = (usize, &IntervalSummary)> + ExactSizeIterator {
        let end = self.summaries.partition_point(|summary| summary.at.boottime_ns <= at.boottime_ns);
        self.summaries.range(..end).enumerate()
    }

    /// The time of the first interval: in every window it is in the first column.
    pub(super) fn window_origin_ns(&self) -> Option<u64> {
        self.window_origin_ns
    }

    /// The last `count` cells of a graph that ends at `at`, oldest first; `None` marks missing intervals.
    pub fn graph_cells(&self, at: Instant, count: usize) -> Vec<Option<&IntervalSummary>> {
        let mut cells = Vec::with_capacity(count);
        let end = self.summaries.partition_point(|summary| summary.at.boottime_ns <= at.boottime_ns);
        let mut expected: Option<(u64, f32)> = None;
        for summary in self.summaries.range(..end).rev() {
            if cells.len() >= count {
                break;
            }
            if let Some((newer_ns, seconds)) = expected {
                let apart = newer_ns.saturating_sub(summary.at.boottime_ns) as f32 / 1e9;
                if apart > seconds * 1.5 + 0.05 {
                    cells.push(None);
                }
            }
            expected = Some((summary.at.boottime_ns, summary.seconds));
            cells.push(Some(summary));
        }
        cells.truncate(count);
        cells.reverse();
        cells
    }
}
