//! Summaries of past intervals, for graphs and the timeline.
//!
//! Values come from the catalogue of columns; nothing is computed here.

mod summary;

use std::collections::VecDeque;

use crate::sample::Instant;
pub use summary::{DiskLoad, IntervalSummary, NetworkSummary, thread_states};

/// Summaries of at most `MAX_INTERVALS` intervals, sorted by time.
#[derive(Clone, Debug, Default)]
pub struct History {
    summaries: VecDeque<IntervalSummary>,
    /// Begin of the first column of all sweeps
    sweep_origin_ns: Option<u64>,
}

/// Ten minutes at one interval per second.
pub const MAX_INTERVALS: usize = 600;

impl History {
    /// Inserts a summary by its time; replaces one of the same time.
    pub fn insert(&mut self, summary: IntervalSummary) {
        let at = summary.at.boottime_ns;
        self.sweep_origin_ns.get_or_insert_with(|| at.saturating_sub((f64::from(summary.seconds) * 0.5e9) as u64));
        let place = self.summaries.partition_point(|known| known.at.boottime_ns < at);
        match self.summaries.get_mut(place) {
            Some(known) if known.at.boottime_ns == at => *known = summary,
            _ => self.summaries.insert(place, summary),
        }
        if self.summaries.len() > MAX_INTERVALS {
            // Drops the end that is farther from the new summary.
            if place * 2 >= self.summaries.len() {
                self.summaries.pop_front()
            } else {
                self.summaries.pop_back()
            };
        }
    }

    /// Removes all summaries, for another recording or boot.
    pub fn clear(&mut self) {
        *self = History::default();
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

    /// The columns of a graph that does not scroll: each time has its column, a new interval overwrites the oldest one, and the
    /// column after the newest is blank. So two columns change with an interval, whatever the width. `step_ns` is the time of a
    /// column.
    pub fn sweep(&self, at: Instant, step_ns: u64, count: u16) -> Vec<Option<&IntervalSummary>> {
        let mut columns = vec![None; usize::from(count)];
        let (Some(origin), Some(width)) = (self.sweep_origin_ns, u64::from(count).checked_sub(1).filter(|&width| width > 0))
        else {
            return columns;
        };
        let step = step_ns.max(1);
        let slot = |ns: u64| (i128::from(ns) - i128::from(origin)).div_euclid(i128::from(step));
        let newest = slot(at.boottime_ns);
        let oldest = newest - i128::from(width) + 1;
        let end = self.summaries.partition_point(|summary| summary.at.boottime_ns <= at.boottime_ns);
        let mut next = newest + 1;
        for summary in self.summaries.range(..end).rev() {
            // An interval that is longer than a column fills several.
            let last = slot(summary.at.boottime_ns);
            let covered = (f64::from(summary.seconds) * 1e9 / step as f64).round().max(1.0) as i128;
            let first = (last - covered + 1).max(oldest);
            for number in first..next.min(last + 1) {
                let column = usize::try_from(number.rem_euclid(i128::from(count))).unwrap_or(0);
                if let Some(cell) = columns.get_mut(column) {
                    *cell = Some(summary);
                }
            }
            next = next.min(first);
            if first <= oldest {
                break;
            }
        }
        columns
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_overwrites_its_oldest_column() {
        let mut history = History::default();
        let mut frames = Vec::new();
        for second in 1..=7_u64 {
            let at = Instant { boottime_ns: second * 1_000_000_000, ..Instant::default() };
            history.insert(IntervalSummary::empty(at));
            let columns = history.sweep(at, 1_000_000_000, 5);
            let digit = |column: &Option<&IntervalSummary>| {
                column.map_or("-".to_owned(), |summary| (summary.at.boottime_ns / 1_000_000_000).to_string())
            };
            frames.push(columns.iter().map(digit).collect::<String>());
        }
        assert_eq!(frames, ["1----", "12---", "123--", "1234-", "-2345", "6-345", "67-45"]);
    }
}
