//! Samples as they arrive: passes them to the evaluation, the recorder and the ring in memory.

use std::time::Duration;

use tokio::sync::mpsc;

use super::checkpoints::CheckpointedEvaluation;
use super::finding_starts::FindingStarts;
use super::recorder_control::RecorderControl;
use super::store::RingSamples;
use crate::app::disk_jobs::ClosingReport;
use crate::app::live_pipeline::LivePipeline;
use crate::app::mark_socket::MarkSocket;
use crate::app::program::allocator;
use crate::app::recorder;
use crate::app::sampling::TimedSample;
use crate::recording::{Gap, Meta, Timestamp};
use crate::report::formatting::pluralize;
use crate::sample::Instant;
use crate::state::{Event, Notice};

/// Marks from other processes that may wait for the screen.
const MARK_QUEUE_CAPACITY: usize = 16;

/// Samples between two times that free memory is returned, the first time after the first slow readings.
const TRIM_EVERY_SAMPLES: u64 = 64;
const FIRST_TRIM_SAMPLE: u64 = 8;

/// A shorter time without samples is not reported.
const MIN_REPORTED_GAP_SECONDS: f64 = 2.0;

pub struct LiveInput {
    pub samples: RingSamples,
    pub pipeline: LivePipeline,
    pub recorder: RecorderControl,
    pub received_marks: mpsc::Receiver<(Timestamp, String)>,
    /// Accepts marks from other processes until it is dropped
    _mark_socket: Option<MarkSocket>,
    last_sample_at: Option<Instant>,
}

impl LiveInput {
    /// `history`: how long samples are kept in memory. `accept_marks`: from `stalltop mark` in other shells. The line says why it
    /// cannot.
    pub fn new(pipeline: LivePipeline, meta: Meta, history: Duration, accept_marks: bool) -> (LiveInput, Option<String>) {
        let (sender, received_marks) = mpsc::channel(MARK_QUEUE_CAPACITY);
        let accept = move |at, text| sender.try_send((at, text)).map_err(|_| "too many marks are waiting");
        let (socket, problem) = match accept_marks.then(|| MarkSocket::bind(accept)) {
            Some(Err(problem)) => (None, Some(problem)),
            socket => (socket.and_then(Result::ok), None),
        };
        let samples = RingSamples::new(&meta, history);
        let recorder = RecorderControl::new(meta);
        (LiveInput { samples, pipeline, recorder, received_marks, _mark_socket: socket, last_sample_at: None }, problem)
    }

    /// Evaluates the sample, records it and keeps it in memory. The recorder comes before the screen, which may be slow.
    pub fn add_sample(
        &mut self,
        sample: &TimedSample,
        checkpoints: &mut CheckpointedEvaluation,
        finding_starts: &mut FindingStarts,
    ) -> Vec<Event> {
        let is_first = self.last_sample_at.is_none();
        let evaluation = self.pipeline.evaluate(sample.sample.clone());
        let summary = recorder::frame_summary(evaluation.as_ref());
        self.recorder.offer(sample, summary);
        let at = sample.sample.at;
        let missed = self.missed_notice(sample.missed, at).filter(|_| sample.left_out.is_none());
        let ring = &mut self.samples.ring;
        ring.add_missed(sample.missed, at.into());
        let kept = ring.push_with_summary(&sample.sample, summary);
        if kept && let Some(index) = (ring.evicted() + ring.len() as u64).checked_sub(1) {
            let is_checkpoint = CheckpointedEvaluation::is_checkpoint(index);
            checkpoints.extend(index + 1, is_checkpoint.then(|| (index, self.pipeline.evaluator().clone())));
            checkpoints.discard_before(ring.evicted());
            if let Some(evaluation) = &evaluation {
                finding_starts.observe(index, &evaluation.active);
            }
            // The first sample in memory ends no interval there.
            finding_starts.discard_before(ring.evicted() + 1);
            if index % TRIM_EVERY_SAMPLES == FIRST_TRIM_SAMPLE {
                allocator::trim();
            }
        }
        let failed = self.pipeline.write_periodically().map(Notice::failure);
        let mut events: Vec<Event> = is_first.then_some(Event::FirstSample).into_iter().collect();
        events.extend(missed.map(Event::Notice));
        events.extend(sample.left_out.iter().map(|line| Event::Notice(Notice::failure(line.as_ref()))));
        events.extend(evaluation.map(Event::Evaluation));
        events.extend(self.recorder.report());
        events.extend(failed.map(Event::Notice));
        events
    }

    /// Samples that the recorder of a pipe lost.
    pub fn add_gap(&mut self, gap: &Gap) -> Vec<Event> {
        self.samples.ring.add_gap(gap);
        self.recorder.gap(gap);
        let lost = pluralize(gap.lost_samples, "sample");
        vec![Event::Notice(Notice::new(format!("{lost} lost: {}", gap.reason.description())))]
    }

    /// Puts a mark behind the newest sample, in memory and in the recording.
    pub fn add_mark(&mut self, at: Timestamp, text: &str) -> Notice {
        self.samples.ring.add_mark(at, text);
        match self.recorder.mark(at, text) {
            Ok(()) => Notice::new(format!("marked: {text}")),
            Err(why) => Notice::failure(format!("marked in memory, and not in the recording: {why}")),
        }
    }

    /// Writes what was learned, ends the recording.
    pub fn close(self, report: &mut ClosingReport) {
        self.pipeline.finish().into_iter().for_each(|line| report.add_line(line));
        self.recorder.close(report);
    }

    fn missed_notice(&mut self, missed: u64, at: Instant) -> Option<Notice> {
        let seconds = at.seconds_since(self.last_sample_at.replace(at)?);
        (missed > 0 && seconds >= MIN_REPORTED_GAP_SECONDS).then(|| {
            let missed = pluralize(missed, "sample");
            Notice::failure(format!("{missed} missed in {seconds:.0} s: stalltop was stopped, or got no CPU"))
        })
    }
}
