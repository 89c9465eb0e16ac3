//! Recordings made of a fuzzer's bytes by docs/recording-format.md, not by the code under test; and reading them.

#![allow(dead_code)]

#[path = "../recording/generator.rs"]
mod generator;
#[path = "../recording/payload.rs"]
mod payload;
#[path = "../support/synthetic.rs"]
mod synthetic;

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use stalltop::recording::{
    FrameSummary, Recorder, RecorderOptions, RecordingError, Replayer, StreamEvent, StreamReader, SummarySeverity,
};
use stalltop::sample::Sample;

const ID: [u8; 16] = [9; 16];
const HEADER: usize = 52;
const KEY: u8 = 3;
const DELTA: u8 = 4;
const INDEX: u8 = 7;
const END: u8 = 8;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A sound recording of 12 samples, and the samples.
fn sound() -> &'static (Vec<u8>, Vec<Arc<Sample>>) {
    static SOUND: OnceLock<(Vec<u8>, Vec<Arc<Sample>>)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let mut machine = generator::Machine::new(7, 3, 4, 1, 1);
        let samples: Vec<_> = (0..12).map(|_| machine.next()).collect();
        (record(&samples), samples)
    })
}

fn record(samples: &[Arc<Sample>]) -> Vec<u8> {
    let sink = Sink::default();
    let options = RecorderOptions { queue_capacity: samples.len() + 1, identity: Some((ID, 0)), ..RecorderOptions::default() };
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
    let summary = FrameSummary { busy: 100, blocked: 7, worst_severity: SummarySeverity::Warning };
    samples.iter().for_each(|sample| recorder.offer_with_summary(sample.clone(), summary));
    recorder.finish(Duration::from_secs(60));
    sink.0.lock().unwrap().clone()
}

/// Where the frames of the sound recording end, from its file header on.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![128];
    while let Some(&at) = ends.last().filter(|&&at| at < bytes.len()) {
        let stored = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        ends.push(at + HEADER + stored as usize);
    }
    ends
}

/// File header and meta frame.
fn start() -> Vec<u8> {
    let (bytes, _) = sound();
    bytes[..ends(bytes)[1]].to_vec()
}

/// Everything before the first delta.
fn start_and_key() -> Vec<u8> {
    let (bytes, _) = sound();
    let key = ends(bytes).into_iter().find(|&at| bytes[at + 4] == DELTA).unwrap();
    bytes[..key].to_vec()
}

/// Puts the checksums of a frame right.
fn seal(header: &mut [u8], payload: &[u8]) {
    header[..4].copy_from_slice(b"\xf5\x9dFr");
    header[44..48].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&ID), &header[..48]);
    header[48..52].copy_from_slice(&crc.to_le_bytes());
}

fn frame(kind: u8, distance: u16, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; HEADER];
    header[4] = kind;
    header[6..8].copy_from_slice(&distance.to_le_bytes());
    header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    header[24..32].copy_from_slice(&(1_000_000_000_000 + sequence * 1_000_000_000).to_le_bytes());
    seal(&mut header, payload);
    [header, payload.to_vec()].concat()
}

/// A file header and a meta frame, then these bytes as frames with right checksums. A length that claims too much stays a
/// lie.
pub fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut out = start();
    let mut rest = bytes;
    while let Some((header, after)) = rest.split_at_checked(HEADER) {
        let mut header = header.to_vec();
        let stored = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let (payload, next) = after.split_at(stored.min(after.len()));
        seal(&mut header, payload);
        out.extend(header);
        out.extend(payload);
        rest = next;
    }
    out
}

/// A sound key frame, then samples with these payloads: each a byte (bit 0: a key frame; bits 6 and 7: numbers left out), two
/// of length, the payload as it is.
pub fn sound_then(bytes: &[u8]) -> Vec<u8> {
    let mut out = start_and_key();
    let (mut key, mut sequence) = (0, 0);
    let mut rest = bytes;
    while let Some((&[how, low, high], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([low, high]));
        let (payload, next) = after.split_at(length.min(after.len()));
        sequence += 1 + u64::from(how >> 6);
        if how & 1 == 1 {
            key = sequence;
        }
        let kind = if key == sequence { KEY } else { DELTA };
        out.extend(frame(kind, (sequence - key).min(65_535) as u16, sequence, payload));
        rest = next;
    }
    out
}

/// The intact recording with this index, and its samples.
pub fn indexed_with(index: &[u8]) -> (Vec<u8>, &'static [Arc<Sample>]) {
    let (bytes, samples) = sound();
    let ends = ends(bytes);
    let at = ends[ends.len() - 3];
    let mut out = bytes[..at].to_vec();
    out.extend(frame(INDEX, 0, 12, index));
    out.extend(frame(END, 0, 12, &[(at as u64).to_le_bytes(), 12u64.to_le_bytes()].concat()));
    (out, samples)
}

/// All samples that a file gives, in order.
pub fn read_file(bytes: Vec<u8>) -> Vec<Arc<Sample>> {
    let Ok(mut replayer) = Replayer::from_bytes(bytes) else { return Vec::new() };
    // By the index first, whatever it says.
    for place in 0..replayer.len().min(64) {
        let _ = replayer.sample(place);
    }
    let sound = replayer.verify().expect("memory can always be read");
    let mut samples = Vec::new();
    for place in 0..replayer.len() {
        let _ = replayer.frame_summary(place);
        match replayer.sample(place) {
            Ok(sample) => samples.push(sample),
            Err(RecordingError::DamagedFrame { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(samples.len(), sound, "verify sees what replay sees");
    assert!(sound == replayer.len() || !replayer.damage().is_empty(), "damage without a word");
    samples
}

/// The same from a pipe.
pub fn read_stream(bytes: &[u8]) -> Vec<Arc<Sample>> {
    let mut samples = Vec::new();
    let Ok(mut reader) = StreamReader::open(bytes) else { return samples };
    while let Some(event) = reader.next_event().expect("memory can always be read") {
        if let StreamEvent::Sample(sample) = event {
            samples.push(sample);
        }
    }
    samples
}

/// What fuzzing begins with: seeds for each target that reads recordings.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (bytes, _) = sound();
    let mut seeds = vec![("file", bytes.clone()), ("file", bytes[..bytes.len() / 2].to_vec())];
    seeds.push(("frames", bytes[128..].to_vec()));
    // Samples with everything in them that there can be.
    for bytes in [bytes, &record(&generator::strange_samples(&mut generator::Dice::new(2), 5))] {
        let ends = ends(bytes);
        seeds.push(("index", unpacked(&bytes[ends[ends.len() - 3]..]).1));
        let (mut plain, mut payloads) = (Vec::new(), Vec::new());
        for &at in ends.iter().filter(|&&at| at < bytes.len()) {
            let (header, payload) = unpacked(&bytes[at..]);
            plain.extend(header);
            plain.extend(&payload);
            if matches!(bytes[at + 4], KEY | DELTA) {
                payloads.push(u8::from(bytes[at + 4] == KEY));
                payloads.extend((payload.len() as u16).to_le_bytes());
                payloads.extend(payload);
            }
        }
        seeds.push(("frames", plain));
        seeds.push(("delta", payloads));
    }
    seeds
}

/// A frame's header and payload as they would be without compression.
fn unpacked(frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut header = frame[..HEADER].to_vec();
    let stored = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
    let payload = payload::unpacked(header[5], &frame[HEADER..HEADER + stored]);
    header[5] = 0;
    header.copy_within(12..16, 8);
    (header, payload)
}
