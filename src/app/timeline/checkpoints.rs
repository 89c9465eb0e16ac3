//! Evaluates the samples of a recording at any position, with the same result as a run from the first sample.
//!
//! A copy of the evaluator is kept every 64 samples. A position is evaluated from the nearest copy before it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::app::evaluation::SampleEvaluator;
use crate::findings::{Evaluation, Evaluator, RuleConfig};
use crate::sample::{Host, Sample};

/// Samples by index.
pub trait IndexedSamples {
    /// The indices of the samples that exist. A sample keeps its index when older ones are evicted and new ones arrive.
    fn indices(&self) -> Range<u64>;

    /// `None` where the sample is damaged.
    fn sample(&mut self, index: u64) -> Option<Arc<Sample>>;

    /// The host and boot of the sample: a directory of recordings may hold several boots.
    fn host(&self, index: u64) -> Arc<Host>;
}

/// Saved evaluators, and the position of the last request.
pub struct CheckpointedEvaluation {
    /// Evaluates where no checkpoint exists yet
    initial: Evaluator,
    /// The evaluator after the sample of that index
    checkpoints: BTreeMap<u64, Evaluator>,
    /// The sequential run has evaluated all samples before this one.
    analyzed_until: u64,
    /// After the sample of the last request: the next one costs one evaluation.
    cursor: Option<Cursor>,
}

/// A position in the samples with the evaluator after it.
pub struct Cursor {
    index: u64,
    evaluator: SampleEvaluator,
    /// `None` for the first sample
    evaluation: Option<Evaluation>,
    /// The evaluation is that of a sequential run.
    exact: bool,
}

/// Samples between two checkpoints: the most that a request costs where the sequential run has been.
const CHECKPOINT_EVERY: u64 = 64;

/// Samples evaluated before a requested one that is ahead of the sequential run: the rules look back on less than this.
const WARM_UP_SAMPLES: u64 = 60;

impl CheckpointedEvaluation {
    pub fn new(initial: Evaluator) -> CheckpointedEvaluation {
        CheckpointedEvaluation { initial, checkpoints: BTreeMap::new(), analyzed_until: 0, cursor: None }
    }

    /// Whether a sequential run saves its evaluator after the sample of that index.
    pub fn is_checkpoint(index: u64) -> bool {
        index.is_multiple_of(CHECKPOINT_EVERY)
    }

    /// The sequential run has evaluated the samples before `until`, with these checkpoints among them.
    pub fn extend(&mut self, until: u64, checkpoints: impl IntoIterator<Item = (u64, Evaluator)>) {
        self.checkpoints.extend(checkpoints);
        self.analyzed_until = until;
    }

    pub fn oldest_checkpoint(&self) -> Option<&Evaluator> {
        self.checkpoints.first_key_value().map(|(_, evaluator)| evaluator)
    }

    /// Discards the checkpoints before the first sample that exists.
    pub fn discard_before(&mut self, first: u64) {
        if self.checkpoints.first_key_value().is_some_and(|(&index, _)| index < first) {
            self.checkpoints = self.checkpoints.split_off(&first);
        }
    }

    /// The interval that ends with the sample of that index; `None` for the first sample, and where the sample is damaged.
    pub fn evaluation_at(&mut self, samples: &mut impl IndexedSamples, index: u64) -> Option<Evaluation> {
        if !samples.indices().contains(&index) {
            return None;
        }
        let mut cursor = self.start(samples, index);
        while cursor.index < index {
            cursor.advance(samples);
        }
        let evaluation = cursor.evaluation.clone();
        self.cursor = Some(cursor);
        evaluation
    }

    /// How many evaluations `evaluation_at` costs.
    pub fn evaluations_to(&self, samples: &impl IndexedSamples, index: u64) -> u64 {
        let first = samples.indices().start;
        let checkpoint = self.checkpoints.range(first..index).next_back().map(|(&at, _)| at);
        let cursor = self.cursor.as_ref().filter(|cursor| cursor.exact || index >= self.analyzed_until);
        let from = cursor.map(|cursor| cursor.index).filter(|&at| at <= index).max(checkpoint).unwrap_or(first);
        index.saturating_sub(from).max(1)
    }

    /// Evaluates towards that sample until the deadline. Returns whether `evaluation_at` now costs one evaluation.
    pub fn advance_to(&mut self, samples: &mut impl IndexedSamples, index: u64, until: Instant) -> bool {
        if !samples.indices().contains(&index) {
            return true;
        }
        let mut cursor = self.start(samples, index);
        while cursor.index + 1 < index && Instant::now() < until {
            cursor.advance(samples);
        }
        let is_near = cursor.index + 1 >= index && Instant::now() < until;
        self.cursor = Some(cursor);
        is_near
    }

    /// The interval that ends with the sample of that index, with its figures, and without findings, which need the intervals
    /// before it. Costs one evaluation.
    pub fn provisional_evaluation_at(&self, samples: &mut impl IndexedSamples, index: u64) -> Option<Evaluation> {
        if index <= samples.indices().start || index >= samples.indices().end {
            return None;
        }
        let (before, host) = (samples.sample(index - 1)?, samples.host(index));
        let mut evaluator = SampleEvaluator::new(samples.host(index - 1), self.nearest(index).without_history());
        evaluator.start_from(before);
        evaluator.evaluate_for_host(&host, samples.sample(index)?)
    }

    /// Continues at another position than that of the last request.
    pub fn exchange_cursor(&mut self, other: &mut Option<Cursor>) {
        std::mem::swap(&mut self.cursor, other);
    }

    /// The configuration of the rules.
    pub fn rule_config(&self) -> &RuleConfig {
        self.initial.rule_config()
    }

    /// The evaluator with what was learned before that sample.
    fn nearest(&self, index: u64) -> &Evaluator {
        let before = self.checkpoints.range(..index).next_back();
        before.or(self.checkpoints.first_key_value()).map_or(&self.initial, |(_, evaluator)| evaluator)
    }

    /// Whether the last evaluation was that of a sequential run. Ahead of that run it need not be.
    pub fn is_exact(&self) -> bool {
        self.cursor.as_ref().is_none_or(|cursor| cursor.exact)
    }

    /// The nearest start before that sample: the last request, a checkpoint, or else some samples earlier with an evaluator
    /// without history.
    fn start(&mut self, samples: &mut impl IndexedSamples, index: u64) -> Cursor {
        let first = samples.indices().start;
        let analyzed = index < self.analyzed_until;
        let checkpoint = self.checkpoints.range(first..index).next_back();
        let nearest = checkpoint.map_or(first, |(&at, _)| at);
        let cursor = self.cursor.take().filter(|cursor| (nearest..=index).contains(&cursor.index));
        let is_near = |at: u64| analyzed || index - at <= WARM_UP_SAMPLES;
        match (cursor, checkpoint) {
            (Some(cursor), _) if (cursor.exact || !analyzed) && is_near(cursor.index) => cursor,
            (_, Some((&at, evaluator))) if is_near(at) => Cursor::new(samples, at, evaluator.clone(), true),
            _ => {
                let later = self.checkpoints.range(first..).next();
                let known = checkpoint.or(later).map_or(&self.initial, |(_, evaluator)| evaluator);
                let at = if analyzed { first } else { index.saturating_sub(WARM_UP_SAMPLES).max(first) };
                Cursor::new(samples, at, known.without_history(), at == first)
            }
        }
    }
}

impl Cursor {
    /// An evaluator that continues after the sample of that index.
    fn new(samples: &mut impl IndexedSamples, index: u64, evaluator: Evaluator, exact: bool) -> Cursor {
        let mut evaluator = SampleEvaluator::new(samples.host(index), evaluator);
        if let Some(sample) = samples.sample(index) {
            evaluator.start_from(sample);
        }
        Cursor { index, evaluator, evaluation: None, exact }
    }

    /// Evaluates the next sample.
    fn advance(&mut self, samples: &mut impl IndexedSamples) {
        self.index += 1;
        let host = samples.host(self.index);
        let sample = samples.sample(self.index);
        self.evaluation = sample.and_then(|sample| self.evaluator.evaluate_for_host(&host, sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::timeline::synthetic::{SyntheticSamples, host};
    use crate::baseline::Baselines;

    fn checkpointed() -> CheckpointedEvaluation {
        CheckpointedEvaluation::new(Evaluator::new(Baselines::default()))
    }

    /// Evaluates all samples in order and saves checkpoints; returns what was found.
    fn straight_run(samples: &mut SyntheticSamples, checkpoints: &mut CheckpointedEvaluation) -> Vec<Option<String>> {
        let mut evaluator = SampleEvaluator::new(host("before"), Evaluator::new(Baselines::default()));
        let mut run = Vec::new();
        for index in samples.indices() {
            let sample = samples.sample(index);
            let intact = sample.is_some();
            let host = samples.host(index);
            run.push(sample.and_then(|sample| evaluator.evaluate_for_host(&host, sample)).map(|evaluation| shown(&evaluation)));
            let saved =
                (intact && CheckpointedEvaluation::is_checkpoint(index)).then(|| (index, evaluator.evaluator().clone()));
            checkpoints.extend(index + 1, saved);
        }
        run
    }

    fn shown(evaluation: &Evaluation) -> String {
        format!("{} s: {:?} {:?}", evaluation.interval.seconds, evaluation.active, evaluation.ended)
    }

    #[test]
    fn any_order_gives_the_evaluations_of_a_straight_run() {
        for damaged in [None, Some(40), Some(64)] {
            let mut samples = SyntheticSamples::new(damaged, 200);
            let mut checkpoints = checkpointed();
            let run = straight_run(&mut samples, &mut checkpoints);
            assert!(run.iter().flatten().any(|shown| shown.contains("SaturatedCore")), "no finding: {run:?}");
            // Each sample once, in leaps.
            for step in 0..150_u64 {
                let index = step * 67 % 150;
                let evaluation = checkpoints.evaluation_at(&mut samples, index).map(|evaluation| shown(&evaluation));
                assert_eq!(evaluation, run[index as usize], "sample {index}, damaged {damaged:?}");
                assert!(checkpoints.is_exact());
            }
        }
    }

    /// Ahead of the sequential run a request evaluates a fixed number of samples, and later requests one each.
    #[test]
    fn a_request_ahead_of_the_straight_run_evaluates_only_the_samples_before_it() {
        struct Counting(SyntheticSamples, Vec<u64>);
        impl IndexedSamples for Counting {
            fn indices(&self) -> Range<u64> {
                self.0.indices()
            }
            fn sample(&mut self, index: u64) -> Option<Arc<Sample>> {
                self.1.push(index);
                self.0.sample(index)
            }
            fn host(&self, index: u64) -> Arc<Host> {
                self.0.host(index)
            }
        }
        let mut samples = Counting(SyntheticSamples::new(None, 200), Vec::new());
        let mut checkpoints = checkpointed();
        assert!(checkpoints.evaluation_at(&mut samples, 130).is_some());
        assert!(!checkpoints.is_exact());
        assert!(checkpoints.evaluation_at(&mut samples, 131).is_some());
        assert_eq!(samples.1, (70..=131).collect::<Vec<_>>());
        // Once the sequential run has been there, the same request is exact.
        let run = straight_run(&mut samples.0, &mut checkpoints);
        let evaluation = checkpoints.evaluation_at(&mut samples, 131).map(|evaluation| shown(&evaluation));
        assert_eq!((evaluation, checkpoints.is_exact()), (run[131].clone(), true));
    }

    /// Counters of two boots are not compared, although those of the second may be higher.
    #[test]
    fn no_interval_spans_two_boots() {
        for damaged in [None, Some(69), Some(70)] {
            let mut samples = SyntheticSamples::new(damaged, 70);
            let mut checkpoints = checkpointed();
            let run = straight_run(&mut samples, &mut checkpoints);
            let first = if damaged == Some(70) { 71 } else { 70 };
            assert!(run[first].is_none() && run[first + 1].is_some() && run[first - 2].is_some(), "{damaged:?}");
            for index in [149, 70, 71, 65, 72, 100] {
                let evaluation = checkpoints.evaluation_at(&mut samples, index).map(|evaluation| shown(&evaluation));
                assert_eq!(evaluation, run[index as usize], "sample {index}, damaged {damaged:?}");
            }
        }
    }

    #[test]
    fn evicted_samples_have_no_evaluation_and_the_others_keep_theirs() {
        let mut samples = SyntheticSamples::new(None, 200);
        let mut checkpoints = checkpointed();
        let run = straight_run(&mut samples, &mut checkpoints);
        samples.indices = 60..150;
        checkpoints.discard_before(60);
        assert!(checkpoints.evaluation_at(&mut samples, 59).is_none());
        assert!(checkpoints.evaluation_at(&mut samples, 150).is_none());
        for index in [149, 65, 100, 66] {
            let evaluation = checkpoints.evaluation_at(&mut samples, index).map(|evaluation| shown(&evaluation));
            assert_eq!(evaluation, run[index as usize], "sample {index}");
        }
        assert!(checkpoints.evaluation_at(&mut samples, 61).is_some(), "before the first checkpoint");
    }
}
