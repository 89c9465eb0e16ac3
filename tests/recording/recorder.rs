//! The recorder: new private files, gaps instead of waiting, and full or failing disks that lose nothing that was written.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stalltop::recording::{
    DiskSpace, GapReason, HistoryRing, Inspection, Meta, Recorder, RecorderOptions, RecorderStatus, RecordingError,
    RecordingProgress, Redaction, Replayer, Storage, StreamEvent, StreamReader, Tail, save_recording,
};
use stalltop::sample::{Absent, Sample};

use crate::generator;
use crate::support::places::{HEADER, frames};
use crate::support::{PATIENCE, few_samples, ok_summary, options, record, until};

fn create(path: &Path) -> Result<Recorder, RecordingError> {
    Recorder::create(path, &generator::meta(), RecorderOptions { reserve_free_space: false, ..options(1000) })
}

#[test]
fn a_file_and_a_pipe_get_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.stalltop");
    let samples = few_samples(70);
    let mut recorder = create(&path).unwrap();
    samples.iter().for_each(|sample| recorder.offer_with_summary(sample.clone(), ok_summary()));
    let RecorderStatus::Finished(kept) = recorder.finish(PATIENCE) else { panic!("not finished") };
    let bytes = fs::read(&path).unwrap();
    assert!(bytes == record(&samples));
    assert_eq!((kept.bytes, kept.samples, kept.lost_samples), (bytes.len() as u64, 70, 0));
    let mut replayer = Replayer::open(&path).unwrap();
    let inspection = Inspection::new(&mut replayer, true).unwrap();
    assert_eq!((inspection.sample_count, inspection.intact_samples, inspection.gaps.len()), (70, Some(70), 0));
    assert!(!inspection.is_damaged());
    assert_eq!(inspection.tail, Tail::Closed);
    assert_eq!(inspection.first_timestamp, Some(samples[0].at.into()));
}

/// The umask is per process, so each case runs in its own.
#[test]
fn only_the_owner_may_read_it_whatever_the_umask() {
    let directory = tempfile::tempdir().unwrap();
    for umask in ["000", "022", "077", "777"] {
        let path = directory.path().join(umask);
        let status = std::process::Command::new("sh")
            .args(["-c", "umask $0 && exec \"$@\"", umask])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "recorder::creates_where_the_environment_says"])
            .env("STALLTOP_TEST_CREATES", &path)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600, "umask {umask}");
    }
}

/// The child process of the test above: does nothing by itself.
#[test]
fn creates_where_the_environment_says() {
    if let Some(path) = std::env::var_os("STALLTOP_TEST_CREATES") {
        create(Path::new(&path)).unwrap().finish(PATIENCE);
    }
}

#[test]
fn only_a_new_file_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("there"), "precious").unwrap();
    symlink(at("there"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    for (name, word) in [
        ("there", "exists"),
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("directory", "directory"),
        ("pipe", "named pipe"),
    ] {
        let error = create(&at(name)).err().unwrap();
        let refused = matches!(error, RecordingError::AlreadyExists { .. } | RecordingError::NotARegularFile { .. });
        assert!(refused, "{name}: {error}");
        assert!(error.to_string().contains(word), "{name}: {error}");
    }
    assert!(matches!(create(Path::new("/dev/null")), Err(RecordingError::NotARegularFile { .. })));
    assert!(matches!(create(&at("no/such/directory")), Err(RecordingError::Write { .. })));
    assert!(matches!(create(&at(&"x".repeat(300))), Err(RecordingError::Write { .. })));
    assert_eq!(fs::read(at("there")).unwrap(), b"precious");
    assert!(!at("nowhere").exists());
}

#[test]
fn a_path_is_shown_without_its_control_bytes() {
    let error = create(Path::new("/nowhere/\u{1b}]0;evil\u{7}\u{202e}größe")).err().unwrap().to_string();
    assert!(error.contains("größe") && !error.contains('\u{1b}') && !error.contains('\u{202e}'), "{error}");
}

#[test]
fn a_second_recorder_is_refused_and_a_killed_one_leaves_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.stalltop");
    let recorder = create(&path).unwrap();
    assert!(matches!(create(&path), Err(RecordingError::BeingWritten { .. })));
    assert!(Replayer::open(&path).unwrap().is_growing());
    recorder.finish(PATIENCE);
    assert!(matches!(create(&path), Err(RecordingError::AlreadyExists { .. })));
    assert!(!Replayer::open(&path).unwrap().is_growing());
}

#[test]
fn a_reader_follows_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.stalltop");
    let samples = few_samples(130);
    let mut recorder = create(&path).unwrap();
    let mut replayer = Replayer::open(&path).unwrap();
    assert_eq!((replayer.len(), replayer.is_growing()), (0, true));
    for (index, sample) in samples.iter().enumerate() {
        recorder.offer(sample.clone());
        until("the sample in the file", || {
            let growth = replayer.refresh().unwrap();
            assert!(growth.growing);
            replayer.len() > index
        });
        assert_eq!(&replayer.sample(index).unwrap(), sample);
    }
    recorder.finish(PATIENCE);
    assert!(!replayer.refresh().unwrap().growing);
    assert_eq!(replayer.tail(), Tail::Closed);
    assert_eq!(replayer.damage(), &[]);
}

#[test]
fn half_a_frame_is_not_an_error_while_the_recorder_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.stalltop");
    let bytes = record(&few_samples(10));
    let file = fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).unwrap();
    let mut file = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive).unwrap();
    // In the payload of the frame after the middle.
    let frame = frames(&bytes).into_iter().find(|frame| frame.at >= bytes.len() / 2).unwrap();
    let (first, rest) = bytes.split_at(frame.at + HEADER + 1);
    io::Write::write_all(&mut *file, first).unwrap();
    let mut replayer = Replayer::open(&path).unwrap();
    let before = replayer.len();
    assert!(before > 0 && before < 10);
    assert_eq!(replayer.tail(), Tail::Growing);
    for byte in rest {
        io::Write::write_all(&mut *file, &[*byte]).unwrap();
        replayer.refresh().unwrap();
        assert_eq!(replayer.damage(), &[]);
    }
    assert_eq!(replayer.len(), 10);
    // Without a writer it is a torn tail.
    let torn = directory.path().join("torn.stalltop");
    fs::write(&torn, first).unwrap();
    let replayer = Replayer::open(&torn).unwrap();
    assert_eq!(replayer.len(), before);
    assert!(matches!(replayer.tail(), Tail::Torn { frame_bytes: Some(_), .. }), "{:?}", replayer.tail());
}

#[test]
fn a_file_that_is_truncated_under_the_reader_gives_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.stalltop");
    fs::write(&path, record(&few_samples(30))).unwrap();
    let mut replayer = Replayer::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300).unwrap();
    let error = replayer.sample(20).err().unwrap();
    assert!(matches!(error, RecordingError::DamagedFrame { .. }), "{error}");
}

/// A disk whose sync returns only on command.
struct StuckDisk {
    allowed: Receiver<()>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Storage for StuckDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.allowed.recv();
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }
}

fn stuck() -> (StuckDisk, Sender<()>, Arc<Mutex<Vec<u8>>>) {
    let (allow, allowed) = channel();
    let written = Arc::new(Mutex::new(Vec::new()));
    (StuckDisk { allowed, written: written.clone() }, allow, written)
}

#[test]
fn samples_that_a_slow_disk_does_not_take_become_a_gap() {
    let (disk, allow, written) = stuck();
    allow.send(()).unwrap();
    let options = RecorderOptions { queue_capacity: 4, ..options(0) };
    let mut recorder =
        Recorder::from_storage(Box::new(disk), &generator::meta(), RecorderOptions { queue_capacity: 4, ..options }).unwrap();
    let samples = few_samples(40);
    // The disk is stuck until `allow` is dropped: an offer that waited for it would not return.
    for sample in &samples[..30] {
        recorder.offer(sample.clone());
    }
    // The disk answers again.
    drop(allow);
    until("the queue", || recorder.status().progress().samples >= 4);
    for sample in &samples[30..] {
        let before = recorder.status().progress();
        recorder.offer(sample.clone());
        until("the sample", || recorder.status().progress().samples > before.samples);
    }
    let RecorderStatus::Finished(kept) = recorder.finish(PATIENCE) else { panic!("not finished") };
    let mut replayer = Replayer::from_bytes(written.lock().unwrap().clone()).unwrap();
    let sound = replayer.verify().unwrap() as u64;
    let gaps = replayer.gaps().to_vec();
    // A writer that begins after the queue is full takes one sample out of it, and the next one offered has its place.
    assert!((1..=2).contains(&gaps.len()), "{gaps:?}");
    let lost: u64 = gaps.iter().map(|gap| gap.lost_samples).sum();
    assert_eq!(lost + sound, 40, "every sample is there or in a gap");
    assert_eq!((kept.lost_samples, kept.samples), (lost, sound));
    for gap in gaps {
        assert_eq!(gap.reason, GapReason::DiskTooSlow);
        let (before, after) = (gap.samples_before as usize - 1, gap.samples_before as usize);
        assert!(replayer.timestamp(before).unwrap() < gap.from && gap.to < replayer.timestamp(after).unwrap());
    }
}

/// A disk that is full while a flag is set.
struct FullDisk {
    full: Arc<AtomicBool>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Storage for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.full.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(28));
        }
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.written.lock().unwrap().truncate(length as usize);
        Ok(())
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }
}

#[test]
fn a_mark_waits_for_space_on_the_disk() {
    let (full, written) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let disk = FullDisk { full: Arc::clone(&full), written: Arc::clone(&written) };
    let options = RecorderOptions { retry_interval: Duration::ZERO, ..options(40) };
    let mut recorder = Recorder::from_storage(Box::new(disk), &generator::meta(), options).unwrap();
    let samples = few_samples(12);
    samples[..4].iter().for_each(|sample| recorder.offer(sample.clone()));
    until("the samples", || recorder.status().progress().samples == 4);
    full.store(true, Ordering::SeqCst);
    assert!(recorder.add_mark(samples[4].at.into(), "at the worst moment"));
    recorder.offer(samples[4].clone());
    until("a pause", || {
        matches!(recorder.status(), RecorderStatus::Paused { progress: RecordingProgress { lost_samples: 1, .. }, .. })
    });
    assert!(recorder.add_mark(samples[5].at.into(), "and again"));
    full.store(false, Ordering::SeqCst);
    samples[6..].iter().for_each(|sample| recorder.offer(sample.clone()));
    assert!(matches!(recorder.finish(PATIENCE), RecorderStatus::Finished(_)));
    let mut replayer = Replayer::from_bytes(written.lock().unwrap().clone()).unwrap();
    assert_eq!(replayer.verify().unwrap(), 10);
    let marks: Vec<_> = replayer.marks().iter().map(|mark| (mark.samples_before, mark.text.as_str())).collect();
    assert_eq!(marks, [(4, "at the worst moment"), (4, "and again")]);
    assert_eq!(replayer.gaps().iter().map(|gap| (gap.samples_before, gap.lost_samples)).collect::<Vec<_>>(), [(4, 1)]);
}

#[test]
fn marks_respect_the_largest_size_of_a_recording() {
    let sink = crate::support::Sink::default();
    let most = 60_000;
    let options = RecorderOptions { max_bytes: Some(most), queue_capacity: 2000, ..options(0) };
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
    let sample = few_samples(1).remove(0);
    recorder.offer(sample.clone());
    // Texts that compress badly.
    let mut dice = generator::Dice::new(5);
    for _ in 0..200 {
        let word: String = (0..1000).map(|_| char::from(33 + dice.below(94) as u8)).collect();
        recorder.add_mark(sample.at.into(), &word);
    }
    let status = recorder.finish(PATIENCE);
    let bytes = sink.0.lock().unwrap().clone();
    assert!(bytes.len() as u64 <= most, "{} bytes: {status:?}", bytes.len());
    let mut replayer = Replayer::from_bytes(bytes).unwrap();
    assert_eq!((replayer.verify().unwrap(), replayer.tail()), (1, Tail::Closed));
    assert!((1..200).contains(&replayer.marks().len()), "{}", replayer.marks().len());
}

/// A disk whose write panics.
struct Trap;

impl Storage for Trap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        assert_ne!(std::thread::current().name(), Some("recorder"), "a rehearsed fault");
        Ok(())
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }
}

#[test]
fn a_recorder_whose_thread_panicked_reports_a_failure() {
    let mut recorder = Recorder::from_storage(Box::new(Trap), &generator::meta(), options(40)).unwrap();
    let sample = few_samples(1).remove(0);
    until("the end", || {
        recorder.offer(sample.clone());
        matches!(recorder.status(), RecorderStatus::Failed { .. })
    });
    assert!(!recorder.add_mark(sample.at.into(), "too late"));
    assert!(matches!(recorder.finish(PATIENCE), RecorderStatus::Failed { .. }));
}

#[test]
fn gaps_in_memory_are_gaps_in_the_saved_history() {
    let mut ring = HistoryRing::new(100, 16 << 20, Redaction::Nothing);
    let samples = few_samples(6);
    for (index, sample) in samples.iter().enumerate() {
        ring.add_missed(if index == 3 { 7 } else { 0 }, sample.at.into());
        assert!(ring.push(sample));
    }
    let mut saved = Vec::new();
    ring.write_to(&mut saved, &generator::meta(), &Default::default()).unwrap();
    let recorder = |history| {
        let sink = crate::support::Sink::default();
        let options = RecorderOptions { backlog: history, ..options(10) };
        let recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
        recorder.finish(PATIENCE);
        sink.0.lock().unwrap().clone()
    };
    for bytes in [saved, recorder(ring.backlog())] {
        let replayer = Replayer::from_bytes(bytes).unwrap();
        let gaps: Vec<_> = replayer.gaps().iter().map(|gap| (gap.samples_before, gap.lost_samples, gap.from, gap.to)).collect();
        assert_eq!(gaps, [(3, 7, samples[2].at.into(), samples[3].at.into())]);
    }
}

#[test]
fn a_disk_that_never_answers_does_not_block_the_end() {
    let (disk, allow, _) = stuck();
    allow.send(()).unwrap();
    let mut recorder = Recorder::from_storage(Box::new(disk), &generator::meta(), options(10)).unwrap();
    few_samples(3).into_iter().for_each(|sample| recorder.offer(sample));
    let status = recorder.finish(Duration::from_millis(50));
    assert!(matches!(&status, RecorderStatus::Failed { reason, .. } if reason.contains("does not answer")), "{status:?}");
    drop(allow);
}

#[test]
fn arguments_are_left_out_on_request() {
    let meta = Meta { redaction: Redaction::Arguments, ..generator::meta() };
    let mut ring = HistoryRing::new(100, 16 << 20, Redaction::Arguments);
    let named =
        |sample: Arc<Sample>| Arc::new(Sample { container_names: generator::container_names(), ..Sample::clone(&sample) });
    let samples: Vec<Arc<Sample>> = few_samples(70).into_iter().map(named).collect();
    samples.iter().for_each(|sample| assert!(ring.push(sample)));
    let mut saved = Vec::new();
    ring.write_to(&mut saved, &meta, &Default::default()).unwrap();
    let mut replayer = Replayer::from_bytes(saved).unwrap();
    assert_eq!(replayer.meta().redaction, Redaction::Arguments);
    for index in [0, 5, 69] {
        let (sample, original) = (replayer.sample(index).unwrap(), &samples[index]);
        assert!(sample.container_names.is_empty(), "their names say what the machine is used for");
        for process in &sample.tasks.as_ref().unwrap().processes {
            assert_eq!(process.facts.cmdline, Err(Absent::Hidden));
            assert_eq!(process.comm, original.tasks.as_ref().unwrap().process(process.pid).unwrap().comm);
        }
    }
}

#[test]
fn marks_and_sections_come_back_from_file_and_pipe() {
    let sink = crate::support::Sink::default();
    let sections: stalltop::recording::Sections =
        [("baselines".to_owned(), vec![7; 5000]), ("empty".to_owned(), Vec::new())].into_iter().collect();
    let options = RecorderOptions { sections: sections.clone(), ..options(10) };
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
    let samples = few_samples(3);
    recorder.offer(samples[0].clone());
    assert!(recorder.add_mark(samples[0].at.into(), "deploy 42"));
    recorder.offer(samples[1].clone());
    recorder.finish(PATIENCE);
    let bytes = sink.0.lock().unwrap().clone();
    let mut replayer = Replayer::from_bytes(bytes.clone()).unwrap();
    assert_eq!(replayer.marks().len(), 1);
    assert_eq!((replayer.marks()[0].samples_before, replayer.marks()[0].text.as_str()), (1, "deploy 42"));
    assert_eq!(replayer.section("baselines"), Some([7; 5000].as_slice()));
    assert_eq!(
        Inspection::new(&mut replayer, true).unwrap().sections,
        [("baselines".to_owned(), 5000), ("empty".to_owned(), 0)]
    );
    let mut reader = StreamReader::open(bytes.as_slice()).unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        kinds.push(match event {
            StreamEvent::Meta(_) => "meta".to_owned(),
            StreamEvent::Section { name, bytes } => format!("{name} {}", bytes.len()),
            StreamEvent::Sample(sample) => format!("sample {}", samples.iter().position(|other| *other == sample).unwrap()),
            StreamEvent::Mark(mark) => mark.text,
            StreamEvent::End => "end".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(kinds, ["meta", "baselines 5000", "empty 0", "sample 0", "deploy 42", "sample 1", "end"]);
}

#[test]
fn a_history_is_saved_to_a_new_file_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("last.stalltop");
    let mut ring = HistoryRing::new(100, 16 << 20, Redaction::Nothing);
    few_samples(5).iter().for_each(|sample| assert!(ring.push(sample)));
    let mut bytes = Vec::new();
    ring.write_to(&mut bytes, &generator::meta(), &Default::default()).unwrap();
    save_recording(&path, &bytes).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(Replayer::open(&path).unwrap().verify().unwrap(), 5);
    assert!(matches!(save_recording(&path, &bytes), Err(RecordingError::AlreadyExists { .. })));
}

#[test]
fn a_file_that_is_not_seekable_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(matches!(Replayer::open(&pipe), Err(RecordingError::NotSeekable { .. })));
    assert!(matches!(Replayer::open(directory.path()), Err(RecordingError::NoSegments { .. })));
    assert!(matches!(Replayer::open(&directory.path().join("nothing")), Err(RecordingError::Read { .. })));
}
