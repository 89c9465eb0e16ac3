//! A recording in one file, or in a directory of segments that one recorder wrote one after the other: read as one, with
//! an explicit gap wherever nobody recorded between two of them.

mod directory;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::decoder::SampleParts;
use super::segment_file::SegmentFile;
use crate::recording::Timestamp;
use crate::recording::error::{Location, RecordingError};
use crate::recording::format::file_header::FileHeader;
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::meta::{Gap, GapReason, Mark, Meta};
use crate::recording::read::damage::{Damage, DamageKind, Tail};
use crate::sample::{Host, Sample};
use directory::{NewSegments, open_new_segments, sort_by_time};

/// A recording that is open for reading.
pub struct Replayer {
    location: Location,
    /// Of the first segment.
    header: FileHeader,
    /// Of the newest segment.
    meta: Meta,
    /// In the order of time.
    segments: Vec<Segment>,
    /// Where later segments may appear, and the files there that are known.
    directory: Option<(PathBuf, BTreeSet<PathBuf>)>,
    /// Of all segments together.
    gaps: Vec<Gap>,
    marks: Vec<Mark>,
    damage: Vec<Damage>,
    /// Files of the directory that cannot be read, and why.
    unreadable: Vec<UnreadableFile>,
    /// The numbers of the samples that are there for whoever asks.
    visible: Range<u64>,
}

/// A file that is called as a recording is and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFile {
    pub location: Location,
    pub reason: String,
}

struct Segment {
    file: SegmentFile,
    /// The machine and the run of it that it tells of.
    host: Arc<Host>,
    /// Samples at its beginning that the segment before has too: its disk failed, and this one repeats what may be lost there.
    repeated_samples: usize,
    /// Samples before its first one of its own, and what its own numbers are counted from.
    first_position: usize,
    first_sequence: u64,
}

/// What `refresh` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub new_samples: usize,
    /// More may come.
    pub growing: bool,
}

impl Replayer {
    /// A file, or a directory of segments.
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
        let told = |(path, error): (PathBuf, RecordingError)| UnreadableFile {
            location: Location::File(path),
            reason: error.to_string(),
        };
        replayer.unreadable = unreadable.into_iter().map(told).collect();
        replayer.merge_segments();
        Ok(replayer)
    }

    /// A recording in memory.
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

    /// Of the first segment.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Of the newest segment: what is true now.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Whose sample that is: a directory may hold recordings of several runs of a machine, or of several machines.
    pub fn host(&self, index: usize) -> Arc<Host> {
        let holder = self.position_of(index).map(|place| self.segment_index(place));
        let segment = holder.and_then(|holder| self.segments.get(holder)).or(self.segments.last());
        segment.map_or_else(|| Arc::new(self.meta.host.clone()), |segment| Arc::clone(&segment.host))
    }

    /// Of how many runs of a machine it tells.
    pub fn boot_count(&self) -> usize {
        let hosts = self.segments.iter().filter(|segment| segment.len() > 0).map(|segment| &segment.host);
        let anew = hosts.clone().zip(hosts.skip(1)).filter(|(host, next)| !host.is_same_boot(next));
        anew.count() + 1
    }

    /// In how many files it is.
    pub fn file_count(&self) -> usize {
        self.segments.len()
    }

    /// From now on only these samples are there, with the gaps and marks among them; after the last of them too, where none
    /// is left out there.
    pub fn restrict_to(&mut self, range: Range<usize>) {
        let first = if range.start == 0 { Some(self.visible.start) } else { self.sequence(range.start) };
        let end = if range.end >= self.len() { Some(self.visible.end) } else { self.sequence(range.end) };
        self.visible = first.unwrap_or(u64::MAX)..end.unwrap_or(u64::MAX);
        self.merge_segments();
    }

    /// From which number on samples are there, or are missing.
    pub fn first_sequence(&self) -> u64 {
        self.visible.start
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        let Range { start, end } = self.visible_positions();
        end.saturating_sub(start)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the sample was taken; without reading it.
    pub fn timestamp(&self, index: usize) -> Option<Timestamp> {
        let place = self.position_of(index)?;
        let segment = self.segments.get(self.segment_index(place))?;
        segment.file.timestamp(segment.index_in_file(place))
    }

    /// The number of the sample: where damage took samples away, numbers are missing.
    pub fn sequence(&self, index: usize) -> Option<u64> {
        self.sequence_at(self.position_of(index)?)
    }

    /// What the recorder saw in that sample; nothing but the strip of time may rest on it.
    pub fn frame_summary(&self, index: usize) -> Option<FrameSummary> {
        let place = self.position_of(index)?;
        let segment = self.segments.get(self.segment_index(place))?;
        segment.file.frame_summary(segment.index_in_file(place))
    }

    /// The last sample taken at that wall-clock time or before; the first where there is none.
    pub fn index_at_time(&self, realtime_ns: i64) -> Option<usize> {
        let begins_before =
            |segment: &&Segment| segment.first_timestamp().is_some_and(|begin| begin.realtime_ns <= realtime_ns);
        let found = self.segments.iter().rev().find(begins_before);
        let place = found.and_then(|segment| segment.file.index_at_time(realtime_ns).map(|index| segment.position(index)));
        let last = self.len().checked_sub(1)?;
        Some(place.unwrap_or(0).saturating_sub(self.visible_positions().start).min(last))
    }

    /// The sample at that place. What did not change is shared with the samples that were read before it.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let missing = RecordingError::NoSuchSample { index, len: self.len() };
        let Some(place) = self.position_of(index) else { return Err(missing) };
        let holder = self.segment_index(place);
        let segment = self.segments.get_mut(holder).ok_or(missing)?;
        let before = (segment.file.len(), segment.file.is_indexed());
        let known = segment.file.damage().len();
        let sample = segment.file.sample(segment.index_in_file(place));
        if before == (segment.file.len(), segment.file.is_indexed()) {
            // Only what is new: of damage without end there is no end of joining.
            self.damage.extend_from_slice(segment.file.damage().get(known..).unwrap_or_default());
        } else {
            self.merge_segments();
        }
        sample
    }

    /// Another reader of the same samples, for another thread, that decodes these parts. It has the samples and no more: no
    /// gaps, marks, sections or damage.
    pub fn reopen(&self, parts: SampleParts) -> Replayer {
        let segments = self.segments.iter().map(|segment| Segment {
            file: segment.file.reopen(parts),
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

    /// Whether the sample needs no other one to be decoded.
    pub fn is_key_frame(&self, index: usize) -> bool {
        let segment = self.position_of(index).and_then(|position| {
            let segment = self.segments.get(self.segment_index(position))?;
            Some(segment.file.is_key_frame(segment.index_in_file(position)))
        });
        segment.unwrap_or(false)
    }

    /// Where the samples that are shown stand among all.
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

    /// Where the sample stands among all.
    fn position_of(&self, index: usize) -> Option<usize> {
        let Range { start, end } = self.visible_positions();
        start.checked_add(index).filter(|place| *place < end)
    }

    /// The number of the sample that stands there among all.
    fn sequence_at(&self, place: usize) -> Option<u64> {
        let segment = self.segments.get(self.segment_index(place))?;
        segment.file.sequence(segment.index_in_file(place)).map(|number| segment.first_sequence.saturating_add(number))
    }

    /// Blocks of bytes that the recorder's upper layers put in at the beginning.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.segments.first()?.file.section(name)
    }

    pub fn sections(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.segments.iter().take(1).flat_map(|segment| segment.file.sections())
    }

    /// Where the recorder lost samples, and why; and where nobody recorded between two segments.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// What is missing, as far as it is known: damage inside a frame is found when the frame is read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Files of the directory that cannot be read as recordings.
    pub fn unreadable(&self) -> &[UnreadableFile] {
        &self.unreadable
    }

    /// How many of the segments before the newest one end inside a frame.
    pub fn torn_segments(&self) -> usize {
        let before = self.segments.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().filter(|segment| matches!(segment.file.tail(), Tail::Torn { .. })).count()
    }

    /// How the newest segment ends.
    pub fn tail(&self) -> Tail {
        self.segments.last().map_or(Tail::Closed, |last| last.file.tail())
    }

    /// Whether a recorder is still at it.
    pub fn is_growing(&self) -> bool {
        self.tail() == Tail::Growing && self.visible.end == u64::MAX
    }

    /// Frames of kinds that this version does not know.
    pub fn unknown_frames(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file.unknown_frames()).fold(0, u64::saturating_add)
    }

    /// Whether each file's own index was there and is believed.
    pub fn is_indexed(&self) -> bool {
        self.segments.iter().all(|segment| segment.file.is_indexed())
    }

    /// Bytes of all files now.
    pub fn byte_len(&self) -> Result<u64, RecordingError> {
        self.segments.iter().map(|segment| segment.file.byte_len()).sum()
    }

    /// Looks for what has been written since, in this file and in new ones.
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

    /// Believes no index any more, and checks every frame that is no sample.
    pub fn check_frames(&mut self) -> Result<(), RecordingError> {
        for segment in &mut self.segments {
            segment.file.check_frames()?;
        }
        self.merge_segments();
        Ok(())
    }

    /// The segment that holds the sample at that place among all.
    fn segment_index(&self, index: usize) -> usize {
        self.segments.partition_point(|segment| segment.first_position <= index).saturating_sub(1)
    }

    /// Puts the segments behind each other, and what they say of themselves.
    fn merge_segments(&mut self) {
        self.gaps.clear();
        self.marks.clear();
        self.damage.clear();
        if let Some(newest) = self.segments.last().filter(|newest| newest.file.meta() != &self.meta) {
            self.meta = newest.file.meta().clone();
        }
        let (mut first, mut number) = (0, 0_u64);
        let mut before: Option<(Timestamp, Duration, Arc<Host>)> = None;
        for segment in &mut self.segments {
            segment.first_position = first;
            (segment.repeated_samples, segment.first_sequence) =
                segment.overlap_with(before.as_ref().map(|&(last, ..)| last), number);
            let shifted = |own: u64| segment.first_sequence.saturating_add(own);
            let part = &segment.file;
            if let (Some((from, interval, host)), Some(to)) = (&before, segment.first_timestamp()) {
                // What the new segment says itself of the time before its first sample.
                let own = part.sequence(segment.repeated_samples).unwrap_or(0);
                let told = part.gaps().iter().filter(|gap| gap.samples_before == own).map(|gap| gap.lost_samples);
                let told = told.fold(0, u64::saturating_add);
                let same_run = host.is_same_boot(&segment.host);
                let due = missed_samples_between(*from, to, *interval, same_run).saturating_sub(told);
                let gap = Gap { samples_before: number, lost_samples: due, from: *from, to, reason: GapReason::NotSampled };
                self.gaps.extend((due > 0).then_some(gap));
            }
            // One that repeats samples repeats what stands among them too.
            let repeats = segment.repeated_samples > 0;
            let known: FxHashSet<Gap> = self.gaps.iter().filter(|_| repeats).cloned().collect();
            let gaps = part.gaps().iter().map(|gap| Gap { samples_before: shifted(gap.samples_before), ..gap.clone() });
            self.gaps.extend(gaps.filter(|gap| !known.contains(gap)));
            let known: FxHashSet<(Timestamp, String)> =
                self.marks.iter().filter(|_| repeats).map(|mark| (mark.at, mark.text.clone())).collect();
            let marks = part.marks().iter().filter(|mark| known.is_empty() || !known.contains(&(mark.at, mark.text.clone())));
            self.marks.extend(marks.map(|mark| Mark { samples_before: shifted(mark.samples_before), ..mark.clone() }));
            self.damage.extend_from_slice(part.damage());
            if let Some(last) = part.len().checked_sub(1) {
                before = part.timestamp(last).map(|at| (at, part.meta().interval, Arc::clone(&segment.host))).or(before);
                number = part.sequence(last).map_or(number, |own| shifted(own).saturating_add(1));
            }
            first += segment.len();
        }
        let Range { start, end } = self.visible;
        let among = |before: u64| (start == 0 || start < before) && before < end;
        self.gaps.retain(|gap| among(gap.samples_before));
        self.marks.retain(|mark| among(mark.samples_before));
        let unreadable = Damage { bytes: 0..0, kind: DamageKind::UnreadableSegment, lost_samples: 0, from: None, to: None };
        self.damage.extend(std::iter::repeat_n(unreadable, self.unreadable.len()));
    }
}

impl Segment {
    fn new(part: SegmentFile) -> Segment {
        let host = Arc::new(part.meta().host.clone());
        Segment { file: part, host, repeated_samples: 0, first_position: 0, first_sequence: 0 }
    }

    /// Samples of its own.
    fn len(&self) -> usize {
        self.file.len().saturating_sub(self.repeated_samples)
    }

    /// When the first sample of its own was taken.
    fn first_timestamp(&self) -> Option<Timestamp> {
        self.file.timestamp(self.repeated_samples)
    }

    /// Where the sample that stands there among all stands in the file, and back.
    fn index_in_file(&self, place: usize) -> usize {
        place - self.first_position + self.repeated_samples
    }

    fn position(&self, index: usize) -> usize {
        self.first_position + index.saturating_sub(self.repeated_samples)
    }

    /// How many of its samples the segments before it have too, of which the last was taken then and is the one before
    /// `number`; and what its own numbers are counted from.
    fn overlap_with(&self, last: Option<Timestamp>, number: u64) -> (usize, u64) {
        let repeated = || {
            let index = self.file.index_of_timestamp(last?)?;
            // Numbers never run backwards, whatever is in a file.
            let first_number = number.checked_sub(self.file.sequence(index)?.checked_add(1)?)?;
            Some((index + 1, first_number))
        };
        repeated().unwrap_or((0, number))
    }
}

/// How many samples were due between two that were taken one after the other. Within one run of a machine the clock counts that
/// nobody sets.
pub fn missed_samples_between(from: Timestamp, to: Timestamp, interval: Duration, same_run: bool) -> u64 {
    let by_the_wall = || u64::try_from(to.realtime_ns.saturating_sub(from.realtime_ns)).unwrap_or(0);
    let apart = if same_run { to.boottime_ns.saturating_sub(from.boottime_ns) } else { by_the_wall() };
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    apart.saturating_add(interval / 2).checked_div(interval).unwrap_or(0).saturating_sub(1)
}
