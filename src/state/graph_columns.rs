//! What graphs over time show: the time of each column, and the minimum, mean and maximum of a figure in it.
//!
//! While the newest interval is displayed, graphs do not scroll: each time has its column, and a new interval overwrites the
//! oldest one, so that two columns change with an interval, whatever the width. While few intervals are known, each has several
//! columns, so that the graph is not blank for its first minutes. In a replay, and while a live screen is paused, all graphs show the
//! same window of time (`graph_window`), and mark the column of the displayed interval.

use std::ops::Range;

use super::history::{CpuTime, GraphFigure, History, IntervalSummary};
use super::recording_series::{RecordingSeries, ValueRange, ValueRangeSum};
use super::timeline::TimelineTick;
use super::{GraphWindow, State};
use crate::sample::Instant;

/// The columns of a graph.
pub struct GraphColumns<'a> {
    history: &'a History,
    recording: &'a RecordingSeries,
    ticks: &'a [TimelineTick],
    columns: Vec<Column>,
    /// `None`: the last intervals
    pub window: Option<GraphWindow>,
    /// The time of a column
    pub step_ns: i64,
    /// The column of the displayed interval, where it is not the newest
    pub cursor: Option<u16>,
    /// Whether a column may show several intervals
    pub has_peaks: bool,
}

/// The window of a graph, and the column of the displayed interval in it; both `None` while the graph shows the last intervals.
#[derive(Clone, Copy, Debug)]
pub struct TimeAxis {
    pub window: Option<GraphWindow>,
    pub cursor: Option<u16>,
}

/// The time of a column, and the summaries in it.
#[derive(Clone, Debug, Default)]
struct Column {
    from_ns: i64,
    until_ns: i64,
    summaries: Range<usize>,
}

impl State {
    /// The columns of a graph of this width.
    pub fn graph_columns(&self, width: u16) -> GraphColumns<'_> {
        self.columns_of(self.graph_window(), self.shown_at(), width)
    }

    /// The same for the page of an item, whose figures are only known near the displayed interval, or near the end of a finding.
    pub fn page_columns(&self, width: u16) -> GraphColumns<'_> {
        self.columns_of(self.page_window(), self.page_time(), width)
    }

    /// The columns of a graph of one figure on a page: as on the screens, if the figure is known over the whole window.
    pub fn figure_columns(&self, figure: &GraphFigure, width: u16) -> GraphColumns<'_> {
        let is_known = self.graphs.recording_series.figure(figure).is_some();
        if is_known { self.graph_columns(width) } else { self.page_columns(width) }
    }

    /// The columns of this window; without one those of the last intervals before `at`.
    fn columns_of(&self, window: Option<GraphWindow>, at: Option<Instant>, width: u16) -> GraphColumns<'_> {
        let interval_ns = i64::try_from(self.setup.interval_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let (columns, cursor, step_ns) = match window {
            Some(window) => {
                let edge = |column: u16| window.edge_ns(width, column);
                let column = |at: u16| {
                    let (from_ns, until_ns) = (edge(at), edge(at + 1));
                    Column { from_ns, until_ns, summaries: self.graphs.history.between(from_ns, until_ns) }
                };
                ((0..width).map(column).collect(), window.cursor_column(width), window.length_ns() / i64::from(width.max(1)))
            }
            None => {
                let step = self.column_step_ns(width, at);
                let interval_ns = self.setup.interval_ms.saturating_mul(1_000_000);
                let window =
                    at.map(|at| window_columns(&self.graphs.history, at, step, width, interval_ns)).unwrap_or_default();
                let column = |summaries| Column { summaries, ..Column::default() };
                (window.into_iter().map(column).collect(), None, i64::try_from(step).unwrap_or(i64::MAX))
            }
        };
        GraphColumns {
            history: &self.graphs.history,
            recording: &self.graphs.recording_series,
            ticks: &self.timeline.ticks,
            columns,
            window,
            step_ns,
            cursor,
            has_peaks: step_ns > interval_ns.saturating_mul(3) / 2,
        }
    }

    /// The time of a column of a graph that does not scroll: `GraphData::length_ns` fills it. Without a length an interval has one column,
    /// or 8, 4 or 2 as long as all known ones fit.
    fn column_step_ns(&self, width: u16, at: Option<Instant>) -> u64 {
        let interval = self.setup.interval_ms.max(1).saturating_mul(1_000_000);
        let width = u64::from(width.saturating_sub(1).max(1));
        if let Some(length) = self.graphs.length_ns.and_then(|length| u64::try_from(length).ok()) {
            return (length / width).max(1);
        }
        let origin = self.graphs.history.window_origin_ns();
        let after = at.zip(origin).map_or(0, |(at, origin)| at.boottime_ns.saturating_sub(origin));
        let known = after.saturating_add(interval / 2) / interval + 1;
        let columns = [8, 4, 2].into_iter().find(|&columns| known.saturating_mul(columns) <= width);
        interval / columns.unwrap_or(1)
    }
}

impl GraphColumns<'_> {
    /// Minimum, mean and maximum of a figure in each column; `None` without a value.
    pub fn value_ranges(&self, figure: &GraphFigure) -> Vec<Option<ValueRange>> {
        let series = self.recording.figure(figure);
        self.columns.iter().map(|column| self.value_range(column, figure, series)).collect()
    }

    /// The maximum of a figure in each column.
    pub fn maxima(&self, figure: &GraphFigure) -> Vec<Option<f32>> {
        self.value_ranges(figure).into_iter().map(|range| range.map(|range| range.max)).collect()
    }

    /// Minimum, mean and maximum of a figure in each column, as graphs take them.
    pub fn ranges(&self, figure: &GraphFigure) -> Vec<Option<[f32; 3]>> {
        let heights = |range: ValueRange| [range.min, range.mean, range.max];
        self.value_ranges(figure).into_iter().map(|range| range.map(heights)).collect()
    }

    /// Mean and maximum of a figure in each column.
    pub fn means_and_maxima(&self, figure: &GraphFigure) -> Vec<Option<(f32, f32)>> {
        self.value_ranges(figure).into_iter().map(|range| range.map(|range| (range.mean, range.max))).collect()
    }

    /// Values known only near the displayed interval: in each column that of highest `weight`.
    pub fn nearby<T>(&self, value: impl Fn(&IntervalSummary) -> Option<T>, weight: impl Fn(&T) -> f32) -> Vec<Option<T>> {
        let heaviest = |column: &Column| {
            let values = self.history.range(column.summaries.clone()).filter_map(&value);
            values.max_by(|a, b| weight(a).total_cmp(&weight(b)))
        };
        self.columns.iter().map(heaviest).collect()
    }

    pub fn axis(&self) -> TimeAxis {
        TimeAxis { window: self.window, cursor: self.cursor }
    }

    /// Number of columns.
    pub fn width(&self) -> u16 {
        u16::try_from(self.columns.len()).unwrap_or(u16::MAX)
    }

    fn value_range(&self, column: &Column, figure: &GraphFigure, series: Option<&[ValueRangeSum]>) -> Option<ValueRange> {
        let mut sum = ValueRangeSum::default();
        let summaries = self.history.range(column.summaries.clone());
        let is_wide = column.until_ns.saturating_sub(column.from_ns) >= self.recording.span_ns();
        if let Some(series) = series.filter(|_| is_wide || column.summaries.is_empty()) {
            let spans = self.recording.spans(column.from_ns, column.until_ns);
            let spans = spans.start.min(series.len())..spans.end.min(series.len());
            series.get(spans).into_iter().flatten().for_each(|&other| sum.merge(other));
        }
        if sum.value_range().is_none() {
            for summary in summaries {
                if let Some(value) = summary.figure(figure) {
                    sum.add(value, summary.seconds);
                }
            }
        }
        sum.value_range().or_else(|| match figure {
            GraphFigure::CpuTime(time) => self.tick_range(column, *time),
            _ => None,
        })
    }

    /// The same from the ticks of the timeline, which are known before the recording has been evaluated.
    fn tick_range(&self, column: &Column, time: CpuTime) -> Option<ValueRange> {
        let mut sum = ValueRangeSum::default();
        for tick in self.ticks.get(between(self.ticks.len(), column, |at| self.tick_times(at)))? {
            sum.add(tick_share(tick, time), 1.0);
        }
        sum.value_range()
    }

    /// Begin and end of an interval on the timeline.
    fn tick_times(&self, at: usize) -> (i64, i64) {
        const LONGEST_NS: i64 = 2_000_000_000;
        let end = self.ticks.get(at).map_or(0, |tick| tick.realtime_ns);
        let before = at.checked_sub(1).and_then(|before| self.ticks.get(before)).filter(|_| !self.has_gap(at));
        (before.map_or(end.saturating_sub(LONGEST_NS), |before| before.realtime_ns), end)
    }

    fn has_gap(&self, at: usize) -> bool {
        self.ticks.get(at).is_some_and(|tick| tick.gap)
    }
}

fn tick_share(tick: &TimelineTick, time: CpuTime) -> f32 {
    match time {
        CpuTime::User | CpuTime::Busy => tick.busy,
        CpuTime::System | CpuTime::Irq | CpuTime::Steal => 0.0,
        CpuTime::Blocked => tick.blocked,
        CpuTime::Free => (1.0 - tick.busy - tick.blocked).max(0.0),
        CpuTime::NotFree => (tick.busy + tick.blocked).min(1.0),
    }
}

/// The intervals of a column among `count` of them in the order of time: those that end in it; of a column shorter than an
/// interval, the one that contains its middle. `times`: begin and end of an interval.
fn between(count: usize, column: &Column, times: impl Fn(usize) -> (i64, i64)) -> Range<usize> {
    let first_after = |ns: i64| {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            if times(middle).1 <= ns { low = middle + 1 } else { high = middle }
        }
        low
    };
    let (first, end) = (first_after(column.from_ns), first_after(column.until_ns));
    if first < end {
        return first..end;
    }
    let middle = column.from_ns.midpoint(column.until_ns);
    let at = first_after(middle.saturating_sub(1));
    let contains = at < count && times(at).0 < middle;
    at..at + usize::from(contains)
}

impl History {
    /// The summaries of a column with these edges, in nanoseconds since the Unix epoch.
    fn between(&self, from_ns: i64, until_ns: i64) -> Range<usize> {
        let times = |at: usize| {
            self.get(at).map_or((0, 0), |summary| {
                let end = summary.at.realtime_ns;
                (end.saturating_sub((f64::from(summary.seconds) * 1e9) as i64), end)
            })
        };
        between(self.len(), &Column { from_ns, until_ns, summaries: 0..0 }, times)
    }
}

/// The summaries of each column of a graph that does not scroll; the column after the newest is blank. A sample that is early or late
/// by less than half an interval keeps its column: the first one, which is often late, must not leave a blank column behind it.
fn window_columns(history: &History, at: Instant, step_ns: u64, count: u16, interval_ns: u64) -> Vec<Range<usize>> {
    let mut columns = vec![0..0; usize::from(count)];
    let (Some(origin), Some(width)) = (history.window_origin_ns(), u64::from(count).checked_sub(1).filter(|&width| width > 0))
    else {
        return columns;
    };
    let step = step_ns.max(1);
    // The first interval begins in the first column.
    let lead = i128::from(interval_ns.saturating_sub(step)) + i128::from((interval_ns / 2).min(step / 2));
    let slot = |ns: i128| (ns - i128::from(origin) + lead).div_euclid(i128::from(step));
    let oldest = slot(i128::from(at.boottime_ns)) - i128::from(width) + 1;
    let mut next = i128::MAX;
    for (index, summary) in history.until(at).rev() {
        // An interval that is longer than a column fills several.
        let end = i128::from(summary.at.boottime_ns);
        let last = slot(end);
        let first = slot(end - (f64::from(summary.seconds) * 1e9) as i128) + 1;
        // A first interval that is too long does not reach into the last columns.
        let first = first.max(if last >= 0 { oldest.max(0) } else { oldest }).min(last);
        if last < oldest {
            break;
        }
        for number in first..=last {
            let column = usize::try_from(number.rem_euclid(i128::from(count))).unwrap_or(0);
            let Some(cell) = columns.get_mut(column) else { continue };
            if number < next {
                *cell = index..index + 1;
            } else if number == last {
                // An earlier interval of the same column.
                cell.start = index;
            }
        }
        next = next.min(first);
    }
    columns
}

#[cfg(test)]
mod tests {
    use crate::state::{Event, Key, Source, State, update};
    use crate::synthetic::{evaluation, instant, sample_at, screen};

    /// A live screen with intervals that end at these milliseconds; the first one begins at 0. `displayed` is called after each.
    fn display(ends_ms: impl IntoIterator<Item = u32>, mut displayed: impl FnMut(&State)) -> State {
        let mut state = screen((80, 24), Source::Live);
        let at = |ms: u32| sample_at(instant(f64::from(ms) / 1000.0, 0));
        let mut before_ms = 0;
        for end_ms in ends_ms {
            update(&mut state, Event::Evaluation(evaluation(at(before_ms), at(end_ms))));
            displayed(&state);
            before_ms = end_ms;
        }
        state
    }

    /// The seconds, rounded, at which the first and the last interval of each column end.
    fn seconds(state: &State, width: u16) -> Vec<Option<(u64, u64)>> {
        let columns = state.graph_columns(width);
        let second = |weight: fn(&u64) -> f32| {
            columns.nearby(|summary| Some((summary.at.boottime_ns + 500_000_000) / 1_000_000_000), weight)
        };
        let (first, last) = (second(|&at| -(at as f32)), second(|&at| at as f32));
        first.into_iter().zip(last).map(|(first, last)| first.zip(last)).collect()
    }

    /// The last of them.
    fn digits(state: &State, width: u16) -> String {
        let digit = |column: Option<(u64, u64)>| column.map_or_else(|| "-".to_owned(), |(_, last)| last.to_string());
        seconds(state, width).into_iter().map(digit).collect()
    }

    /// What a graph of this width shows after each interval.
    fn frames(ends_ms: impl IntoIterator<Item = u32>, width: u16) -> Vec<String> {
        let mut frames = Vec::new();
        display(ends_ms, |state| frames.push(digits(state, width)));
        frames
    }

    fn press(state: &mut State, keys: &str) {
        keys.chars().for_each(|key| drop(update(state, Event::Key(Key::Char(key)))));
    }

    #[test]
    fn a_new_interval_overwrites_the_oldest_column() {
        let expected = ["1111-", "1122-", "123--", "1234-", "-2345", "6-345", "67-45"];
        assert_eq!(frames((1..=7).map(|second| second * 1000), 5), expected);
    }

    #[test]
    fn few_intervals_have_several_columns_each() {
        // Samples are early and late.
        let ends_ms = [1150, 2000, 2970, 4040, 5100, 6000, 7000, 8000, 9000];
        let expected = [
            "11111111-----",
            "1111222------",
            "11112223333--",
            "11223344-----",
            "1122334455---",
            "112233445566-",
            "1234567------",
            "12345678-----",
            "123456789----",
        ];
        assert_eq!(frames(ends_ms, 13), expected);
    }

    #[test]
    fn samples_that_are_early_and_late_leave_no_blank_column() {
        let frames = frames([1120, 2000, 3200, 4010, 4990], 7);
        assert_eq!(frames.last().map(String::as_str), Some("12345--"));
    }

    #[test]
    fn a_column_has_all_intervals_that_end_in_it() {
        let mut state = display((1..=12).map(|second| second * 1000), |_| ());
        // 30 seconds in three columns, after which one is blank.
        press(&mut state, "<");
        assert_eq!(seconds(&state, 4), [Some((1, 10)), Some((11, 12)), None, None]);
        press(&mut state, "> ");
        // Paused: the half-minute around them, and a second before.
        assert_eq!(seconds(&state, 10)[..6], [Some((1, 2)), Some((3, 5)), Some((6, 8)), Some((9, 11)), Some((12, 12)), None]);
        assert_eq!(digits(&state, 62)[..10], *"--11223344", "a column that is shorter than an interval");
    }
}
