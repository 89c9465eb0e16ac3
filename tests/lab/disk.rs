//! Disks: saturated, and busy without being saturated.

use std::path::Path;

use serde_json::Value;

use crate::attempt::{Attempt, AttemptResult, Window, repeat};
use crate::check_result::CheckResult;
use crate::long;
use crate::proc::{IN_FLIGHT, READS_COMPLETED, diskstat};
use crate::scenario::{DISK_TOOLS, Lab, Scenario};

/// What stalltop and this test read of a device is some milliseconds apart: 4 per cent beside the least and the most of any
/// second.
const STEADY: f64 = 0.04;

/// Await and queue of a finding about a device, against those of the window's seconds.
fn is_as_measured(said: &mut CheckResult, finding: &Value, window: &Window, device: &str) {
    said.evidence_in(finding, "await_seconds", window.each(|span| span.disk(device).read_await).within(STEADY));
    said.evidence_in(finding, "queue", window.each(|span| span.disk(device).queue).within(STEADY));
}

/// 03: 32 threads in synchronous reads on a disk with 8 slots of 20 ms. fio: clat 79.8 ms; iostat: r_await 79.96,
/// aqu-sz 32.0; mpstat: busy 1.7 %; all 32 in D.
pub fn thirty_two_readers(device: &str, window: &mut Window, said: &mut CheckResult) {
    let truth = window.disk(device);
    window.known("reads/s", truth.reads, 380.0, 410.0);
    window.known("await", truth.read_await, 0.077, 0.083);
    // fio's own main thread sleeps; it and the readers have one name.
    let stuck_threads = window.threads("fio", 'D');
    window.known("readers in D", stuck_threads, 31.0, 32.0);

    let stuck = said.must("idle-but-blocked", "host", "warning");
    said.word(&stuck, "group", "fio");
    said.word(&stuck, "device", device);
    let of_readings = window.readings(|place| place.comm == "fio" && place.state == 'D');
    // Reads end in bursts of eight each 20 ms: all readings of a second, 100 ms apart, may be at the same phase.
    said.evidence(&stuck, "group_on_storage_threads", of_readings.least.min(31.0) - 2.0, 32.5);
    said.says(&stuck, &["fio", "in pread64", device]);
    said.figure("blocked_threads", stuck_threads - 1.5, 33.0);
    // Nothing is learned about this disk yet: against the class default it can be no more than a warning.
    let slow = said.must("disk-latency", device, "warning");
    is_as_measured(said, &slow, window, device);
    said.first("idle-but-blocked", "host");
    said.follows(&stuck, "none");
    said.follows(&slow, "idle-but-blocked");
    for kind in ["cpu-saturated", "cpu-throttled", "hung-task", "disk-stalled", "disk-busy-not-saturated", "io-throttled"] {
        said.must_not(kind);
    }
}

pub fn start_readers(lab: &Lab) -> (Scenario, String) {
    let mut scenario = lab.start("03-fio-sync32", 150, &[]);
    let device = scenario.device();
    scenario.until("has 32 reads outstanding", |_| diskstat(&device, IN_FLIGHT) >= 31);
    (scenario, device)
}

#[test]
fn synchronous_readers_behind_a_saturated_disk() {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (_scenario, device) = start_readers(&lab);
    Attempt::new("03", state.path()).check(|window, said| {
        thirty_two_readers(&device, window, said);
        let available = window.ticks("cpu");
        let available = available.share(available.available);
        window.known("available", available, 0.93, 1.0);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        // More threads are blocked than there are CPUs at all times: all available CPU time is blocked.
        said.value(&stuck, window.available_each().least - 0.08, 1.0);
        said.figure("free_ratio", 0.0, 0.08);
        for kind in ["saturated-core", "saturated-thread"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["idle-but-blocked", "disk-latency"]);
    });
}

/// Parallel requests of the simulated disk of 09, and the service time of each.
const SLOTS: f64 = 16.0;
const SERVICE: f64 = 0.005;

/// 09: a disk that serves 16 at once in 5 ms; asynchronous depth 1, 4, 64, busy 97 to 100 % in each. iostat: r_await 5.24,
/// 5.14, 19.9 ms; aqu-sz 0.97, 3.97, 62.9. `depths` begins with 1: the baseline that is learned there applies to the others.
fn depths(name: &str, depths: &[u32]) {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let list: Vec<String> = depths.iter().map(u32::to_string).collect();
    repeat(name, || {
        let state = tempfile::tempdir().expect("a folder");
        // The scenario runs each for a third of the time at most.
        let mut scenario = lab.start("09-util100-not-saturated", 66, &[("DEPTHS", &list.join(" "))]);
        let device = scenario.device();
        let measure = |&depth: &u32| {
            let result = phase(&mut scenario, &device, state.path(), name, depth);
            // The next one begins now. The scenario may have ended.
            let _ = std::fs::write(scenario.folder().join(format!("seen{depth}")), "");
            result
        };
        depths.iter().map(measure).collect()
    });
}

fn phase(scenario: &mut Scenario, device: &str, state: &Path, name: &str, depth: u32) -> AttemptResult {
    let before = diskstat(device, READS_COMPLETED);
    scenario.until("reads at that depth", |scenario| {
        scenario.note("depth") == Some(depth.to_string())
            && diskstat(device, IN_FLIGHT) >= u64::from(depth)
            && diskstat(device, READS_COMPLETED) > before
    });
    // A baseline needs ten seconds.
    let seconds = if depth == 1 { 13 } else { 6 };
    Attempt { seconds, ..Attempt::new(&format!("{name}-depth{depth}"), state) }.once(|window, said| {
        let truth = window.disk(device);
        let depth = f64::from(depth);
        let alone = SERVICE * 1.05;
        let expected = (depth / SLOTS).max(1.0) * SERVICE;
        window.known("await", truth.read_await, expected * 0.96, expected * 1.1 + 0.0002);
        window.known("queue", truth.queue, depth * 0.93, depth * 1.02);
        window.known("busy", truth.busy, 0.95, 1.02);
        let multiple = truth.read_await / alone;
        if multiple < 1.8 {
            let busy = said.must("disk-busy-not-saturated", device, "note");
            is_as_measured(said, &busy, window, device);
            said.must_not("disk-latency");
        } else if multiple >= 3.3 {
            let slow = said.must("disk-latency", device, "warning");
            is_as_measured(said, &slow, window, device);
            said.value_in(&slow, window.each(|span| span.disk(device).read_await / alone).within(0.1));
            said.must_not("disk-busy-not-saturated");
        }
        for kind in ["disk-stalled", "hung-task", "io-throttled", "cpu-saturated"] {
            said.must_not(kind);
        }
        if multiple < 1.8 {
            // One thread, bound by a device that answers at its baseline.
            said.nothing_wrong_but(&[]);
        } else {
            said.nothing_wrong_but(&["disk-latency", "idle-but-blocked"]);
        }
    })
}

#[test]
fn a_busy_disk_is_saturated_only_when_it_is_slow() {
    depths("09", &[1, 64]);
}

/// Half full; as full as it serves at once; six times that.
#[test]
fn a_busy_disk_at_other_depths() {
    if long() {
        depths("09-few", &[1, 4]);
        depths("09-other", &[1, 8, 96]);
        depths("09-full", &[1, 16, 56]);
    }
}
