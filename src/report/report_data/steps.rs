//! The time axis of a report: steps of one or more intervals, and the time-weighted mean and maximum of a figure per step.

use crate::interval::Interval;
use crate::interval::mean::TimeWeightedMean;
use crate::sample::Instant;

/// Steps of a page at most.
const MAX_STEPS: usize = 360;

/// An interval this many times as long as the one before contains a gap: it is a step of its own.
const GAP_FACTOR: f64 = 3.0;

/// Steps one after the other, each of one or more intervals.
#[derive(Clone, Debug)]
pub struct Steps {
    steps: Vec<Step>,
    /// Intervals per step
    intervals_per_step: usize,
}

/// Intervals without a gap between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub from: Instant,
    pub to: Instant,
    /// Number of intervals
    pub intervals: usize,
    /// The sum of its intervals
    pub seconds: f64,
}

impl Steps {
    pub fn new(intervals: usize) -> Steps {
        Steps { steps: Vec::new(), intervals_per_step: intervals.div_ceil(MAX_STEPS).max(1) }
    }

    /// Adds an interval; returns the index of its step.
    pub fn add_interval(&mut self, interval: &Interval) -> usize {
        let (from, to, seconds) = (interval.older.at, interval.at(), interval.seconds);
        let each = self.intervals_per_step;
        let goes_on = |step: &Step| {
            let usual = step.seconds / step.intervals.max(1) as f64;
            step.intervals < each && step.to == from && seconds <= usual * GAP_FACTOR && usual <= seconds * GAP_FACTOR
        };
        match self.steps.last_mut().filter(|step| goes_on(step)) {
            Some(step) => {
                step.to = to;
                step.intervals += 1;
                step.seconds += seconds;
            }
            None => self.steps.push(Step { from, to, intervals: 1, seconds }),
        }
        self.steps.len() - 1
    }

    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter()
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Intervals per step; more than one in a long recording.
    pub fn intervals_per_step(&self) -> usize {
        self.intervals_per_step
    }
}

/// Mean and maximum of each step; `None`: unknown.
pub type MeanAndMax = (Vec<Option<f64>>, Vec<Option<f64>>);

/// Collects one figure over the steps.
#[derive(Clone, Debug, Default)]
pub struct SeriesAccumulator {
    steps: Vec<StepAccumulator>,
}

#[derive(Clone, Copy, Debug, Default)]
struct StepAccumulator {
    mean: TimeWeightedMean,
    max: Option<f64>,
}

impl SeriesAccumulator {
    pub fn add(&mut self, step: usize, value: f64, seconds: f64) {
        if self.steps.len() <= step {
            self.steps.resize(step + 1, StepAccumulator::default());
        }
        let Some(cell) = self.steps.get_mut(step).filter(|_| value.is_finite()) else { return };
        cell.mean.add(Some(value), seconds);
        cell.max = Some(cell.max.map_or(value, |most| most.max(value)));
    }

    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|cell| cell.max.is_none())
    }

    /// Value × seconds over all steps.
    pub fn sum(&self) -> f64 {
        self.steps.iter().map(|cell| cell.mean.sum()).sum()
    }

    /// The mean over the time in which it is known.
    pub fn mean(&self) -> Option<f64> {
        let seconds: f64 = self.steps.iter().map(|cell| cell.mean.seconds()).sum();
        (seconds > 0.0).then(|| self.sum() / seconds)
    }

    /// Mean and maximum of each step.
    pub fn mean_and_max(&self, steps: usize) -> MeanAndMax {
        let cells = || (0..steps).map(|step| self.steps.get(step).copied().unwrap_or_default());
        let mean = |cell: StepAccumulator| cell.mean.mean().map(round_to_five_digits);
        (cells().map(mean).collect(), cells().map(|cell| cell.max.map(round_to_five_digits)).collect())
    }
}

/// Rounds to five significant digits, so that the page and its JSON agree.
pub fn round_to_five_digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_keeps_its_mean_and_its_peak() {
        let mut track = SeriesAccumulator::default();
        track.add(0, 1.0, 1.0);
        track.add(0, 5.0, 3.0);
        track.add(2, 0.123_456_789, 1.0);
        let (mean, max) = track.mean_and_max(4);
        assert_eq!(mean, [Some(4.0), None, Some(0.12346), None]);
        assert_eq!(max, [Some(5.0), None, Some(0.12346), None]);
    }
}
