//! A recording that is being made: its name, what it begins with, and how it ended.

pub mod evaluated_recording;
pub mod mark_socket;
pub mod operations_command;
pub mod segments;
pub mod time_range;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::time_zone;
use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::findings::{Evaluation, Severity};
use crate::recording::{
    DetectedFormat, DirHandle, FrameBacklog, FrameSummary, Gap, Location, Meta, Recorder, RecorderOptions, RecorderStatus,
    RecordingError, RecordingProgress, Redaction, Sections, SummarySeverity, Timestamp,
};
use crate::report::formatting::pluralize;
use crate::sample::Host;

/// How long a disk is waited for where somebody waits at a screen, or the next file is being recorded into.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(800);

/// How long where nobody does: what waits for a slow disk is what tells why it is slow.
const FINAL_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The section of a recording that keeps the baselines it began with.
const BASELINES_SECTION: &str = "baselines";

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

/// HOST-YYYYMMDDTHHMMSS.stalltop, in local time.
pub fn default_name(host: &Host) -> String {
    format!("{}.stalltop", file_stem(host))
}

/// HOST-YYYYMMDDTHHMMSS-saved.stalltop: not the name of a recording that was begun in the same second.
pub fn saved_name(host: &Host) -> String {
    format!("{}-saved.stalltop", file_stem(host))
}

/// Whether a file of that name is a recording that `default_name` named, with or without numbers behind it.
pub fn is_default_name(host: &Host, name: &str) -> bool {
    let rest = name.strip_prefix(&format!("{}-", host_prefix(host))).and_then(|rest| rest.strip_suffix(".stalltop"));
    let mut words = rest.unwrap_or_default().split('-');
    let time = words.next().unwrap_or_default();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time =
        time.split_once('T').is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && digits(day) && digits(time));
    is_time && words.all(digits)
}

fn file_stem(host: &Host) -> String {
    let now = jiff::Timestamp::now().to_zoned(time_zone::local());
    format!("{}-{}", host_prefix(host), now.strftime("%Y%m%dT%H%M%S"))
}

/// The host's name as it may stand in the name of a file.
fn host_prefix(host: &Host) -> String {
    let host: String = String::from_utf8_lossy(host.hostname.as_bytes())
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .collect();
    // A name that begins with a point would be hidden, one that begins with a dash an option.
    let host = host.trim_start_matches(['.', '-']);
    if host.is_empty() { "stalltop".to_owned() } else { host.to_owned() }
}

/// What was seen in the interval that a sample ends, as the strip of time will show it.
pub fn frame_summary(judged: Option<&Evaluation>) -> FrameSummary {
    let Some(judged) = judged else { return FrameSummary::default() };
    let share = |share: f64| (share.clamp(0.0, 1.0) * 255.0).round() as u8;
    let interval = &judged.interval;
    FrameSummary {
        busy: interval.cpu.as_ref().map_or(0, |cpu| share(cpu.busy())),
        blocked: interval.idle_blocked.as_ref().map_or(0, |blocked| share(blocked.ratio)),
        worst_severity: match judged.active.iter().map(|finding| finding.severity).max() {
            None => SummarySeverity::NoFinding,
            Some(Severity::Note) => SummarySeverity::Note,
            Some(Severity::Warning) => SummarySeverity::Warning,
            Some(Severity::Critical) => SummarySeverity::Critical,
        },
    }
}

/// What a recording of this machine says of itself.
pub fn meta(host: &Host, interval: Duration, redaction: Redaction) -> Meta {
    Meta { version: env!("CARGO_PKG_VERSION").to_owned(), host: host.clone(), interval, redaction, absent: Vec::new() }
}

/// What a recording begins with beside its meta frame.
pub fn sections(baselines: &Baselines) -> Sections {
    Sections::from([(BASELINES_SECTION.to_owned(), baselines.to_bytes())])
}

/// The baselines of a recording; none where it has none that can be understood.
pub fn baselines(section: Option<&[u8]>) -> Baselines {
    section.and_then(|bytes| Baselines::from_bytes(bytes).ok()).unwrap_or_default()
}

/// The name of their section.
pub fn baselines_section() -> &'static str {
    BASELINES_SECTION
}

/// Does something with a new file of that name: here, or else at home, or else in /var/tmp. Whoever presses a key for it has no
/// second try: what is in memory is gone with the program.
pub fn with_fallback_directory<T>(
    name: &str,
    mut with: impl FnMut(&Path) -> Result<T, RecordingError>,
) -> Result<T, RecordingError> {
    let here = with(Path::new(name));
    let elsewhere = |error: &RecordingError| match error {
        RecordingError::PermissionDenied { .. } => true,
        RecordingError::Write { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::NotFound
        ),
        _ => false,
    };
    let Err(first) = here else { return here };
    if !elsewhere(&first) {
        return Err(first);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let others = home.into_iter().chain([PathBuf::from("/var/tmp")]);
    others.map(|place| with(&place.join(name))).find_map(Result::ok).ok_or(first)
}

const RECORD_HINT: &str = "give the name of a recording: 'stalltop record' makes one";

/// An error of a recording as the end of the program.
pub fn failure(error: RecordingError) -> Failure {
    let exit = match &error {
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Exit::Refused,
        RecordingError::Read { .. } | RecordingError::NoSuchSample { .. } => Exit::Failed,
        RecordingError::DamagedFrame { .. } => Exit::Damaged,
        RecordingError::NotARecording { .. }
        | RecordingError::HeaderDamaged { .. }
        | RecordingError::NewerFormat { .. }
        | RecordingError::DevelopmentVersion { .. }
        | RecordingError::UnknownFlags { .. }
        | RecordingError::NoMeta { .. }
        | RecordingError::NoIntactSamples { .. }
        | RecordingError::NoSegments { .. }
        | RecordingError::NotSeekable { .. } => Exit::NotRecording,
        RecordingError::BeingWritten { .. } | RecordingError::Write { .. } => Exit::CannotWrite,
        RecordingError::AlreadyExists { .. }
        | RecordingError::NotARegularFile { .. }
        | RecordingError::PermissionDenied { .. }
        | RecordingError::MultipleBoots { .. } => Exit::Refused,
    };
    let remedy = match &error {
        RecordingError::AlreadyExists { .. } => "give another name",
        RecordingError::NotARegularFile { .. } => "give the name of a new file, or - for standard output",
        RecordingError::PermissionDenied { .. } => "give a directory that you may write",
        RecordingError::Read { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
            "allow more open files (ulimit -n), or cut and cat some of them first"
        }
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => RECORD_HINT,
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "read it as its owner, or as root"
        }
        RecordingError::NotARecording {
            looks_like: DetectedFormat::Text | DetectedFormat::Elf | DetectedFormat::Unknown,
            ..
        }
        | RecordingError::NoSegments { .. } => RECORD_HINT,
        RecordingError::MultipleBoots { .. } => "take one of them: stalltop cut --from --to",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => "give a directory that is there",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            "make room, or give another place"
        }
        _ => "",
    };
    Failure::new(exit, error.to_string(), "", remedy)
}

/// Bytes as people read them.
pub fn format_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 100.0);
    format!("{value:.decimals$} {}", units.get(unit).copied().unwrap_or_default())
}

fn recorder_options(baselines: &Baselines) -> RecorderOptions {
    RecorderOptions { sections: sections(baselines), ..RecorderOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the program was started may be a place that nobody may write to: what is in memory has no other chance.
    #[test]
    fn what_cannot_be_written_here_is_written_elsewhere() {
        let (mut tried, denied) = (Vec::new(), || io::Error::from(io::ErrorKind::PermissionDenied));
        let place = with_fallback_directory("x.stalltop", |path| {
            tried.push(path.to_owned());
            match path.parent() {
                Some(folder) if folder == Path::new("/var/tmp") => Ok(path.to_owned()),
                _ => Err(RecordingError::PermissionDenied { path: Location::from(path), source: denied() }),
            }
        });
        assert_eq!(place.unwrap(), Path::new("/var/tmp/x.stalltop"));
        assert_eq!((tried.first().unwrap().as_path(), tried.len() > 1), (Path::new("x.stalltop"), true));
        let exists = |path: &Path| RecordingError::AlreadyExists { path: Location::from(path) };
        let refused = with_fallback_directory::<()>("x.stalltop", |path| Err(exists(path)));
        assert!(
            matches!(refused, Err(RecordingError::AlreadyExists { path }) if path == Location::from(Path::new("x.stalltop")))
        );
    }

    #[test]
    fn amounts() {
        assert_eq!(format_bytes(999), "999 B");
        assert_eq!(format_bytes(1536), "1.5 KiB");
        assert_eq!(format_bytes(200 << 20), "200 MiB");
    }
}
