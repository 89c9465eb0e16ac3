//! Reads single frames of a recording's file, and notes those that are damaged.

use std::io;

use super::SegmentFile;
use crate::recording::Timestamp;
use crate::recording::error::{FrameError, RecordingError};
use crate::recording::format::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::format::index::{EntryKind, IndexEntry};
use crate::recording::read::damage::{Damage, DamageKind};
use crate::recording::storage::{RecordingSource, read_at_most};

impl SegmentFile {
    /// Payload of a frame that agrees with its index entry; damage is added to the list.
    pub(super) fn read_payload(&mut self, entry: &IndexEntry) -> Result<Vec<u8>, RecordingError> {
        match self.read_frame(entry.offset) {
            Ok((header, payload)) => {
                let same = EntryKind::from_frame_kind(header.kind) == entry.kind
                    && header.sequence == entry.sequence
                    && header.at == entry.at
                    && header.key_distance == entry.key_distance;
                let keys_agree =
                    entry.kind != EntryKind::Sample || (header.kind == FrameKind::Key) == (header.key_distance == 0);
                if same && keys_agree {
                    return Ok(payload);
                }
                Err(RecordingError::DamagedFrame { offset: entry.offset, why: FrameError::NotAtOffset })
            }
            Err(RecordingError::DamagedFrame { why, .. }) if why != FrameError::NotAtOffset => {
                Err(self.note_damaged_frame(entry, why))
            }
            Err(other) => Err(other),
        }
    }

    /// Adds damage once; returns the error.
    pub(super) fn note_damaged_frame(&mut self, entry: &IndexEntry, why: FrameError) -> RecordingError {
        self.add_damage(entry.offset, u64::from(entry.kind == EntryKind::Sample), why, entry.at);
        RecordingError::DamagedFrame { offset: entry.offset, why }
    }

    pub(super) fn add_damage(&mut self, offset: u64, lost: u64, why: FrameError, at: Timestamp) {
        if !self.damaged_offsets.insert(offset) {
            return;
        }
        let length = read_at_most(self.source.as_ref(), offset, HEADER_LENGTH)
            .ok()
            .and_then(|bytes| FrameHeader::parse(&bytes, &self.header.id))
            .map_or(HEADER_LENGTH as u64, |header| header.frame_len());
        let what = DamageKind::Frame(why);
        self.damage.push(Damage {
            bytes: offset..offset + length,
            kind: what,
            lost_samples: lost,
            from: Some(at),
            to: Some(at),
        });
    }

    /// Header and decompressed payload of the frame at that offset.
    pub(super) fn read_frame(&mut self, offset: u64) -> Result<(FrameHeader, Vec<u8>), RecordingError> {
        let damaged = |why| RecordingError::DamagedFrame { offset, why };
        let unreadable = |source| RecordingError::Read { path: self.location.clone(), offset: Some(offset), source };
        let bytes = self.read_ahead.bytes(self.source.as_ref(), offset, HEADER_LENGTH).map_err(unreadable)?;
        let header = FrameHeader::parse(bytes, &self.header.id).ok_or(damaged(FrameError::NotAtOffset))?;
        let length = HEADER_LENGTH + header.stored_len as usize;
        // Never more than the file has.
        if bytes.len() < length && offset.saturating_add(header.frame_len()) > self.byte_len()? {
            return Err(damaged(FrameError::Truncated));
        }
        let bytes = self.read_ahead.bytes(self.source.as_ref(), offset, length).map_err(unreadable)?;
        let payload = bytes.get(HEADER_LENGTH..length).ok_or(damaged(FrameError::Truncated))?;
        Ok((header, header.decompress_payload(payload, &mut self.decompressor).map_err(damaged)?))
    }
}

/// The part of the file that was read last: one read is enough for several small frames in a row.
#[derive(Default)]
pub(super) struct ReadAhead {
    offset: u64,
    bytes: Vec<u8>,
}

/// Bytes of a read, at least.
const READ_LENGTH: usize = 1 << 14;

impl ReadAhead {
    /// The bytes from `offset` on, at least that many unless the source ends before.
    fn bytes(&mut self, source: &dyn RecordingSource, offset: u64, length: usize) -> io::Result<&[u8]> {
        let held = |ahead: &ReadAhead| {
            let from = usize::try_from(offset.checked_sub(ahead.offset)?).ok()?;
            Some(from).filter(|from| ahead.bytes.len().saturating_sub(*from) >= length)
        };
        let from = match held(self) {
            Some(from) => from,
            None => {
                self.bytes = read_at_most(source, offset, length.max(READ_LENGTH))?;
                self.offset = offset;
                0
            }
        };
        Ok(self.bytes.get(from..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts its reads.
    struct Counted {
        bytes: Vec<u8>,
        reads: AtomicUsize,
    }

    impl RecordingSource for Counted {
        fn length(&self) -> io::Result<u64> {
            self.bytes.length()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.bytes.read_at(offset, buffer)
        }

        fn is_being_written(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_is_held_is_not_read_again() {
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at / 100) as u8).collect();
        let source = Counted { bytes: bytes.clone(), reads: AtomicUsize::new(0) };
        let mut ahead = ReadAhead::default();
        let mut read = |offset: usize, length: usize| {
            let held = ahead.bytes(&source, offset as u64, length).unwrap().to_vec();
            let expected = bytes.get(offset..).unwrap_or_default();
            assert!(held.len() >= length.min(expected.len()) && expected.starts_with(&held), "{length} bytes from {offset} on");
        };
        (0..16).for_each(|frame| read(frame * 1000, 1000));
        assert_eq!(source.reads.load(Ordering::Relaxed), 1);
        // Beyond what is held, before it, longer than a read, and at the end of the source.
        for (offset, length) in [(16_300, 100), (100, 100), (0, 39_000), (39_990, 100), (50_000, 10)] {
            read(offset, length);
        }
    }
}
