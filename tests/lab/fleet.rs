//! `stalltop fleet` on a hundred hosts while the load of 15 runs: how soon the finding is on the screen, and what it costs.
//!
//! One sampler records, and each host is a copy of its stream: a hundred samplers would be the load of this machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::blocked::start_convoy;
use crate::harness::{Session, prepared, program};
use crate::proc::{pids, ticks_per_second};
use crate::scenario::{DISK_TOOLS, Lab};

const HOSTS: usize = 100;

/// The promises of docs/fleet.md. The CPU time is that of a release build. Memory grows with the processes of the hosts, of which the
/// test itself starts a hundred: it is only printed.
const MAX_DELAY_SECONDS: f64 = 2.0;
const MAX_CPU_MS_PER_SECOND: f64 = 60.0;

/// How long its CPU time is measured.
const MEASURED: Duration = Duration::from_secs(20);

/// A command that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// When `check --watch` says of the same samples that the host is idle but blocked, as more than a note.
fn watch(recording: &Path) -> ([Running; 2], Receiver<Instant>) {
    let mut tail = Command::new("tail");
    tail.args(["-c", "+1", "-f"]).arg(recording).stdout(Stdio::piped());
    let mut tail = tail.spawn().expect("tail");
    let mut command = Command::new(program());
    command.args(["check", "-", "--watch", "--no-config", "--only", "idle-but-blocked"]);
    command.stdin(tail.stdout.take().expect("its output")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut check = command.spawn().expect("check --watch");
    let lines = BufReader::new(check.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let (sender, said) = channel();
    let is_found = |line: &String| line.contains("critical") || line.contains("warning");
    std::thread::spawn(move || lines.filter(is_found).for_each(|_| sender.send(Instant::now()).unwrap_or_default()));
    ([Running(tail), Running(check)], said)
}

fn resident_mib(pid: i32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}

#[test]
fn a_finding_on_a_hundred_hosts_is_shown_in_time() {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("live.stalltop");
    let mut recorder = Command::new(program());
    recorder.arg("record").arg(&recording).stderr(Stdio::null());
    let _recorder = Running(recorder.spawn().expect("a recorder"));
    let script = folder.path().join("ssh");
    fs::write(&script, format!("#!/bin/sh\nexec tail -c +1 -f {}\n", recording.display())).expect("a script");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).expect("its mode");

    let mut command = CommandBuilder::new(program());
    command.args(["fleet", "--no-config", "--ssh"]);
    command.arg(&script);
    command.args((1..=HOSTS).map(|number| format!("web{number}")));
    let mut session = Session::start(prepared(command), 200, 50);
    session.until("all hosts", |screen| {
        let text = screen.contents();
        text.contains(&format!("{HOSTS} hosts")) && !["connecting", "unknown"].iter().any(|word| text.contains(word))
    });
    let ticks = |session: &Session| session.ticks().expect("its CPU time") as f64;
    let (begin, used) = (Instant::now(), ticks(&session));
    std::thread::sleep(MEASURED);
    let cpu = (ticks(&session) - used) / ticks_per_second() * 1e3 / begin.elapsed().as_secs_f64();

    let (_watch, said) = watch(&recording);
    let begin = Instant::now();
    let (_scenario, device) = start_convoy(&lab, 10_000);
    let cause = format!("on {device}: {HOSTS} of {HOSTS} hosts");
    session.until("the cause", |screen| {
        screen.contents().lines().any(|line| line.contains("idle but blocked behind ") && line.contains(&cause))
    });
    let shown = Instant::now();
    let found = said.recv_timeout(Duration::from_secs(30)).expect("check has found it");
    let delay = shown.saturating_duration_since(found).as_secs_f64();
    let resident = resident_mib(session.pid().as_raw());
    let after = shown.duration_since(begin).as_secs_f64();
    println!(
        "{HOSTS} hosts of {} processes: {cpu:.1} ms CPU a second, {resident:.0} MiB at most; on the screen {delay:.2} s after check \
         said it, {after:.1} s after the load was started",
        pids().len()
    );
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    assert!(delay <= MAX_DELAY_SECONDS, "{delay} s");
    if std::env::var_os("STALLTOP_BIN").is_some() {
        assert!(cpu <= MAX_CPU_MS_PER_SECOND, "{cpu} ms a second");
    }
}
