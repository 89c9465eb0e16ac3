//! The samples behind the screens, their evaluations and the current position: one interface for live sampling, a pipe, a recording
//! that is still being written and a complete one.
//!
//! Samples are in a `Store`: a ring in memory, or files. A position is an index into it. Samples that arrive live or from a pipe
//! are evaluated at once. Those of a file are evaluated by a background thread; a position that it has not reached is evaluated on
//! request.

mod background_analysis;
mod background_jobs;
pub mod checkpoints;
mod file_input;
mod finding_starts;
mod graph_intervals;
mod live_input;
mod navigation;
mod playback;
mod recorder_control;
mod recording_samples;
mod refinement;
pub mod sample_source;
mod span;
mod span_totals;
mod store;
#[cfg(test)]
mod synthetic;
mod task_past;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::config::Settings;
use crate::app::disk_jobs::{ClosingReport, DiskJobs};
use crate::app::frame_schedule::sleep_until_some;
use crate::app::live_pipeline::LivePipeline;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recorder;
use crate::app::time_range;
use crate::cli;
use crate::findings::Evaluator;
use crate::kernel;
use crate::recording::{Meta, Replayer};
use crate::report::formatting::pluralize;
use crate::state::history::MAX_INTERVALS;
use crate::state::{Direction, Effect, Event, Notice};
use background_analysis::{BackgroundAnalysis, Batch};
use background_jobs::JobResult;
use checkpoints::{CheckpointedEvaluation, IndexedSamples};
use file_input::FileInput;
use finding_starts::FindingStarts;
use graph_intervals::{GraphIntervals, KnownIntervals};
use live_input::LiveInput;
use playback::PlaybackTimer;
use recording_samples::RecordingSamples;
use refinement::Refinement;
use sample_source::{SampleSource, SourceEvent};
use span_totals::SpanTotals;
use store::Store;
use task_past::TaskPast;

/// How long intervals are evaluated in one go before keys and frames have their turn.
const SLICE: Duration = Duration::from_millis(6);

pub struct Timeline {
    source: SampleSource,
    store: Store,
    evaluation: CheckpointedEvaluation,
    finding_starts: FindingStarts,
    position: Position,
    /// The second step of the last move in time
    refinement: Option<Refinement>,
    known_intervals: KnownIntervals,
    graph_intervals: GraphIntervals,
    task_past: TaskPast,
    /// Where a span begins, by the sample that ends its interval
    span_anchor: Option<u64>,
    span_totals: Option<SpanTotals>,
    /// Saving spans
    jobs: DiskJobs<Notice>,
    /// Events that the screen has not been given yet
    queued_events: Vec<Event>,
}

/// The interval on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The newest one, as it arrives
    Follow,
    /// The one that ends with the sample of this index
    At(u64),
}

/// Evaluates intervals until a deadline, and returns the results so far.
type SlicedWork = fn(&mut Timeline, std::time::Instant) -> Vec<Event>;

/// What `next` waits for.
enum Input {
    Source(SourceEvent),
    Job(JobResult),
    SavedSpan(Notice),
    Analysis(Batch),
    /// The next interval of the recording is due
    Playback,
    /// Nothing else is due: the next slice of what the screen lacks
    SlicedWork,
}

impl Timeline {
    fn new(source: SampleSource, store: Store, evaluation: CheckpointedEvaluation, position: Position) -> Timeline {
        Timeline {
            source,
            store,
            evaluation,
            finding_starts: FindingStarts::default(),
            position,
            refinement: None,
            known_intervals: KnownIntervals::new(MAX_INTERVALS),
            graph_intervals: GraphIntervals::default(),
            task_past: TaskPast::default(),
            span_anchor: None,
            span_totals: None,
            jobs: DiskJobs::default(),
            queued_events: Vec::new(),
        }
    }

    /// Samples as they arrive, from the running machine or a pipe. `history`: how long they are kept in memory.
    pub fn live(source: SampleSource, meta: Meta, pipeline: LivePipeline, history: Duration) -> Timeline {
        let evaluation = CheckpointedEvaluation::new(pipeline.evaluator().clone());
        let (live, problem) = LiveInput::new(pipeline, meta, history, matches!(source, SampleSource::Sampler(_)));
        let mut timeline = Timeline {
            known_intervals: KnownIntervals::new(MAX_INTERVALS / 2),
            ..Timeline::new(source, Store::Live(live), evaluation, Position::Follow)
        };
        timeline.queue_notices(problem.into_iter().collect());
        timeline
    }

    /// A recording, played from `--at`, or else from its beginning; one that is being written from its end.
    pub fn open(options: &cli::Replay, zone: &TimeZone, settings: &Settings) -> Result<Timeline, Failure> {
        let &cli::Replay { ref file, ref at, ref range, speed, .. } = options;
        let open = || Replayer::open(file).map_err(recorder::failure);
        let mut replayer = open()?;
        if !replayer.is_growing() {
            replayer.require_sample().map_err(recorder::failure)?;
        }
        let at = at.as_ref().map(|at| time_range::time_spec(at, &replayer, file)).transpose()?;
        let samples_in_range = time_range::between(&replayer, range, file, zone)?;
        replayer.restrict_to(samples_in_range.clone());
        if replayer.len() < 2 && !replayer.is_growing() {
            let why = format!("it has {}, and an interval needs two", pluralize(replayer.len() as u64, "sample"));
            return Err(Failure::new(Exit::Damaged, format!("cannot replay {}", quoted(file)), why, ""));
        }
        let host = replayer.meta().host.clone();
        let baselines = recorder::baselines(replayer.section(recorder::BASELINES_SECTION));
        let evaluator = Evaluator::new(baselines).with_rule_config(settings.rule_config_for(&host));
        // A replayer of its own: it decodes the samples in order, while the screen moves in time.
        let mut samples = RecordingSamples::new(open()?);
        samples.replayer.restrict_to(samples_in_range);
        let analysis = BackgroundAnalysis::start(samples, evaluator.clone())?;
        let playback = PlaybackTimer::new(speed, replayer.meta().interval);
        let source = if replayer.is_growing() { SampleSource::growing_file() } else { SampleSource::Closed };
        let samples = RecordingSamples::new(replayer);
        let store = Store::File(FileInput { samples, playback, analysis, path: file.clone() });
        let mut timeline = Timeline::new(source, store, CheckpointedEvaluation::new(evaluator), Position::At(1));
        timeline.queue_opening_events();
        let start = timeline.start_index(at, zone);
        let shown = timeline.seek(start, Direction::Forward);
        timeline.queued_events.extend(shown);
        Ok(timeline)
    }

    /// Shows the lines as soon as there is a screen.
    pub fn queue_notices(&mut self, lines: Vec<String>) {
        self.queued_events.extend(lines.into_iter().map(|line| Event::Notice(Notice::failure(line))));
    }

    /// The nominal time between samples of a recording.
    pub fn interval(&self) -> Duration {
        match &self.store {
            Store::Live(_) => Duration::ZERO,
            Store::File(file) => file.samples.replayer.meta().interval,
        }
    }

    /// Waits for the next events; forever when none will follow. Cancel-safe.
    pub async fn next(&mut self) -> Vec<Event> {
        loop {
            if !self.queued_events.is_empty() {
                return std::mem::take(&mut self.queued_events);
            }
            let due = self.next_due();
            let has_pending_work = self.pending_work().is_some();
            let Timeline { source, store, jobs, .. } = self;
            let input = tokio::select! {
                notice = jobs.next() => Input::SavedSpan(notice),
                input = next_input(source, store) => input,
                () = sleep_until_some(due) => Input::Playback,
                // Keys come first, and what has arrived.
                () = tokio::task::yield_now(), if has_pending_work => Input::SlicedWork,
            };
            let events = self.respond(input);
            self.queued_events.extend(events);
        }
    }

    fn respond(&mut self, input: Input) -> Vec<Event> {
        match input {
            Input::Source(SourceEvent::PollFile) => self.poll_growth(),
            Input::Source(SourceEvent::Ended(why)) => vec![Event::SourceEnded(why)],
            Input::Source(SourceEvent::Notice(text)) => vec![Event::Notice(Notice::new(text))],
            Input::Source(event) => self.add_live(event),
            Input::Job(result) => match &mut self.store {
                Store::Live(live) => live.recorder.job_done(result),
                Store::File(_) => Vec::new(),
            },
            Input::SavedSpan(notice) => vec![Event::Notice(notice)],
            Input::Analysis(batch) => self.add_analysis(batch),
            Input::Playback => {
                let mut events = self.play();
                // Where evaluation takes longer than playback the next sample is always due.
                events.extend(self.run_slice());
                events
            }
            Input::SlicedWork => self.run_slice(),
        }
    }

    /// What the screen lacks and takes long to evaluate, the most urgent first: each is completed before the next one begins.
    fn pending_work(&self) -> Option<SlicedWork> {
        let pending: [(bool, SlicedWork); 4] = [
            (self.refinement.is_some(), Timeline::refine),
            (self.has_span_to_add(), Timeline::add_to_span),
            (self.has_task_past_to_add(), Timeline::add_task_past),
            (self.has_graph_intervals_to_add(), Timeline::add_graph_intervals),
        ];
        pending.into_iter().find_map(|(is_pending, work)| is_pending.then_some(work))
    }

    /// The next slice of it.
    fn run_slice(&mut self) -> Vec<Event> {
        self.pending_work().map(|work| work(self, std::time::Instant::now() + SLICE)).unwrap_or_default()
    }

    /// Carries out an effect; the returned events are its result.
    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::Step(_)
            | Effect::StepTime(_)
            | Effect::JumpTo(_)
            | Effect::GoToFinding(_)
            | Effect::BeginSpan
            | Effect::EndSpan
            | Effect::NextFinding
            | Effect::PreviousFinding
            | Effect::Pause(_)
            | Effect::Speed(_) => return self.navigate(effect),
            Effect::ChangeInterval(milliseconds) => self.source.set_interval(Duration::from_millis(milliseconds)),
            Effect::SaveSpan => return self.save_span(),
            Effect::Save | Effect::ToggleRecord => {
                let first = self.store.sample(self.store.indices().start);
                if let Store::Live(live) = &mut self.store {
                    // The baselines before the oldest sample in memory: a replay learns from the samples again.
                    let oldest = self.evaluation.oldest_checkpoint().unwrap_or(live.pipeline.evaluator());
                    let baselines = first.map(|first| oldest.baselines_for_recording(&first)).unwrap_or_default();
                    return match effect {
                        Effect::Save => live.recorder.save(&live.samples.ring, &baselines),
                        _ => live.recorder.toggle(&live.samples.ring, &baselines),
                    };
                }
            }
            Effect::Mark(text) => return self.add_live(SourceEvent::Mark(kernel::now().into(), text)),
            Effect::Nothing
            | Effect::Redraw
            | Effect::Quit
            | Effect::Leave
            | Effect::Suspend
            | Effect::CopySelection
            | Effect::CopyCommand
            | Effect::SaveScreen
            | Effect::ChooseColumns
            | Effect::SaveChoices
            | Effect::SendSignal { .. } => {}
        }
        Vec::new()
    }

    /// Ends a recording and writes baselines. A damaged recording is a failure.
    pub fn close(self, report: &mut ClosingReport) {
        self.jobs.close(report);
        match self.store {
            Store::File(file) => file.samples.damage_failure().into_iter().for_each(|failure| report.fail(failure)),
            Store::Live(live) => live.close(report),
        }
    }

    /// A live sample, gap or mark.
    fn add_live(&mut self, event: SourceEvent) -> Vec<Event> {
        let Timeline { store: Store::Live(live), evaluation, finding_starts, .. } = self else { return Vec::new() };
        match event {
            SourceEvent::Sample(sample) => {
                let mut events = live.add_sample(&sample, evaluation, finding_starts);
                if self.position != Position::Follow {
                    events.extend(self.position_event());
                }
                events
            }
            SourceEvent::Gap(gap) => live.add_gap(&gap),
            SourceEvent::Mark(at, text) => {
                let notice = live.add_mark(at, &text);
                vec![Event::Marks(self.store.marks()), Event::Notice(notice)]
            }
            SourceEvent::Notice(_) | SourceEvent::PollFile | SourceEvent::Ended(_) => Vec::new(),
        }
    }
}

async fn next_input(source: &mut SampleSource, store: &mut Store) -> Input {
    match store {
        Store::Live(live) => tokio::select! {
            result = live.recorder.next_result() => Input::Job(result),
            Some((at, text)) = live.received_marks.recv() => Input::Source(SourceEvent::Mark(at, text)),
            event = source.next() => Input::Source(event),
        },
        Store::File(file) => tokio::select! {
            batch = file.analysis.next() => Input::Analysis(batch),
            event = source.next() => Input::Source(event),
        },
    }
}
