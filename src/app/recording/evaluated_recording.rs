//! A recording read from its beginning to its end, and judged on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::time_range;
use crate::app::config::Settings;
use crate::app::evaluation::SampleEvaluator;
use crate::app::program::exit::{Failure, quoted};
use crate::app::program::stdio;
use crate::app::recording;
use crate::cli::time_range::TimeRange;
use crate::findings::{Evaluation, Evaluator, RuleConfig, Thresholds};
use crate::recording::{Replayer, Timestamp};
use crate::report::formatting::pluralize;
use crate::sample::{Instant, Sample};

/// Gives its intervals, judged one after the other. What is damaged is left out, and told at the end.
pub struct EvaluatedRecording {
    path: PathBuf,
    replayer: Replayer,
    evaluator: SampleEvaluator,
    rule_config: Arc<RuleConfig>,
    next_index: usize,
}

impl EvaluatedRecording {
    /// Judged by what is set here, as far as it holds for the machine of the recording.
    pub fn open(path: &Path, settings: &Settings) -> Result<EvaluatedRecording, Failure> {
        let replayer = Replayer::open(path).map_err(recording::failure)?;
        let baselines = recording::baselines(replayer.section(recording::baselines_section()));
        let host = Arc::new(replayer.meta().host.clone());
        let criteria = settings.rule_config_for(&host);
        let judge = Evaluator::new(baselines).with_rule_config(Arc::clone(&criteria));
        let judging = SampleEvaluator::new(host, judge);
        Ok(EvaluatedRecording { path: path.to_owned(), replayer, evaluator: judging, rule_config: criteria, next_index: 0 })
    }

    /// Only that part of it, judged from where it begins.
    pub fn narrow(&mut self, part: &TimeRange, zone: &TimeZone) -> Result<(), Failure> {
        time_range::narrow(&mut self.replayer, part, &self.path, zone)
    }

    /// What it is judged by.
    pub fn thresholds(&self) -> &Thresholds {
        &self.rule_config.thresholds
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

    /// When the last sample was taken; without reading it.
    pub fn end_time(&self) -> Timestamp {
        self.replayer.len().checked_sub(1).and_then(|last| self.replayer.timestamp(last)).unwrap_or_default()
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
}

impl Iterator for EvaluatedRecording {
    type Item = Evaluation;

    fn next(&mut self) -> Option<Evaluation> {
        while self.next_index < self.replayer.len() {
            let index = self.next_index;
            self.next_index += 1;
            // What is damaged is told at the end.
            let Ok(sample) = self.replayer.sample(index) else { continue };
            if let Some(judged) = self.evaluator.evaluate_for_host(&self.replayer.host(index), sample) {
                return Some(judged);
            }
        }
        None
    }
}

/// As the layers above the recording have it; MONOTONIC is not kept beside frames.
pub fn to_instant(at: Timestamp) -> Instant {
    Instant { boottime_ns: at.boottime_ns, monotonic_ns: at.boottime_ns, realtime_ns: at.realtime_ns }
}
