//! Evaluates each live sample: computes and evaluates its interval, and learns latencies from it.
//!
//! The baselines are saved to the baseline file every 5 minutes. Before each evaluation, baselines that other programs have
//! saved are loaded.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{panics, stdio};
use crate::app::sampling::{SamplerThread, TimedSample};
use crate::app::{baseline_learner::BaselineLearner, evaluation::SampleEvaluator};
use crate::findings::{Evaluation, Evaluator, RuleConfig};
use crate::sample::{Host, Sample};

/// Evaluates live samples one after the other.
pub struct LivePipeline {
    evaluator: SampleEvaluator,
    baseline_learner: BaselineLearner,
}

impl LivePipeline {
    pub fn new(host: Arc<Host>, rule_config: Arc<RuleConfig>, baseline_learner: BaselineLearner) -> LivePipeline {
        let evaluator = SampleEvaluator::new(host, baseline_learner.new_evaluator(rule_config));
        LivePipeline { evaluator, baseline_learner }
    }

    /// The interval that ends with this sample; `None` for the first one.
    pub fn evaluate(&mut self, sample: Arc<Sample>) -> Option<Evaluation> {
        if let Some(baselines) = self.baseline_learner.poll_changes() {
            self.evaluator.set_baselines(baselines);
        }
        let evaluation = self.evaluator.evaluate(sample)?;
        self.baseline_learner.observe(&evaluation);
        Some(evaluation)
    }

    /// The time from boot to this sample; nothing is learned from it.
    pub fn evaluate_since_boot(&self, sample: &Arc<Sample>) -> Option<Evaluation> {
        self.evaluator.evaluate_since_boot(sample)
    }

    /// The evaluator after the last sample.
    pub fn evaluator(&self) -> &Evaluator {
        self.evaluator.evaluator()
    }

    /// Writes what was learned every 5 minutes. The line reports the first write that fails.
    pub fn write_periodically(&mut self) -> Option<String> {
        let why = self.baseline_learner.write_periodically()?;
        Some(format!("learned baselines are not saved: {why}"))
    }

    /// Writes what was learned before the program ends; the line says why that failed.
    pub fn finish(mut self) -> Option<String> {
        self.baseline_learner.write_before_exit()
    }
}

/// The samples of the sampling thread, each with the interval that it ends: for commands that print.
pub struct LiveEvaluations {
    pub sampler: SamplerThread,
    pipeline: LivePipeline,
    timer: Runtime,
}

impl LiveEvaluations {
    pub fn new(
        sampler: SamplerThread,
        rule_config: Arc<RuleConfig>,
        baseline_learner: BaselineLearner,
    ) -> Result<LiveEvaluations, Failure> {
        let pipeline = LivePipeline::new(Arc::clone(&sampler.host), rule_config, baseline_learner);
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let timer = timer.map_err(|error| Failure::new(Exit::Failed, "cannot start a timer", error, ""))?;
        Ok(LiveEvaluations { sampler, pipeline, timer })
    }

    pub fn pipeline(&self) -> &LivePipeline {
        &self.pipeline
    }

    /// Waits for the next sample; `None` when sampling has ended.
    pub fn next_sample(&mut self) -> Option<TimedSample> {
        let sample = self.timer.block_on(self.sampler.next())?;
        print_left_out(&sample);
        Some(sample)
    }

    /// The same, but waits no longer than until `deadline`; `Err` if none has come by then.
    pub fn next_sample_before(&mut self, deadline: Instant) -> Result<Option<TimedSample>, Elapsed> {
        let LiveEvaluations { sampler, timer, .. } = self;
        let sample = timer.block_on(async { timeout_at(deadline.into(), sampler.next()).await })?;
        sample.iter().for_each(print_left_out);
        Ok(sample)
    }

    /// The interval that ends with this sample; `None` for the first one.
    pub fn evaluate(&mut self, sample: &TimedSample) -> Option<Evaluation> {
        let evaluation = self.pipeline.evaluate(Arc::clone(&sample.sample));
        if let Some(line) = self.pipeline.write_periodically() {
            stdio::print_stderr(&line);
        }
        evaluation
    }

    /// Writes what was learned. Fails where the sampling thread has panicked.
    pub fn finish(self) -> Result<(), Failure> {
        if let Some(line) = self.pipeline.finish() {
            stdio::print_stderr(&line);
        }
        if panics::has_panicked() { Err(Failure::already_reported(Exit::Failed)) } else { Ok(()) }
    }
}

fn print_left_out(sample: &TimedSample) {
    if let Some(line) = &sample.left_out {
        stdio::print_stderr(line);
    }
}

/// The next interval: skips the first sample, which ends none.
impl Iterator for LiveEvaluations {
    type Item = Evaluation;

    fn next(&mut self) -> Option<Evaluation> {
        loop {
            let sample = self.next_sample()?;
            if let Some(evaluation) = self.evaluate(&sample) {
                return Some(evaluation);
            }
        }
    }
}
