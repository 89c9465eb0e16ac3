//! Loads the index of a recording's file, or rebuilds it by a scan, and adds the frames that it lists.

use std::sync::Arc;

use super::{MAX_MISSING_SAMPLES, SegmentFile};
use crate::recording::error::{FrameError, RecordingError};
use crate::recording::format::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::format::frame_summary::{self, FrameSummary};
use crate::recording::format::index::{self, END_PAYLOAD_LEN, EntryKind, IndexEntry};
use crate::recording::format::meta::{Gap, Mark, Meta, parse_section};
use crate::recording::read::damage::DamageKind;
use crate::recording::read::frame_scan::FrameScan;
use crate::recording::read::sample_decoder::SampleDecoder;
use crate::recording::storage::read_at_most;

impl SegmentFile {
    /// The index of a closed recording, with its summaries.
    pub(super) fn load_index(&mut self) -> Option<(Vec<IndexEntry>, Vec<FrameSummary>)> {
        let end = self.source.length().ok()?;
        let at = end.checked_sub((HEADER_LENGTH + END_PAYLOAD_LEN) as u64)?;
        let (header, payload) = self.read_frame(at).ok()?;
        let (index_offset, samples) = index::parse_end(&payload).filter(|_| header.kind == FrameKind::End)?;
        let (header, payload) = self.read_frame(index_offset).ok().filter(|_| index_offset > 0)?;
        if header.kind != FrameKind::Index || index_offset + header.frame_len() != at {
            return None;
        }
        let (entries, summaries) = index::parse(&payload, index_offset).ok()?;
        // If the end frame has another count, a scan finds what is missing.
        let count = entries.iter().filter(|entry| entry.kind == EntryKind::Sample).count();
        (count as u64 == samples).then_some((entries, summaries))
    }

    /// Whether a scan finds that sample at another offset than the index.
    pub(super) fn is_at_other_offset(&mut self, entry: &IndexEntry) -> Result<bool, RecordingError> {
        if self.scanned_offsets.is_none() {
            let mut scan = FrameScan::new(self.header.id);
            scan.resume(self.source.as_ref()).map_err(|source| self.read_error(None, source))?;
            let places = scan.entries.iter().filter(|entry| entry.kind == EntryKind::Sample);
            self.scanned_offsets = Some(places.map(|entry| (entry.sequence, entry.offset)).collect());
        }
        let offset = self.scanned_offsets.as_ref().and_then(|places| places.get(&entry.sequence));
        Ok(offset.is_some_and(|&offset| offset != entry.offset))
    }

    /// Replaces the index by a scan of the frame headers.
    pub(super) fn rebuild_by_scan(&mut self) -> Result<(), RecordingError> {
        let mut scan = FrameScan::new(self.header.id);
        scan.resume(self.source.as_ref()).map_err(|source| self.read_error(None, source))?;
        self.damage.retain(|damage| damage.kind == DamageKind::FileHeader);
        self.damaged_offsets.clear();
        self.damage.extend_from_slice(&scan.damage);
        self.tail = scan.tail;
        let entries = scan.entries.clone();
        self.scan = Some(scan);
        self.meta = self.find_meta(&entries).ok_or(RecordingError::NoMeta { path: self.location.clone() })?;
        self.replace_entries(&entries)
    }

    /// The first intact copy of the meta frame.
    pub(super) fn find_meta(&mut self, entries: &[IndexEntry]) -> Option<Meta> {
        entries.iter().filter(|entry| entry.kind == EntryKind::Meta).find_map(|entry| {
            let payload = self.read_payload(entry).ok()?;
            Meta::parse(&payload).ok()
        })
    }

    pub(super) fn replace_entries(&mut self, entries: &[IndexEntry]) -> Result<(), RecordingError> {
        self.sample_entries = Arc::default();
        self.summaries.clear();
        self.gaps.clear();
        self.marks.clear();
        self.sections.clear();
        self.decoder = SampleDecoder::new(self.parts);
        self.add_entries(entries)
    }

    pub(super) fn add_entries(&mut self, entries: &[IndexEntry]) -> Result<(), RecordingError> {
        for entry in entries {
            match entry.kind {
                EntryKind::Sample => Arc::make_mut(&mut self.sample_entries).push(*entry),
                EntryKind::Meta | EntryKind::Other => {}
                EntryKind::Summary => self.add_summaries(entry),
                EntryKind::Gap | EntryKind::Mark | EntryKind::Section => match self.read_payload(entry) {
                    Ok(payload) => self.add_small_frame(entry, &payload),
                    Err(RecordingError::DamagedFrame { why: FrameError::NotAtOffset, offset }) if self.scan.is_none() => {
                        return Err(RecordingError::DamagedFrame { why: FrameError::NotAtOffset, offset });
                    }
                    // `read_payload` has added it to the damage.
                    Err(RecordingError::DamagedFrame { .. }) => {}
                    Err(other) => return Err(other),
                },
            }
        }
        Ok(())
    }

    /// Adds the summaries of the samples before that frame. They must be of hardly more samples than have no summary yet, so that
    /// summary frames, however many, do not decompress to much more than the file is long.
    fn add_summaries(&mut self, entry: &IndexEntry) {
        let without_summary = self.sample_entries.len().saturating_sub(self.summaries.len()) + MAX_MISSING_SAMPLES;
        let header = read_at_most(self.source.as_ref(), entry.offset, HEADER_LENGTH).ok();
        let header = header.and_then(|bytes| FrameHeader::parse(&bytes, &self.header.id));
        if header.is_none_or(|header| header.raw_len as usize > frame_summary::max_payload_len(without_summary)) {
            return;
        }
        let Ok(payload) = self.read_payload(entry) else { return };
        let Ok(summaries) = frame_summary::parse(&payload, without_summary) else { return };
        // Missing samples have summaries too, at their sequence numbers.
        let first = entry.sequence.saturating_sub(summaries.len() as u64);
        let known = self.sample_entries.get(self.summaries.len()..).unwrap_or_default();
        let of = |sample: &IndexEntry| summaries.get(usize::try_from(sample.sequence.checked_sub(first)?).ok()?).copied();
        self.summaries.extend(known.iter().map(|sample| of(sample).unwrap_or_default()));
    }

    fn add_small_frame(&mut self, entry: &IndexEntry, payload: &[u8]) {
        let parsed = match entry.kind {
            EntryKind::Gap => Gap::parse(payload, entry.sequence, entry.at).map(|gap| self.gaps.push(gap)),
            EntryKind::Section => parse_section(payload).map(|(name, bytes)| {
                self.sections.insert(name, bytes);
            }),
            _ => {
                let text = String::from_utf8_lossy(payload).into_owned();
                self.marks.push(Mark { samples_before: entry.sequence, at: entry.at, text });
                Ok(())
            }
        };
        if let Err(malformed) = parsed {
            self.add_damage(entry.offset, 0, FrameError::Malformed(malformed), entry.at);
        }
    }
}
