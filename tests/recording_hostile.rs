//! Recordings from somebody who means harm: every checksum is right, and what it covers is a lie. Nothing panics,
//! nothing hangs, nothing allocates more than a frame may hold.
//!
//! The frames are made here by docs/recording-format.md, not by the code under test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "recording/generator.rs"]
mod generator;
#[path = "recording/support.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use generator::Dice;
use stalltop::recording::{Replayer, StreamReader};

/// Counts what is allocated, and the most there ever was.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, or their memory is not told apart.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The most memory that `run` held at once, beyond what there was before.
fn memory_of(run: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    run();
    PEAK.load(Ordering::Relaxed) - before
}

const ID: [u8; 16] = [9; 16];
const MIB: usize = 1 << 20;

const INDEX: u8 = 7;
const END: u8 = 8;

/// A frame as the document describes it.
#[derive(Clone)]
struct Frame {
    kind: u8,
    compressed: bool,
    key_distance: u16,
    /// What the header says, where that is not the truth.
    stored: Option<u32>,
    raw: Option<u32>,
    sequence: u64,
    boottime_ns: u64,
    payload: Vec<u8>,
    /// Bytes that are stored as they are.
    packed: Option<Vec<u8>>,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let stored = match &self.packed {
            Some(packed) => packed.clone(),
            None if self.compressed => zstd::bulk::compress(&self.payload, 3).unwrap(),
            None => self.payload.clone(),
        };
        let mut bytes = b"\xf5\x9dFr".to_vec();
        bytes.extend([self.kind, u8::from(self.compressed)]);
        bytes.extend(self.key_distance.to_le_bytes());
        bytes.extend(self.stored.unwrap_or(stored.len() as u32).to_le_bytes());
        bytes.extend(self.raw.unwrap_or(self.payload.len() as u32).to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.boottime_ns.to_le_bytes());
        bytes.extend(0i64.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(crc32c::crc32c(&stored).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&ID), &bytes);
        bytes.extend(crc.to_le_bytes());
        bytes.extend(stored);
        bytes
    }

    fn key(payload: Vec<u8>) -> Frame {
        Frame {
            kind: 3,
            compressed: true,
            key_distance: 0,
            stored: None,
            raw: None,
            sequence: 0,
            boottime_ns: 1,
            payload,
            packed: None,
        }
    }
}

/// A sound recording taken apart: what stands before its first sample, and its sample frames.
fn taken_apart(count: usize) -> (Vec<u8>, Vec<Frame>) {
    let bytes = support::record(&support::few_samples(count));
    let mut frames = Vec::new();
    let mut start = None;
    let mut at = 128;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    while at < bytes.len() {
        let (kind, flags) = (bytes[at + 4], bytes[at + 5]);
        let stored = word(at + 8) as usize;
        if kind == 3 || kind == 4 {
            start.get_or_insert(at);
            let payload = &bytes[at + 52..at + 52 + stored];
            let payload = if flags == 1 { zstd::bulk::decompress(payload, 64 * MIB).unwrap() } else { payload.to_vec() };
            let frame = Frame {
                kind,
                compressed: flags == 1,
                key_distance: u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]),
                stored: None,
                raw: None,
                sequence: long(at + 16),
                boottime_ns: long(at + 24),
                payload,
                packed: None,
            };
            frames.push(frame);
        }
        at += 52 + stored;
    }
    (bytes[..start.unwrap()].to_vec(), frames)
}

fn put_together(start: &[u8], frames: &[Frame]) -> Vec<u8> {
    let mut bytes = start.to_vec();
    frames.iter().for_each(|frame| bytes.extend(frame.bytes()));
    bytes
}

/// How many samples could be read, by file and by pipe; neither may panic or hang.
fn read(bytes: &[u8]) -> usize {
    let mut sound = 0;
    if let Ok(mut replayer) = Replayer::from_bytes(bytes.to_vec()) {
        for index in 0..replayer.len() {
            sound += usize::from(replayer.sample(index).is_ok());
        }
        let _ = replayer.verify();
    }
    let mut reader = StreamReader::open(bytes).unwrap();
    while let Ok(Some(_)) = reader.event() {}
    sound
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn section(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

#[test]
fn the_frames_made_here_are_read_there() {
    let _alone = alone();
    let (start, frames) = taken_apart(5);
    assert_eq!(read(&put_together(&start, &frames)), 5);
}

#[test]
fn lengths_that_lie_are_refused_before_anything_is_allocated() {
    let _alone = alone();
    let (start, frames) = taken_apart(3);
    for lie in [0, 1, 51, 1 << 24, (1 << 24) + 1, 1 << 26, (1 << 26) + 1, 1 << 31, u32::MAX - 51, u32::MAX] {
        for which in 0..3 {
            let mut lying = frames.clone();
            let memory = memory_of(|| {
                lying[which].stored = Some(lie);
                assert!(read(&put_together(&start, &lying)) < 3);
                lying[which].stored = None;
                lying[which].raw = Some(lie);
                assert!(read(&put_together(&start, &lying)) < 3);
            });
            assert!(memory < 16 * MIB, "{lie} in frame {which}: {} MiB", memory / MIB);
        }
    }
}

#[test]
fn bombs_stop_at_the_cap() {
    let _alone = alone();
    let (start, _) = taken_apart(1);
    let zeros = zstd::stream::encode_all(std::io::repeat(0).take(800 << 20), 3).unwrap();
    for raw in [1000, 64 << 20] {
        let bomb = Frame { packed: Some(zeros.clone()), raw: Some(raw), ..Frame::key(Vec::new()) };
        let bytes = put_together(&start, &[bomb]);
        let memory = memory_of(|| assert_eq!(read(&bytes), 0));
        assert!(memory < 200 * MIB, "{} MiB", memory / MIB);
    }
}

use std::io::Read;

#[test]
fn counts_that_lie_are_refused_in_every_section() {
    let _alone = alone();
    let (start, _) = taken_apart(1);
    for count in [1u64 << 20, 4_000_000_000, 1 << 40, u64::MAX >> 2, u64::MAX] {
        for number in 1..=15 {
            for fate in 0..4 {
                let run = varint(count.wrapping_shl(2) | fate);
                for table in [
                    varint(count),
                    [varint(1), run.clone()].concat(),
                    [varint(1), run.clone(), varint(1), varint(0)].concat(),
                    [varint(1), run.clone(), varint(count)].concat(),
                    [varint(1), run, varint(1), varint(0), vec![2; 5000]].concat(),
                ] {
                    let bytes = put_together(&start, &[Frame::key(section(number, &table))]);
                    let memory = memory_of(|| assert_eq!(read(&bytes), 0));
                    assert!(memory < 16 * MIB, "count {count} in section {number}: {} MiB", memory / MIB);
                }
            }
        }
    }
}

/// As large as a table may be, from few bytes.
#[test]
fn the_largest_tables_stay_below_their_cap() {
    let _alone = alone();
    let (start, frames) = taken_apart(1);
    for (number, width) in [(3, 17), (4, 40), (5, 40), (8, 32), (9, 28), (11, 36), (14, 16)] {
        for rows in [(4 << 20) / width, (4 << 20) / width + 1, 8 << 20] {
            let rows = rows as u64;
            let table = [varint(1), varint(rows << 2 | 2), varint(1), varint(0), vec![0; rows as usize]].concat();
            // In the place of that table in a sound sample.
            let mut payload = Vec::new();
            let mut rest = frames[0].payload.as_slice();
            while !rest.is_empty() {
                let (found, after) = (take_varint(&mut rest), take_varint(&mut rest) as usize);
                let (bytes, left) = rest.split_at(after);
                rest = left;
                if found != number {
                    payload.extend(section(found, bytes));
                }
            }
            payload.extend(section(number, &table));
            let bytes = put_together(&start, &[Frame::key(payload)]);
            let memory = memory_of(|| {
                read(&bytes);
            });
            assert!(memory < 320 * MIB, "section {number}, {rows} rows: {} MiB", memory / MIB);
        }
    }
}

fn take_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in 0.. {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            break;
        }
    }
    value
}

#[test]
fn references_that_lie_lose_their_frame_only() {
    let _alone = alone();
    let (start, frames) = taken_apart(12);
    for which in 1..12 {
        for distance in [0, 1, 3, 64, 127, 128, 9999, u16::MAX] {
            let mut lying = frames.clone();
            if lying[which].key_distance == distance {
                continue;
            }
            lying[which].key_distance = distance;
            let sound = read(&put_together(&start, &lying));
            assert!(sound < 12, "frame {which} at distance {distance}");
        }
    }
    // Without its key frame nothing is left; a key frame that comes later is none.
    assert_eq!(read(&put_together(&start, &frames[1..])), 0);
}

#[test]
fn an_index_that_lies_is_not_believed() {
    let _alone = alone();
    let samples = support::few_samples(10);
    let bytes = support::record(&samples);
    let end = bytes.len() - 68;
    let index_at = u64::from_le_bytes(bytes[end + 52..end + 60].try_into().unwrap()) as usize;
    let stored = u32::from_le_bytes(bytes[index_at + 8..index_at + 12].try_into().unwrap()) as usize;
    let payload = &bytes[index_at + 52..index_at + 52 + stored];
    let raw = if bytes[index_at + 5] == 1 { zstd::bulk::decompress(payload, MIB).unwrap() } else { payload.to_vec() };
    let mut dice = Dice::new(5);
    let mut believed = 0;
    for _ in 0..800 {
        let mut lie = raw.clone();
        for _ in 0..1 + dice.below(3) {
            let at = dice.below(lie.len() as u64) as usize;
            lie[at] = dice.roll() as u8;
        }
        let index = Frame { kind: INDEX, sequence: 10, ..Frame::key(lie) };
        let mut changed = bytes[..index_at].to_vec();
        changed.extend(index.bytes());
        let payload = [(index_at as u64).to_le_bytes(), 10u64.to_le_bytes()].concat();
        changed.extend(Frame { kind: END, compressed: false, sequence: 10, ..Frame::key(payload) }.bytes());
        let mut replayer = Replayer::from_bytes(changed).unwrap();
        believed += usize::from(replayer.is_indexed());
        let mut read = Vec::new();
        let mut index = 0;
        while index < replayer.len() {
            if let Ok(sample) = replayer.sample(index) {
                assert!(samples.contains(&sample), "a sample that was never recorded");
                read.push(sample);
            }
            index += 1;
        }
        assert_eq!(replayer.verify().unwrap(), 10, "the walk finds all");
    }
    assert!(believed < 800);
}

/// Bytes of sound payloads changed, with checksums to match: anything may come out, but orderly.
#[test]
fn payloads_that_were_tampered_with_do_no_harm() {
    let _alone = alone();
    let (start, frames) = taken_apart(6);
    let mut dice = Dice::new(3);
    let rounds = if std::env::var_os("STALLTOP_FULL").is_some() { 200_000 } else { 1500 };
    for round in 0..rounds {
        let mut changed = frames.clone();
        for _ in 0..1 + dice.below(4) {
            let which = dice.below(6) as usize;
            let payload = &mut changed[which].payload;
            let at = dice.below(payload.len() as u64) as usize;
            match dice.below(4) {
                0 => payload[at] = dice.roll() as u8,
                1 => payload[at] ^= 1 << dice.below(8),
                2 => drop(payload.splice(at..at, varint(dice.roll() >> dice.below(64)))),
                _ => {
                    let end = (at + 1 + dice.below(20) as usize).min(payload.len());
                    payload.drain(at..end);
                }
            }
        }
        let bytes = put_together(&start, &changed);
        let memory = memory_of(|| {
            read(&bytes);
        });
        assert!(memory < 320 * MIB, "round {round}: {} MiB", memory / MIB);
    }
}
