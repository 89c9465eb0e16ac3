//! A recording in one file, or in a directory of segments. Segments are read as one recording, with a gap where samples are missing
//! between two of them.

mod directory;
mod segments;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decoder::SampleParts;
use super::growth::Growth;
use super::segment_file::SegmentFile;
use crate::recording::Timestamp;
use crate::recording::error::{Location, RecordingError};
use crate::recording::format::file_header::FileHeader;
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::meta::{Gap, Mark, Meta};
use crate::recording::read::damage::{Damage, Tail};
use crate::sample::{Host, Sample};
use directory::{NewSegments, open_new_segments, sort_by_time};
use segments::Segment;
pub use segments::missed_samples_between;

/// A recording that is open for reading.
pub struct Replayer {
    location: Location,
    /// From the first segment.
    header: FileHeader,
    /// From the newest segment.
    meta: Meta,
    /// In order of time.
    segments: Vec<Segment>,
    /// The directory that may get more segments, and the files of it that are known.
    directory: Option<(PathBuf, BTreeSet<PathBuf>)>,
    /// From all segments.
    gaps: Vec<Gap>,
    marks: Vec<Mark>,
    damage: Vec<Damage>,
    /// Files of the directory that cannot be read, with the reason.
    unreadable: Vec<UnreadableFile>,
    /// Sequence numbers of the visible samples.
    visible: Range<u64>,
}

/// A file with the name of a recording that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFile {
    pub location: Location,
    pub reason: String,
}

impl Replayer {
    /// Opens a file, or a directory of segments.
    pub fn open(path: &Path) -> Result<Replayer, RecordingError> {
        if !path.is_dir() {
            return Ok(Replayer::from_single_file(SegmentFile::open(path)?, path.into()));
        }
        let mut known = BTreeSet::new();
        let NewSegments { files: parts, unreadable } = open_new_segments(path, &mut known)?;
        let mut parts = sort_by_time(parts).into_iter();
        let Some(first) = parts.next() else {
            let first_error = unreadable.into_iter().next().map(|(_, error)| error);
            return Err(first_error.unwrap_or(RecordingError::NoSegments { path: path.into() }));
        };
        let mut replayer = Replayer::from_single_file(first, path.into());
        replayer.segments.extend(parts.map(Segment::new));
        replayer.directory = Some((path.to_owned(), known));
        let describe = |(path, error): (PathBuf, RecordingError)| UnreadableFile {
            location: Location::File(path),
            reason: error.to_string(),
        };
        replayer.unreadable = unreadable.into_iter().map(describe).collect();
        replayer.merge_segments();
        Ok(replayer)
    }

    /// Opens a recording in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Replayer, RecordingError> {
        Ok(Replayer::from_single_file(SegmentFile::from_bytes(bytes)?, Location::Stream))
    }

    fn from_single_file(part: SegmentFile, place: Location) -> Replayer {
        let (header, meta) = (*part.header(), part.meta().clone());
        let (gaps, marks, damage) = (Vec::new(), Vec::new(), Vec::new());
        let segments = vec![Segment::new(part)];
        let (directory, unreadable, shown) = (None, Vec::new(), 0..u64::MAX);
        let mut replayer =
            Replayer { location: place, header, meta, segments, directory, gaps, marks, damage, unreadable, visible: shown };
        replayer.merge_segments();
        replayer
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    /// From the first segment.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// From the newest segment.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The host of a sample: a directory may have recordings of several boots, or of several machines.
    pub fn host(&self, index: usize) -> Arc<Host> {
        let holder = self.position_of(index).map(|place| self.segment_index(place));
        let segment = holder.and_then(|holder| self.segments.get(holder)).or(self.segments.last());
        segment.map_or_else(|| Arc::new(self.meta.host.clone()), |segment| Arc::clone(&segment.host))
    }

    /// Number of boots.
    pub fn boot_count(&self) -> usize {
        let hosts = self.segments.iter().filter(|segment| segment.len() > 0).map(|segment| &segment.host);
        let anew = hosts.clone().zip(hosts.skip(1)).filter(|(host, next)| !host.is_same_boot(next));
        anew.count() + 1
    }

    /// Number of its files.
    pub fn file_count(&self) -> usize {
        self.segments.len()
    }

    /// Hides all other samples, and the gaps and marks outside of the range; after the last sample only if samples
    /// are hidden there.
    pub fn restrict_to(&mut self, range: Range<usize>) {
        let first = if range.start == 0 { Some(self.visible.start) } else { self.sequence(range.start) };
        let end = if range.end >= self.len() { Some(self.visible.end) } else { self.sequence(range.end) };
        self.visible = first.unwrap_or(u64::MAX)..end.unwrap_or(u64::MAX);
        self.merge_segments();
    }

    /// The sequence number from which on samples are visible.
    pub fn first_sequence(&self) -> u64 {
        self.visible.start
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        let Range { start, end } = self.visible_positions();
        end.saturating_sub(start)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The times of the first and the last sample. An error if there is none, with what the end of the recording says about it.
    pub fn require_sample(&self) -> Result<(Timestamp, Timestamp), RecordingError> {
        let last = self.len().checked_sub(1).and_then(|last| self.timestamp(last));
        if let Some(times) = self.timestamp(0).zip(last) {
            return Ok(times);
        }
        let why = match self.tail() {
            _ if !self.damage().is_empty() => "it is damaged",
            Tail::Torn { .. } => "its last frame is incomplete",
            Tail::Growing => "it is being recorded",
            Tail::Unfinished => "the recorder was stopped before it wrote one",
            Tail::Closed => "the recorder ended before it wrote one",
        };
        Err(RecordingError::NoCompleteSample { path: self.location().clone(), why })
    }

    /// Timestamp of a sample, without decoding it.
    pub fn timestamp(&self, index: usize) -> Option<Timestamp> {
        let place = self.position_of(index)?;
        let segment = self.segments.get(self.segment_index(place))?;
        segment.file.timestamp(segment.index_in_file(place))
    }

    /// Sequence number of a sample: numbers are missing where damage lost samples.
    pub fn sequence(&self, index: usize) -> Option<u64> {
        self.sequence_at(self.position_of(index)?)
    }

    /// What the recorder evaluated for the sample. Only the timeline may use it.
    pub fn frame_summary(&self, index: usize) -> Option<FrameSummary> {
        let place = self.position_of(index)?;
        let segment = self.segments.get(self.segment_index(place))?;
        segment.file.frame_summary(segment.index_in_file(place))
    }

    /// Index of the last sample at that REALTIME or before; the first if there is none.
    pub fn index_at_time(&self, realtime_ns: i64) -> Option<usize> {
        let begins_before =
            |segment: &&Segment| segment.first_timestamp().is_some_and(|begin| begin.realtime_ns <= realtime_ns);
        let found = self.segments.iter().rev().find(begins_before);
        let place = found.and_then(|segment| segment.file.index_at_time(realtime_ns).map(|index| segment.position(index)));
        let last = self.len().checked_sub(1)?;
        Some(place.unwrap_or(0).saturating_sub(self.visible_positions().start).min(last))
    }

    /// Decodes the sample with that index. What did not change is shared with the samples that were decoded before.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let missing = RecordingError::NoSuchSample { index, len: self.len() };
        let Some(place) = self.position_of(index) else { return Err(missing) };
        let holder = self.segment_index(place);
        let segment = self.segments.get_mut(holder).ok_or(missing)?;
        let before = (segment.file.len(), segment.file.is_indexed());
        let known = segment.file.damage().len();
        let sample = segment.file.sample(segment.index_in_file(place));
        if before == (segment.file.len(), segment.file.is_indexed()) {
            // Only what is new: merging everything for each damaged frame would take quadratic time.
            self.damage.extend_from_slice(segment.file.damage().get(known..).unwrap_or_default());
        } else {
            self.merge_segments();
        }
        sample
    }

    /// Another reader of the same samples, for another thread, that decodes these parts of samples in their order. It has the
    /// samples and no more: no gaps, marks, sections or damage.
    pub(super) fn reopen_in_order(&self, parts: SampleParts) -> Replayer {
        let segments = self.segments.iter().map(|segment| Segment {
            file: segment.file.reopen_in_order(parts),
            host: Arc::clone(&segment.host),
            repeated_samples: segment.repeated_samples,
            first_position: segment.first_position,
            first_sequence: segment.first_sequence,
        });
        Replayer {
            location: self.location.clone(),
            header: self.header,
            meta: self.meta.clone(),
            segments: segments.collect(),
            directory: None,
            gaps: Vec::new(),
            marks: Vec::new(),
            damage: Vec::new(),
            unreadable: Vec::new(),
            visible: self.visible.clone(),
        }
    }

    /// The number of the file with this sample.
    pub(super) fn file_of(&self, index: usize) -> Option<usize> {
        self.position_of(index).map(|position| self.segment_index(position))
    }

    /// Frees what was decoded of a file.
    pub(super) fn release_decoded(&mut self, file: usize) {
        self.segments.get_mut(file).into_iter().for_each(|segment| segment.file.release_decoded());
    }

    /// Positions of the visible samples among all.
    fn visible_positions(&self) -> Range<usize> {
        let all = self.segments.last().map_or(0, |last| last.first_position + last.len());
        let before = |number: u64| {
            let (mut low, mut high) = (0, all);
            while low < high {
                let middle = low.midpoint(high);
                if self.sequence_at(middle).is_some_and(|own| own < number) { low = middle + 1 } else { high = middle }
            }
            low
        };
        let first = if self.visible.start == 0 { 0 } else { before(self.visible.start) };
        let end = if self.visible.end == u64::MAX { all } else { before(self.visible.end) };
        first..end
    }

    /// Position of a visible sample among all.
    fn position_of(&self, index: usize) -> Option<usize> {
        let Range { start, end } = self.visible_positions();
        start.checked_add(index).filter(|place| *place < end)
    }

    /// Sequence number of the sample at a position among all.
    fn sequence_at(&self, place: usize) -> Option<u64> {
        let segment = self.segments.get(self.segment_index(place))?;
        segment.file.sequence(segment.index_in_file(place)).map(|number| segment.first_sequence.saturating_add(number))
    }

    /// A named block of bytes of the recorder's upper layers.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.segments.first()?.file.section(name)
    }

    pub fn sections(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.segments.iter().take(1).flat_map(|segment| segment.file.sections())
    }

    /// Samples that were due and are not recorded, within segments and between them.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The damage that is known: damage inside a frame is found when the frame is decoded.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Files of the directory that cannot be read.
    pub fn unreadable(&self) -> &[UnreadableFile] {
        &self.unreadable
    }

    /// Number of segments before the newest one that end inside a frame.
    pub fn torn_segments(&self) -> usize {
        let before = self.segments.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().filter(|segment| matches!(segment.file.tail(), Tail::Torn { .. })).count()
    }

    /// The end of the newest segment.
    pub fn tail(&self) -> Tail {
        self.segments.last().map_or(Tail::Closed, |last| last.file.tail())
    }

    /// Whether a recorder is still writing it.
    pub fn is_growing(&self) -> bool {
        self.tail() == Tail::Growing && self.visible.end == u64::MAX
    }

    /// Number of frames of unknown kinds.
    pub fn unknown_frames(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file.unknown_frames()).fold(0, u64::saturating_add)
    }

    /// Whether each file has an index that is in use.
    pub fn is_indexed(&self) -> bool {
        self.segments.iter().all(|segment| segment.file.is_indexed())
    }

    /// Bytes of all files.
    pub fn byte_len(&self) -> Result<u64, RecordingError> {
        self.segments.iter().map(|segment| segment.file.byte_len()).sum()
    }

    /// Finds what has been written since, in this file and in new ones.
    pub fn refresh(&mut self) -> Result<Growth, RecordingError> {
        let before = self.len();
        if let Some(last) = self.segments.last_mut() {
            last.file.refresh()?;
        }
        if let Some((directory, known)) = &mut self.directory
            && self.segments.last().is_some_and(|last| !last.file.is_growing())
        {
            let NewSegments { files: parts, .. } = open_new_segments(directory, known)?;
            self.segments.extend(sort_by_time(parts).into_iter().map(Segment::new));
        }
        self.merge_segments();
        Ok(Growth { new_samples: self.len().saturating_sub(before), growing: self.is_growing() })
    }

    /// Discards the index, scans all frame headers and checks every frame that is no sample.
    pub fn check_frames(&mut self) -> Result<(), RecordingError> {
        for segment in &mut self.segments {
            segment.file.check_frames()?;
        }
        self.merge_segments();
        Ok(())
    }

    /// Index of the segment with the sample at that position among all.
    fn segment_index(&self, index: usize) -> usize {
        self.segments.partition_point(|segment| segment.first_position <= index).saturating_sub(1)
    }
}
