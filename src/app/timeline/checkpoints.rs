//! Judged intervals in any order, each as a straight run from the first sample gives it: from time to time the judge is
//! remembered, and what lies between is judged again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::app::evaluation::SampleEvaluator;
use crate::findings::{Evaluation, Evaluator};
use crate::sample::{Host, Sample};

/// Samples that can be asked for by number.
pub trait IndexedSamples {
    /// Those that there are. Numbers stay what they are when old samples are forgotten and new ones come.
    fn indices(&self) -> Range<u64>;

    /// `None` where it is damaged.
    fn sample(&mut self, number: u64) -> Option<Arc<Sample>>;

    /// Whose sample it is: a directory of recordings may tell of several runs of a machine.
    fn host(&self, number: u64) -> Arc<Host>;
}

/// The way of the judge through the samples.
#[derive(Default)]
pub struct CheckpointedEvaluation {
    /// The judge after it took the sample of that number
    checkpoints: BTreeMap<u64, Evaluator>,
    /// Where somebody went last: the next step from there costs one sample
    cursor: Option<Cursor>,
}

struct Cursor {
    index: u64,
    evaluator: SampleEvaluator,
    /// `None` for the first sample
    evaluation: Option<Evaluation>,
}

/// Samples between two remembered judges: the most that going somewhere may cost.
const CHECKPOINT_EVERY: u64 = 32;

impl CheckpointedEvaluation {
    /// Remembers the straight run, which has just taken the sample of that number, a sound one.
    pub fn save_checkpoint(&mut self, number: u64, judging: &SampleEvaluator) {
        if number.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoints.insert(number, judging.evaluator().clone());
        }
    }

    /// The first judge that is remembered.
    pub fn oldest_checkpoint(&self) -> Option<&Evaluator> {
        self.checkpoints.first_key_value().map(|(_, judge)| judge)
    }

    /// Forgets what lies before the first sample that there is.
    pub fn discard_before(&mut self, first: u64) {
        if self.checkpoints.first_key_value().is_some_and(|(&number, _)| number < first) {
            self.checkpoints = self.checkpoints.split_off(&first);
        }
    }

    /// The interval that ends with the sample of that number; `None` for the first one, and where the sample is damaged.
    pub fn evaluation_at(&mut self, samples: &mut impl IndexedSamples, number: u64) -> Option<Evaluation> {
        let Range { start: first, end } = samples.indices();
        if number < first || number >= end {
            return None;
        }
        let near = self.checkpoints.range(first..number).next_back().map(|(&at, judge)| (at, judge.clone()));
        let cursor = self.cursor.take().filter(|cursor| (first..=number).contains(&cursor.index));
        let mut cursor = match (cursor, near) {
            (Some(cursor), near) if near.as_ref().is_none_or(|near| cursor.index >= near.0) => cursor,
            (_, Some((at, judge))) => start_cursor(samples, at, judge),
            // Older than every judge that is remembered, since what lay before is forgotten: one that knows the baselines.
            (_, None) => {
                let (_, later) = self.checkpoints.first_key_value()?;
                let judge = later.without_history();
                start_cursor(samples, first, judge)
            }
        };
        while cursor.index < number {
            cursor.index += 1;
            let host = samples.host(cursor.index);
            cursor.evaluation =
                samples.sample(cursor.index).and_then(|sample| cursor.evaluator.evaluate_for_host(&host, sample));
        }
        let judged = cursor.evaluation.clone();
        self.cursor = Some(cursor);
        judged
    }

    /// The intervals that end with these samples, each with its number, in the order of time: each costs one sample.
    pub fn evaluate_range(&mut self, samples: &mut impl IndexedSamples, numbers: Range<u64>) -> Vec<(u64, Evaluation)> {
        numbers.filter_map(|number| self.evaluation_at(samples, number).map(|judged| (number, judged))).collect()
    }

    /// Begins in the middle, where no straight run has come by yet: what follows is judged by somebody who remembers
    /// nothing of before.
    pub fn start_without_checkpoint(&mut self, samples: &mut impl IndexedSamples, number: u64, judge: &Evaluator) {
        let judge = judge.without_history();
        self.cursor = Some(start_cursor(samples, number, judge));
    }

    /// The next one goes by what is remembered.
    pub fn reset_cursor(&mut self) {
        self.cursor = None;
    }
}

/// A judge that has just taken the sample of that number.
fn start_cursor(samples: &mut impl IndexedSamples, number: u64, judge: Evaluator) -> Cursor {
    let mut judging = SampleEvaluator::new(samples.host(number), judge);
    if let Some(sample) = samples.sample(number) {
        judging.start_from(sample);
    }
    Cursor { index: number, evaluator: judging, evaluation: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::timeline::synthetic::{Made, host};
    use crate::baseline::Baselines;

    /// What is remembered, and what was concluded, in order.
    fn straight(samples: &mut Made, course: &mut CheckpointedEvaluation) -> Vec<Option<String>> {
        let mut judging = SampleEvaluator::new(host("before"), Evaluator::new(Baselines::default()));
        let mut run = Vec::new();
        for number in samples.indices() {
            let sample = samples.sample(number);
            let sound = sample.is_some();
            run.push(
                sample.and_then(|sample| judging.evaluate_for_host(&samples.host(number), sample)).map(|judged| told(&judged)),
            );
            if sound {
                course.save_checkpoint(number, &judging);
            }
        }
        run
    }

    fn told(judged: &Evaluation) -> String {
        format!("{} s: {:?} {:?}", judged.interval.seconds, judged.active, judged.ended)
    }

    #[test]
    fn any_order_gives_what_the_straight_run_gave() {
        for damaged in [None, Some(40), Some(64)] {
            let mut samples = Made::new(damaged, 200);
            let mut course = CheckpointedEvaluation::default();
            let run = straight(&mut samples, &mut course);
            assert!(run.iter().flatten().any(|told| told.contains("SaturatedCore")), "nothing was found: {run:?}");
            for step in 0..300_u64 {
                let number = step * 67 % 150;
                let judged = course.evaluation_at(&mut samples, number).map(|judged| told(&judged));
                assert_eq!(judged, run[number as usize], "sample {number}, damaged {damaged:?}");
            }
        }
    }

    /// Somebody goes far beyond what was surveyed, and plays on from there: nothing before it is looked at.
    #[test]
    fn going_far_ahead_costs_what_leads_there() {
        struct Counting(Made, Vec<u64>);
        impl IndexedSamples for Counting {
            fn indices(&self) -> Range<u64> {
                self.0.indices()
            }
            fn sample(&mut self, number: u64) -> Option<Arc<Sample>> {
                self.1.push(number);
                self.0.sample(number)
            }
            fn host(&self, number: u64) -> Arc<Host> {
                self.0.host(number)
            }
        }
        let mut samples = Counting(Made::new(None, 200), Vec::new());
        let mut course = CheckpointedEvaluation::default();
        let judge = Evaluator::new(Baselines::default());
        course.save_checkpoint(0, &SampleEvaluator::new(host("before"), judge.clone()));
        course.start_without_checkpoint(&mut samples, 60, &judge);
        let led = course.evaluate_range(&mut samples, 80..140);
        assert!(course.evaluation_at(&mut samples, 140).is_some() && led.len() == 60);
        assert!(course.evaluation_at(&mut samples, 141).is_some());
        assert_eq!(samples.1, (60..=141).collect::<Vec<_>>());
    }

    /// What one run of a machine counted says nothing of what the next one did, though its counters be higher.
    #[test]
    fn no_interval_reaches_from_one_run_of_the_machine_to_the_next() {
        for damaged in [None, Some(69), Some(70)] {
            let mut samples = Made::new(damaged, 70);
            let mut course = CheckpointedEvaluation::default();
            let run = straight(&mut samples, &mut course);
            let first = if damaged == Some(70) { 71 } else { 70 };
            assert!(run[first].is_none() && run[first + 1].is_some() && run[first - 2].is_some(), "{damaged:?}");
            for number in [149, 70, 71, 65, 72, 100] {
                let judged = course.evaluation_at(&mut samples, number).map(|judged| told(&judged));
                assert_eq!(judged, run[number as usize], "sample {number}, damaged {damaged:?}");
            }
        }
    }

    #[test]
    fn what_is_forgotten_is_not_shown_and_the_rest_is_as_it_was() {
        let mut samples = Made::new(None, 200);
        let mut course = CheckpointedEvaluation::default();
        let run = straight(&mut samples, &mut course);
        samples.numbers = 60..150;
        course.discard_before(60);
        assert!(course.evaluation_at(&mut samples, 59).is_none() && course.evaluation_at(&mut samples, 150).is_none());
        for number in [149, 65, 100, 66] {
            assert_eq!(
                course.evaluation_at(&mut samples, number).map(|judged| told(&judged)),
                run[number as usize],
                "sample {number}"
            );
        }
        assert!(
            course.evaluation_at(&mut samples, 61).is_some(),
            "between the first sample and the first judge there is one too"
        );
    }
}
