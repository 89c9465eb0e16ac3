//! The recording that is made beside the live screen: `R` starts and stops it, `w` saves the samples in memory, `m` marks.

use super::background_jobs::JobResult;
use crate::app::disk_jobs::{ClosingReport, DiskJobs, SHUTDOWN_TIMEOUT, ShutdownStep, UNSAVED};
use crate::app::recorder::{self, PendingRecords, Session};
use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::recording::{FrameSummary, Gap, HistoryRing, Meta, RecorderStatus, Timestamp};
use crate::report::formatting::pluralize;
use crate::state::{Event, Notice, RecorderState};

pub struct RecorderControl {
    meta: Meta,
    session: Option<Session>,
    /// While a recording is being created: what it is to contain beside the samples in memory then
    pending_records: Option<PendingRecords>,
    jobs: DiskJobs<JobResult>,
    /// The last status that was sent to the screen
    reported: RecorderState,
}

impl RecorderControl {
    pub fn new(meta: Meta) -> RecorderControl {
        let (session, pending_records, jobs) = (None, None, DiskJobs::default());
        RecorderControl { meta, session, pending_records, jobs, reported: RecorderState::Off }
    }

    /// What a recording of these samples begins with.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Waits for the result of a job; forever where none is running. Cancel-safe.
    pub async fn next_result(&mut self) -> JobResult {
        self.jobs.next().await
    }

    /// Records the sample. Never blocks.
    pub fn offer(&mut self, sample: &TimedSample, summary: FrameSummary) {
        if let Some(session) = &mut self.session {
            session.offer(sample.clone(), summary);
        }
        if let Some(pending) = &mut self.pending_records {
            pending.offer(sample, summary);
        }
    }

    /// Records that samples are missing.
    pub fn gap(&mut self, gap: &Gap) {
        if let Some(session) = &mut self.session {
            session.gap(gap);
        }
        if let Some(pending) = &mut self.pending_records {
            pending.gap(gap);
        }
    }

    /// Records the mark; the error says why the recording does not take it.
    pub fn mark(&mut self, at: Timestamp, text: &str) -> Result<(), &'static str> {
        match (&mut self.session, &mut self.pending_records) {
            (Some(session), _) => session.mark(at, text),
            (None, Some(pending)) => pending.mark(at, text),
            (None, None) => Ok(()),
        }
    }

    /// Writes the samples in memory to a new file, in the background. `baselines` are those at the oldest sample.
    pub fn save(&mut self, ring: &HistoryRing, baselines: &Baselines) -> Vec<Event> {
        if ring.is_empty() {
            return vec![Event::Notice(Notice::failure("nothing to save yet: no sample has been taken"))];
        }
        let mut bytes = Vec::new();
        match ring.write_to(&mut bytes, &self.meta, &recorder::sections(baselines)) {
            Ok(_) => {
                self.jobs.save(recorder::saved_name(&self.meta.host), bytes, ring.len());
                Vec::new()
            }
            Err(error) => vec![Event::Notice(Notice::failure(error.to_string()))],
        }
    }

    /// Starts a recording that begins with the samples in memory, or stops it.
    pub fn toggle(&mut self, ring: &HistoryRing, baselines: &Baselines) -> Vec<Event> {
        if let Some(session) = self.session.take() {
            self.jobs.stop_recording(session);
            self.reported = RecorderState::Off;
            return vec![Event::Recorder(RecorderState::Off)];
        }
        if self.pending_records.is_some() {
            return vec![Event::Notice(Notice::failure("the recording is being created: its disk has not answered yet"))];
        }
        self.pending_records = Some(PendingRecords::default());
        let name = recorder::default_name(&self.meta.host);
        self.jobs.start_recording(ring.backlog(), name, self.meta.clone(), baselines.clone());
        Vec::new()
    }

    /// Takes in the result of a job.
    pub fn job_done(&mut self, result: JobResult) -> Vec<Event> {
        let mut events = Vec::new();
        match result {
            JobResult::RecordingStarted(session) => self.session = Some(self.write_pending(*session)),
            JobResult::RecordingFailed(notice) => {
                self.pending_records = None;
                events.push(Event::Notice(notice));
            }
            JobResult::Notice(notice) => events.push(Event::Notice(notice)),
        }
        events.extend(self.report());
        events
    }

    /// The recorder's status, where it has changed.
    pub fn report(&mut self) -> Vec<Event> {
        let Some(session) = &mut self.session else { return Vec::new() };
        let change = session.status_change().map(|change| Event::Notice(Notice::failure(change)));
        let mut events: Vec<Event> = change.into_iter().collect();
        let now = match session.status() {
            RecorderStatus::Failed { reason, .. } => RecorderState::Failed(reason),
            RecorderStatus::Paused { reason, progress } => {
                RecorderState::Failed(format!("paused: {reason}; {} written", pluralize(progress.samples, "sample")))
            }
            RecorderStatus::Recording(progress)
            | RecorderStatus::LimitReached(progress)
            | RecorderStatus::Finished(progress) => RecorderState::On { file: session.location(), bytes: progress.bytes },
        };
        if now != self.reported {
            self.reported = now.clone();
            events.push(Event::Recorder(now));
        }
        events
    }

    /// Ends the recording and waits for the jobs.
    pub fn close(mut self, report: &mut ClosingReport) {
        self.session.take().into_iter().for_each(|session| report.add(finish_session(session)));
        loop {
            match self.jobs.next_within(SHUTDOWN_TIMEOUT) {
                ShutdownStep::JobDone(JobResult::Notice(notice) | JobResult::RecordingFailed(notice)) => report.add(notice),
                ShutdownStep::JobDone(JobResult::RecordingStarted(session)) => {
                    let session = self.write_pending(*session);
                    report.add(finish_session(session));
                }
                ShutdownStep::AllDone => return,
                ShutdownStep::TimedOut => return report.add(Notice::failure(UNSAVED)),
            }
        }
    }

    /// Gives a recording that has just been created the queued records.
    fn write_pending(&mut self, mut session: Session) -> Session {
        self.pending_records.take().unwrap_or_default().write_to(&mut session);
        session
    }
}

/// Ends a recording; says what was recorded, or why it is incomplete.
pub fn finish_session(session: Session) -> Notice {
    let result = session.finish_patiently();
    result.failure().map_or_else(|| Notice::new(result.summary()), Notice::failure)
}
