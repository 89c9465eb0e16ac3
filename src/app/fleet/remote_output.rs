//! The output of the command that connects to a host: a recording on standard output, words on standard error.
//!
//! One thread reads both: `RemoteOutput` polls them, returns the bytes of the recording and keeps the last line of the words. It reads no
//! faster than `MAX_BYTES_PER_SECOND` after a burst: a host that writes without end costs little CPU time here.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{ChildStderr, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::transport::END_TIMEOUT;
use super::work_slot::{TakenSlot, WorkSlot};
use crate::ids::is_unprintable;

/// What a host may send in the long run, and at once: the first samples of a large machine.
const MAX_BYTES_PER_SECOND: f64 = 1_048_576.0;
const MAX_BURST_BYTES: f64 = 16_777_216.0;

/// How often `stop` is looked at.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Standard output of a command. Reading it collects standard error.
pub struct RemoteOutput {
    stdout: ChildStdout,
    /// `None` after its end
    stderr: Option<ChildStderr>,
    words: LastLine,
    silence_timeout: Duration,
    /// Once it is set the output is given up
    stop: Option<Arc<AtomicBool>>,
    /// Bytes that may be read now
    allowance: f64,
    /// When `allowance` was computed
    counted: Instant,
    work: WorkSlot,
    /// From the arrival of bytes until more are waited for
    taken: Option<TakenSlot>,
}

impl RemoteOutput {
    /// `silence_timeout`: how long standard output may be silent.
    pub fn new(stdout: ChildStdout, stderr: Option<ChildStderr>, silence_timeout: Duration, work: WorkSlot) -> RemoteOutput {
        RemoteOutput {
            stdout,
            stderr,
            words: LastLine::default(),
            silence_timeout,
            stop: None,
            allowance: MAX_BURST_BYTES,
            counted: Instant::now(),
            work,
            taken: None,
        }
    }

    /// Gives up soon after `stop` is set.
    pub fn give_up_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    pub fn words(&self) -> LastLine {
        self.words.clone()
    }

    /// Lets other hosts be evaluated, before this thread may wait for something.
    pub fn release_work(&mut self) {
        self.taken = None;
    }

    /// Waits until there is something to read; returns whether it is on standard output.
    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let is_ready = |entry: &PollFd| entry.any().unwrap_or(false);
        let (stdout_ready, stderr_ready) = {
            let mut fds = vec![PollFd::new(self.stdout.as_fd(), PollFlags::POLLIN)];
            fds.extend(self.stderr.iter().map(|stderr| PollFd::new(stderr.as_fd(), PollFlags::POLLIN)));
            match poll(&mut fds, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            (fds.first().is_some_and(is_ready), fds.get(1).is_some_and(is_ready))
        };
        if stderr_ready {
            self.read_stderr();
        }
        Ok(stdout_ready)
    }

    /// Words that are written after the end of the recording, such as why ssh has ended.
    pub fn read_last_words(&mut self) {
        self.release_work();
        let until = Instant::now() + END_TIMEOUT;
        while self.stderr.is_some() && Instant::now() < until {
            let is_ready = match &self.stderr {
                Some(stderr) => {
                    let mut fds = [PollFd::new(stderr.as_fd(), PollFlags::POLLIN)];
                    let left = until.saturating_duration_since(Instant::now());
                    poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)).is_ok_and(|count| count > 0)
                }
                None => false,
            };
            if !is_ready {
                return;
            }
            self.read_stderr();
        }
    }

    fn read_stderr(&mut self) {
        let mut bytes = [0; 1024];
        match self.stderr.as_mut().map(|stderr| stderr.read(&mut bytes)) {
            Some(Ok(count @ 1..)) => self.words.add(bytes.get(..count).unwrap_or_default()),
            Some(Ok(0) | Err(_)) | None => self.stderr = None,
        }
    }

    /// Waits where more was read than a recording has.
    fn throttle(&mut self, count: usize) {
        let now = Instant::now();
        let earned = now.duration_since(self.counted).as_secs_f64() * MAX_BYTES_PER_SECOND;
        self.counted = now;
        self.allowance = (self.allowance + earned).min(MAX_BURST_BYTES) - count as f64;
        if self.allowance < 0.0 {
            std::thread::sleep(Duration::from_secs_f64(-self.allowance / MAX_BYTES_PER_SECOND));
        }
    }
}

impl Read for RemoteOutput {
    /// Fails with `TimedOut` after a silence of `silence_timeout`, and soon after `stop` is set.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.release_work();
        let mut until = Instant::now() + self.silence_timeout;
        let mut has_stopped = false;
        loop {
            let is_stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::SeqCst));
            if is_stopped && !std::mem::replace(&mut has_stopped, true) {
                until = until.min(Instant::now() + END_TIMEOUT);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.wait(if self.stop.is_some() { left.min(STOP_POLL_INTERVAL) } else { left })? {
                let count = self.stdout.read(buffer)?;
                self.throttle(count);
                self.taken = Some(self.work.acquire());
                return Ok(count);
            }
        }
    }
}

/// The last line that a command has written to standard error, not escaped.
#[derive(Clone, Default)]
pub struct LastLine(Arc<Mutex<Vec<u8>>>);

impl LastLine {
    /// Bytes that are kept.
    const MAX_BYTES: usize = 2048;

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(LastLine::MAX_BYTES);
        kept.drain(..surplus);
    }

    /// `None` if there is none but blank ones.
    pub fn text(&self) -> Option<String> {
        last_line(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The last line of a text that is not blank, at most `MAX_LINE_CHARACTERS` of it.
pub fn last_line(bytes: &[u8]) -> Option<String> {
    const MAX_LINE_CHARACTERS: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    let line = text.split(['\n', '\r']).map(str::trim).rfind(|line| !line.is_empty())?;
    // A line of random bytes may be short and look like a word. Colors of a prompt are words.
    let is_odd = |c: &char| *c == char::REPLACEMENT_CHARACTER || is_unprintable(*c) && !c.is_whitespace();
    if text.chars().filter(is_odd).count() * 4 > text.chars().count() {
        return Some("it sends bytes that are no text and no recording".to_owned());
    }
    Some(line.chars().take(MAX_LINE_CHARACTERS).collect())
}
