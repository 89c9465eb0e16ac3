//! Jobs that write to a disk, each on a thread of its own: a disk that does not answer must not stop the screen.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::app::program::{stdio, threads};
use crate::app::recorder::{self, Session};
use crate::baseline::Baselines;
use crate::recording::{Copier, CopyTotals, FrameBacklog, Location, Meta, RecordingError, Replayer, save_recording};
use crate::report::formatting::pluralize;
use crate::state::Notice;
use crate::units::format;

/// How long the end of the program waits for a file that is being saved.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The outcome of a job.
pub enum JobResult {
    RecordingStarted(Box<Session>),
    RecordingFailed(Notice),
    /// A file was saved or a recording ended, or why not
    Notice(Notice),
}

/// A step of waiting for the jobs at the end of the program.
pub enum ShutdownStep {
    JobDone(JobResult),
    AllDone,
    TimedOut,
}

/// The running jobs and their results.
pub struct BackgroundJobs {
    sender: UnboundedSender<JobResult>,
    results: UnboundedReceiver<JobResult>,
    running: usize,
}

impl Default for BackgroundJobs {
    fn default() -> BackgroundJobs {
        let (sender, results) = unbounded_channel();
        BackgroundJobs { sender, results, running: 0 }
    }
}

impl BackgroundJobs {
    /// Waits for the next result; forever where no job is running. Cancel-safe.
    pub async fn next(&mut self) -> JobResult {
        match self.results.recv().await {
            Some(result) => {
                self.running = self.running.saturating_sub(1);
                result
            }
            None => std::future::pending().await,
        }
    }

    /// At the end of the program: the next result within that time.
    pub fn next_within(&mut self, timeout: Duration) -> ShutdownStep {
        let end = Instant::now() + timeout;
        while self.running > 0 {
            if let Ok(result) = self.results.try_recv() {
                self.running -= 1;
                return ShutdownStep::JobDone(result);
            }
            if Instant::now() >= end {
                return ShutdownStep::TimedOut;
            }
            thread::sleep(Duration::from_millis(2));
        }
        ShutdownStep::AllDone
    }

    /// Creates a recording that begins with the samples in memory.
    pub fn start_recording(&mut self, backlog: FrameBacklog, name: String, meta: Meta, baselines: Baselines) {
        let create = move |path: &Path| Session::create_with_history(backlog.clone(), path, &meta, &baselines);
        self.spawn(JobResult::RecordingFailed, move || match recorder::with_fallback_directory(&name, create) {
            Ok(session) => JobResult::RecordingStarted(Box::new(session)),
            Err(error) => JobResult::RecordingFailed(Notice::failure(recorder::failure(error).to_string())),
        });
    }

    pub fn stop_recording(&mut self, session: Session) {
        self.spawn(JobResult::Notice, move || {
            let result = session.finish_patiently();
            JobResult::Notice(result.failure().map_or_else(|| Notice::new(result.summary()), Notice::failure))
        });
    }

    /// Writes a whole recording into a new file.
    pub fn save(&mut self, name: String, bytes: Vec<u8>, samples: usize) {
        self.spawn(JobResult::Notice, move || {
            let saved =
                recorder::with_fallback_directory(&name, |path| save_recording(path, &bytes).map(|()| Location::from(path)));
            JobResult::Notice(match saved {
                Ok(location) => {
                    let (samples, size) = (pluralize(samples as u64, "sample"), format::bytes(bytes.len() as f64));
                    Notice::new(format!("saved {samples}, {size} into {location}"))
                }
                Err(error) => Notice::failure(recorder::failure(error).to_string()),
            })
        });
    }

    /// Copies the samples with these sequence numbers to a new recording.
    pub fn save_range(
        &mut self,
        name: String,
        open: impl FnOnce() -> Result<Replayer, RecordingError> + Send + 'static,
        sequences: RangeInclusive<u64>,
    ) {
        let copy = move || -> Result<(CopyTotals, PathBuf), RecordingError> {
            let mut replayer = open()?;
            let is_in = |index: &usize| replayer.sequence(*index).is_some_and(|sequence| sequences.contains(&sequence));
            let first = (0..replayer.len()).find(is_in).unwrap_or(0);
            let count = (first..replayer.len()).take_while(is_in).count();
            recorder::with_fallback_directory(&name, |path| {
                Ok((Copier::copy_range(&mut replayer, first..first + count, path)?, path.to_owned()))
            })
        };
        self.spawn(JobResult::Notice, move || {
            JobResult::Notice(match copy() {
                Ok((copied, path)) => {
                    let (samples, size) = (pluralize(copied.samples, "sample"), format::bytes(copied.bytes as f64));
                    Notice::new(format!("saved the span: {samples}, {size} into {}", Location::from(path.as_path())))
                }
                Err(error) => Notice::failure(recorder::failure(error).to_string()),
            })
        });
    }

    /// Waits for the jobs at the end of the program; the result says what was not saved.
    pub fn finish(&mut self) -> Option<String> {
        let mut failure = None;
        loop {
            match self.next_within(SHUTDOWN_TIMEOUT) {
                ShutdownStep::JobDone(JobResult::Notice(notice) | JobResult::RecordingFailed(notice)) => {
                    if notice.failure {
                        failure = Some(notice.text);
                    } else {
                        stdio::print_stderr(&notice.text);
                    }
                }
                ShutdownStep::JobDone(JobResult::RecordingStarted(_)) => {}
                ShutdownStep::AllDone => return failure,
                ShutdownStep::TimedOut => return Some("a file is not saved: its disk does not answer".to_owned()),
            }
        }
    }

    /// `failed` makes the result where no thread can be started.
    fn spawn(&mut self, failed: fn(Notice) -> JobResult, job: impl FnOnce() -> JobResult + Send + 'static) {
        self.running += 1;
        let sender = self.sender.clone();
        let body = move || {
            // The receiver is gone only when the program ends.
            let _ = sender.send(job());
        };
        if let Err(failure) = threads::spawn("disk job", body) {
            let _ = self.sender.send(failed(Notice::failure(failure.to_string())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `w`, then `q`: the program waits until the file is saved.
    #[test]
    fn shutdown_waits_for_running_jobs() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("last.stalltop");
        let mut jobs = BackgroundJobs::default();
        jobs.save(file.to_str().unwrap().to_owned(), vec![7; 1 << 20], 3);
        let ShutdownStep::JobDone(JobResult::Notice(notice)) = jobs.next_within(Duration::from_secs(60)) else {
            panic!("the job has not ended")
        };
        assert!(!notice.failure && notice.text.starts_with("saved 3 samples, 1.00 MiB into "), "{}", notice.text);
        assert_eq!(std::fs::read(file).unwrap().len(), 1 << 20);
        assert!(matches!(jobs.next_within(Duration::ZERO), ShutdownStep::AllDone));
        jobs.spawn(JobResult::Notice, || {
            thread::sleep(Duration::from_secs(60));
            JobResult::Notice(Notice::new(""))
        });
        assert!(matches!(jobs.next_within(Duration::from_millis(10)), ShutdownStep::TimedOut));
    }
}
