//! The total of a run: all its intervals as one, with the latest latency statuses.

use std::sync::Arc;

use crate::baseline::LatencyStatus;
use crate::figures::FigureInput;
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::run;

/// The total so far.
#[derive(Debug, Default)]
pub struct EvaluatedRun {
    intervals: run::RunAccumulator,
    latency_statuses: Arc<[LatencyStatus]>,
}

/// The run as one interval.
pub struct RunTotal {
    pub interval: Arc<Interval>,
    latency_statuses: Arc<[LatencyStatus]>,
}

impl RunTotal {
    pub fn figure_input(&self) -> FigureInput<'_> {
        FigureInput { interval: &self.interval, latency_statuses: &self.latency_statuses }
    }
}

impl EvaluatedRun {
    /// Adds the interval that follows.
    pub fn add(&mut self, evaluation: &Evaluation) {
        self.intervals.add(&evaluation.interval);
        self.latency_statuses = Arc::clone(&evaluation.latency_statuses);
    }

    /// Whether that interval is of the same boot of the same machine.
    pub fn is_same_boot(&self, evaluation: &Evaluation) -> bool {
        self.intervals.is_same_boot(&evaluation.interval)
    }

    pub fn has_several_intervals(&self) -> bool {
        self.intervals.has_several_intervals()
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        self.intervals.seconds()
    }

    /// `None` without an interval, and where the machine was started again in between.
    pub fn total(&self) -> Option<RunTotal> {
        let latency_statuses = Arc::clone(&self.latency_statuses);
        self.intervals.total().map(|interval| RunTotal { interval, latency_statuses })
    }
}
