//! Learning of baselines, drift, confidence.

mod edges;
mod requests;
mod store;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::store::BaselineStore;
use super::{
    BaselineKey, Baselines, Confidence, DeviceIdentity, Drift, LatencyWindow, LearnedBaseline, Observation, SizeClass,
};
use crate::interval::Interval;
use crate::interval::disk::Operation;
use crate::sample::Sample;
use crate::sample::disk::{DiskFacts, OpCounters};
use crate::synthetic;
use crate::units::Millis;

/// A disk with cumulative counters, sampled once a second.
struct Bench {
    baselines: Baselines,
    window: LatencyWindow,
    /// All observations
    observations: Vec<Observation>,
    name: &'static str,
    facts: DiskFacts,
    reads: OpCounters,
    at_ms: u64,
}

impl Bench {
    fn with_facts(name: &'static str, facts: DiskFacts) -> Bench {
        Bench {
            baselines: Baselines::default(),
            window: LatencyWindow::default(),
            observations: Vec::new(),
            name,
            facts,
            reads: OpCounters::default(),
            at_ms: 1_000_000,
        }
    }

    fn new() -> Bench {
        let serial = Some("S3Z8".into());
        Bench::with_facts(
            "sda",
            DiskFacts { rotational: Some(true), model: Some("ST4000 ".into()), serial, ..DiskFacts::default() },
        )
    }

    fn sample(&self) -> Arc<Sample> {
        let disk = synthetic::disk(self.name).facts(self.facts.clone()).reads(self.reads);
        synthetic::sample(self.at_ms as f64 / 1000.0).disk(disk).shared()
    }

    /// One second with `completed` reads of 4 KiB that took `await_ms` each.
    fn second(&mut self, completed: u64, await_ms: u64) -> Interval {
        self.interval(1000, completed, await_ms)
    }

    fn interval(&mut self, ms: u64, completed: u64, await_ms: u64) -> Interval {
        let older = self.sample();
        self.at_ms += ms;
        self.reads.completed.0 += completed;
        self.reads.sectors.0 += completed * 8;
        self.reads.time_ms.0 += completed * await_ms;
        let host = Arc::new(synthetic::host());
        let interval = Interval::between(&host, &older, &self.sample()).expect("time passed");
        self.window.push(&interval);
        interval
    }

    fn teach(&mut self, intervals: usize, completed: u64, await_ms: u64) {
        self.teach_every(1000, intervals, completed, await_ms);
    }

    fn teach_every(&mut self, ms: u64, intervals: usize, completed: u64, await_ms: u64) {
        for _ in 0..intervals {
            let interval = self.interval(ms, completed, await_ms);
            let observations = self.baselines.observations(&interval, &self.window);
            self.baselines.learn(&observations);
            self.observations.extend(observations);
        }
    }

    /// The same on `days` consecutive days.
    fn teach_days(&mut self, days: usize, completed: u64, await_ms: u64) {
        for _ in 0..days {
            self.teach(20, completed, await_ms);
            self.at_ms += 86_400_000;
        }
    }

    /// (baseline, provisional) for the next second.
    fn latency_status(&mut self, completed: u64, await_ms: u64) -> (f64, bool) {
        let interval = self.second(completed, await_ms);
        let statuses = self.baselines.latency_statuses(&interval, &self.window);
        statuses.first().map(|status| (status.baseline.0, status.provisional)).expect("reads completed")
    }

    fn learned(&self) -> &LearnedBaseline {
        self.baselines.iter().next().expect("something is known").1
    }

    fn drift(&self) -> Option<Drift> {
        self.learned().drift()
    }
}

fn key(device: &str) -> BaselineKey {
    BaselineKey { device: DeviceIdentity(device.into()), operation: Operation::Read, size: SizeClass::Small }
}

#[test]
fn ten_intervals_alone_make_a_baseline_and_nine_do_not() {
    let mut bench = Bench::new();
    bench.teach(9, 100, 7);
    assert_eq!(bench.latency_status(100, 7), (7.0, true), "the lowest await that 5 intervals reached, below the class's 8 ms");
    bench.teach(1, 100, 9);
    assert_eq!(bench.latency_status(100, 7), (7.0, false), "the median of ten");
}

#[test]
fn intervals_with_a_queue_are_not_learned() {
    let mut bench = Bench::new();
    bench.teach(20, 600, 109);
    assert_eq!(bench.latency_status(600, 109), (8.0, true), "66 at once: the class default stands");
}

#[test]
fn intervals_with_four_completions_are_not_learned() {
    let mut bench = Bench::new();
    bench.teach(20, 4, 2);
    assert_eq!(bench.latency_status(4, 2), (8.0, true));
}

#[test]
fn a_slow_device_does_not_raise_its_own_baseline() {
    let mut bench = Bench::new();
    bench.teach(12, 100, 8);
    bench.teach(500, 30, 30);
    assert_eq!(bench.latency_status(30, 30), (8.0, false));
    let interval = bench.second(100, 24);
    let statuses = bench.baselines.latency_statuses(&interval, &bench.window);
    assert_eq!(statuses[0].multiple, Some(3.0));
    assert_eq!(statuses[0].window_multiple(), Some(3.0));
    assert_eq!(statuses[0].learned_intervals, 12);
}

#[test]
fn classes_have_their_defaults() {
    let default = |name, rotational| {
        let mut bench = Bench::with_facts(name, DiskFacts { rotational, ..DiskFacts::default() });
        bench.latency_status(100, 50).0
    };
    assert_eq!(default("sda", Some(true)), 8.0);
    assert_eq!(default("sda", Some(false)), 0.5);
    assert_eq!(default("nvme0n1", Some(false)), 0.2);
    // virtio reports every disk as rotational.
    assert_eq!(default("vda", Some(true)), 1.0);
    assert_eq!(default("loop0", Some(true)), 1.0);
}

#[test]
fn a_device_is_identified_by_serial_then_file_then_hardware_path_then_name() {
    let device = |name, facts: DiskFacts| {
        let bench = Bench::with_facts(name, facts);
        let sample = bench.sample();
        DeviceIdentity::from_disk(&sample.disks.as_ref().expect("a disk")[0]).0
    };
    assert_eq!(&*device("sda", Bench::new().facts), "ST4000 S3Z8");
    // A loop device is its file, whatever its name; a file of another size is another one.
    let file =
        |size: u64| DiskFacts { backing_file: Some("/tmp/x.img".into()), size_bytes: Some(size << 20), ..DiskFacts::default() };
    assert_eq!(&*device("loop0", file(64)), "file:/tmp/x.img 64M");
    assert_eq!(device("loop0", file(64)), device("loop7", file(64)));
    assert_ne!(device("loop0", file(64)), device("loop0", file(65)));
    let plugged =
        DiskFacts { sysfs_path: Some("pci0000:00/virtio1".into()), model: Some("QEMU".into()), ..DiskFacts::default() };
    assert_eq!(&*device("vda", plugged), "path:pci0000:00/virtio1 QEMU");
    assert_eq!(&*device("vda", DiskFacts::default()), "name:vda");
    // Serial numbers that all devices of a kind have.
    for serial in ["", "0", "000000000000", "--"] {
        let facts = DiskFacts { serial: Some(serial.into()), ..DiskFacts::default() };
        assert_eq!(&*device("sda", facts), "name:sda", "{serial}");
    }
}

#[test]
fn short_intervals_are_combined_to_one_second() {
    let mut bench = Bench::new();
    // 30 reads per second, ten times a second: never five in one.
    bench.teach_every(100, 99, 3, 7);
    assert_eq!(bench.learned().intervals, 9, "a second teaches once, however it was cut");
    bench.teach_every(100, 11, 3, 7);
    let interval = bench.interval(100, 3, 7);
    let status = bench.baselines.latency_statuses(&interval, &bench.window)[0];
    assert_eq!((status.baseline.0, status.provisional), (7.0, false));
    let load = status.window_load.expect("six in two intervals");
    assert_eq!(load.completed(Operation::Read), 6);
    assert!((load.rate(Operation::Read) - 30.0).abs() < 1e-9);
    assert_eq!(status.window_multiple(), Some(1.0));
    // Four per second are too few, at any interval.
    let mut bench = Bench::new();
    bench.teach_every(250, 80, 1, 7);
    assert_eq!(bench.baselines.iter().count(), 0);
    let interval = bench.interval(250, 1, 7);
    assert!(bench.baselines.latency_statuses(&interval, &bench.window)[0].window_load.is_none());
}

#[test]
fn a_slow_second_is_evaluated_as_one_at_ten_samples_a_second() {
    let mut bench = Bench::new();
    bench.teach_every(100, 110, 3, 7);
    // One at a time, and each takes ten times as long: one completes in every second interval or so.
    for _ in 0..12 {
        bench.interval(100, 1, 70);
    }
    let interval = bench.interval(100, 0, 0);
    let status = bench.baselines.latency_statuses(&interval, &bench.window)[0];
    assert_eq!(status.multiple, None, "nothing completed in this one");
    assert_eq!(status.window_multiple(), Some(10.0));
}

#[test]
fn the_highest_load_at_normal_latency_is_kept() {
    let mut bench = Bench::new();
    bench.teach(12, 100, 8);
    // Four at once, near its baseline, three times; then a flood.
    bench.teach(3, 290, 14);
    bench.teach(9, 600, 110);
    let usual = bench.learned().baseline_load().expect("it was seen");
    assert!((usual.rate - 290.0).abs() < 0.5 && (usual.outstanding - 4.06).abs() < 0.01, "{usual:?}");
}

#[test]
fn a_slow_change_of_the_baseline_is_a_drift() {
    let mut bench = Bench::new();
    bench.teach_days(6, 100, 5);
    assert_eq!(bench.drift(), None);
    // The latency rises slowly, never above twice the baseline: it is learned, and reported as a drift.
    for await_ms in [6, 7, 8, 9, 10, 11, 12] {
        bench.teach_days(5, 70, await_ms);
    }
    let baseline = bench.learned().latency().expect("learned").0;
    assert!(baseline > 9.0, "the baseline has followed: {baseline}");
    let drift = bench.drift().expect("reported");
    assert_eq!((drift.reference.0, drift.current.0), (5.0, 12.0));
    assert!((35..45).contains(&drift.days), "{drift:?}");
}

#[test]
fn another_storage_class_is_a_drift_even_if_it_is_never_learned() {
    let mut bench = Bench::new();
    bench.teach_days(14, 100, 5);
    bench.teach_days(2, 70, 12);
    assert_eq!(bench.drift(), None, "two days are not enough");
    bench.teach_days(1, 70, 12);
    assert_eq!(bench.learned().latency().map(|ms| ms.0), Some(5.0), "above twice: not learned");
    assert_eq!(bench.drift().map(|drift| (drift.reference.0, drift.current.0)), Some((5.0, 12.0)));
    bench.teach_days(90, 70, 12);
    assert_eq!(bench.learned().latency().map(|ms| ms.0), Some(5.0), "however long it lasts");
    assert_eq!(bench.drift().map(|drift| (drift.reference.0, drift.current.0)), Some((5.0, 12.0)));
    assert!(bench.baselines.to_bytes().len() < 2000, "and it stays small");
}

#[test]
fn one_slow_hour_or_day_is_no_drift() {
    let mut bench = Bench::new();
    bench.teach_days(20, 100, 5);
    bench.teach(30, 70, 12);
    bench.teach_days(1, 70, 12);
    bench.teach_days(3, 100, 5);
    assert_eq!(bench.drift(), None);
    assert_eq!(bench.learned().latency().map(|ms| ms.0), Some(5.0));
    // Nor is a baseline set by the user.
    bench.teach_days(12, 70, 12);
    assert!(bench.drift().is_some());
    let key = bench.baselines.iter().next().expect("known").0.clone();
    bench.baselines.set(key, Millis(5.0));
    assert_eq!(bench.drift(), None);
}

#[test]
fn confidence_grows_with_days_and_ends_with_months() {
    let mut bench = Bench::new();
    let now = |bench: &Bench| 1_700_000_000 + i64::try_from(bench.at_ms / 1000).expect("a time");
    bench.teach(9, 100, 8);
    assert_eq!(bench.learned().confidence(now(&bench)), Confidence::Provisional);
    bench.teach(1, 100, 8);
    assert_eq!(bench.learned().confidence(now(&bench)), Confidence::Fair);
    bench.at_ms += 86_400_000;
    bench.teach(10, 100, 8);
    assert_eq!(bench.learned().confidence(now(&bench)), Confidence::Good);
    assert_eq!(bench.learned().confidence(now(&bench) + 91 * 86_400), Confidence::Stale);
}

#[test]
fn a_baseline_set_by_the_user_is_kept_until_it_is_forgotten() {
    let mut bench = Bench::new();
    bench.baselines.set(key("ST4000 S3Z8"), Millis(5.0));
    bench.teach(20, 100, 8);
    assert_eq!(bench.latency_status(100, 8), (5.0, false));
    assert_eq!(bench.baselines.forget(&DeviceIdentity("ST4000 S3Z8".into())), 1);
    assert_eq!(bench.latency_status(100, 8), (8.0, true));
}

#[test]
fn an_encoded_store_decodes_to_the_same_store() {
    let mut bench = Bench::new();
    bench.teach(70, 100, 8);
    bench.baselines.set(key("name:\"odd\" = [x]\n"), Millis(1.5));
    let again = Baselines::from_bytes(&bench.baselines.to_bytes()).expect("its own bytes");
    assert_eq!(again, bench.baselines);
    assert_eq!(Baselines::from_bytes(&Baselines::default().to_bytes()).expect("nothing known"), Baselines::default());
}

/// What was computed beside the values is what a file of them gives.
#[test]
fn a_baseline_is_the_same_after_each_observation_as_one_that_was_read_from_a_file() {
    let mut bench = Bench::new();
    for (day, await_ms) in [4, 5, 9, 4, 20, 6, 30, 30, 30, 30, 30].into_iter().enumerate() {
        for second in 0..150 {
            bench.teach(1, 100, await_ms + second % 3);
            assert_eq!(Baselines::from_bytes(&bench.baselines.to_bytes()).unwrap(), bench.baselines, "day {day}, {second} s");
        }
        bench.at_ms += 86_400_000;
    }
    assert!(bench.learned().latency().is_some());
}
