//! The last minutes of a live session, or of `record --armed`, in memory, encoded as in a recording.

use std::collections::VecDeque;
use std::io::Write;
use std::iter::Peekable;
use std::sync::Arc;

use super::frame_writer::{FrameWriter, SampleEncoder, SampleFrame, Sections, new_file_identity};
use crate::recording::Timestamp;
use crate::recording::error::{FrameError, Location, RecordingError};
use crate::recording::format::compression::{CompressedPayload, PayloadDecompressor};
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::meta::{Gap, GapReason, Mark, Meta, Redaction};
use crate::recording::format::references::reference_chain;
use crate::recording::read::decoder::SampleParts;
use crate::recording::read::sample_decoder::SampleDecoder;
use crate::recording::storage::{Storage, StreamStorage, write_all};
use crate::recording::write::encoder::FrameTooLarge;
use crate::sample::Sample;

/// Marks and gaps that are kept at most: the oldest ones are dropped.
const MAX_MARKS: usize = 500;
const MAX_GAPS: usize = 500;

/// Each of the first samples is a key frame: facts about tasks are still being read, so that nearly all rows change, and a
/// sample that others refer to is kept for minutes with all its tasks.
const WARM_UP_SAMPLES: u64 = 3;

/// Keeps whole key groups, and drops the oldest one once the rest is enough.
pub struct HistoryRing {
    redaction: Redaction,
    /// Made with the first sample that is not encoded yet: its state is a third of a megabyte
    encoder: Option<SampleEncoder>,
    key_groups: VecDeque<Vec<SampleFrame>>,
    /// Samples and bytes in `key_groups`
    len: usize,
    bytes: usize,
    /// Samples that were dropped: the number of the first one that is kept.
    evicted: u64,
    /// Between the samples, by the number of samples before them.
    marks: VecDeque<Mark>,
    gaps: VecDeque<Gap>,
    min_samples: usize,
    max_bytes: usize,
    decoder: SampleDecoder,
    decompressor: PayloadDecompressor,
}

impl HistoryRing {
    /// Keeps at least the last `samples`, and at most a key group more, as long as they fit into `bytes`.
    pub fn new(samples: usize, bytes: usize, redaction: Redaction) -> HistoryRing {
        HistoryRing {
            redaction,
            encoder: None,
            key_groups: VecDeque::new(),
            len: 0,
            bytes: 0,
            evicted: 0,
            marks: VecDeque::new(),
            gaps: VecDeque::new(),
            min_samples: samples.max(1),
            max_bytes: bytes,
            decoder: SampleDecoder::new(SampleParts::All),
            decompressor: PayloadDecompressor::default(),
        }
    }

    /// Adds the newest sample; `false` if it is too large for a frame.
    pub fn push(&mut self, sample: &Arc<Sample>) -> bool {
        self.push_with_summary(sample, FrameSummary::default())
    }

    /// The same with its summary.
    pub fn push_with_summary(&mut self, sample: &Arc<Sample>, summary: FrameSummary) -> bool {
        let encoder = self.encoder.get_or_insert_with(|| SampleEncoder::new(self.redaction));
        if self.evicted + self.len as u64 <= WARM_UP_SAMPLES {
            encoder.force_key_frame();
        }
        match encoder.encode(sample, summary) {
            Ok(frame) => self.push_frame(frame),
            Err(FrameTooLarge) => return false,
        }
        true
    }

    /// Adds a sample that another recorder has encoded. All samples of a ring must be so. `false` if it refers to one that is not
    /// here.
    pub fn push_encoded(&mut self, frame: SampleFrame) -> bool {
        let expected = self.key_groups.back().map_or(0, Vec::len);
        if !frame.is_key() && usize::from(frame.key_distance) != expected {
            return false;
        }
        self.push_frame(frame);
        true
    }

    fn push_frame(&mut self, frame: SampleFrame) {
        self.len += 1;
        self.bytes += frame.frame_len();
        match self.key_groups.back_mut() {
            Some(group) if !frame.is_key() => group.push(frame),
            _ => self.key_groups.push_back(vec![frame]),
        }
        while self.key_groups.len() > 1 {
            let oldest = self.key_groups.front().map(Vec::as_slice).unwrap_or_default();
            if self.len - oldest.len() < self.min_samples && self.bytes <= self.max_bytes {
                break;
            }
            let (count, bytes) = (oldest.len(), oldest.iter().map(SampleFrame::frame_len).sum::<usize>());
            self.len -= count;
            self.bytes -= bytes;
            self.evicted += count as u64;
            self.key_groups.pop_front();
        }
        while self.marks.front().is_some_and(|mark| mark.samples_before < self.evicted) {
            self.marks.pop_front();
        }
        while self.gaps.front().is_some_and(|gap| gap.samples_before <= self.evicted) {
            self.gaps.pop_front();
        }
    }

    /// Adds a gap of `count` samples before the next one, which has that timestamp.
    pub fn add_missed(&mut self, count: u64, next: Timestamp) {
        let from = self.len.checked_sub(1).and_then(|last| self.timestamp(last)).unwrap_or(next);
        self.add_gap(&Gap { samples_before: 0, lost_samples: count, from, to: next, reason: GapReason::NotSampled });
    }

    /// Adds a gap after the newest sample.
    pub fn add_gap(&mut self, gap: &Gap) {
        if gap.lost_samples > 0 && self.len > 0 {
            self.gaps.push_back(Gap { samples_before: self.evicted + self.len as u64, ..gap.clone() });
        }
        if self.gaps.len() > MAX_GAPS {
            self.gaps.pop_front();
        }
    }

    /// Adds a mark after the newest sample.
    pub fn add_mark(&mut self, at: Timestamp, text: &str) {
        let Some(text) = Mark::sanitize(text) else { return };
        if self.marks.len() >= MAX_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { samples_before: self.evicted + self.len as u64, at, text });
    }

    /// The marks between the samples that are kept, in order.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter()
    }

    /// All that is kept, for a recorder to begin with.
    pub fn backlog(&self) -> FrameBacklog {
        FrameBacklog {
            frames: self.key_groups.iter().flatten().cloned().collect(),
            first_sequence: self.evicted,
            marks: self.marks.iter().cloned().collect(),
            gaps: self.gaps.iter().cloned().collect(),
        }
    }

    /// Samples that are kept.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all frames that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Samples that were dropped: `sample(0)` was pushed as number `evicted()`, counted from 0.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    pub fn timestamp(&self, index: usize) -> Option<Timestamp> {
        self.frame_in_group(index).map(|(_, frame)| frame.at)
    }

    /// What was evaluated for the interval that the sample ends.
    pub fn frame_summary(&self, index: usize) -> Option<FrameSummary> {
        self.frame_in_group(index).map(|(_, frame)| frame.summary)
    }

    /// The sample with that index; 0 is the oldest one that is kept.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let HistoryRing { key_groups: groups, decoder, decompressor, .. } = self;
        let missing = RecordingError::NoSuchSample { index, len: self.len };
        let sequence = self.evicted + index as u64;
        if let Some(sample) = decoder.cached(sequence) {
            return Ok(sample);
        }
        let Some((group, frame)) = frame_at(groups, index) else { return Err(missing) };
        let key = sequence.saturating_sub(u64::from(frame.key_distance));
        let damaged = |why| RecordingError::DamagedFrame { offset: 0, why };
        for distance in reference_chain(frame.key_distance) {
            if decoder.has_reference(key, distance) {
                continue;
            }
            let reference = group.get(usize::from(distance)).ok_or(damaged(FrameError::ReferenceMissing))?;
            decode_frame(decoder, decompressor, key + u64::from(distance), reference).map_err(damaged)?;
        }
        decode_frame(decoder, decompressor, sequence, frame).map_err(damaged)
    }

    /// Writes all that is kept as a recording; returns its bytes.
    pub fn write_to(&self, sink: impl Write + Send, meta: &Meta, sections: &Sections) -> Result<u64, RecordingError> {
        let mut storage = StreamStorage(sink);
        self.write_to_storage(&mut storage, meta, sections)
            .map_err(|source| RecordingError::Write { path: Location::Stream, source })
    }

    fn write_to_storage(&self, storage: &mut dyn Storage, meta: &Meta, sections: &Sections) -> std::io::Result<u64> {
        let (id, created_ns) = new_file_identity();
        let mut framer = FrameWriter::new(id, created_ns);
        let too_large = |FrameTooLarge| std::io::Error::other("what it begins with is larger than a frame may be");
        let mut out = framer.start(meta, sections).map_err(too_large)?;
        let mut write = |out: &mut Vec<u8>| {
            let result = write_all(storage, out).map_err(|(_, error)| error);
            out.clear();
            result
        };
        let mut frames = FrameInterleaver::new(self.evicted, self.marks.iter(), self.gaps.iter());
        for group in &self.key_groups {
            frames.append_frames(&mut framer, &mut out, group);
            write(&mut out)?;
        }
        frames.append_rest(&mut framer, &mut out);
        framer.append_end(&mut out);
        write(&mut out)?;
        storage.sync()?;
        Ok(framer.offset())
    }

    fn frame_in_group(&self, index: usize) -> Option<(&[SampleFrame], &SampleFrame)> {
        frame_at(&self.key_groups, index)
    }
}

/// Encoded samples for a recording to begin with, and the marks and gaps between them.
#[derive(Clone, Debug, Default)]
pub struct FrameBacklog {
    frames: Vec<SampleFrame>,
    /// The number of the first one, as marks count samples.
    first_sequence: u64,
    marks: Vec<Mark>,
    gaps: Vec<Gap>,
}

impl FrameBacklog {
    /// Appends a sample.
    pub(super) fn push(&mut self, frame: SampleFrame) {
        self.frames.push(frame);
    }

    /// Appends a gap after the newest sample.
    pub(super) fn add_gap(&mut self, gap: Gap) {
        self.gaps.push(Gap { samples_before: self.first_sequence + self.frames.len() as u64, ..gap });
    }

    /// Appends a mark after the newest sample.
    pub(super) fn add_mark(&mut self, at: Timestamp, text: &str) {
        self.marks.push(Mark { samples_before: self.first_sequence + self.frames.len() as u64, at, text: text.to_owned() });
    }

    /// Drops all that is older than the last key frame.
    pub(super) fn drop_before_last_key(&mut self) {
        let key = self.frames.iter().rposition(SampleFrame::is_key).unwrap_or(0);
        self.frames.drain(..key);
        self.first_sequence += key as u64;
        self.marks.retain(|mark| mark.samples_before > self.first_sequence);
        self.gaps.retain(|gap| gap.samples_before > self.first_sequence);
    }

    pub(super) fn append_to(&self, framer: &mut FrameWriter, out: &mut Vec<u8>) {
        let mut frames = FrameInterleaver::new(self.first_sequence, self.marks.iter(), self.gaps.iter());
        frames.append_frames(framer, out, &self.frames);
        frames.append_rest(framer, out);
    }
}

/// Writes frames into a recording, each gap and each mark before the sample that follows it.
struct FrameInterleaver<M: Iterator, G: Iterator> {
    /// Number of the next sample.
    next_sequence: u64,
    marks: Peekable<M>,
    gaps: Peekable<G>,
}

impl<'m, M: Iterator<Item = &'m Mark>, G: Iterator<Item = &'m Gap>> FrameInterleaver<M, G> {
    fn new(first: u64, marks: M, gaps: G) -> FrameInterleaver<M, G> {
        FrameInterleaver { next_sequence: first, marks: marks.peekable(), gaps: gaps.peekable() }
    }

    fn append_frames(&mut self, framer: &mut FrameWriter, out: &mut Vec<u8>, frames: &[SampleFrame]) {
        for frame in frames {
            while let Some(gap) = self.gaps.next_if(|gap| gap.samples_before <= self.next_sequence) {
                framer.append_gap(out, gap);
            }
            while let Some(mark) = self.marks.next_if(|mark| mark.samples_before <= self.next_sequence) {
                framer.append_mark(out, mark.at, &mark.text);
            }
            framer.append_sample(out, frame);
            self.next_sequence += 1;
        }
    }

    fn append_rest(&mut self, framer: &mut FrameWriter, out: &mut Vec<u8>) {
        self.gaps.by_ref().for_each(|gap| framer.append_gap(out, gap));
        self.marks.by_ref().for_each(|mark| framer.append_mark(out, mark.at, &mark.text));
    }
}

fn decode_frame(
    decoder: &mut SampleDecoder,
    decompressor: &mut PayloadDecompressor,
    sequence: u64,
    frame: &SampleFrame,
) -> Result<Arc<Sample>, FrameError> {
    let CompressedPayload { bytes: stored, raw_len: raw, flags } = &frame.payload;
    decoder.decode(sequence, frame.key_distance, frame.at, &decompressor.decompress_payload(stored, *flags, *raw)?)
}

/// The frame with that index, and its key group.
fn frame_at(groups: &VecDeque<Vec<SampleFrame>>, index: usize) -> Option<(&[SampleFrame], &SampleFrame)> {
    let mut rest = index;
    for group in groups {
        match group.get(rest) {
            Some(frame) => return Some((group, frame)),
            None => rest -= group.len(),
        }
    }
    None
}
