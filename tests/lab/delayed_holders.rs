//! Mutexes whose holder the machine keeps from its work: it waits for a CPU, is throttled by a CPU quota, or waits for memory at the limit
//! of its cgroup.

use std::process::Command;

use crate::attempt::Attempt;
use crate::check_result::CheckResult;
use crate::disk_load::{Cgroup, Load};
use crate::holders::{lines_after, mutexes, names_a_holder};
use crate::proc::cpus;
use crate::scenario::Lab;

const WAITERS: &str = "16";

/// Threads of `mutexes MODE`, one of which holds the mutex: what `check` says of them while CPUs are idle.
fn check(mut command: Command, mode: &str, seconds: u32, words: &[&str], mut verify: impl FnMut(&mut CheckResult, &[String])) {
    let state = tempfile::tempdir().expect("a folder");
    let truth = state.path().join("truth");
    command.args([mode, WAITERS, "60"]).args(words).env("TRUTH", &truth);
    let _load = Load::start(command);
    Attempt { seconds, crowded: true, ..Attempt::new(&format!("mutexes-{mode}"), state.path()) }.check(|window, said| {
        let ticks = window.ticks("cpu");
        window.known("available", ticks.share(ticks.available), 0.3, 1.0);
        let written = std::fs::read_to_string(&truth).expect("what the load wrote");
        verify(said, &lines_after(&written, "holder "));
    });
}

/// The threads of the load behind one of them that held the mutex.
fn are_blocked(said: &mut CheckResult, holders: &[String], does: &str) {
    let found = said.must("idle-but-blocked", "host", "warning");
    said.says(&found, &[" threads wait for a lock (one mutex, by the futex call) behind worker/", does]);
    names_a_holder(said, &found, "worker/", holders);
    let computes = said.sentences().into_iter().find(|sentence| sentence.contains("computes"));
    said.expect(computes.is_none(), || format!("no holder computes: {computes:?}"));
}

/// The threads may use one CPU only, as seven processes that compute.
#[test]
fn a_holder_that_waits_for_a_cpu() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    if cpus() < 2.0 {
        return println!("skipped: no CPU would be idle");
    }
    check(Command::new(mutexes()), "crowded-cpu", 5, &["7"], |said, holders| {
        are_blocked(said, holders, "which waits for a CPU with the lock held");
    });
}

/// Each holder needs 20 ms of CPU, and the group gets 5 ms in 100.
#[test]
fn a_holder_that_is_throttled_by_its_quota() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let Some(group) = Cgroup::make("cpu", "lab-mutexes-quota") else { return };
    group.write("cpu.cfs_period_us", "100000");
    group.write("cpu.cfs_quota_us", "5000");
    check(group.command(&mutexes()), "compute", 5, &[], |said, holders| {
        let held = said.must("cpu-throttled", "lab-mutexes-quota", "warning");
        said.says(&held, &[" threads of mutexes (", ") wait for a lock behind worker/"]);
        said.evidence(&held, "threads_behind_holders", 8.0, 16.0);
        are_blocked(said, holders, "which is throttled by its CPU quota of 0.05 with the lock held");
        said.only_follows("idle-but-blocked", "cpu-throttled");
    });
}

/// Where the kernel may kill no task the holder waits until there is memory. While it is in a page fault its memory, and with it the
/// mutex, is not read: it may hold the lock of the address space.
#[test]
fn a_holder_in_a_page_fault_at_the_memory_limit_of_its_cgroup() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let Some(group) = Cgroup::make("memory", "lab-mutexes-memory") else { return };
    group.write("memory.limit_in_bytes", "33554432");
    group.write("memory.oom_control", "1");
    check(group.command(&mutexes()), "memory", 8, &["100"], |said, _| {
        let sentences = said.sentences();
        let is_said = sentences.iter().any(|sentence| sentence.contains("memory reclaim"));
        said.expect(is_said, || format!("no thread is in memory reclaim: {sentences:?}"));
        let named = sentences.iter().find(|sentence| sentence.contains(" behind "));
        said.expect(named.is_none(), || format!("no holder was read: {named:?}"));
        said.must_not("deadlock");
    });
}
