//! `stalltop trace` on locks of Rust's standard library (loads/rust_locks.rs), which name no owner, against what the load wrote itself; and
//! on pools that wait for work, in which there is no lock.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};

use serde_json::Value;
use stalltop::kernel::{Root, wake_trace};

use crate::attempt::compare_until_equal;
use crate::disk_load::Load;
use crate::harness::program;
use crate::long;
use crate::scenario::{Lab, compiled};

/// Threads of a load, beside its main thread.
const THREADS: &str = "12";
/// Share of the time for which the traced holder must be the one that held the lock.
const MIN_RIGHT: f64 = 0.95;
/// Share by which the times of all threads together may differ from those threads × time traced.
const MAX_MISSING: f64 = 0.03;
/// Threads of a pool that wait for work at any time, at least.
const MIN_WAITING: f64 = 9.0;

/// Whether the kernel describes its types (BTF) to stalltop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Types {
    Described,
    /// As by a kernel without CONFIG_DEBUG_INFO_BTF
    Hidden,
}

/// stalltop, to which arguments are added.
pub fn stalltop(types: Types) -> Command {
    let program = program();
    if types == Types::Described {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
    command.args(["--mount", "sh", "-c", script, program]);
    command
}

/// A trace of 3 s of a load in this mode with `--probes`, and the times in ns that each of its threads held the lock in them, by tid.
fn trace(types: Types, mode: &str, probes: &str, mut verify: impl FnMut(&Value, &BTreeMap<u64, f64>) -> Result<(), String>) {
    let Some(_lab) = Lab::open(&[]) else { return };
    // rustup installs it for a user.
    if Command::new("rustc").arg("--version").output().is_err() {
        return println!("skipped: rustc is not installed");
    }
    let program = Path::new(program());
    if let Err(why) = wake_trace::try_to_attach(&Root::host(), program) {
        return println!("skipped: {why}");
    }
    // With so many, "auto" attaches the programs for a part of the time only.
    let _switches = (probes == "auto").then(Switches::start);
    let folder = tempfile::tempdir().expect("a folder");
    let load = rust_locks();
    compare_until_equal(&format!("trace of {mode}"), || {
        let mut command = Command::new(&load);
        command.args([mode, THREADS, "5"]).arg(folder.path());
        let running = Load::start(command);
        let pid = running.pid().to_string();
        let output = stalltop(types).args(["trace", "--for", "3s", "--json", "--probes", probes, &pid]).output();
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
        accounts_for_all_threads(&graph)
            .and_then(|()| verify(&graph, &held))
            .map_err(|wrong| format!("{mode}: {wrong}: {graph}"))
    });
}

/// What the threads waited, ran and waited for CPUs is all of the time: nothing is missing at the end, and nothing counts twice.
fn accounts_for_all_threads(graph: &Value) -> Result<(), String> {
    let threads = graph["threads"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ratio = |thread: &Value| Some(thread["running_ratio"].as_f64()? + thread["runnable_ratio"].as_f64()?);
    let awake: f64 = threads.iter().filter_map(ratio).sum();
    let all = THREADS.parse::<f64>().expect("a number") + 1.0;
    let sum = awake + waiting_threads(graph, |_| true);
    println!("{sum:.3} of {all} threads are accounted for");
    match threads.len() as f64 == all && (sum / all - 1.0).abs() <= MAX_MISSING {
        true => Ok(()),
        false => Err(format!("{sum} of {all} threads are accounted for")),
    }
}

/// Mean number of threads that wait in these places.
fn waiting_threads(graph: &Value, is_wanted: impl Fn(&Value) -> bool) -> f64 {
    let places = ["locks", "other_waits"].into_iter().flat_map(|key| graph[key].as_array().into_iter().flatten());
    places.filter(|place| is_wanted(place)).filter_map(|place| place["waiting_threads"].as_f64()).sum()
}

/// The compiled load.
pub fn rust_locks() -> PathBuf {
    compiled("rust_locks.rs", &["rustc", "-O", "--edition", "2021"])
}

/// The first lock is that of the truth: for which share of the time the holder is right, how it is known, and what it does. `path`:
/// a part of each step of the critical path.
fn names_the_holders(types: Types, mode: &str, basis: &str, path: &[&str]) {
    trace(types, mode, "on", |graph, held| {
        let lock = &graph["locks"][0];
        let holders = lock["holders"].as_array().map(Vec::as_slice).unwrap_or_default();
        let traced: BTreeMap<u64, f64> =
            holders.iter().filter_map(|holder| Some((holder["tid"].as_u64()?, holder["held_ratio"].as_f64()?))).collect();
        let traced_ns = graph["seconds"].as_f64().unwrap_or_default() * 1e9;
        let all = held.values().sum::<f64>();
        // Of the truth, so that times that are too short or too long are wrong, too.
        let right = held.iter().map(|(tid, ns)| ns.min(traced.get(tid).copied().unwrap_or(0.0) * traced_ns)).sum::<f64>() / all;
        let too_long = traced.values().sum::<f64>() * traced_ns / all;
        let steps: Vec<&str> = graph["critical_path"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        println!("{mode}: the holder is right for {right:.4} of the time, traced {too_long:.3} of it; {steps:?}");
        let is_path = steps.len() == path.len() && steps.iter().zip(path).all(|(step, part)| step.contains(part));
        match right >= MIN_RIGHT && too_long <= 2.0 - MIN_RIGHT && lock["basis"] == basis && is_path {
            true => Ok(()),
            false => Err(format!("{right}, {too_long}, {steps:?}, truth {held:?}")),
        }
    });
}

/// Threads wait at futexes, and are woken there, but no lock is on a path.
fn has_no_path(mode: &str, min_wake_ups: u64) {
    trace(Types::Described, mode, "on", |graph, _| {
        let path = graph["critical_path"].as_array().map(Vec::len);
        let waiting = waiting_threads(graph, |place| place["futex_address"].is_string());
        let wake_ups = graph["wake_ups"].as_u64().unwrap_or_default();
        println!("{mode}: {waiting:.2} threads wait at futexes, {wake_ups} wake-ups");
        match path == Some(0) && waiting >= MIN_WAITING && wake_ups >= min_wake_ups {
            true => Ok(()),
            false => Err(format!("{path:?}, {waiting} threads at futexes, {wake_ups} wake-ups")),
        }
    });
}

#[test]
fn a_mutex_of_rust_held_for_fsync() {
    names_the_holders(Types::Described, "fsync", "value", &["for lock 1", "held by", "in fdatasync"]);
}

#[test]
fn the_same_without_the_types_of_the_kernel() {
    if !crate::long() {
        return;
    }
    names_the_holders(Types::Hidden, "fsync", "value", &["for lock 1", "held by", "in fdatasync"]);
}

#[test]
fn a_mutex_of_rust_whose_holder_sleeps() {
    if !long() {
        return;
    }
    names_the_holders(Types::Described, "sleep", "value", &["for lock 1", "held by", "in clock_nanosleep"]);
}

#[test]
fn a_mutex_of_rust_whose_holder_computes() {
    if !long() {
        return;
    }
    names_the_holders(Types::Described, "compute", "value", &["for lock 1", "held by", "on a CPU"]);
}

#[test]
fn a_read_write_lock_of_rust() {
    names_the_holders(Types::Described, "rwlock", "passed-on", &["for lock 1", "held by", "in clock_nanosleep"]);
}

#[test]
fn a_mutex_whose_holder_waits_for_a_second_one() {
    if !crate::long() {
        return;
    }
    let path = ["for lock 1", "held by", "for lock 2", "held by", "in clock_nanosleep"];
    names_the_holders(Types::Described, "nested", "value", &path);
}

#[test]
fn a_second_mutex_without_the_types_of_the_kernel() {
    let path = ["for lock 1", "held by", "for lock 2", "held by", "in clock_nanosleep"];
    names_the_holders(Types::Hidden, "nested", "value", &path);
}

#[test]
fn workers_that_a_dispatcher_wakes() {
    has_no_path("pool", 500);
}

#[test]
fn idle_workers() {
    if !long() {
        return;
    }
    has_no_path("idle", 0);
}

#[test]
fn workers_that_wake_each_other_before_they_work() {
    if !crate::long() {
        return;
    }
    has_no_path("chain", 500);
}

#[test]
fn threads_that_pass_a_token_on_by_parking() {
    if !long() {
        return;
    }
    has_no_path("ring", 300);
}

/// Threads that pass a byte to each other.
struct Switches {
    ends: Vec<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Switches {
    fn start() -> Switches {
        let mut switches = Switches { ends: Vec::new(), threads: Vec::new() };
        for _ in 0..2 {
            let (mut first, mut second) = UnixStream::pair().expect("sockets");
            switches.ends.push(first.try_clone().expect("a descriptor"));
            switches
                .threads
                .push(thread::spawn(move || while first.write_all(b"x").and_then(|()| first.read_exact(&mut [0])).is_ok() {}));
            switches.threads.push(thread::spawn(move || {
                while second.read_exact(&mut [0]).and_then(|()| second.write_all(b"x")).is_ok() {}
            }));
        }
        switches
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        // Ends their calls.
        self.ends.iter().for_each(|end| end.shutdown(Shutdown::Both).expect("a socket"));
        self.threads.drain(..).for_each(|thread| thread.join().expect("a thread"));
    }
}

#[test]
fn what_threads_do_while_the_programs_are_detached_again_and_again() {
    trace(Types::Described, "sleep", "auto", |graph, _| {
        let (seconds, span) =
            (graph["seconds"].as_f64().unwrap_or_default(), graph["span_seconds"].as_f64().unwrap_or_default());
        println!("traced for {seconds:.2} of {span:.2} s");
        match graph["held_is_lower_bound"] == true && seconds < span && graph["locks"][0]["basis"] == "value" {
            true => Ok(()),
            false => Err(format!("traced for {seconds} of {span} s")),
        }
    });
}
