//! Threads that get far less CPU time than others (loads/sched.c): cgroup weights, SCHED_DEADLINE, timers, sched_yield.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::attempt::Attempt;
use crate::disk_load::Load;
use crate::scenario::Lab;

const V1_CPU: &str = "/sys/fs/cgroup/cpu";

/// The compiled load; `state` is a folder of the test.
pub fn compiled(state: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/sched.c");
    let load = state.join("sched");
    let status = Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&load).arg(source).status();
    assert!(status.expect("gcc").success(), "sched.c does not compile");
    load
}

fn start(state: &Path, mode: &str, count: u32) -> Load {
    Load::start_silent(Command::new(compiled(state)).args([mode, &count.to_string(), "60"]))
}

/// A loop in a cgroup, which is removed when it ends.
struct Group {
    folder: PathBuf,
    load: Option<Load>,
}

impl Group {
    fn start(state: &Path, name: &str, shares: u32, threads: u32) -> Group {
        let folder = Path::new(V1_CPU).join(name);
        fs::create_dir_all(&folder).expect("a cgroup");
        fs::write(folder.join("cpu.shares"), shares.to_string()).expect("cpu.shares");
        let script =
            format!("echo $$ > {}/cgroup.procs; exec {} spin {threads} 60", folder.display(), state.join("sched").display());
        Group { load: Some(Load::start_silent(Command::new("sh").args(["-c", &script]))), folder }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(self.load.take());
        for _ in 0..20 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

fn weights(name: &str, light: u32, words: &[&str]) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    if !Path::new(V1_CPU).join("cpu.shares").exists() {
        println!("skipped: no cgroup v1 hierarchy cpu");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    compiled(state.path());
    let cpus = std::thread::available_parallelism().map_or(2, |number| u32::try_from(number.get()).unwrap_or(2));
    let _light = Group::start(state.path(), "lab-light", light, 2 * cpus);
    let _heavy = Group::start(state.path(), "lab-heavy", 4096, 2 * cpus);
    Attempt { seconds: 5, ..Attempt::new(name, state.path()) }.check(|window, said| {
        window.known("busy", window.ticks("cpu").busy(), 0.95, 1.0);
        let full = said.must("cpu-saturated", "host", "warning");
        said.says(&full, words);
        let sentence = full["sentence"].as_str().unwrap_or_default();
        said.expect(!words.is_empty() || !sentence.contains("cpu.shares"), || sentence.to_owned());
    });
}

#[test]
fn a_cgroup_with_little_weight() {
    weights("starved-weight", 20, &["cgroup /lab-light has cpu.shares 20 beside 4096 of cgroup /lab-heavy"]);
}

#[test]
fn cgroups_of_the_same_weight() {
    weights("starved-same-weight", 4096, &[]);
}

/// What `cpu-saturated` says of a mode of the load, or must not say.
fn mode(mode: &str, count: u32, words: &[&str], never: &[&str]) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = start(state.path(), mode, count);
    let name = format!("starved-{mode}");
    Attempt { seconds: 5, ..Attempt::new(&name, state.path()) }.check(|window, said| {
        window.known("busy", window.ticks("cpu").busy(), 0.9, 1.0);
        // A note if the sampler, too, got little CPU time.
        let full = said.must("cpu-saturated", "host", "note");
        said.says(&full, words);
        let sentence = full["sentence"].as_str().unwrap_or_default();
        said.expect(never.iter().all(|word| !sentence.contains(word)), || sentence.to_owned());
    });
}

#[test]
fn sched_yield_in_a_loop() {
    mode("yield", 8, &["sched (", "gives up its CPU with sched_yield"], &["by timers"]);
}

#[test]
fn timers_of_microseconds() {
    mode("nanosleep", 24, &["sched (", "times per second by timers (hrtimer_nanosleep)"], &["sched_yield"]);
}

#[test]
fn deadline_threads_beside_loops() {
    mode("deadline", 8, &["normal (thread", "SCHED_DEADLINE, runs before it"], &["sched_yield", "by timers"]);
}

#[test]
fn loops_alone() {
    mode("spin", 8, &[], &["times per second", "runs before it", "cpu.shares"]);
}
