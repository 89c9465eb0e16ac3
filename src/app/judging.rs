//! From samples to judged intervals, one after the other; and the baselines that they are judged by.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::AccessFlags;

use super::patience::within;
use super::stdout;
use crate::baseline::store::Store;
use crate::baseline::{Baselines, Lesson};
use crate::findings::{Criteria, Judge, Judged};
use crate::interval::Interval;
use crate::sample::{Host, Sample};

/// A judge with the sample that the next interval begins with.
#[derive(Clone, Debug)]
pub struct Judging {
    host: Arc<Host>,
    judge: Judge,
    last: Option<Arc<Sample>>,
}

impl Judging {
    pub fn new(host: Arc<Host>, judge: Judge) -> Judging {
        Judging { host, judge, last: None }
    }

    /// The interval that this sample ends; `None` for the first one.
    pub fn take(&mut self, sample: Arc<Sample>) -> Option<Judged> {
        let older = self.last.replace(Arc::clone(&sample))?;
        let interval = Interval::between(&self.host, &older, &sample)?;
        Some(self.judge.judge(interval))
    }

    /// The next interval begins with this sample; nothing is judged.
    pub fn begin(&mut self, sample: Arc<Sample>) {
        self.last = Some(sample);
    }

    /// The judge as it is now: what the next interval will be judged by.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }
}

/// The baselines of this machine, and what this run has learned and not kept yet. It is kept when the run ends, and now and
/// then before: added to what is in the file by then, so that several programs may learn at the same time.
#[derive(Debug)]
pub struct Lessons {
    store: Option<Store>,
    known: Baselines,
    pending: Vec<Lesson>,
    since: Instant,
    keeping: Option<Receiver<Kept>>,
    /// That they cannot be kept was told already
    told: bool,
}

/// How keeping some lessons came out: those that could not be kept, and why.
type Kept = Result<(), (Vec<Lesson>, String)>;

/// How much of what was learned may be lost with a kill -9.
const KEEP_EVERY: Duration = Duration::from_secs(300);

/// How long its beginning waits for one, which may be the very disk that is slow.
pub const START_PATIENCE: Duration = Duration::from_secs(3);

/// How long the end of the program waits for a disk.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where they cannot be kept, the oldest of more than this are dropped.
const MOST_PENDING: usize = 50_000;

impl Lessons {
    /// From the state directory; with a line for the user where the file there was no good, or cannot be written.
    pub fn load() -> (Lessons, Option<String>) {
        // The look for the place included: it may be on a file system that does not answer.
        let found = within(START_PATIENCE, || {
            let store = Store::usual(nix::unistd::geteuid().as_raw());
            let obstacle = obstacle(store.as_ref());
            (store.map(|store| (store.load(), store)), obstacle)
        });
        let Some((found, obstacle)) = found else {
            let line = "the state directory does not answer: latencies learned before are not known";
            return (Lessons::none(), Some(line.to_owned()));
        };
        let not_kept = obstacle.map(|why| format!("what is learned of disks is not kept: {why}"));
        let Some((loaded, store)) = found else { return (Lessons::none(), not_kept) };
        let told = not_kept.is_some();
        (Lessons { store: Some(store), told, ..Lessons::of(loaded.baselines) }, loaded.notice.or(not_kept))
    }

    /// The same for a command that prints lines.
    pub fn load_or_complain() -> Lessons {
        let (lessons, notice) = Lessons::load();
        if let Some(line) = notice {
            stdout::complain(&line);
        }
        lessons
    }

    /// For a machine that is not this one: nothing known, nothing kept.
    pub fn none() -> Lessons {
        Lessons::of(Baselines::default())
    }

    /// Those of a recording: nothing is kept.
    pub fn of(known: Baselines) -> Lessons {
        Lessons { store: None, known, pending: Vec::new(), since: Instant::now(), keeping: None, told: false }
    }

    /// What was known in the beginning.
    pub fn baselines(&self) -> &Baselines {
        &self.known
    }

    /// A judge that begins with them.
    pub fn judge(&self, criteria: Arc<Criteria>) -> Judge {
        Judge::new(self.known.clone()).by(criteria)
    }

    /// Takes in what an interval taught.
    pub fn hear(&mut self, judged: &Judged) {
        if self.store.is_some() {
            self.pending.extend_from_slice(&judged.lessons);
            let surplus = self.pending.len().saturating_sub(MOST_PENDING);
            self.pending.drain(..surplus);
        }
    }

    /// Keeps what was learned if that has not been done for a while; on a thread of its own, since the disk may be stuck.
    /// Says once why that did not succeed.
    pub fn keep_now_and_then(&mut self) -> Option<String> {
        let failed = self.hear_of_it(Duration::ZERO);
        if self.since.elapsed() >= KEEP_EVERY {
            self.since = Instant::now();
            self.send();
        }
        failed.filter(|_| !std::mem::replace(&mut self.told, true))
    }

    /// Keeps what was learned, unless the disk takes too long for the end of a program; says why it is not kept.
    pub fn keep_in_time(&mut self) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        let left = || end.saturating_duration_since(Instant::now());
        // What failed before is tried once more.
        let _ = self.hear_of_it(left());
        self.send();
        let failed = self.hear_of_it(left());
        let waits = self.keeping.is_some().then(|| "writing it takes too long".to_owned());
        let why = failed.or(waits)?;
        let place = self.store.as_ref().map(|store| format!(" in {}", store.path().display())).unwrap_or_default();
        Some(format!("what this run learned of disks is not kept{place}: {why}"))
    }

    fn send(&mut self) {
        let Some(store) = self.store.clone().filter(|_| self.keeping.is_none() && !self.pending.is_empty()) else { return };
        let lessons = std::mem::take(&mut self.pending);
        let (sender, done) = channel();
        let body = move || {
            let kept = store.update(|baselines| baselines.learn(&lessons)).map_err(|error| (lessons, error.to_string()));
            // Nobody listens any more when the program ends.
            let _ = sender.send(kept);
        };
        if thread::Builder::new().name("baselines".to_owned()).spawn(body).is_ok() {
            self.keeping = Some(done);
        }
    }

    /// How it came out, as soon as that is known; why where it did not succeed.
    fn hear_of_it(&mut self, patience: Duration) -> Option<String> {
        let kept = match self.keeping.as_ref()?.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Ok(()),
            Ok(kept) => kept,
        };
        self.keeping = None;
        let (mut lessons, why) = kept.err()?;
        lessons.append(&mut self.pending);
        self.pending = lessons;
        Some(why)
    }
}

/// Why baselines cannot be kept, as far as that can be told without writing.
pub fn obstacle(store: Option<&Store>) -> Option<String> {
    let may_write = |path: &Path| nix::unistd::access(path, AccessFlags::W_OK).is_ok();
    match store {
        Some(store) => store.obstacle(may_write),
        None => Some("there is no home directory".to_owned()),
    }
}
