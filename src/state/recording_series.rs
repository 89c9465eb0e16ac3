//! The figures of graphs over a whole recording: minimum, mean and maximum of each figure by span of time.
//!
//! All spans have one length. It doubles when they would need more than `MAX_BYTES`, so that a recording of any length fits; a
//! short peak stays in the maximum. The intervals come from the background analysis, which reads the recording once.

use std::ops::Range;

use super::history::{GraphFigure, IntervalSummary};

/// Minimum, time-weighted mean and maximum of a figure over some intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueRange {
    pub min: f32,
    pub mean: f32,
    pub max: f32,
}

/// Value ranges while they are summed up. Without seconds there is no value.
#[derive(Clone, Copy, Debug)]
pub struct ValueRangeSum {
    min: f32,
    max: f32,
    /// Value × seconds
    sum: f32,
    seconds: f32,
}

impl Default for ValueRangeSum {
    fn default() -> ValueRangeSum {
        ValueRangeSum { min: f32::INFINITY, max: f32::NEG_INFINITY, sum: 0.0, seconds: 0.0 }
    }
}

impl ValueRangeSum {
    pub fn add(&mut self, value: f32, seconds: f32) {
        // An interval without a length still has a value.
        let seconds = seconds.max(1e-3);
        self.merge(ValueRangeSum { min: value, max: value, sum: value * seconds, seconds });
    }

    /// Without branches: a frame merges a hundred thousand spans of a day.
    pub fn merge(&mut self, other: ValueRangeSum) {
        self.min = if other.min < self.min { other.min } else { self.min };
        self.max = if other.max > self.max { other.max } else { self.max };
        self.sum += other.sum;
        self.seconds += other.seconds;
    }

    pub fn value_range(self) -> Option<ValueRange> {
        (self.seconds > 0.0).then(|| ValueRange { min: self.min, mean: self.sum / self.seconds, max: self.max })
    }
}

/// The memory of all series together.
const MAX_BYTES: usize = 16 << 20;

/// Spans of a series: at most so many for any number of figures, and at least so many for any length.
const MAX_SPANS: usize = 16_384;
const MIN_SPANS: usize = 512;

/// Figures beyond this number are not kept: 512 spans of so many fit.
const MAX_FIGURES: usize = MAX_BYTES / size_of::<ValueRangeSum>() / MIN_SPANS;

/// Figures of which there may be any number: more would shorten the others. The graphs of those that are not kept show the
/// intervals near the displayed one.
const MAX_UNBOUNDED_FIGURES: usize = 48;

/// The series of a recording, from its first interval on.
#[derive(Clone, Debug, Default)]
pub struct RecordingSeries {
    /// Begin of the first span, in nanoseconds since the Unix epoch
    origin_ns: i64,
    /// Length of a span
    span_ns: i64,
    /// Sorted by figure; spans behind the last known one are missing
    series: Vec<(GraphFigure, Vec<ValueRangeSum>)>,
    /// Spans so far
    len: usize,
    /// How many of the figures are unbounded ones
    unbounded_figures: usize,
}

impl RecordingSeries {
    /// Adds an interval of the recording.
    pub fn add(&mut self, summary: &IntervalSummary) {
        let end = summary.at.realtime_ns;
        let length = ((f64::from(summary.seconds) * 1e9) as i64).max(1_000_000);
        if self.span_ns == 0 {
            (self.origin_ns, self.span_ns) = (end.saturating_sub(length), length);
        }
        // The clock may have been set back.
        let origin_ns = self.origin_ns;
        let offset = |ns: i64| ns.saturating_sub(origin_ns).max(0);
        let (mut from, mut until) = (offset(end.saturating_sub(length)), offset(end));
        while until / self.span_ns >= i64::try_from(self.capacity(summary)).unwrap_or(i64::MAX) {
            self.double_span();
        }
        // The spans whose middle is in the interval, so that jitter leaves no hole.
        let half = self.span_ns / 2;
        from = from.saturating_add(half) / self.span_ns;
        until = until.saturating_add(half) / self.span_ns;
        if from >= until {
            from = offset(end.saturating_sub(1)) / self.span_ns;
            until = from.saturating_add(1);
        }
        let spans = usize::try_from(from).unwrap_or(0)..usize::try_from(until).unwrap_or(0);
        self.len = self.len.max(spans.end);
        summary.each_graph_figure(|figure, value| self.add_value(figure, value, summary.seconds, spans.clone()));
    }

    fn add_value(&mut self, figure: GraphFigure, value: f32, seconds: f32, spans: Range<usize>) {
        let place = match self.series.binary_search_by(|known| known.0.cmp(&figure)) {
            Ok(place) => place,
            Err(_) if self.series.len() >= MAX_FIGURES => return,
            Err(_) if figure.is_unbounded() && self.unbounded_figures >= MAX_UNBOUNDED_FIGURES => return,
            Err(place) => {
                self.unbounded_figures += usize::from(figure.is_unbounded());
                self.series.insert(place, (figure, Vec::new()));
                place
            }
        };
        let Some((_, sums)) = self.series.get_mut(place) else { return };
        if sums.len() < spans.end {
            sums.resize(spans.end, ValueRangeSum::default());
        }
        let share = seconds / spans.len().max(1) as f32;
        sums.get_mut(spans).into_iter().flatten().for_each(|sum| sum.add(value, share));
    }

    /// Spans that fit into the memory when this summary has been added.
    fn capacity(&self, summary: &IntervalSummary) -> usize {
        let figures = self.series.len().max(summary.graph_figure_count()).max(1);
        (MAX_BYTES / size_of::<ValueRangeSum>() / figures).clamp(MIN_SPANS, MAX_SPANS)
    }

    fn double_span(&mut self) {
        for (_, sums) in &mut self.series {
            for pair in 0..sums.len().div_ceil(2) {
                let mut merged = sums.get(pair * 2).copied().unwrap_or_default();
                merged.merge(sums.get(pair * 2 + 1).copied().unwrap_or_default());
                if let Some(sum) = sums.get_mut(pair) {
                    *sum = merged;
                }
            }
            sums.truncate(sums.len().div_ceil(2));
        }
        self.len = self.len.div_ceil(2);
        self.span_ns = self.span_ns.saturating_mul(2);
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length of a span in nanoseconds.
    pub fn span_ns(&self) -> i64 {
        self.span_ns
    }

    /// The spans of a column: those whose middle is in it; of a column that is shorter than a span, the one with its middle.
    pub fn spans(&self, from_ns: i64, until_ns: i64) -> Range<usize> {
        if self.span_ns == 0 {
            return 0..0;
        }
        let offset = |ns: i64| ns.saturating_sub(self.origin_ns);
        let half = self.span_ns / 2;
        let first = offset(from_ns).saturating_add(half).div_euclid(self.span_ns);
        let end = offset(until_ns).saturating_add(half).div_euclid(self.span_ns);
        let (first, end) = if first < end {
            (first, end)
        } else {
            let middle = offset(from_ns.midpoint(until_ns)).div_euclid(self.span_ns);
            (middle, middle.saturating_add(1))
        };
        let index = |number: i64| usize::try_from(number.max(0)).unwrap_or(0).min(self.len);
        index(first)..index(end)
    }

    /// The spans of a figure that is known.
    pub fn figure(&self, figure: &GraphFigure) -> Option<&[ValueRangeSum]> {
        let place = self.series.binary_search_by(|known| known.0.cmp(figure)).ok()?;
        self.series.get(place).map(|(_, sums)| sums.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CpuId;

    const CPU: GraphFigure = GraphFigure::CpuBusy(CpuId(0));

    fn summary(second: i64, jitter_ms: i64, busy: f32) -> IntervalSummary {
        IntervalSummary::of_second(second * 1_000_000_000 + jitter_ms * 1_000_000, busy)
    }

    /// A day with one busy second: it is the maximum of its column at any zoom.
    #[test]
    fn a_peak_of_one_second_is_visible_at_any_zoom() {
        let mut series = RecordingSeries::default();
        for second in 1..=86_400 {
            series.add(&summary(second, [0, -200, 90, 200][second as usize % 4], if second == 40_000 { 1.0 } else { 0.01 }));
        }
        let mut bytes = 0;
        summary(1, 0, 0.0).each_graph_figure(|figure, _| bytes += series.figure(&figure).map_or(0, size_of_val));
        assert!(series.figure(&CPU).unwrap().len() <= MAX_SPANS && (1..=MAX_BYTES).contains(&bytes));
        for column_ns in [1_000_000_000_i64, 60_000_000_000, 900_000_000_000] {
            let mut peaks = 0;
            for column in 0..86_400_000_000_000 / column_ns {
                let spans = series.spans(column * column_ns, (column + 1) * column_ns);
                let mut sum = ValueRangeSum::default();
                series.figure(&CPU).unwrap()[spans].iter().for_each(|&other| sum.merge(other));
                let range = sum.value_range().unwrap();
                peaks += i32::from(range.max > 0.9);
                assert!((0.0..=0.011).contains(&range.min), "{range:?}");
            }
            assert!(peaks >= 1, "columns of {column_ns} ns");
        }
    }

    #[test]
    fn jitter_leaves_no_hole_and_missing_intervals_leave_one() {
        let mut series = RecordingSeries::default();
        for second in (1..=20).filter(|second| !(8..=12).contains(second)) {
            series.add(&summary(second, [0, -240, 240, -240, 240][second as usize % 5], 0.5));
        }
        let gaps = series.figure(&CPU).unwrap().iter().filter(|sum| sum.value_range().is_none()).count();
        assert!((4..=5).contains(&gaps), "{gaps}");
    }
}
