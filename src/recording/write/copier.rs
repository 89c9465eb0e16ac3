//! Makes a new recording of others: all intact samples of a damaged one, a range of one, or several joined.
//!
//! Samples are decoded and encoded again, since the frames that they refer to may be damaged or left out. What is missing in
//! the source becomes a gap in the copy. The source is never changed.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::frame_writer::{FrameWriter, SampleEncoder, Sections, new_file_identity};
use crate::recording::Timestamp;
use crate::recording::error::RecordingError;
use crate::recording::format::meta::{Gap, GapReason, Mark, Meta, Redaction};
use crate::recording::read::replayer::{Replayer, missed_samples_between};
use crate::recording::storage::NewRecordingFile;
use crate::recording::write::encoder::FrameTooLarge;
use crate::units::SmallSort;

/// A copy being written. The file gets its name when it is complete: half a copy would look like a shorter one.
pub struct Copier {
    file: NewRecordingFile,
    frame_writer: FrameWriter,
    encoder: SampleEncoder,
    buffer: Vec<u8>,
    /// Samples of the source that the copy lacks.
    lost_samples: u64,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyTotals {
    pub samples: u64,
    /// Samples that are missing or damaged in the sources, those of recorded gaps not counted.
    pub lost_samples: u64,
    pub bytes: u64,
}

/// Bytes that are collected before they are written.
const FLUSH_BYTES: usize = 1 << 20;

impl Copier {
    /// Begins a new file, mode 0600.
    pub fn create(path: &Path, meta: &Meta, sections: &Sections) -> Result<Copier, RecordingError> {
        let file = NewRecordingFile::create(path)?;
        let (id, created_ns) = new_file_identity();
        let mut copy = Copier {
            file,
            frame_writer: FrameWriter::new(id, created_ns),
            encoder: SampleEncoder::new(meta.redaction),
            buffer: Vec::new(),
            lost_samples: 0,
        };
        let too_large = |FrameTooLarge| std::io::Error::other("what it begins with is larger than a frame may be");
        let failed = |source| RecordingError::Write { path: path.into(), source };
        copy.buffer = copy.frame_writer.start(meta, sections).map_err(too_large).map_err(failed)?;
        Ok(copy)
    }

    /// Copies all intact samples of `from`, with its meta frame and sections.
    pub fn repair(from: &mut Replayer, path: &Path) -> Result<CopyTotals, RecordingError> {
        from.check_frames()?;
        let mut copy = Copier::create(path, &from.meta().clone(), &sections(from))?;
        copy.append_samples(from, 0..from.len())?;
        match copy.frame_writer.sample_count() {
            0 => Err(RecordingError::NoIntactSamples { path: from.location().clone() }),
            _ => copy.finish(),
        }
    }

    /// Copies a range of the samples of `from`, with its meta frame and sections.
    pub fn copy_range(from: &mut Replayer, range: Range<usize>, path: &Path) -> Result<CopyTotals, RecordingError> {
        let mut copy = Copier::create(path, &from.meta().clone(), &sections(from))?;
        copy.append_samples(from, range)?;
        copy.finish()
    }

    /// Joins several recordings of one boot in the order of time, with a gap between each
    /// two of them.
    pub fn join(all: &mut [Replayer], path: &Path) -> Result<CopyTotals, RecordingError> {
        let Some(first) = all.first() else { return Ok(CopyTotals::default()) };
        let mut meta = first.meta().clone();
        // The copy is redacted if one of the sources is.
        if all.iter().any(|from| from.meta().redaction == Redaction::Arguments) {
            meta.redaction = Redaction::Arguments;
        }
        let mut copy = Copier::create(path, &meta, &sections(first))?;
        let mut end = None;
        for from in all {
            if let Some((end, begin)) = end.zip(from.timestamp(0)) {
                copy.append_gap_between(end, begin, meta.interval);
            }
            copy.append_samples(from, 0..from.len())?;
            end = from.len().checked_sub(1).and_then(|last| from.timestamp(last)).or(end);
        }
        copy.finish()
    }

    /// Adds a gap for the time between two recordings.
    fn append_gap_between(&mut self, from: Timestamp, to: Timestamp, interval: Duration) {
        let lost = missed_samples_between(from, to, interval, true);
        // The second one continues where the disk of the first one failed.
        if lost == 0 {
            return;
        }
        self.frame_writer.append_gap(
            &mut self.buffer,
            &Gap {
                samples_before: self.frame_writer.sample_count(),
                lost_samples: lost,
                from,
                to,
                reason: GapReason::BetweenRecordings,
            },
        );
    }

    /// Appends the intact ones of these samples, with the gaps and marks between them. If the index may be wrong, call
    /// `check_frames` first: it may change indexes.
    pub fn append_samples(&mut self, from: &mut Replayer, range: Range<usize>) -> Result<(), RecordingError> {
        self.encoder.force_key_frame();
        let range = range.start..range.end.min(from.len());
        let first = if range.start == 0 { Some(from.first_sequence()) } else { from.sequence(range.start) };
        let Some(first) = first else { return Ok(()) };
        if range.clone().skip(1).any(|index| !from.host(index).is_same_boot(&from.host(index - 1))) {
            return Err(RecordingError::MultipleBoots { path: from.location().clone() });
        }
        let mut notes = Annotations::from_replayer(from, first);
        let mut missing = MissingSamples::default();
        let mut next = first;
        for index in range.clone() {
            let (Some(sequence), Some(at)) = (from.sequence(index), from.timestamp(index)) else { break };
            missing.add_before(sequence.saturating_sub(next), at);
            next = sequence.saturating_add(1);
            let frame = match from.sample(index) {
                // The summary of the first sample is of an interval that the copy does not have.
                Ok(sample) => {
                    let summary = from.frame_summary(index).filter(|_| index > range.start).unwrap_or_default();
                    self.encoder.encode(&sample, summary).ok()
                }
                Err(RecordingError::DamagedFrame { .. }) => None,
                Err(other) => return Err(other),
            };
            let Some(frame) = frame else {
                missing.add_one(at);
                continue;
            };
            self.flush_missing(&mut missing);
            self.append_annotations(&mut notes, sequence);
            self.frame_writer.append_sample(&mut self.buffer, &frame);
            missing.last_copied = Some(at);
            self.flush_above(FLUSH_BYTES)?;
        }
        self.flush_missing(&mut missing);
        let to_the_end = range.end >= from.len();
        self.append_annotations(&mut notes, if to_the_end { u64::MAX } else { next.saturating_sub(1) });
        self.flush_above(0)
    }

    /// Writes the index and the end. The disk has all of it when this returns.
    pub fn finish(mut self) -> Result<CopyTotals, RecordingError> {
        self.frame_writer.append_end(&mut self.buffer);
        self.flush_above(0)?;
        self.file.commit()?;
        Ok(CopyTotals {
            samples: self.frame_writer.sample_count(),
            lost_samples: self.lost_samples,
            bytes: self.frame_writer.offset(),
        })
    }

    /// Writes a gap for the samples that are missing so far.
    fn flush_missing(&mut self, missing: &mut MissingSamples) {
        self.lost_samples = self.lost_samples.saturating_add(missing.count);
        if let Some(gap) = missing.take_gap(self.frame_writer.sample_count()) {
            self.frame_writer.append_gap(&mut self.buffer, &gap);
        }
    }

    /// Writes the gaps and marks of the source up to that sample.
    fn append_annotations(&mut self, notes: &mut Annotations, until: u64) {
        while let Some(note) = notes.next_until(until) {
            match note {
                Annotation::Gap(gap) => self
                    .frame_writer
                    .append_gap(&mut self.buffer, &Gap { samples_before: self.frame_writer.sample_count(), ..gap }),
                Annotation::Mark(mark) => self.frame_writer.append_mark(&mut self.buffer, mark.at, &mark.text),
            }
        }
    }

    /// Writes the buffer once it has more than `held` bytes.
    fn flush_above(&mut self, held: usize) -> Result<(), RecordingError> {
        if self.buffer.len() > held {
            self.file.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// The sections of a source.
fn sections(from: &Replayer) -> Sections {
    from.sections().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect()
}

/// Samples of the source that are missing since the last one that was copied.
#[derive(Default)]
struct MissingSamples {
    /// Timestamp of the last sample that was copied.
    last_copied: Option<Timestamp>,
    count: u64,
    from: Option<Timestamp>,
    to: Timestamp,
}

impl MissingSamples {
    /// Adds a sample whose timestamp is known.
    fn add_one(&mut self, at: Timestamp) {
        self.count = self.count.saturating_add(1);
        self.from.get_or_insert(at);
        self.to = at;
    }

    /// Adds `count` samples of which nothing is left, before the sample with that timestamp.
    fn add_before(&mut self, count: u64, before: Timestamp) {
        if count > 0 {
            self.count = self.count.saturating_add(count);
            self.from.get_or_insert(self.last_copied.unwrap_or(before));
            self.to = before;
        }
    }

    fn take_gap(&mut self, before: u64) -> Option<Gap> {
        let lost = std::mem::take(&mut self.count);
        self.from.take().map(|from| Gap {
            samples_before: before,
            lost_samples: lost,
            from,
            to: self.to,
            reason: GapReason::Damaged,
        })
    }
}

/// A gap or a mark between samples.
enum Annotation {
    Gap(Gap),
    Mark(Mark),
}

/// The gaps and marks of a source from one sample on, in order, each with the number of samples before it.
struct Annotations(std::iter::Peekable<std::vec::IntoIter<(u64, Annotation)>>);

impl Annotations {
    fn from_replayer(from: &Replayer, first: u64) -> Annotations {
        let gaps = from.gaps().iter().map(|gap| (gap.samples_before, Annotation::Gap(gap.clone())));
        let marks = from.marks().iter().map(|mark| (mark.samples_before, Annotation::Mark(mark.clone())));
        let mut notes: Vec<(u64, Annotation)> = gaps.chain(marks).filter(|(before, _)| *before >= first).collect();
        notes.small_sort_by_key(|(before, _)| *before);
        Annotations(notes.into_iter().peekable())
    }

    fn next_until(&mut self, sample: u64) -> Option<Annotation> {
        self.0.next_if(|(before, _)| *before <= sample).map(|(_, note)| note)
    }
}
