//! The baselines of this machine: loaded from the state directory, learned from intervals, written back.

mod file_watcher;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::AccessFlags;

use crate::app::program::stdio;
use crate::app::program::timeout::with_timeout;
use crate::baseline::store::BaselineStore;
use crate::baseline::{Baselines, DeviceIdentity, Observation};
use crate::findings::{Evaluation, Evaluator, RuleConfig};
use crate::kernel::Root;
use file_watcher::FileWatcher;

/// The baselines of this machine, and what this run has learned and not kept yet. It is kept when the run ends, and now and
/// then before: added to what is in the file by then, so that several programs may learn at the same time.
#[derive(Debug)]
pub struct BaselineLearner {
    store: Option<BaselineStore>,
    initial: Baselines,
    pending_observations: Vec<Observation>,
    last_write: Instant,
    write_in_progress: Option<Receiver<WriteResult>>,
    file_watcher: FileWatcher,
    /// That they cannot be kept was told already
    failure_reported: bool,
}

/// How keeping some lessons came out: those that could not be kept, and why.
type WriteResult = Result<(), (Vec<Observation>, String)>;

/// How much of what was learned may be lost with a kill -9.
const WRITE_INTERVAL: Duration = Duration::from_secs(300);

/// How often the file is looked at for what others have written.
const FILE_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long its beginning waits for one, which may be the very disk that is slow.
pub const LOAD_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the end of the program waits for a disk.
const EXIT_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// Where they cannot be kept, the oldest of more than this are dropped.
const MAX_PENDING_OBSERVATIONS: usize = 50_000;

impl BaselineLearner {
    /// From the state directory; with a line for the user where the file there was no good, or cannot be written.
    pub fn load() -> (BaselineLearner, Option<String>) {
        // The look for the place included: it may be on a file system that does not answer.
        let found = with_timeout(LOAD_TIMEOUT, || {
            let store = BaselineStore::at_default_path(nix::unistd::geteuid().as_raw());
            let obstacle = write_obstacle(store.as_ref());
            let loaded = |store: BaselineStore| (store.file_stamp(), store.load(), store);
            (store.map(loaded), obstacle)
        });
        let Some((found, obstacle)) = found else {
            let line = "the state directory does not answer: latencies learned before are not known";
            return (BaselineLearner::empty(), Some(line.to_owned()));
        };
        let not_kept = obstacle.map(|why| format!("what is learned of disks is not kept: {why}"));
        let Some((stamp, loaded, store)) = found else { return (BaselineLearner::empty(), not_kept) };
        let told = not_kept.is_some();
        let news = FileWatcher::new(stamp, loaded.baselines.clone(), FILE_POLL_INTERVAL);
        (
            BaselineLearner {
                store: Some(store),
                failure_reported: told,
                file_watcher: news,
                ..BaselineLearner::without_store(loaded.baselines)
            },
            loaded.notice.or(not_kept),
        )
    }

    /// Those of this machine, where `root` is its own /proc and /sys, with the line on standard error; else none.
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

    /// For a machine that is not this one: nothing known, nothing kept.
    pub fn empty() -> BaselineLearner {
        BaselineLearner::without_store(Baselines::default())
    }

    /// Those of a recording: nothing is kept.
    pub fn without_store(known: Baselines) -> BaselineLearner {
        let news = FileWatcher::new(None, known.clone(), FILE_POLL_INTERVAL);
        BaselineLearner {
            store: None,
            initial: known,
            pending_observations: Vec::new(),
            last_write: Instant::now(),
            write_in_progress: None,
            file_watcher: news,
            failure_reported: false,
        }
    }

    /// What was known in the beginning.
    pub fn initial_baselines(&self) -> &Baselines {
        &self.initial
    }

    /// A judge that begins with them.
    pub fn new_evaluator(&self, criteria: Arc<RuleConfig>) -> Evaluator {
        Evaluator::new(self.initial.clone()).with_rule_config(criteria)
    }

    /// Takes in what an interval taught.
    pub fn observe(&mut self, judged: &Evaluation) {
        if self.store.is_some() {
            self.pending_observations.extend_from_slice(&judged.observations);
            let surplus = self.pending_observations.len().saturating_sub(MAX_PENDING_OBSERVATIONS);
            self.pending_observations.drain(..surplus);
        }
    }

    /// What is to be judged by from now on, where somebody has changed the file: what it holds, and what this run has
    /// learned and not kept yet. What was taught of a device that is forgotten since is forgotten too.
    pub fn poll_changes(&mut self) -> Option<Baselines> {
        // What is being written is not yet in the file, and no longer to be added.
        let store = self.store.as_ref().filter(|_| self.write_in_progress.is_none())?;
        let (was, filed) = self.file_watcher.poll_change(store)?;
        let holds = |baselines: &Baselines, device: &DeviceIdentity| baselines.for_device(device).next().is_some();
        self.pending_observations.retain(|lesson| !holds(&was, &lesson.key.device) || holds(&filed, &lesson.key.device));
        let mut now = filed;
        now.learn(&self.pending_observations);
        Some(now)
    }

    /// Keeps what was learned if that has not been done for a while; on a thread of its own, since the disk may be stuck.
    /// Says once why that did not succeed.
    pub fn write_periodically(&mut self) -> Option<String> {
        let failed = self.poll_write(Duration::ZERO);
        if self.last_write.elapsed() >= WRITE_INTERVAL && !self.file_watcher.is_polling() {
            self.last_write = Instant::now();
            self.spawn_write();
        }
        failed.filter(|_| !std::mem::replace(&mut self.failure_reported, true))
    }

    /// Keeps what was learned, unless the disk takes too long for the end of a program; says why it is not kept.
    pub fn write_before_exit(&mut self) -> Option<String> {
        let end = Instant::now() + EXIT_WRITE_TIMEOUT;
        let left = || end.saturating_duration_since(Instant::now());
        self.file_watcher.wait_for_poll(left());
        // What failed before is tried once more.
        let _ = self.poll_write(left());
        self.spawn_write();
        let failed = self.poll_write(left());
        let waits = self.write_in_progress.is_some() || self.file_watcher.is_polling() && !self.pending_observations.is_empty();
        let waits = waits.then(|| "writing it takes too long".to_owned());
        let why = failed.or(waits)?;
        let place = self.store.as_ref().map(|store| format!(" in {}", store.path().display())).unwrap_or_default();
        Some(format!("what this run learned of disks is not kept{place}: {why}"))
    }

    fn spawn_write(&mut self) {
        let free = self.write_in_progress.is_none() && !self.file_watcher.is_polling();
        let Some(store) = self.store.clone().filter(|_| free && !self.pending_observations.is_empty()) else { return };
        let lessons = std::mem::take(&mut self.pending_observations);
        let (sender, done) = channel();
        let body = move || {
            let kept = store.update(|baselines| baselines.learn(&lessons)).map_err(|error| (lessons, error.to_string()));
            // Nobody listens any more when the program ends.
            let _ = sender.send(kept);
        };
        if thread::Builder::new().name("baselines".to_owned()).spawn(body).is_ok() {
            self.write_in_progress = Some(done);
        }
    }

    /// How it came out, as soon as that is known; why where it did not succeed.
    fn poll_write(&mut self, patience: Duration) -> Option<String> {
        let kept = match self.write_in_progress.as_ref()?.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Ok(()),
            Ok(kept) => kept,
        };
        self.write_in_progress = None;
        let (mut lessons, why) = kept.err()?;
        lessons.append(&mut self.pending_observations);
        self.pending_observations = lessons;
        Some(why)
    }
}

/// Why baselines cannot be kept, as far as that can be told without writing.
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
    use crate::units::Millis;

    #[test]
    fn what_others_write_is_taken_in_and_what_they_forget_is_not_kept_after_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = BaselineStore::new(folder.path().join("stalltop/baselines.toml"), nix::unistd::geteuid().as_raw());
        let device = |name: &str| DeviceIdentity(name.into());
        let key = |name: &str| BaselineKey { device: device(name), operation: Operation::Read, size: SizeClass::Small };
        let lesson = |name: &str| Observation {
            key: key(name),
            name: name.to_owned(),
            r#await: Millis(1.0),
            time_ms: 10.0,
            uncontended: true,
            rate: 10.0,
            outstanding: 0.01,
            at_s: 1,
        };
        store.update(|baselines| baselines.set(key("sda"), Millis(5.0))).unwrap();
        let known = store.read().unwrap();
        let news = FileWatcher::new(store.file_stamp(), known.clone(), Duration::ZERO);
        let mut lessons =
            BaselineLearner { store: Some(store.clone()), file_watcher: news, ..BaselineLearner::without_store(known) };
        lessons.pending_observations = vec![lesson("sda"), lesson("sdb")];
        store
            .update(|baselines| {
                baselines.forget(&device("sda"));
                baselines.set(key("sdc"), Millis(7.0));
            })
            .unwrap();
        let now = loop {
            if let Some(now) = lessons.poll_changes() {
                break now;
            }
            thread::yield_now();
        };
        let known = |name: &str| now.get(&key(name)).is_some();
        assert_eq!((known("sda"), known("sdb"), known("sdc")), (false, true, true));
        assert!(lessons.pending_observations.iter().all(|lesson| lesson.key == key("sdb")));
        assert_eq!(lessons.write_before_exit(), None);
        let kept = store.read().unwrap();
        assert!(kept.get(&key("sda")).is_none() && kept.get(&key("sdb")).is_some());
    }
}
