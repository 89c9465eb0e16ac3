//! The real program on real files: exit codes for damage, files that grow, are deleted or are huge, pipes that
//! deliver few bytes at a time.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use stalltop::recording::{Recorder, RecorderOptions, Replayer, StreamReader, Tail};

use crate::generator;
use crate::measure::{MIB, Trials, full};
use crate::program_under_test::program;
use crate::recorded::Recorded;
use crate::support::{PATIENCE, Sink, options};

fn info(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.arg("info").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Number of intact samples that it reports, and its exit code. It never crashes, and reports errors in one line.
fn verified(path: &Path) -> (Option<usize>, i32) {
    let output = info(&["--verify", path.to_str().unwrap()]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let code = output.status.code().expect("it ends by itself");
    assert_eq!(stderr.lines().count(), usize::from(code != 0), "{stderr}");
    let line = stdout.lines().find_map(|line| line.strip_prefix("verified"));
    (line.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()), code)
}

/// One offset in a hundred (in a thousand, without `STALLTOP_FULL`).
#[test]
fn the_program_has_the_right_exit_code_for_damage() {
    let recorded = Recorded::small();
    let count = recorded.samples.len();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged");
    let stride = if full() { 100 } else { 1000 };
    let mut trials = Trials::new("cut, through the program", count);
    for cut in (0..recorded.bytes.len()).step_by(stride).chain(recorded.frames.iter().map(|frame| frame.at)) {
        fs::write(&path, &recorded.bytes[..cut]).unwrap();
        let whole = recorded.frames.iter().filter(|frame| frame.is_sample() && frame.end() <= cut).count();
        trials.run(MIB, || {
            let (sound, code) = verified(&path);
            let boundary = recorded.frames.iter().any(|frame| frame.at == cut);
            let expected = match cut {
                _ if cut < recorded.frames[0].end() => (None, 4),
                _ if whole == 0 => (Some(0), 4),
                _ if boundary => (Some(whole), 0),
                _ => (Some(whole), 3),
            };
            assert_eq!((sound, code), expected, "cut at {cut}");
            0
        });
    }
    drop(trials);
    let mut trials = Trials::new("a bit flipped, through the program", count);
    for bit in (0..recorded.bytes.len() * 8).step_by(stride * 4 + 1) {
        let mut damaged = recorded.bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        trials.run(MIB, || {
            let lost = recorded.lost_with(&(bit / 8..bit / 8 + 1)).len();
            assert_eq!(verified(&path), (Some(count - lost), 3), "bit {bit}");
            lost
        });
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

#[test]
fn an_open_recording_survives_that_its_file_is_replaced_or_deleted() {
    let recorded = Recorded::small();
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("one"), directory.path().join("other"));
    fs::write(&path, &recorded.bytes).unwrap();
    fs::write(&other, "something else").unwrap();
    let mut replayer = Replayer::open(&path).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(replayer.sample(3).unwrap(), recorded.samples[3]);
    fs::remove_file(&path).unwrap();
    assert!(!replayer.refresh().unwrap().growing);
    assert_eq!(replayer.verify().unwrap(), recorded.samples.len());
}

#[test]
fn a_recording_may_be_an_inherited_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one");
    fs::write(&path, &Recorded::small().bytes).unwrap();
    let mut command = Command::new(program());
    let output = command.args(["info", "/proc/self/fd/0"]).stdin(File::open(&path).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Delivers one byte at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn a_pipe_that_gives_a_byte_at_a_time_gives_the_same() {
    let recorded = Recorded::small();
    let events = |reader: &mut dyn FnMut() -> String| -> Vec<String> {
        std::iter::from_fn(|| Some(reader()).filter(|event| event != "None")).collect()
    };
    for damage in [None, Some(recorded.frame(2).at + 60), Some(recorded.frame(3).at + 9)] {
        let mut bytes = recorded.bytes.clone();
        if let Some(at) = damage {
            bytes[at] ^= 1;
        }
        let mut whole = StreamReader::open(bytes.as_slice()).unwrap();
        let mut slow = StreamReader::open(Trickle(&bytes)).unwrap();
        let all = events(&mut || format!("{:?}", whole.next_event().unwrap()));
        assert_eq!(all, events(&mut || format!("{:?}", slow.next_event().unwrap())), "{damage:?}");
        assert!(all.len() > 6);
    }
}

/// A reader that runs beside the writer gets complete frames only, and all of them in the end.
#[test]
fn a_reader_beside_a_writer_never_sees_half_a_frame() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("growing");
    let count = if full() { 12_000 } else { 400 };
    let options = RecorderOptions { reserve_free_space: false, ..options(count) };
    let mut recorder = Recorder::create(&path, &generator::meta(), options).unwrap();
    let writer = std::thread::spawn(move || {
        let mut machine = generator::Machine::new(5, 6, 8, 2, 2);
        (0..count).for_each(|_| recorder.offer(machine.next()));
        recorder.finish(PATIENCE)
    });
    let mut replayer = Replayer::open(&path).unwrap();
    let mut machine = generator::Machine::new(5, 6, 8, 2, 2);
    let mut read = 0;
    loop {
        let growth = replayer.refresh().unwrap();
        assert_eq!(replayer.damage(), &[]);
        while read < replayer.len() {
            assert_eq!(replayer.sample(read).unwrap(), machine.next(), "sample {read}");
            read += 1;
        }
        if !growth.growing {
            break;
        }
    }
    writer.join().unwrap();
    assert_eq!((read, replayer.tail()), (count, Tail::Closed));
}

/// More than 4 GiB, of which nearly all is a hole: frames of a kind that only a later version knows.
#[test]
fn frames_beyond_four_gigabytes_are_found() {
    const STORED: u32 = 16 << 20;
    let recorded = Recorded::small();
    let start = recorded.frames[2].at;
    let (before, after) = recorded.bytes.split_at(start);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(before).unwrap();
    let sequence = u64::from_le_bytes(after[16..24].try_into().unwrap());
    for _ in 0..260 {
        let mut header = b"\xf5\x9dFr".to_vec();
        header.extend([99, 0, 0, 0]);
        header.extend(STORED.to_le_bytes());
        header.extend(STORED.to_le_bytes());
        header.extend(sequence.to_le_bytes());
        header.resize(48, 0);
        header.extend(crc32c::crc32c_append(crc32c::crc32c(&[9; 16]), &header).to_le_bytes());
        file.write_all(&header).unwrap();
        // A hole.
        file.seek(SeekFrom::Current(i64::from(STORED))).unwrap();
    }
    let at = file.stream_position().unwrap();
    assert!(at > 4 << 30);
    if let Err(error) = file.write_all(after) {
        println!("skipped: no file of 4 GiB can be made here ({error})");
        return;
    }
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let mut replayer = Replayer::open(Path::new(&path)).unwrap();
    assert_eq!(replayer.unknown_frames(), 260);
    assert_eq!(replayer.len(), recorded.samples.len());
    for (number, sample) in recorded.samples.iter().enumerate() {
        assert_eq!(&replayer.sample(number).unwrap(), sample);
    }
    assert!(replayer.damage().is_empty());
}

/// Additions of a later minor version are skipped and counted, and the rest is read.
#[test]
fn unknown_frame_kinds_and_a_higher_minor_version_are_accepted() {
    let recorded = Recorded::small();
    let mut newer = recorded.bytes.clone();
    for copy in [0, 64] {
        newer[copy + 10] = 7;
        newer[copy + 12] = 0x80;
        let crc = crc32c::crc32c(&newer[copy..copy + 60]);
        newer[copy + 60..copy + 64].copy_from_slice(&crc.to_le_bytes());
    }
    let mut replayer = Replayer::from_bytes(newer.clone()).unwrap();
    assert_eq!((replayer.header().minor, replayer.verify().unwrap()), (7, recorded.samples.len()));
    assert_eq!(recorded.read_pipe(&newer).unwrap().sound.len(), recorded.samples.len());
    // An unknown incompatible flag is refused with a message.
    let directory = tempfile::tempdir().unwrap();
    let (path, out) = (directory.path().join("newer"), directory.path().join("out"));
    for copy in [0, 64] {
        newer[copy + 16] |= 0x80;
        let crc = crc32c::crc32c(&newer[copy..copy + 60]);
        newer[copy + 60..copy + 64].copy_from_slice(&crc.to_le_bytes());
    }
    fs::write(&path, &newer).unwrap();
    let output = info(&[path.to_str().unwrap(), "--repair", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("newer") && !out.exists());
}

/// A recording inside a payload of another: a mark may hold anything.
#[test]
fn a_recording_inside_a_mark_is_not_read() {
    let inner = &Recorded::small().bytes;
    let sink = Sink::default();
    // Another id than that of the inner one.
    let options = RecorderOptions { identity: Some(([3; 16], 0)), ..options(20) };
    let sections = [("inner".to_owned(), inner.clone())].into_iter().collect();
    let mut recorder =
        Recorder::from_writer(sink.clone(), &generator::meta(), RecorderOptions { sections, ..options }).unwrap();
    let samples = crate::support::few_samples(3);
    samples.iter().for_each(|sample| recorder.offer(sample.clone()));
    recorder.finish(PATIENCE);
    let mut bytes = sink.0.lock().unwrap().clone();
    // Not compressed, or its frames would not be seen.
    let hit = bytes.windows(5).position(|window| window == b"\xf5\x9dFr\x02").unwrap();
    bytes.splice(hit + 60..hit + 60, inner.iter().copied());
    let mut replayer = Replayer::from_bytes(bytes).unwrap();
    assert_eq!(replayer.verify().unwrap(), 3);
    for (number, sample) in samples.iter().enumerate() {
        assert_eq!(&replayer.sample(number).unwrap(), sample);
    }
    assert!(!replayer.damage().is_empty());
}
