//! A directory of recordings of several boots of a machine, or of a machine whose clock was set: the boots are
//! kept apart.

use std::path::Path;
use std::sync::Arc;

use stalltop::recording::{Copier, Recorder, RecordingError, Replayer};
use stalltop::sample::{Instant, Name, Sample};

use crate::generator;
use crate::support::{PATIENCE, options};

/// Ten samples, one per second, of that boot, from so many seconds after the boot on, at that time of day.
fn record(folder: &Path, name: &str, boot_id: &str, boot_s: u64, day_s: i64) {
    let mut meta = generator::meta();
    meta.host.boot_id = Name::from(boot_id);
    let mut recorder = Recorder::create(&folder.join(name), &meta, options(10)).unwrap();
    for second in 0..10 {
        let boottime_ns = (boot_s + second) * 1_000_000_000;
        let realtime_ns = 1_800_000_000_000_000_000 + (day_s + i64::try_from(second).unwrap()) * 1_000_000_000;
        recorder.offer(Arc::new(Sample::empty(Instant { boottime_ns, monotonic_ns: boottime_ns, realtime_ns })));
    }
    recorder.finish(PATIENCE);
}

fn runs(replayer: &Replayer) -> Vec<String> {
    (0..replayer.len()).map(|index| String::from_utf8_lossy(replayer.host(index).boot_id.as_bytes()).into_owned()).collect()
}

#[test]
fn a_sample_belongs_to_its_boot() {
    let folder = tempfile::tempdir().unwrap();
    // The first boot was short: BOOTTIME is higher in the second one and lower in the third.
    record(folder.path(), "a.stalltop", "first", 100, 0);
    record(folder.path(), "b.stalltop", "second", 500, 60);
    record(folder.path(), "c.stalltop", "third", 20, 100);
    let mut replayer = Replayer::open(folder.path()).unwrap();
    assert_eq!(replayer.boot_count(), 3);
    assert_eq!(runs(&replayer), [vec!["first"; 10], vec!["second"; 10], vec!["third"; 10]].concat());
    let gaps: Vec<_> = replayer.gaps().iter().map(|gap| (gap.samples_before, gap.lost_samples)).collect();
    assert_eq!(gaps, [(10, 50), (20, 30)], "by the clock on the wall");
    // The counters of two boots cannot be in one recording.
    let out = folder.path().join("out");
    assert!(matches!(Copier::repair(&mut replayer, &out), Err(RecordingError::MultipleBoots { .. })));
    assert!(matches!(Copier::copy_range(&mut replayer, 5..12, &out), Err(RecordingError::MultipleBoots { .. })));
    assert!(!out.exists());
    assert_eq!(Copier::copy_range(&mut replayer, 12..20, &out).unwrap().samples, 8);
}

#[test]
fn a_clock_that_is_set_changes_neither_the_order_nor_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    // Set back by two hours between the segments, and forward in the next boot.
    record(folder.path(), "a.stalltop", "one", 100, 7200);
    record(folder.path(), "b.stalltop", "one", 110, 10);
    record(folder.path(), "c.stalltop", "one", 140, 9000);
    let replayer = Replayer::open(folder.path()).unwrap();
    let seconds: Vec<u64> = (0..30).map(|index| replayer.timestamp(index).unwrap().boottime_ns / 1_000_000_000).collect();
    assert_eq!(seconds, (100..120).chain(140..150).collect::<Vec<_>>());
    let gaps: Vec<_> = replayer.gaps().iter().map(|gap| (gap.samples_before, gap.lost_samples)).collect();
    assert_eq!(gaps, [(20, 20)]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "a.stalltop", "one", 100, 0);
    std::fs::write(folder.path().join("b.stalltop"), "text").unwrap();
    let replayer = Replayer::open(folder.path()).unwrap();
    let unreadable: Vec<&str> = replayer.unreadable().iter().map(|file| file.reason.as_str()).collect();
    assert!(unreadable.len() == 1 && unreadable[0].contains("b.stalltop' is not a stalltop recording"), "{unreadable:?}");
    assert_eq!(replayer.damage().len(), 1);
}

/// A segment that is still empty when the directory is read is found by the next refresh.
#[test]
fn a_segment_that_has_just_been_made_is_followed_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Recorder::create(&folder.path().join("a.stalltop"), &generator::meta(), options(10)).unwrap();
    let at = |second: u64| Instant { boottime_ns: second * 1_000_000_000, monotonic_ns: 0, realtime_ns: 0 };
    first.offer(Arc::new(Sample::empty(at(1))));
    std::fs::write(folder.path().join("b.stalltop"), "").unwrap();
    let mut replayer = Replayer::open(folder.path()).unwrap();
    assert!(replayer.is_growing());
    first.finish(PATIENCE);
    replayer.refresh().unwrap();
    std::fs::remove_file(folder.path().join("b.stalltop")).unwrap();
    let mut second = Recorder::create(&folder.path().join("b.stalltop"), &generator::meta(), options(10)).unwrap();
    second.offer(Arc::new(Sample::empty(at(2))));
    second.finish(PATIENCE);
    replayer.refresh().unwrap();
    assert_eq!((replayer.file_count(), replayer.len()), (2, 2));
}
