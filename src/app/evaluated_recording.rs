//! A recording read from its beginning to its end, and evaluated on the way.
//!
//! Samples are decoded, and their intervals computed, on all CPUs; the rules are evaluated here, in order, since each
//! evaluation depends on those before it. What comes out is the same as from one sample after the other.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;

use super::time_range;
use crate::app::config::Settings;
use crate::app::evaluation::{SampleEvaluator, SamplePairing};
use crate::app::program::exit::{Failure, quoted};
use crate::app::program::progress::Progress;
use crate::app::program::stdio;
use crate::app::recorder;
use crate::cli::time_range::TimeRange;
use crate::figures::{self, Table};
use crate::findings::{Evaluation, Evaluator, RuleConfig, Thresholds};
use crate::interval::Interval;
use crate::interval::network::LinkOverrides;
use crate::recording::{DecodedSample, DecodedSamples, MAX_WORKERS, Replayer, SampleParts, Tail};
use crate::report::formatting::pluralize;
use crate::sample::{Host, Sample};

/// Iterates over the evaluations. What is damaged is left out, and reported at the end.
pub struct EvaluatedRecording {
    path: PathBuf,
    replayer: Replayer,
    evaluator: SampleEvaluator,
    rule_config: Arc<RuleConfig>,
    parts: SampleParts,
    /// Started with the first interval
    samples: Option<DecodedSamples<PairedSample>>,
    /// The last interval, and the number of the worker thread that computed it
    last_interval: Option<(usize, Arc<Interval>)>,
    evaluated: EvaluatedIntervals,
    next_index: usize,
    interval_count: usize,
    progress: Progress,
}

/// A sample, as its worker thread has left it.
enum PairedSample {
    /// With the interval from the sample before it, and the number of the worker thread
    Paired(usize, Box<Interval>),
    /// The first one of its key group, of its boot, or of its time
    Unpaired(Arc<Host>, Arc<Sample>),
    Damaged,
}

/// Intervals that are evaluated, by the worker thread that computed them. It frees them, since the reference counts of their
/// processes are in the cache of its CPU, and their memory is of its malloc arena: a third less CPU time of `report` on two free CPUs.
#[derive(Clone, Default)]
struct EvaluatedIntervals(Arc<[Mutex<Vec<Arc<Interval>>>; MAX_WORKERS]>);

impl EvaluatedIntervals {
    fn push(&self, worker: usize, interval: Arc<Interval>) {
        if let Some(list) = self.0.get(worker) {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(interval);
        }
    }

    fn take_intervals(&self, worker: usize) -> Vec<Arc<Interval>> {
        let list = self.0.get(worker).map(|list| list.lock().unwrap_or_else(PoisonError::into_inner));
        list.map(|mut list| std::mem::take(&mut *list)).unwrap_or_default()
    }
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
            last_interval: None,
            evaluated: EvaluatedIntervals::default(),
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
            // The caller has dropped its evaluation.
            if let Some((worker, interval)) = self.last_interval.take() {
                self.evaluated.push(worker, interval);
            }
            let evaluation = match self.next_sample() {
                Some(PairedSample::Paired(worker, interval)) => {
                    let evaluation = self.evaluator.evaluate_interval(*interval);
                    self.last_interval = Some((worker, Arc::clone(&evaluation.interval)));
                    Some(evaluation)
                }
                Some(PairedSample::Unpaired(host, sample)) => self.evaluator.evaluate_for_host(&host, sample),
                // Without worker threads all samples are read here.
                Some(PairedSample::Damaged) | None => self.read_here(),
            };
            self.next_index += 1;
            if evaluation.is_some() {
                return evaluation;
            }
        }
        self.progress.end();
        None
    }

    fn next_sample(&mut self) -> Option<PairedSample> {
        let start = || {
            let links = LinkOverrides::clone(&self.rule_config.link_overrides);
            let evaluated = self.evaluated.clone();
            let work = move |worker| pair_samples(worker, LinkOverrides::clone(&links), evaluated.clone());
            self.replayer.decode_parallel(self.next_index..usize::MAX, self.parts, work)
        };
        self.samples.get_or_insert_with(start).next()
    }

    /// Reads a sample that no worker thread could read: if it is damaged, the replayer adds the damage to its list; if the index
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

/// Computes the intervals between the samples of a key group.
fn pair_samples(
    worker: usize,
    links: LinkOverrides,
    evaluated: EvaluatedIntervals,
) -> Box<dyn FnMut(DecodedSample) -> PairedSample> {
    let mut pairing: Option<SamplePairing> = None;
    Box::new(move |DecodedSample { host, sample, .. }| {
        drop(evaluated.take_intervals(worker));
        let Ok(sample) = sample else { return PairedSample::Damaged };
        let pairing = pairing.get_or_insert_with(|| SamplePairing::new(Arc::clone(&host), LinkOverrides::clone(&links)));
        match pairing.interval_for_host(&host, Arc::clone(&sample)) {
            Some(interval) => PairedSample::Paired(worker, Box::new(interval)),
            None => PairedSample::Unpaired(host, sample),
        }
    })
}

#[cfg(test)]
mod tests;
