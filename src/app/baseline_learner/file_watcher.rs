//! What others write into the file of baselines while this program runs: `baseline set`, `forget`, other programs that learn.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::baseline::Baselines;
use crate::baseline::store::{BaselineStore, FileStamp};

/// Looks at the file now and then, on a thread of its own: the disk may be stuck, and sampling goes on. The thread stays: to
/// begin and end one costs several times what it has to do.
#[derive(Debug)]
pub struct FileWatcher {
    /// The file that was last read
    stamp: Option<FileStamp>,
    /// What it held: what is in it no more was forgotten
    last_content: Baselines,
    poll_interval: Duration,
    last_poll: Instant,
    /// It has been asked and has not answered
    poll_pending: bool,
    thread: Option<PollThread>,
}

/// What the file holds, where it is another one than it was.
type FileChange = Option<(FileStamp, Baselines)>;

#[derive(Debug)]
struct PollThread {
    requests: Sender<(BaselineStore, Option<FileStamp>)>,
    responses: Receiver<FileChange>,
}

impl PollThread {
    /// It ends when nobody can ask it any more.
    fn start() -> Option<PollThread> {
        let (questions, asked) = channel::<(BaselineStore, Option<FileStamp>)>();
        let (sender, answers) = channel();
        let body = move || {
            for (store, last) in asked {
                // Stamped first: a change while it is read is seen by the next look. One that cannot be understood changes
                // nothing here; it is put aside when something is kept.
                let stamp = store.file_stamp().filter(|stamp| Some(*stamp) != last);
                let found = stamp.and_then(|stamp| Some((stamp, store.read().ok()?)));
                if sender.send(found).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("baselines".to_owned()).spawn(body).ok()?;
        Some(PollThread { requests: questions, responses: answers })
    }
}

impl FileWatcher {
    /// From what was read in the beginning.
    pub fn new(stamp: Option<FileStamp>, filed: Baselines, every: Duration) -> FileWatcher {
        FileWatcher {
            stamp,
            last_content: filed,
            poll_interval: every,
            last_poll: Instant::now(),
            poll_pending: false,
            thread: None,
        }
    }

    /// Whether a look has not come back yet: who writes the file now would be told of what was there before.
    pub fn is_polling(&self) -> bool {
        self.poll_pending
    }

    /// Waits for a look that is on its way, at most so long.
    pub fn wait_for_poll(&mut self, patience: Duration) {
        if self.poll_pending
            && let Some(looker) = &self.thread
        {
            self.poll_pending = looker.responses.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
        }
    }

    /// What the file held and what it holds now, once after each change of it.
    pub fn poll_change(&mut self, store: &BaselineStore) -> Option<(Baselines, Baselines)> {
        if !self.poll_pending {
            self.start_poll(store);
            return None;
        }
        let found = match self.thread.as_ref().map(|looker| looker.responses.try_recv()) {
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Ok(found)) => found,
            Some(Err(TryRecvError::Disconnected)) | None => {
                self.thread = None;
                None
            }
        };
        self.poll_pending = false;
        let (stamp, filed) = found?;
        self.stamp = Some(stamp);
        let was = std::mem::replace(&mut self.last_content, filed.clone());
        (was != filed).then_some((was, filed))
    }

    fn start_poll(&mut self, store: &BaselineStore) {
        if self.last_poll.elapsed() < self.poll_interval {
            return;
        }
        self.last_poll = Instant::now();
        if self.thread.is_none() {
            self.thread = PollThread::start();
        }
        let asked = self.thread.as_ref().map(|looker| looker.requests.send((store.clone(), self.stamp)));
        self.poll_pending = asked.is_some_and(|asked| asked.is_ok());
    }
}
