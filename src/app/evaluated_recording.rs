//! A recording read from its beginning to its end, and evaluated on the way.
//!
//! Samples are decoded on a thread of their own; intervals are computed and the rules evaluated here.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::time_range;
use crate::app::config::Settings;
use crate::app::evaluation::SampleEvaluator;
use crate::app::program::exit::{Failure, quoted};
use crate::app::program::progress::Progress;
use crate::app::program::stdio;
use crate::app::recorder;
use crate::cli::time_range::TimeRange;
use crate::figures::{self, Table};
use crate::findings::{Evaluation, Evaluator, RuleConfig, Thresholds};
use crate::recording::{DecodedSample, DecodedSamples, Replayer, SampleParts, Tail};
use crate::report::formatting::pluralize;
use crate::sample::Sample;

/// Iterates over the evaluations. What is damaged is left out, and reported at the end.
pub struct EvaluatedRecording {
    path: PathBuf,
    replayer: Replayer,
    evaluator: SampleEvaluator,
    rule_config: Arc<RuleConfig>,
    parts: SampleParts,
    /// Started with the first interval
    samples: Option<DecodedSamples>,
    next_index: usize,
    interval_count: usize,
    progress: Progress,
}

impl EvaluatedRecording {
    /// Evaluates by the settings of this machine, as far as they hold for the machine of the recording. A recording without a
    /// complete sample is an error.
    pub fn open(path: &Path, settings: &Settings) -> Result<EvaluatedRecording, Failure> {
        let recording = EvaluatedRecording::open_even_empty(path, settings)?;
        recording.replayer.require_sample().map_err(recorder::failure)?;
        Ok(recording)
    }

    /// The same, also without samples: one of several recordings, which may just have begun.
    pub fn open_even_empty(path: &Path, settings: &Settings) -> Result<EvaluatedRecording, Failure> {
        let replayer = Replayer::open(path).map_err(recorder::failure)?;
        let baselines = recorder::baselines(replayer.section(recorder::BASELINES_SECTION));
        let host = Arc::new(replayer.meta().host.clone());
        let rule_config = settings.rule_config_for(&host);
        let evaluator = Evaluator::new(baselines).with_rule_config(Arc::clone(&rule_config));
        Ok(EvaluatedRecording {
            path: path.to_owned(),
            replayer,
            evaluator: SampleEvaluator::new(host, evaluator),
            rule_config,
            parts: SampleParts::All,
            samples: None,
            next_index: 0,
            interval_count: 0,
            progress: Progress::hidden(),
        })
    }

    /// Only that part of it, evaluated from where it begins.
    pub fn narrow(&mut self, range: &TimeRange, zone: &TimeZone) -> Result<(), Failure> {
        let samples = time_range::between(&self.replayer, range, &self.path, zone)?;
        self.replayer.restrict_to(samples);
        Ok(())
    }

    /// Decodes only what these tables need: without tasks its findings are not complete.
    pub fn for_tables(mut self, tables: &[&dyn Table]) -> EvaluatedRecording {
        if !tables.iter().any(|table| figures::needs_tasks(*table)) {
            self.parts = SampleParts::WithoutTasks;
        }
        self
    }

    /// Shows how much has been evaluated, where standard error is a terminal.
    pub fn with_progress(mut self) -> EvaluatedRecording {
        self.progress = Progress::on_terminal(quoted(&self.path));
        self
    }

    /// The thresholds of the rules.
    pub fn thresholds(&self) -> &Thresholds {
        &self.rule_config.thresholds
    }

    /// The next interval between these samples. All samples before are evaluated too, from the first one on: findings that
    /// have started and latencies that were learned by then are known.
    pub fn next_in(&mut self, samples: &Range<usize>) -> Option<Evaluation> {
        loop {
            let evaluation = self.next_before(samples.end)?;
            self.interval_count += 1;
            // The sample that ends it was the last one that was read.
            if self.next_index > samples.start + 1 {
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

    /// The intervals that `next_in` has evaluated: none ends with a sample that is damaged, or the first of its boot.
    pub fn interval_count(&self) -> usize {
        self.interval_count
    }

    /// Whether it stops inside a frame, or with bytes that are none.
    pub fn ends_in_damage(&self) -> bool {
        matches!(self.replayer.tail(), Tail::Torn { .. })
    }

    /// Says on standard error what could not be read.
    pub fn warn_of_damage(&self) {
        let damage = self.replayer.damage();
        if let Some(first) = damage.first() {
            let (name, places, at) = (quoted(&self.path), pluralize(damage.len() as u64, "place"), first.bytes.start);
            stdio::print_stderr(&match self.replayer.unreadable().first() {
                Some(unreadable) => format!("{name} is not whole: {}: all that is intact was evaluated", unreadable.reason),
                None => format!("{name} is damaged in {places}, first at byte {at}: all that is intact was evaluated"),
            });
        }
    }

    /// The next interval that ends before that sample.
    fn next_before(&mut self, end: usize) -> Option<Evaluation> {
        while self.next_index < self.replayer.len().min(end) {
            self.progress.show(self.next_index, self.replayer.len());
            let evaluation = match self.next_sample() {
                Some(DecodedSample { host, sample: Ok(sample), .. }) => self.evaluator.evaluate_for_host(&host, sample),
                Some(DecodedSample { sample: Err(_), .. }) | None => self.read_here(),
            };
            self.next_index += 1;
            if evaluation.is_some() {
                return evaluation;
            }
        }
        self.progress.end();
        None
    }

    fn next_sample(&mut self) -> Option<DecodedSample> {
        let start = || self.replayer.decode_ahead(self.next_index..usize::MAX, self.parts);
        self.samples.get_or_insert_with(start).next()
    }

    /// Reads a sample that was not decoded ahead: if it is damaged, the replayer adds the damage to its list; if the index
    /// of the recording is wrong, it reads on without it.
    fn read_here(&mut self) -> Option<Evaluation> {
        let before = (self.replayer.len(), self.replayer.is_indexed());
        let sample = self.replayer.sample(self.next_index);
        if before != (self.replayer.len(), self.replayer.is_indexed()) {
            self.samples = None;
        }
        // Damage is reported at the end.
        self.evaluator.evaluate_for_host(&self.replayer.host(self.next_index), sample.ok()?)
    }
}

impl Iterator for EvaluatedRecording {
    type Item = Evaluation;

    fn next(&mut self) -> Option<Evaluation> {
        self.next_before(usize::MAX)
    }
}

#[cfg(test)]
mod tests;
