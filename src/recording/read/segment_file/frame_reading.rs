//! Reads single frames of a recording's file, and notes those that are damaged.

use super::SegmentFile;
use crate::recording::Timestamp;
use crate::recording::error::{FrameError, RecordingError};
use crate::recording::format::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::format::index::{EntryKind, IndexEntry};
use crate::recording::read::damage::{Damage, DamageKind};
use crate::recording::storage::read_at_most;

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
        let read = |offset, length| {
            read_at_most(self.source.as_ref(), offset, length).map_err(|source| self.read_error(Some(offset), source))
        };
        // One read is enough for most frames.
        let mut bytes = read(offset, 4096)?;
        let header = FrameHeader::parse(&bytes, &self.header.id).ok_or(damaged(FrameError::NotAtOffset))?;
        let stored = header.stored_len as usize;
        if bytes.len() < HEADER_LENGTH + stored {
            let held = bytes.len();
            // Never more than the file has.
            let end = self.byte_len()?;
            if offset.saturating_add(header.frame_len()) > end {
                return Err(damaged(FrameError::Truncated));
            }
            bytes.extend(read(offset + held as u64, HEADER_LENGTH + stored - held)?);
        }
        let payload = bytes.get(HEADER_LENGTH..HEADER_LENGTH + stored).ok_or(damaged(FrameError::Truncated))?;
        Ok((header, header.decompress_payload(payload, &mut self.decompressor).map_err(damaged)?))
    }
}
