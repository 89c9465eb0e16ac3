//! The evaluation of a whole recording, in order, on a thread of its own with its own replayer: checkpoints, the ticks of
//! the timeline, where findings start, and all findings.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;

use super::checkpoints::{CheckpointedEvaluation, IndexedSamples};
use super::finding_starts::FindingStarts;
use super::recording_samples::RecordingSamples;
use crate::app::evaluation::SampleEvaluator;
use crate::app::program::exit::Failure;
use crate::app::program::{priority, threads};
use crate::findings::{ActiveFindings, Evaluator, Finding};
use crate::recording::Damage;
use crate::state::history::IntervalSummary;
use crate::state::{Event, TimelineTick};

/// How long the thread evaluates before it sends its results.
const BATCH_DURATION: Duration = Duration::from_millis(100);

/// Batches that may wait for the screen.
const QUEUE_CAPACITY: usize = 4;

/// How often the screen is given the results so far.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(400);

/// The results of some samples.
pub struct Batch {
    /// All samples before this index have been evaluated.
    pub until: u64,
    pub checkpoints: Vec<(u64, Evaluator)>,
    pub finding_starts: Vec<u64>,
    /// All damage found so far, where some was found meanwhile
    pub damage: Option<Vec<Damage>>,
    ticks: Vec<(u64, TimelineTick)>,
    summaries: Vec<IntervalSummary>,
    ended: Vec<Finding>,
    /// Findings that hold after the last sample
    active: ActiveFindings,
    /// No sample is left that has not been evaluated.
    complete: bool,
}

/// The running thread, and its results so far. Dropping it ends the thread.
pub struct BackgroundAnalysis {
    batches: channel::Receiver<Batch>,
    growth: mpsc::Sender<()>,
    /// With the index of the sample: the first ones as evaluated here, those behind them from the frame summaries
    ticks: Vec<(u64, TimelineTick)>,
    /// Number of ticks that were evaluated here
    evaluated_ticks: usize,
    ended: Vec<Finding>,
    active: ActiveFindings,
    complete: bool,
    reported: Instant,
}

impl BackgroundAnalysis {
    /// Starts the thread, which takes `samples` for itself.
    pub fn start(samples: RecordingSamples, evaluator: Evaluator) -> Result<BackgroundAnalysis, Failure> {
        let ticks = samples.ticks_from_summaries();
        let (sender, batches) = channel::channel(QUEUE_CAPACITY);
        let (growth, grown) = mpsc::channel();
        let body = move || {
            priority::lower();
            run(samples, evaluator, &sender, &grown);
        };
        threads::spawn("analysis", body)?;
        Ok(BackgroundAnalysis {
            batches,
            growth,
            ticks,
            evaluated_ticks: 0,
            ended: Vec::new(),
            active: Arc::from([]),
            complete: false,
            reported: Instant::now(),
        })
    }

    /// Waits for the next results; forever where none will follow. Cancel-safe.
    pub async fn next(&mut self) -> Batch {
        match self.batches.recv().await {
            Some(batch) => batch,
            None => std::future::pending().await,
        }
    }

    /// Takes the ticks, the summaries and the findings out of a batch. Returns the summaries, and every 400 ms all results so far.
    pub fn add(&mut self, batch: &mut Batch) -> Vec<Event> {
        self.replace_ticks(std::mem::take(&mut batch.ticks));
        self.ended.append(&mut batch.ended);
        self.active = Arc::clone(&batch.active);
        self.complete = batch.complete;
        let summaries = Event::Summaries(std::mem::take(&mut batch.summaries));
        if !self.complete && self.reported.elapsed() < PROGRESS_INTERVAL {
            return vec![summaries];
        }
        self.reported = Instant::now();
        let findings = self.ended.iter().chain(self.active.iter()).cloned().collect();
        vec![summaries, Event::Timeline(self.timeline_ticks()), Event::Findings(findings)]
    }

    /// One tick an interval: as evaluated here, and behind that as the recorder summarized it.
    pub fn timeline_ticks(&self) -> Arc<[TimelineTick]> {
        self.ticks.iter().map(|(_, tick)| tick.clone()).collect()
    }

    /// These were evaluated: they stand in place of the summarized ones before the end of the last.
    fn replace_ticks(&mut self, evaluated: Vec<(u64, TimelineTick)>) {
        let Some((last, _)) = evaluated.last() else { return };
        let end = self.ticks.partition_point(|(index, _)| index <= last);
        let begin = self.evaluated_ticks.min(end);
        self.evaluated_ticks = begin + evaluated.len();
        self.ticks.splice(begin..end, evaluated);
    }

    /// Whether all samples have been evaluated.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The recording has grown.
    pub fn refresh(&mut self) {
        self.complete = false;
        // The thread has ended only where it can no longer read the recording.
        let _ = self.growth.send(());
    }
}

/// The thread: ends when its results are no longer received, or the recording can no longer be read.
fn run(mut samples: RecordingSamples, evaluator: Evaluator, batches: &channel::Sender<Batch>, grown: &mpsc::Receiver<()>) {
    let mut evaluator = SampleEvaluator::new(samples.host(0), evaluator);
    let mut starts = FindingStarts::default();
    let mut damage = samples.replayer.damage().len();
    let mut index = 0;
    loop {
        let mut batch = Batch::new(index);
        let begun = Instant::now();
        let annotations = samples.annotations(index);
        while index < samples.indices().end && begun.elapsed() < BATCH_DURATION {
            if let Some(sample) = samples.sample(index) {
                let evaluation = evaluator.evaluate_for_host(&samples.host(index), sample);
                if CheckpointedEvaluation::is_checkpoint(index) {
                    batch.checkpoints.push((index, evaluator.evaluator().clone()));
                }
                if let Some(evaluation) = evaluation {
                    let (gap, mark) = annotations.before(index);
                    batch.ticks.push((index, TimelineTick::new(&evaluation, gap, mark)));
                    batch.summaries.push(IntervalSummary::for_graphs(&evaluation));
                    starts.observe(index, &evaluation.active);
                    batch.ended.extend(evaluation.ended);
                }
            }
            index += 1;
        }
        batch.until = index;
        batch.finding_starts = starts.drain();
        batch.active = Arc::clone(starts.active());
        batch.complete = index >= samples.indices().end;
        if samples.replayer.damage().len() > damage {
            damage = samples.replayer.damage().len();
            batch.damage = Some(samples.replayer.damage().to_vec());
        }
        let complete = batch.complete;
        if batches.blocking_send(batch).is_err() || complete && (grown.recv().is_err() || samples.replayer.refresh().is_err()) {
            return;
        }
    }
}

impl Batch {
    fn new(until: u64) -> Batch {
        Batch {
            until,
            checkpoints: Vec::new(),
            finding_starts: Vec::new(),
            damage: None,
            ticks: Vec::new(),
            summaries: Vec::new(),
            ended: Vec::new(),
            active: Arc::from([]),
            complete: false,
        }
    }
}
