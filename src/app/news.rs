//! What others write into the file of baselines while this program runs: `baseline set`, `forget`, other programs that learn.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::baseline::Baselines;
use crate::baseline::store::{Stamp, Store};

/// Looks at the file now and then, on a thread of its own: the disk may be stuck, and sampling goes on.
#[derive(Debug)]
pub struct News {
    /// The file that was last read
    stamp: Option<Stamp>,
    /// What it held: what is in it no more was forgotten
    filed: Baselines,
    every: Duration,
    looked: Instant,
    looking: Option<Receiver<Option<(Stamp, Baselines)>>>,
}

impl News {
    /// From what was read in the beginning.
    pub fn since(stamp: Option<Stamp>, filed: Baselines, every: Duration) -> News {
        News { stamp, filed, every, looked: Instant::now(), looking: None }
    }

    /// Whether a look has not come back yet: who writes the file now would be told of what was there before.
    pub fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    /// Waits for a look that is on its way, at most so long.
    pub fn settle(&mut self, patience: Duration) {
        if let Some(looking) = self.looking.take()
            && looking.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            self.looking = Some(looking);
        }
    }

    /// What the file held and what it holds now, once after each change of it.
    pub fn changed(&mut self, store: &Store) -> Option<(Baselines, Baselines)> {
        let found = match self.looking.as_ref().map(Receiver::try_recv) {
            None => {
                self.look(store);
                return None;
            }
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Err(TryRecvError::Disconnected)) => None,
            Some(Ok(found)) => found,
        };
        self.looking = None;
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
        let (sender, looking) = channel();
        let (store, last) = (store.clone(), self.stamp);
        let body = move || {
            // Stamped first: a change while it is read is seen by the next look. One that cannot be understood changes
            // nothing here; it is put aside when something is kept.
            let stamp = store.stamp().filter(|stamp| Some(*stamp) != last);
            let found = stamp.and_then(|stamp| Some((stamp, store.look().ok()?)));
            // Nobody listens any more when the program ends.
            let _ = sender.send(found);
        };
        if thread::Builder::new().name("baselines".to_owned()).spawn(body).is_ok() {
            self.looking = Some(looking);
        }
    }
}
