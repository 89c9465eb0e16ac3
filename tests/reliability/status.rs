//! What `record` says while it records: of a disk that has no space for a while, of one that fails, of a limit that is too small.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stalltop::recording::Replayer;

use crate::disks::Small;
use crate::program_under_test::program;
use crate::support::{PATIENCE, until};

/// A recorder and its lines on standard error. Killed, with what traces it, when the test ends.
struct Recording {
    child: Child,
    lines: Receiver<String>,
    _state: tempfile::TempDir,
}

impl Recording {
    /// `before`: the words of a program that starts it.
    fn start(before: &[&str], file: &Path) -> Recording {
        let state = tempfile::tempdir().unwrap();
        let mut words = before.iter().copied().chain([program(), "record", "-i", "100ms"]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(file).env("XDG_STATE_HOME", state.path());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, lines) = channel();
        std::thread::spawn(move || stderr.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Recording { child, lines, _state: state }
    }

    /// Waits for a line with this text.
    fn until_it_says(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("it does not say {text:?}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(-self.child.id().cast_signed()), signal);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn samples(file: &Path) -> usize {
    Replayer::open(file).map_or(0, |replayer| replayer.len())
}

/// The number before these words.
fn number(line: &str, words: &str) -> u64 {
    let before = line.split_once(words).unwrap_or_else(|| panic!("no {words:?} in {line:?}")).0;
    before.rsplit([' ', ',']).next().unwrap().parse().unwrap_or_else(|_| panic!("no number before {words:?}: {line:?}"))
}

#[test]
fn a_disk_without_space_is_reported_and_so_is_the_end_of_it() {
    let Some(disk) = Small::new("100m") else { return };
    let (file, filler) = (disk.path("one.stalltop"), disk.path("filler"));
    let recording = Recording::start(&[], &file);
    until("samples", || samples(&file) >= 3);
    // The last 64 MiB are left to others.
    fs::write(&filler, vec![1; 40 << 20]).unwrap();
    let (place, paused) = (file.display(), recording.until_it_says("is paused"));
    assert!(paused.starts_with(&format!("stalltop: recording into {place} is paused: only ")), "{paused}");
    assert!(number(&paused, " samples written") >= 3, "{paused}");
    fs::remove_file(&filler).unwrap();
    let goes_on = recording.until_it_says("goes on");
    assert!(goes_on.starts_with(&format!("stalltop: recording into {place} goes on: ")), "{goes_on}");
    recording.signal(Signal::SIGTERM);
    let end = recording.until_it_says("recorded ");
    let replayer = Replayer::open(&file).unwrap();
    let lost: u64 = replayer.gaps().iter().map(|gap| gap.lost_samples).sum();
    assert_eq!((number(&end, " samples, "), number(&end, " lost, ")), (replayer.len() as u64, lost), "{end}");
    let lost_by_then = number(&goes_on, " sample");
    assert!((1..=lost).contains(&lost_by_then), "{goes_on}, {end}");
}

#[test]
fn a_disk_that_fails_is_reported_with_the_next_file() {
    let directory = tempfile::tempdir().unwrap();
    let (file, next) = (directory.path().join("one.stalltop"), directory.path().join("one-2.stalltop"));
    // The first is that of a new recording.
    let inject = "inject=fdatasync:error=EIO:when=2";
    let traced = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", file.to_str().unwrap(), "-P", "one.stalltop", "-e", inject];
    if !Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("skipped: strace is not there, or may not trace");
    }
    let recording = Recording::start(&traced, &file);
    let (place, other) = (file.display(), next.display());
    let failed = recording.until_it_says("disk error");
    let repeats = format!("the recording goes on in {other}, which repeats what {place} may have lost");
    assert_eq!(failed, format!("stalltop: disk error in {place}: {repeats}"));
    recording.signal(Signal::SIGTERM);
    let end = recording.until_it_says("recorded ");
    assert!(end.ends_with(&format!(" into {place}, and after a disk error into {other}")), "{end}");
    assert!(samples(&next) > 0);
}

#[test]
fn a_limit_below_one_sample_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("one.stalltop");
    let mut command = Command::new(program());
    command.args(["record", "-i", "100ms", "--for", "1m", "--max-size", "1K"]).arg(&file);
    let output = command.env("XDG_STATE_HOME", directory.path()).output().unwrap();
    let why = "--max-size is smaller than one sample of this machine: give a larger size";
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("stalltop: cannot record into {}: {why}\n", file.display()));
    assert_eq!((output.status.code(), file.exists()), (Some(5), false));
}
