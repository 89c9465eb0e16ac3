//! The command that connects to a host, usually ssh: starts it, ends it, and kills it with this program. `remote_output` reads it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::remote_output::RemoteOutput;
use super::work_slot::WorkSlot;
use crate::app::child_process::{ChildProcess, Deadline};

/// ssh asks nothing, gives up in time, and notices a host that is gone. Its configuration, keys and agents are the user's.
const SSH: [&str; 7] =
    ["ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5", "-oServerAliveCountMax=3", "--"];

/// A command that has closed its output is given this time to end.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the end of the program waits for the commands: ssh then removes the socket of a ControlMaster.
const SHUTDOWN_TIME: Duration = Duration::from_millis(50);

/// Why a command was given up.
pub(super) const STOPPED: &str = "stopped by a signal";

/// How to run a command on a host.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Program and arguments before the host
    words: Vec<OsString>,
    running: RunningGroups,
    work: WorkSlot,
    /// Once it is set, `run` gives up
    stop: Arc<AtomicBool>,
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
        Transport { words, running: RunningGroups::default(), work: WorkSlot::default(), stop: Arc::default() }
    }

    /// The same, whose `run` gives up once `stop` is set.
    pub fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Transport {
        Transport { stop: Arc::clone(stop), ..self.clone() }
    }

    /// The command that runs `remote` in a shell of the host.
    pub fn command(&self, host: &str, remote: &str) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words).arg(host).arg(remote);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
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

    /// Starts it. `silence_timeout`: how long it may be silent.
    pub fn start(&self, host: &str, remote: &str, silence_timeout: Duration) -> io::Result<(RemoteProcess, RemoteOutput)> {
        self.spawn(&mut self.command(host, remote), silence_timeout)
    }

    /// Runs it to its end, with that standard input; returns its standard output, or why it has failed.
    pub fn run(&self, host: &str, remote: &str, input: Option<&[u8]>, silence_timeout: Duration) -> Result<Vec<u8>, String> {
        const MAX_OUTPUT_BYTES: usize = 1 << 16;
        const INPUT_CHUNK_BYTES: usize = 1 << 16;
        let is_stopped = || self.stop.load(Ordering::SeqCst);
        if is_stopped() {
            return Err(STOPPED.to_owned());
        }
        let mut command = self.command(host, remote);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let (mut process, mut output) = self.spawn(&mut command, silence_timeout).map_err(|error| error.to_string())?;
        output.give_up_on(Arc::clone(&self.stop));
        let stdin = process.child.take_stdin();
        let mut bytes = Vec::new();
        let read = std::thread::scope(|scope| {
            // What it has not read when it ends, it does not need.
            let writer = scope.spawn(|| {
                let Some((mut stdin, input)) = stdin.zip(input) else { return };
                let mut chunks = input.chunks(INPUT_CHUNK_BYTES);
                while !is_stopped() && chunks.next().is_some_and(|chunk| stdin.write_all(chunk).is_ok()) {}
            });
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
            _ if is_stopped() => Err(STOPPED.to_owned()),
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => {
                Err(format!("no answer in {} s", silence_timeout.as_secs()))
            }
            (_, status) => Err(output.words().text().unwrap_or_else(|| {
                let code = status.and_then(|status| status.code());
                code.map_or_else(|| "the command was killed".to_owned(), |code| format!("exit code {code}"))
            })),
        }
    }

    fn spawn(&self, command: &mut Command, silence_timeout: Duration) -> io::Result<(RemoteProcess, RemoteOutput)> {
        // Ctrl-C is a key of the screen, and ends the commands with this program: each has a process group of its own.
        let mut child = ChildProcess::start(command)?;
        let (stdout, stderr) = (child.take_stdout(), child.take_stderr());
        let process = RemoteProcess { child, running: self.running.clone() };
        self.running.lock().insert(process.child.pid());
        let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((process, RemoteOutput::new(stdout, stderr, silence_timeout, self.work.clone())))
    }
}

/// The running command, which is killed with its process group when this is dropped.
pub struct RemoteProcess {
    child: ChildProcess,
    running: RunningGroups,
}

impl RemoteProcess {
    /// Waits for its end, and kills it if it does not come: then there is no status.
    pub fn end(mut self) -> Option<ExitStatus> {
        let deadline = Deadline { until: Instant::now() + END_TIMEOUT, stop: &AtomicBool::new(false) };
        if let Ok(false) = self.child.wait_until(deadline) {
            return None;
        }
        self.remove_and_kill();
        self.child.end().ok()
    }

    fn kill_group(&self) {
        if self.running.lock().contains(&self.child.pid()) {
            self.child.kill_group();
        }
    }

    /// With the list locked, so that the end of the program either kills the group or waits until it is killed here.
    fn remove_and_kill(&self) {
        let mut running = self.running.lock();
        if running.remove(&self.child.pid()) {
            // What the command has started may have outlived it.
            self.child.kill_group();
        }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        self.remove_and_kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_of(script: &str, silence_timeout: Duration) -> (io::Result<Vec<u8>>, Option<String>) {
        let transport = Transport::new(Some("sh -c"));
        // The script stands in place of the host.
        let (process, mut output) = transport.start(script, "", silence_timeout).unwrap();
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
    fn a_command_that_has_failed_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("echo $$ >{}; exec yes", file.display());
        assert_eq!(run(&script, b""), Err("it prints more than 64 KiB".to_owned()));
        let pid = std::fs::read_to_string(file).unwrap();
        assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "{pid} still runs");
    }

    #[test]
    fn a_host_is_one_argument() {
        let words: Vec<_> =
            Transport::new(None).command("web 1;reboot", "stalltop record -").get_args().map(OsString::from).collect();
        assert_eq!(words[words.len() - 3..], ["--", "web 1;reboot", "stalltop record -"]);
    }
}
