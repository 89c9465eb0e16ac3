//! The recordings of a fleet in a directory: files, or directories of segments, a host each.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::config::Settings;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::evaluation::SampleEvaluator;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recorder;
use crate::findings::{Evaluation, Evaluator};
use crate::recording::Replayer;
use crate::report::fleet::HostReport;
use crate::report::window::Window;
use crate::state::fleet::host::{Connection, FleetHost, HostSummary};
use crate::units::time::nanos;

/// Samples before the one that is shown that are evaluated after a move in time: findings need some intervals.
const WARM_UP_SAMPLES: usize = 12;

/// The recordings by the names of their hosts.
pub struct RecordedHosts(BTreeMap<String, PathBuf>);

impl RecordedHosts {
    /// Those that lie in a directory.
    pub fn find(directory: &Path) -> Result<RecordedHosts, Failure> {
        let what = || format!("cannot replay {}", quoted(directory));
        let entries = fs::read_dir(directory).map_err(|error| Failure::new(Exit::Failed, what(), error, REMEDY))?;
        const REMEDY: &str = "give a directory that fleet --record or the key w has written";
        let is_file = |path: &Path| path.extension().is_some_and(|extension| extension == "stalltop");
        let is_recording = |path: &PathBuf| path.is_dir() || is_file(path);
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_recording).collect();
        paths.sort();
        // One directory without recordings says so in its row; where none has any, it is another directory that was meant.
        let has_segments = |path: &Path| {
            // Of one that cannot be read its row says why.
            fs::read_dir(path).map_or(true, |mut files| files.any(|file| file.is_ok_and(|file| is_file(&file.path()))))
        };
        if !paths.iter().any(|path| is_file(path) || has_segments(path)) {
            return Err(Failure::new(Exit::NotRecording, what(), "the directory has no recordings", REMEDY));
        }
        let text = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
        let stems: Vec<String> = paths.iter().map(|path| text(path.file_stem())).collect();
        let host = |stem: &String| recorder::host_of_recording(stem).unwrap_or(stem).to_owned();
        let hosts: Vec<String> = stems.iter().map(host).collect();
        let is_unique = |name: &String, names: &[String]| names.iter().filter(|&other| other == name).count() == 1;
        // Two recordings of one host are told apart by their times; a file and a directory of one stem by the extension.
        let name = |((path, stem), host): ((&PathBuf, &String), &String)| match () {
            () if is_unique(host, &hosts) => host.clone(),
            () if is_unique(stem, &stems) => stem.clone(),
            () => text(path.file_name()),
        };
        let names: Vec<String> = paths.iter().zip(&stems).zip(&hosts).map(name).collect();
        Ok(RecordedHosts(names.into_iter().zip(paths).collect()))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn path(&self, name: &str) -> Option<&Path> {
        self.0.get(name).map(PathBuf::as_path)
    }

    /// Opens all of them; one that cannot be read says why in its row.
    pub fn open(&self, settings: &Settings) -> Vec<RecordedHost> {
        self.0.iter().map(|(name, path)| RecordedHost::open(name, path, settings)).collect()
    }

    /// Evaluates all of each recording.
    pub fn reports(&self, settings: &Settings) -> Vec<HostReport> {
        self.0.iter().map(|(name, path)| report(name, path, settings)).collect()
    }
}

fn report(name: &str, path: &Path, settings: &Settings) -> HostReport {
    let (mut window, mut host) = (Window::default(), FleetHost::new(name));
    let mut recording = match EvaluatedRecording::open_even_empty(path, settings) {
        Ok(recording) => recording,
        Err(failure) => return HostReport { host, window, why: Some(failure.to_string()) },
    };
    let all = 0..recording.replayer().len();
    while let Some(evaluation) = recording.next_in(&all) {
        window.add(&evaluation);
        host.summary = Some(HostSummary::new(&evaluation));
    }
    recording.warn_of_damage();
    let why = window.is_empty().then(|| "the recording has fewer than two samples".to_owned());
    HostReport { host, window, why }
}

/// A recording that is played.
pub struct RecordedHost {
    name: String,
    /// Or why it cannot be read
    recording: Result<Played, String>,
}

struct Played {
    replayer: Replayer,
    /// As it begins
    initial: Evaluator,
    evaluator: SampleEvaluator,
    /// The sample that is played next
    next: usize,
}

impl RecordedHost {
    fn open(name: &str, path: &Path, settings: &Settings) -> RecordedHost {
        let recording = Replayer::open(path).map_err(|error| recorder::failure(error).to_string()).map(|replayer| {
            let host = Arc::new(replayer.meta().host.clone());
            let baselines = recorder::baselines(replayer.section(recorder::BASELINES_SECTION));
            let initial = Evaluator::new(baselines).with_rule_config(settings.rule_config_for(&host));
            let evaluator = SampleEvaluator::new(host, initial.clone());
            Played { replayer, initial, evaluator, next: 0 }
        });
        RecordedHost { name: name.to_owned(), recording }
    }

    /// As it is before its first sample.
    pub fn state(&self) -> FleetHost {
        let connection = match &self.recording {
            Ok(_) => Connection::Connecting,
            Err(why) => Connection::Ended(Some(why.clone())),
        };
        FleetHost { connection, ..FleetHost::new(self.name.clone()) }
    }

    /// When its next sample was taken, in nanoseconds since the Unix epoch; `None` at its end.
    pub fn next_ns(&self) -> Option<i64> {
        let played = self.recording.as_ref().ok()?;
        Some(played.replayer.timestamp(played.next)?.realtime_ns)
    }

    pub fn first_ns(&self) -> Option<i64> {
        Some(self.recording.as_ref().ok()?.replayer.timestamp(0)?.realtime_ns)
    }

    pub fn last_ns(&self) -> Option<i64> {
        let replayer = &self.recording.as_ref().ok()?.replayer;
        Some(replayer.timestamp(replayer.len().checked_sub(1)?)?.realtime_ns)
    }

    /// Plays the samples up to that time; the new state, if there were any.
    pub fn play_to(&mut self, realtime_ns: i64) -> Option<FleetHost> {
        let mut last = None;
        let mut count = 0;
        while self.next_ns().is_some_and(|at| at <= realtime_ns) {
            let played = self.recording.as_mut().ok()?;
            last = played.play_next().or(last);
            count += 1;
        }
        (count > 0).then(|| self.shown(last.as_ref()))
    }

    /// Moves to that time.
    pub fn seek(&mut self, realtime_ns: i64) -> FleetHost {
        let is_before = self.first_ns().is_none_or(|first| realtime_ns < first);
        let Ok(played) = &mut self.recording else { return self.state() };
        let target = played.replayer.index_at_time(realtime_ns).filter(|_| !is_before);
        let host = Arc::new(played.replayer.meta().host.clone());
        played.evaluator = SampleEvaluator::new(host, played.initial.clone());
        played.next = target.map_or(0, |target| target.saturating_sub(WARM_UP_SAMPLES));
        let mut last = None;
        while target.is_some_and(|target| played.next <= target) {
            last = played.play_next().or(last);
        }
        if is_before { self.state() } else { self.shown(last.as_ref()) }
    }

    fn shown(&self, last: Option<&Evaluation>) -> FleetHost {
        let Ok(played) = &self.recording else { return self.state() };
        let meta = played.replayer.meta();
        let shown_at = played.next.checked_sub(1).and_then(|shown| played.replayer.timestamp(shown));
        FleetHost {
            connection: Connection::Connected,
            summary: last.map(HostSummary::new),
            arrived_ns: shown_at.and_then(|at| u64::try_from(at.realtime_ns).ok()),
            interval_ns: nanos(meta.interval),
            other_version: Some(meta.version.clone()).filter(|version| version != env!("CARGO_PKG_VERSION")),
            ..FleetHost::new(self.name.clone())
        }
    }
}

impl Played {
    fn play_next(&mut self) -> Option<Evaluation> {
        let index = self.next;
        self.next += 1;
        let host = self.replayer.host(index);
        // A damaged one is left out.
        let sample = self.replayer.sample(index).ok()?;
        self.evaluator.evaluate_for_host(&host, sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_has_a_name_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        for name in
            ["db1.stalltop", "web1-20261127T040512.stalltop", "web2-20261127T040512.stalltop", "web2-20261128T040512.stalltop"]
        {
            fs::write(directory.path().join(name), "").unwrap();
        }
        fs::create_dir(directory.path().join("db1")).unwrap();
        let hosts = RecordedHosts::find(directory.path()).unwrap();
        let expected = ["db1", "db1.stalltop", "web1", "web2-20261127T040512", "web2-20261128T040512"];
        assert_eq!(hosts.names().collect::<Vec<_>>(), expected);
    }
}
