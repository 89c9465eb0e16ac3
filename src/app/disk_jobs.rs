//! Jobs that write to a disk, each on a thread of its own: a disk that does not answer must not stop the screen.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{stdio, threads};
use crate::state::Notice;

/// How long the end of the program waits for a file that is being written.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What is said of a file that is not written by then.
pub const UNSAVED: &str = "a file is not saved: its disk does not answer";

/// The running jobs and their results.
pub struct DiskJobs<T> {
    sender: UnboundedSender<T>,
    results: UnboundedReceiver<T>,
    running: usize,
}

/// A step of waiting for the jobs at the end of the program.
pub enum ShutdownStep<T> {
    JobDone(T),
    AllDone,
    TimedOut,
}

impl<T> Default for DiskJobs<T> {
    fn default() -> DiskJobs<T> {
        let (sender, results) = unbounded_channel();
        DiskJobs { sender, results, running: 0 }
    }
}

impl<T: Send + 'static> DiskJobs<T> {
    /// Waits for the next result; forever where no job is running. Cancel-safe.
    pub async fn next(&mut self) -> T {
        match self.results.recv().await {
            Some(result) => {
                self.running = self.running.saturating_sub(1);
                result
            }
            None => std::future::pending().await,
        }
    }

    /// At the end of the program: the next result within that time.
    pub fn next_within(&mut self, timeout: Duration) -> ShutdownStep<T> {
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

    /// `failed` makes the result where no thread can be started.
    pub fn spawn(&mut self, failed: fn(Notice) -> T, job: impl FnOnce() -> T + Send + 'static) {
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

impl DiskJobs<Notice> {
    /// Waits for the jobs at the end of the program.
    pub fn close(mut self, report: &mut ClosingReport) {
        loop {
            match self.next_within(SHUTDOWN_TIMEOUT) {
                ShutdownStep::JobDone(notice) => report.add(notice),
                ShutdownStep::AllDone => return,
                ShutdownStep::TimedOut => return report.add(Notice::failure(UNSAVED)),
            }
        }
    }
}

/// What is to be said when screens have been closed: on standard error, or on the screen that follows.
#[derive(Debug, Default)]
pub struct ClosingReport {
    lines: Vec<String>,
    /// The first failure
    failure: Option<Failure>,
}

impl ClosingReport {
    pub fn add(&mut self, notice: Notice) {
        match notice.failure {
            true => self.fail(Failure::new(Exit::CannotWrite, notice.text, "", "")),
            false => self.lines.push(notice.text),
        }
    }

    pub fn add_line(&mut self, line: String) {
        self.lines.push(line);
    }

    pub fn fail(&mut self, failure: Failure) {
        match self.failure {
            None => self.failure = Some(failure),
            Some(_) => self.lines.push(failure.to_string()),
        }
    }

    pub fn append(&mut self, later: ClosingReport) {
        self.lines.extend(later.lines);
        later.failure.into_iter().for_each(|failure| self.fail(failure));
    }

    /// After the terminal has been restored: prints the lines; returns the failure.
    pub fn print(self) -> Option<Failure> {
        self.lines.iter().for_each(|line| stdio::print_stderr(line));
        self.failure
    }

    /// The failure and the lines in one; `None` without any.
    pub fn into_notice(self) -> Option<Notice> {
        let failure = self.failure.is_some();
        let texts: Vec<String> = self.failure.iter().map(Failure::to_string).chain(self.lines).collect();
        (!texts.is_empty()).then(|| Notice { text: texts.join("; "), failure })
    }
}

/// The end of the program: a failure of the closing is said also where another one has ended it.
pub fn end_with(ended: Result<Exit, Failure>, failure: Option<Failure>) -> Result<Exit, Failure> {
    match (ended, failure) {
        (Ok(exit), None) => Ok(exit),
        (Ok(_), Some(failure)) => Err(failure),
        (Err(first), failure) => {
            failure.iter().for_each(|failure| stdio::print_stderr(&failure.to_string()));
            Err(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shutdown_waits_for_running_jobs() {
        let mut jobs = DiskJobs::default();
        jobs.spawn(|notice| notice, || Notice::new("saved"));
        assert!(matches!(jobs.next_within(Duration::from_secs(60)), ShutdownStep::JobDone(Notice { failure: false, .. })));
        assert!(matches!(jobs.next_within(Duration::ZERO), ShutdownStep::AllDone));
        jobs.spawn(
            |notice| notice,
            || {
                thread::sleep(Duration::from_secs(60));
                Notice::new("")
            },
        );
        assert!(matches!(jobs.next_within(Duration::from_millis(10)), ShutdownStep::TimedOut));
    }

    /// `P` or `w`, then `q`: what cannot be saved is said.
    #[test]
    fn failures_of_running_jobs_are_reported() {
        let mut jobs = DiskJobs::default();
        for notice in [Notice::new("saved a"), Notice::failure("cannot save b"), Notice::failure("cannot save c")] {
            jobs.spawn(|notice| notice, move || notice);
        }
        let mut report = ClosingReport::default();
        jobs.close(&mut report);
        let notice = report.into_notice().unwrap();
        assert!(notice.failure, "{notice:?}");
        for text in ["saved a", "cannot save b", "cannot save c"] {
            assert!(notice.text.contains(text), "{notice:?}");
        }
        assert_eq!(ClosingReport::default().into_notice(), None);
    }
}
