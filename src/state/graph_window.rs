//! The window of time that all graphs show in a replay, and while a live screen is paused; and its length, which `<` and `>`
//! change.

use std::ops::Range;

use super::event::Effect;
use super::history::MAX_INTERVALS;
use super::{Item, State};
use crate::sample::Instant;

/// A span of time with the displayed interval in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphWindow {
    /// Nanoseconds since the Unix epoch
    pub start_ns: i64,
    pub end_ns: i64,
    /// End of the displayed interval
    cursor_ns: i64,
}

/// Lengths of the window in seconds: 1 s to 24 h.
const LENGTHS_S: [i64; 15] = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400];

const NS_PER_SECOND: i64 = 1_000_000_000;

impl GraphWindow {
    pub fn length_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns).max(1)
    }

    /// The time at the left edge of a column, of a graph of this width.
    pub fn edge_ns(&self, width: u16, column: u16) -> i64 {
        let offset = i128::from(self.length_ns()) * i128::from(column) / i128::from(width.max(1));
        self.start_ns.saturating_add(i64::try_from(offset).unwrap_or(i64::MAX))
    }

    /// The column of the displayed interval.
    pub fn cursor_column(&self, width: u16) -> Option<u16> {
        self.column(width, self.cursor_ns)
    }

    /// The column of a time; `None` if it is not in the window.
    pub fn column(&self, width: u16, at_ns: i64) -> Option<u16> {
        // An interval belongs to the column in which it ends.
        let offset = i128::from(at_ns.saturating_sub(1)) - i128::from(self.start_ns);
        let column = (offset * i128::from(width)).div_euclid(i128::from(self.length_ns()));
        u16::try_from(column).ok().filter(|&column| column < width)
    }
}

/// To less time, or to more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zoom {
    In,
    Out,
}

impl State {
    /// The window of the graphs; `None` while the newest interval is displayed: graphs then show the last intervals.
    pub fn graph_window(&self) -> Option<GraphWindow> {
        if self.shows_newest() {
            return None;
        }
        let cursor_ns = self.cursor_at()?.realtime_ns;
        self.window_at(cursor_ns, self.graphs.length_ns)
    }

    /// The window of the graphs on the page of an item: as long as single intervals are known.
    pub(super) fn page_window(&self) -> Option<GraphWindow> {
        let window = self.graph_window()?;
        // In memory are the last intervals only.
        let longest = if self.capabilities().follows_newest { i64::MAX } else { self.longest_page_ns() };
        let at = self.page_time().map_or(window.cursor_ns, |at| at.realtime_ns);
        if window.length_ns() <= longest && (window.start_ns..=window.end_ns).contains(&at) {
            return Some(window);
        }
        let length = self.graphs.length_ns.map_or(longest, |length| length.min(longest));
        self.window_at(at, Some(length))
    }

    fn longest_page_ns(&self) -> i64 {
        self.interval_ns().saturating_mul(i64::try_from(MAX_INTERVALS).unwrap_or(i64::MAX))
    }

    fn interval_ns(&self) -> i64 {
        i64::try_from(self.setup.interval_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
    }

    /// The time at which the graphs of an open page end or have their cursor: the displayed one, or the end of the finding.
    pub(super) fn page_time(&self) -> Option<Instant> {
        let shown = self.cursor_at()?;
        let Some(Item::Finding { kind, subject, since }) = self.details.as_ref().map(|details| &details.item) else {
            return Some(shown);
        };
        let evaluation = self.playback.current.as_ref()?;
        if evaluation.active.iter().any(|finding| finding.kind == *kind && finding.subject == *subject) {
            return Some(shown);
        }
        let mut ended = self.finding_history.ended_before(shown);
        let same = ended.find(|finding| finding.kind == *kind && finding.subject == *subject && finding.since == *since);
        same.and_then(|finding| finding.until).or(Some(shown))
    }

    /// Replay: the stretch of time of which the graphs show each interval, as begin and end in nanoseconds since the Unix epoch;
    /// `None` where each column has many.
    pub fn stretch_of_intervals(&self) -> Option<Range<i64>> {
        if self.capabilities().follows_newest {
            return None;
        }
        let window = if self.details.is_some() { self.page_window() } else { self.graph_window() }?;
        // The interval before the first sample has no length of its own.
        let is_short = window.length_ns() <= self.longest_page_ns().saturating_add(self.interval_ns().saturating_mul(2));
        is_short.then_some(window.start_ns..window.end_ns)
    }

    /// A window of this length with a time in it; `None`: all that is known.
    fn window_at(&self, at_ns: i64, length_ns: Option<i64>) -> Option<GraphWindow> {
        let cursor_ns = self.cursor_at()?.realtime_ns;
        let (first, last) = self.known_time()?;
        let (first, last) = (first.min(cursor_ns.saturating_sub(1)), last.max(cursor_ns));
        let covered = last.saturating_sub(first);
        let Some(length) = length_ns.filter(|&length| length < covered) else {
            return Some(GraphWindow { start_ns: first, end_ns: last, cursor_ns });
        };
        // Pages overlap by half, so that there is time before and after the cursor, and playing seldom turns a page.
        let half = (length / 2).max(1);
        let page = at_ns.saturating_sub(1).saturating_sub(first).div_euclid(half);
        let start_ns = first.saturating_add(page.saturating_mul(half)).saturating_sub(length / 4);
        let start_ns = start_ns.clamp(first, last.saturating_sub(length).max(first));
        Some(GraphWindow { start_ns, end_ns: start_ns.saturating_add(length), cursor_ns })
    }

    /// Begin and end of what can be displayed: the recording, or the intervals in memory.
    fn known_time(&self) -> Option<(i64, i64)> {
        let interval_ns = self.interval_ns();
        let (first, last) = match &self.timeline.position {
            Some(position) if !self.capabilities().follows_newest => (position.first.realtime_ns, position.last.realtime_ns),
            _ => {
                let (first, last) = (self.graphs.history.iter().next()?, self.graphs.history.iter().next_back()?);
                // A rounded end, so that the columns stay in place while samples arrive.
                let quantum = interval_ns.saturating_mul(30).max(1);
                let round = |ns: i64| ns.div_euclid(quantum).saturating_mul(quantum);
                (round(first.at.realtime_ns), round(last.at.realtime_ns).saturating_add(quantum))
            }
        };
        Some((first.saturating_sub(interval_ns), last))
    }

    /// The next shorter window, or the next longer one; all after the longest.
    pub(super) fn zoom_time(&mut self, zoom: Zoom) -> Effect {
        let covered = self.known_time().map_or(i64::MAX, |(first, last)| last.saturating_sub(first));
        let mut lengths = LENGTHS_S.into_iter().map(|seconds| seconds * NS_PER_SECOND).filter(|&length| length < covered);
        self.graphs.length_ns = match (self.graphs.length_ns.filter(|&length| length < covered), zoom) {
            (None, Zoom::Out) => None,
            (None, Zoom::In) => lengths.next_back(),
            (Some(length), Zoom::Out) => lengths.find(|&next| next > length),
            (Some(length), Zoom::In) => lengths.rev().find(|&next| next < length).or(Some(length)),
        };
        Effect::Redraw
    }

    pub(super) fn show_all_time(&mut self) -> Effect {
        self.graphs.length_ns = None;
        Effect::Redraw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Event, Key, Source, update};
    use crate::synthetic::{evaluation, instant, sample_at, screen};

    #[test]
    fn each_time_has_a_column() {
        let at = |second: f64| sample_at(instant(second, 0));
        let mut state = screen((80, 24), Source::Live);
        update(&mut state, Event::Evaluation(evaluation(at(11.0), at(12.0))));
        assert_eq!(state.graph_window(), None, "the last intervals");
        update(&mut state, Event::Key(Key::Char(' ')));
        // Paused: the half-minute around it, and a second before.
        let window = state.graph_window().unwrap();
        let (start_ns, end_ns) = (-NS_PER_SECOND, 30 * NS_PER_SECOND);
        assert_eq!((window.edge_ns(31, 0), window.edge_ns(31, 31)), (start_ns, end_ns));
        assert_eq!(window.cursor_column(31), Some(12));
        assert_eq!([start_ns + 1, 0, 1, end_ns].map(|at| window.column(31, at)), [Some(0), Some(0), Some(1), Some(30)]);
        assert_eq!([2 * start_ns, start_ns, end_ns + 1].map(|at| window.column(31, at)), [None; 3]);
    }
}
