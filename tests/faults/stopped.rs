//! Stopped with SIGSTOP, or starved of CPU: missed samples are counted, and nothing is invented.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use stalltop::recording::Replayer;

use crate::again::{run, stalltop};
use crate::harness::{self, Session};
use crate::until::until;

#[test]
fn a_stopped_recorder_counts_missed_samples() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stopped.stalltop");
    let name = file.to_str().unwrap();
    let child = stalltop(&["record", "-i", "100ms", "--for", "10m", name]).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    // However large they are on this host.
    let samples = || Replayer::open(&file).map_or(0, |replayer| replayer.len());
    until("samples", || samples() > 2);
    kill(pid, Signal::SIGSTOP).unwrap();
    // It is the passing of time that is tested.
    std::thread::sleep(Duration::from_millis(1500));
    let before = samples();
    kill(pid, Signal::SIGCONT).unwrap();
    until("samples after it", || samples() > before + 1);
    // Not SIGINT: in the background of a script it is ignored, and children inherit that.
    kill(pid, Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains(" lost"), "{said}");
    let (code, info, _) = run(&mut stalltop(&["info", "--verify", name]));
    let gap = info.lines().find(|line| line.starts_with("gap")).unwrap_or_else(|| panic!("no gap in {info}"));
    let lost: u64 = info
        .lines()
        .filter_map(|line| line.strip_prefix("gap")?.split_whitespace().next()?.parse().ok())
        .max()
        .unwrap_or_else(|| panic!("no number in {gap}"));
    assert!(code == 0 && lost >= 10 && gap.contains("stopped, or got no CPU"), "{info}");
}

#[test]
fn a_stopped_screen_shows_missed_samples() {
    let mut session = Session::start(harness::stalltop(&["-i", "200ms"]), 120, 30);
    session.until_text("busy");
    session.signal(Signal::SIGSTOP);
    // It is the passing of time that is tested.
    std::thread::sleep(Duration::from_millis(2600));
    session.signal(Signal::SIGCONT);
    session.until_text("samples missed in");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}
