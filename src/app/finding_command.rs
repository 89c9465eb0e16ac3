//! `--on-finding CMD`: runs a command of the user when a finding begins, on a thread of its own: neither sampling nor recording waits
//! for it.
//!
//! The command is a program and its arguments, separated by spaces; no shell reads it, so that names in a finding cannot become
//! commands. It gets the finding as JSON on its standard input, as `check --watch --json` prints it, and as environment variables.
//! One runs at a time; one that takes too long is killed with its process group (`child_process`).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{AccessFlags, access};

use crate::app::child_process::{ChildProcess, Deadline};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{stdio, threads};
use crate::findings::Finding;
use crate::report::finding_log::{self, FindingChange, LogEntry};
use crate::report::formatting::{pluralize, printable, subject_label};
use crate::sample::{Host, Instant as SampleInstant};

/// A command that takes longer is killed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Findings that wait while a command runs; further ones are dropped.
const QUEUE_CAPACITY: usize = 16;

/// The part of a text that becomes the value of a variable: the kernel refuses to execute with one of 128 KiB.
const MAX_VALUE_BYTES: usize = 8192;

/// How long the end of the program waits for the commands of the last findings.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the command gets.
pub struct FindingNotice {
    pub host: Arc<Host>,
    /// End of the interval that showed it
    pub at: SampleInstant,
    pub finding: Finding,
    /// The recording that shows it, if there is one
    pub file: Option<String>,
}

/// The thread that runs the command. Dropping this waits a few seconds for commands that still run, and then kills them.
pub struct FindingCommand {
    queue: Option<SyncSender<FindingNotice>>,
    stop: Arc<AtomicBool>,
    /// Closed when the thread ends
    ended: Receiver<()>,
}

impl FindingCommand {
    /// Fails if there is no such program.
    pub fn start(words: &OsStr) -> Result<FindingCommand, Failure> {
        let runner = CommandRunner { words: split(words)?, stop: Arc::default() };
        let stop = Arc::clone(&runner.stop);
        let (queue, notices) = sync_channel(QUEUE_CAPACITY);
        let (running, ended) = channel::<()>();
        let body = move || {
            runner.run(&notices);
            drop(running);
        };
        threads::spawn("on-finding", body)?;
        Ok(FindingCommand { queue: Some(queue), stop, ended })
    }

    /// Runs the command as soon as those before it have ended. Never blocks.
    pub fn notify(&self, notice: FindingNotice) {
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(notice)) = queue.try_send(notice) {
            let kind = notice.finding.kind.as_str();
            stdio::print_stderr(&format!("--on-finding is not run for {kind}: {QUEUE_CAPACITY} findings wait for it"));
        }
    }
}

impl Drop for FindingCommand {
    fn drop(&mut self) {
        self.queue = None;
        if self.ended.recv_timeout(SHUTDOWN_TIMEOUT).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout) {
            self.stop.store(true, Ordering::SeqCst);
            let _ = self.ended.recv_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

/// The program and its arguments. Fails unless the program can be executed: a command that first fails in an incident is of no use.
fn split(words: &OsStr) -> Result<Vec<OsString>, Failure> {
    let split = words.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Vec<OsString> = split.map(|word| OsStr::from_bytes(word).to_owned()).collect();
    let cannot = |name: &OsStr, why: &str| {
        let what = format!("cannot run '{}' of --on-finding", name.to_string_lossy());
        Err(Failure::new(Exit::Usage, what, why, "give a program and its arguments, separated by spaces; for more, a script"))
    };
    match words.first() {
        None => cannot(OsStr::new(""), "it is empty"),
        Some(name) if find_program(name).is_none() => cannot(name, "there is no such program that this user may execute"),
        Some(_) => Ok(words),
    }
}

/// Where the program is, as execvp(3) finds it.
fn find_program(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// What the thread owns.
struct CommandRunner {
    /// The program and its arguments
    words: Vec<OsString>,
    stop: Arc<AtomicBool>,
}

impl CommandRunner {
    fn run(&self, notices: &Receiver<FindingNotice>) {
        while let Ok(notice) = notices.recv() {
            if self.stop.load(Ordering::SeqCst) {
                let left = pluralize(1 + notices.try_iter().count() as u64, "finding");
                stdio::print_stderr(&format!("--on-finding is not run for {left}: this program ends"));
                return;
            }
            if let Err(error) = run_once(&self.words, &notice, COMMAND_TIMEOUT, &self.stop) {
                let name = self.words.first().map(|name| name.to_string_lossy()).unwrap_or_default();
                let kind = notice.finding.kind.as_str();
                let consequence = if matches!(error, CommandError::Stopped) { "" } else { ": monitoring goes on" };
                stdio::print_stderr(&format!("--on-finding was not told of {kind}: '{name}': {error}{consequence}"));
            }
        }
    }
}

/// Runs the program with its arguments once; kills it after this time, or when it is to stop.
fn run_once(words: &[OsString], notice: &FindingNotice, timeout: Duration, stop: &AtomicBool) -> Result<(), CommandError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let deadline = Deadline { until: Instant::now() + timeout, stop };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment(notice)).stdin(input(&json(notice))?).stdout(Stdio::null());
    let mut child = ChildProcess::start(&mut command)?;
    if !child.wait_until(deadline)? {
        let is_stopped = stop.load(Ordering::SeqCst);
        return Err(if is_stopped { CommandError::Stopped } else { CommandError::TimedOut(timeout) });
    }
    let status = child.end()?;
    if status.success() { Ok(()) } else { Err(CommandError::Unsuccessful(status)) }
}

fn json(notice: &FindingNotice) -> String {
    let FindingNotice { host, at, finding, .. } = notice;
    finding_log::json(host, &LogEntry { at: *at, change: FindingChange::Begins, finding: finding.clone() })
}

/// The text as standard input. A file in memory: a command that does not read it cannot block this thread, as a pipe could.
fn input(text: &str) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create(c"finding", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// As Nagios tells its notification commands: HOSTNAME, SERVICEDESC, SERVICESTATE, SERVICESTATEID, SERVICEOUTPUT, TIMET.
fn environment(notice: &FindingNotice) -> Vec<(&'static str, String)> {
    let FindingNotice { host, at, finding, file } = notice;
    let bounded = |text: &str| {
        let mut text = printable(text);
        text.truncate(text.floor_char_boundary(MAX_VALUE_BYTES));
        text
    };
    vec![
        ("STALLTOP_HOST", bounded(&host.hostname.to_string_lossy())),
        ("STALLTOP_KIND", finding.kind.as_str().to_owned()),
        ("STALLTOP_SEVERITY", finding.severity.as_str().to_owned()),
        ("STALLTOP_SEVERITY_ID", Exit::Found(finding.severity).code().to_string()),
        ("STALLTOP_SUBJECT", subject_label(&finding.subject)),
        ("STALLTOP_SENTENCE", bounded(&finding.sentence)),
        ("STALLTOP_TIME", (at.realtime_ns / 1_000_000_000).to_string()),
        ("STALLTOP_FILE", file.clone().unwrap_or_default()),
    ]
}

/// Why the command did not do its work.
#[derive(Debug)]
enum CommandError {
    Os(io::Error),
    TimedOut(Duration),
    /// This program ends
    Stopped,
    Unsuccessful(ExitStatus),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        CommandError::Os(error)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Os(error) => write!(f, "{error}"),
            CommandError::TimedOut(limit) => write!(f, "it took longer than {} s and was killed", limit.as_secs()),
            CommandError::Stopped => f.write_str("it was killed: this program ends"),
            // `exit status: 3`, `signal: 9 (SIGKILL)`
            CommandError::Unsuccessful(status) => write!(f, "{status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::findings::{Kind, Severity, Subject};
    use crate::ids::TaskId;
    use crate::sample::Name;
    use crate::synthetic;

    fn notice(sentence: &str) -> FindingNotice {
        let id = TaskId { pid: 7, tid: 8, start_ticks: 1 };
        let at = SampleInstant { boottime_ns: 5, monotonic_ns: 5, realtime_ns: 1_700_000_000_000_000_000 };
        let subject = Subject::Task { id, name: Name::from("a\u{1b}[2J$(reboot)") };
        let finding = Finding {
            since: at,
            figures_at: at,
            sentence: sentence.to_owned(),
            ..synthetic::finding(Kind::SaturatedThread, Severity::Warning, subject)
        };
        FindingNotice { host: Arc::new(synthetic::host()), at, finding, file: Some("x.stalltop".to_owned()) }
    }

    /// Runs a command once.
    fn run(words: &[&str], timeout: Duration, notice: &FindingNotice) -> Result<(), String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        run_once(&words, notice, timeout, &AtomicBool::new(false)).map_err(|error| error.to_string())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_finding_is_told_as_json_and_as_variables_that_act_on_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out").display().to_string();
        let hostile = notice("a\u{1b}]0;x\u{7}\n$(touch /tmp/x) 'b'");
        let script = format!("cat > {out}; env -0 | grep -z ^STALLTOP_ | sort -z | tr '\\0' '\\n' >> {out}");
        // What the tests were started with is no part of it.
        let inherited = |line: &&str| line.split_once('=').is_some_and(|(name, _)| std::env::var_os(name).is_some());
        run(&["sh", "-c", &script], LONG, &hostile).unwrap();
        let told = fs::read_to_string(&out).unwrap();
        let (json, variables) = told.split_once('\n').unwrap();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(json["finding"]["sentence"], "a\u{1b}]0;x\u{7}\n$(touch /tmp/x) 'b'");
        assert_eq!(
            variables.lines().filter(|line| !inherited(line)).collect::<Vec<_>>(),
            [
                "STALLTOP_FILE=x.stalltop",
                "STALLTOP_HOST=db1",
                "STALLTOP_KIND=saturated-thread",
                "STALLTOP_SENTENCE=a\\u{1b}]0;x\\u{7}\\n$(touch /tmp/x) 'b'",
                "STALLTOP_SEVERITY=warning",
                "STALLTOP_SEVERITY_ID=1",
                "STALLTOP_SUBJECT=a\\u{1b}[2J$(reboot) (8)",
                "STALLTOP_TIME=1700000000",
            ]
        );
    }

    #[test]
    fn a_command_that_fails_reads_nothing_or_does_not_end_is_reported() {
        let large = notice(&"x".repeat(1 << 20));
        let large = FindingNotice { finding: Finding { sentence: large.finding.sentence, ..notice("").finding }, ..notice("") };
        assert_eq!(run(&["sh", "-c", "exit 3"], LONG, &notice("x")), Err("exit status: 3".to_owned()));
        assert_eq!(run(&["/nonexistent/x"], LONG, &notice("x")), Err("No such file or directory (os error 2)".to_owned()));
        let slow = run(&["sh", "-c", "sleep 1000 & sleep 1000"], Duration::from_millis(100), &notice("x"));
        assert_eq!(slow, Err("it took longer than 0 s and was killed".to_owned()));
        let words = ["sleep", "1000"].map(OsString::from);
        let stopped = run_once(&words, &notice("x"), LONG, &AtomicBool::new(true)).map_err(|error| error.to_string());
        assert_eq!(stopped, Err("it was killed: this program ends".to_owned()));
        // More than a pipe holds, and more than a variable may have.
        assert_eq!(run(&["true"], LONG, &large), Ok(()));
    }

    #[test]
    fn the_words_are_a_program_that_can_be_executed() {
        let split = |words: &str| split(OsStr::new(words)).map_err(|failure| failure.to_string());
        assert_eq!(split("  sh -c\t$(x) 'a b'").unwrap(), ["sh", "-c", "$(x)", "'a", "b'"]);
        for wrong in ["", "  ", "/etc/passwd", "/nonexistent/x", "no-such-program-anywhere -x", "/tmp"] {
            assert!(split(wrong).is_err_and(|why| why.starts_with("cannot run '")), "{wrong}");
        }
    }

    /// Nothing is lost at the end of the program, and nothing is waited for without end.
    #[test]
    fn the_last_findings_are_told_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let told = folder.path().join("told");
        fs::write(&script, format!("echo told >> {}", told.display())).unwrap();
        let command = FindingCommand::start(OsStr::new(&format!("sh {}", script.display()))).unwrap();
        (0..3).for_each(|_| command.notify(notice("x")));
        drop(command);
        assert_eq!(fs::read_to_string(told).unwrap(), "told\ntold\ntold\n");
    }
}
