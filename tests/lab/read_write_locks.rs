//! Threads behind read-write locks of glibc (loads/rwlocks.c), which name their writer.

use std::process::Command;

use stalltop::sample::waits::OwnerField;

use crate::attempt::{Attempt, compare_until_equal};
use crate::check_result::{CheckResult, check as stalltop_check};
use crate::disk_load::{Load, link};
use crate::held_truth::{HeldTruth, samples};
use crate::scenario::{Lab, compiled};

const WRITER_FIELD: &str = "the writer field of the read-write lock (glibc)";
/// Share of the readings in which the lock must name the thread that held it.
const MIN_RIGHT: f64 = 0.99;
/// Readings that are enough to judge by: a third of those on an idle machine in ten seconds.
const MIN_READINGS: usize = 15;

fn load(mode: &str, seconds: &str) -> Command {
    let mut command = Command::new(compiled("rwlocks.c", &["gcc", "-O2", "-pthread"]));
    command.args([mode, "12", seconds]);
    command
}

fn check(mode: &str, mut verify: impl FnMut(&mut CheckResult)) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = Load::start(load(mode, "120"));
    Attempt { seconds: 5, ..Attempt::new(&format!("rwlocks-{mode}"), state.path()) }.check(|_, said| verify(said));
}

fn held(mode: &str, severity: &str, does: &str) {
    check(mode, |said| {
        let found = said.must("idle-but-blocked", "host", severity);
        said.says(&found, &["threads wait for a lock (one read-write lock) behind writer/", does]);
        said.word(&found, "lock_holder_basis", WRITER_FIELD);
        if !found.is_null() {
            link(said, &found, does, WRITER_FIELD);
        }
        said.must_not("deadlock");
    });
}

#[test]
fn writers_that_sleep_in_turn() {
    held("sleep", "critical", "which sleeps for a fixed time (clock_nanosleep)");
}

#[test]
fn writers_that_sleep_while_all_others_wait_with_a_timeout() {
    if !crate::long() {
        return;
    }
    held("timed", "critical", "which sleeps for a fixed time (clock_nanosleep)");
}

#[test]
fn writers_that_compute() {
    if !crate::long() {
        return;
    }
    held("compute", "warning", "which computes while it holds the lock");
}

/// Since before stalltop began: none of the threads has run meanwhile.
#[test]
fn two_writers_that_wait_for_each_other() {
    check("deadlock", |said| {
        let found = said.must("deadlock", "rwlocks", "critical");
        let says = ["one/", "two/", " waits for a read-write lock that ", "12 more threads wait for these read-write locks"];
        said.says(&found, &says);
    });
}

/// The word of the writer has none, or one that has left.
#[test]
fn writers_behind_a_reader_name_no_holder() {
    check("readers", |said| {
        said.must_not("deadlock");
        let samples = samples(said.recording());
        let owners: Vec<_> = samples.iter().flat_map(|sample| &sample.waits.lock_owners).collect();
        said.expect(owners.is_empty(), || format!("owners of locks: {owners:?}"));
    });
}

#[test]
fn threads_that_wait_for_work_wait_for_no_read_write_lock() {
    if !crate::long() {
        return;
    }
    check("condition", |said| {
        for kind in ["idle-but-blocked", "mutex-queue", "deadlock"] {
            said.must_not(kind);
        }
    });
}

#[test]
fn each_reading_of_a_read_write_lock_names_the_thread_that_writes() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth");
    compare_until_equal("readings of a read-write lock", || {
        let mut command = load("sleep", "13");
        command.env("TRUTH", &truth);
        let running = Load::start(command);
        let said = stalltop_check("rwlock-readings", folder.path(), 10, "1s");
        running.ended();
        let written = std::fs::read_to_string(&truth).expect("what the load wrote");
        let held = HeldTruth::parse(written.lines().filter_map(|line| line.strip_prefix("held ")));
        let samples = samples(said.recording());
        let rows = samples.iter().flat_map(|sample| sample.waits.lock_owners.iter().map(move |row| (sample, row)));
        let of_lock = rows.filter(|(_, row)| row.field == OwnerField::GlibcWriter);
        let readings: Vec<bool> = of_lock.map(|(sample, row)| held.agrees(sample, row)).collect();
        let right = readings.iter().filter(|&&is_right| is_right).count();
        println!("the writer is right in {right} of {} readings", readings.len());
        match readings.len() >= MIN_READINGS && right as f64 >= readings.len() as f64 * MIN_RIGHT {
            true => Ok(()),
            false => Err(format!("right in {right} of {} readings", readings.len())),
        }
    });
}
