//! Reads and writes the baseline file on a thread of its own: its disk may not answer, and sampling must go on.
//!
//! One request at a time: a read that began before a write would report the content before it.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

#[cfg(test)]
use crate::app::program::exit::Exit;
use crate::app::program::exit::Failure;
use crate::app::program::threads::Worker;
use crate::baseline::store::{BaselineStore, FileStamp};
use crate::baseline::{Baselines, Observation};

/// The baseline file, and the thread that accesses it.
#[derive(Debug)]
pub struct FileThread {
    store: BaselineStore,
    /// The version of the file that was last read, and its content
    stamp: Option<FileStamp>,
    content: Baselines,
    poll_interval: Duration,
    last_poll: Instant,
    /// Started with the first request. It remains, because a new thread for each poll costs several times the poll itself.
    worker: Option<Worker<Request, Response>>,
    start: StartWorker,
    pending: Option<Pending>,
}

type StartWorker = fn(BaselineStore) -> Result<Worker<Request, Response>, Failure>;

/// The request that has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Poll,
    Write,
}

#[derive(Debug)]
enum Request {
    Poll { last: Option<FileStamp> },
    Write(Vec<Observation>),
}

#[derive(Debug)]
enum Response {
    Unchanged,
    Changed(FileStamp, Baselines),
    Written,
    WriteFailed(FailedWrite),
}

/// Observations that could not be written, and why.
#[derive(Debug)]
pub struct FailedWrite {
    pub observations: Vec<Observation>,
    pub why: String,
}

/// What the thread reported.
#[derive(Debug)]
pub enum FileEvent {
    /// The content of the file before and after a change, by this program or another one
    Changed {
        before: Baselines,
        now: Baselines,
    },
    WriteFailed(FailedWrite),
}

impl FileThread {
    /// `stamp` and `content`: as read when the program started.
    pub fn new(store: BaselineStore, stamp: Option<FileStamp>, content: Baselines, poll_interval: Duration) -> FileThread {
        let last_poll = Instant::now();
        FileThread { store, stamp, content, poll_interval, last_poll, worker: None, start: start_worker, pending: None }
    }

    /// One whose thread cannot be started.
    #[cfg(test)]
    pub fn without_thread(store: BaselineStore) -> FileThread {
        let start = |_| Err(Failure::new(Exit::Failed, "cannot start the thread 'baselines'", "no more processes", ""));
        FileThread { start, ..FileThread::new(store, None, Baselines::default(), Duration::ZERO) }
    }

    pub fn store(&self) -> &BaselineStore {
        &self.store
    }

    pub fn is_writing(&self) -> bool {
        self.pending == Some(Pending::Write)
    }

    /// Checks whether the file has changed, at most once per poll interval. Fails if the thread cannot be started.
    pub fn poll_if_due(&mut self) -> Result<(), Failure> {
        let last = self.stamp;
        if self.pending.is_none() && self.last_poll.elapsed() >= self.poll_interval {
            self.last_poll = Instant::now();
            self.worker()?.send(Request::Poll { last });
            self.pending = Some(Pending::Poll);
        }
        Ok(())
    }

    /// Starts to add the observations to the file, and takes them. Returns false while another request is pending. Fails if the
    /// thread cannot be started.
    pub fn write(&mut self, observations: &mut Vec<Observation>) -> Result<bool, Failure> {
        if self.pending.is_some() {
            return Ok(false);
        }
        self.worker()?.send(Request::Write(std::mem::take(observations)));
        self.pending = Some(Pending::Write);
        Ok(true)
    }

    /// Waits for the response to the pending request; `None` if there is none, or nothing to report.
    pub fn next_event(&mut self, timeout: Duration) -> Option<FileEvent> {
        self.pending?;
        match self.worker.as_ref()?.receive(timeout) {
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => self.worker = None,
            Ok(response) => {
                self.pending = None;
                return self.event(response);
            }
        }
        self.pending = None;
        None
    }

    fn event(&mut self, response: Response) -> Option<FileEvent> {
        match response {
            Response::Unchanged | Response::Written => None,
            Response::Changed(stamp, now) => {
                self.stamp = Some(stamp);
                let before = std::mem::replace(&mut self.content, now.clone());
                (before != now).then_some(FileEvent::Changed { before, now })
            }
            Response::WriteFailed(failed) => Some(FileEvent::WriteFailed(failed)),
        }
    }

    /// The thread; it is started if there is none.
    fn worker(&mut self) -> Result<&Worker<Request, Response>, Failure> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => (self.start)(self.store.clone())?,
        };
        Ok(self.worker.insert(worker))
    }
}

fn start_worker(store: BaselineStore) -> Result<Worker<Request, Response>, Failure> {
    Worker::start("baselines", move |request| answer(&store, request))
}

fn answer(store: &BaselineStore, request: Request) -> Response {
    match request {
        Request::Poll { last } => {
            // The stamp first: a change during the read is found by the next poll. A malformed file changes nothing here; the
            // next write moves it aside.
            let stamp = store.file_stamp().filter(|stamp| Some(*stamp) != last);
            match stamp.and_then(|stamp| Some((stamp, store.read().ok()?))) {
                Some((stamp, content)) => Response::Changed(stamp, content),
                None => Response::Unchanged,
            }
        }
        Request::Write(observations) => match store.update(|baselines| baselines.learn(&observations)) {
            Ok(()) => Response::Written,
            Err(error) => Response::WriteFailed(FailedWrite { observations, why: error.to_string() }),
        },
    }
}
