//! The last minutes in memory, in the recording's own encoding: what `[` walks back in and `w` saves.

use std::collections::VecDeque;
use std::io::Write;
use std::iter::Peekable;
use std::sync::Arc;

use super::framer::{Framer, SampleEncoder, SampleFrame, Sections, fresh_identity};
use crate::recording::Moment;
use crate::recording::error::{FrameFault, Place, RecordingError};
use crate::recording::frames::digest::Digest;
use crate::recording::frames::meta::{Gap, GapReason, Mark, Meta, Redaction};
use crate::recording::payload::encode::TooLarge;
use crate::recording::payload::layout::Layout;
use crate::recording::payload::pack::{Packed, Unpacker};
use crate::recording::read::samples::Samples;
use crate::recording::storage::{Storage, StreamStorage, write_all};
use crate::sample::Sample;

/// Words that are kept at most, and gaps: the oldest ones go.
const MOST_MARKS: usize = 500;
const MOST_GAPS: usize = 500;

/// Each of the first samples is a key frame: slow facts about tasks are still being read, so that nearly all of them change, and
/// a sample that others refer to would be kept for minutes with all its tasks as they were before more was known of them.
const SETTLED: u64 = 3;

/// Keeps whole key groups, and forgets the oldest one once the rest is enough.
pub struct Tape {
    encoder: SampleEncoder,
    groups: VecDeque<Vec<SampleFrame>>,
    /// Samples and bytes in `groups`.
    len: usize,
    bytes: usize,
    /// Samples forgotten so far: the sequence of the first one kept.
    forgotten: u64,
    /// Words that were put between the samples, and samples that are missing there.
    marks: VecDeque<Mark>,
    gaps: VecDeque<Gap>,
    keep_samples: usize,
    keep_bytes: usize,
    decoded: Samples,
    unpacker: Unpacker,
}

impl Tape {
    /// Keeps at least the last `samples` (and at most a key group more), as long as they fit into `bytes`.
    pub fn new(samples: usize, bytes: usize, redaction: Redaction) -> Tape {
        Tape {
            encoder: SampleEncoder::new(redaction),
            groups: VecDeque::new(),
            len: 0,
            bytes: 0,
            forgotten: 0,
            marks: VecDeque::new(),
            gaps: VecDeque::new(),
            keep_samples: samples.max(1),
            keep_bytes: bytes,
            decoded: Samples::new(Layout::NEW),
            unpacker: Unpacker::default(),
        }
    }

    /// Adds the newest sample; `false` when it is too large to be kept.
    pub fn push(&mut self, sample: &Arc<Sample>) -> bool {
        self.push_judged(sample, Digest::default())
    }

    /// The same with what was seen in it.
    pub fn push_judged(&mut self, sample: &Arc<Sample>, digest: Digest) -> bool {
        if self.forgotten + self.len as u64 <= SETTLED {
            self.encoder.forget_key();
        }
        let frame = match self.encoder.encode(sample, digest) {
            Ok(frame) => frame,
            Err(TooLarge) => return false,
        };
        self.len += 1;
        self.bytes += frame.length();
        match self.groups.back_mut() {
            Some(group) if !frame.is_key() => group.push(frame),
            _ => self.groups.push_back(vec![frame]),
        }
        while self.groups.len() > 1 {
            let oldest = self.groups.front().map(Vec::as_slice).unwrap_or_default();
            if self.len - oldest.len() < self.keep_samples && self.bytes <= self.keep_bytes {
                break;
            }
            let (count, bytes) = (oldest.len(), oldest.iter().map(SampleFrame::length).sum::<usize>());
            self.len -= count;
            self.bytes -= bytes;
            self.forgotten += count as u64;
            self.groups.pop_front();
        }
        while self.marks.front().is_some_and(|mark| mark.before < self.forgotten) {
            self.marks.pop_front();
        }
        while self.gaps.front().is_some_and(|gap| gap.before <= self.forgotten) {
            self.gaps.pop_front();
        }
        true
    }

    /// So many samples are missing before the next one, which was taken then.
    pub fn miss(&mut self, count: u64, next: Moment) {
        let from = self.len.checked_sub(1).and_then(|last| self.instant(last)).unwrap_or(next);
        self.gap(&Gap { before: 0, lost: count, from, to: next, why: GapReason::NotTaken });
    }

    /// Samples that somebody else lost, behind the newest one.
    pub fn gap(&mut self, gap: &Gap) {
        if gap.lost > 0 && self.len > 0 {
            self.gaps.push_back(Gap { before: self.forgotten + self.len as u64, ..gap.clone() });
        }
        if self.gaps.len() > MOST_GAPS {
            self.gaps.pop_front();
        }
    }

    /// Puts a word behind the newest sample.
    pub fn mark(&mut self, at: Moment, text: &str) {
        let Some(text) = Mark::text(text) else { return };
        if self.marks.len() >= MOST_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { before: self.forgotten + self.len as u64, at, text });
    }

    /// The words among the samples that are kept, in their order.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter()
    }

    /// What is kept, for a recorder to begin with.
    pub fn history(&self) -> History {
        History {
            frames: self.groups.iter().flatten().cloned().collect(),
            first: self.forgotten,
            marks: self.marks.iter().cloned().collect(),
            gaps: self.gaps.iter().cloned().collect(),
        }
    }

    /// How many samples are kept.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many samples were forgotten: `sample(0)` is the one that was pushed as number `forgotten()`.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub fn instant(&self, index: usize) -> Option<Moment> {
        self.frame(index).map(|(_, frame)| frame.at)
    }

    /// The sample at that place; 0 is the oldest one kept.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let Tape { groups, decoded, unpacker, .. } = self;
        let missing = RecordingError::NoSuchSample { index, len: self.len };
        let sequence = self.forgotten + index as u64;
        if let Some(sample) = decoded.recent(sequence) {
            return Ok(sample);
        }
        let Some((group, frame)) = frame_at(groups, index) else { return Err(missing) };
        let key = sequence.saturating_sub(u64::from(frame.key_distance));
        let damaged = |why| RecordingError::DamagedFrame { offset: 0, why };
        for distance in decoded.way_to(frame.key_distance) {
            if decoded.holds(key, distance) {
                continue;
            }
            let reference = group.get(usize::from(distance)).ok_or(damaged(FrameFault::ReferenceMissing))?;
            decode(decoded, unpacker, key + u64::from(distance), reference).map_err(damaged)?;
        }
        decode(decoded, unpacker, sequence, frame).map_err(damaged)
    }

    /// Writes what is kept as a recording.
    pub fn write_to(&self, sink: impl Write + Send, meta: &Meta, sections: &Sections) -> Result<u64, RecordingError> {
        let mut storage = StreamStorage(sink);
        self.put(&mut storage, meta, sections).map_err(|source| RecordingError::Write { path: Place::Stream, source })
    }

    fn put(&self, storage: &mut dyn Storage, meta: &Meta, sections: &Sections) -> std::io::Result<u64> {
        let (id, created_ns) = fresh_identity();
        let mut framer = Framer::new(id, created_ns);
        let too_large = |TooLarge| std::io::Error::other("what it begins with is larger than a frame may be");
        let mut out = framer.start(meta, sections).map_err(too_large)?;
        let mut write = |out: &mut Vec<u8>| {
            let result = write_all(storage, out).map_err(|(_, error)| error);
            out.clear();
            result
        };
        let mut frames = Frames::new(self.forgotten, self.marks.iter(), self.gaps.iter());
        for group in &self.groups {
            frames.put(&mut framer, &mut out, group);
            write(&mut out)?;
        }
        frames.end(&mut framer, &mut out);
        framer.end(&mut out);
        write(&mut out)?;
        storage.sync()?;
        Ok(framer.offset())
    }

    fn frame(&self, index: usize) -> Option<(&[SampleFrame], &SampleFrame)> {
        frame_at(&self.groups, index)
    }
}

/// Samples that were kept in memory before somebody began to record, and the words among them.
#[derive(Clone, Debug, Default)]
pub struct History {
    frames: Vec<SampleFrame>,
    /// The number of the first, as marks count.
    first: u64,
    marks: Vec<Mark>,
    gaps: Vec<Gap>,
}

impl History {
    /// One more at the end.
    pub(super) fn push(&mut self, frame: SampleFrame) {
        self.frames.push(frame);
    }

    /// Samples that are missing behind the newest one.
    pub(super) fn gap(&mut self, gap: Gap) {
        self.gaps.push(Gap { before: self.first + self.frames.len() as u64, ..gap });
    }

    /// A word behind the newest sample.
    pub(super) fn mark(&mut self, at: Moment, text: &str) {
        self.marks.push(Mark { before: self.first + self.frames.len() as u64, at, text: text.to_owned() });
    }

    /// Of all that is older than the last key frame nobody needs to know any more.
    pub(super) fn forget_before_key(&mut self) {
        let key = self.frames.iter().rposition(SampleFrame::is_key).unwrap_or(0);
        self.frames.drain(..key);
        self.first += key as u64;
        self.marks.retain(|mark| mark.before > self.first);
        self.gaps.retain(|gap| gap.before > self.first);
    }

    pub(super) fn write(&self, framer: &mut Framer, out: &mut Vec<u8>) {
        let mut frames = Frames::new(self.first, self.marks.iter(), self.gaps.iter());
        frames.put(framer, out, &self.frames);
        frames.end(framer, out);
    }
}

/// Frames into a recording, each gap and each mark before the sample that it was put before.
struct Frames<M: Iterator, G: Iterator> {
    /// The number of the next sample.
    first: u64,
    marks: Peekable<M>,
    gaps: Peekable<G>,
}

impl<'m, M: Iterator<Item = &'m Mark>, G: Iterator<Item = &'m Gap>> Frames<M, G> {
    fn new(first: u64, marks: M, gaps: G) -> Frames<M, G> {
        Frames { first, marks: marks.peekable(), gaps: gaps.peekable() }
    }

    fn put(&mut self, framer: &mut Framer, out: &mut Vec<u8>, frames: &[SampleFrame]) {
        for frame in frames {
            while let Some(gap) = self.gaps.next_if(|gap| gap.before <= self.first) {
                framer.gap(out, gap);
            }
            while let Some(mark) = self.marks.next_if(|mark| mark.before <= self.first) {
                framer.mark(out, mark.at, &mark.text);
            }
            framer.sample(out, frame);
            self.first += 1;
        }
    }

    fn end(&mut self, framer: &mut Framer, out: &mut Vec<u8>) {
        self.gaps.by_ref().for_each(|gap| framer.gap(out, gap));
        self.marks.by_ref().for_each(|mark| framer.mark(out, mark.at, &mark.text));
    }
}

fn decode(
    decoded: &mut Samples,
    unpacker: &mut Unpacker,
    sequence: u64,
    frame: &SampleFrame,
) -> Result<Arc<Sample>, FrameFault> {
    let Packed { stored, raw, flags } = &frame.packed;
    decoded.decode(sequence, frame.key_distance, frame.at, &unpacker.unpack(stored, *flags, *raw)?)
}

/// The frame at that place, and its group.
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
