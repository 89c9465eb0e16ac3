//! The command that connects to a host, usually ssh, and its output: a recording on standard output, words on standard error.
//!
//! One thread reads both: `RemoteOutput` polls them, returns the bytes of the recording and keeps the last line of the words. It reads no
//! faster than `MAX_BYTES_PER_SECOND` after a burst: a host that writes without end costs little CPU time here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::work_slot::{TakenSlot, WorkSlot};
use crate::app::program::signals;
use crate::app::sys;
use crate::ids::is_unprintable;

/// ssh asks nothing, gives up in time, and notices a host that is gone. Its configuration, keys and agents are the user's.
const SSH: [&str; 7] =
    ["ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5", "-oServerAliveCountMax=3", "--"];

/// What a host may send in the long run, and at once: the first samples of a large machine.
const MAX_BYTES_PER_SECOND: f64 = 1_048_576.0;
const MAX_BURST_BYTES: f64 = 16_777_216.0;

/// A command that has closed its output is given this time to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the end of the program waits for the commands: ssh then removes the socket of a ControlMaster.
const SHUTDOWN_TIME: Duration = Duration::from_millis(50);

/// How to run a command on a host.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Program and arguments before the host
    words: Vec<OsString>,
    running: RunningGroups,
    work: WorkSlot,
}

/// The process groups of the commands that run. A pid leaves the list before its process is waited for, so that it is not reused.
#[derive(Clone, Debug, Default)]
struct RunningGroups(Arc<Mutex<BTreeSet<Pid>>>);

impl RunningGroups {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport {
    /// ssh, or the words of another command.
    pub fn new(command: Option<&str>) -> Transport {
        let words = match command {
            Some(command) => command.split_whitespace().map(OsString::from).collect(),
            None => SSH.iter().map(OsString::from).collect(),
        };
        Transport { words, running: RunningGroups::default(), work: WorkSlot::default() }
    }

    /// The command that runs `remote` in a shell of the host.
    pub fn command(&self, host: &str, remote: &str) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words).arg(host).arg(remote);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is a key of the screen, and ends the commands with this program.
        command.process_group(0);
        sys::restrict_child(signals::restore_default_signals(&mut command));
        command
    }

    /// At the end of the program: ends the commands that run.
    pub fn end_all(&self) {
        let running = self.running.lock();
        for group in running.iter() {
            let _ = killpg(*group, Signal::SIGTERM);
            let _ = killpg(*group, Signal::SIGCONT);
        }
        if !running.is_empty() {
            std::thread::sleep(SHUTDOWN_TIME);
        }
        for group in running.iter() {
            let _ = killpg(*group, Signal::SIGKILL);
        }
    }

    /// Starts it. `patience`: how long it may be silent.
    pub fn start(&self, host: &str, remote: &str, patience: Duration) -> io::Result<(RemoteProcess, RemoteOutput)> {
        self.spawn(&mut self.command(host, remote), patience)
    }

    /// Runs it to its end, with that standard input; returns its standard output, or why it has failed.
    pub fn run(&self, host: &str, remote: &str, input: Option<&[u8]>, patience: Duration) -> Result<Vec<u8>, String> {
        const MAX_OUTPUT_BYTES: usize = 1 << 16;
        let mut command = self.command(host, remote);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let (mut process, mut output) = self.spawn(&mut command, patience).map_err(|error| error.to_string())?;
        let stdin = process.child.stdin.take();
        let mut bytes = Vec::new();
        let read = std::thread::scope(|scope| {
            // What it has not read when it ends, it does not need.
            let writer = scope.spawn(|| stdin.zip(input).map(|(mut stdin, input)| stdin.write_all(input)));
            let read = (&mut output).take(MAX_OUTPUT_BYTES as u64 + 1).read_to_end(&mut bytes);
            let until = Instant::now() + END_TIMEOUT;
            let is_whole = read.is_ok() && bytes.len() <= MAX_OUTPUT_BYTES;
            while is_whole && !writer.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !is_whole || !writer.is_finished() {
                // One that has failed is not waited for; the thread that writes ends with it.
                process.kill_group();
            }
            read
        });
        output.read_last_words();
        let status = process.end();
        match (read, status) {
            (Ok(_), _) if bytes.len() > MAX_OUTPUT_BYTES => Err("it prints more than 64 KiB".to_owned()),
            (Ok(_), Some(status)) if status.success() => Ok(bytes),
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => Err(format!("no answer in {} s", patience.as_secs())),
            (_, status) => Err(output.words().text().unwrap_or_else(|| {
                let code = status.and_then(|status| status.code());
                code.map_or_else(|| "the command was killed".to_owned(), |code| format!("exit code {code}"))
            })),
        }
    }

    fn spawn(&self, command: &mut Command, patience: Duration) -> io::Result<(RemoteProcess, RemoteOutput)> {
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let process = RemoteProcess { child, running: self.running.clone() };
        self.running.lock().insert(process.group());
        let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe)?;
        let words = LastLine::default();
        Ok((
            process,
            RemoteOutput {
                stdout,
                stderr,
                words,
                patience,
                allowance: MAX_BURST_BYTES,
                counted: Instant::now(),
                work: self.work.clone(),
                taken: None,
            },
        ))
    }
}

/// The running command and its process group, which are killed when this is dropped.
pub struct RemoteProcess {
    child: Child,
    running: RunningGroups,
}

impl RemoteProcess {
    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// Waits for its end, and kills it if it does not come: then there is no status.
    pub fn end(mut self) -> Option<ExitStatus> {
        let until = Instant::now() + END_TIMEOUT;
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(self.group()), flags) == Ok(WaitStatus::StillAlive) {
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill()
    }

    fn kill_group(&self) {
        if self.running.lock().contains(&self.group()) {
            let _ = killpg(self.group(), Signal::SIGKILL);
        }
    }

    /// What the command has started may have outlived it.
    fn kill(&mut self) -> Option<ExitStatus> {
        let mut running = self.running.lock();
        if running.remove(&self.group()) {
            let _ = killpg(self.group(), Signal::SIGKILL);
        }
        drop(running);
        self.child.wait().ok()
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        self.kill();
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

/// Standard output of a command. Reading it collects standard error.
pub struct RemoteOutput {
    stdout: ChildStdout,
    /// `None` after its end
    stderr: Option<ChildStderr>,
    words: LastLine,
    patience: Duration,
    /// Bytes that may be read now
    allowance: f64,
    /// When `allowance` was computed
    counted: Instant,
    work: WorkSlot,
    /// From the arrival of bytes until more are waited for
    taken: Option<TakenSlot>,
}

impl RemoteOutput {
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
    /// Fails with `TimedOut` after a silence of `patience`.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.release_work();
        let until = Instant::now() + self.patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.wait(left)? {
                let count = self.stdout.read(buffer)?;
                self.throttle(count);
                self.taken = Some(self.work.take());
                return Ok(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_of(script: &str, patience: Duration) -> (io::Result<Vec<u8>>, Option<String>) {
        let transport = Transport::new(Some("sh -c"));
        // The script stands in place of the host.
        let (process, mut output) = transport.start(script, "", patience).unwrap();
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes).map(|_| bytes);
        output.read_last_words();
        drop(process);
        (read, output.words().text())
    }

    #[test]
    fn standard_error_is_kept_apart() {
        let (bytes, words) =
            output_of("printf 'one\\r\\ntwo\\n\\n' >&2; printf data; exec 1>&-; printf 'last\\n' >&2", END_TIMEOUT * 60);
        assert_eq!((bytes.unwrap(), words.as_deref()), (b"data".to_vec(), Some("last")));
        let (bytes, words) = output_of("exit 3", END_TIMEOUT * 60);
        assert_eq!((bytes.unwrap(), words), (Vec::new(), None));
    }

    #[test]
    fn a_silent_command_is_given_up_and_killed() {
        let (bytes, _) = output_of("sleep 1000", Duration::from_millis(50));
        assert_eq!(bytes.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// The script stands in place of the host.
    fn run(script: &str, input: &[u8]) -> Result<Vec<u8>, String> {
        Transport::new(Some("sh -c")).run(script, "", Some(input), Duration::from_secs(60))
    }

    #[test]
    fn a_command_that_does_not_read_its_input_is_killed() {
        let input = vec![0; 1 << 20];
        assert_eq!(run("exec 1>&-; sleep 1000", &input), Err("the command was killed".to_owned()));
        assert_eq!(run("cat | wc -c", &input).map(|text| text.trim_ascii().to_vec()), Ok(b"1048576".to_vec()));
        assert_eq!(run("echo enough", &input), Ok(b"enough\n".to_vec()));
    }

    #[test]
    fn a_command_that_prints_without_end_has_failed() {
        assert_eq!(run("yes", &vec![0; 1 << 20]), Err("it prints more than 64 KiB".to_owned()));
        assert_eq!(run("head -c 65537 /dev/zero", b""), Err("it prints more than 64 KiB".to_owned()));
        assert_eq!(run("head -c 65536 /dev/zero", b"").map(|bytes| bytes.len()), Ok(1 << 16));
    }

    #[test]
    fn a_command_that_has_failed_is_not_waited_for() {
        let took = || {
            let started = Instant::now();
            assert_eq!(run("yes", b""), Err("it prints more than 64 KiB".to_owned()));
            started.elapsed()
        };
        // One of several: the machine may be busy.
        assert!((0..5).any(|_| took() < END_TIMEOUT));
    }

    #[test]
    fn a_host_is_one_argument() {
        let words: Vec<_> =
            Transport::new(None).command("web 1;reboot", "stalltop record -").get_args().map(OsString::from).collect();
        assert_eq!(words[words.len() - 3..], ["--", "web 1;reboot", "stalltop record -"]);
    }
}
