//! What touches a disk, done on threads of its own: the disk may be the one that is stuck, and the screen goes on.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::app::recording::{self, Session};
use crate::baseline::Baselines;
use crate::recording::{History, Meta, Place, save};
use crate::report::words::many;
use crate::state::Notice;

/// How an errand came out.
pub enum Done {
    /// A recording has begun
    Recording(Box<Session>),
    /// It could not begin
    NotRecording(Notice),
    Said(Notice),
}

/// What is heard of errands at the end of the program.
pub enum Last {
    Back(Done),
    AllBack,
    /// One does not come back in time
    StillOut,
}

/// Sends threads out and hears of them later.
pub struct Errands {
    sender: UnboundedSender<Done>,
    done: UnboundedReceiver<Done>,
    /// How many are not back yet
    out: usize,
}

impl Default for Errands {
    fn default() -> Errands {
        let (sender, done) = unbounded_channel();
        Errands { sender, done, out: 0 }
    }
}

impl Errands {
    /// What comes back next; may be given up while it waits, and waits for ever when nothing is out.
    pub async fn next(&mut self) -> Done {
        match self.done.recv().await {
            Some(done) => {
                self.out = self.out.saturating_sub(1);
                done
            }
            None => std::future::pending().await,
        }
    }

    /// At the end of the program: what comes back within that time.
    pub fn last(&mut self, patience: Duration) -> Last {
        let end = Instant::now() + patience;
        while self.out > 0 {
            if let Ok(done) = self.done.try_recv() {
                self.out -= 1;
                return Last::Back(done);
            }
            if Instant::now() >= end {
                return Last::StillOut;
            }
            thread::sleep(Duration::from_millis(2));
        }
        Last::AllBack
    }

    pub fn begin_recording(&mut self, history: History, name: String, meta: Meta, baselines: Baselines) {
        let begin = move |path: &Path| Session::after(history.clone(), path, &meta, &baselines);
        self.run(move || match recording::somewhere(&name, begin) {
            Ok(session) => Done::Recording(Box::new(session)),
            Err(error) => Done::NotRecording(Notice::failure(recording::failure(error).to_string())),
        });
    }

    pub fn end_recording(&mut self, session: Session) {
        self.run(move || {
            let ended = session.finish_at_last();
            Done::Said(ended.failure().map_or_else(|| Notice::new(ended.words()), Notice::failure))
        });
    }

    /// A whole recording, into a new file.
    pub fn save(&mut self, name: String, bytes: Vec<u8>, samples: usize) {
        self.run(move || {
            let saved = recording::somewhere(&name, |path| save(path, &bytes).map(|()| Place::from(path)));
            Done::Said(match saved {
                Ok(place) => {
                    let (samples, amount) = (many(samples as u64, "sample"), recording::amount(bytes.len() as u64));
                    Notice::new(format!("saved {samples}, {amount} into {place}"))
                }
                Err(error) => Notice::failure(recording::failure(error).to_string()),
            })
        });
    }

    fn run(&mut self, errand: impl FnOnce() -> Done + Send + 'static) {
        self.out += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `w`, then `q`: the program waits for what is being saved.
    #[test]
    fn the_end_waits_for_what_was_begun() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("last.stalltop");
        let mut errands = Errands::default();
        errands.save(file.to_str().unwrap().to_owned(), vec![7; 1 << 20], 3);
        let Last::Back(Done::Said(notice)) = errands.last(Duration::from_secs(60)) else { panic!("it was not waited for") };
        assert!(!notice.failure && notice.text.starts_with("saved 3 samples, 1.0 MiB into "), "{}", notice.text);
        assert_eq!(std::fs::read(file).unwrap().len(), 1 << 20);
        assert!(matches!(errands.last(Duration::ZERO), Last::AllBack));
        errands.run(|| {
            thread::sleep(Duration::from_secs(60));
            Done::Said(Notice::new(""))
        });
        assert!(matches!(errands.last(Duration::from_millis(10)), Last::StillOut));
    }
}
