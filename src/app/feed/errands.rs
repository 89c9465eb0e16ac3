//! What touches a disk, done on threads of its own: the disk may be the one that is stuck, and the screen goes on.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::app::recording::{self, Session};
use crate::baseline::Baselines;
use crate::recording::{History, Meta};
use crate::state::Notice;

/// How an errand came out.
pub enum Done {
    /// A recording has begun
    Recording(Box<Session>),
    /// It could not begin
    NotRecording(Notice),
    Said(Notice),
}

/// Sends threads out and hears of them later.
pub struct Errands {
    sender: Sender<Done>,
    done: Receiver<Done>,
}

impl Default for Errands {
    fn default() -> Errands {
        let (sender, done) = channel();
        Errands { sender, done }
    }
}

impl Errands {
    /// What has come back since.
    pub fn done(&self) -> impl Iterator<Item = Done> {
        self.done.try_iter()
    }

    pub fn begin_recording(&self, history: History, path: PathBuf, meta: Meta, baselines: Baselines) {
        self.run(move || match Session::after(history, &path, &meta, &baselines) {
            Ok(session) => Done::Recording(Box::new(session)),
            Err(error) => Done::NotRecording(Notice::failure(error.to_string())),
        });
    }

    pub fn end_recording(&self, session: Session) {
        self.run(move || {
            let ended = session.finish();
            Done::Said(ended.failure().map_or_else(|| Notice::new(ended.words()), Notice::failure))
        });
    }

    /// A whole recording, into a new file.
    pub fn save(&self, path: PathBuf, bytes: Vec<u8>, samples: usize) {
        self.run(move || {
            Done::Said(match recording::save(&path, &bytes) {
                Ok(()) => {
                    let amount = recording::amount(bytes.len() as u64);
                    Notice::new(format!("saved {samples} samples, {amount} into {}", path.display()))
                }
                Err(error) => Notice::failure(format!("cannot save {}: {error}", path.display())),
            })
        });
    }

    fn run(&self, errand: impl FnOnce() -> Done + Send + 'static) {
        let sender = self.sender.clone();
        let body = move || {
            // Nobody listens any more when the program ends.
            let _ = sender.send(errand());
        };
        if let Err(error) = thread::Builder::new().name("errand".to_owned()).spawn(body) {
            let _ = self.sender.send(Done::NotRecording(Notice::failure(format!("cannot start: {error}"))));
        }
    }
}
