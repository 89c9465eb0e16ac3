//! From samples to judged intervals, one after the other; and the baselines that they are judged by.

mod news;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::AccessFlags;

use crate::app::program::patience::within;
use crate::app::program::stdout;
use crate::baseline::store::Store;
use crate::baseline::{Baselines, Device, Lesson};
use crate::findings::{Criteria, Judge, Judged};
use crate::interval::Interval;
use crate::interval::boot::since_boot;
use crate::sample::{Host, Sample};
use news::News;

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

    /// The same of a recording, whose next sample may be of another machine, or of another run of it: no interval reaches from
    /// the one to the other.
    pub fn take_of(&mut self, host: &Arc<Host>, sample: Arc<Sample>) -> Option<Judged> {
        if !Arc::ptr_eq(&self.host, host) {
            if !self.host.is_same_run(host) {
                self.last = None;
            }
            self.host = Arc::clone(host);
        }
        self.take(sample)
    }

    /// The time from boot to this sample; nothing is learned of it.
    pub fn since_boot(&self, sample: &Arc<Sample>) -> Option<Judged> {
        Some(self.judge.clone().judge(since_boot(&self.host, sample)?))
    }

    /// The next interval begins with this sample; nothing is judged.
    pub fn begin(&mut self, sample: Arc<Sample>) {
        self.last = Some(sample);
    }

    /// From now on judged by these baselines.
    pub fn adopt(&mut self, baselines: Baselines) {
        self.judge.adopt(baselines);
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
    news: News,
    /// That they cannot be kept was told already
    told: bool,
}

/// How keeping some lessons came out: those that could not be kept, and why.
type Kept = Result<(), (Vec<Lesson>, String)>;

/// How much of what was learned may be lost with a kill -9.
const KEEP_EVERY: Duration = Duration::from_secs(300);

/// How often the file is looked at for what others have written.
const LOOK_EVERY: Duration = Duration::from_secs(2);

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
            let loaded = |store: Store| (store.stamp(), store.load(), store);
            (store.map(loaded), obstacle)
        });
        let Some((found, obstacle)) = found else {
            let line = "the state directory does not answer: latencies learned before are not known";
            return (Lessons::none(), Some(line.to_owned()));
        };
        let not_kept = obstacle.map(|why| format!("what is learned of disks is not kept: {why}"));
        let Some((stamp, loaded, store)) = found else { return (Lessons::none(), not_kept) };
        let told = not_kept.is_some();
        let news = News::since(stamp, loaded.baselines.clone(), LOOK_EVERY);
        (Lessons { store: Some(store), told, news, ..Lessons::of(loaded.baselines) }, loaded.notice.or(not_kept))
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
        let news = News::since(None, known.clone(), LOOK_EVERY);
        Lessons { store: None, known, pending: Vec::new(), since: Instant::now(), keeping: None, news, told: false }
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

    /// What is to be judged by from now on, where somebody has changed the file: what it holds, and what this run has
    /// learned and not kept yet. What was taught of a device that is forgotten since is forgotten too.
    pub fn news(&mut self) -> Option<Baselines> {
        // What is being written is not yet in the file, and no longer to be added.
        let store = self.store.as_ref().filter(|_| self.keeping.is_none())?;
        let (was, filed) = self.news.changed(store)?;
        let holds = |baselines: &Baselines, device: &Device| baselines.of(device).next().is_some();
        self.pending.retain(|lesson| !holds(&was, &lesson.key.device) || holds(&filed, &lesson.key.device));
        let mut now = filed;
        now.learn(&self.pending);
        Some(now)
    }

    /// Keeps what was learned if that has not been done for a while; on a thread of its own, since the disk may be stuck.
    /// Says once why that did not succeed.
    pub fn keep_now_and_then(&mut self) -> Option<String> {
        let failed = self.hear_of_it(Duration::ZERO);
        if self.since.elapsed() >= KEEP_EVERY && !self.news.is_looking() {
            self.since = Instant::now();
            self.send();
        }
        failed.filter(|_| !std::mem::replace(&mut self.told, true))
    }

    /// Keeps what was learned, unless the disk takes too long for the end of a program; says why it is not kept.
    pub fn keep_in_time(&mut self) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        let left = || end.saturating_duration_since(Instant::now());
        self.news.settle(left());
        // What failed before is tried once more.
        let _ = self.hear_of_it(left());
        self.send();
        let failed = self.hear_of_it(left());
        let waits = self.keeping.is_some() || self.news.is_looking() && !self.pending.is_empty();
        let waits = waits.then(|| "writing it takes too long".to_owned());
        let why = failed.or(waits)?;
        let place = self.store.as_ref().map(|store| format!(" in {}", store.path().display())).unwrap_or_default();
        Some(format!("what this run learned of disks is not kept{place}: {why}"))
    }

    fn send(&mut self) {
        let free = self.keeping.is_none() && !self.news.is_looking();
        let Some(store) = self.store.clone().filter(|_| free && !self.pending.is_empty()) else { return };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::{Key, SizeClass};
    use crate::interval::disk::Operation;
    use crate::units::Millis;

    #[test]
    fn what_others_write_is_taken_in_and_what_they_forget_is_not_kept_after_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("stalltop/baselines.toml"), nix::unistd::geteuid().as_raw());
        let device = |name: &str| Device(name.into());
        let key = |name: &str| Key { device: device(name), operation: Operation::Read, size: SizeClass::Small };
        let lesson = |name: &str| Lesson {
            key: key(name),
            name: name.to_owned(),
            r#await: Millis(1.0),
            time_ms: 10.0,
            alone: true,
            rate: 10.0,
            outstanding: 0.01,
            at_s: 1,
        };
        store.update(|baselines| baselines.set(key("sda"), Millis(5.0))).unwrap();
        let known = store.look().unwrap();
        let news = News::since(store.stamp(), known.clone(), Duration::ZERO);
        let mut lessons = Lessons { store: Some(store.clone()), news, ..Lessons::of(known) };
        lessons.pending = vec![lesson("sda"), lesson("sdb")];
        store
            .update(|baselines| {
                baselines.forget(&device("sda"));
                baselines.set(key("sdc"), Millis(7.0));
            })
            .unwrap();
        let now = loop {
            if let Some(now) = lessons.news() {
                break now;
            }
            thread::yield_now();
        };
        let known = |name: &str| now.get(&key(name)).is_some();
        assert_eq!((known("sda"), known("sdb"), known("sdc")), (false, true, true));
        assert!(lessons.pending.iter().all(|lesson| lesson.key == key("sdb")));
        assert_eq!(lessons.keep_in_time(), None);
        let kept = store.look().unwrap();
        assert!(kept.get(&key("sda")).is_none() && kept.get(&key("sdb")).is_some());
    }
}
