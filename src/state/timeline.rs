//! What can be displayed, from the first interval to the last one, and where in it the displayed interval is.

use std::sync::Arc;

use super::State;
use crate::findings::{Evaluation, Severity};
use crate::sample::Instant;

/// The intervals of a recording, and the marks in it. Consecutive intervals of the same severity are one run, so that a day is drawn
/// as fast as a minute.
#[derive(Clone, Debug)]
pub struct ShownTimeline {
    /// Replay: one per interval of the recording; empty in live mode
    pub ticks: Arc<[TimelineTick]>,
    pub runs: Vec<TimelineRun>,
    /// Ends of the intervals with a mark
    pub marked_ns: Vec<i64>,
    /// All marks, sorted by time
    pub marks: Arc<[Mark]>,
    pub position: Option<Position>,
}

/// Intervals that follow each other without a gap, with the same severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineRun {
    /// End of the interval before the first one, if that is known; in nanoseconds since the Unix epoch
    pub before_ns: Option<i64>,
    /// End of the first one
    pub first_ns: i64,
    /// End of the last one
    pub end_ns: i64,
    pub worst_severity: Option<Severity>,
}

/// Position of the displayed interval among all intervals that can be displayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Index of the displayed interval, from 0
    pub index: usize,
    /// Number of intervals so far
    pub length: usize,
    pub first: Instant,
    pub last: Instant,
}

/// One interval of a recording on the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineTick {
    /// End of the interval in nanoseconds since the Unix epoch
    pub realtime_ns: i64,
    /// Severity of the worst active finding
    pub worst_severity: Option<Severity>,
    /// Shares of CPU time that were busy, and idle but blocked, 0 … 1
    pub busy: f32,
    pub blocked: f32,
    /// Samples are missing before this interval
    pub gap: bool,
    /// Text of a mark in this interval
    pub mark: Option<String>,
}

impl TimelineTick {
    /// The tick of an evaluated interval, with what lies before it: missing samples, a mark.
    pub fn new(evaluation: &Evaluation, gap: bool, mark: Option<String>) -> TimelineTick {
        let interval = &evaluation.interval;
        TimelineTick {
            realtime_ns: interval.at().realtime_ns,
            worst_severity: evaluation.active.iter().map(|finding| finding.severity).max(),
            busy: interval.cpu.as_ref().map_or(0.0, |cpu| cpu.busy() as f32),
            blocked: interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.ratio as f32),
            gap,
            mark,
        }
    }
}

/// A mark: a text that a user attached to a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Nanoseconds since the Unix epoch
    pub realtime_ns: i64,
    /// Not sanitized
    pub text: String,
}

impl Default for ShownTimeline {
    fn default() -> ShownTimeline {
        ShownTimeline { ticks: Arc::from([]), runs: Vec::new(), marked_ns: Vec::new(), marks: Arc::from([]), position: None }
    }
}

impl ShownTimeline {
    /// Replaces the intervals by those of the recording as far as it has been read.
    pub(super) fn set_ticks(&mut self, ticks: Arc<[TimelineTick]>) {
        self.runs = runs(&ticks);
        self.marked_ns = ticks.iter().filter(|tick| tick.mark.is_some()).map(|tick| tick.realtime_ns).collect();
        self.ticks = ticks;
    }

    /// The next mark after this time; after the last one the first.
    pub(super) fn next_mark(&self, after_ns: i64) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.realtime_ns > after_ns).or(self.marks.first())
    }
}

fn runs(ticks: &[TimelineTick]) -> Vec<TimelineRun> {
    let mut runs: Vec<TimelineRun> = Vec::new();
    let mut before = None;
    for tick in ticks {
        let (end_ns, worst_severity) = (tick.realtime_ns, tick.worst_severity);
        match runs.last_mut().filter(|run| !tick.gap && run.worst_severity == worst_severity && run.end_ns <= end_ns) {
            Some(run) => run.end_ns = end_ns,
            None => {
                runs.push(TimelineRun { before_ns: before.filter(|_| !tick.gap), first_ns: end_ns, end_ns, worst_severity })
            }
        }
        before = Some(end_ns);
    }
    runs
}

impl State {
    /// Whether displayed times need a date: the recording covers at least half a day.
    pub fn spans_days(&self) -> bool {
        const HALF_A_DAY_NS: i64 = 43_200_000_000_000;
        let ends = self.timeline.ticks.first().zip(self.timeline.ticks.last());
        ends.is_some_and(|(first, last)| last.realtime_ns.saturating_sub(first.realtime_ns) >= HALF_A_DAY_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_its_severity_or_at_a_gap() {
        let tick = |second: i64, worst_severity, gap| TimelineTick {
            realtime_ns: second,
            worst_severity,
            busy: 0.0,
            blocked: 0.0,
            gap,
            mark: (second == 4).then(|| "deploy".to_owned()),
        };
        let warning = Some(Severity::Warning);
        let ticks = [
            tick(1, None, false),
            tick(2, None, false),
            tick(3, warning, false),
            tick(4, warning, false),
            tick(9, warning, true),
        ];
        let mut timeline = ShownTimeline::default();
        timeline.set_ticks(Arc::from(ticks));
        let shown: Vec<_> =
            timeline.runs.iter().map(|run| (run.before_ns, run.first_ns, run.end_ns, run.worst_severity)).collect();
        assert_eq!(shown, [(None, 1, 2, None), (Some(2), 3, 4, warning), (None, 9, 9, warning)]);
        assert_eq!(timeline.marked_ns, [4]);
    }
}
