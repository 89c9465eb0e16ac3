//! Disks that fail at the n-th operation, fill up, or have a limit: what was written stays intact, and what is missing is reported.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stalltop::recording::{
    Copier, DiskSpace, GapReason, Location, Recorder, RecorderOptions, RecorderStatus, RecordingError, Replayer, Storage, Tail,
};
use stalltop::sample::Sample;

use crate::generator::{self, Machine};
use crate::measure::{MIB, Trials, full};
use crate::program_under_test::program;
use crate::support::{PATIENCE, few_samples, options, record, until};

/// Fails the n-th operation (all from then on, when `forever`), or takes only a part of each write.
#[derive(Clone)]
struct BadDisk {
    kept: Arc<Mutex<Vec<u8>>>,
    operations: Arc<Mutex<usize>>,
    bad: usize,
    forever: bool,
    errno: i32,
    at_most: usize,
    /// Whether a sync was among those that failed
    sync_failed: Arc<AtomicBool>,
}

impl BadDisk {
    fn fails(&self) -> io::Result<()> {
        let mut operations = self.operations.lock().unwrap();
        *operations += 1;
        let bad = *operations == self.bad || self.forever && *operations > self.bad;
        if bad { Err(io::Error::from_raw_os_error(self.errno)) } else { Ok(()) }
    }
}

impl Default for BadDisk {
    /// A disk that never fails.
    fn default() -> BadDisk {
        let (kept, operations, sync_failed) = Default::default();
        BadDisk { kept, operations, bad: 0, forever: false, errno: nix::libc::EIO, at_most: usize::MAX, sync_failed }
    }
}

impl Storage for BadDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A failing write may have written a part.
        self.fails().inspect_err(|_| {
            if self.errno == nix::libc::ENOSPC {
                self.kept.lock().unwrap().extend_from_slice(&bytes[..bytes.len() / 3]);
            }
        })?;
        let count = bytes.len().min(self.at_most);
        self.kept.lock().unwrap().extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.fails().inspect_err(|_| self.sync_failed.store(true, Ordering::Relaxed))
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.kept.lock().unwrap().truncate(length as usize);
        Ok(())
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }
}

/// Each operation fails: nothing written before is lost, and no sample is wrong. The cases wait for retries: all at once.
#[test]
fn whichever_operation_fails_what_was_written_stays_intact() {
    let errors = [nix::libc::ENOSPC, nix::libc::EDQUOT, nix::libc::EIO, nix::libc::EFBIG];
    let cases = errors.into_iter().flat_map(|errno| [(errno, usize::MAX, false), (errno, usize::MAX, true)]);
    let repeated = [(nix::libc::EINTR, usize::MAX, false), (nix::libc::EINTR, 7, false), (nix::libc::EAGAIN, 100, false)];
    let samples = few_samples(64);
    let new_trials = || Trials::new("the n-th write or sync fails, once or for good", samples.len());
    let mut trials = new_trials();
    std::thread::scope(|scope| {
        let start = |(errno, at_most, forever)| {
            let (samples, mut own) = (&samples, new_trials());
            scope.spawn(move || {
                each_operation_fails(samples, errno, at_most, forever, &mut own);
                own
            })
        };
        let threads: Vec<_> = cases.chain(repeated).map(start).collect();
        threads.into_iter().for_each(|thread| trials.add(thread.join().unwrap()));
    });
}

fn each_operation_fails(samples: &[Arc<Sample>], errno: i32, at_most: usize, forever: bool, trials: &mut Trials) {
    // There are very many short writes.
    let step = match (full(), at_most < 100) {
        (false, true) => 101,
        (false, false) => 31,
        (true, true) => 29,
        (true, false) => 1,
    };
    for bad in (1..=8).chain((9..).filter(|bad| bad % step == 0)) {
        let disk = BadDisk { bad, forever, errno, at_most, ..BadDisk::default() };
        let what = format!("operation {bad} fails with {errno}, forever: {forever}");
        let mut goes_on = true;
        trials.run(64 * MIB, || {
            goes_on = survives(&disk, samples, &what);
            0
        });
        if !goes_on {
            break;
        }
    }
}

/// `false` if the recording ended before the failing operation.
fn survives(disk: &BadDisk, samples: &[Arc<Sample>], what: &str) -> bool {
    let options = RecorderOptions { retry_interval: Duration::from_secs(3), ..options(samples.len()) };
    let recorder = Recorder::from_storage(Box::new(disk.clone()), &generator::meta(), options);
    let Ok(mut recorder) = recorder else { return true };
    samples.iter().for_each(|sample| recorder.offer(sample.clone()));
    let status = recorder.finish(PATIENCE);
    let kept = disk.kept.lock().unwrap().clone();
    let mut replayer = Replayer::from_bytes(kept).unwrap_or_else(|error| panic!("{what}: {error}"));
    let sound = replayer.verify().unwrap();
    assert_eq!(replayer.damage().first(), None, "{what}");
    let torn = matches!(replayer.tail(), Tail::Torn { .. });
    assert!(!torn, "{what}: {:?}", replayer.tail());
    assert_eq!(status.progress().samples, sound as u64, "{what}: {status:?}");
    let in_gaps: u64 = replayer.gaps().iter().map(|gap| gap.lost_samples).sum();
    // A write that was interrupted or would block is tried again.
    if matches!(disk.errno, nix::libc::EINTR | nix::libc::EAGAIN) && !disk.sync_failed.load(Ordering::Relaxed) {
        assert!(matches!(status, RecorderStatus::Finished(kept) if kept.lost_samples == 0), "{what}: {status:?}");
    }
    match &status {
        RecorderStatus::Finished(kept) => {
            assert_eq!(sound as u64 + in_gaps, samples.len() as u64, "{what}");
            assert_eq!(kept.lost_samples, in_gaps, "{what}");
        }
        RecorderStatus::Failed { reason: why, progress: kept } | RecorderStatus::Paused { reason: why, progress: kept } => {
            assert!(!why.is_empty());
            assert_eq!(kept.samples + kept.lost_samples, samples.len() as u64, "{what}: {status:?}");
        }
        RecorderStatus::Recording(_) | RecorderStatus::LimitReached(_) => panic!("{what}: {status:?}"),
    }
    for index in 0..replayer.len() {
        let sample = replayer.sample(index).unwrap();
        assert!(samples.contains(&sample), "{what}: a sample that was never recorded");
    }
    *disk.operations.lock().unwrap() >= disk.bad
}

/// A disk with successors to continue on when it fails.
#[derive(Clone)]
struct DiskSet {
    disk: BadDisk,
    /// The successors, and how many are in use.
    next: Arc<Mutex<Vec<BadDisk>>>,
    used: Arc<Mutex<Vec<BadDisk>>>,
    /// What is synced.
    synced: Arc<Mutex<usize>>,
    /// Whether what was not synced is lost.
    forgets: bool,
    /// The operations of the first disk that were syncs.
    syncs: Arc<Mutex<Vec<usize>>>,
}

impl DiskSet {
    fn new(mut disks: Vec<BadDisk>) -> DiskSet {
        let disk = disks.remove(0);
        DiskSet {
            used: Arc::new(Mutex::new(vec![disk.clone()])),
            disk,
            next: Arc::new(Mutex::new(disks)),
            synced: Arc::default(),
            forgets: true,
            syncs: Arc::default(),
        }
    }
}

impl Storage for DiskSet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let result = self.disk.sync();
        self.syncs.lock().unwrap().push(*self.disk.operations.lock().unwrap());
        match result {
            Ok(()) => {
                *self.synced.lock().unwrap() = self.disk.kept.lock().unwrap().len();
                Ok(())
            }
            // What was not synced may be lost.
            Err(error) => {
                if self.forgets {
                    self.disk.kept.lock().unwrap().truncate(*self.synced.lock().unwrap());
                }
                Err(error)
            }
        }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.disk.truncate(length)
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }

    fn location(&self) -> Location {
        Location::File(format!("{}", self.used.lock().unwrap().len()).into())
    }

    fn create_successor(&self) -> Option<Result<Box<dyn Storage>, RecordingError>> {
        let mut next = self.next.lock().unwrap();
        if next.is_empty() {
            return Some(Err(RecordingError::AlreadyExists { path: self.location() }));
        }
        let disk = next.remove(0);
        self.used.lock().unwrap().push(disk.clone());
        Some(Ok(Box::new(DiskSet { disk, synced: Arc::default(), syncs: Arc::default(), ..self.clone() })))
    }

    fn discard(&self) {
        self.used.lock().unwrap().pop();
    }
}

fn disk(bad: usize, forever: bool) -> BadDisk {
    BadDisk { bad, forever, ..BadDisk::default() }
}

/// Records 200 samples and two marks; returns the status, the number of files and all of them as one recording.
fn record_on(disks: &DiskSet) -> (RecorderStatus, usize, Replayer, tempfile::TempDir) {
    let samples = few_samples(200);
    let options = RecorderOptions { retry_interval: Duration::from_secs(3), ..options(samples.len()) };
    let mut recorder = Recorder::from_storage(Box::new(disks.clone()), &generator::meta(), options).unwrap();
    for (index, sample) in samples.iter().enumerate() {
        if index == 50 || index == 130 {
            assert!(recorder.add_mark(sample.at.into(), "word"));
        }
        recorder.offer(sample.clone());
    }
    let status = recorder.close(PATIENCE);
    let used = disks.used.lock().unwrap().clone();
    assert_eq!(recorder.locations().len(), used.len());
    let folder = tempfile::tempdir().unwrap();
    for (index, disk) in used.iter().enumerate() {
        fs::write(folder.path().join(format!("{index}.stalltop")), &*disk.kept.lock().unwrap()).unwrap();
    }
    let mut replayer = Replayer::open(folder.path()).unwrap();
    assert_eq!(replayer.verify().unwrap(), replayer.len());
    assert_eq!(replayer.damage().first(), None);
    let held: Vec<_> = (0..replayer.len()).map(|index| replayer.sample(index).unwrap()).collect();
    assert!(held.is_sorted_by(|a, b| a.at < b.at) && held.iter().all(|sample| samples.contains(sample)));
    assert_eq!(replayer.len() as u64, status.progress().samples, "{status:?}");
    (status, used.len(), replayer, folder)
}

/// Whichever write or sync of the first disk fails, and although all is lost that was not synced: no sample is lost.
#[test]
fn a_disk_that_fails_is_left_for_another_file_and_nothing_is_lost() {
    let mut failed = 0;
    // The first two operations begin the recording.
    for bad in (3..).step_by(if full() { 1 } else { 17 }) {
        let disks = DiskSet::new(vec![disk(bad, true), disk(0, false)]);
        let (status, files, replayer, _folder) = record_on(&disks);
        let RecorderStatus::Finished(kept) = status else { panic!("operation {bad}: {status:?}") };
        assert_eq!((kept.samples, kept.lost_samples, replayer.gaps().len()), (200, 0, 0), "operation {bad}");
        let marks: Vec<u64> = replayer.marks().iter().map(|mark| mark.samples_before).collect();
        assert_eq!(marks, [50, 130], "operation {bad}");
        if files == 1 {
            break;
        }
        failed += 1;
    }
    assert!(failed >= 10, "{failed} operations failed");
}

/// Whichever sync fails, and although the disk works again at once: what was not synced may be lost, so that nothing more
/// is written to that file, and no sample is lost.
#[test]
fn after_a_failed_sync_a_file_is_not_written_again() {
    let sound = DiskSet::new(vec![disk(0, false)]);
    record_on(&sound);
    let syncs = sound.syncs.lock().unwrap().clone();
    // Syncs at the start, at the end, at key frames and after 60 samples.
    assert!(syncs.len() >= 6, "{syncs:?}");
    for &bad in &syncs[1..] {
        let disks = DiskSet::new(vec![disk(bad, false), disk(0, false)]);
        let (status, files, replayer, _folder) = record_on(&disks);
        let RecorderStatus::Finished(kept) = status else { panic!("operation {bad}: {status:?}") };
        assert_eq!((files, kept.samples, kept.lost_samples, replayer.gaps().len()), (2, 200, 0, 0), "operation {bad}");
        assert_eq!(*disks.disk.operations.lock().unwrap(), bad, "it was the last one on that disk");
    }
}

/// If the next file fails too, it is tried again later, and the samples until then become a gap.
#[test]
fn a_disk_that_fails_for_a_while_causes_a_gap() {
    let disks = DiskSet::new(vec![disk(80, true), disk(1, true), disk(1, true), disk(0, false)]);
    let (status, files, replayer, _folder) = record_on(&disks);
    let RecorderStatus::Finished(kept) = status else { panic!("{status:?}") };
    assert_eq!((files, kept.samples + kept.lost_samples), (2, 200));
    let [gap] = replayer.gaps() else { panic!("{:?}", replayer.gaps()) };
    assert_eq!((gap.lost_samples, gap.reason), (kept.lost_samples, GapReason::DiskFailed));
    assert!((1..10).contains(&gap.lost_samples), "{gap:?}");
    // Without a successor the recorder fails and reports what was written.
    let (status, files, ..) = record_on(&DiskSet::new(vec![disk(80, true)]));
    let RecorderStatus::Paused { reason: why, progress: kept } = status else { panic!("{status:?}") };
    assert!(
        files == 1 && why.contains("os error 5") && kept.samples > 60 && kept.samples + kept.lost_samples == 200,
        "{why} {kept:?}"
    );
}

/// A gap that was not synced is repeated in the next file.
#[test]
fn a_gap_is_not_lost_with_the_disk_that_it_was_written_to() {
    // The third operation writes the gap with the sample after it, the fourth is the sync that fails.
    for (bad, repeats) in [(3, true), (4, true), (5, false), (40, false), (80, false)] {
        let disks = DiskSet::new(vec![disk(80, true), disk(1, true), disk(1, true), disk(bad, true), disk(0, false)]);
        let (status, files, replayer, folder) = record_on(&disks);
        let RecorderStatus::Finished(kept) = status else { panic!("operation {bad}: {status:?}") };
        let [gap] = replayer.gaps() else { panic!("operation {bad}: {:?}", replayer.gaps()) };
        assert_eq!((files, gap.lost_samples, gap.reason), (3, kept.lost_samples, GapReason::DiskFailed), "operation {bad}");
        let last = Replayer::open(&folder.path().join("2.stalltop")).unwrap();
        let own: Vec<_> = last.gaps().iter().map(|own| (own.lost_samples, own.reason)).collect();
        assert_eq!(own == [(gap.lost_samples, gap.reason)], repeats, "operation {bad}: {own:?}");
    }
}

/// A failed disk may have the gap all the same: it is in both files, and is reported once.
#[test]
fn a_gap_in_two_files_is_reported_once() {
    let disks = vec![disk(80, true), disk(1, true), disk(1, true), disk(4, true), disk(0, false)];
    let disks = DiskSet { forgets: false, ..DiskSet::new(disks) };
    let (status, files, replayer, folder) = record_on(&disks);
    let told = |name: &str| Replayer::open(&folder.path().join(name)).unwrap().gaps().len();
    assert_eq!((told("1.stalltop"), told("2.stalltop")), (1, 1));
    let [gap] = replayer.gaps() else { panic!("{:?}", replayer.gaps()) };
    assert_eq!((files, gap.lost_samples), (3, status.progress().lost_samples));
}

/// A file system of that size, for root.
pub struct Small {
    directory: tempfile::TempDir,
}

impl Small {
    pub fn new(size: &str) -> Option<Small> {
        use nix::mount::{MsFlags, mount};
        let directory = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        match mount(Some("tmpfs"), directory.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str())) {
            Ok(()) => Some(Small { directory }),
            Err(error) => {
                println!("skipped: no tmpfs can be mounted here ({error})");
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = nix::mount::umount(self.directory.path());
    }
}

fn create(path: &Path, queue: usize) -> Recorder {
    let options = RecorderOptions { reserve_free_space: false, retry_interval: Duration::from_secs(3), ..options(queue) };
    Recorder::create(path, &generator::meta(), options).unwrap()
}

/// Full at any byte; when there is space again, the recording continues after a gap.
#[test]
fn a_full_file_system_pauses_the_recording_until_there_is_space() {
    let mut machine = Machine::new(1, 20, 30, 10, 4);
    let samples: Vec<_> = (0..300).map(|_| machine.next()).collect();
    let mut trials = Trials::new("a tmpfs that is full, then has space again", samples.len());
    for kib in (8..=64).step_by(if full() { 4 } else { 24 }) {
        let Some(disk) = Small::new("128k") else { return };
        let (path, filler) = (disk.path("one.stalltop"), disk.path("filler"));
        fs::write(&filler, vec![1; (128 - kib) << 10]).unwrap();
        trials.run(64 * MIB, || {
            let mut recorder = create(&path, samples.len());
            let mut offered = samples.iter();
            while matches!(recorder.status(), RecorderStatus::Recording(_)) {
                let before = recorder.status().progress();
                recorder.offer(offered.next().expect("it fills").clone());
                until("the sample", || {
                    let now = recorder.status().progress();
                    now.samples + now.lost_samples > before.samples + before.lost_samples
                });
            }
            let RecorderStatus::Paused { reason: why, progress: kept } = recorder.status() else {
                panic!("{:?}", recorder.status())
            };
            assert!(why.contains("space"), "{why}");
            let mut replayer = Replayer::open(&path).unwrap();
            assert_eq!(replayer.verify().unwrap() as u64, kept.samples, "{kib} KiB");
            assert_eq!(replayer.damage(), &[]);
            fs::remove_file(&filler).unwrap();
            offered.by_ref().take(20).for_each(|sample| recorder.offer(sample.clone()));
            let RecorderStatus::Finished(kept) = recorder.finish(PATIENCE) else { panic!("{kib} KiB: it does not go on") };
            let mut replayer = Replayer::open(&path).unwrap();
            assert_eq!(replayer.verify().unwrap() as u64, kept.samples);
            assert_eq!((replayer.damage(), replayer.tail()), (&[][..], Tail::Closed));
            let in_gaps: u64 = replayer.gaps().iter().map(|gap| gap.lost_samples).sum();
            assert_eq!((kept.lost_samples, kept.samples + in_gaps), (in_gaps, (samples.len() - offered.len()) as u64));
            kept.lost_samples as usize
        });
    }
}

#[test]
fn a_copy_that_does_not_fit_leaves_nothing() {
    let Some(disk) = Small::new("16k") else { return };
    let mut source = Replayer::from_bytes(record(&few_samples(200))).unwrap();
    let error = Copier::repair(&mut source, &disk.path("copy")).unwrap_err();
    assert!(matches!(error, RecordingError::Write { .. }), "{error}");
    assert_eq!(fs::read_dir(disk.directory.path()).unwrap().count(), 0);
}

/// In the real program, which ignores SIGXFSZ.
#[test]
fn a_file_size_limit_ends_the_recording_with_a_message() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("limited.stalltop");
    // In units of 512 bytes, or 1024 where sh is bash.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 60 && exec \"$0\" record --for 60s -i 100ms \"$1\"", program()])
        .arg(&path)
        .env("XDG_STATE_HOME", directory.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    let said = stderr.split(" samples written").next().unwrap().rsplit(' ').next().unwrap();
    let written: usize = said.parse().unwrap_or_else(|_| panic!("{stderr}"));
    assert!(stderr.contains("File too large") && written > 0, "{stderr}");
    // Another file would have the same limit.
    assert!(!directory.path().join("limited-2.stalltop").exists());
    let mut replayer = Replayer::open(&path).unwrap();
    assert_eq!(replayer.verify().unwrap(), written, "{stderr}");
    assert_eq!(replayer.damage(), &[]);
}

/// Without memory the program ends; what was written by then is intact.
#[test]
fn without_memory_what_was_written_stays_intact() {
    let mut begun = 0;
    for kib in [20_000, 40_000, 60_000, 90_000, 140_000, 200_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("poor.stalltop");
        let output = Command::new("sh")
            .args(["-c", "ulimit -v \"$2\" && exec \"$0\" record --for 700ms -i 100ms \"$1\"", program()])
            .arg(&path)
            .arg(kib.to_string())
            .env("XDG_STATE_HOME", directory.path())
            .output()
            .unwrap();
        match Replayer::open(&path) {
            Ok(mut replayer) => {
                assert_eq!(replayer.verify().unwrap(), replayer.len(), "{kib} KiB");
                assert_eq!(replayer.damage(), &[], "{kib} KiB");
                begun += 1;
            }
            Err(error) => assert!(!output.status.success(), "{kib} KiB: {error}"),
        }
    }
    println!("{begun} of 6 could begin");
    assert!(begun >= 1, "none could begin");
}

#[test]
fn a_disk_that_is_nearly_full_is_left_alone() {
    struct Nearly(BadDisk);
    impl Storage for Nearly {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn truncate(&mut self, length: u64) -> io::Result<()> {
            self.0.truncate(length)
        }
        fn disk_space(&self) -> Option<DiskSpace> {
            Some(DiskSpace { available: 60 << 20, total: 1 << 30 })
        }
    }
    let mut recorder = Recorder::from_storage(Box::new(Nearly(BadDisk::default())), &generator::meta(), options(10)).unwrap();
    few_samples(3).into_iter().for_each(|sample| recorder.offer(sample));
    let status = recorder.finish(PATIENCE);
    assert!(
        matches!(&status, RecorderStatus::Paused { reason, progress } if reason.contains("free") && progress.samples == 0),
        "{status:?}"
    );
}
