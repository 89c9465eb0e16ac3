//! Frames: a header with a checksum of its own, and a payload. Everything after the file header is a frame.

use super::file_header::FileId;
use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::recording::format::compression::{MAX_RAW, MAX_STORED, PayloadDecompressor};
use crate::recording::format::wire::array_at;

/// First bytes of each frame header, which a reader searches for after damage.
pub const SYNC_WORD: [u8; 4] = *b"\xf5\x9dFr";
pub const HEADER_LENGTH: usize = 52;

/// The kind of a frame. Unknown kinds are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Meta,
    /// A named block of bytes of an upper layer.
    Section,
    /// A sample that refers to no other.
    Key,
    /// A sample that refers to an earlier one of its key group.
    Delta,
    Gap,
    Mark,
    /// The list of frames at the end of a closed recording.
    Index,
    End,
    /// Summaries of the samples of a key group.
    Summary,
    Unknown(u8),
}

impl FrameKind {
    fn code(self) -> u8 {
        match self {
            FrameKind::Meta => 1,
            FrameKind::Section => 2,
            FrameKind::Key => 3,
            FrameKind::Delta => 4,
            FrameKind::Gap => 5,
            FrameKind::Mark => 6,
            FrameKind::Index => 7,
            FrameKind::End => 8,
            FrameKind::Summary => 9,
            FrameKind::Unknown(number) => number,
        }
    }

    fn from_code(number: u8) -> FrameKind {
        match number {
            1 => FrameKind::Meta,
            2 => FrameKind::Section,
            3 => FrameKind::Key,
            4 => FrameKind::Delta,
            5 => FrameKind::Gap,
            6 => FrameKind::Mark,
            7 => FrameKind::Index,
            8 => FrameKind::End,
            9 => FrameKind::Summary,
            other => FrameKind::Unknown(other),
        }
    }

    pub fn is_sample(self) -> bool {
        matches!(self, FrameKind::Key | FrameKind::Delta)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub kind: FrameKind,
    pub flags: u8,
    /// Samples after the key frame; 0 in all but delta frames.
    pub key_distance: u16,
    pub stored_len: u32,
    pub raw_len: u32,
    /// Of a sample its number; of any other frame the number of samples before it.
    pub sequence: u64,
    pub at: Timestamp,
    /// Bytes from a delta frame back to its key frame; 0 in all other frames.
    pub back_offset: u32,
    pub payload_crc: u32,
}

impl FrameHeader {
    pub fn to_bytes(self, id: &FileId) -> [u8; HEADER_LENGTH] {
        let mut bytes = Vec::with_capacity(HEADER_LENGTH);
        bytes.extend_from_slice(&SYNC_WORD);
        bytes.extend_from_slice(&[self.kind.code(), self.flags]);
        bytes.extend_from_slice(&self.key_distance.to_le_bytes());
        bytes.extend_from_slice(&self.stored_len.to_le_bytes());
        bytes.extend_from_slice(&self.raw_len.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.at.boottime_ns.to_le_bytes());
        bytes.extend_from_slice(&self.at.realtime_ns.to_le_bytes());
        bytes.extend_from_slice(&self.back_offset.to_le_bytes());
        bytes.extend_from_slice(&self.payload_crc.to_le_bytes());
        bytes.extend_from_slice(&salted_crc32c(id, &bytes).to_le_bytes());
        let mut header = [0; HEADER_LENGTH];
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }

    /// `None` if this is no header of a frame of this recording, or if its lengths exceed the limits.
    pub fn parse(bytes: &[u8], id: &FileId) -> Option<FrameHeader> {
        let bytes = bytes.get(..HEADER_LENGTH)?;
        if !bytes.starts_with(&SYNC_WORD) {
            return None;
        }
        let covered = bytes.get(..HEADER_LENGTH - 4)?;
        if salted_crc32c(id, covered) != u32::from_le_bytes(array_at(bytes, HEADER_LENGTH - 4)?) {
            return None;
        }
        let [kind, flags] = array_at(bytes, 4)?;
        let header = FrameHeader {
            kind: FrameKind::from_code(kind),
            flags,
            key_distance: u16::from_le_bytes(array_at(bytes, 6)?),
            stored_len: u32::from_le_bytes(array_at(bytes, 8)?),
            raw_len: u32::from_le_bytes(array_at(bytes, 12)?),
            sequence: u64::from_le_bytes(array_at(bytes, 16)?),
            at: Timestamp {
                boottime_ns: u64::from_le_bytes(array_at(bytes, 24)?),
                realtime_ns: i64::from_le_bytes(array_at(bytes, 32)?),
            },
            back_offset: u32::from_le_bytes(array_at(bytes, 40)?),
            payload_crc: u32::from_le_bytes(array_at(bytes, 44)?),
        };
        (header.stored_len <= MAX_STORED && header.raw_len <= MAX_RAW).then_some(header)
    }

    /// Bytes of header and payload.
    pub fn frame_len(&self) -> u64 {
        HEADER_LENGTH as u64 + u64::from(self.stored_len)
    }

    /// Checks the checksum of a payload and decompresses it.
    pub fn decompress_payload(&self, stored: &[u8], decompressor: &mut PayloadDecompressor) -> Result<Vec<u8>, FrameError> {
        if crc32c::crc32c(stored) != self.payload_crc {
            return Err(FrameError::Checksum);
        }
        decompressor.decompress_payload(stored, self.flags, self.raw_len)
    }
}

/// The checksum of a frame header, salted with the file id.
fn salted_crc32c(id: &FileId, covered: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(id), covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::format::compression::PayloadCompressor;

    fn frame(raw: Vec<u8>) -> (FrameHeader, Vec<u8>) {
        let packed = PayloadCompressor::default().compress(raw).unwrap();
        let header = FrameHeader {
            kind: FrameKind::Mark,
            flags: packed.flags,
            key_distance: 0,
            stored_len: u32::try_from(packed.bytes.len()).unwrap(),
            raw_len: packed.raw_len,
            sequence: 5,
            at: Timestamp { boottime_ns: 1, realtime_ns: -2 },
            back_offset: 0,
            payload_crc: crc32c::crc32c(&packed.bytes),
        };
        (header, packed.bytes)
    }

    #[test]
    fn a_header_is_only_sound_in_its_own_file() {
        let (header, _) = frame(vec![1; 10]);
        assert_eq!(FrameHeader::parse(&header.to_bytes(&[1; 16]), &[1; 16]), Some(header));
        assert_eq!(FrameHeader::parse(&header.to_bytes(&[1; 16]), &[2; 16]), None);
        assert_eq!(FrameHeader::parse(&header.to_bytes(&[1; 16])[..51], &[1; 16]), None);
    }

    #[test]
    fn lengths_over_the_limit_are_refused_though_their_checksum_is_right() {
        let (header, _) = frame(vec![1; 10]);
        for stored in [MAX_STORED + 1, 1 << 31, u32::MAX] {
            let lie = FrameHeader { stored_len: stored, ..header };
            assert_eq!(FrameHeader::parse(&lie.to_bytes(&[1; 16]), &[1; 16]), None);
        }
        let lie = FrameHeader { raw_len: u32::MAX, ..header };
        assert_eq!(FrameHeader::parse(&lie.to_bytes(&[1; 16]), &[1; 16]), None);
    }

    #[test]
    fn a_payload_that_changed_is_not_unpacked() {
        let (header, mut stored) = frame(vec![0; 1 << 20]);
        let mut decompressor = PayloadDecompressor::default();
        assert_eq!(header.decompress_payload(&stored, &mut decompressor).unwrap().len(), 1 << 20);
        stored[3] ^= 1;
        assert_eq!(header.decompress_payload(&stored, &mut decompressor), Err(FrameError::Checksum));
    }
}
