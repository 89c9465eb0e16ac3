//! What is learned, what is not, and what survives being kept.

use std::fs;
use std::sync::Arc;

use super::store::Store;
use super::{Baselines, Device, Key, SizeClass};
use crate::interval::Interval;
use crate::interval::disk::Operation;
use crate::sample::disk::{Disk, DiskFacts, OpCounters};
use crate::sample::host::{Host, Privilege};
use crate::sample::{Instant, Sample};
use crate::units::{Counter, Millis};

/// One disk whose counters go on; an interval of a second at a time.
struct Bench {
    baselines: Baselines,
    name: &'static str,
    facts: DiskFacts,
    reads: OpCounters,
    at_s: u64,
}

impl Bench {
    fn of(name: &'static str, facts: DiskFacts) -> Bench {
        Bench { baselines: Baselines::default(), name, facts, reads: OpCounters::default(), at_s: 1000 }
    }

    fn new() -> Bench {
        let serial = Some("S3Z8".into());
        Bench::of("sda", DiskFacts { rotational: Some(true), model: Some("ST4000 ".into()), serial, ..DiskFacts::default() })
    }

    fn sample(&self) -> Arc<Sample> {
        let ns = self.at_s * 1_000_000_000;
        let at = Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: 1_700_000_000_000_000_000 + ns.cast_signed() };
        let disk = Disk {
            id: crate::ids::DiskId { major: 8, minor: 0 },
            name: self.name.into(),
            facts: Arc::new(self.facts.clone()),
            reads: self.reads,
            writes: OpCounters::default(),
            discards: None,
            flushes: None,
            flush_time_ms: None,
            in_flight: 0,
            busy_time_ms: Counter(0),
            queue_time_ms: Counter(0),
        };
        Arc::new(Sample { disks: Ok(vec![disk]), ..Sample::empty(at) })
    }

    /// One second with so many reads of 4 KiB that took so long each.
    fn second(&mut self, completed: u64, await_ms: u64) -> Interval {
        let older = self.sample();
        self.at_s += 1;
        self.reads.completed.0 += completed;
        self.reads.sectors.0 += completed * 8;
        self.reads.time_ms.0 += completed * await_ms;
        let host = Arc::new(Host {
            hostname: "test".into(),
            kernel: "6.18".into(),
            machine: "x86_64".into(),
            boot_id: "boot".into(),
            boot_time_s: None,
            page_size: 4096,
            ticks_per_second: 100,
            topology: Vec::new(),
            privilege: Privilege { effective_uid: 0, sees_other_users: true, delay_accounting: Ok(false), hidepid: false },
        });
        Interval::between(&host, &older, &self.sample()).expect("a second passed")
    }

    fn teach(&mut self, intervals: usize, completed: u64, await_ms: u64) {
        for _ in 0..intervals {
            let interval = self.second(completed, await_ms);
            self.baselines.learn(&interval);
        }
    }

    /// (baseline, provisional) as the next second would be judged by.
    fn standing(&mut self, completed: u64, await_ms: u64) -> (f64, bool) {
        let interval = self.second(completed, await_ms);
        let standings = self.baselines.standings(&interval);
        standings.first().map(|standing| (standing.baseline.0, standing.provisional)).expect("reads completed")
    }
}

fn key(device: &str) -> Key {
    Key { device: Device(device.into()), operation: Operation::Read, size: SizeClass::Small }
}

#[test]
fn ten_intervals_alone_make_a_baseline_and_nine_do_not() {
    let mut bench = Bench::new();
    bench.teach(9, 100, 7);
    assert_eq!(bench.standing(100, 7), (7.0, true), "the lowest await that 5 intervals reached, below the class's 8 ms");
    bench.teach(1, 100, 9);
    assert_eq!(bench.standing(100, 7), (7.0, false), "the median of ten");
}

#[test]
fn a_queue_teaches_nothing() {
    let mut bench = Bench::new();
    bench.teach(20, 600, 109);
    assert_eq!(bench.standing(600, 109), (8.0, true), "66 at once: the class default stands");
}

#[test]
fn four_completions_teach_nothing() {
    let mut bench = Bench::new();
    bench.teach(20, 4, 2);
    assert_eq!(bench.standing(4, 2), (8.0, true));
}

#[test]
fn a_fault_is_not_learned_away() {
    let mut bench = Bench::new();
    bench.teach(12, 100, 8);
    bench.teach(500, 30, 30);
    assert_eq!(bench.standing(30, 30), (8.0, false));
    let interval = bench.second(100, 24);
    let standings = bench.baselines.standings(&interval);
    assert_eq!(standings[0].multiple, Some(3.0));
    assert_eq!(standings[0].intervals, 12);
}

#[test]
fn classes_have_their_defaults() {
    let default = |name, rotational| {
        let mut bench = Bench::of(name, DiskFacts { rotational, ..DiskFacts::default() });
        bench.standing(100, 50).0
    };
    assert_eq!(default("sda", Some(true)), 8.0);
    assert_eq!(default("sda", Some(false)), 0.5);
    assert_eq!(default("nvme0n1", Some(false)), 0.2);
    // virtio says rotational of everything.
    assert_eq!(default("vda", Some(true)), 1.0);
    assert_eq!(default("loop0", Some(true)), 1.0);
}

#[test]
fn a_device_is_known_by_its_serial_else_by_its_file_else_by_its_name() {
    let device = |name, facts: DiskFacts| {
        let bench = Bench::of(name, facts);
        let sample = bench.sample();
        Device::of(&sample.disks.as_ref().expect("a disk")[0]).0
    };
    assert_eq!(device("sda", Bench::new().facts), "ST4000 S3Z8");
    let file = DiskFacts { backing_file: Some("/tmp/x.img".into()), ..DiskFacts::default() };
    assert_eq!(device("loop0", file), "file:/tmp/x.img");
    assert_eq!(device("vda", DiskFacts::default()), "name:vda");
}

#[test]
fn one_set_by_hand_holds_until_it_is_forgotten() {
    let mut bench = Bench::new();
    bench.baselines.set(key("ST4000 S3Z8"), Millis(5.0));
    bench.teach(20, 100, 8);
    assert_eq!(bench.standing(100, 8), (5.0, false));
    assert_eq!(bench.baselines.forget(&Device("ST4000 S3Z8".into())), 1);
    assert_eq!(bench.standing(100, 8), (8.0, true));
}

#[test]
fn bytes_give_back_the_same() {
    let mut bench = Bench::new();
    bench.teach(70, 100, 8);
    bench.baselines.set(key("name:\"odd\" = [x]\n"), Millis(1.5));
    let again = Baselines::from_bytes(&bench.baselines.to_bytes()).expect("its own bytes");
    assert_eq!(again, bench.baselines);
    assert_eq!(Baselines::from_bytes(&Baselines::default().to_bytes()).expect("nothing known"), Baselines::default());
}

#[test]
fn the_store_is_private_replaced_whole_and_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path().join("state/baselines.toml"));
    assert!(store.load().notice.is_none(), "no file is no complaint");
    let mut bench = Bench::new();
    bench.teach(12, 100, 8);
    store.save(&bench.baselines).expect("saved");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(store.path()).expect("the file"));
    assert_eq!(mode & 0o777, 0o600);
    // Another run that knows less of this device and something of another one.
    let mut other = Bench::of("sdb", DiskFacts::default());
    other.teach(11, 100, 3);
    store.save(&other.baselines).expect("saved");
    let loaded = store.load().baselines;
    assert_eq!(loaded.iter().count(), 2);
    assert_eq!(fs::read_dir(folder.path().join("state")).expect("the folder").count(), 1, "nothing is left aside");
}

#[test]
fn a_file_that_is_none_is_kept_aside_with_one_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path().join("baselines.toml"));
    let later = b"stalltop-baselines = 99\n".to_vec();
    for damaged in [b"\xff\xfe\0".to_vec(), b"stalltop-baselines = 1\n[[baseline]]\ndevice = 3".to_vec(), later, Vec::new()] {
        fs::write(store.path(), &damaged).expect("written");
        let loaded = store.load();
        assert_eq!(loaded.baselines, Baselines::default());
        assert!(loaded.notice.is_some_and(|notice| notice.contains(".bad") && !notice.contains('\n')));
        assert_eq!(fs::read(folder.path().join("baselines.toml.bad")).expect("kept aside"), damaged);
        assert!(store.load().notice.is_none(), "told once");
    }
}

#[test]
fn numbers_that_only_a_damaged_file_holds_do_not_get_in() {
    let text = "stalltop-baselines = 1\n[[baseline]]\ndevice = \"d\"\noperation = \"read\"\nsize = \"<=16K\"\nintervals = 12\n\
                by_hand_ms = -3.0\nawaits_ms = [nan, inf, -1.0, 8.0]\nlowest_ms = [nan, 2.0]\n";
    let baselines = Baselines::from_bytes(text.as_bytes()).expect("well formed");
    let (_, learned) = baselines.iter().next().expect("one");
    assert_eq!((learned.baseline(), learned.alone()), (None, Some(Millis(8.0))));
}
