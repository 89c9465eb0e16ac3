//! The figures of past intervals that graphs show, and the length of time that they show.

use super::history::{GraphFigure, History};
use super::recording_series::RecordingSeries;
use super::source::Source;

/// The figures of past intervals.
#[derive(Clone, Debug)]
pub struct GraphData {
    pub history: History,
    /// Replay: over the recording, as far as it has been evaluated
    pub recording_series: RecordingSeries,
    /// Length of the graphs in nanoseconds; `None`: the recording, the intervals in memory, or what `column_step_ns` says
    pub(super) length_ns: Option<i64>,
}

impl GraphData {
    pub(super) fn new(source: &Source) -> GraphData {
        let history = match source {
            Source::Replay { .. } => History::for_recording(),
            Source::Live | Source::Pipe { .. } | Source::Host { .. } => History::default(),
        };
        GraphData { history, recording_series: RecordingSeries::default(), length_ns: None }
    }

    /// The largest value of a figure: of the recording, as far as it has been evaluated, or of the last minutes of a live session.
    pub fn peak(&self, figure: &GraphFigure) -> Option<f32> {
        let spans = self.recording_series.figure(figure).into_iter().flatten();
        let in_recording = spans.filter_map(|sum| sum.value_range()).map(|range| range.max).max_by(f32::total_cmp);
        in_recording.into_iter().chain(self.history.peak(figure)).max_by(f32::total_cmp)
    }
}
