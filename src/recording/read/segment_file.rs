//! Reads a recording from one file: any sample in any order, also while it is being written, also when it is damaged.
//!
//! Reads with pread, never mmap: a file that is truncated under the reader causes an error, not a crash.

mod frame_reading;
mod index_loading;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use frame_reading::ReadAhead;
use rustc_hash::FxHashSet;

use super::decoder::SampleParts;
use super::growth::Growth;
use super::reused_list::{HeldSamples, MAX_HELD};
use super::sample_decoder::SampleDecoder;
use crate::recording::Timestamp;
use crate::recording::error::{DetectedFormat, FrameError, Location, RecordingError};
use crate::recording::format::compression::PayloadDecompressor;
use crate::recording::format::file_header::{self, FileHeader, HeaderError};
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::index::{EntryKind, IndexEntry};
use crate::recording::format::meta::{Gap, Mark, Meta};
use crate::recording::format::references::reference_chain;
use crate::recording::read::damage::{Damage, DamageKind, Tail};
use crate::recording::read::frame_scan::FrameScan;
use crate::recording::storage::{RecordingSource, open_source, read_at_most};
use crate::sample::Sample;

/// Samples of a summary frame that may be missing.
const MAX_MISSING_SAMPLES: usize = 128;

/// A file that is open for reading.
pub struct SegmentFile {
    source: Arc<dyn RecordingSource>,
    location: Location,
    header: FileHeader,
    meta: Meta,
    /// What of each sample is decoded.
    parts: SampleParts,
    /// Sample frames, in the order of the file; shared with readers that were reopened: 4 MB for 24 hours
    sample_entries: Arc<Vec<IndexEntry>>,
    /// Summaries of the samples, or nothing.
    summaries: Vec<FrameSummary>,
    gaps: Vec<Gap>,
    marks: Vec<Mark>,
    sections: BTreeMap<String, Vec<u8>>,
    damage: Vec<Damage>,
    /// Offsets of the damaged frames in `damage`.
    damaged_offsets: FxHashSet<u64>,
    decoder: SampleDecoder,
    read_ahead: ReadAhead,
    decompressor: PayloadDecompressor,
    /// `None` as long as the index of the recording is used.
    scan: Option<FrameScan>,
    /// Offsets of the samples by a scan, made when an index entry was found to be wrong.
    scanned_offsets: Option<BTreeMap<u64, u64>>,
    tail: Tail,
}

impl SegmentFile {
    pub fn open(path: &Path) -> Result<SegmentFile, RecordingError> {
        SegmentFile::from_source(Arc::new(open_source(path)?), path.into())
    }

    /// Opens a recording in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<SegmentFile, RecordingError> {
        SegmentFile::from_source(Arc::new(bytes), Location::Stream)
    }

    fn from_source(source: Arc<dyn RecordingSource>, place: Location) -> Result<SegmentFile, RecordingError> {
        let failed = |source| RecordingError::Read { path: place.clone(), offset: Some(0), source };
        let start = read_at_most(source.as_ref(), 0, file_header::LENGTH * 2).map_err(failed)?;
        let (header, one_copy_damaged) = parse_file_header(&start, &place)?;
        let mut file = SegmentFile {
            source,
            location: place.clone(),
            header,
            meta: Meta::unknown(),
            parts: SampleParts::All,
            sample_entries: Arc::default(),
            summaries: Vec::new(),
            gaps: Vec::new(),
            marks: Vec::new(),
            sections: BTreeMap::new(),
            damage: Vec::new(),
            damaged_offsets: FxHashSet::default(),
            decoder: SampleDecoder::new(SampleParts::All),
            read_ahead: ReadAhead::default(),
            decompressor: PayloadDecompressor::default(),
            scan: None,
            scanned_offsets: None,
            tail: Tail::Closed,
        };
        if one_copy_damaged {
            let bytes = 0..file_header::LENGTH as u64 * 2;
            file.damage.push(Damage { bytes, kind: DamageKind::FileHeader, lost_samples: 0, from: None, to: None });
        }
        let from_index = file.load_index().and_then(|(entries, summaries)| {
            let meta = file.find_meta(&entries)?;
            file.replace_entries(&entries).ok()?;
            file.summaries = summaries;
            Some(meta)
        });
        match from_index {
            Some(meta) => file.meta = meta,
            None => file.rebuild_by_scan()?,
        }
        // A file may be open for long before its samples are read.
        file.read_ahead = ReadAhead::default();
        Ok(file)
    }

    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.sample_entries.len()
    }

    /// Timestamp of a sample, without decoding it.
    pub fn timestamp(&self, index: usize) -> Option<Timestamp> {
        self.sample_entries.get(index).map(|entry| entry.at)
    }

    /// Summary of a sample, if it has one.
    pub fn frame_summary(&self, index: usize) -> Option<FrameSummary> {
        self.summaries.get(index).copied()
    }

    /// REALTIME of the first sample, and of the file's creation: segments may be of several boots, or begin with the
    /// same sample.
    pub fn start_times(&self) -> (i64, i64) {
        let created_ns = self.header.created_ns;
        (self.timestamp(0).map_or(created_ns, |at| at.realtime_ns), created_ns)
    }

    /// Index of the sample with exactly that timestamp.
    pub fn index_of_timestamp(&self, at: Timestamp) -> Option<usize> {
        let begins_before = self.sample_entries.first().is_some_and(|first| first.at.boottime_ns <= at.boottime_ns);
        if begins_before { self.sample_entries.iter().position(|entry| entry.at == at) } else { None }
    }

    /// Sequence number of a sample: numbers are missing where damage lost samples.
    pub fn sequence(&self, index: usize) -> Option<u64> {
        self.sample_entries.get(index).map(|entry| entry.sequence)
    }

    /// Index of the last sample at that REALTIME or before; the first if there is none.
    pub fn index_at_time(&self, realtime_ns: i64) -> Option<usize> {
        let last_before = self.sample_entries.iter().rposition(|entry| entry.at.realtime_ns <= realtime_ns);
        last_before.or((!self.sample_entries.is_empty()).then_some(0))
    }

    /// Decodes the sample with that index. What did not change is shared with the samples that were decoded before.
    pub fn sample(&mut self, index: usize) -> Result<Arc<Sample>, RecordingError> {
        let missing = RecordingError::NoSuchSample { index, len: self.sample_entries.len() };
        let entry = *self.sample_entries.get(index).ok_or(missing)?;
        match self.load_sample(&entry) {
            Err(RecordingError::DamagedFrame { why: FrameError::NotAtOffset, offset }) => {
                // Either the frame's header is damaged, or the index is wrong: a scan decides.
                if self.scan.is_some() || !self.is_at_other_offset(&entry)? {
                    return Err(self.note_damaged_frame(&entry, FrameError::NotAtOffset));
                }
                self.rebuild_by_scan()?;
                let found = self.sample_entries.binary_search_by_key(&entry.sequence, |entry| entry.sequence);
                let moved = RecordingError::DamagedFrame { offset, why: FrameError::NotAtOffset };
                let entry = found.ok().and_then(|at| self.sample_entries.get(at)).copied().ok_or(moved)?;
                self.load_sample(&entry)
            }
            result => result,
        }
    }

    /// A named block of bytes of the recorder's upper layers.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.sections.get(name).map(Vec::as_slice)
    }

    pub fn sections(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.sections.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// Samples that were due and are not recorded.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Another reader of the same file, that decodes these parts of samples in their order.
    pub fn reopen_in_order(&self, parts: SampleParts) -> SegmentFile {
        SegmentFile {
            source: Arc::clone(&self.source),
            location: self.location.clone(),
            header: self.header,
            meta: self.meta.clone(),
            parts,
            sample_entries: Arc::clone(&self.sample_entries),
            summaries: Vec::new(),
            gaps: Vec::new(),
            marks: Vec::new(),
            sections: BTreeMap::new(),
            damage: Vec::new(),
            damaged_offsets: FxHashSet::default(),
            decoder: SampleDecoder::in_order(parts, HeldSamples::up_to(MAX_HELD)),
            read_ahead: ReadAhead::default(),
            decompressor: PayloadDecompressor::default(),
            scan: self.scan.clone(),
            scanned_offsets: None,
            tail: self.tail,
        }
    }

    /// Frees what was decoded, where samples are decoded in their order.
    pub fn release_decoded(&mut self) {
        self.decoder = SampleDecoder::in_order(self.parts, HeldSamples::up_to(MAX_HELD));
    }

    /// The damage that is known: damage inside a frame is found when the frame is decoded.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Whether a recorder is still writing it.
    pub fn is_growing(&self) -> bool {
        self.tail == Tail::Growing
    }

    /// Number of frames of unknown kinds.
    pub fn unknown_frames(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.unknown_frames)
    }

    /// Whether the index of the recording is used.
    pub fn is_indexed(&self) -> bool {
        self.scan.is_none()
    }

    /// Bytes of the file.
    pub fn byte_len(&self) -> Result<u64, RecordingError> {
        self.source.length().map_err(|source| self.read_error(None, source))
    }

    /// Finds what has been written since.
    pub fn refresh(&mut self) -> Result<Growth, RecordingError> {
        let before = self.sample_entries.len();
        // A frame that was not complete is written anew.
        self.read_ahead = ReadAhead::default();
        if let Some(mut scan) = self.scan.take() {
            let (mut known, damage) = (scan.entries.len(), scan.damage.len());
            let last = scan.entries.last().copied();
            let result = scan.resume(self.source.as_ref());
            // Damage may include the frame before it.
            if let Some(last) = last
                && scan.entries.get(known - 1) != Some(&last)
            {
                Arc::make_mut(&mut self.sample_entries).retain(|entry| entry.offset != last.offset);
                known -= 1;
            }
            let new = scan.entries.get(known..).unwrap_or_default().to_vec();
            self.damage.extend_from_slice(scan.damage.get(damage..).unwrap_or_default());
            self.tail = scan.tail;
            self.scan = Some(scan);
            result.map_err(|source| self.read_error(None, source))?;
            self.add_entries(&new)?;
        }
        Ok(Growth { new_samples: self.sample_entries.len().saturating_sub(before), growing: self.is_growing() })
    }

    /// Discards the index, scans all frame headers and checks every frame that is no sample.
    pub fn check_frames(&mut self) -> Result<(), RecordingError> {
        if self.scan.is_none() {
            self.rebuild_by_scan()?;
        }
        let others = self.scan.iter().flat_map(|scan| &scan.entries).filter(|entry| entry.kind != EntryKind::Sample);
        for entry in others.copied().collect::<Vec<_>>() {
            match self.read_payload(&entry) {
                Ok(_) | Err(RecordingError::DamagedFrame { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn read_error(&self, offset: Option<u64>, source: std::io::Error) -> RecordingError {
        RecordingError::Read { path: self.location.clone(), offset, source }
    }

    fn load_sample(&mut self, entry: &IndexEntry) -> Result<Arc<Sample>, RecordingError> {
        if let Some(sample) = self.decoder.cached(entry.sequence) {
            return Ok(sample);
        }
        let missing = FrameError::ReferenceMissing;
        let Some(key) = entry.sequence.checked_sub(u64::from(entry.key_distance)) else {
            return Err(self.note_damaged_frame(entry, missing));
        };
        for distance in reference_chain(entry.key_distance) {
            if self.decoder.has_reference(key, distance) {
                continue;
            }
            let found = self.sample_entries.binary_search_by_key(&(key + u64::from(distance)), |entry| entry.sequence);
            let found = found.ok().and_then(|at| self.sample_entries.get(at)).filter(|found| found.key_distance == distance);
            let Some(reference) = found.copied() else { return Err(self.note_damaged_frame(entry, missing)) };
            match self.decode_sample(&reference) {
                Ok(_) => {}
                Err(RecordingError::DamagedFrame { why, .. }) if why != FrameError::NotAtOffset => {
                    return Err(self.note_damaged_frame(entry, missing));
                }
                Err(other) => return Err(other),
            }
        }
        self.decode_sample(entry)
    }

    fn decode_sample(&mut self, entry: &IndexEntry) -> Result<Arc<Sample>, RecordingError> {
        let raw = self.read_payload(entry)?;
        let decoded = self.decoder.decode(entry.sequence, entry.key_distance, entry.at, &raw);
        decoded.map_err(|why| self.note_damaged_frame(entry, why))
    }
}

/// Parses the first bytes of a file or a pipe; also whether one copy of the header is damaged.
pub fn parse_file_header(start: &[u8], place: &Location) -> Result<(FileHeader, bool), RecordingError> {
    let path = place.clone();
    match FileHeader::parse_copies(start) {
        Ok(found) => Ok(found),
        Err(HeaderError::NewerVersion { major, minor }) => Err(RecordingError::NewerFormat { path, major, minor }),
        Err(HeaderError::DevelopmentVersion) => Err(RecordingError::DevelopmentVersion { path }),
        Err(HeaderError::UnknownFlags(flags)) => Err(RecordingError::UnknownFlags { path, flags }),
        Err(HeaderError::Damaged) if start.len() >= file_header::LENGTH * 2 => Err(RecordingError::HeaderDamaged { path }),
        Err(HeaderError::Damaged | HeaderError::NoMagic) => {
            Err(RecordingError::NotARecording { path, looks_like: DetectedFormat::detect(start) })
        }
    }
}
