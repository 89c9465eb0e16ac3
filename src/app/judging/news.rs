//! What others write into the file of baselines while this program runs: `baseline set`, `forget`, other programs that learn.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::baseline::Baselines;
use crate::baseline::store::{Stamp, Store};

/// Looks at the file now and then, on a thread of its own: the disk may be stuck, and sampling goes on. The thread stays: to
/// begin and end one costs several times what it has to do.
#[derive(Debug)]
pub struct News {
    /// The file that was last read
    stamp: Option<Stamp>,
    /// What it held: what is in it no more was forgotten
    filed: Baselines,
    every: Duration,
    looked: Instant,
    /// It has been asked and has not answered
    looking: bool,
    looker: Option<Looker>,
}

/// What the file holds, where it is another one than it was.
type Found = Option<(Stamp, Baselines)>;

#[derive(Debug)]
struct Looker {
    questions: Sender<(Store, Option<Stamp>)>,
    answers: Receiver<Found>,
}

impl Looker {
    /// It ends when nobody can ask it any more.
    fn start() -> Option<Looker> {
        let (questions, asked) = channel::<(Store, Option<Stamp>)>();
        let (sender, answers) = channel();
        let body = move || {
            for (store, last) in asked {
                // Stamped first: a change while it is read is seen by the next look. One that cannot be understood changes
                // nothing here; it is put aside when something is kept.
                let stamp = store.stamp().filter(|stamp| Some(*stamp) != last);
                let found = stamp.and_then(|stamp| Some((stamp, store.look().ok()?)));
                if sender.send(found).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("baselines".to_owned()).spawn(body).ok()?;
        Some(Looker { questions, answers })
    }
}

impl News {
    /// From what was read in the beginning.
    pub fn since(stamp: Option<Stamp>, filed: Baselines, every: Duration) -> News {
        News { stamp, filed, every, looked: Instant::now(), looking: false, looker: None }
    }

    /// Whether a look has not come back yet: who writes the file now would be told of what was there before.
    pub fn is_looking(&self) -> bool {
        self.looking
    }

    /// Waits for a look that is on its way, at most so long.
    pub fn settle(&mut self, patience: Duration) {
        if self.looking
            && let Some(looker) = &self.looker
        {
            self.looking = looker.answers.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
        }
    }

    /// What the file held and what it holds now, once after each change of it.
    pub fn changed(&mut self, store: &Store) -> Option<(Baselines, Baselines)> {
        if !self.looking {
            self.look(store);
            return None;
        }
        let found = match self.looker.as_ref().map(|looker| looker.answers.try_recv()) {
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Ok(found)) => found,
            Some(Err(TryRecvError::Disconnected)) | None => {
                self.looker = None;
                None
            }
        };
        self.looking = false;
        let (stamp, filed) = found?;
        self.stamp = Some(stamp);
        let was = std::mem::replace(&mut self.filed, filed.clone());
        (was != filed).then_some((was, filed))
    }

    fn look(&mut self, store: &Store) {
        if self.looked.elapsed() < self.every {
            return;
        }
        self.looked = Instant::now();
        if self.looker.is_none() {
            self.looker = Looker::start();
        }
        let asked = self.looker.as_ref().map(|looker| looker.questions.send((store.clone(), self.stamp)));
        self.looking = asked.is_some_and(|asked| asked.is_ok());
    }
}
