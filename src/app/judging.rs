//! From samples to judged intervals, one after the other; and the baselines that they are judged by.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::baseline::Baselines;
use crate::baseline::store::Store;
use crate::findings::{Judge, Judged};
use crate::interval::Interval;
use crate::report::text::printable;
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

/// The baselines of this machine. What a run learns is kept when it ends, and now and then before.
#[derive(Debug)]
pub struct Lessons {
    store: Option<Store>,
    kept: Baselines,
    since: Instant,
}

/// How much of what was learned may be lost with a kill -9.
const KEEP_EVERY: Duration = Duration::from_secs(300);

/// How long its beginning waits for one, which may be the very disk that is slow.
const START_PATIENCE: Duration = Duration::from_secs(3);

/// How long the end of the program waits for a disk.
const PATIENCE: Duration = Duration::from_millis(500);

impl Lessons {
    /// From the state directory; with a line for the user where the file there was no good.
    pub fn load() -> (Lessons, Option<String>) {
        let Some(store) = Store::usual(nix::unistd::geteuid().as_raw()) else { return (Lessons::none(), None) };
        let (sender, loaded) = channel();
        let reader = store.clone();
        // On a thread of its own: the home directory may be on a file system that does not answer.
        let body = move || sender.send(reader.load());
        let begun = thread::Builder::new().name("baselines".to_owned()).spawn(body);
        match begun.ok().and_then(|_| loaded.recv_timeout(START_PATIENCE).ok()) {
            Some(loaded) => (Lessons { store: Some(store), kept: loaded.baselines, since: Instant::now() }, loaded.notice),
            None => {
                let path = printable(&store.path().display().to_string());
                (Lessons::none(), Some(format!("{path} does not answer: latencies learned before are not known")))
            }
        }
    }

    /// For a machine that is not this one: nothing known, nothing kept.
    pub fn none() -> Lessons {
        Lessons::of(Baselines::default())
    }

    /// Those of a recording: nothing is kept.
    pub fn of(baselines: Baselines) -> Lessons {
        Lessons { store: None, kept: baselines, since: Instant::now() }
    }

    pub fn baselines(&self) -> &Baselines {
        &self.kept
    }

    pub fn judge(&self) -> Judge {
        Judge::new(self.kept.clone())
    }

    /// Keeps what was learned if that has not been done for a while; on a thread of its own, since the disk may be stuck.
    pub fn keep_now_and_then(&mut self, judge: &Judge) {
        if self.since.elapsed() >= KEEP_EVERY {
            self.since = Instant::now();
            self.send(judge);
        }
    }

    /// Keeps what was learned, unless the disk takes too long for the end of a program.
    pub fn keep_in_time(&mut self, judge: &Judge) {
        if let Some(done) = self.send(judge) {
            let _ = done.recv_timeout(PATIENCE);
        }
    }

    fn send(&mut self, judge: &Judge) -> Option<Receiver<()>> {
        let store = self.store.clone().filter(|_| *judge.baselines() != self.kept)?;
        self.kept = judge.baselines().clone();
        let baselines = self.kept.clone();
        let (sender, done) = channel();
        let body = move || {
            // A directory that cannot be written costs the lesson, nothing else.
            let _ = store.save(&baselines);
            let _ = sender.send(());
        };
        thread::Builder::new().name("baselines".to_owned()).spawn(body).ok().map(|_| done)
    }

    /// Keeps what was learned. A directory that cannot be written costs the lesson, nothing else.
    pub fn keep(&mut self, judge: &Judge) {
        if *judge.baselines() == self.kept {
            return;
        }
        if let Some(store) = &self.store
            && store.save(judge.baselines()).is_ok()
        {
            self.kept = judge.baselines().clone();
        }
    }
}
