//! `fleet --copy`: brings a program to hosts that lack it, after a question: into a temporary directory of each, which is removed at the end.
//! The SHA-256 of what arrived is compared, by sha256sum on both sides, before it is run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nix::sys::utsname::uname;

use super::transport::{STOPPED, Transport};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::question::is_confirmed_unless;
use crate::app::program::stdio::print_stderr;
use crate::cli;
use crate::report::formatting::pluralize;
use crate::units::format;

/// Hosts that are asked, or copied to, at the same time.
const MAX_PARALLEL: usize = 16;

/// How long a host may be silent: while it is asked, while the program is sent, and while its copy is removed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
const COPY_TIMEOUT: Duration = Duration::from_secs(300);
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the lines of our commands begin with: a login shell may print others.
const PROBE_LINE: &str = "stalltop-probe ";
const COPY_LINE: &str = "stalltop-copy ";

/// The copies of this run. Dropping it removes them.
pub struct RemoteCopies {
    /// Copies until a signal
    copying: Transport,
    /// Removes the copies even then
    removing: Transport,
    /// Host and directory
    directories: Mutex<Vec<(String, String)>>,
}

/// The command that records on a host with this stalltop.
type Remote = String;

impl RemoteCopies {
    /// Asks each host whether it has stalltop, asks the user, and copies. Returns stalltop as each host is to run it. Fails once
    /// `stopped` is set by a signal.
    pub fn new(
        options: &cli::Fleet,
        hosts: &[String],
        transport: &Transport,
        stopped: &Arc<AtomicBool>,
    ) -> Result<(RemoteCopies, Vec<Remote>), Failure> {
        let (copying, removing) = (transport.stopped_by(stopped), transport.clone());
        let copies = RemoteCopies { copying, removing, directories: Mutex::new(Vec::new()) };
        let go_on = || match stopped.load(Ordering::SeqCst) {
            true => Err(Failure::new(Exit::Failed, STOPPED, "", "")),
            false => Ok(()),
        };
        let mut remotes = vec![options.remote.clone(); hosts.len()];
        let Some(file) = &options.copy else { return Ok((copies, remotes)) };
        let program = Program::read(file.as_deref())?;
        let probe = probe_script(&options.remote);
        let answers = in_parallel(hosts, |host| copies.copying.run(host, &probe, None, PROBE_TIMEOUT));
        go_on()?;
        let states: Vec<HostState> = answers.into_iter().map(HostState::from_answer).collect();
        let mut lacking: Vec<&String> = Vec::new();
        for (host, state) in hosts.iter().zip(&states) {
            match state {
                HostState::Lacks(machine) if *machine == program.machine => lacking.push(host),
                HostState::Lacks(machine) => {
                    print_stderr(&format!(
                        "{host}: not copied: it is {machine}, and {} is for {}",
                        program.name, program.machine
                    ));
                }
                // Its row says what is wrong.
                HostState::Has | HostState::Unknown => {}
            }
        }
        if lacking.is_empty() {
            return Ok((copies, remotes));
        }
        let question = question(&program, &lacking, hosts.len());
        if !options.yes && !is_confirmed_unless(stopped, &question, "cannot ask whether to copy")? {
            return go_on().map(|()| (copies, remotes));
        }
        let copied = in_parallel(&lacking, |host| copies.copy(host, &program));
        go_on()?;
        for (host, result) in lacking.into_iter().zip(copied) {
            match result {
                Ok(path) => {
                    let place = hosts.iter().position(|known| known == host).and_then(|at| remotes.get_mut(at));
                    place.into_iter().for_each(|remote| *remote = with_program(&options.remote, &path));
                }
                Err(why) => print_stderr(&format!("{host}: not copied: {why}")),
            }
        }
        Ok((copies, remotes))
    }

    /// Copies the program to a host; returns its path there.
    fn copy(&self, host: &str, program: &Program) -> Result<String, String> {
        let output = self.copying.run(host, &copy_script(program.bytes.len()), Some(&program.bytes), COPY_TIMEOUT)?;
        let (directory, sum) = parse_copied(&output).ok_or("it did not say where the copy is")?;
        self.directories.lock().unwrap_or_else(PoisonError::into_inner).push((host.to_owned(), directory.to_owned()));
        if sum != program.sha256 {
            return Err(format!("the copy is not what was sent: SHA-256 {sum}, not {}", program.sha256));
        }
        let path = format!("{directory}/stalltop");
        self.copying.run(host, &format!("'{path}' --version"), None, PROBE_TIMEOUT)?;
        Ok(path)
    }

    /// Removes the copies; says which are left.
    fn remove(&self) {
        let directories = std::mem::take(&mut *self.directories.lock().unwrap_or_else(PoisonError::into_inner));
        let remove = |(host, directory): &(String, String)| {
            self.removing.run(host, &format!("rm -rf -- '{directory}'"), None, REMOVE_TIMEOUT)
        };
        for ((host, directory), removed) in directories.iter().zip(in_parallel(&directories, remove)) {
            if let Err(why) = removed {
                print_stderr(&format!("{host}: the copy in {directory} is not removed: {why}: remove it there"));
            }
        }
    }
}

impl Drop for RemoteCopies {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The program that is copied.
struct Program {
    name: String,
    bytes: Vec<u8>,
    /// 64 hexadecimal digits
    sha256: String,
    /// Of `uname -m`
    machine: String,
}

impl Program {
    /// The file, or this program.
    fn read(file: Option<&Path>) -> Result<Program, Failure> {
        let (name, path) = match file {
            Some(file) => (quoted(file), file.to_owned()),
            None => ("this program".to_owned(), PathBuf::from("/proc/self/exe")),
        };
        let cannot = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("cannot copy {name}"), error, "");
        let bytes = std::fs::read(path).map_err(|error| cannot(&error))?;
        let machine = uname().map(|names| names.machine().to_string_lossy().into_owned());
        let machine =
            machine_of(&bytes).map_or_else(|| machine.map_err(|error| cannot(&error)), |machine| Ok(machine.to_owned()))?;
        let sha256 = sha256(&bytes).map_err(|why| cannot(&why))?;
        Ok(Program { name, bytes, sha256, machine })
    }
}

/// The machine of an ELF file, as uname says it; `None` for another one.
fn machine_of(bytes: &[u8]) -> Option<&'static str> {
    const X86_64: u8 = 62;
    const AARCH64: u8 = 183;
    match bytes.get(18) {
        _ if !bytes.starts_with(b"\x7fELF") => None,
        Some(&X86_64) => Some("x86_64"),
        Some(&AARCH64) => Some("aarch64"),
        _ => None,
    }
}

fn sha256(bytes: &[u8]) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("sha256sum cannot be run: {error}");
    let mut command = Command::new("sha256sum");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(bytes).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().next().filter(|sum| is_sha256(sum)).map(str::to_owned).ok_or("sha256sum prints no sum".to_owned())
}

fn is_sha256(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a host has answered.
enum HostState {
    Has,
    /// And its machine, as `uname -m` says it
    Lacks(String),
    Unknown,
}

impl HostState {
    fn from_answer(answer: Result<Vec<u8>, String>) -> HostState {
        let Ok(output) = answer else { return HostState::Unknown };
        let text = String::from_utf8_lossy(&output);
        match text.lines().rev().find_map(|line| line.trim().strip_prefix(PROBE_LINE)) {
            Some("present") => HostState::Has,
            Some(machine) => HostState::Lacks(machine.chars().take(32).collect()),
            None => HostState::Unknown,
        }
    }
}

/// `sudo -n stalltop` runs its last word.
fn probe_script(remote: &str) -> String {
    let program = remote.split_whitespace().next_back().unwrap_or_default().replace('\'', "");
    format!(
        "if command -v '{program}' >/dev/null 2>&1; then echo {PROBE_LINE}present; else echo \"{PROBE_LINE}$(uname -m)\"; fi"
    )
}

/// The command with the copy in place of its last word.
fn with_program(remote: &str, path: &str) -> String {
    let before = remote.trim_end().rsplit_once(char::is_whitespace).map_or("", |(before, _)| before);
    format!("{before} '{path}'").trim_start().to_owned()
}

/// Makes a directory that only this user may enter, writes standard input to a file in it, and prints its name and SHA-256. The program
/// must run: a file system may forbid it. A copy that is cut, because this program was ended, is removed there.
fn copy_script(bytes: usize) -> String {
    format!(
        "umask 077; trap '' PIPE; d=$(mktemp -d \"${{TMPDIR:-/tmp}}/stalltop.XXXXXXXXXX\") && {{ cat > \"$d/stalltop\" && \
         [ \"$(($(wc -c < \"$d/stalltop\")))\" = {bytes} ] && chmod 700 \"$d/stalltop\" && s=$(sha256sum < \"$d/stalltop\") && \
         echo \"{COPY_LINE}$d ${{s%% *}}\" || {{ rm -rf \"$d\"; exit 1; }}; }}"
    )
}

/// The directory and the checksum. A directory with other characters than those of mktemp is not ours.
fn parse_copied(output: &[u8]) -> Option<(&str, &str)> {
    let line = output.split(|&byte| byte == b'\n').rev().find_map(|line| line.strip_prefix(COPY_LINE.as_bytes()))?;
    let (directory, sum) = std::str::from_utf8(line).ok()?.trim().rsplit_once(' ')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let name = directory.rsplit_once('/').map(|(_, name)| name)?;
    let is_ours = directory.starts_with('/') && directory.chars().all(is_plain) && name.starts_with("stalltop.");
    (is_ours && !directory.contains("..") && is_sha256(sum)).then_some((directory, sum))
}

fn question(program: &Program, lacking: &[&String], hosts: usize) -> String {
    const MAX_NAMED: usize = 8;
    let mut names: Vec<&str> = lacking.iter().take(MAX_NAMED).map(|name| name.as_str()).collect();
    if lacking.len() > MAX_NAMED {
        names.push("…");
    }
    format!(
        "stalltop is missing on {} of {}: {}\n\
         Copy {} there ({}, SHA-256 {}…),\n\
         into a temporary directory that is removed at the end? [y/N] ",
        lacking.len(),
        pluralize(hosts, "host"),
        names.join(", "),
        program.name,
        format::bytes(program.bytes.len() as f64),
        program.sha256.get(..16).unwrap_or_default(),
    )
}

/// Calls `work` for each item on some threads; the results are in the order of the items.
fn in_parallel<T: Sync, R: Send + Sync>(items: &[T], work: impl Fn(&T) -> Result<R, String> + Sync) -> Vec<Result<R, String>> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<Result<R, String>>> = items.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        let worker = || {
            while let at = next.fetch_add(1, Ordering::SeqCst)
                && let (Some(item), Some(result)) = (items.get(at), results.get(at))
            {
                let _ = result.set(work(item));
            }
        };
        let workers: Vec<_> = (0..items.len().min(MAX_PARALLEL)).map(|_| scope.spawn(worker)).collect();
        // Of a thread that panicked the result is missing.
        workers.into_iter().for_each(|worker| drop(worker.join()));
    });
    let missing = || Err("stalltop failed in its thread for this host".to_owned());
    results.into_iter().map(|result| result.into_inner().unwrap_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_answer_names_no_directory() {
        let sum = "0".repeat(64);
        let parse = |directory: &str| parse_copied(format!("Welcome\nstalltop-copy {directory} {sum}\n").as_bytes()).is_some();
        assert!(parse("/tmp/stalltop.Ab3xYz90Qw"));
        for other in ["/", "/tmp", "/home/stalltop.x'; reboot '", "/tmp/../stalltop.x", "stalltop.x", "/tmp/stalltop.$(x)", ""]
        {
            assert!(!parse(other), "{other}");
        }
        assert_eq!(parse_copied(b"stalltop-copy /tmp/stalltop.a abc"), None);
    }

    #[test]
    fn the_copy_replaces_the_last_word() {
        assert_eq!(with_program("stalltop", "/tmp/stalltop.a/stalltop"), "'/tmp/stalltop.a/stalltop'");
        assert_eq!(with_program("sudo -n stalltop", "/x"), "sudo -n '/x'");
        assert!(probe_script("sudo -n stalltop").contains("command -v 'stalltop'"));
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let expected: Vec<Result<u32, String>> = items.iter().map(|item| Ok(item * 2)).collect();
        assert_eq!(in_parallel(&items, |item| Ok(item * 2)), expected);
        assert!(in_parallel(&[] as &[u32], |item| Ok(*item)).is_empty());
    }

    #[test]
    fn a_thread_that_panics_loses_no_result_of_another_item() {
        let items: Vec<u32> = (0..40).collect();
        let results = in_parallel(&items, |item| if *item == 3 { panic!("a test") } else { Ok(*item) });
        let found: Vec<Option<u32>> = results.into_iter().map(Result::ok).collect();
        let expected: Vec<Option<u32>> = items.iter().map(|&item| (item != 3).then_some(item)).collect();
        assert_eq!(found, expected);
    }
}
