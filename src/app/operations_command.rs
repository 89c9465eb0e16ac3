//! `record --ops CMD`: a command that prints a running total is asked again and again, on a thread of its own, and each
//! sample takes along what it said last. Nobody waits for it: neither the sampling nor the recording.
//!
//! It is run by `/bin/sh -c`, one at a time, in a process group of its own, without input and without what its standard
//! error says. Of its output 4 KiB are looked at and only a number is taken. One that does not end is killed with all of
//! its group. It runs with the rights of who records, and with none that were given to the recorder alone (ambient
//! capabilities of a service).

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{signals, stdio};
use crate::app::sys;
use crate::kernel;
use crate::sample::operations::Operations;
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// A command that takes longer is killed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// It is not asked more often.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Of its time at most one part in so many: what counts must not become the load.
const DUTY_CYCLE_DIVISOR: u32 = 10;
/// How soon an order to end is seen.
const POLL_SLICE: Duration = Duration::from_millis(50);
/// What it prints at most.
const MAX_OUTPUT_BYTES: usize = 4096;
/// What goes wrong again and again is told again after this.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The end of the program waits for a killed command so long: one that hangs in the kernel cannot be seen off.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// The last total, and the thread that asks for it. Dropping it ends both, and the command.
pub struct OperationsCommand {
    latest: LatestOperations,
    stop: Arc<AtomicBool>,
    thread: Thread,
    ended: Receiver<()>,
}

/// Where the last total is found.
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
    /// Begins to ask, about as often as samples are taken.
    pub fn start(command: &OsStr, interval: Duration) -> Result<OperationsCommand, Failure> {
        let latest = LatestOperations(Arc::new(Mutex::new(Err(Absent::NotRead))));
        let end = Arc::new(AtomicBool::new(false));
        let (ending, ended) = channel();
        let mut asking = CommandRunner {
            command: command.into(),
            timeout: COMMAND_TIMEOUT,
            stop: Arc::clone(&end),
            latest: latest.clone(),
            last_reported: None,
        };
        let body = move || {
            asking.run(interval.max(MIN_INTERVAL));
            // Nobody may be waiting any more.
            let _ = ending.send(());
        };
        let thread = thread::Builder::new().name("operations".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Failure::new(Exit::Failed, "cannot start counting operations", error, ""))?;
        Ok(OperationsCommand { latest, stop: end, thread: thread.thread().clone(), ended })
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

/// What the thread knows.
struct CommandRunner {
    command: Box<OsStr>,
    timeout: Duration,
    stop: Arc<AtomicBool>,
    latest: LatestOperations,
    /// When something was last said of its troubles
    last_reported: Option<Instant>,
}

impl CommandRunner {
    fn run(&mut self, pause: Duration) {
        while !self.is_stopped() {
            let begun = Instant::now();
            match self.run_once() {
                Ok(total) => {
                    let at_boottime_ns = kernel::now().boottime_ns;
                    self.latest.set(Ok(Operations { total: Counter(total), printed_boottime_ns: at_boottime_ns }));
                }
                Err(_) if self.is_stopped() => return,
                Err(trouble) => {
                    self.latest.set(Err(trouble.to_absent()));
                    self.report(&trouble);
                }
            }
            let took = begun.elapsed();
            let next = begun + pause.max(took * DUTY_CYCLE_DIVISOR);
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

    fn report(&mut self, trouble: &CommandError) {
        if self.last_reported.is_none_or(|told| told.elapsed() >= REPORT_INTERVAL) {
            self.last_reported = Some(Instant::now());
            let command = self.command.to_string_lossy();
            stdio::print_stderr(&format!(
                "cannot count operations: '{command}': {trouble}: recording goes on, and it is asked again"
            ));
        }
    }

    /// What it prints now.
    fn run_once(&self) -> Result<u64, CommandError> {
        let until = Instant::now() + self.timeout;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut group = ProcessGroup(
            sys::restrict_child(signals::restore_default_signals(&mut command)).spawn().map_err(CommandError::Os)?,
        );
        let Some(output) = group.0.stdout.take() else { return Err(CommandError::Os(io::ErrorKind::BrokenPipe.into())) };
        let text = self.read_output(output, until)?;
        loop {
            if group.has_exited().map_err(CommandError::Os)? {
                break;
            }
            self.time_left(until)?;
            thread::sleep(Duration::from_millis(1));
        }
        parse_total(&text).ok_or(CommandError::NotANumber(text))
    }

    /// All that it prints, as far as it is looked at.
    fn read_output(&self, mut output: ChildStdout, until: Instant) -> Result<Vec<u8>, CommandError> {
        let mut text = Vec::new();
        while text.len() < MAX_OUTPUT_BYTES {
            let slice = self.time_left(until)?.min(POLL_SLICE);
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

    /// How long it may still take.
    fn time_left(&self, until: Instant) -> Result<Duration, CommandError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.is_stopped() { Err(CommandError::TimedOut) } else { Ok(left) }
    }
}

/// A command with all that it started in its group: nothing of it outlives the question.
struct ProcessGroup(Child);

impl ProcessGroup {
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap_or(i32::MAX))
    }

    /// Whether the shell has ended. It is not waited for yet: its number stays its own until the group is killed.
    fn has_exited(&self) -> io::Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(waitid(Id::Pid(self.pid()), flags)? != WaitStatus::StillAlive)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // All of it may be gone already.
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Why there is no total.
#[derive(Debug)]
enum CommandError {
    Os(io::Error),
    TimedOut,
    /// And what there is instead
    NotANumber(Vec<u8>),
}

impl CommandError {
    fn to_absent(&self) -> Absent {
        match self {
            CommandError::Os(error) => Absent::Os(error.raw_os_error().unwrap_or(libc::EIO)),
            CommandError::TimedOut => Absent::Os(libc::ETIMEDOUT),
            CommandError::NotANumber(_) => Absent::Malformed,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Os(error) => write!(f, "{error}"),
            CommandError::TimedOut => write!(f, "it took longer than {} s and was killed", COMMAND_TIMEOUT.as_secs()),
            CommandError::NotANumber(text) if text.is_empty() => f.write_str("it printed nothing"),
            CommandError::NotANumber(text) => {
                let start: String = String::from_utf8_lossy(text).chars().take(40).collect();
                write!(f, "it printed no number but '{}'", start.trim())
            }
        }
    }
}

/// The first word, where it is a number that is no less than 0. What stands behind the point is left out.
fn parse_total(text: &[u8]) -> Option<u64> {
    /// Above it not every whole number has a floating-point one.
    const MOST: f64 = 9_007_199_254_740_992.0;
    let word = std::str::from_utf8(text).ok()?.split_whitespace().next()?;
    let float = || word.parse::<f64>().ok().filter(|number| (0.0..=MOST).contains(number)).map(|number| number as u64);
    word.parse().ok().or_else(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(command: &str) -> CommandRunner {
        let latest = LatestOperations(Arc::new(Mutex::new(Err(Absent::NotRead))));
        let patience = Duration::from_secs(60);
        CommandRunner {
            command: OsStr::new(command).into(),
            timeout: patience,
            stop: Arc::default(),
            latest,
            last_reported: None,
        }
    }

    fn said(command: &str) -> Result<u64, String> {
        asking(command).run_once().map_err(|trouble| trouble.to_string())
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
    fn a_command_goes_through_the_shell_and_what_it_prints_is_bounded() {
        assert_eq!(said("echo $((40 + 2)); echo noise >&2"), Ok(42));
        assert_eq!(said("cat"), Err("it printed nothing".to_owned()), "there is no input");
        assert_eq!(said("exec printf '\\033]0;x\\007'"), Err("it printed no number but '\u{1b}]0;x\u{7}'".to_owned()));
        assert_eq!(said("echo 7; exec yes"), Ok(7), "without an end: the first 4 KiB are enough");
        assert!(said("exit 3").is_err() && said("no-such-command-anywhere").is_err());
    }

    #[test]
    fn one_that_does_not_end_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group");
        let command = format!("echo $$ > {}; echo 7; sleep 1000 & sleep 1000", file.display());
        let asking = CommandRunner { timeout: Duration::from_millis(200), ..asking(&command) };
        assert!(matches!(asking.run_once(), Err(CommandError::TimedOut)));
        // On a box that is starved the shell may not even have begun.
        if let Ok(pid) = std::fs::read_to_string(file).unwrap_or_default().trim().parse() {
            let gone = || killpg(Pid::from_raw(pid), None) == Err(nix::errno::Errno::ESRCH) || all_have_ended(pid);
            let end = Instant::now() + Duration::from_secs(20);
            // Orphans are seen off by whoever adopts them: in a container that may be nobody.
            while !gone() {
                assert!(Instant::now() < end, "something of it is still there");
                thread::yield_now();
            }
        }
    }

    /// Whether of that process group nothing is left but what nobody has seen off.
    fn all_have_ended(group: i32) -> bool {
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        // Behind the name: state, parent, group.
        let of_group = |stat: &String| {
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let state = fields.next()?.to_owned();
            (fields.nth(1)?.parse() == Ok(group)).then_some(state)
        };
        stats.filter_map(|stat| of_group(&stat)).all(|state| state == "Z" || state == "X")
    }

    #[test]
    fn what_is_asked_can_be_ended_at_once() {
        let tally = OperationsCommand::start(OsStr::new("echo 5; sleep 1000"), Duration::from_millis(100)).unwrap();
        drop(tally);
        let tally = OperationsCommand::start(OsStr::new("echo 5"), Duration::from_millis(100)).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while tally.latest().reading().is_err() {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
        assert_eq!(tally.latest().reading().unwrap().total, Counter(5));
    }
}
