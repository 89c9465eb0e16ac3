//! A recording read from its beginning to its end, and judged on the way.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::time_range;
use crate::app::config::Settings;
use crate::app::evaluation::SampleEvaluator;
use crate::app::program::exit::{Failure, quoted};
use crate::app::program::stdio;
use crate::app::recorder;
use crate::cli::time_range::TimeRange;
use crate::findings::{Evaluation, Evaluator, RuleConfig, Thresholds};
use crate::recording::Replayer;
use crate::report::formatting::pluralize;
use crate::sample::Sample;

/// Gives its intervals, judged one after the other. What is damaged is left out, and told at the end.
pub struct EvaluatedRecording {
    path: PathBuf,
    replayer: Replayer,
    evaluator: SampleEvaluator,
    rule_config: Arc<RuleConfig>,
    next_index: usize,
}

impl EvaluatedRecording {
    /// Evaluation by what is set here, as far as it holds for the machine of the recording.
    pub fn open(path: &Path, settings: &Settings) -> Result<EvaluatedRecording, Failure> {
        let replayer = Replayer::open(path).map_err(recorder::failure)?;
        let baselines = recorder::baselines(replayer.section(recorder::baselines_section()));
        let host = Arc::new(replayer.meta().host.clone());
        let criteria = settings.rule_config_for(&host);
        let judge = Evaluator::new(baselines).with_rule_config(Arc::clone(&criteria));
        let judging = SampleEvaluator::new(host, judge);
        Ok(EvaluatedRecording { path: path.to_owned(), replayer, evaluator: judging, rule_config: criteria, next_index: 0 })
    }

    /// Only that part of it, judged from where it begins.
    pub fn narrow(&mut self, range: &TimeRange, zone: &TimeZone) -> Result<(), Failure> {
        let samples = time_range::between(&self.replayer, range, &self.path, zone)?;
        self.replayer.restrict_to(samples);
        Ok(())
    }

    /// What it is judged by.
    pub fn thresholds(&self) -> &Thresholds {
        &self.rule_config.thresholds
    }

    /// The next interval between these samples. All samples before are evaluated too, from the first one on: findings that
    /// have started and latencies that were learned by then are known.
    pub fn next_in(&mut self, samples: &Range<usize>) -> Option<Evaluation> {
        loop {
            let evaluation = self.next_before(samples.end)?;
            if self.last_index() > samples.start {
                return Some(evaluation);
            }
        }
    }

    /// From boot to a sample of it.
    pub fn evaluate_since_boot(&self, sample: &Arc<Sample>) -> Option<Evaluation> {
        self.evaluator.evaluate_since_boot(sample)
    }

    pub fn replayer(&self) -> &Replayer {
        &self.replayer
    }

    /// The sample that ends the interval that it gave last.
    pub fn last_index(&self) -> usize {
        self.next_index.saturating_sub(1)
    }

    /// Says on standard error what could not be read.
    pub fn warn_of_damage(&self) {
        let damage = self.replayer.damage();
        if let Some(first) = damage.first() {
            let (name, places, at) = (quoted(&self.path), pluralize(damage.len() as u64, "place"), first.bytes.start);
            stdio::print_stderr(&match self.replayer.unreadable().first() {
                Some(unreadable) => format!("{name} is not whole: {}: all that is sound was judged", unreadable.reason),
                None => format!("{name} is damaged in {places}, first at byte {at}: all that is sound was judged"),
            });
        }
    }

    /// The next interval that ends before that sample.
    fn next_before(&mut self, end: usize) -> Option<Evaluation> {
        while self.next_index < self.replayer.len().min(end) {
            let index = self.next_index;
            self.next_index += 1;
            // Damage is reported at the end.
            let Ok(sample) = self.replayer.sample(index) else { continue };
            if let Some(evaluation) = self.evaluator.evaluate_for_host(&self.replayer.host(index), sample) {
                return Some(evaluation);
            }
        }
        None
    }
}

impl Iterator for EvaluatedRecording {
    type Item = Evaluation;

    fn next(&mut self) -> Option<Evaluation> {
        self.next_before(usize::MAX)
    }
}
