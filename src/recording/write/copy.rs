//! Makes a new recording of what others hold: all that is sound of a damaged one, a part of one, several behind each other.
//!
//! Samples are decoded and encoded again, since what a frame refers to may be damaged or left behind. What is missing in
//! the source becomes a gap in the copy. The source is only ever read.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::framer::{Framer, SampleEncoder, Sections, fresh_identity};
use crate::recording::Moment;
use crate::recording::error::RecordingError;
use crate::recording::frames::meta::{Gap, GapReason, Mark, Meta, Redaction};
use crate::recording::payload::encode::TooLarge;
use crate::recording::read::segments::{Replayer, due_between};
use crate::recording::storage::WholeFile;

/// A recording that is being made of others. Until it is whole there is no such file: half of one would look like a shorter one.
pub struct Copier {
    file: WholeFile,
    framer: Framer,
    encoder: SampleEncoder,
    out: Vec<u8>,
    /// Samples that the copy should have and has not.
    lost: u64,
}

/// What a copy holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub samples: u64,
    /// Samples of the sources that are missing in them or damaged; those of their own gaps are not counted.
    pub lost: u64,
    pub bytes: u64,
}

/// So much is gathered before it is written.
const CHUNK: usize = 1 << 20;

impl Copier {
    /// Begins a new file, ours alone.
    pub fn create(path: &Path, meta: &Meta, sections: &Sections) -> Result<Copier, RecordingError> {
        let file = WholeFile::create(path)?;
        let (id, created_ns) = fresh_identity();
        let mut copy = Copier {
            file,
            framer: Framer::new(id, created_ns),
            encoder: SampleEncoder::new(meta.redaction),
            out: Vec::new(),
            lost: 0,
        };
        let too_large = |TooLarge| std::io::Error::other("what it begins with is larger than a frame may be");
        let failed = |source| RecordingError::Write { path: path.into(), source };
        copy.out = copy.framer.start(meta, sections).map_err(too_large).map_err(failed)?;
        Ok(copy)
    }

    /// All that is sound of `from`, with its own meta frame and sections.
    pub fn repair(from: &mut Replayer, path: &Path) -> Result<Copied, RecordingError> {
        from.check_frames()?;
        let mut copy = Copier::create(path, &from.meta().clone(), &sections(from))?;
        copy.take(from, 0..from.len())?;
        match copy.framer.samples() {
            0 => Err(RecordingError::NothingSound { path: from.place().clone() }),
            _ => copy.finish(),
        }
    }

    /// Some of the samples of `from`, with its own meta frame and sections.
    pub fn part(from: &mut Replayer, range: Range<usize>, path: &Path) -> Result<Copied, RecordingError> {
        let mut copy = Copier::create(path, &from.meta().clone(), &sections(from))?;
        copy.take(from, range)?;
        copy.finish()
    }

    /// All samples of several recordings of one machine, one behind the other in the order of time, with a gap between each
    /// two of them.
    pub fn join(all: &mut [Replayer], path: &Path) -> Result<Copied, RecordingError> {
        let Some(first) = all.first() else { return Ok(Copied::default()) };
        let mut meta = first.meta().clone();
        // What one of them keeps to itself the whole does not tell.
        if all.iter().any(|from| from.meta().redaction == Redaction::Arguments) {
            meta.redaction = Redaction::Arguments;
        }
        let mut copy = Copier::create(path, &meta, &sections(first))?;
        let mut end = None;
        for from in all {
            if let Some((end, begin)) = end.zip(from.instant(0)) {
                copy.apart(end, begin, meta.interval);
            }
            copy.take(from, 0..from.len())?;
            end = from.len().checked_sub(1).and_then(|last| from.instant(last)).or(end);
        }
        copy.finish()
    }

    /// Nobody recorded from one sample to the next.
    fn apart(&mut self, from: Moment, to: Moment, interval: Duration) {
        let lost = due_between(from, to, interval, true);
        // The one goes on where the other's disk failed.
        if lost == 0 {
            return;
        }
        self.framer.gap(&mut self.out, &Gap { before: self.framer.samples(), lost, from, to, why: GapReason::Apart });
    }

    /// Adds the sound ones of these samples, with the gaps and marks among them. Of a recording whose index may lie,
    /// `check_frames` comes first: places may move.
    pub fn take(&mut self, from: &mut Replayer, range: Range<usize>) -> Result<(), RecordingError> {
        self.encoder.forget_key();
        let first = if range.start == 0 { Some(from.first_number()) } else { from.sequence(range.start) };
        let Some(first) = first else { return Ok(()) };
        if range.clone().skip(1).any(|index| !from.host(index).is_same_run(&from.host(index - 1))) {
            return Err(RecordingError::SeveralRuns { path: from.place().clone() });
        }
        let mut notes = Notes::of(from, first);
        let mut missing = Missing::default();
        let mut next = first;
        for index in range.clone() {
            let (Some(sequence), Some(at)) = (from.sequence(index), from.instant(index)) else { break };
            missing.numbers(sequence.saturating_sub(next), at);
            next = sequence.saturating_add(1);
            let frame = match from.sample(index) {
                // Of what was seen in the first one, something lay before it.
                Ok(sample) => {
                    let digest = from.digest(index).filter(|_| index > range.start).unwrap_or_default();
                    self.encoder.encode(&sample, digest).ok()
                }
                Err(RecordingError::DamagedFrame { .. }) => None,
                Err(other) => return Err(other),
            };
            let Some(frame) = frame else {
                missing.sample(at);
                continue;
            };
            self.miss(&mut missing);
            self.note(&mut notes, sequence);
            self.framer.sample(&mut self.out, &frame);
            missing.after = Some(at);
            self.write(CHUNK)?;
        }
        self.miss(&mut missing);
        let to_the_end = range.end >= from.len();
        self.note(&mut notes, if to_the_end { u64::MAX } else { next.saturating_sub(1) });
        self.write(0)
    }

    /// The index and the end; the disk has it all when this returns.
    pub fn finish(mut self) -> Result<Copied, RecordingError> {
        self.framer.end(&mut self.out);
        self.write(0)?;
        self.file.finish()?;
        Ok(Copied { samples: self.framer.samples(), lost: self.lost, bytes: self.framer.offset() })
    }

    /// What is missing so far becomes a gap.
    fn miss(&mut self, missing: &mut Missing) {
        self.lost = self.lost.saturating_add(missing.count);
        if let Some(gap) = missing.gap(self.framer.samples()) {
            self.framer.gap(&mut self.out, &gap);
        }
    }

    /// The gaps and marks of the source up to that sample.
    fn note(&mut self, notes: &mut Notes, until: u64) {
        while let Some(note) = notes.next_until(until) {
            match note {
                Note::Gap(gap) => self.framer.gap(&mut self.out, &Gap { before: self.framer.samples(), ..gap }),
                Note::Mark(mark) => self.framer.mark(&mut self.out, mark.at, &mark.text),
            }
        }
    }

    /// Once more than `held` bytes wait.
    fn write(&mut self, held: usize) -> Result<(), RecordingError> {
        if self.out.len() > held {
            self.file.write(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }
}

/// As a copy begins with them.
fn sections(from: &Replayer) -> Sections {
    from.sections().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect()
}

/// Samples of the source that the copy does not get, since the last one that it got.
#[derive(Default)]
struct Missing {
    /// The last sample copied.
    after: Option<Moment>,
    count: u64,
    from: Option<Moment>,
    to: Moment,
}

impl Missing {
    /// One whose moment is known.
    fn sample(&mut self, at: Moment) {
        self.count = self.count.saturating_add(1);
        self.from.get_or_insert(at);
        self.to = at;
    }

    /// So many before the sample of that moment, of which nothing is left.
    fn numbers(&mut self, count: u64, before: Moment) {
        if count > 0 {
            self.count = self.count.saturating_add(count);
            self.from.get_or_insert(self.after.unwrap_or(before));
            self.to = before;
        }
    }

    fn gap(&mut self, before: u64) -> Option<Gap> {
        let lost = std::mem::take(&mut self.count);
        self.from.take().map(|from| Gap { before, lost, from, to: self.to, why: GapReason::Damaged })
    }
}

/// What stands between samples.
enum Note {
    Gap(Gap),
    Mark(Mark),
}

/// The gaps and marks of a source from one sample on, in order, each with how many samples stand before it.
struct Notes(std::iter::Peekable<std::vec::IntoIter<(u64, Note)>>);

impl Notes {
    fn of(from: &Replayer, first: u64) -> Notes {
        let gaps = from.gaps().iter().map(|gap| (gap.before, Note::Gap(gap.clone())));
        let marks = from.marks().iter().map(|mark| (mark.before, Note::Mark(mark.clone())));
        let mut notes: Vec<(u64, Note)> = gaps.chain(marks).filter(|(before, _)| *before >= first).collect();
        notes.sort_by_key(|(before, _)| *before);
        Notes(notes.into_iter().peekable())
    }

    fn next_until(&mut self, sample: u64) -> Option<Note> {
        self.0.next_if(|(before, _)| *before <= sample).map(|(_, note)| note)
    }
}
