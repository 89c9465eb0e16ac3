//! One recording, from its creation to its result.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::sections;
use crate::app::program::cpu_wait;
use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::recording::{
    DirHandle, FrameBacklog, FrameSummary, Gap, Location, Meta, RECORDER_THREAD, Recorder, RecorderOptions, RecorderStatus,
    RecordingError, RecordingProgress, Timestamp,
};
use crate::report::formatting::pluralize;
use crate::units::format;

/// How long the end of a recording waits for the disk, while the next file is being recorded.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(800);

/// How long the last recording waits: the samples that a slow disk has not written yet show why it is slow.
const FINAL_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of a recording waits for a thread that gets no CPU.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(10);

/// How often such a thread is looked at again.
const CLOSE_STEP: Duration = Duration::from_millis(50);

/// One recording.
pub struct Session {
    recorder: Recorder,
    /// The status that `status_change` has reported
    reported: ReportedStatus,
}

/// The part of the status whose changes are reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReportedStatus {
    files: usize,
    paused: Option<String>,
}

impl Session {
    pub fn create(path: &Path, meta: &Meta, baselines: &Baselines) -> Result<Session, RecordingError> {
        Session::create_with_history(FrameBacklog::default(), path, meta, baselines)
    }

    /// With a maximum size in bytes.
    pub fn create_with_limit(
        max_bytes: Option<u64>,
        path: &Path,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::create(path, meta, RecorderOptions { max_bytes, ..recorder_options(baselines) })?))
    }

    /// Begins with the samples in memory.
    pub fn create_with_history(
        history: FrameBacklog,
        path: &Path,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::create(path, meta, RecorderOptions { backlog: history, ..recorder_options(baselines) })?))
    }

    /// In a directory that is held open.
    pub fn create_in(
        max_bytes: Option<u64>,
        folder: &Arc<DirHandle>,
        name: &OsStr,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Session::create_in_with_history(FrameBacklog::default(), max_bytes, folder, name, meta, baselines)
    }

    /// The same, and begins with the samples in memory.
    pub fn create_in_with_history(
        history: FrameBacklog,
        max_bytes: Option<u64>,
        folder: &Arc<DirHandle>,
        name: &OsStr,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        let options = RecorderOptions { backlog: history, max_bytes, ..recorder_options(baselines) };
        Ok(Session::new(Recorder::create_in(folder, name, meta, options)?))
    }

    pub fn stream(
        max_bytes: Option<u64>,
        sink: impl Write + Send + 'static,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::new(Recorder::from_writer(sink, meta, RecorderOptions { max_bytes, ..recorder_options(baselines) })?))
    }

    fn new(recorder: Recorder) -> Session {
        Session { recorder, reported: ReportedStatus { files: 1, paused: None } }
    }

    /// Records a sample, and the number of missed samples before it. Never blocks.
    pub fn offer(&mut self, sample: TimedSample, summary: FrameSummary) {
        self.recorder.add_missed(sample.missed, sample.sample.at.into());
        self.recorder.offer_with_summary(sample.sample, summary);
    }

    /// Records a mark; the error says why it cannot.
    pub fn mark(&mut self, at: Timestamp, text: &str) -> Result<(), &'static str> {
        match (self.recorder.add_mark(at, text), self.recorder.status()) {
            (true, _) => Ok(()),
            (false, RecorderStatus::Failed { .. }) => Err("its recording has failed"),
            (false, RecorderStatus::LimitReached(_) | RecorderStatus::Finished(_)) => Err("its recording has ended"),
            (false, RecorderStatus::Recording(_) | RecorderStatus::Paused { .. }) => Err("its disk does not keep up"),
        }
    }

    /// Records that samples are missing before the next one.
    pub fn gap(&mut self, gap: &Gap) {
        self.recorder.add_gap(gap);
    }

    pub fn status(&self) -> RecorderStatus {
        self.recorder.status()
    }

    /// The file that is being written.
    pub fn location(&self) -> String {
        self.recorder.locations().last().map(location_name).unwrap_or_default()
    }

    /// A message when the disk does not accept writes, or accepts them again, or the recording continues in another file.
    pub fn status_change(&mut self) -> Option<String> {
        let places = self.recorder.locations();
        let status = self.recorder.status();
        let paused = match &status {
            RecorderStatus::Paused { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        let now = ReportedStatus { files: places.len(), paused };
        let before = std::mem::replace(&mut self.reported, now.clone());
        let (last, progress) = (places.last().map(location_name).unwrap_or_default(), status.progress());
        match (&before.paused, &now.paused) {
            _ if now.files > before.files => {
                let failed = places.get(before.files - 1).map(location_name).unwrap_or_default();
                Some(format!(
                    "disk error in {failed}: the recording goes on in {last}, which repeats what {failed} may have lost"
                ))
            }
            (None, Some(why)) => {
                Some(format!("recording into {last} is paused: {why}: {} written", pluralize(progress.samples, "sample")))
            }
            (Some(_), None) => {
                Some(format!("recording into {last} goes on: {} lost", pluralize(progress.lost_samples, "sample")))
            }
            _ => None,
        }
    }

    pub fn finish(self) -> RecordingResult {
        self.finish_within(CLOSE_TIMEOUT)
    }

    /// Waits longer for the disk; a second signal ends the program at once.
    pub fn finish_patiently(self) -> RecordingResult {
        self.finish_within(FINAL_CLOSE_TIMEOUT)
    }

    fn finish_within(self, timeout: Duration) -> RecordingResult {
        let mut recorder = self.recorder;
        let (begin, mut status) = (Instant::now(), recorder.close(timeout));
        // A thread without a CPU says nothing about the disk.
        while !recorder.has_ended() && begin.elapsed() < MAX_CLOSE_TIME && cpu_wait::is_named_thread_runnable(RECORDER_THREAD) {
            status = recorder.close(CLOSE_STEP);
        }
        if let RecorderStatus::Failed { reason, .. } = &mut status
            && !recorder.has_ended()
            && cpu_wait::is_named_thread_runnable(RECORDER_THREAD)
        {
            *reason = "the thread that writes gets no CPU".to_owned();
        }
        RecordingResult { status, places: recorder.locations() }
    }
}

/// A session that another thread adds marks to, until it is taken out and finished.
#[derive(Clone)]
pub struct SharedSession(Arc<Mutex<Option<Session>>>);

impl SharedSession {
    pub fn new(session: Session) -> SharedSession {
        SharedSession(Arc::new(Mutex::new(Some(session))))
    }

    /// Calls `action` with the session; `None` if it has been taken out. The lock is held briefly: a session never blocks.
    pub fn with<T>(&self, action: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(action)
    }

    /// Takes the session out, and puts another one in.
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
    /// What was recorded, in one line.
    pub fn summary(&self) -> String {
        let progress = self.status.progress();
        let lost = if progress.lost_samples > 0 { format!(", {} lost", progress.lost_samples) } else { String::new() };
        format!(
            "recorded {}{lost}, {} into {}",
            pluralize(progress.samples, "sample"),
            format::bytes(progress.bytes as f64),
            self.location()
        )
    }

    /// Where it is, unless that is a stream.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter_map(|place| match place {
            Location::File(path) => Some(path.as_path()),
            Location::Stream => None,
        })
    }

    fn location(&self) -> String {
        self.places.iter().map(location_name).collect::<Vec<_>>().join(", and after a disk error into ")
    }

    /// Why the recording is incomplete.
    pub fn failure(&self) -> Option<String> {
        match &self.status {
            RecorderStatus::Paused { reason: why, .. } | RecorderStatus::Failed { reason: why, .. } => {
                let progress = self.status.progress();
                let written = pluralize(progress.samples, "sample");
                Some(format!("recording into {} has failed: {why}: {written} written", self.location()))
            }
            RecorderStatus::LimitReached(RecordingProgress { samples: 0, .. }) => {
                let why = "--max-size is smaller than one sample of this machine";
                Some(format!("cannot record into {}: {why}: give a larger size", self.location()))
            }
            RecorderStatus::Recording(_) | RecorderStatus::LimitReached(_) | RecorderStatus::Finished(_) => None,
        }
    }
}

fn location_name(place: &Location) -> String {
    match place {
        Location::File(_) => place.to_string(),
        Location::Stream => "standard output".to_owned(),
    }
}

fn recorder_options(baselines: &Baselines) -> RecorderOptions {
    RecorderOptions { sections: sections(baselines), ..RecorderOptions::default() }
}
