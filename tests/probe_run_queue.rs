//! `probe runq` against /proc/PID/schedstat, of a process that computes among others on one CPU. As root, with BTF.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "support/program.rs"]
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use jiff::Timestamp;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use program::program;
use serde_json::Value;

/// Killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Computes for a while after each line of its input.
const WORKER: &str = "while read line; do i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; echo done; done";

/// Wait for a CPU in seconds, and the number of times on one.
fn schedstat(pid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    (numbers[1] / 1e9, numbers[2])
}

/// Has one CPU: a wait that ends on another CPU than it began on is counted in part.
fn shell(script: &str) -> Running {
    let mut command = Command::new("sh");
    let shell = Running(command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let own = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut first = CpuSet::new();
    first.set((0..CpuSet::count()).find(|&cpu| own.is_set(cpu).unwrap()).unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(shell.0.id().cast_signed()), &first).unwrap();
    shell
}

fn is_sleeping(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") S ")
}

/// Why this machine cannot run the test.
fn obstacle() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root");
    }
    (!Path::new("/sys/kernel/btf/vmlinux").exists()).then_some("no /sys/kernel/btf/vmlinux")
}

#[test]
fn waits_are_those_of_schedstat() {
    if let Some(why) = obstacle() {
        return println!("skipped: {why}");
    }
    let probe = Command::new(program()).args(["probe", "runq", "100ms", "1"]).output().unwrap();
    assert!(probe.status.success(), "{}: {}", probe.status, String::from_utf8_lossy(&probe.stderr));
    let mut worker = shell(WORKER);
    let pid = worker.0.id();
    let mut probe = Command::new(program());
    let probe = probe.args(["probe", "runq", "--json", "--pid", &pid.to_string(), "200ms"]).stdout(Stdio::piped()).spawn();
    let mut probe = Running(probe.unwrap());
    let mut lines = BufReader::new(probe.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("the probe ended").unwrap()).unwrap() };
    // From here on it counts.
    next();
    let before = schedstat(pid);
    let others: Vec<Running> = (0..3).map(|_| shell("while :; do :; done")).collect();
    worker.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut answer = String::new();
    BufReader::new(worker.0.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    drop(others);
    while !is_sleeping(pid) {
        thread::yield_now();
    }
    let (after, end) = (schedstat(pid), Timestamp::now());
    let (mut seconds, mut waits, mut later) = (0.0, 0.0, 0);
    // The time of a table is rounded; its first row is that of all CPUs.
    while later < 3 {
        let row = next();
        if row["pid"] == pid {
            seconds += row["total_seconds"].as_f64().unwrap();
            waits += row["waits"].as_f64().unwrap();
        }
        let is_later = row["at"].as_str().unwrap().parse::<Timestamp>().unwrap() >= end;
        later += i32::from(is_later && row["pid"].is_null() && row["cpu"].is_null());
    }
    let (expected_seconds, expected_waits) = (after.0 - before.0, after.1 - before.1);
    println!("{waits} waits of {seconds:.3} s, schedstat: {expected_waits} of {expected_seconds:.3} s");
    // Some virtual machines have no event, also in tracefs, for one switch in a hundred.
    assert!((waits - expected_waits).abs() <= 3.0 + expected_waits * 0.06, "{waits} waits, schedstat says {expected_waits}");
    // Within the width of a bucket, and the times of those.
    assert!((seconds - expected_seconds).abs() <= expected_seconds * 0.12, "{seconds} s, schedstat says {expected_seconds}");
}
