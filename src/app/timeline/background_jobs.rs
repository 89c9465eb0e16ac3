//! What touches a disk, done on threads of its own: the disk may be the one that is stuck, and the screen goes on.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::app::recording::{self, Session};
use crate::baseline::Baselines;
use crate::recording::{FrameBacklog, Location, Meta, save_recording};
use crate::report::formatting::pluralize;
use crate::state::Notice;

/// How an errand came out.
pub enum JobResult {
    /// A recording has begun
    RecordingStarted(Box<Session>),
    /// It could not begin
    RecordingFailed(Notice),
    Notice(Notice),
}

/// What is heard of errands at the end of the program.
pub enum ShutdownStep {
    JobDone(JobResult),
    AllDone,
    /// One does not come back in time
    TimedOut,
}

/// Sends threads out and hears of them later.
pub struct BackgroundJobs {
    sender: UnboundedSender<JobResult>,
    results: UnboundedReceiver<JobResult>,
    /// How many are not back yet
    running: usize,
}

impl Default for BackgroundJobs {
    fn default() -> BackgroundJobs {
        let (sender, done) = unbounded_channel();
        BackgroundJobs { sender, results: done, running: 0 }
    }
}

impl BackgroundJobs {
    /// What comes back next; may be given up while it waits, and waits for ever when nothing is out.
    pub async fn next(&mut self) -> JobResult {
        match self.results.recv().await {
            Some(done) => {
                self.running = self.running.saturating_sub(1);
                done
            }
            None => std::future::pending().await,
        }
    }

    /// At the end of the program: what comes back within that time.
    pub fn next_within(&mut self, patience: Duration) -> ShutdownStep {
        let end = Instant::now() + patience;
        while self.running > 0 {
            if let Ok(done) = self.results.try_recv() {
                self.running -= 1;
                return ShutdownStep::JobDone(done);
            }
            if Instant::now() >= end {
                return ShutdownStep::TimedOut;
            }
            thread::sleep(Duration::from_millis(2));
        }
        ShutdownStep::AllDone
    }

    pub fn start_recording(&mut self, history: FrameBacklog, name: String, meta: Meta, baselines: Baselines) {
        let begin = move |path: &Path| Session::create_with_history(history.clone(), path, &meta, &baselines);
        self.spawn(move || match recording::with_fallback_directory(&name, begin) {
            Ok(session) => JobResult::RecordingStarted(Box::new(session)),
            Err(error) => JobResult::RecordingFailed(Notice::failure(recording::failure(error).to_string())),
        });
    }

    pub fn stop_recording(&mut self, session: Session) {
        self.spawn(move || {
            let ended = session.finish_patiently();
            JobResult::Notice(ended.failure().map_or_else(|| Notice::new(ended.summary()), Notice::failure))
        });
    }

    /// A whole recording, into a new file.
    pub fn save(&mut self, name: String, bytes: Vec<u8>, samples: usize) {
        self.spawn(move || {
            let saved =
                recording::with_fallback_directory(&name, |path| save_recording(path, &bytes).map(|()| Location::from(path)));
            JobResult::Notice(match saved {
                Ok(place) => {
                    let (samples, amount) = (pluralize(samples as u64, "sample"), recording::format_bytes(bytes.len() as u64));
                    Notice::new(format!("saved {samples}, {amount} into {place}"))
                }
                Err(error) => Notice::failure(recording::failure(error).to_string()),
            })
        });
    }

    fn spawn(&mut self, errand: impl FnOnce() -> JobResult + Send + 'static) {
        self.running += 1;
        let sender = self.sender.clone();
        let body = move || {
            // Nobody listens any more when the program ends.
            let _ = sender.send(errand());
        };
        if let Err(error) = thread::Builder::new().name("errand".to_owned()).spawn(body) {
            let _ = self.sender.send(JobResult::RecordingFailed(Notice::failure(format!("cannot start: {error}"))));
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
        let mut errands = BackgroundJobs::default();
        errands.save(file.to_str().unwrap().to_owned(), vec![7; 1 << 20], 3);
        let ShutdownStep::JobDone(JobResult::Notice(notice)) = errands.next_within(Duration::from_secs(60)) else {
            panic!("it was not waited for")
        };
        assert!(!notice.failure && notice.text.starts_with("saved 3 samples, 1.0 MiB into "), "{}", notice.text);
        assert_eq!(std::fs::read(file).unwrap().len(), 1 << 20);
        assert!(matches!(errands.next_within(Duration::ZERO), ShutdownStep::AllDone));
        errands.spawn(|| {
            thread::sleep(Duration::from_secs(60));
            JobResult::Notice(Notice::new(""))
        });
        assert!(matches!(errands.next_within(Duration::from_millis(10)), ShutdownStep::TimedOut));
    }
}
