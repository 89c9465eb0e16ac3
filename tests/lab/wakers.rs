//! The holders of mutexes of Rust's standard library (loads/rust_locks.rs), which name none, by wake-ups: those that a recording has,
//! against what the load wrote itself; what `check` says of them; and pools that wait for work, in which there is no holder.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stalltop::interval::lock_holders::is_believed;
use stalltop::kernel::{Root, wake_trace};
use stalltop::sample::Sample;
use stalltop::sample::waits::{LockOwner, OwnerField};

use crate::attempt::compare_until_equal;
use crate::check_result::check_by;
use crate::disk_load::Load;
use crate::harness::program;
use crate::held_truth::{HeldTruth, samples};
use crate::long;
use crate::scenario::Lab;
use crate::traces::{Types, rust_locks, stalltop};

const THREADS: &str = "12";
/// Share of the sightings in which the holder must be the thread that held the mutex.
const MIN_RIGHT: f64 = 0.95;

/// A load in this mode, and what `check` said of it: the believed holders of each sample, and the thread that held the mutex at each
/// time.
struct Seen {
    samples: Vec<Arc<Sample>>,
    held: HeldTruth,
    sentences: Vec<String>,
}

impl Seen {
    fn believed(&self) -> impl Iterator<Item = (&Sample, &LockOwner)> {
        let rows = self.samples.iter().flat_map(|sample| sample.waits.lock_owners.iter().map(move |row| (&**sample, row)));
        rows.filter(|(_, row)| matches!(row.field, OwnerField::Waker(_)) && is_believed(row.field))
    }

    /// Whether four threads on average waited at one futex.
    fn has_queue(&self) -> bool {
        let is_queue = |sample: &Sample| {
            let least = 4 * u32::try_from(sample.waits.sub_samples.len().max(1)).unwrap_or(u32::MAX);
            sample.waits.wait_queues.iter().any(|queue| queue.futex_address.is_some() && queue.seen_count >= least)
        };
        self.samples.iter().any(|sample| is_queue(sample))
    }

    /// Those of the first mutex: for a second one, which is taken under it, at most two threads wait.
    fn of_first_mutex(&self) -> Vec<(&Sample, &LockOwner)> {
        self.believed().filter(|(_, row)| row.waiters > 2 * u32::from(row.owner.seen_count)).collect()
    }
}

/// How long a load is watched, and the time between samples.
#[derive(Clone, Copy)]
struct Run {
    seconds: u32,
    interval: &'static str,
}

const SHORT: Run = Run { seconds: 8, interval: "1s" };

/// With several sightings a second
const LONG: Run = Run { seconds: 17, interval: "200ms" };

fn watch(types: Types, mode: &str, verify: impl FnMut(&Seen) -> Result<(), String>) {
    watch_for(SHORT, types, mode, verify);
}

fn watch_for(run: Run, types: Types, mode: &str, mut verify: impl FnMut(&Seen) -> Result<(), String>) {
    let Some(_lab) = Lab::open(&[]) else { return };
    // rustup installs it for a user.
    if Command::new("rustc").arg("--version").output().is_err() {
        return println!("skipped: rustc is not installed");
    }
    if let Err(why) = wake_trace::try_to_attach(&Root::host(), Path::new(program())) {
        return println!("skipped: {why}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let load = rust_locks();
    compare_until_equal(&format!("holders of {mode}"), || {
        let mut command = Command::new(&load);
        command.args([mode, THREADS, &(run.seconds + 2).to_string()]).arg(folder.path());
        let running = Load::start(command);
        let name = format!("wakers-{mode}");
        let said = check_by(stalltop(types), &name, folder.path(), run.seconds, run.interval);
        running.ended();
        let truth = fs::read_to_string(folder.path().join("truth")).expect("what the load wrote");
        let (samples, held) = (samples(said.recording()), HeldTruth::parse(truth.lines()));
        let seen = Seen { samples, held, sentences: said.sentences() };
        verify(&seen).map_err(|wrong| format!("{mode}: {wrong}"))
    });
}

/// `sightings`: of believed holders, at least.
fn names_the_holders(run: Run, types: Types, mode: &str, sightings: usize, does: &str) {
    watch_for(run, types, mode, |seen| {
        let rows = seen.of_first_mutex();
        let right = rows.iter().filter(|(sample, row)| seen.held.agrees(sample, row)).count();
        println!("{mode}: the holder is right in {right} of {} sightings; {:?}", rows.len(), seen.sentences);
        let is_said = seen.sentences.iter().any(|sentence| sentence.contains(does));
        match rows.len() >= sightings && right as f64 >= rows.len() as f64 * MIN_RIGHT && is_said {
            true => Ok(()),
            false => Err(format!("right in {right} of {} sightings: {:?}", rows.len(), seen.sentences)),
        }
    });
}

fn has_no_holder(mode: &str) {
    watch(Types::Described, mode, |seen| match seen.believed().next() {
        None if !seen.has_queue() => Err("no queue at a futex was seen".to_owned()),
        None => Ok(()),
        Some((_, row)) => Err(format!("{row:?}")),
    });
}

#[test]
fn a_holder_that_sleeps() {
    names_the_holders(LONG, Types::Described, "sleep", 50, "sleeps for a fixed time (clock_nanosleep)");
}

#[test]
fn a_holder_that_sleeps_without_the_types_of_the_kernel() {
    if !crate::long() {
        return;
    }
    names_the_holders(LONG, Types::Hidden, "sleep", 50, "sleeps for a fixed time (clock_nanosleep)");
}

#[test]
fn a_holder_that_waits_for_the_holder_of_a_second_mutex() {
    // A thread may take both again and again, with none of them held for long.
    names_the_holders(SHORT, Types::Described, "nested", 1, "waits for a lock that");
}

#[test]
fn workers_of_a_pool_hold_no_mutex() {
    has_no_holder("pool");
}

/// The value of the futex is that of a contended mutex, and in a timed wait the system call is that of a mutex of glibc.
#[test]
fn workers_that_wait_for_work_with_a_timeout_name_no_holder() {
    watch(Types::Described, "timed-pool", |seen| {
        let named = seen.samples.iter().flat_map(|sample| &sample.waits.lock_owners).next();
        match (seen.has_queue(), named) {
            (true, None) => Ok(()),
            (has_queue, named) => Err(format!("a queue was seen: {has_queue}; {named:?}")),
        }
    });
}

#[test]
fn workers_at_a_futex_that_is_always_contended_hold_no_mutex() {
    if !crate::long() {
        return;
    }
    has_no_holder("constant");
}

#[test]
fn a_dispatcher_that_releases_a_futex_holds_no_mutex() {
    if !crate::long() {
        return;
    }
    has_no_holder("state");
}

#[test]
fn workers_that_wake_the_next_one_hold_no_mutex() {
    if !long() {
        return;
    }
    has_no_holder("chain");
}
