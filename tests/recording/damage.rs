//! Whatever happens to the bytes: no value is shown that was not recorded, and little is lost with what is damaged.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use stalltop::recording::{RecordingError, Replayer, StreamEvent, StreamReader, Tail};
use stalltop::sample::Sample;

use crate::generator::Dice;
use crate::support::{few_samples, record};

/// A recording, and each of its samples by its moment (no two have the same).
type Recorded = (Vec<u8>, BTreeMap<u64, Arc<Sample>>);

/// A recording of 6 samples.
fn small() -> &'static Recorded {
    static SMALL: OnceLock<Recorded> = OnceLock::new();
    SMALL.get_or_init(|| {
        let mut machine = crate::generator::Machine::new(7, 3, 4, 1, 1);
        let samples: Vec<_> = (0..6).map(|_| machine.next()).collect();
        (record(&samples), samples.into_iter().map(|sample| (sample.at.boottime_ns, sample)).collect())
    })
}

/// What a damaged recording still gives.
#[derive(Debug, Default, PartialEq)]
struct Found {
    sound: usize,
    damaged: bool,
}

/// Reads all of it; every sample that comes out must be one that went in. `None` when the file header is gone.
fn read_file(bytes: &[u8]) -> Option<Found> {
    let (_, truth) = small();
    let mut replayer = match Replayer::from_bytes(bytes.to_vec()) {
        Ok(replayer) => replayer,
        Err(error) => {
            assert_eq!(error.exit_code(), 4, "{error}");
            return None;
        }
    };
    let mut sound = 0;
    let mut last = None;
    for index in 0..replayer.len() {
        match replayer.sample(index) {
            Ok(sample) => {
                assert_eq!(Some(&sample), truth.get(&sample.at.boottime_ns), "a sample that was never recorded");
                assert!(last < Some(sample.at.boottime_ns), "samples are out of order");
                last = Some(sample.at.boottime_ns);
                sound += 1;
            }
            Err(RecordingError::DamagedFrame { .. }) => assert!(!replayer.damage().is_empty()),
            // The index lied, and the rebuilt one is shorter.
            Err(RecordingError::NoSuchSample { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let damaged = !replayer.damage().is_empty() || !matches!(replayer.tail(), Tail::Closed | Tail::Unfinished);
    let verified = replayer.verify().unwrap();
    assert_eq!(verified, sound, "verify sees what replay sees");
    Some(Found { sound, damaged: damaged || !replayer.damage().is_empty() })
}

/// The same from a pipe.
fn read_stream(bytes: &[u8]) -> Option<Found> {
    let (_, truth) = small();
    let mut reader = match StreamReader::open(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            assert_eq!(error.exit_code(), 4, "{error}");
            return None;
        }
    };
    let mut found = Found::default();
    let mut last = None;
    while let Some(event) = reader.event().unwrap() {
        match event {
            StreamEvent::Sample(sample) => {
                assert_eq!(Some(&sample), truth.get(&sample.at.boottime_ns), "a sample that was never recorded");
                assert!(last < Some(sample.at.boottime_ns), "samples are out of order");
                last = Some(sample.at.boottime_ns);
                found.sound += 1;
            }
            StreamEvent::Damage(_) => found.damaged = true,
            _ => {}
        }
    }
    Some(found)
}

/// Where the frames begin, found by their sync word alone: each is (offset, kind, length).
fn frames(bytes: &[u8]) -> Vec<(usize, u8, usize)> {
    let mut frames = Vec::new();
    let mut at = 128;
    while at < bytes.len() {
        assert_eq!(&bytes[at..at + 4], b"\xf5\x9dFr");
        let stored = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push((at, bytes[at + 4], 52 + stored));
        at += 52 + stored;
    }
    frames
}

const KEY: u8 = 3;
const DELTA: u8 = 4;

#[test]
fn the_whole_recording_is_sound() {
    let (bytes, truth) = small();
    assert_eq!(read_file(bytes), Some(Found { sound: truth.len(), damaged: false }));
    assert_eq!(read_stream(bytes), Some(Found { sound: truth.len(), damaged: false }));
    assert_eq!(frames(bytes).iter().filter(|frame| frame.1 == KEY || frame.1 == DELTA).count(), truth.len());
}

#[test]
fn cut_anywhere_nothing_before_the_cut_is_lost() {
    let (bytes, _) = small();
    let frames = frames(bytes);
    let first_meta_end = frames[0].0 + frames[0].2;
    for cut in 0..bytes.len() {
        let part = &bytes[..cut];
        let whole = frames.iter().filter(|frame| (frame.1 == KEY || frame.1 == DELTA) && frame.0 + frame.2 <= cut).count();
        match read_file(part) {
            Some(found) => {
                assert_eq!(found.sound, whole, "cut at {cut}");
                let boundary = frames.iter().any(|frame| frame.0 == cut);
                let clean = cut >= 128 && boundary;
                assert_eq!(found.damaged, !clean, "cut at {cut}");
            }
            None => assert!(cut < first_meta_end, "cut at {cut}"),
        }
        match read_stream(part) {
            Some(found) => assert_eq!(found.sound, whole, "cut at {cut}, as a stream"),
            None => assert!(cut < 128, "cut at {cut}"),
        }
    }
}

/// How many samples need the frame of that sample: itself, and those that refer to it over others.
fn dependents(of: usize, count: usize) -> usize {
    let needs = |mut at: usize| loop {
        if at == of {
            return true;
        }
        if at == 0 {
            return false;
        }
        at &= at - 1;
    };
    (0..count).filter(|&at| needs(at)).count()
}

#[test]
fn a_flipped_bit_is_seen_and_costs_only_what_refers_to_its_frame() {
    for at in 0..small().0.len() {
        flip(at, (at * 5 + at / 8) % 8);
    }
}

/// Minutes without optimisation: `STALLTOP_ALL_BITS=1 cargo test --release --test recording every_bit`.
#[test]
fn every_bit_flipped_is_seen_and_costs_only_what_refers_to_its_frame() {
    if std::env::var_os("STALLTOP_ALL_BITS").is_none() {
        println!("skipped: takes minutes; STALLTOP_ALL_BITS=1 asks for it (one bit of each byte is always flipped)");
        return;
    }
    for at in 0..small().0.len() * 8 {
        flip(at / 8, at % 8);
    }
}

fn flip(at: usize, bit: usize) {
    let (bytes, truth) = small();
    let frames = frames(bytes);
    let mut damaged = bytes.clone();
    damaged[at] ^= 1 << bit;
    let mut sample_frames = frames.iter().filter(|frame| frame.1 == KEY || frame.1 == DELTA);
    let hit = sample_frames.position(|frame| (frame.0..frame.0 + frame.2).contains(&at));
    let left = truth.len() - hit.map_or(0, |hit| dependents(hit, truth.len()));
    let found = read_file(&damaged).unwrap();
    assert_eq!(found.sound, left, "byte {at} bit {bit}");
    assert!(found.damaged, "byte {at} bit {bit} was not seen");
    if (at + bit).is_multiple_of(3) {
        let found = read_stream(&damaged).unwrap();
        assert_eq!(found.sound, left, "byte {at} bit {bit}, as a stream");
        assert!(found.damaged, "byte {at} bit {bit} was not seen in a stream");
    }
}

#[test]
fn bytes_overwritten_inserted_and_removed_give_no_false_sample() {
    let (bytes, _) = small();
    let mut dice = Dice::new(11);
    for round in 0..1000 {
        let mut damaged = bytes.clone();
        let at = dice.below(bytes.len() as u64) as usize;
        let most = if dice.one_in(4) { 4096 } else { 64 };
        let run = 1 + dice.below(most) as usize;
        let end = (at + run).min(damaged.len());
        match round % 5 {
            0 => damaged[at..end].iter_mut().for_each(|byte| *byte = dice.roll().to_le_bytes()[0]),
            1 => damaged[at..end].fill(0),
            2 => damaged[at..end].fill(0xff),
            3 => drop(damaged.drain(at..end)),
            _ => {
                // Bytes of the recording itself, so that sound frames stand where they do not belong.
                let from = dice.below(bytes.len() as u64) as usize;
                let copy = bytes[from..(from + run * 8).min(bytes.len())].to_vec();
                damaged.splice(at..at, copy);
            }
        }
        read_file(&damaged);
        read_stream(&damaged);
    }
}

#[test]
fn a_whole_frame_that_is_missing_is_missed() {
    let (bytes, truth) = small();
    for frame in frames(bytes).iter().filter(|frame| frame.1 == DELTA) {
        let mut without = bytes.clone();
        without.drain(frame.0..frame.0 + frame.2);
        let found = read_file(&without).unwrap();
        assert!(found.sound < truth.len() && found.damaged, "{frame:?}");
        let mut replayer = Replayer::from_bytes(without).unwrap();
        replayer.verify().unwrap();
        assert_eq!(replayer.damage()[0].lost, 1, "{:?}", replayer.damage());
        let (from, to) = (replayer.damage()[0].from.unwrap(), replayer.damage()[0].to.unwrap());
        assert!(from < to, "it says from when to when");
    }
}

#[test]
fn a_tail_of_zeros_is_a_torn_tail() {
    let (bytes, truth) = small();
    let end = frames(bytes).iter().rfind(|frame| frame.1 == DELTA).map(|frame| frame.0 + frame.2).unwrap();
    let mut zeros = bytes[..end].to_vec();
    zeros.resize(end + (4 << 20), 0);
    let mut replayer = Replayer::from_bytes(zeros.clone()).unwrap();
    assert_eq!(replayer.tail(), Tail::Torn { offset: end as u64, have: 4 << 20, need: None });
    assert_eq!(replayer.verify().unwrap(), truth.len());
    assert_eq!(read_stream(&zeros).unwrap().sound, truth.len());
}

#[test]
fn frames_of_another_recording_are_not_taken_for_ours() {
    let (bytes, truth) = small();
    let samples = few_samples(3);
    let sink = crate::support::Sink::default();
    let mut other = crate::support::options(8);
    other.identity = Some(([8; 16], 5));
    let mut recorder = stalltop::recording::Recorder::stream(sink.clone(), &crate::generator::meta(), other).unwrap();
    samples.iter().for_each(|sample| recorder.offer(sample.clone()));
    recorder.finish(crate::support::PATIENCE);
    let other = sink.0.lock().unwrap().clone();
    let second = frames(bytes)[4].0;
    let mut both = bytes.clone();
    both.splice(second..second, other);
    let found = read_file(&both).unwrap();
    assert_eq!((found.sound, found.damaged), (truth.len(), true));
}

#[test]
fn what_is_no_recording_is_named() {
    let looks = |bytes: &[u8]| Replayer::from_bytes(bytes.to_vec()).err().unwrap().to_string();
    let (bytes, _) = small();
    assert!(looks(b"").contains("empty"));
    assert!(looks(b"hello\nworld\n").contains("text"));
    assert!(looks(b"\x7fELF\x02\x01\x01").contains("ELF"));
    assert!(looks(b"\x1f\x8b\x08\0").contains("gzip"));
    assert!(looks(b"{\"version\": 2, \"width\": 80").contains("asciicast"));
    assert!(looks(&bytes[..60]).contains("cut"));
    let crlf: Vec<u8> = bytes.iter().flat_map(|&byte| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] }).collect();
    assert!(looks(&crlf).contains("text-mode"));
    let lf: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != b'\r').collect();
    assert!(looks(&lf).contains("text-mode"));
    let mut newer = bytes.clone();
    for copy in [0, 64] {
        newer[copy + 8] = 2;
        let crc = crc32c::crc32c(&newer[copy..copy + 60]);
        newer[copy + 60..copy + 64].copy_from_slice(&crc.to_le_bytes());
    }
    assert!(looks(&newer).contains("newer stalltop"));
}
