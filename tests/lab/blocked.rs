//! Idle but blocked: 64 threads behind one holder, and 64 idle threads that must not be reported.

use crate::attempt::{Attempt, Window};
use crate::check_result::CheckResult;
use crate::long;
use crate::proc::{FLUSHES_COMPLETED, diskstat, processes, threads};
use crate::scenario::{DISK_TOOLS, Lab, Scenario};
use crate::watch::Place;

pub fn start_convoy(lab: &Lab, flush_us: u32) -> (Scenario, String) {
    let mut scenario = lab.start("15-lock-convoy", 150, &[("FLUSH_US", &flush_us.to_string())]);
    let device = scenario.device();
    let flushes = u64::from(1_000_000 / flush_us).min(100);
    scenario.until("has all its threads and commits", |_| {
        processes("convoy").iter().any(|pid| threads(*pid).len() >= 65) && diskstat(&device, FLUSHES_COMPLETED) >= flushes
    });
    (scenario, device)
}

/// 15: 64 threads on one mutex whose holder is in fsync. 62 to 63 in futex (contended, one address), 1 in D; mpstat: busy
/// 3.5, iowait 47; iostat: 92 flushes/s of 10.3 ms.
pub fn convoy(device: &str, flush_us: u32, window: &mut Window, said: &mut CheckResult) {
    let truth = window.disk(device);
    let service = f64::from(flush_us) / 1e6;
    window.known("flushes/s", truth.flushes, 0.75 / (service + 0.001), 1.0 / service);
    window.known("flush await", truth.flush_await, service * 0.98, service * 1.1 + 0.001);
    let waiting = |place: &Place| place.comm == "worker" && place.state == 'S' && place.channel.starts_with("futex");
    let (waiters, of_readings) = (window.mean(waiting), window.readings(waiting));
    let holders = window.threads("worker", 'D');
    window.known("threads in futex", waiters, 61.0, 63.6);
    window.known("threads in D", holders, 0.6, 1.2);

    let stuck = said.must("idle-but-blocked", "host", "warning");
    said.word(&stuck, "group", "convoy");
    said.word(&stuck, "device", device);
    said.first("idle-but-blocked", "host");
    said.follows(&stuck, "none");
    // A waiter that has its turn is counted from its wake-up on: one or two of 64 may be missing at the edges.
    said.evidence(&stuck, "group_behind_lock_threads", of_readings.least - 3.0, of_readings.most + 0.5);
    // Ten readings in the last second.
    let most = window.readings(|place| place.comm == "worker" && place.state == 'D').most;
    said.evidence(&stuck, "group_on_storage_threads", 0.4, most + 0.3);
    said.says(&stuck, &["convoy", "lock", device]);
    if cfg!(all(feature = "user-stacks", target_arch = "x86_64")) {
        said.word(&stuck, "holder_user_stack", "w → fsync");
    }
    // Threads that have not held the lock yet are read when a sample finds a holder on storage: most sub-samples of the first
    // second may lack them.
    said.figure("blocked_threads", waiters * 0.7, 65.0);
    for kind in ["cpu-throttled", "hung-task", "disk-stalled", "io-throttled"] {
        said.must_not(kind);
    }
}

fn convoy_alone(name: &str, flush_us: u32) {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (_scenario, device) = start_convoy(&lab, flush_us);
    Attempt::new(name, state.path()).check(|window, said| {
        convoy(&device, flush_us, window, said);
        let ticks = window.ticks("cpu");
        let available = ticks.share(ticks.available);
        window.known("available", available, 0.85, 1.0);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        // Ten sub-samples per second gave 93 % of the 96 % that were available.
        said.value(&stuck, window.available_each().least * 0.85, 1.0);
        said.figure_is("iowait_ratio", ticks.share(ticks.iowait), 0.03);
        said.figure("free_ratio", 0.0, 0.15);
        for kind in ["cpu-saturated", "saturated-core", "saturated-thread"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["idle-but-blocked"]);
    });
}

#[test]
fn a_convoy_behind_one_fsync() {
    convoy_alone("15", 10_000);
}

#[test]
fn a_convoy_behind_a_slower_fsync() {
    if long() {
        convoy_alone("15-slow", 45_000);
    }
}

#[test]
fn a_convoy_behind_a_faster_fsync() {
    if long() {
        convoy_alone("15-fast", 4_000);
    }
}

/// 16: the opposite case: 64 threads with nothing to do, 33 of them in the same wait channel as the convoy's. mpstat: 98 %
/// idle, iowait 0.06.
#[test]
fn an_idle_pool_is_idle() {
    let Some(lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("16-idle-pool", 120, &[]);
    scenario.until("has all its threads", |_| processes("idlers").iter().any(|pid| threads(*pid).len() >= 64));
    Attempt::new("16", state.path()).check(|window, said| {
        let ticks = window.ticks("cpu");
        window.known("available", ticks.share(ticks.available), 0.9, 1.0);
        window.known("threads in futex", window.mean(|place| place.channel.starts_with("futex")), 32.0, 34.0);
        said.figure("idle_but_blocked_ratio", 0.0, 0.02);
        said.figure("free_ratio", ticks.share(ticks.available) - 0.05, 1.0);
        said.figure("blocked_threads", 0.0, 0.5);
        for kind in ["idle-but-blocked", "hung-task", "load-not-cpu", "cpu-saturated", "saturated-thread", "saturated-core"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&[]);
    });
}

/// 01: PostgreSQL, 64 clients, each WAL flush takes 40 ms. iostat: 24 flushes/s of 40.3 ms; mpstat: busy 17 %, iowait 53;
/// 60 to 63.6 of 64 backends in futex by samples, each on an address of its own, behind 1 or 2 in fdatasync.
fn database(name: &str, flush_us: u32) {
    let Some(lab) = Lab::open(&[DISK_TOOLS, &["runuser"]].concat()) else { return };
    if !crate::scenario::has_postgres() {
        println!("skipped: PostgreSQL is not installed: the lab's setup.sh does that");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("01-commit-serialised-db", 150, &[("FLUSH_US", &flush_us.to_string())]);
    scenario.until_ready();
    let device = scenario.device();
    let before = diskstat(&device, FLUSHES_COMPLETED);
    scenario.until("commits", |_| diskstat(&device, FLUSHES_COMPLETED) >= before + 30);
    Attempt::new(name, state.path()).check(|window, said| {
        let (truth, ticks) = (window.disk(&device), window.ticks("cpu"));
        let service = f64::from(flush_us) / 1e6;
        let available = ticks.share(ticks.available);
        window.known("flushes/s", truth.flushes, 0.7 / (service + 0.002), 1.0 / service);
        window.known("flush await", truth.flush_await, service * 0.98, service * 1.15);
        window.known("available", available, 0.55, 1.0);
        let backends = |place: &Place| place.comm == "postgres";
        let waits = |place: &Place| backends(place) && place.state == 'S' && place.channel.starts_with("futex");
        let stuck_there = |place: &Place| backends(place) && place.state == 'D';
        let waiters = window.mean(waits);
        window.known("backends in futex", waiters, 45.0, 64.0);
        window.known("backends in D", window.mean(stuck_there), 0.6, 12.0);
        // Where the kernel takes idle pages away (DAMON), backends also wait for reads that queue behind the flushes.
        let reads = window.each(|span| span.disk(&device).reads).most >= 5.0;
        let spare = window.available_each();

        // Half of the host in two of its last three seconds: on a busier machine less of it is idle at all.
        let least = if spare.least >= 0.6 { "critical" } else { "warning" };
        let stuck = said.must("idle-but-blocked", "host", least);
        said.word(&stuck, "group", "postgres");
        said.word(&stuck, "device", &device);
        // The finding's is the mean of its last second: many may be between two commits, or nearly none.
        said.evidence(&stuck, "group_behind_lock_threads", waiters * 0.5, window.readings(waits).most + 1.0);
        said.evidence(&stuck, "group_on_storage_threads", 0.4, window.readings(stuck_there).most + 2.0);
        said.value(&stuck, spare.least * 0.65, 1.0);
        said.says(&stuck, &["postgres", "processes", "lock", &device]);
        said.figure("free_ratio", 0.0, available * 0.25);
        if !reads {
            said.says(&stuck, &["sync"]);
            // One flush at a time takes 40 ms: that is this device, not a queue.
            said.at_most_a_note("disk-latency", &device);
        }
        for kind in [
            "cpu-saturated",
            "cpu-throttled",
            "hung-task",
            "disk-stalled",
            "io-throttled",
            "memory-pressure",
            "nic-saturated",
            "saturated-core",
            "saturated-thread",
        ] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(if reads { &["idle-but-blocked", "disk-latency"] } else { &["idle-but-blocked"] });
    });
}

#[test]
fn a_database_behind_its_log() {
    database("01", 40_000);
}

#[test]
fn a_database_behind_a_faster_log() {
    if long() {
        database("01-fast", 12_000);
    }
}
