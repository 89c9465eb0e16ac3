//! Threads that wait for each other's mutexes, and threads behind a mutex whose holder has ended.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stalltop::sample::Sample;

use crate::attempt::Attempt;
use crate::disk_load::Load;
use crate::held_truth::samples;
use crate::holders::{check, check_started_by, mutexes, names_a_holder};
use crate::long;
use crate::scenario::Lab;

fn deadlock(mode: &str, threads: f64, says: &[&str]) {
    check(mode, &[], |said, holders| {
        let found = said.must("deadlock", "mutexes", "critical");
        said.value(&found, threads, threads);
        said.evidence(&found, "other_waiting_threads", 12.0, 12.0);
        said.says(&found, says);
        said.says(&found, &["; 12 more threads wait for these mutexes"]);
        let named: Vec<String> = holders.iter().map(|tid| format!("knot/{tid}")).collect();
        let blocked = said.must("idle-but-blocked", "host", "critical");
        said.says(&blocked, &[" behind knot/", ", which is in a deadlock"]);
        said.says(&found, &named.iter().map(String::as_str).collect::<Vec<_>>());
    });
}

#[test]
fn two_threads_in_a_deadlock() {
    if !long() {
        return;
    }
    deadlock("deadlock", 2.0, &[" waits for a mutex that knot/", ": neither proceeds"]);
}

#[test]
fn three_threads_in_a_deadlock() {
    deadlock("circle", 3.0, &["3 threads wait for each other's mutexes in a cycle, and none proceeds: knot/"]);
}

#[test]
fn a_thread_that_locks_its_own_mutex() {
    if !crate::long() {
        return;
    }
    deadlock("self", 1.0, &["waits for a mutex that it holds itself, and never proceeds"]);
}

#[test]
fn threads_behind_a_mutex_whose_holder_has_ended() {
    check("ended", &[], |said, holders| {
        let found = said.must("deadlock", "mutexes", "critical");
        said.value(&found, 12.0, 12.0);
        let ended = holders.first().map_or_else(String::new, |tid| format!("thread {tid} held when it ended: none proceeds"));
        said.says(&found, &["12 threads wait for a mutex that ", ended.as_str()]);
        let blocked = said.must("idle-but-blocked", "host", "critical");
        said.says(&blocked, &["which has ended"]);
    });
}

/// The load has a pid namespace of its own: the mutex names the thread by its number there, and so does the finding.
#[test]
fn threads_in_a_container_behind_a_mutex_whose_holder_has_ended() {
    let Some(_lab) = Lab::open(&["gcc", "unshare"]) else { return };
    let in_container = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).arg(program);
        command
    };
    check_started_by(in_container, "ended", &[], |said, _| {
        let found = said.must("deadlock", "mutexes", "critical");
        said.value(&found, 12.0, 12.0);
        said.says(&found, &["12 threads wait for a mutex that thread ", " held when it ended: none proceeds"]);
    });
}

#[test]
fn a_cycle_in_which_one_thread_waits_with_a_timeout() {
    check("timed-cycle", &[], |said, holders| {
        said.must_not("deadlock");
        let is_whole = |sample: &Arc<Sample>| {
            let owners = || sample.waits.lock_owners.iter().filter(|row| row.owner.syscall.is_some());
            owners().any(|row| row.owner.has_timeout) && owners().any(|row| row.timed_waiters == row.waiters)
        };
        let is_seen = samples(said.recording()).iter().any(is_whole);
        said.expect(is_seen, || "no sample has both holders".to_owned());
        let found = said.must("idle-but-blocked", "host", "critical");
        said.says(
            &found,
            &[" behind knot/", "which is in a cycle of threads that wait for each other's locks, one of them with a timeout"],
        );
        names_a_holder(said, &found, "knot/", holders);
    });
}

#[test]
fn two_threads_in_a_deadlock_beside_twenty_busy_mutexes() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(mutexes());
    command.args(["crowd", "20", "60"]);
    let _load = Load::start(command);
    Attempt { seconds: 8, ..Attempt::new("mutexes-crowd", state.path()) }.check(|_, said| {
        let found = said.must("deadlock", "mutexes", "critical");
        said.value(&found, 2.0, 2.0);
        said.says(&found, &[" waits for a mutex that knot/", ": neither proceeds"]);
    });
}
