//! Futexes that name no holder: pools on condition variables and semaphores, plain mutexes of musl. Nothing is said of them.

use std::process::Command;

use crate::attempt::Attempt;
use crate::disk_load::Load;
use crate::holders::check;
use crate::scenario::{Lab, compiled};

#[test]
fn a_pool_on_a_condition_variable_with_a_timeout() {
    nothing_is_wrong("timed-condition");
}

#[test]
fn a_pool_on_a_semaphore_with_a_timeout() {
    nothing_is_wrong("timed-semaphore");
}

/// As in a container, where small numbers are threads.
#[test]
fn pools_of_musl_that_wait_with_a_timeout() {
    let Some(_lab) = Lab::open(&["musl-gcc", "unshare"]) else { return };
    for mode in ["timed-condition", "timed-semaphore"] {
        musl_names_no_holder(mode);
    }
}

/// A plain mutex of musl has the number 16 in its word, which in a container is a thread of the process.
#[test]
fn a_plain_mutex_of_musl_in_a_container_names_no_holder() {
    let Some(_lab) = Lab::open(&["musl-gcc", "unshare"]) else { return };
    musl_names_no_holder("long-sleep");
}

fn musl_names_no_holder(mode: &str) {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(compiled("mutexes.c", &["musl-gcc", "-O2", "-static", "-pthread"]));
    command.args([mode, "20", "60"]);
    let _load = Load::start(command);
    Attempt { seconds: 5, ..Attempt::new(&format!("mutexes-musl-{mode}"), state.path()) }.check(|_, said| {
        said.must_not("deadlock");
        said.must_not("mutex-queue");
        said.must_not("idle-but-blocked");
    });
}

fn nothing_is_wrong(mode: &str) {
    check(mode, &[], |said, _| {
        said.must_not("idle-but-blocked");
        said.must_not("mutex-queue");
        said.must_not("deadlock");
    });
}

#[test]
fn a_leader_that_waits_for_work_under_the_lock_of_its_followers() {
    nothing_is_wrong("followers");
}

#[test]
fn a_pool_on_a_condition_variable() {
    if !crate::long() {
        return;
    }
    nothing_is_wrong("condition");
}

#[test]
fn a_mutex_that_is_handed_over_quickly() {
    if !crate::long() {
        return;
    }
    nothing_is_wrong("quick");
}

#[test]
fn threads_that_wait_for_requests_on_unix_sockets() {
    if !crate::long() {
        return;
    }
    nothing_is_wrong("requests");
}
