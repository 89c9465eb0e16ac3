//! Hostile recordings: every checksum is right, and the contents are wrong on purpose. Nothing panics,
//! nothing hangs, nothing allocates more than a frame may hold.
//!
//! The frames are made here as docs/recording-format.md describes them, not by the code under test.

use std::io::Read;

use stalltop::recording::{Replayer, StreamEvent, StreamReader};

use crate::generator::Dice;
use crate::measure::{MIB, Trials, full};
use crate::payload::unpacked;
use crate::support;
use crate::varint::take_varint;

const ID: [u8; 16] = [9; 16];

const HEADER: usize = 52;
const INDEX: u8 = 7;
const END: u8 = 8;
const FRAME_SUMMARY: u8 = 9;

/// A frame as the document describes it.
#[derive(Clone)]
struct Frame {
    kind: u8,
    compressed: bool,
    key_distance: u16,
    /// Lengths of the header, where they are not the right ones.
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

/// Parts of an intact recording: the bytes before its first sample, and its sample frames.
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
            let payload = unpacked(flags, &bytes[at + 52..at + 52 + stored]);
            let frame = Frame {
                kind,
                compressed: flags != 0,
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

/// Number of samples that could be read from a file; the same bytes are read from a pipe. Neither may panic or hang.
fn read(bytes: &[u8]) -> usize {
    let mut reader = StreamReader::open(bytes).unwrap();
    while let Ok(Some(_)) = reader.next_event() {}
    by_file(bytes)
}

fn by_file(bytes: &[u8]) -> usize {
    let Ok(mut replayer) = Replayer::from_bytes(bytes.to_vec()) else { return 0 };
    let sound = (0..replayer.len()).filter(|&index| replayer.sample(index).is_ok()).count();
    let _ = replayer.verify();
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
fn frames_built_from_the_format_document_are_read() {
    let (start, frames) = taken_apart(5);
    assert_eq!(read(&put_together(&start, &frames)), 5);
}

#[test]
fn wrong_lengths_are_refused_before_anything_is_allocated() {
    let (start, frames) = taken_apart(3);
    let mut trials = Trials::new("wrong lengths", 3);
    for lie in [0, 1, 51, 1 << 24, (1 << 24) + 1, 1 << 26, (1 << 26) + 1, 1 << 31, u32::MAX - 51, u32::MAX] {
        for which in 0..3 {
            let mut lying = frames.clone();
            for (stored, raw) in [(Some(lie), None), (None, Some(lie))] {
                (lying[which].stored, lying[which].raw) = (stored, raw);
                trials.run(16 * MIB, || {
                    let sound = read(&put_together(&start, &lying));
                    assert!(sound < 3, "{lie} in frame {which}");
                    3 - sound
                });
            }
        }
    }
}

/// A reader of a pipe buffers a whole frame: it buffers nothing of a frame that exceeds the limit, although so many
/// bytes follow.
#[test]
fn a_frame_longer_than_any_may_be_is_not_waited_for() {
    let (start, mut frames) = taken_apart(3);
    let mut trials = Trials::new("frames longer than any may be, in a pipe", 3);
    for stored in [(16 << 20) + 1, 1 << 26] {
        frames[1].stored = Some(stored);
        let mut bytes = put_together(&start, &frames);
        bytes.resize(bytes.len() + (80 << 20), 0);
        trials.run(4 * MIB, || {
            let mut reader = StreamReader::open(bytes.as_slice()).unwrap();
            let mut sound = 0;
            while let Ok(Some(event)) = reader.next_event() {
                sound += usize::from(matches!(event, StreamEvent::Sample(_)));
            }
            assert!((1..3).contains(&sound), "{sound} with a length of {stored}");
            3 - sound
        });
    }
}

#[test]
fn decompression_bombs_stop_at_the_limit() {
    let (start, _) = taken_apart(1);
    // More than the memory that may be used.
    let (size, what) =
        if full() { (800 << 20, "800 MiB compressed into a frame") } else { (256 << 20, "256 MiB compressed into a frame") };
    let zeros = zstd::stream::encode_all(std::io::repeat(0).take(size), 3).unwrap();
    let mut trials = Trials::new(what, 1);
    for raw in [1000, 64 << 20] {
        let bomb = Frame { packed: Some(zeros.clone()), raw: Some(raw), ..Frame::key(Vec::new()) };
        let bytes = put_together(&start, &[bomb]);
        trials.run(200 * MIB, || 1 - read(&bytes));
    }
}

#[test]
fn wrong_counts_are_refused_in_every_section() {
    let (start, _) = taken_apart(1);
    let mut trials = Trials::new("wrong counts in every section", 1);
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
                    trials.run(16 * MIB, || {
                        assert_eq!(read(&bytes), 0, "count {count} in section {number}");
                        1
                    });
                }
            }
        }
    }
}

/// Sections that only a later minor version has are ignored.
#[test]
fn unknown_sections_are_ignored() {
    let (start, mut frames) = taken_apart(12);
    let samples = support::few_samples(12);
    for frame in &mut frames {
        frame.payload = [section(1 << 20, b"later"), frame.payload.clone(), section(1 << 40, &[7; 300])].concat();
    }
    let mut replayer = Replayer::from_bytes(put_together(&start, &frames)).unwrap();
    for (index, sample) in samples.iter().enumerate() {
        let read = replayer.sample(index).unwrap();
        assert_eq!((&read.tasks, &read.disks, &read.waits), (&sample.tasks, &sample.disks, &sample.waits));
    }
}

/// A table of so many new rows: the first one, then the others with `others` in column 0.
fn new_rows(rows: usize, others: &[u8]) -> Vec<u8> {
    [varint(1), varint((rows as u64) << 2 | 2), vec![1, 0, 0, 1], others.to_vec()].concat()
}

/// Column 0 as a varint for each of so many rows.
fn a_byte_a_row(rows: usize) -> Vec<u8> {
    [vec![0], vec![0; rows]].concat()
}

/// Column 0 packed into a bit for each of so many rows.
fn a_bit_a_row(rows: usize) -> Vec<u8> {
    [vec![1, 0, 1], vec![0xff; rows.div_ceil(8)]].concat()
}

/// As large as a table may be, from few bytes.
#[test]
fn the_largest_tables_stay_below_their_cap() {
    let (start, frames) = taken_apart(1);
    let mut trials = Trials::new("the largest tables that few bytes can make", 1);
    let tables = [(3, 17), (9, 29), (4, 40), (5, 40), (8, 48), (11, 36), (14, 17)];
    for (number, width) in tables.into_iter().take(if full() { 7 } else { 2 }) {
        for rows in [(4 << 20) / width, (4 << 20) / width + 1, 8 << 20] {
            // In place of that table in an intact sample.
            let mut sound = Vec::new();
            let mut rest = frames[0].payload.as_slice();
            while !rest.is_empty() {
                let (found, after) = (take_varint(&mut rest), take_varint(&mut rest) as usize);
                let (bytes, left) = rest.split_at(after);
                rest = left;
                if found != number {
                    sound.extend(section(found, bytes));
                }
            }
            for others in [a_byte_a_row(rows - 1), a_bit_a_row(rows - 1)] {
                let payload = [sound.clone(), section(number, &new_rows(rows, &others))].concat();
                let bytes = put_together(&start, &[Frame::key(payload)]);
                trials.run(320 * MIB, || 1 - read(&bytes));
            }
        }
    }
}

/// Each table may be as large; together they would be many times that, and all are in memory at once.
#[test]
fn all_the_largest_tables_together_are_refused() {
    let (start, frames) = taken_apart(1);
    let mut trials = Trials::new("all tables as large as each may be, in one frame", 1);
    let tables: [(u64, usize); 12] =
        [(3, 17), (4, 40), (5, 40), (6, 16), (7, 48), (8, 48), (9, 29), (11, 36), (12, 32), (15, 16), (16, 48), (21, 16)];
    let mut payload = Vec::new();
    let mut rest = frames[0].payload.as_slice();
    while !rest.is_empty() {
        let (found, after) = (take_varint(&mut rest), take_varint(&mut rest) as usize);
        let (bytes, left) = rest.split_at(after);
        rest = left;
        if tables.iter().all(|(number, _)| *number != found) {
            payload.extend(section(found, bytes));
        }
    }
    for (number, width) in tables {
        let rows = (4 << 20) / width;
        payload.extend(section(number, &new_rows(rows, &a_bit_a_row(rows - 1))));
    }
    let bytes = put_together(&start, &[Frame::key(payload)]);
    trials.run(260 * MIB, || {
        assert_eq!(read(&bytes), 0);
        1
    });
}

/// Opening a recording that was not closed reads its summary frames; those of more samples than there are are not decompressed.
#[test]
fn summaries_of_more_samples_than_there_are_are_not_decompressed() {
    let (start, samples) = taken_apart(10);
    let many = 20_usize << 20;
    let payload = [varint(many as u64), vec![1; 3 * many]].concat();
    let lie = Frame { kind: FRAME_SUMMARY, sequence: 10, ..Frame::key(payload) }.bytes();
    let bytes = [put_together(&start, &samples), lie.repeat(40)].concat();
    let mut trials = Trials::new("frame summaries of more samples than there are", 10);
    trials.run(8 * MIB, || {
        let replayer = Replayer::from_bytes(bytes.clone()).unwrap();
        assert!((0..10).all(|index| replayer.frame_summary(index).is_none()));
        10 - replayer.len()
    });
    assert_eq!(trials.lost(), 0);
}

#[test]
fn wrong_references_lose_their_frame_only() {
    let (start, frames) = taken_apart(12);
    let mut trials = Trials::new("references to itself, ahead, to nothing", 12);
    for which in 1..12 {
        for distance in [0, 1, 3, 64, 127, 128, 9999, u16::MAX] {
            let mut lying = frames.clone();
            if lying[which].key_distance == distance {
                continue;
            }
            lying[which].key_distance = distance;
            trials.run(16 * MIB, || {
                let sound = read(&put_together(&start, &lying));
                assert!(sound < 12, "frame {which} at distance {distance}");
                12 - sound
            });
        }
    }
    // Without its key frame nothing is left.
    assert_eq!(read(&put_together(&start, &frames[1..])), 0);
}

/// A header that claims megabytes every 52 bytes, and many frames with damaged payloads: the bytes that are read must not grow
/// with the square of the file.
#[test]
fn nested_headers_and_much_damage_take_linear_time() {
    let (start, frames) = taken_apart(1);
    let count = if full() { 80_000 } else { 8000 };
    let mut trials = Trials::new("nested headers", count);
    for stored in [1000, 100 << 10, 2 << 20] {
        let header = |sequence| Frame { sequence, stored: Some(stored), packed: Some(Vec::new()), ..frames[0].clone() };
        let mut bytes = start.clone();
        (0..count).for_each(|sequence| bytes.extend(header(sequence as u64).bytes()));
        trials.run(64 * MIB, || count - read(&bytes));
    }
    drop(trials);
    let mut trials = Trials::new("payloads that are all damaged", count);
    let mut bytes = start.clone();
    for sequence in 0..count {
        let mut frame = Frame { sequence: sequence as u64, compressed: false, ..Frame::key(vec![1; 8]) }.bytes();
        frame[HEADER] ^= 1;
        bytes.extend(frame);
    }
    trials.run(64 * MIB, || count - read(&bytes));
}

#[test]
fn a_wrong_index_is_not_used() {
    let samples = support::few_samples(10);
    let bytes = support::record(&samples);
    let end = bytes.len() - 68;
    let index_at = u64::from_le_bytes(bytes[end + 52..end + 60].try_into().unwrap()) as usize;
    let stored = u32::from_le_bytes(bytes[index_at + 8..index_at + 12].try_into().unwrap()) as usize;
    let raw = unpacked(bytes[index_at + 5], &bytes[index_at + 52..index_at + 52 + stored]);
    let mut dice = Dice::new(5);
    let mut believed = 0;
    let rounds = if full() { 100_000 } else { 100 };
    let mut trials = Trials::new("a wrong index", 10);
    for _ in 0..rounds {
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
        trials.run(16 * MIB, || {
            let mut replayer = Replayer::from_bytes(changed).unwrap();
            believed += usize::from(replayer.is_indexed());
            let mut index = 0;
            while index < replayer.len() {
                if let Ok(sample) = replayer.sample(index) {
                    assert!(samples.contains(&sample), "a sample that was never recorded");
                }
                index += 1;
            }
            10 - replayer.verify().unwrap()
        });
    }
    assert_eq!(trials.lost(), 0, "the walk finds all");
    assert!(believed < rounds);
}

/// Changed bytes of intact payloads, with right checksums: any result, but no panic and no hang.
#[test]
fn manipulated_payloads_do_no_harm() {
    let (start, frames) = taken_apart(6);
    let mut dice = Dice::new(3);
    let rounds = if full() { 200_000 } else { 150 };
    let mut trials = Trials::new("manipulated payloads with correct checksums", 6);
    for _ in 0..rounds {
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
        trials.run(320 * MIB, || 6 - read(&bytes));
    }
}
