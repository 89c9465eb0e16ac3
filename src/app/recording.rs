//! A recording that is being made: its name, what it begins with, and how it ended.

pub mod door;
pub mod part;
pub mod recorded;
pub mod segments;
pub mod tally;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::zone;
use crate::app::sampling::Taken;
use crate::baseline::Baselines;
use crate::findings::{Judged, Severity};
use crate::recording::{
    Digest, Folder, Gap, History, Kept, LooksLike, Meta, Moment, Place, Recorder, RecorderOptions, RecorderStatus,
    RecordingError, Redaction, Sections, Seen,
};
use crate::report::words::many;
use crate::sample::Host;

/// How long a disk is waited for where somebody waits at a screen, or the next file is being recorded into.
const PATIENCE: Duration = Duration::from_millis(800);

/// How long where nobody does: what waits for a slow disk is what tells why it is slow.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// The section of a recording that keeps the baselines it began with.
const BASELINES: &str = "baselines";

/// One recording from beginning to end.
pub struct Session {
    recorder: Recorder,
    /// It is told when that changes
    told: Standing,
}

/// What is worth a word when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    files: usize,
    paused: Option<String>,
}

impl Session {
    pub fn create(path: &Path, meta: &Meta, baselines: &Baselines) -> Result<Session, RecordingError> {
        Session::after(History::default(), path, meta, baselines)
    }

    /// Of as many bytes at most.
    pub fn within(most: Option<u64>, path: &Path, meta: &Meta, baselines: &Baselines) -> Result<Session, RecordingError> {
        Ok(Session::of(Recorder::create(path, meta, RecorderOptions { most, ..options(baselines) })?))
    }

    /// One that begins with what was in memory.
    pub fn after(history: History, path: &Path, meta: &Meta, baselines: &Baselines) -> Result<Session, RecordingError> {
        Ok(Session::of(Recorder::create(path, meta, RecorderOptions { history, ..options(baselines) })?))
    }

    /// In a folder that is held.
    pub fn create_in(
        most: Option<u64>,
        folder: &Arc<Folder>,
        name: &OsStr,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::of(Recorder::create_in(folder, name, meta, RecorderOptions { most, ..options(baselines) })?))
    }

    pub fn stream(
        most: Option<u64>,
        sink: impl Write + Send + 'static,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        Ok(Session::of(Recorder::stream(sink, meta, RecorderOptions { most, ..options(baselines) })?))
    }

    fn of(recorder: Recorder) -> Session {
        Session { recorder, told: Standing { files: 1, paused: None } }
    }

    /// Never blocks. What is missing before the sample is noted before it.
    pub fn offer(&mut self, taken: Taken, digest: Digest) {
        self.recorder.miss(taken.missed, taken.sample.at.into());
        self.recorder.offer_judged(taken.sample, digest);
    }

    /// Or why it is not taken.
    pub fn mark(&mut self, at: Moment, text: &str) -> Result<(), &'static str> {
        match (self.recorder.mark(at, text), self.recorder.status()) {
            (true, _) => Ok(()),
            (false, RecorderStatus::Failed { .. }) => Err("its recording has failed"),
            (false, RecorderStatus::Full(_) | RecorderStatus::Finished(_)) => Err("its recording has ended"),
            (false, RecorderStatus::Recording(_) | RecorderStatus::Paused { .. }) => Err("its disk does not keep up"),
        }
    }

    /// Samples that are missing before the next one that is offered.
    pub fn gap(&mut self, gap: &Gap) {
        self.recorder.gap(gap);
    }

    pub fn status(&self) -> RecorderStatus {
        self.recorder.status()
    }

    /// Where it goes now.
    pub fn place(&self) -> String {
        self.recorder.places().last().map(words).unwrap_or_default()
    }

    /// That its disk does not take it, or takes it again, perhaps in another file; once each.
    pub fn news(&mut self) -> Option<String> {
        let places = self.recorder.places();
        let status = self.recorder.status();
        let paused = match &status {
            RecorderStatus::Paused { why, .. } => Some(why.clone()),
            _ => None,
        };
        let now = Standing { files: places.len(), paused };
        let before = std::mem::replace(&mut self.told, now.clone());
        let (last, kept) = (places.last().map(words).unwrap_or_default(), status.kept());
        match (&before.paused, &now.paused) {
            _ if now.files > before.files => {
                let failed = places.get(before.files - 1).map(words).unwrap_or_default();
                Some(format!("the disk failed under {failed}: going on in {last}, which repeats what that one may have lost"))
            }
            (None, Some(why)) => Some(format!("recording into {last} is paused: {why}: {} safe", many(kept.samples, "sample"))),
            (Some(_), None) => Some(format!("recording into {last} again: {} lost", many(kept.lost, "sample"))),
            _ => None,
        }
    }

    pub fn finish(self) -> Ended {
        self.finish_within(PATIENCE)
    }

    /// The same where only a second signal is in a hurry.
    pub fn finish_at_last(self) -> Ended {
        self.finish_within(LAST_PATIENCE)
    }

    fn finish_within(self, patience: Duration) -> Ended {
        let mut recorder = self.recorder;
        let status = recorder.close(patience);
        Ended { status, places: recorder.places() }
    }
}

/// A session that marks come into from another thread, until it is taken out and finished.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Option<Session>>>);

impl Shared {
    pub fn new(session: Session) -> Shared {
        Shared(Arc::new(Mutex::new(Some(session))))
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
pub struct Ended {
    status: RecorderStatus,
    places: Vec<Place>,
}

impl Ended {
    /// What it holds, in a line.
    pub fn words(&self) -> String {
        let kept = self.status.kept();
        let lost = if kept.lost > 0 { format!(", {} lost", kept.lost) } else { String::new() };
        format!("recorded {}{lost}, {} into {}", many(kept.samples, "sample"), amount(kept.bytes), self.place())
    }

    fn place(&self) -> String {
        self.places.iter().map(words).collect::<Vec<_>>().join(", and when its disk failed into ")
    }

    /// Why it is not whole.
    pub fn failure(&self) -> Option<String> {
        match &self.status {
            RecorderStatus::Paused { why, .. } | RecorderStatus::Failed { why, .. } => {
                let kept = self.status.kept();
                let safe = many(kept.samples, "sample");
                Some(format!("cannot record any more into {}: {why}: {safe} safe", self.place()))
            }
            RecorderStatus::Full(Kept { samples: 0, .. }) => {
                let why = "not one sample of this machine fits into --max-size";
                Some(format!("cannot record into {}: {why}: give more", self.place()))
            }
            RecorderStatus::Recording(_) | RecorderStatus::Full(_) | RecorderStatus::Finished(_) => None,
        }
    }
}

fn words(place: &Place) -> String {
    match place {
        Place::File(_) => place.to_string(),
        Place::Stream => "standard output".to_owned(),
    }
}

/// HOST-YYYYMMDDTHHMMSS.stalltop, in local time.
pub fn default_name(host: &Host) -> String {
    format!("{}.stalltop", stem(host))
}

/// HOST-YYYYMMDDTHHMMSS-saved.stalltop: not the name of a recording that was begun in the same second.
pub fn saved_name(host: &Host) -> String {
    format!("{}-saved.stalltop", stem(host))
}

/// Whether a file of that name is a recording that `default_name` named, with or without numbers behind it.
pub fn names(host: &Host, name: &str) -> bool {
    let rest = name.strip_prefix(&format!("{}-", prefix(host))).and_then(|rest| rest.strip_suffix(".stalltop"));
    let mut words = rest.unwrap_or_default().split('-');
    let time = words.next().unwrap_or_default();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time =
        time.split_once('T').is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && digits(day) && digits(time));
    is_time && words.all(digits)
}

fn stem(host: &Host) -> String {
    let now = jiff::Timestamp::now().to_zoned(zone::here());
    format!("{}-{}", prefix(host), now.strftime("%Y%m%dT%H%M%S"))
}

/// The host's name as it may stand in the name of a file.
fn prefix(host: &Host) -> String {
    let host: String = String::from_utf8_lossy(host.hostname.as_bytes())
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .collect();
    // A name that begins with a point would be hidden, one that begins with a dash an option.
    let host = host.trim_start_matches(['.', '-']);
    if host.is_empty() { "stalltop".to_owned() } else { host.to_owned() }
}

/// What was seen in the interval that a sample ends, as the strip of time will show it.
pub fn digest(judged: Option<&Judged>) -> Digest {
    let Some(judged) = judged else { return Digest::default() };
    let share = |share: f64| (share.clamp(0.0, 1.0) * 255.0).round() as u8;
    let interval = &judged.interval;
    Digest {
        busy: interval.cpu.as_ref().map_or(0, |cpu| share(cpu.busy())),
        blocked: interval.blocked.as_ref().map_or(0, |blocked| share(blocked.ratio)),
        worst: match judged.verdict.iter().map(|finding| finding.severity).max() {
            None => Seen::Nothing,
            Some(Severity::Note) => Seen::Note,
            Some(Severity::Warning) => Seen::Warning,
            Some(Severity::Critical) => Seen::Critical,
        },
    }
}

/// What a recording of this machine says of itself.
pub fn meta(host: &Host, interval: Duration, redaction: Redaction) -> Meta {
    Meta { version: env!("CARGO_PKG_VERSION").to_owned(), host: host.clone(), interval, redaction, absent: Vec::new() }
}

/// What a recording begins with beside its meta frame.
pub fn sections(baselines: &Baselines) -> Sections {
    Sections::from([(BASELINES.to_owned(), baselines.to_bytes())])
}

/// The baselines of a recording; none where it has none that can be understood.
pub fn baselines(section: Option<&[u8]>) -> Baselines {
    section.and_then(|bytes| Baselines::from_bytes(bytes).ok()).unwrap_or_default()
}

/// The name of their section.
pub fn baselines_section() -> &'static str {
    BASELINES
}

/// Does something with a new file of that name: here, or else at home, or else in /var/tmp. Whoever presses a key for it has no
/// second try: what is in memory is gone with the program.
pub fn somewhere<T>(name: &str, mut with: impl FnMut(&Path) -> Result<T, RecordingError>) -> Result<T, RecordingError> {
    let here = with(Path::new(name));
    let elsewhere = |error: &RecordingError| match error {
        RecordingError::NotPermitted { .. } => true,
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

const MAKE_ONE: &str = "give the name of a recording: 'stalltop record' makes one";

/// An error of a recording as the end of the program.
pub fn failure(error: RecordingError) -> Failure {
    let exit = match error.exit_code() {
        3 => Exit::Damaged,
        4 => Exit::NotRecording,
        5 => Exit::CannotWrite,
        6 => Exit::Refused,
        _ => Exit::Failed,
    };
    let remedy = match &error {
        RecordingError::Exists { .. } => "give another name",
        RecordingError::NotARegularTarget { .. } => "give the name of a new file, or - for standard output",
        RecordingError::NotPermitted { .. } => "give a directory that you may write",
        RecordingError::Read { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
            "allow more open files (ulimit -n), or cut and cat some of them first"
        }
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => MAKE_ONE,
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "read it as its owner, or as root"
        }
        RecordingError::NotARecording { looks_like: LooksLike::Text | LooksLike::Elf | LooksLike::Unknown, .. }
        | RecordingError::NoSegments { .. } => MAKE_ONE,
        RecordingError::SeveralRuns { .. } => "take one of them: stalltop cut --from --to",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => "give a directory that is there",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            "make room, or give another place"
        }
        _ => "",
    };
    Failure::new(exit, error.to_string(), "", remedy)
}

/// Bytes as people read them.
pub fn amount(bytes: u64) -> String {
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

fn options(baselines: &Baselines) -> RecorderOptions {
    RecorderOptions { sections: sections(baselines), ..RecorderOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the program was started may be a place that nobody may write to: what is in memory has no other chance.
    #[test]
    fn what_cannot_be_written_here_is_written_elsewhere() {
        let (mut tried, denied) = (Vec::new(), || io::Error::from(io::ErrorKind::PermissionDenied));
        let place = somewhere("x.stalltop", |path| {
            tried.push(path.to_owned());
            match path.parent() {
                Some(folder) if folder == Path::new("/var/tmp") => Ok(path.to_owned()),
                _ => Err(RecordingError::NotPermitted { path: Place::from(path), source: denied() }),
            }
        });
        assert_eq!(place.unwrap(), Path::new("/var/tmp/x.stalltop"));
        assert_eq!((tried.first().unwrap().as_path(), tried.len() > 1), (Path::new("x.stalltop"), true));
        let exists = |path: &Path| RecordingError::Exists { path: Place::from(path) };
        let refused = somewhere::<()>("x.stalltop", |path| Err(exists(path)));
        assert!(matches!(refused, Err(RecordingError::Exists { path }) if path == Place::from(Path::new("x.stalltop"))));
    }

    #[test]
    fn amounts() {
        assert_eq!(amount(999), "999 B");
        assert_eq!(amount(1536), "1.5 KiB");
        assert_eq!(amount(200 << 20), "200 MiB");
    }
}
