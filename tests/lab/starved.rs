//! Threads that get far less CPU time than others (loads/sched.c): cgroup weights, SCHED_DEADLINE, SCHED_FIFO, timers, sched_yield; and
//! work that may wait: at low priority, in a cgroup of low weight.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::attempt::Attempt;
use crate::disk_load::Load;
use crate::executable::copy_executable;
use crate::proc::cpus;
use crate::scenario::{Lab, compiled};

const V1_CPU: &str = "/sys/fs/cgroup/cpu";

/// The compiled load.
pub fn sched() -> PathBuf {
    compiled("sched.c", &["gcc", "-O1", "-pthread"])
}

fn start(mode: &str, count: u32) -> Load {
    Load::start_silent(Command::new(sched()).args([mode, &count.to_string(), "60"]))
}

/// A loop in a cgroup, which is removed when it ends.
struct Group {
    folder: PathBuf,
    load: Option<Load>,
}

impl Group {
    fn start(name: &str, shares: u32, threads: u32) -> Group {
        let folder = Path::new(V1_CPU).join(name);
        fs::create_dir_all(&folder).expect("a cgroup");
        fs::write(folder.join("cpu.shares"), shares.to_string()).expect("cpu.shares");
        let script = format!("echo $$ > {}/cgroup.procs; exec {} spin {threads} 60", folder.display(), sched().display());
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
    let threads = 2 * cpus() as u32;
    let _light = Group::start("lab-light", light, threads);
    let _heavy = Group::start("lab-heavy", 4096, threads);
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

/// A loop in a cgroup of low weight, on a host with an idle CPU: it is at its limit, and may wait.
#[test]
fn one_loop_in_a_cgroup_of_low_weight() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    if !Path::new(V1_CPU).join("cpu.shares").exists() || cpus() < 2.0 {
        return println!("skipped: no cgroup v1 hierarchy cpu, or one CPU");
    }
    let state = tempfile::tempdir().expect("a folder");
    let _light = Group::start("lab-light", 100, 1);
    Attempt { seconds: 4, ..Attempt::new("low-weight-thread", state.path()) }.check(|window, said| {
        window.known("CPU used", window.used("sched"), 0.95, 1.03);
        let thread = said.must("saturated-thread", "worker", "note");
        said.says(&thread, &["its cgroup has low CPU weight (cgroup /lab-light: cpu.shares 100)"]);
        said.nothing_wrong_but(&[]);
    });
}

/// Loops with each of these four programs before them, two for each CPU together.
fn loops(name: &str, before: &[&[&str]; 4], severity: &str, verify: impl Fn(&str) -> bool) {
    let Some(_lab) = Lab::open(&["gcc", "nice", "chrt"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let sched = sched();
    let count = (cpus() / 2.0).ceil().to_string();
    let start = |words: &&[&str]| {
        Load::start_silent(Command::new(words[0]).args(&words[1..]).arg(&sched).args(["spin", &count, "120"]))
    };
    let _loads: Vec<Load> = before.iter().map(start).collect();
    Attempt { seconds: 5, ..Attempt::new(name, state.path()) }.check(|window, said| {
        window.known("busy", window.ticks("cpu").busy(), 0.95, 1.0);
        let full = said.must("cpu-saturated", "host", severity);
        let sentence = full["sentence"].as_str().unwrap_or_default();
        said.expect(full.is_null() || full["severity"] == severity, || format!("{}: {sentence}", full["severity"]));
        said.expect(verify(sentence), || sentence.to_owned());
        said.nothing_wrong_but(if severity == "note" { &[] } else { &["cpu-saturated"] });
    });
}

const LOW_PRIORITY: &str = "by work at low priority (nice 10 or more, SCHED_BATCH or SCHED_IDLE)";

#[test]
fn loops_at_low_priority_alone() {
    let policies: [&[&str]; 4] =
        [&["nice", "-n", "10"], &["nice", "-n", "19"], &["chrt", "--batch", "0"], &["chrt", "--idle", "0"]];
    loops("low-priority", &policies, "note", |sentence| sentence.contains(LOW_PRIORITY));
}

#[test]
fn the_same_loops_at_nice_0() {
    if !crate::long() {
        return;
    }
    loops("usual-priority", &[&["nice", "-n", "0"][..]; 4], "warning", |sentence| !sentence.contains(LOW_PRIORITY));
}

/// A SCHED_FIFO loop on CPU 1, and a normal one that may run only there: the kernel leaves it 5 % (sched_rt_runtime_us).
#[test]
fn a_fifo_loop_and_the_process_that_it_starves() {
    let Some(_lab) = Lab::open(&["gcc", "chrt", "taskset"]) else { return };
    let may = Command::new("chrt").args(["--fifo", "50", "true"]).output().expect("chrt").status.success();
    if !may || cpus() < 2.0 {
        return println!("skipped: SCHED_FIFO is not permitted, or one CPU");
    }
    let state = tempfile::tempdir().expect("a folder");
    let sched = sched();
    let start = |name: &str, before: &[&str]| {
        let program = state.path().join(name);
        copy_executable(&sched, &program);
        Load::start_silent(Command::new("taskset").args(["-c", "1"]).args(before).arg(program).args(["spin", "1", "120"]))
    };
    let _victim = start("victim", &[]);
    let _hog = start("hog", &["chrt", "--fifo", "50"]);
    Attempt { crowded: true, seconds: 5, ..Attempt::new("fifo-hog", state.path()) }.check(|window, said| {
        window.known("CPU of the hog", window.used("hog"), 0.9, 1.0);
        window.known("CPU of the victim", window.used("victim"), 0.0, 0.1);
        let full = said.must("cpu-saturated", "", "note");
        said.says(&full, &["victim", "% of the time and gets", "SCHED_FIFO, runs before it and uses 9", "of CPU 1"]);
        said.evidence(&full, "starved_wait_ratio", 0.85, 1.0);
    });
}

#[test]
fn cgroups_of_the_same_weight() {
    if !crate::long() {
        return;
    }
    weights("starved-same-weight", 4096, &[]);
}

/// What `cpu-saturated` says of a mode of the load, or must not say.
fn mode(mode: &str, count: u32, words: &[&str], never: &[&str]) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = start(mode, count);
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
    if !crate::long() {
        return;
    }
    mode("deadline", 8, &["normal (thread", "SCHED_DEADLINE, runs before it"], &["sched_yield", "by timers"]);
}

#[test]
fn loops_alone() {
    if !crate::long() {
        return;
    }
    mode("spin", 8, &[], &["times per second", "runs before it", "cpu.shares"]);
}
