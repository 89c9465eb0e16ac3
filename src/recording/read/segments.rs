//! A recording in one file, or in a directory of segments that one recorder wrote one after the other: read as one, with
//! an explicit gap wherever nobody recorded between two of them.

mod directory;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::part::Part;
use crate::recording::Moment;
use crate::recording::error::{Place, RecordingError};
use crate::recording::frames::damage::{Damage, DamageKind, Tail};
use crate::recording::frames::digest::Digest;
use crate::recording::frames::header::FileHeader;
use crate::recording::frames::meta::{Gap, GapReason, Mark, Meta};
use crate::sample::{Host, Sample};
use directory::{New, in_order, read_new};

/// A recording that is open for reading.
pub struct Replayer {
    place: Place,
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
    unreadable: Vec<Unreadable>,
    /// The numbers of the samples that are there for whoever asks.
    shown: Range<u64>,
}

/// A file that is called as a recording is and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub place: Place,
    pub why: String,
}

struct Segment {
    part: Part,
    /// The machine and the run of it that it tells of.
    host: Arc<Host>,
    /// Samples at its beginning that the segment before has too: its disk failed, and this one repeats what may be lost there.
    repeated: usize,
    /// Samples before its first one of its own, and what its own numbers are counted from.
    first: usize,
    first_number: u64,
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
            return Ok(Replayer::one(Part::open(path)?, path.into()));
        }
        let mut known = BTreeSet::new();
        let New { parts, unreadable } = read_new(path, &mut known)?;
        let mut parts = in_order(parts).into_iter();
        let Some(first) = parts.next() else {
            let first_error = unreadable.into_iter().next().map(|(_, error)| error);
            return Err(first_error.unwrap_or(RecordingError::NoSegments { path: path.into() }));
        };
        let mut replayer = Replayer::one(first, path.into());
        replayer.segments.extend(parts.map(Segment::new));
        replayer.directory = Some((path.to_owned(), known));
        let told = |(path, error): (PathBuf, RecordingError)| Unreadable { place: Place::File(path), why: error.to_string() };
        replayer.unreadable = unreadable.into_iter().map(told).collect();
        replayer.join();
        Ok(replayer)
    }

    /// A recording in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Replayer, RecordingError> {
        Ok(Replayer::one(Part::from_bytes(bytes)?, Place::Stream))
    }

    fn one(part: Part, place: Place) -> Replayer {
        let (header, meta) = (*part.header(), part.meta().clone());
        let (gaps, marks, damage) = (Vec::new(), Vec::new(), Vec::new());
        let segments = vec![Segment::new(part)];
        let (directory, unreadable, shown) = (None, Vec::new(), 0..u64::MAX);
        let mut replayer = Replayer { place, header, meta, segments, directory, gaps, marks, damage, unreadable, shown };
        replayer.join();
        replayer
    }

    pub fn place(&self) -> &Place {
        &self.place
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
        let holder = self.place_of(index).map(|place| self.holder(place));
        let segment = holder.and_then(|holder| self.segments.get(holder)).or(self.segments.last());
        segment.map_or_else(|| Arc::new(self.meta.host.clone()), |segment| Arc::clone(&segment.host))
    }

    /// Of how many runs of a machine it tells.
    pub fn runs(&self) -> usize {
        let hosts = self.segments.iter().filter(|segment| segment.len() > 0).map(|segment| &segment.host);
        let anew = hosts.clone().zip(hosts.skip(1)).filter(|(host, next)| !host.is_same_run(next));
        anew.count() + 1
    }

    /// In how many files it is.
    pub fn files(&self) -> usize {
        self.segments.len()
    }

    /// From now on only these samples are there, with the gaps and marks among them; after the last of them too, where none
    /// is left out there.
    pub fn narrow(&mut self, range: Range<usize>) {
        let first = if range.start == 0 { Some(self.shown.start) } else { self.sequence(range.start) };
        let end = if range.end >= self.len() { Some(self.shown.end) } else { self.sequence(range.end) };
        self.shown = first.unwrap_or(u64::MAX)..end.unwrap_or(u64::MAX);
        self.join();
    }

    /// From which number on samples are there, or are missing.
    pub fn first_number(&self) -> u64 {
        self.shown.start
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        let Range { start, end } = self.places();
        end.saturating_sub(start)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the sample was taken; without reading it.
    pub fn instant(&self, index: usize) -> Option<Moment> {
        let place = self.place_of(index)?;
        let segment = self.segments.get(self.holder(place))?;
        segment.part.instant(segment.index(place))
    }

    /// The number of the sample: where damage took samples away, numbers are missing.
    pub fn sequence(&self, index: usize) -> Option<u64> {
        self.number(self.place_of(index)?)
    }

    /// What the recorder saw in that sample; nothing but the strip of time may rest on it.
    pub fn digest(&self, index: usize) -> Option<Digest> {
        let place = self.place_of(index)?;
        let segment = self.segments.get(self.holder(place))?;
        segment.part.digest(segment.index(place))
    }

    /// The last sample taken at that wall-clock time or before; the first where there is none.
    pub fn at_time(&self, realtime_ns: i64) -> Option<usize> {
        let begins_before = |segment: &&Segment| segment.begin().is_some_and(|begin| begin.realtime_ns <= realtime_ns);
        let found = self.segments.iter().rev().find(begins_before);
        let place = found.and_then(|segment| segment.part.at_time(realtime_ns).map(|index| segment.place(index)));
        let last = self.len().checked_sub(1)?;
        Some(place.unwrap_or(0).saturating_sub(self.places().start).min(last))
    }

    /// The sample at that place. What did not change is shared with the samples that were read before it.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let missing = RecordingError::NoSuchSample { index, len: self.len() };
        let Some(place) = self.place_of(index) else { return Err(missing) };
        let holder = self.holder(place);
        let segment = self.segments.get_mut(holder).ok_or(missing)?;
        let before = (segment.part.len(), segment.part.is_indexed());
        let known = segment.part.damage().len();
        let sample = segment.part.sample(segment.index(place));
        if before == (segment.part.len(), segment.part.is_indexed()) {
            // Only what is new: of damage without end there is no end of joining.
            self.damage.extend_from_slice(segment.part.damage().get(known..).unwrap_or_default());
        } else {
            self.join();
        }
        sample
    }

    /// Where the samples that are shown stand among all.
    fn places(&self) -> Range<usize> {
        let all = self.segments.last().map_or(0, |last| last.first + last.len());
        let before = |number: u64| {
            let (mut low, mut high) = (0, all);
            while low < high {
                let middle = low.midpoint(high);
                if self.number(middle).is_some_and(|own| own < number) { low = middle + 1 } else { high = middle }
            }
            low
        };
        let first = if self.shown.start == 0 { 0 } else { before(self.shown.start) };
        let end = if self.shown.end == u64::MAX { all } else { before(self.shown.end) };
        first..end
    }

    /// Where the sample stands among all.
    fn place_of(&self, index: usize) -> Option<usize> {
        let Range { start, end } = self.places();
        start.checked_add(index).filter(|place| *place < end)
    }

    /// The number of the sample that stands there among all.
    fn number(&self, place: usize) -> Option<u64> {
        let segment = self.segments.get(self.holder(place))?;
        segment.part.sequence(segment.index(place)).map(|number| segment.first_number.saturating_add(number))
    }

    /// Blocks of bytes that the recorder's upper layers put in at the beginning.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.segments.first()?.part.section(name)
    }

    pub fn sections(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.segments.iter().take(1).flat_map(|segment| segment.part.sections())
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
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// How many of the segments before the newest one end inside a frame.
    pub fn torn_before(&self) -> usize {
        let before = self.segments.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().filter(|segment| matches!(segment.part.tail(), Tail::Torn { .. })).count()
    }

    /// How the newest segment ends.
    pub fn tail(&self) -> Tail {
        self.segments.last().map_or(Tail::Closed, |last| last.part.tail())
    }

    /// Whether a recorder is still at it.
    pub fn is_growing(&self) -> bool {
        self.tail() == Tail::Growing && self.shown.end == u64::MAX
    }

    /// Frames of kinds that this version does not know.
    pub fn unknown_frames(&self) -> u64 {
        self.segments.iter().map(|segment| segment.part.unknown_frames()).fold(0, u64::saturating_add)
    }

    /// Whether each file's own index was there and is believed.
    pub fn is_indexed(&self) -> bool {
        self.segments.iter().all(|segment| segment.part.is_indexed())
    }

    /// Bytes of all files now.
    pub fn length(&self) -> Result<u64, RecordingError> {
        self.segments.iter().map(|segment| segment.part.length()).sum()
    }

    /// Looks for what has been written since, in this file and in new ones.
    pub fn refresh(&mut self) -> Result<Growth, RecordingError> {
        let before = self.len();
        if let Some(last) = self.segments.last_mut() {
            last.part.refresh()?;
        }
        if let Some((directory, known)) = &mut self.directory
            && self.segments.last().is_some_and(|last| !last.part.is_growing())
        {
            let New { parts, .. } = read_new(directory, known)?;
            self.segments.extend(in_order(parts).into_iter().map(Segment::new));
        }
        self.join();
        Ok(Growth { new_samples: self.len().saturating_sub(before), growing: self.is_growing() })
    }

    /// Believes no index any more, and checks every frame that is no sample.
    pub fn check_frames(&mut self) -> Result<(), RecordingError> {
        for segment in &mut self.segments {
            segment.part.check_frames()?;
        }
        self.join();
        Ok(())
    }

    /// The segment that holds the sample at that place among all.
    fn holder(&self, index: usize) -> usize {
        self.segments.partition_point(|segment| segment.first <= index).saturating_sub(1)
    }

    /// Puts the segments behind each other, and what they say of themselves.
    fn join(&mut self) {
        self.gaps.clear();
        self.marks.clear();
        self.damage.clear();
        if let Some(newest) = self.segments.last().filter(|newest| newest.part.meta() != &self.meta) {
            self.meta = newest.part.meta().clone();
        }
        let (mut first, mut number) = (0, 0_u64);
        let mut before: Option<(Moment, Duration, Arc<Host>)> = None;
        for segment in &mut self.segments {
            segment.first = first;
            (segment.repeated, segment.first_number) = segment.repeats(before.as_ref().map(|&(last, ..)| last), number);
            let shifted = |own: u64| segment.first_number.saturating_add(own);
            let part = &segment.part;
            if let (Some((from, interval, host)), Some(to)) = (&before, segment.begin()) {
                // What the new segment says itself of the time before its first sample.
                let own = part.sequence(segment.repeated).unwrap_or(0);
                let told = part.gaps().iter().filter(|gap| gap.before == own).map(|gap| gap.lost);
                let told = told.fold(0, u64::saturating_add);
                let same_run = host.is_same_run(&segment.host);
                let due = due_between(*from, to, *interval, same_run).saturating_sub(told);
                let gap = Gap { before: number, lost: due, from: *from, to, why: GapReason::NotTaken };
                self.gaps.extend((due > 0).then_some(gap));
            }
            // One that repeats samples repeats what stands among them too.
            let repeats = segment.repeated > 0;
            let known: FxHashSet<Gap> = self.gaps.iter().filter(|_| repeats).cloned().collect();
            let gaps = part.gaps().iter().map(|gap| Gap { before: shifted(gap.before), ..gap.clone() });
            self.gaps.extend(gaps.filter(|gap| !known.contains(gap)));
            let known: FxHashSet<(Moment, String)> =
                self.marks.iter().filter(|_| repeats).map(|mark| (mark.at, mark.text.clone())).collect();
            let marks = part.marks().iter().filter(|mark| known.is_empty() || !known.contains(&(mark.at, mark.text.clone())));
            self.marks.extend(marks.map(|mark| Mark { before: shifted(mark.before), ..mark.clone() }));
            self.damage.extend_from_slice(part.damage());
            if let Some(last) = part.len().checked_sub(1) {
                before = part.instant(last).map(|at| (at, part.meta().interval, Arc::clone(&segment.host))).or(before);
                number = part.sequence(last).map_or(number, |own| shifted(own).saturating_add(1));
            }
            first += segment.len();
        }
        let Range { start, end } = self.shown;
        let among = |before: u64| (start == 0 || start < before) && before < end;
        self.gaps.retain(|gap| among(gap.before));
        self.marks.retain(|mark| among(mark.before));
        let unreadable = Damage { bytes: 0..0, what: DamageKind::Segment, lost: 0, from: None, to: None };
        self.damage.extend(std::iter::repeat_n(unreadable, self.unreadable.len()));
    }
}

impl Segment {
    fn new(part: Part) -> Segment {
        let host = Arc::new(part.meta().host.clone());
        Segment { part, host, repeated: 0, first: 0, first_number: 0 }
    }

    /// Samples of its own.
    fn len(&self) -> usize {
        self.part.len().saturating_sub(self.repeated)
    }

    /// When the first sample of its own was taken.
    fn begin(&self) -> Option<Moment> {
        self.part.instant(self.repeated)
    }

    /// Where the sample that stands there among all stands in the file, and back.
    fn index(&self, place: usize) -> usize {
        place - self.first + self.repeated
    }

    fn place(&self, index: usize) -> usize {
        self.first + index.saturating_sub(self.repeated)
    }

    /// How many of its samples the segments before it have too, of which the last was taken then and is the one before
    /// `number`; and what its own numbers are counted from.
    fn repeats(&self, last: Option<Moment>, number: u64) -> (usize, u64) {
        let repeated = || {
            let index = self.part.index_of(last?)?;
            // Numbers never run backwards, whatever is in a file.
            let first_number = number.checked_sub(self.part.sequence(index)?.checked_add(1)?)?;
            Some((index + 1, first_number))
        };
        repeated().unwrap_or((0, number))
    }
}

/// How many samples were due between two that were taken one after the other. Within one run of a machine the clock counts that
/// nobody sets.
pub fn due_between(from: Moment, to: Moment, interval: Duration, same_run: bool) -> u64 {
    let by_the_wall = || u64::try_from(to.realtime_ns.saturating_sub(from.realtime_ns)).unwrap_or(0);
    let apart = if same_run { to.boottime_ns.saturating_sub(from.boottime_ns) } else { by_the_wall() };
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    apart.saturating_add(interval / 2).checked_div(interval).unwrap_or(0).saturating_sub(1)
}
