//! `record --ops CMD`: a command that prints a running total is run repeatedly on a thread of its own, and each sample contains
//! the last total. Neither sampling nor recording waits for it.
//!
//! It is run by `/bin/sh -c`, one at a time (`child_process`); its standard input and standard error are /dev/null. Of its output
//! 4 KiB are read, and their first word must be a number. Its exit code must be 0, since a client that cannot connect may print 0;
//! that of a command which prints more than 4 KiB is ignored. It has the privileges of the user who records.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::app::child_process::{ChildProcess, Deadline};
use crate::app::program::exit::Failure;
use crate::app::program::{stdio, threads};
use crate::kernel;
use crate::sample::operations::Operations;
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// A command that takes longer is killed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// It is not started more often.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// It runs at most a tenth of the time, so that it does not become the load.
const DUTY_CYCLE_DIVISOR: u32 = 10;
/// How soon a stop is noticed while the command runs.
const POLL_SLICE: Duration = Duration::from_millis(50);
/// The part of its output that is read.
const MAX_OUTPUT_BYTES: usize = 4096;
/// An error that repeats is reported at this interval.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// How long the end of the program waits for a killed command: one in uninterruptible sleep does not end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// The thread that runs the command. Dropping this ends the thread and the command.
pub struct OperationsCommand {
    latest: LatestOperations,
    stop: Arc<AtomicBool>,
    thread: Thread,
    /// Closed when the thread ends
    ended: Receiver<()>,
}

/// The last total, shared with the sampling thread.
#[derive(Clone)]
pub struct LatestOperations(Arc<Mutex<Reading<Operations>>>);

impl LatestOperations {
    pub fn reading(&self) -> Reading<Operations> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, reading: Reading<Operations>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }
}

impl OperationsCommand {
    /// Starts to run the command, about as often as samples are taken.
    pub fn start(command: &OsStr, interval: Duration) -> Result<OperationsCommand, Failure> {
        let latest = LatestOperations(Arc::new(Mutex::new(Err(Absent::NotRead))));
        let stop = Arc::new(AtomicBool::new(false));
        let (running, ended) = channel::<()>();
        let mut runner =
            CommandRunner { command: command.into(), stop: Arc::clone(&stop), latest: latest.clone(), last_reported: None };
        let body = move || {
            runner.run(interval.max(MIN_INTERVAL));
            drop(running);
        };
        let thread = threads::spawn("operations", body)?;
        Ok(OperationsCommand { latest, stop, thread: thread.thread().clone(), ended })
    }

    pub fn latest(&self) -> LatestOperations {
        self.latest.clone()
    }
}

impl Drop for OperationsCommand {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.unpark();
        let _ = self.ended.recv_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// What the thread owns.
struct CommandRunner {
    command: Box<OsStr>,
    stop: Arc<AtomicBool>,
    latest: LatestOperations,
    /// When an error was last printed
    last_reported: Option<Instant>,
}

impl CommandRunner {
    fn run(&mut self, pause: Duration) {
        while !self.is_stopped() {
            let started = Instant::now();
            match run_once(&self.command, COMMAND_TIMEOUT, &self.stop) {
                Ok(total) => {
                    let at_boottime_ns = kernel::now().boottime_ns;
                    self.latest.set(Ok(Operations { total: Counter(total), printed_boottime_ns: at_boottime_ns }));
                }
                Err(_) if self.is_stopped() => return,
                Err(error) => {
                    self.latest.set(Err(error.to_absent()));
                    self.report(&error);
                }
            }
            let took = started.elapsed();
            let next = started + pause.max(took * DUTY_CYCLE_DIVISOR);
            while !self.is_stopped() {
                let left = next.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                thread::park_timeout(left);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn report(&mut self, error: &CommandError) {
        if self.last_reported.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL) {
            self.last_reported = Some(Instant::now());
            let command = self.command.to_string_lossy();
            stdio::print_stderr(&format!(
                "cannot count operations: '{command}': {error}: the recording goes on, and the command is run again"
            ));
        }
    }
}

/// Runs the command once; returns the total that it prints. Kills it after this time, or when it is to stop.
fn run_once(command: &OsStr, timeout: Duration, stop: &AtomicBool) -> Result<u64, CommandError> {
    let deadline = Deadline { until: Instant::now() + timeout, stop };
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = ChildProcess::start(&mut shell).map_err(CommandError::Os)?;
    let Some(output) = child.take_stdout() else { return Err(CommandError::Os(io::ErrorKind::BrokenPipe.into())) };
    let text = read_output(output, deadline)?;
    if !child.wait_until(deadline).map_err(CommandError::Os)? {
        return Err(CommandError::TimedOut);
    }
    let status = child.end().map_err(CommandError::Os)?;
    // One that writes more fails, since no more is read.
    if text.len() < MAX_OUTPUT_BYTES && !status.success() {
        return Err(CommandError::Failed(status));
    }
    parse_total(&text).ok_or(CommandError::NotANumber(text))
}

/// Reads the output of a command to the end, or the first 4 KiB.
fn read_output(mut output: ChildStdout, deadline: Deadline) -> Result<Vec<u8>, CommandError> {
    let mut text = Vec::new();
    while text.len() < MAX_OUTPUT_BYTES {
        let slice = deadline.time_left().ok_or(CommandError::TimedOut)?.min(POLL_SLICE);
        let ready = {
            let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(slice).unwrap_or(PollTimeout::ZERO);
            match poll(&mut fds, timeout) {
                Ok(count) => count > 0,
                Err(nix::errno::Errno::EINTR) => false,
                Err(error) => return Err(CommandError::Os(error.into())),
            }
        };
        if ready {
            let mut buffer = [0; MAX_OUTPUT_BYTES];
            match output.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CommandError::Os(error)),
            }
        }
    }
    Ok(text)
}

/// Why there is no total.
#[derive(Debug)]
enum CommandError {
    Os(io::Error),
    TimedOut,
    Failed(ExitStatus),
    /// The output
    NotANumber(Vec<u8>),
}

impl CommandError {
    fn to_absent(&self) -> Absent {
        match self {
            CommandError::Os(error) => Absent::Os(error.raw_os_error().unwrap_or(libc::EIO)),
            CommandError::TimedOut => Absent::Os(libc::ETIMEDOUT),
            CommandError::Failed(_) | CommandError::NotANumber(_) => Absent::Malformed,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Os(error) => write!(f, "{error}"),
            CommandError::TimedOut => write!(f, "it took longer than {} s and was killed", COMMAND_TIMEOUT.as_secs()),
            CommandError::Failed(status) => write!(f, "it failed ({status})"),
            CommandError::NotANumber(text) if text.is_empty() => f.write_str("it printed nothing"),
            CommandError::NotANumber(text) => {
                let start: String = String::from_utf8_lossy(text).chars().take(40).collect();
                write!(f, "it printed '{}', which is not a number", start.trim())
            }
        }
    }
}

/// The first word, if it is a number of 0 or more; its fraction is dropped.
fn parse_total(text: &[u8]) -> Option<u64> {
    /// 2⁵³: above it, f64 does not have every integer.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let word = std::str::from_utf8(text).ok()?.split_whitespace().next()?;
    let float = || word.parse::<f64>().ok().filter(|number| (0.0..=MAX).contains(number)).map(|number| number as u64);
    word.parse().ok().or_else(float)
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::killpg;
    use nix::unistd::Pid;

    use super::*;
    use crate::until::until;

    fn run(command: &str, timeout: Duration) -> Result<u64, CommandError> {
        run_once(OsStr::new(command), timeout, &AtomicBool::new(false))
    }

    fn total(command: &str) -> Result<u64, String> {
        run(command, Duration::from_secs(60)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_total_is_the_first_word_if_that_is_a_number() {
        for (text, expected) in [
            ("17\n", Some(17)),
            ("  18446744073709551615 ops", Some(u64::MAX)),
            ("1.5e3\r\n", Some(1500)),
            ("0", Some(0)),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("1e300", None),
            ("", None),
            ("QPS: 7", None),
            ("7\u{9b}2J", None),
        ] {
            assert_eq!(parse_total(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(parse_total(b"\xff7"), None);
    }

    #[test]
    fn a_command_is_run_by_the_shell_and_its_output_is_bounded() {
        assert_eq!(total("echo $((40 + 2)); echo noise >&2"), Ok(42));
        assert_eq!(total("cat"), Err("it printed nothing".to_owned()), "there is no input");
        assert_eq!(
            total("exec printf '\\033]0;x\\007'"),
            Err("it printed '\u{1b}]0;x\u{7}', which is not a number".to_owned())
        );
        for command in ["echo 7; exec yes", "echo 7; yes; exit 141"] {
            assert_eq!(total(command), Ok(7), "{command}: output without end: 4 KiB are read");
        }
        assert!(total("no-such-command-anywhere").is_err());
    }

    #[test]
    fn the_total_of_a_command_that_failed_is_not_used() {
        assert_eq!(total("echo 0; exit 3"), Err("it failed (exit status: 3)".to_owned()));
        assert!(total("echo 7; kill -9 $$").is_err());
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_with_its_process_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group");
        let command = format!("echo $$ > {}; echo 7; sleep 1000 & sleep 1000", file.display());
        assert!(matches!(run(&command, Duration::from_millis(200)), Err(CommandError::TimedOut)));
        // On an overloaded machine the shell may not have started yet.
        if let Ok(pid) = std::fs::read_to_string(file).unwrap_or_default().trim().parse() {
            let gone = || killpg(Pid::from_raw(pid), None) == Err(nix::errno::Errno::ESRCH) || all_have_ended(pid);
            // Orphans are reaped by their new parent: in a container, perhaps never.
            until("no process of the group runs", gone);
        }
    }

    /// Whether all processes of the group are zombies.
    fn all_have_ended(group: i32) -> bool {
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        // After the name: state, parent, group.
        let of_group = |stat: &String| {
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let state = fields.next()?.to_owned();
            (fields.nth(1)?.parse() == Ok(group)).then_some(state)
        };
        stats.filter_map(|stat| of_group(&stat)).all(|state| state == "Z" || state == "X")
    }

    #[test]
    fn a_running_command_can_be_ended_at_once() {
        let operations = OperationsCommand::start(OsStr::new("echo 5; sleep 1000"), Duration::from_millis(100)).unwrap();
        drop(operations);
        let operations = OperationsCommand::start(OsStr::new("echo 5"), Duration::from_millis(100)).unwrap();
        until("it has printed a total", || operations.latest().reading().is_ok());
        assert_eq!(operations.latest().reading().unwrap().total, Counter(5));
    }
}
