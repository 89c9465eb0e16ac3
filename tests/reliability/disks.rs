//! Disks that fail at the n-th operation, fill, or have a limit: what was kept stays sound, and it says what is missing.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stalltop::recording::{Copier, Recorder, RecorderOptions, RecorderStatus, Replayer, Room, Storage, Tail};
use stalltop::sample::Sample;

use crate::generator::{self, Machine};
use crate::measure::{MIB, Tally, full};
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
}

impl BadDisk {
    fn fails(&self) -> io::Result<()> {
        let mut operations = self.operations.lock().unwrap();
        *operations += 1;
        let bad = *operations == self.bad || self.forever && *operations > self.bad;
        if bad { Err(io::Error::from_raw_os_error(self.errno)) } else { Ok(()) }
    }
}

impl Storage for BadDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A failing write has often taken a part before.
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
        self.fails()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.kept.lock().unwrap().truncate(length as usize);
        Ok(())
    }

    fn room(&self) -> Option<Room> {
        None
    }
}

/// Every operation fails once, one after the other: nothing before it is ever lost, and no sample is false.
#[test]
fn whichever_operation_fails_what_was_kept_stays_sound() {
    let samples = few_samples(64);
    let mut tally = Tally::new("the n-th write or sync fails, once or for good", samples.len());
    for (errno, at_most) in [
        (nix::libc::ENOSPC, usize::MAX),
        (nix::libc::EDQUOT, usize::MAX),
        (nix::libc::EIO, usize::MAX),
        (nix::libc::EFBIG, usize::MAX),
        (nix::libc::EINTR, usize::MAX),
        (nix::libc::EINTR, 7),
        (nix::libc::EAGAIN, 100),
    ] {
        let passes = matches!(errno, nix::libc::EINTR | nix::libc::EAGAIN);
        for forever in [false, true].into_iter().take(if passes { 1 } else { 2 }) {
            for bad in 1.. {
                // Of short writes there are very many.
                if bad > 8
                    && bad
                        % if !full() {
                            13
                        } else if at_most < 100 {
                            29
                        } else {
                            1
                        }
                        != 0
                {
                    continue;
                }
                let disk = BadDisk { kept: Arc::default(), operations: Arc::default(), bad, forever, errno, at_most };
                let what = format!("operation {bad} fails with {errno}, forever: {forever}");
                let mut goes_on = true;
                tally.attempt(64 * MIB, || {
                    goes_on = survives(&disk, &samples, &what);
                    0
                });
                if !goes_on {
                    break;
                }
            }
        }
    }
}

/// `false` when the recording was over before the bad operation came.
fn survives(disk: &BadDisk, samples: &[Arc<Sample>], what: &str) -> bool {
    let options = RecorderOptions { retry: Duration::from_secs(3), ..options(samples.len()) };
    let recorder = Recorder::into_storage(Box::new(disk.clone()), &generator::meta(), options);
    let Ok(mut recorder) = recorder else { return true };
    samples.iter().for_each(|sample| recorder.offer(sample.clone()));
    let status = recorder.finish(PATIENCE);
    let kept = disk.kept.lock().unwrap().clone();
    let mut replayer = Replayer::from_bytes(kept).unwrap_or_else(|error| panic!("{what}: {error}"));
    let sound = replayer.verify().unwrap();
    assert_eq!(replayer.damage().first(), None, "{what}");
    let torn = matches!(replayer.tail(), Tail::Torn { .. });
    assert!(!torn, "{what}: {:?}", replayer.tail());
    assert_eq!(status.kept().samples, sound as u64, "{what}: {status:?}");
    let in_gaps: u64 = replayer.gaps().iter().map(|gap| gap.lost).sum();
    match &status {
        RecorderStatus::Finished(kept) => {
            assert_eq!(sound as u64 + in_gaps, samples.len() as u64, "{what}");
            assert_eq!(kept.lost, in_gaps, "{what}");
        }
        RecorderStatus::Failed { why, kept } | RecorderStatus::Paused { why, kept } => {
            assert!(!why.is_empty());
            assert_eq!(kept.samples + kept.lost, samples.len() as u64, "{what}: {status:?}");
        }
        RecorderStatus::Recording(_) => panic!("{what}: {status:?}"),
    }
    for index in 0..replayer.len() {
        let sample = replayer.sample(index).unwrap();
        assert!(samples.contains(&sample), "{what}: a sample that was never recorded");
    }
    *disk.operations.lock().unwrap() >= disk.bad
}

/// A file system of that size, for root.
struct Small {
    directory: tempfile::TempDir,
}

impl Small {
    fn new(size: &str) -> Option<Small> {
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

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = nix::mount::umount(self.directory.path());
    }
}

fn create(path: &Path, queue: usize) -> Recorder {
    let options = RecorderOptions { keep_free: false, retry: Duration::from_secs(3), ..options(queue) };
    Recorder::create(path, &generator::meta(), options).unwrap()
}

/// Full at any byte; then there is room again, and it goes on with a gap.
#[test]
fn a_file_system_that_fills_pauses_keeps_what_it_has_and_goes_on_when_there_is_room() {
    let mut machine = Machine::new(1, 20, 30, 10, 4);
    let samples: Vec<_> = (0..300).map(|_| machine.next()).collect();
    let mut tally = Tally::new("a tmpfs fills, and is emptied again", samples.len());
    for kib in (8..=64).step_by(if full() { 4 } else { 24 }) {
        let Some(disk) = Small::new("128k") else { return };
        let (path, filler) = (disk.path("one.stalltop"), disk.path("filler"));
        fs::write(&filler, vec![1; (128 - kib) << 10]).unwrap();
        tally.attempt(64 * MIB, || {
            let mut recorder = create(&path, samples.len());
            let mut offered = samples.iter();
            while matches!(recorder.status(), RecorderStatus::Recording(_)) {
                let before = recorder.status().kept();
                recorder.offer(offered.next().expect("it fills").clone());
                until("the sample", || {
                    let now = recorder.status().kept();
                    now.samples + now.lost > before.samples + before.lost
                });
            }
            let RecorderStatus::Paused { why, kept } = recorder.status() else { panic!("{:?}", recorder.status()) };
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
            let in_gaps: u64 = replayer.gaps().iter().map(|gap| gap.lost).sum();
            assert_eq!((kept.lost, kept.samples + in_gaps), (in_gaps, (samples.len() - offered.len()) as u64));
            kept.lost as usize
        });
    }
}

#[test]
fn a_copy_that_does_not_fit_leaves_nothing() {
    let Some(disk) = Small::new("16k") else { return };
    let mut source = Replayer::from_bytes(record(&few_samples(200))).unwrap();
    let error = Copier::repair(&mut source, &disk.path("copy")).unwrap_err();
    assert_eq!(error.exit_code(), 5, "{error}");
    assert_eq!(fs::read_dir(disk.directory.path()).unwrap().count(), 0);
}

/// The real program, whose signal for it is ignored.
#[test]
fn a_limit_on_the_size_of_files_ends_it_with_a_word_and_keeps_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("limited.stalltop");
    // In units of 512 bytes, or 1024 where sh is bash.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 60 && exec \"$0\" record --for 60s -i 100ms \"$1\"", env!("CARGO_BIN_EXE_stalltop")])
        .arg(&path)
        .env("XDG_STATE_HOME", directory.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("File too large") && stderr.contains("are safe"), "{stderr}");
    if let Ok(mut replayer) = Replayer::open(&path) {
        assert_eq!(replayer.verify().unwrap(), replayer.len());
        assert_eq!(replayer.damage(), &[]);
    }
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
        fn room(&self) -> Option<Room> {
            Some(Room { available: 60 << 20, total: 1 << 30 })
        }
    }
    let disk =
        BadDisk { kept: Arc::default(), operations: Arc::default(), bad: 0, forever: false, errno: 0, at_most: usize::MAX };
    let mut recorder = Recorder::into_storage(Box::new(Nearly(disk)), &generator::meta(), options(10)).unwrap();
    few_samples(3).into_iter().for_each(|sample| recorder.offer(sample));
    let status = recorder.finish(PATIENCE);
    assert!(matches!(&status, RecorderStatus::Paused { why, kept } if why.contains("free") && kept.samples == 0), "{status:?}");
}
