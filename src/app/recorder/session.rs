//! One recording from its creation to its end, and the result.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{format_bytes, sections};
use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::recording::{
    DirHandle, FrameBacklog, FrameSummary, Gap, Location, Meta, Recorder, RecorderOptions, RecorderStatus, RecordingError,
    RecordingProgress, Timestamp,
};
use crate::report::formatting::pluralize;

/// How long a disk is waited for where somebody waits at a screen, or the next file is being recorded into.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(800);

/// How long where nobody does: what waits for a slow disk is what tells why it is slow.
const FINAL_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// One recording from beginning to end.
pub struct Session {
    recorder: Recorder,
    /// It is told when that changes
    reported: ReportedStatus,
}

/// What is worth a word when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReportedStatus {
    files: usize,
    paused: Option<String>,
}

impl Session {
    pub fn create(path: &Path, meta: &Meta, baselines: &Baselines) -> Result<Session, RecordingError> {
        Session::create_with_history(FrameBacklog::default(), path, meta, baselines)
    }

    /// Of as many bytes at most.
    pub fn create_with_limit(
        most: Option<u64>,
        path: &Path,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::create(path, meta, RecorderOptions { max_bytes: most, ..recorder_options(baselines) })?))
    }

    /// One that begins with what was in memory.
    pub fn create_with_history(
        history: FrameBacklog,
        path: &Path,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::create(path, meta, RecorderOptions { backlog: history, ..recorder_options(baselines) })?))
    }

    /// In a folder that is held.
    pub fn create_in(
        most: Option<u64>,
        folder: &Arc<DirHandle>,
        name: &OsStr,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::create_in(
            folder,
            name,
            meta,
            RecorderOptions { max_bytes: most, ..recorder_options(baselines) },
        )?))
    }

    pub fn stream(
        most: Option<u64>,
        sink: impl Write + Send + 'static,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::from_writer(sink, meta, RecorderOptions { max_bytes: most, ..recorder_options(baselines) })?))
    }

    fn new(recorder: Recorder) -> Session {
        Session { recorder, reported: ReportedStatus { files: 1, paused: None } }
    }

    /// Never blocks. What is missing before the sample is noted before it.
    pub fn offer(&mut self, taken: TimedSample, digest: FrameSummary) {
        self.recorder.add_missed(taken.missed, taken.sample.at.into());
        self.recorder.offer_with_summary(taken.sample, digest);
    }

    /// Or why it is not taken.
    pub fn mark(&mut self, at: Timestamp, text: &str) -> Result<(), &'static str> {
        match (self.recorder.add_mark(at, text), self.recorder.status()) {
            (true, _) => Ok(()),
            (false, RecorderStatus::Failed { .. }) => Err("its recording has failed"),
            (false, RecorderStatus::LimitReached(_) | RecorderStatus::Finished(_)) => Err("its recording has ended"),
            (false, RecorderStatus::Recording(_) | RecorderStatus::Paused { .. }) => Err("its disk does not keep up"),
        }
    }

    /// Samples that are missing before the next one that is offered.
    pub fn gap(&mut self, gap: &Gap) {
        self.recorder.add_gap(gap);
    }

    pub fn status(&self) -> RecorderStatus {
        self.recorder.status()
    }

    /// Where it goes now.
    pub fn location(&self) -> String {
        self.recorder.locations().last().map(words).unwrap_or_default()
    }

    /// That its disk does not take it, or takes it again, perhaps in another file; once each.
    pub fn status_change(&mut self) -> Option<String> {
        let places = self.recorder.locations();
        let status = self.recorder.status();
        let paused = match &status {
            RecorderStatus::Paused { reason: why, .. } => Some(why.clone()),
            _ => None,
        };
        let now = ReportedStatus { files: places.len(), paused };
        let before = std::mem::replace(&mut self.reported, now.clone());
        let (last, kept) = (places.last().map(words).unwrap_or_default(), status.progress());
        match (&before.paused, &now.paused) {
            _ if now.files > before.files => {
                let failed = places.get(before.files - 1).map(words).unwrap_or_default();
                Some(format!("the disk failed under {failed}: going on in {last}, which repeats what that one may have lost"))
            }
            (None, Some(why)) => {
                Some(format!("recording into {last} is paused: {why}: {} safe", pluralize(kept.samples, "sample")))
            }
            (Some(_), None) => Some(format!("recording into {last} again: {} lost", pluralize(kept.lost_samples, "sample"))),
            _ => None,
        }
    }

    pub fn finish(self) -> RecordingResult {
        self.finish_within(CLOSE_TIMEOUT)
    }

    /// The same where only a second signal is in a hurry.
    pub fn finish_patiently(self) -> RecordingResult {
        self.finish_within(FINAL_CLOSE_TIMEOUT)
    }

    fn finish_within(self, patience: Duration) -> RecordingResult {
        let mut recorder = self.recorder;
        let status = recorder.close(patience);
        RecordingResult { status, places: recorder.locations() }
    }
}

/// A session that marks come into from another thread, until it is taken out and finished.
#[derive(Clone)]
pub struct SharedSession(Arc<Mutex<Option<Session>>>);

impl SharedSession {
    pub fn new(session: Session) -> SharedSession {
        SharedSession(Arc::new(Mutex::new(Some(session))))
    }

    /// What `with` says of the session; `None` when it was taken out. Nobody holds it for long: a session never blocks.
    pub fn with<T>(&self, with: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(with)
    }

    pub fn replace(&self, by: Option<Session>) -> Option<Session> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), by)
    }
}

/// How a recording ended.
pub struct RecordingResult {
    status: RecorderStatus,
    places: Vec<Location>,
}

impl RecordingResult {
    /// What it holds, in a line.
    pub fn summary(&self) -> String {
        let kept = self.status.progress();
        let lost = if kept.lost_samples > 0 { format!(", {} lost", kept.lost_samples) } else { String::new() };
        format!("recorded {}{lost}, {} into {}", pluralize(kept.samples, "sample"), format_bytes(kept.bytes), self.location())
    }

    fn location(&self) -> String {
        self.places.iter().map(words).collect::<Vec<_>>().join(", and when its disk failed into ")
    }

    /// Why it is not whole.
    pub fn failure(&self) -> Option<String> {
        match &self.status {
            RecorderStatus::Paused { reason: why, .. } | RecorderStatus::Failed { reason: why, .. } => {
                let kept = self.status.progress();
                let safe = pluralize(kept.samples, "sample");
                Some(format!("cannot record any more into {}: {why}: {safe} safe", self.location()))
            }
            RecorderStatus::LimitReached(RecordingProgress { samples: 0, .. }) => {
                let why = "not one sample of this machine fits into --max-size";
                Some(format!("cannot record into {}: {why}: give more", self.location()))
            }
            RecorderStatus::Recording(_) | RecorderStatus::LimitReached(_) | RecorderStatus::Finished(_) => None,
        }
    }
}

fn words(place: &Location) -> String {
    match place {
        Location::File(_) => place.to_string(),
        Location::Stream => "standard output".to_owned(),
    }
}

fn recorder_options(baselines: &Baselines) -> RecorderOptions {
    RecorderOptions { sections: sections(baselines), ..RecorderOptions::default() }
}
