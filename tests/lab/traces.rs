//! `stalltop trace` on locks of Rust's standard library (loads/rust_locks.rs), which name no owner, against what the load wrote itself; and
//! on pools that wait for work, in which there is no lock.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stalltop::kernel::{Root, wake_trace};

use crate::attempt::agree;
use crate::disk_load::Load;
use crate::scenario::Lab;

/// Threads of a load, beside its main thread.
const THREADS: &str = "12";
/// Share of the time for which the traced holder must be the one that held the lock.
const MIN_RIGHT: f64 = 0.95;

/// A trace of 3 s of a load in this mode, and the times in ns that each of its threads held the lock in them, by tid.
fn trace(mode: &str, mut judge: impl FnMut(&Value, &BTreeMap<u64, f64>) -> Result<(), String>) {
    let Some(_lab) = Lab::open(&[]) else { return };
    // rustup installs it for a user.
    if Command::new("rustc").arg("--version").output().is_err() {
        return println!("skipped: rustc is not installed");
    }
    let program = Path::new(env!("CARGO_BIN_EXE_stalltop"));
    if let Err(why) = wake_trace::try_to_attach(&Root::host(), program) {
        return println!("skipped: {why}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let load = compile(folder.path());
    agree(&format!("trace of {mode}"), || {
        let mut command = Command::new(&load);
        command.args([mode, THREADS, "5"]).arg(folder.path());
        let running = Load::start(command);
        let pid = running.pid().to_string();
        let output = Command::new(program).args(["trace", "--for", "3s", "--json", "--probes", "on", &pid]).output();
        let output = output.expect("stalltop");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        running.ended();
        let graph: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let at = |key: &str| graph[key].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok()).expect("a time");
        let (from, to) = (at("from").as_nanosecond(), at("to").as_nanosecond());
        let mut held = BTreeMap::new();
        for line in fs::read_to_string(folder.path().join("truth")).expect("what the load wrote").lines() {
            let numbers: Vec<i128> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
            let [begin, end, tid] = numbers.try_into().expect("three numbers");
            let time = end.min(to) - begin.max(from);
            if time > 0 {
                *held.entry(tid as u64).or_default() += time as f64;
            }
        }
        assert_eq!(graph["lost_events"], 0);
        judge(&graph, &held)
    });
}

fn compile(folder: &Path) -> PathBuf {
    let program = folder.join("rust_locks");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/rust_locks.rs");
    let status = Command::new("rustc").args(["-O", "--edition", "2021", "-o"]).arg(&program).arg(source).status();
    assert!(status.expect("rustc").success(), "rust_locks.rs does not compile");
    program
}

/// The first lock is that of the truth: for which share of the time the holder is right, how it is known, and what it does.
fn names_the_holders(mode: &str, basis: &str, path_ends_with: &str) {
    trace(mode, |graph, held| {
        let lock = &graph["locks"][0];
        let empty = Vec::new();
        let holders = lock["holders"].as_array().unwrap_or(&empty);
        let traced: BTreeMap<u64, f64> =
            holders.iter().filter_map(|holder| Some((holder["tid"].as_u64()?, holder["held_ratio"].as_f64()?))).collect();
        let (all, all_traced) = (held.values().sum::<f64>(), traced.values().sum::<f64>());
        let right =
            held.iter().map(|(tid, ns)| (ns / all).min(traced.get(tid).copied().unwrap_or(0.0) / all_traced)).sum::<f64>();
        let last = graph["critical_path"].as_array().and_then(|path| path.last()?.as_str()).unwrap_or_default();
        println!("{mode}: the holder is right for {right:.4} of the time, traced {all_traced:.3}; {last}");
        match right >= MIN_RIGHT && lock["basis"] == basis && last.contains(path_ends_with) {
            true => Ok(()),
            false => Err(format!("{mode}: {right}, truth {held:?}: {graph}")),
        }
    });
}

fn has_no_edge(mode: &str) {
    trace(mode, |graph, _| match graph["critical_path"].as_array() {
        Some(path) if path.is_empty() => Ok(()),
        _ => Err(format!("{mode}: {graph}")),
    });
}

#[test]
fn a_mutex_of_rust_held_for_fsync() {
    names_the_holders("fsync", "value", "of the time that it is held");
}

#[test]
fn a_mutex_of_rust_whose_holder_sleeps() {
    names_the_holders("sleep", "value", "in clock_nanosleep");
}

#[test]
fn a_mutex_of_rust_whose_holder_computes() {
    names_the_holders("compute", "value", "on a CPU");
}

#[test]
fn a_read_write_lock_of_rust() {
    names_the_holders("rwlock", "passed-on", "in clock_nanosleep");
}

#[test]
fn a_mutex_whose_holder_waits_for_a_second_one() {
    names_the_holders("nested", "value", "in clock_nanosleep");
}

#[test]
fn workers_that_a_dispatcher_wakes() {
    has_no_edge("pool");
}

#[test]
fn idle_workers() {
    has_no_edge("idle");
}

#[test]
fn workers_that_wake_each_other_before_they_work() {
    has_no_edge("chain");
}

#[test]
fn threads_that_pass_a_token_on_by_parking() {
    has_no_edge("ring");
}
