//! Kinds of damage: missing frames, tails of zeros, frames of another recording, files that are no recordings.

use stalltop::recording::{Replayer, Tail};

use crate::recorded::Recorded;
use crate::support::few_samples;

#[test]
fn the_undamaged_recording_is_intact() {
    let recorded = Recorded::small();
    let found = recorded.read_file(&recorded.bytes).unwrap();
    assert_eq!((found.sound.len(), found.damaged), (recorded.samples.len(), false));
    assert_eq!(recorded.read_pipe(&recorded.bytes), Some(found));
}

#[test]
fn a_missing_frame_is_reported() {
    let recorded = Recorded::small();
    for number in 1..recorded.samples.len() {
        let frame = recorded.frame(number);
        let mut without = recorded.bytes.clone();
        without.drain(frame.at..frame.end());
        let found = recorded.read_file(&without).unwrap();
        assert!(!found.sound.contains(&number) && found.damaged, "{frame:?}");
        // The samples that refer to it are lost, in a pipe too.
        assert_eq!(recorded.read_pipe(&without).unwrap().sound, found.sound, "{frame:?}");
        let mut replayer = Replayer::from_bytes(without).unwrap();
        replayer.verify().unwrap();
        assert_eq!(replayer.damage()[0].lost_samples, 1, "{:?}", replayer.damage());
        let (from, to) = (replayer.damage()[0].from.unwrap(), replayer.damage()[0].to.unwrap());
        assert!(from < to, "it says from when to when");
    }
}

#[test]
fn a_tail_of_zeros_is_a_torn_tail() {
    let recorded = Recorded::small();
    let count = recorded.samples.len();
    let end = recorded.frame(count - 1).end();
    let mut zeros = recorded.bytes[..end].to_vec();
    zeros.resize(end + (4 << 20), 0);
    let mut replayer = Replayer::from_bytes(zeros.clone()).unwrap();
    assert_eq!(replayer.tail(), Tail::Torn { offset: end as u64, available_bytes: 4 << 20, frame_bytes: None });
    assert_eq!(replayer.verify().unwrap(), count);
    assert_eq!(replayer.damage(), &[], "nothing is missing");
    assert_eq!(recorded.read_pipe(&zeros).unwrap().sound.len(), count);
}

#[test]
fn frames_of_another_recording_are_not_accepted() {
    let recorded = Recorded::small();
    let samples = few_samples(3);
    let sink = crate::support::Sink::default();
    let mut other = crate::support::options(8);
    other.identity = Some(([8; 16], 5));
    let mut recorder = stalltop::recording::Recorder::from_writer(sink.clone(), &crate::generator::meta(), other).unwrap();
    samples.iter().for_each(|sample| recorder.offer(sample.clone()));
    recorder.finish(crate::support::PATIENCE);
    let other = sink.0.lock().unwrap().clone();
    let second = recorded.frames[4].at;
    let mut both = recorded.bytes.clone();
    both.splice(second..second, other);
    let found = recorded.read_file(&both).unwrap();
    assert_eq!((found.sound.len(), found.damaged), (recorded.samples.len(), true));
}

#[test]
fn a_file_that_is_no_recording_is_refused_with_its_format() {
    let error_of = |bytes: &[u8]| Replayer::from_bytes(bytes.to_vec()).err().unwrap().to_string();
    let bytes = &Recorded::small().bytes;
    assert!(error_of(b"").contains("empty"));
    assert!(error_of(b"hello\nworld\n").contains("text"));
    assert!(error_of(b"\x7fELF\x02\x01\x01").contains("ELF"));
    assert!(error_of(b"\x1f\x8b\x08\0").contains("gzip"));
    assert!(error_of(b"{\"version\": 2, \"width\": 80").contains("asciicast"));
    assert!(error_of(&bytes[..60]).contains("cut"));
    let crlf: Vec<u8> = bytes.iter().flat_map(|&byte| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] }).collect();
    assert!(error_of(&crlf).contains("text-mode"));
    let lf: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != b'\r').collect();
    assert!(error_of(&lf).contains("text-mode"));
    let mut newer = bytes.clone();
    for copy in [0, 64] {
        newer[copy + 8] = 2;
        let crc = crc32c::crc32c(&newer[copy..copy + 60]);
        newer[copy + 60..copy + 64].copy_from_slice(&crc.to_le_bytes());
    }
    assert!(error_of(&newer).contains("newer stalltop"));
}
