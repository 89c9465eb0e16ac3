//! Samples as they come, from the running machine or down a pipe: each is recorded, kept for a while, and judged.
//! The last minutes can be walked through.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::background_analysis::has_new_finding;
use super::background_jobs::{BackgroundJobs, JobResult, ShutdownStep};
use super::checkpoints::{CheckpointedEvaluation, IndexedSamples};
use super::sample_source::{SampleSource, SourceEvent};
use crate::app::evaluation::{BaselineLearner, SampleEvaluator};
use crate::app::program::allocator;
use crate::app::program::stdio;
use crate::app::recording::mark_socket::MarkSocket;
use crate::app::recording::{self, Session};
use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::findings::{ActiveFindings, Evaluation, Evaluator};
use crate::kernel;
use crate::recording::{FrameSummary, Gap, GapReason, HistoryRing, Meta, RecorderStatus, Timestamp};
use crate::report::formatting::pluralize;
use crate::sample::{Host, Instant, Sample};
use crate::state::{self, Effect, Event, Notice, Position};

/// How much is kept in memory at most, however long it is to go back.
const MAX_HISTORY_BYTES: usize = 16 << 20;
/// Samples and marks that wait for a recording to begin; its disk may be slow.
const MAX_PENDING_RECORDS: usize = 64;
/// Marks of other shells that wait to be seen.
const MARK_QUEUE_CAPACITY: usize = 16;

/// How long the end of the program waits for what was to be saved just before it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Samples after which free memory is given back, for the first time when all is known that takes a while to be read.
const TRIM_EVERY_SAMPLES: u64 = 64;
const FIRST_TRIM_SAMPLE: u64 = 8;

/// Intervals that lead to one that was gone to, for the graphs.
const GRAPH_LEAD_INTERVALS: u64 = 60;

/// Intervals that are searched at once for where a finding began.
const FINDING_SEARCH_CHUNK: u64 = 64;

pub struct Live {
    source: SampleSource,
    meta: Meta,
    baseline_learner: BaselineLearner,
    evaluator: SampleEvaluator,
    checkpoints: CheckpointedEvaluation,
    history: LiveHistory,
    /// The interval that is shown where it is not the newest
    shown_index: Option<u64>,
    session: Option<Session>,
    /// What came since a recording was asked for, while it is about to begin
    pending_records: Option<Vec<PendingRecord>>,
    /// Where other shells leave marks; closed when this ends
    _mark_socket: Option<MarkSocket>,
    received_marks: mpsc::Receiver<(Timestamp, String)>,
    jobs: BackgroundJobs,
    /// What was last said of the recorder
    reported_recorder: state::RecorderState,
    /// Notices that nobody has seen yet
    notices: Vec<Notice>,
    /// When the last sample was taken
    last_sample_at: Option<Instant>,
}

/// The shortest time without a sample that is told.
const MIN_REPORTED_GAP_SECONDS: f64 = 2.0;

impl Live {
    /// `history`: how long what came is kept.
    pub fn new(
        spring: SampleSource,
        meta: Meta,
        judge: Evaluator,
        lessons: BaselineLearner,
        notices: Vec<String>,
        history: Duration,
    ) -> Live {
        let host = Arc::new(meta.host.clone());
        let samples = history.as_nanos().div_ceil(meta.interval.as_nanos().max(1));
        let samples = usize::try_from(samples).unwrap_or(usize::MAX).max(2);
        let (sender, left) = mpsc::channel(MARK_QUEUE_CAPACITY);
        let take_in = move |at, text| sender.try_send((at, text)).map_err(|_| "too many marks are waiting");
        // Without one, whoever knocks is told that nobody is there.
        let door = matches!(spring, SampleSource::Live(_)).then(|| MarkSocket::bind(take_in).ok()).flatten();
        Live {
            source: spring,
            evaluator: SampleEvaluator::new(Arc::clone(&host), judge),
            baseline_learner: lessons,
            checkpoints: CheckpointedEvaluation::default(),
            history: LiveHistory { ring: HistoryRing::new(samples, MAX_HISTORY_BYTES, meta.redaction), host },
            meta,
            shown_index: None,
            session: None,
            pending_records: None,
            _mark_socket: door,
            received_marks: left,
            jobs: BackgroundJobs::default(),
            reported_recorder: state::RecorderState::Off,
            notices: notices.into_iter().map(Notice::failure).collect(),
            last_sample_at: None,
        }
    }

    pub async fn next(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.notices.drain(..).map(Event::Notice).collect();
        if !events.is_empty() {
            return events;
        }
        let drop = tokio::select! {
            Some((at, text)) = self.received_marks.recv() => SourceEvent::Mark(at, text),
            done = self.jobs.next() => {
                self.job_done(done, &mut events);
                self.report_recorder(&mut events);
                return events;
            }
            drop = self.source.next() => drop,
        };
        match drop {
            SourceEvent::Sample(taken) => self.ingest(taken, &mut events),
            SourceEvent::Mark(at, text) => events.extend(self.mark(at, &text)),
            SourceEvent::Gap(gap) => {
                let lost = pluralize(gap.lost_samples, "sample");
                events.push(Event::Notice(Notice::new(format!("{lost} lost: {}", gap.reason.description()))));
                self.history.ring.add_gap(&gap);
                if let Some(session) = &mut self.session {
                    session.gap(&gap);
                }
                self.queue_for_session(|| PendingRecord::Gap(gap));
            }
            SourceEvent::Notice(text) => events.push(Event::Notice(Notice::new(text))),
            SourceEvent::Ended(why) => events.push(Event::SourceEnded(why)),
        }
        events
    }

    fn ingest(&mut self, taken: TimedSample, events: &mut Vec<Event>) {
        if let Some(baselines) = self.baseline_learner.poll_changes() {
            self.evaluator.set_baselines(baselines);
        }
        let judged = self.evaluator.evaluate(Arc::clone(&taken.sample));
        let digest = recording::frame_summary(judged.as_ref());
        if let Some(session) = &mut self.session {
            session.offer(taken.clone(), digest);
        }
        self.queue_for_session(|| PendingRecord::Sample(taken.clone(), digest));
        let TimedSample { sample, missed } = taken;
        self.history.ring.add_missed(missed, sample.at.into());
        events.extend(self.missed_notice(missed, sample.at).map(Event::Notice));
        let kept = self.history.ring.push_with_summary(&sample, digest);
        if kept && let Some(number) = self.history.indices().end.checked_sub(1) {
            self.checkpoints.save_checkpoint(number, &self.evaluator);
            self.checkpoints.discard_before(self.history.indices().start);
            if number % TRIM_EVERY_SAMPLES == FIRST_TRIM_SAMPLE {
                allocator::trim();
            }
        }
        if let Some(judged) = &judged {
            self.baseline_learner.observe(judged);
        }
        events.extend(judged.map(Event::Evaluation));
        if self.shown_index.is_some() {
            events.extend(self.position().map(Event::Position));
        }
        self.report_recorder(events);
        let failed = self.baseline_learner.write_periodically();
        let words = failed.map(|why| Notice::failure(format!("what was learned of disks is not kept: {why}")));
        events.extend(words.map(Event::Notice));
    }

    /// What is said of samples that should have been there before this one; a short hiccup is not worth a word.
    fn missed_notice(&mut self, missed: u64, at: Instant) -> Option<Notice> {
        let seconds = at.seconds_since(self.last_sample_at.replace(at)?);
        (missed > 0 && seconds >= MIN_REPORTED_GAP_SECONDS).then(|| {
            let many = pluralize(missed, "sample");
            Notice::failure(format!("{many} missed in {seconds:.0} s: stalltop was stopped, or got no CPU"))
        })
    }

    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::ChangeInterval(milliseconds) => {
                self.source.set_interval(Duration::from_millis(milliseconds));
                Vec::new()
            }
            Effect::Pause(true) => {
                self.shown_index = self.newest_index();
                Vec::new()
            }
            Effect::Pause(false) => {
                self.shown_index = None;
                Vec::new()
            }
            Effect::Step(by) => self.seek(|at, _| Some(at.saturating_add_signed(by))),
            Effect::StepTime(seconds) => self.seek(|at, kept| {
                let from = kept.realtime_ns(at)?;
                let to = kept.index_at_time(from.saturating_add(seconds.saturating_mul(1_000_000_000)))?;
                Some(if seconds > 0 { to.max(at + 1) } else { to.min(at.saturating_sub(1)) })
            }),
            // The interval that holds a moment ends with the first sample after it.
            Effect::JumpTo(realtime_ns) => self.seek(|_, kept| kept.index_at_time(realtime_ns).map(|number| number + 1)),
            Effect::NextFinding => self.seek_to_finding(true),
            Effect::PreviousFinding => self.seek_to_finding(false),
            Effect::Save => self.save(),
            Effect::ToggleRecord => self.toggle_recording(),
            Effect::Mark(text) => self.mark(kernel::now().into(), &text),
            Effect::Nothing | Effect::Redraw | Effect::Quit | Effect::Suspend | Effect::Speed(_) => Vec::new(),
        }
    }

    /// What must be kept is kept; with a line where that did not succeed.
    pub fn close(mut self) -> Option<String> {
        if let Some(line) = self.baseline_learner.write_before_exit() {
            stdio::print_stderr(&line);
        }
        let failed = self.session.take().and_then(finish_session);
        self.wait_for_jobs().or(failed)
    }

    /// Waits for what was begun at the last moment (`w`, then `q`): with a line where that did not succeed.
    fn wait_for_jobs(&mut self) -> Option<String> {
        let mut failed = None;
        loop {
            let said = match self.jobs.next_within(SHUTDOWN_TIMEOUT) {
                ShutdownStep::JobDone(JobResult::Notice(notice) | JobResult::RecordingFailed(notice)) => notice,
                ShutdownStep::JobDone(JobResult::RecordingStarted(session)) => {
                    failed = finish_session(self.write_pending(*session)).or(failed);
                    continue;
                }
                ShutdownStep::AllDone => return failed,
                ShutdownStep::TimedOut => return Some("what was to be saved is not safe: its disk does not answer".to_owned()),
            };
            if said.failure {
                failed = Some(said.text);
            } else {
                stdio::print_stderr(&said.text);
            }
        }
    }

    fn newest_index(&self) -> Option<u64> {
        self.history.indices().end.checked_sub(1)
    }

    /// Shows the interval that `to` names, given the one that is shown; as near to it as there is one.
    fn seek(&mut self, to: impl FnOnce(u64, &LiveHistory) -> Option<u64>) -> Vec<Event> {
        let Range { start, end } = self.history.indices();
        let Some(newest) = end.checked_sub(1).filter(|&newest| newest > start) else { return Vec::new() };
        let at = self.shown_index.unwrap_or(newest);
        let Some(to) = to(at, &self.history) else { return Vec::new() };
        let to = to.clamp(start + 1, newest);
        self.shown_index = Some(to);
        self.moved_events(to)
    }

    fn moved_events(&mut self, to: u64) -> Vec<Event> {
        let first = to.saturating_sub(GRAPH_LEAD_INTERVALS).max(self.history.indices().start + 1);
        let before: Vec<Evaluation> =
            (first..to).filter_map(|number| self.checkpoints.evaluation_at(&mut self.history, number)).collect();
        let Some(shown) = self.checkpoints.evaluation_at(&mut self.history, to) else { return Vec::new() };
        let mut events = vec![Event::SeekCompleted { evaluation: shown, preceding: before }];
        events.extend(self.position().map(Event::Position));
        events
    }

    fn position(&self) -> Option<Position> {
        let Range { start, end } = self.history.indices();
        let at = self.shown_index.or(self.newest_index())?;
        let when = |number: u64| {
            let moment = self.history.ring.timestamp(usize::try_from(number.checked_sub(start)?).ok()?)?;
            Some(Instant { boottime_ns: moment.boottime_ns, monotonic_ns: moment.boottime_ns, realtime_ns: moment.realtime_ns })
        };
        Some(Position {
            index: usize::try_from(at.saturating_sub(start + 1)).ok()?,
            length: usize::try_from(end.saturating_sub(start + 1)).ok()?,
            first: when(start + 1)?,
            last: when(end - 1)?,
        })
    }

    /// To the beginning of the next or the previous finding among the minutes that are kept.
    fn seek_to_finding(&mut self, forward: bool) -> Vec<Event> {
        let Range { start, end } = self.history.indices();
        let Some(at) = self.shown_index.or(self.newest_index()) else { return Vec::new() };
        // Backwards in pieces: what lies near is found without judging all that is in memory anew.
        let earlier = |end: u64| end.saturating_sub(FINDING_SEARCH_CHUNK).max(start + 1);
        let pieces = std::iter::successors(Some(at), |&end| (end > start + 1).then(|| earlier(end)));
        let to = match forward {
            true => self.finding_starts(at + 1..end).next(),
            false => pieces.map(|end| earlier(end)..end).find_map(|piece| self.finding_starts(piece).last()),
        };
        match to {
            Some(to) => self.seek(|_, _| Some(to)),
            None => vec![Event::Notice(Notice::new(if forward { "no later finding" } else { "no earlier finding in memory" }))],
        }
    }

    /// The samples of these numbers that end intervals with which something began, in order.
    fn finding_starts(&mut self, numbers: Range<u64>) -> impl Iterator<Item = u64> {
        let before = numbers.start.checked_sub(1).and_then(|before| self.checkpoints.evaluation_at(&mut self.history, before));
        let mut before: ActiveFindings = before.map_or_else(|| Arc::from([]), |judged| judged.active);
        numbers.filter(move |&number| {
            let Some(judged) = self.checkpoints.evaluation_at(&mut self.history, number) else { return false };
            let begins = has_new_finding(&judged.active, &before);
            before = judged.active;
            begins
        })
    }

    /// Those that were known when what is in memory began: a replay learns again what was learned since.
    fn baselines_at_start(&self) -> &Baselines {
        self.checkpoints.oldest_checkpoint().map_or(self.baseline_learner.initial_baselines(), |judge| judge.baselines())
    }

    fn save(&mut self) -> Vec<Event> {
        if self.history.ring.is_empty() {
            return vec![Event::Notice(Notice::failure("nothing to save yet: no sample has come"))];
        }
        let mut bytes = Vec::new();
        let sections = recording::sections(self.baselines_at_start());
        match self.history.ring.write_to(&mut bytes, &self.meta, &sections) {
            Ok(_) => {
                self.jobs.save(recording::saved_name(&self.meta.host), bytes, self.history.ring.len());
                Vec::new()
            }
            Err(error) => vec![Event::Notice(Notice::failure(error.to_string()))],
        }
    }

    /// Into memory, and into the recording that is being made.
    fn mark(&mut self, at: Timestamp, text: &str) -> Vec<Event> {
        self.history.ring.add_mark(at, text);
        let recorded = self.session.as_mut().map_or(Ok(()), |session| session.mark(at, text));
        self.queue_for_session(|| PendingRecord::Mark(at, text.to_owned()));
        let marks =
            self.history.ring.marks().map(|mark| state::Mark { realtime_ns: mark.at.realtime_ns, text: mark.text.clone() });
        let notice = match recorded {
            Ok(()) => Notice::new(format!("marked: {text}")),
            Err(why) => Notice::failure(format!("marked in memory, and not in the recording: {why}")),
        };
        vec![Event::Marks(marks.collect()), Event::Notice(notice)]
    }

    /// Keeps it for a recording that is about to begin; of what its disk is too slow for it learns how much it was.
    fn queue_for_session(&mut self, what: impl FnOnce() -> PendingRecord) {
        let Some(waiting) = &mut self.pending_records else { return };
        let what = what();
        if waiting.len() < MAX_PENDING_RECORDS {
            return waiting.push(what);
        }
        let PendingRecord::Sample(taken, _) = what else { return };
        let (lost, at) = (taken.missed.saturating_add(1), taken.sample.at.into());
        match waiting.last_mut() {
            Some(PendingRecord::Gap(gap)) if gap.reason == GapReason::DiskTooSlow => {
                gap.lost_samples = gap.lost_samples.saturating_add(lost);
                gap.to = at;
            }
            _ => waiting.push(PendingRecord::Gap(Gap {
                samples_before: 0,
                lost_samples: lost,
                from: at,
                to: at,
                reason: GapReason::DiskTooSlow,
            })),
        }
    }

    fn toggle_recording(&mut self) -> Vec<Event> {
        if let Some(session) = self.session.take() {
            self.jobs.stop_recording(session);
            self.reported_recorder = state::RecorderState::Off;
            return vec![Event::Recorder(state::RecorderState::Off)];
        }
        if self.pending_records.is_some() {
            return vec![Event::Notice(Notice::failure("the recording is about to begin: its disk has not answered yet"))];
        }
        self.pending_records = Some(Vec::new());
        let name = recording::default_name(&self.meta.host);
        let baselines = self.baselines_at_start().clone();
        self.jobs.start_recording(self.history.ring.backlog(), name, self.meta.clone(), baselines);
        Vec::new()
    }

    /// What a thread of its own has done meanwhile.
    fn job_done(&mut self, done: JobResult, events: &mut Vec<Event>) {
        match done {
            JobResult::RecordingStarted(session) => self.session = Some(self.write_pending(*session)),
            JobResult::RecordingFailed(notice) => {
                self.pending_records = None;
                events.push(Event::Notice(notice));
            }
            JobResult::Notice(notice) => events.push(Event::Notice(notice)),
        }
    }

    /// Gives a recording that has just begun what came meanwhile.
    fn write_pending(&mut self, mut session: Session) -> Session {
        for waiting in self.pending_records.take().unwrap_or_default() {
            match waiting {
                PendingRecord::Sample(taken, digest) => session.offer(taken, digest),
                PendingRecord::Gap(gap) => session.gap(&gap),
                PendingRecord::Mark(at, text) => {
                    // It is in memory, and was told to be there.
                    let _ = session.mark(at, &text);
                }
            }
        }
        session
    }

    fn report_recorder(&mut self, events: &mut Vec<Event>) {
        let Some(session) = &mut self.session else { return };
        events.extend(session.status_change().map(|news| Event::Notice(Notice::failure(news))));
        let now = match session.status() {
            RecorderStatus::Failed { reason: why, .. } => state::RecorderState::Failed(why),
            RecorderStatus::Paused { reason: why, progress: kept } => {
                state::RecorderState::Failed(format!("paused: {why}; {} safe", pluralize(kept.samples, "sample")))
            }
            RecorderStatus::Recording(kept) | RecorderStatus::LimitReached(kept) | RecorderStatus::Finished(kept) => {
                state::RecorderState::On { file: session.location(), bytes: kept.bytes }
            }
        };
        if now != self.reported_recorder {
            self.reported_recorder = now.clone();
            events.push(Event::Recorder(now));
        }
    }
}

/// Ends a recording with the program: with a line where it is not whole.
fn finish_session(session: Session) -> Option<String> {
    let ended = session.finish_patiently();
    let failure = ended.failure();
    if failure.is_none() {
        stdio::print_stderr(&ended.summary());
    }
    failure
}

/// What came while a recording was about to begin.
enum PendingRecord {
    Sample(TimedSample, FrameSummary),
    Gap(Gap),
    Mark(Timestamp, String),
}

/// The minutes in memory.
struct LiveHistory {
    ring: HistoryRing,
    host: Arc<Host>,
}

impl LiveHistory {
    fn realtime_ns(&self, number: u64) -> Option<i64> {
        let index = number.checked_sub(self.ring.evicted())?;
        self.ring.timestamp(usize::try_from(index).ok()?).map(|moment| moment.realtime_ns)
    }

    /// The last sample at that time or before; the first where there is none.
    fn index_at_time(&self, realtime_ns: i64) -> Option<u64> {
        let numbers = self.indices();
        let before = numbers.clone().rev().find(|&number| self.realtime_ns(number).is_some_and(|at| at <= realtime_ns));
        before.or((!numbers.is_empty()).then_some(numbers.start))
    }
}

impl IndexedSamples for LiveHistory {
    fn indices(&self) -> Range<u64> {
        self.ring.evicted()..self.ring.evicted() + self.ring.len() as u64
    }

    fn sample(&mut self, number: u64) -> Option<Arc<Sample>> {
        let index = number.checked_sub(self.ring.evicted())?;
        self.ring.sample(usize::try_from(index).ok()?).ok()
    }

    fn host(&self, _: u64) -> Arc<Host> {
        Arc::clone(&self.host)
    }
}
