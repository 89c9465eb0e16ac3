//! The baselines of this machine: loaded from the state directory, learned from intervals, written back.

mod file_thread;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::AccessFlags;

use crate::app::program::stdio;
use crate::app::program::threads::{TimedOut, with_timeout};
use crate::baseline::store::BaselineStore;
use crate::baseline::{Baselines, DeviceIdentity, Observation};
use crate::findings::{Evaluation, Evaluator, RuleConfig};
use crate::kernel::Root;
use file_thread::{FailedWrite, FileEvent, FileThread};

/// The initial baselines, and the observations that have not been written to the file yet. They are added to the content
/// that the file has when it is written, so that several programs can learn at the same time.
#[derive(Debug)]
pub struct BaselineLearner {
    /// `None`: nothing is learned for later
    file: Option<FileThread>,
    initial: Baselines,
    unwritten: Vec<Observation>,
    last_write: Instant,
    /// Why the last write failed, or why the thread that writes cannot be started
    write_failure: Option<String>,
    /// A failure has been reported to the user
    failure_reported: bool,
}

/// Time between two writes: how much may be lost when the program is killed.
const WRITE_INTERVAL: Duration = Duration::from_secs(300);

/// How often the file is checked for changes by other programs.
const FILE_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long the start of the program waits for the state directory, which may be on the disk that has the problem.
pub const LOAD_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the end of the program waits for the disk.
const EXIT_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// Observations that wait for a file that cannot be written; older ones are dropped.
const MAX_UNWRITTEN: usize = 50_000;

impl BaselineLearner {
    /// Loads the file in the state directory. The line says why it could not be read, or cannot be written.
    pub fn load() -> (BaselineLearner, Option<String>) {
        // With a timeout from the search for the directory on: the home directory may not answer.
        let found = with_timeout(LOAD_TIMEOUT, || {
            let store = BaselineStore::at_default_path(nix::unistd::geteuid().as_raw());
            let obstacle = write_obstacle(store.as_ref());
            let loaded = |store: BaselineStore| (store.file_stamp(), store.load(), store);
            (store.map(loaded), obstacle)
        });
        let (found, obstacle) = match found {
            Ok(found) => found,
            Err(why) => {
                let line = match why {
                    TimedOut::NoAnswer => "the state directory does not answer: baselines are not loaded, and not saved",
                    TimedOut::NoCpu => "baselines are not loaded, and not saved: this process gets no CPU to read them",
                };
                return (BaselineLearner::empty(), Some(line.to_owned()));
            }
        };
        let not_saved = obstacle.map(|why| format!("learned baselines are not saved: {why}"));
        let Some((stamp, loaded, store)) = found else { return (BaselineLearner::empty(), not_saved) };
        let failure_reported = not_saved.is_some();
        let file = FileThread::new(store, stamp, loaded.baselines.clone(), FILE_POLL_INTERVAL);
        let learner = BaselineLearner { failure_reported, ..BaselineLearner::with_file(file, loaded.baselines) };
        (learner, loaded.notice.or(not_saved))
    }

    /// Loads the file if `root` is this machine's /proc and /sys, and prints the line to standard error; otherwise no baselines.
    pub fn for_root(root: &Root) -> BaselineLearner {
        if !root.is_host() {
            return BaselineLearner::empty();
        }
        let (learner, notice) = BaselineLearner::load();
        if let Some(line) = notice {
            stdio::print_stderr(&line);
        }
        learner
    }

    fn with_file(file: FileThread, initial: Baselines) -> BaselineLearner {
        BaselineLearner { file: Some(file), ..BaselineLearner::without_store(initial) }
    }

    /// No baselines, and nothing is written: for samples of another machine.
    pub fn empty() -> BaselineLearner {
        BaselineLearner::without_store(Baselines::default())
    }

    /// The baselines of a recording; nothing is written.
    pub fn without_store(initial: Baselines) -> BaselineLearner {
        BaselineLearner {
            file: None,
            initial,
            unwritten: Vec::new(),
            last_write: Instant::now(),
            write_failure: None,
            failure_reported: false,
        }
    }

    /// An evaluator with the initial baselines.
    pub fn new_evaluator(&self, rule_config: Arc<RuleConfig>) -> Evaluator {
        Evaluator::new(self.initial.clone()).with_rule_config(rule_config)
    }

    /// Adds the observations of an interval.
    pub fn observe(&mut self, evaluation: &Evaluation) {
        if self.file.is_some() {
            self.unwritten.extend_from_slice(&evaluation.observations);
            let surplus = self.unwritten.len().saturating_sub(MAX_UNWRITTEN);
            self.unwritten.drain(..surplus);
        }
    }

    /// The new baselines after a change of the file: its content and the observations that are not in it yet. Unwritten
    /// observations of a device that `baseline forget` has removed are dropped.
    pub fn poll_changes(&mut self) -> Option<Baselines> {
        let changed = self.receive(Duration::ZERO);
        if let Err(failure) = self.file.as_mut()?.poll_if_due() {
            self.write_failure = Some(failure.to_string());
        }
        changed
    }

    /// Writes the observations every 5 minutes, on the file thread. Returns the reason of the first failure.
    pub fn write_periodically(&mut self) -> Option<String> {
        if self.last_write.elapsed() >= WRITE_INTERVAL {
            self.start_write();
        }
        self.write_failure.take().filter(|_| !std::mem::replace(&mut self.failure_reported, true))
    }

    /// Writes the observations, unless the disk takes too long; the line says why they are not saved.
    pub fn write_before_exit(&mut self) -> Option<String> {
        let end = Instant::now() + EXIT_WRITE_TIMEOUT;
        let left = || end.saturating_duration_since(Instant::now());
        // The pending request first. If it is a write and fails, it is repeated.
        self.receive(left());
        self.write_failure = None;
        self.start_write();
        self.receive(left());
        let file = self.file.as_ref()?;
        let unfinished = file.is_writing() || !self.unwritten.is_empty();
        let why = self.write_failure.take().or_else(|| unfinished.then(|| "the write takes too long".to_owned()))?;
        Some(format!("the baselines that this run learned are not saved in {}: {why}", file.store().path().display()))
    }

    fn start_write(&mut self) {
        let Some(file) = self.file.as_mut().filter(|_| !self.unwritten.is_empty()) else { return };
        match file.write(&mut self.unwritten) {
            Ok(true) => self.last_write = Instant::now(),
            Ok(false) => {}
            Err(failure) => self.write_failure = Some(failure.to_string()),
        }
    }

    /// Waits for the file thread; returns the new baselines after a change of the file.
    fn receive(&mut self, timeout: Duration) -> Option<Baselines> {
        match self.file.as_mut()?.next_event(timeout)? {
            FileEvent::Changed { before, now } => {
                let holds = |baselines: &Baselines, device: &DeviceIdentity| baselines.for_device(device).next().is_some();
                let is_forgotten = |device: &DeviceIdentity| holds(&before, device) && !holds(&now, device);
                self.unwritten.retain(|observation| !is_forgotten(&observation.key.device));
                let mut baselines = now;
                baselines.learn(&self.unwritten);
                Some(baselines)
            }
            FileEvent::WriteFailed(FailedWrite { mut observations, why }) => {
                observations.append(&mut self.unwritten);
                self.unwritten = observations;
                self.write_failure = Some(why);
                None
            }
        }
    }
}

/// Why baselines cannot be written, as far as that can be found out without writing.
pub fn write_obstacle(store: Option<&BaselineStore>) -> Option<String> {
    let may_write = |path: &Path| nix::unistd::access(path, AccessFlags::W_OK).is_ok();
    match store {
        Some(store) => store.write_obstacle(may_write),
        None => Some("there is no home directory".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::{BaselineKey, SizeClass};
    use crate::interval::disk::Operation;
    use crate::synthetic::{self, sample};
    use crate::units::Millis;

    fn key(device: &str) -> BaselineKey {
        BaselineKey { device: DeviceIdentity(device.into()), operation: Operation::Read, size: SizeClass::Small }
    }

    /// An uncontended read of the device.
    fn observation(device: &str) -> Observation {
        Observation {
            key: key(device),
            name: device.to_owned(),
            r#await: Millis(1.0),
            time_ms: 10.0,
            uncontended: true,
            light_load: true,
            rate: 10.0,
            kib_per_second: 40.0,
            outstanding: 0.01,
            quantiles: None,
            at_s: 1,
        }
    }

    /// An interval with an uncontended read of each of these devices.
    fn evaluation(devices: &[&str]) -> Evaluation {
        let observations = devices.iter().map(|device| observation(device)).collect();
        Evaluation { observations, ..synthetic::evaluation(sample(100.0), sample(101.0)) }
    }

    #[test]
    fn changes_by_other_programs_are_used_and_forgotten_devices_are_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = BaselineStore::new(folder.path().join("stalltop/baselines.toml"), nix::unistd::geteuid().as_raw());
        store.update(|baselines| baselines.set(key("sda"), Millis(5.0))).unwrap();
        let initial = store.read().unwrap();
        let file = FileThread::new(store.clone(), store.file_stamp(), initial.clone(), Duration::ZERO);
        let mut learner = BaselineLearner::with_file(file, initial);
        learner.observe(&evaluation(&["sda", "sdb"]));
        store
            .update(|baselines| {
                baselines.forget(&key("sda").device);
                baselines.set(key("sdc"), Millis(7.0));
            })
            .unwrap();
        let now = loop {
            if let Some(now) = learner.poll_changes() {
                break now;
            }
            std::thread::yield_now();
        };
        let known = |name: &str| now.get(&key(name)).is_some();
        assert_eq!((known("sda"), known("sdb"), known("sdc")), (false, true, true));
        assert_eq!(learner.write_before_exit(), None);
        let written = store.read().unwrap();
        assert!(written.get(&key("sda")).is_none() && written.get(&key("sdb")).is_some());
    }

    #[test]
    fn a_write_that_fails_is_reported_once_and_again_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let obstacle = folder.path().join("file");
        std::fs::write(&obstacle, "not a directory").unwrap();
        let store = BaselineStore::new(obstacle.join("stalltop/baselines.toml"), nix::unistd::geteuid().as_raw());
        let file = FileThread::new(store.clone(), None, Baselines::default(), Duration::from_secs(3600));
        let mut learner = BaselineLearner::with_file(file, Baselines::default());
        learner.observe(&evaluation(&["sda"]));
        for reported in [true, false] {
            learner.start_write();
            learner.receive(Duration::from_secs(60));
            assert_eq!(learner.write_periodically().is_some(), reported);
        }
        assert!(learner.write_before_exit().is_some_and(|line| line.contains("are not saved in")));
        std::fs::remove_file(obstacle).unwrap();
        learner.start_write();
        learner.receive(Duration::from_secs(60));
        assert!(store.read().unwrap().get(&key("sda")).is_some(), "it was kept for the next write");
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_reported_once_and_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = BaselineStore::new(folder.path().join("baselines.toml"), nix::unistd::geteuid().as_raw());
        let file = FileThread::without_thread(store);
        let mut learner = BaselineLearner::with_file(file, Baselines::default());
        assert_eq!(learner.poll_changes(), None);
        assert_eq!(
            learner.write_periodically().as_deref(),
            Some("cannot start the thread 'baselines': no more processes"),
            "though nothing was to be written"
        );
        learner.poll_changes();
        assert_eq!(learner.write_periodically(), None);
        learner.observe(&evaluation(&["sda"]));
        for _ in 0..2 {
            let line = learner.write_before_exit();
            assert!(line.is_some_and(|line| line.ends_with("no more processes")), "the observation is kept");
        }
    }
}
