//! Reads a recording from a file: any sample in any order, while it is still being written, whatever state it is in.
//!
//! Reads with pread, never mmap: a file that shrinks under the reader costs an error, not the reader.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::samples::Samples;
use super::segments::Growth;
use crate::recording::Moment;
use crate::recording::error::{FrameFault, LooksLike, Place, RecordingError};
use crate::recording::frames::damage::{Damage, DamageKind, Tail};
use crate::recording::frames::digest::{self, Digest};
use crate::recording::frames::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::frames::header::{self, FileHeader, HeaderFault};
use crate::recording::frames::index::{self, END_PAYLOAD_LENGTH, Entry, EntryKind};
use crate::recording::frames::meta::{Gap, Mark, Meta, parse_section};
use crate::recording::payload::pack::Unpacker;
use crate::recording::read::walk::Walk;
use crate::recording::storage::{Source, open_source, read_at_most};
use crate::sample::Sample;

/// Samples that may be missing of those that a digest is of.
const MISSING: usize = 128;

/// One file that is open for reading.
pub struct Part {
    source: Box<dyn Source>,
    place: Place,
    header: FileHeader,
    meta: Meta,
    /// In the order of the file; sample frames only.
    samples: Vec<Entry>,
    /// What the recorder saw in each of them, or nothing.
    digests: Vec<Digest>,
    gaps: Vec<Gap>,
    marks: Vec<Mark>,
    sections: BTreeMap<String, Vec<u8>>,
    damage: Vec<Damage>,
    /// The frames among it whose inside is damaged
    noted: FxHashSet<u64>,
    decoded: Samples,
    unpacker: Unpacker,
    /// `None` as long as the recording's own index is believed.
    walk: Option<Walk>,
    /// Where a walk found each sample, asked for when the index was seen to be wrong.
    second_opinion: Option<BTreeMap<u64, u64>>,
    tail: Tail,
}

impl Part {
    pub fn open(path: &Path) -> Result<Part, RecordingError> {
        Part::read(Box::new(open_source(path)?), path.into())
    }

    /// A recording in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Part, RecordingError> {
        Part::read(Box::new(bytes), Place::Stream)
    }

    fn read(source: Box<dyn Source>, place: Place) -> Result<Part, RecordingError> {
        let failed = |source| RecordingError::Read { path: place.clone(), offset: Some(0), source };
        let start = read_at_most(source.as_ref(), 0, header::LENGTH * 2).map_err(failed)?;
        let (header, one_copy_damaged) = parse_file_header(&start, &place)?;
        let mut replayer = Part {
            source,
            place: place.clone(),
            header,
            meta: Meta::unknown(),
            samples: Vec::new(),
            digests: Vec::new(),
            gaps: Vec::new(),
            marks: Vec::new(),
            sections: BTreeMap::new(),
            damage: Vec::new(),
            noted: FxHashSet::default(),
            decoded: Samples::new(header.layout()),
            unpacker: Unpacker::default(),
            walk: None,
            second_opinion: None,
            tail: Tail::Closed,
        };
        if one_copy_damaged {
            let bytes = 0..header::LENGTH as u64 * 2;
            replayer.damage.push(Damage { bytes, what: DamageKind::FileHeader, lost: 0, from: None, to: None });
        }
        let from_index = replayer.indexed().and_then(|(entries, digests)| {
            let meta = replayer.find_meta(&entries)?;
            replayer.take_entries(&entries).ok()?;
            replayer.digests = digests;
            Some(meta)
        });
        match from_index {
            Some(meta) => replayer.meta = meta,
            None => replayer.rebuild()?,
        }
        Ok(replayer)
    }

    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// When the sample was taken; without reading it.
    pub fn instant(&self, index: usize) -> Option<Moment> {
        self.samples.get(index).map(|entry| entry.at)
    }

    /// What the recorder saw in the sample, if it is known.
    pub fn digest(&self, index: usize) -> Option<Digest> {
        self.digests.get(index).copied()
    }

    /// When it begins, by the clock on the wall, and when it was created: several may be of several boots, or begin with the
    /// same sample.
    pub fn began(&self) -> (i64, i64) {
        let created_ns = self.header.created_ns;
        (self.instant(0).map_or(created_ns, |at| at.realtime_ns), created_ns)
    }

    /// Which sample was taken exactly then.
    pub fn index_of(&self, at: Moment) -> Option<usize> {
        let begins_before = self.samples.first().is_some_and(|first| first.at.boottime_ns <= at.boottime_ns);
        if begins_before { self.samples.iter().position(|entry| entry.at == at) } else { None }
    }

    /// The number that the recorder gave the sample: where damage took samples away, numbers are missing.
    pub fn sequence(&self, index: usize) -> Option<u64> {
        self.samples.get(index).map(|entry| entry.sequence)
    }

    /// The last sample taken at that wall-clock time or before; the first where there is none.
    pub fn at_time(&self, realtime_ns: i64) -> Option<usize> {
        let last_before = self.samples.iter().rposition(|entry| entry.at.realtime_ns <= realtime_ns);
        last_before.or((!self.samples.is_empty()).then_some(0))
    }

    /// The sample at that place. What did not change is shared with the samples that were read before it.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let missing = RecordingError::NoSuchSample { index, len: self.samples.len() };
        let entry = *self.samples.get(index).ok_or(missing)?;
        match self.load(&entry) {
            Err(RecordingError::DamagedFrame { why: FrameFault::Moved, offset }) => {
                // Either the frame's header is damaged, or the index lies: a walk tells.
                if self.walk.is_some() || !self.is_elsewhere(&entry)? {
                    return Err(self.damaged(&entry, FrameFault::Moved));
                }
                self.rebuild()?;
                let found = self.samples.binary_search_by_key(&entry.sequence, |entry| entry.sequence);
                let moved = RecordingError::DamagedFrame { offset, why: FrameFault::Moved };
                let entry = found.ok().and_then(|at| self.samples.get(at)).copied().ok_or(moved)?;
                self.load(&entry)
            }
            result => result,
        }
    }

    /// Blocks of bytes that the recorder's upper layers put in.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.sections.get(name).map(Vec::as_slice)
    }

    pub fn sections(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.sections.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// Where the recorder lost samples, and why.
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

    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Whether a recorder is still at it.
    pub fn is_growing(&self) -> bool {
        self.tail == Tail::Growing
    }

    /// Frames of kinds that this version does not know.
    pub fn unknown_frames(&self) -> u64 {
        self.walk.as_ref().map_or(0, |walk| walk.unknown_frames)
    }

    /// Whether the recording's own index was there and is believed.
    pub fn is_indexed(&self) -> bool {
        self.walk.is_none()
    }

    /// Bytes of the file now.
    pub fn length(&self) -> Result<u64, RecordingError> {
        self.source.length().map_err(|source| self.failed(None, source))
    }

    /// Looks for what has been written since.
    pub fn refresh(&mut self) -> Result<Growth, RecordingError> {
        let before = self.samples.len();
        if let Some(mut walk) = self.walk.take() {
            let (mut known, damage) = (walk.entries.len(), walk.damage.len());
            let last = walk.entries.last().copied();
            let result = walk.go_on(self.source.as_ref());
            // Damage may take back the frame before it.
            if let Some(last) = last
                && walk.entries.get(known - 1) != Some(&last)
            {
                self.samples.retain(|entry| entry.offset != last.offset);
                known -= 1;
            }
            let new = walk.entries.get(known..).unwrap_or_default().to_vec();
            self.damage.extend_from_slice(walk.damage.get(damage..).unwrap_or_default());
            self.tail = walk.tail;
            self.walk = Some(walk);
            result.map_err(|source| self.failed(None, source))?;
            self.add_entries(&new)?;
        }
        Ok(Growth { new_samples: self.samples.len().saturating_sub(before), growing: self.is_growing() })
    }

    /// Believes no index any more, and checks every frame that is no sample.
    pub fn check_frames(&mut self) -> Result<(), RecordingError> {
        if self.walk.is_none() {
            self.rebuild()?;
        }
        let others = self.walk.iter().flat_map(|walk| &walk.entries).filter(|entry| entry.kind != EntryKind::Sample);
        for entry in others.copied().collect::<Vec<_>>() {
            match self.payload(&entry) {
                Ok(_) | Err(RecordingError::DamagedFrame { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn failed(&self, offset: Option<u64>, source: std::io::Error) -> RecordingError {
        RecordingError::Read { path: self.place.clone(), offset, source }
    }

    /// The table of contents that a closed recording ends with, and the digest before it.
    fn indexed(&mut self) -> Option<(Vec<Entry>, Vec<Digest>)> {
        let end = self.source.length().ok()?;
        let at = end.checked_sub((HEADER_LENGTH + END_PAYLOAD_LENGTH) as u64)?;
        let (header, payload) = self.frame(at).ok()?;
        let (index_offset, samples) = index::parse_end(&payload).filter(|_| header.kind == FrameKind::End)?;
        let (header, payload) = self.frame(index_offset).ok().filter(|_| index_offset > 0)?;
        if header.kind != FrameKind::Index || index_offset + header.length() != at {
            return None;
        }
        let entries = index::parse(&payload, index_offset).ok()?;
        // Numbers that are missing, or samples that the end frame does not count, are for the walk to explain.
        let count = entries.iter().filter(|entry| entry.kind == EntryKind::Sample).count();
        let digests = self.digests(index_offset, header.back, count).unwrap_or_default();
        (count as u64 == samples).then_some((entries, digests))
    }

    /// The digest that stands so many bytes before the index. That there is none costs nothing but time.
    fn digests(&mut self, index_offset: u64, back: u32, count: usize) -> Option<Vec<Digest>> {
        let at = index_offset.checked_sub(u64::from(back)).filter(|_| back > 0)?;
        let (header, payload) = self.frame(at).ok()?;
        let digests = digest::parse(&payload, count).ok().filter(|_| header.kind == FrameKind::Digest)?;
        (digests.len() == count).then_some(digests)
    }

    /// Whether a walk finds that sample at another place than the index says.
    fn is_elsewhere(&mut self, entry: &Entry) -> Result<bool, RecordingError> {
        if self.second_opinion.is_none() {
            let mut walk = Walk::new(self.header.id);
            walk.go_on(self.source.as_ref()).map_err(|source| self.failed(None, source))?;
            let places = walk.entries.iter().filter(|entry| entry.kind == EntryKind::Sample);
            self.second_opinion = Some(places.map(|entry| (entry.sequence, entry.offset)).collect());
        }
        let offset = self.second_opinion.as_ref().and_then(|places| places.get(&entry.sequence));
        Ok(offset.is_some_and(|&offset| offset != entry.offset))
    }

    /// Walks the frame headers instead.
    fn rebuild(&mut self) -> Result<(), RecordingError> {
        let mut walk = Walk::new(self.header.id);
        walk.go_on(self.source.as_ref()).map_err(|source| self.failed(None, source))?;
        self.damage.retain(|damage| damage.what == DamageKind::FileHeader);
        self.noted.clear();
        self.damage.extend_from_slice(&walk.damage);
        self.tail = walk.tail;
        let entries = walk.entries.clone();
        self.walk = Some(walk);
        self.meta = self.find_meta(&entries).ok_or(RecordingError::NoMeta { path: self.place.clone() })?;
        self.take_entries(&entries)
    }

    /// The first sound one of its copies.
    fn find_meta(&mut self, entries: &[Entry]) -> Option<Meta> {
        entries.iter().filter(|entry| entry.kind == EntryKind::Meta).find_map(|entry| {
            let payload = self.payload(entry).ok()?;
            Meta::parse(&payload).ok()
        })
    }

    fn take_entries(&mut self, entries: &[Entry]) -> Result<(), RecordingError> {
        self.samples.clear();
        self.digests.clear();
        self.gaps.clear();
        self.marks.clear();
        self.sections.clear();
        self.decoded = Samples::new(self.header.layout());
        self.add_entries(entries)
    }

    fn add_entries(&mut self, entries: &[Entry]) -> Result<(), RecordingError> {
        for entry in entries {
            match entry.kind {
                EntryKind::Sample => self.samples.push(*entry),
                EntryKind::Meta | EntryKind::Other => {}
                EntryKind::Digest => self.add_digests(entry),
                EntryKind::Gap | EntryKind::Mark | EntryKind::Section => match self.payload(entry) {
                    Ok(payload) => self.add_small(entry, &payload),
                    Err(RecordingError::DamagedFrame { why: FrameFault::Moved, offset }) if self.walk.is_none() => {
                        return Err(RecordingError::DamagedFrame { why: FrameFault::Moved, offset });
                    }
                    // `payload` has noted it.
                    Err(RecordingError::DamagedFrame { .. }) => {}
                    Err(other) => return Err(other),
                },
            }
        }
        Ok(())
    }

    /// Of the samples before that frame. It may be of hardly more than there are that no other one is of: so that no frames,
    /// however many they are, unpack to much more than the file is long.
    fn add_digests(&mut self, entry: &Entry) {
        let untold = self.samples.len().saturating_sub(self.digests.len()) + MISSING;
        let header = read_at_most(self.source.as_ref(), entry.offset, HEADER_LENGTH).ok();
        let header = header.and_then(|bytes| FrameHeader::parse(&bytes, &self.header.id));
        if header.is_none_or(|header| header.raw as usize > digest::longest(untold)) {
            return;
        }
        let Ok(payload) = self.payload(entry) else { return };
        let Ok(digests) = digest::parse(&payload, untold) else { return };
        // Where samples are missing, so are their places.
        let first = entry.sequence.saturating_sub(digests.len() as u64);
        let known = self.samples.get(self.digests.len()..).unwrap_or_default();
        let of = |sample: &Entry| digests.get(usize::try_from(sample.sequence.checked_sub(first)?).ok()?).copied();
        self.digests.extend(known.iter().map(|sample| of(sample).unwrap_or_default()));
    }

    fn add_small(&mut self, entry: &Entry, payload: &[u8]) {
        let parsed = match entry.kind {
            EntryKind::Gap => Gap::parse(payload, entry.sequence, entry.at).map(|gap| self.gaps.push(gap)),
            EntryKind::Section => parse_section(payload).map(|(name, bytes)| {
                self.sections.insert(name, bytes);
            }),
            _ => {
                let text = String::from_utf8_lossy(payload).into_owned();
                self.marks.push(Mark { before: entry.sequence, at: entry.at, text });
                Ok(())
            }
        };
        if let Err(malformed) = parsed {
            self.note(entry.offset, 0, FrameFault::Malformed(malformed), entry.at);
        }
    }

    fn load(&mut self, entry: &Entry) -> Result<Arc<Sample>, RecordingError> {
        if let Some(sample) = self.decoded.recent(entry.sequence) {
            return Ok(sample);
        }
        let missing = FrameFault::ReferenceMissing;
        let Some(key) = entry.sequence.checked_sub(u64::from(entry.key_distance)) else {
            return Err(self.damaged(entry, missing));
        };
        for distance in self.decoded.way_to(entry.key_distance) {
            if self.decoded.holds(key, distance) {
                continue;
            }
            let found = self.samples.binary_search_by_key(&(key + u64::from(distance)), |entry| entry.sequence);
            let found = found.ok().and_then(|at| self.samples.get(at)).filter(|found| found.key_distance == distance);
            let Some(reference) = found.copied() else { return Err(self.damaged(entry, missing)) };
            match self.decode(&reference) {
                Ok(_) => {}
                Err(RecordingError::DamagedFrame { why, .. }) if why != FrameFault::Moved => {
                    return Err(self.damaged(entry, missing));
                }
                Err(other) => return Err(other),
            }
        }
        self.decode(entry)
    }

    fn decode(&mut self, entry: &Entry) -> Result<Arc<Sample>, RecordingError> {
        let raw = self.payload(entry)?;
        let decoded = self.decoded.decode(entry.sequence, entry.key_distance, entry.at, &raw);
        decoded.map_err(|why| self.damaged(entry, why))
    }

    /// The unpacked payload of a frame that is what its entry says; damage is noted.
    fn payload(&mut self, entry: &Entry) -> Result<Vec<u8>, RecordingError> {
        match self.frame(entry.offset) {
            Ok((header, payload)) => {
                let same = EntryKind::of(header.kind) == entry.kind
                    && header.sequence == entry.sequence
                    && header.at == entry.at
                    && header.key_distance == entry.key_distance;
                let keys_agree =
                    entry.kind != EntryKind::Sample || (header.kind == FrameKind::Key) == (header.key_distance == 0);
                if same && keys_agree {
                    return Ok(payload);
                }
                Err(RecordingError::DamagedFrame { offset: entry.offset, why: FrameFault::Moved })
            }
            Err(RecordingError::DamagedFrame { why, .. }) if why != FrameFault::Moved => Err(self.damaged(entry, why)),
            Err(other) => Err(other),
        }
    }

    /// Notes damage once, and says it.
    fn damaged(&mut self, entry: &Entry, why: FrameFault) -> RecordingError {
        self.note(entry.offset, u64::from(entry.kind == EntryKind::Sample), why, entry.at);
        RecordingError::DamagedFrame { offset: entry.offset, why }
    }

    fn note(&mut self, offset: u64, lost: u64, why: FrameFault, at: Moment) {
        if !self.noted.insert(offset) {
            return;
        }
        let length = read_at_most(self.source.as_ref(), offset, HEADER_LENGTH)
            .ok()
            .and_then(|bytes| FrameHeader::parse(&bytes, &self.header.id))
            .map_or(HEADER_LENGTH as u64, |header| header.length());
        let what = DamageKind::Frame(why);
        self.damage.push(Damage { bytes: offset..offset + length, what, lost, from: Some(at), to: Some(at) });
    }

    /// Header and unpacked payload of the frame there.
    fn frame(&mut self, offset: u64) -> Result<(FrameHeader, Vec<u8>), RecordingError> {
        let damaged = |why| RecordingError::DamagedFrame { offset, why };
        let read = |offset, length| {
            read_at_most(self.source.as_ref(), offset, length).map_err(|source| self.failed(Some(offset), source))
        };
        // Most frames are small: one read gets them whole.
        let mut bytes = read(offset, 4096)?;
        let header = FrameHeader::parse(&bytes, &self.header.id).ok_or(damaged(FrameFault::Moved))?;
        let stored = header.stored as usize;
        if bytes.len() < HEADER_LENGTH + stored {
            let held = bytes.len();
            // Never more than the file has, whatever the header says.
            let end = self.length()?;
            if offset.saturating_add(header.length()) > end {
                return Err(damaged(FrameFault::Cut));
            }
            bytes.extend(read(offset + held as u64, HEADER_LENGTH + stored - held)?);
        }
        let payload = bytes.get(HEADER_LENGTH..HEADER_LENGTH + stored).ok_or(damaged(FrameFault::Cut))?;
        Ok((header, header.unpack(payload, &mut self.unpacker).map_err(damaged)?))
    }
}

/// From the first bytes of a file or a pipe; also whether one copy of the header is damaged.
pub fn parse_file_header(start: &[u8], place: &Place) -> Result<(FileHeader, bool), RecordingError> {
    let path = place.clone();
    match FileHeader::parse_copies(start) {
        Ok(found) => Ok(found),
        Err(HeaderFault::Newer { major, minor }) => Err(RecordingError::NewerFormat { path, major, minor }),
        Err(HeaderFault::Flags(flags)) => Err(RecordingError::UnknownFlags { path, flags }),
        Err(HeaderFault::Damaged) if start.len() >= header::LENGTH * 2 => Err(RecordingError::HeaderDamaged { path }),
        Err(HeaderFault::Damaged | HeaderFault::NoMagic) => {
            Err(RecordingError::NotARecording { path, looks_like: LooksLike::of(start) })
        }
    }
}
