//! The intervals of a recording for the timeline: consecutive ones of the same severity are one run, so that a day is drawn as fast
//! as a minute.

use super::event::TimelineTick;
use crate::findings::Severity;

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

/// The runs of a recording, and its marks.
#[derive(Clone, Debug, Default)]
pub struct TimelineRuns {
    pub runs: Vec<TimelineRun>,
    pub marks_ns: Vec<i64>,
}

impl TimelineRuns {
    pub fn new(ticks: &[TimelineTick]) -> TimelineRuns {
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
        let marks_ns = ticks.iter().filter(|tick| tick.mark.is_some()).map(|tick| tick.realtime_ns).collect();
        TimelineRuns { runs, marks_ns }
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
        let TimelineRuns { runs, marks_ns } = TimelineRuns::new(&ticks);
        let shown: Vec<_> = runs.iter().map(|run| (run.before_ns, run.first_ns, run.end_ns, run.worst_severity)).collect();
        assert_eq!(shown, [(None, 1, 2, None), (Some(2), 3, 4, warning), (None, 9, 9, warning)]);
        assert_eq!(marks_ns, [4]);
    }
}
