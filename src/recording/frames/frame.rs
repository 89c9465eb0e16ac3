//! Frames: a header that can be trusted alone, and a payload. Everything after the file header is a frame.

use super::header::FileId;
use crate::recording::Moment;
use crate::recording::error::FrameFault;
use crate::recording::payload::pack::Unpacker;
use crate::recording::wire::array;

/// Begins each frame header: what a reader looks for after damage.
pub const SYNC: [u8; 4] = *b"\xf5\x9dFr";
pub const HEADER_LENGTH: usize = 52;
/// Bytes of a payload as stored.
pub const MAX_STORED: u32 = 16 << 20;
/// Bytes of a payload unpacked.
pub const MAX_RAW: u32 = 64 << 20;

/// What a frame holds. Unknown kinds are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Meta,
    /// A named block of bytes that an upper layer put in.
    Section,
    /// A whole sample.
    Key,
    /// A sample against its key frame.
    Delta,
    Gap,
    Mark,
    /// The table of contents, and where it begins.
    Index,
    End,
    /// What the recorder saw in each sample.
    Digest,
    Unknown(u8),
}

impl FrameKind {
    fn number(self) -> u8 {
        match self {
            FrameKind::Meta => 1,
            FrameKind::Section => 2,
            FrameKind::Key => 3,
            FrameKind::Delta => 4,
            FrameKind::Gap => 5,
            FrameKind::Mark => 6,
            FrameKind::Index => 7,
            FrameKind::End => 8,
            FrameKind::Digest => 9,
            FrameKind::Unknown(number) => number,
        }
    }

    fn from_number(number: u8) -> FrameKind {
        match number {
            1 => FrameKind::Meta,
            2 => FrameKind::Section,
            3 => FrameKind::Key,
            4 => FrameKind::Delta,
            5 => FrameKind::Gap,
            6 => FrameKind::Mark,
            7 => FrameKind::Index,
            8 => FrameKind::End,
            9 => FrameKind::Digest,
            other => FrameKind::Unknown(other),
        }
    }

    pub fn is_sample(self) -> bool {
        matches!(self, FrameKind::Key | FrameKind::Delta)
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub kind: FrameKind,
    pub flags: u8,
    /// Samples after the key frame; 0 in all but deltas.
    pub key_distance: u16,
    pub stored: u32,
    pub raw: u32,
    /// Of a sample, its number; of any other frame, how many samples stand before it.
    pub sequence: u64,
    pub at: Moment,
    /// Bytes back: of a delta to its key frame, of the index to the digest, where there is one; 0 in all others.
    pub back: u32,
    pub payload_crc: u32,
}

impl FrameHeader {
    pub fn bytes(&self, id: &FileId) -> [u8; HEADER_LENGTH] {
        let mut bytes = Vec::with_capacity(HEADER_LENGTH);
        bytes.extend_from_slice(&SYNC);
        bytes.extend_from_slice(&[self.kind.number(), self.flags]);
        bytes.extend_from_slice(&self.key_distance.to_le_bytes());
        bytes.extend_from_slice(&self.stored.to_le_bytes());
        bytes.extend_from_slice(&self.raw.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.at.boottime_ns.to_le_bytes());
        bytes.extend_from_slice(&self.at.realtime_ns.to_le_bytes());
        bytes.extend_from_slice(&self.back.to_le_bytes());
        bytes.extend_from_slice(&self.payload_crc.to_le_bytes());
        bytes.extend_from_slice(&salted(id, &bytes).to_le_bytes());
        let mut header = [0; HEADER_LENGTH];
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }

    /// `None` when this is not the header of a frame of this recording, or one with lengths that no frame may have.
    pub fn parse(bytes: &[u8], id: &FileId) -> Option<FrameHeader> {
        let bytes = bytes.get(..HEADER_LENGTH)?;
        if !bytes.starts_with(&SYNC) {
            return None;
        }
        let covered = bytes.get(..HEADER_LENGTH - 4)?;
        if salted(id, covered) != u32::from_le_bytes(array(bytes, HEADER_LENGTH - 4)?) {
            return None;
        }
        let [kind, flags] = array(bytes, 4)?;
        let header = FrameHeader {
            kind: FrameKind::from_number(kind),
            flags,
            key_distance: u16::from_le_bytes(array(bytes, 6)?),
            stored: u32::from_le_bytes(array(bytes, 8)?),
            raw: u32::from_le_bytes(array(bytes, 12)?),
            sequence: u64::from_le_bytes(array(bytes, 16)?),
            at: Moment {
                boottime_ns: u64::from_le_bytes(array(bytes, 24)?),
                realtime_ns: i64::from_le_bytes(array(bytes, 32)?),
            },
            back: u32::from_le_bytes(array(bytes, 40)?),
            payload_crc: u32::from_le_bytes(array(bytes, 44)?),
        };
        (header.stored <= MAX_STORED && header.raw <= MAX_RAW).then_some(header)
    }

    /// Header and payload together.
    pub fn length(&self) -> u64 {
        HEADER_LENGTH as u64 + u64::from(self.stored)
    }

    /// The payload as it was before it was packed, after its checksum was found right.
    pub fn unpack(&self, stored: &[u8], unpacker: &mut Unpacker) -> Result<Vec<u8>, FrameFault> {
        if crc32c::crc32c(stored) != self.payload_crc {
            return Err(FrameFault::Checksum);
        }
        unpacker.unpack(stored, self.flags, self.raw)
    }
}

/// The checksum of a frame header, of no use in any other file.
fn salted(id: &FileId, covered: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(id), covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::payload::pack::Packer;

    fn frame(raw: Vec<u8>) -> (FrameHeader, Vec<u8>) {
        let packed = Packer::default().pack(raw).unwrap();
        let header = FrameHeader {
            kind: FrameKind::Mark,
            flags: packed.flags,
            key_distance: 0,
            stored: u32::try_from(packed.stored.len()).unwrap(),
            raw: packed.raw,
            sequence: 5,
            at: Moment { boottime_ns: 1, realtime_ns: -2 },
            back: 0,
            payload_crc: crc32c::crc32c(&packed.stored),
        };
        (header, packed.stored)
    }

    #[test]
    fn a_header_is_only_sound_in_its_own_file() {
        let (header, _) = frame(vec![1; 10]);
        assert_eq!(FrameHeader::parse(&header.bytes(&[1; 16]), &[1; 16]), Some(header));
        assert_eq!(FrameHeader::parse(&header.bytes(&[1; 16]), &[2; 16]), None);
        assert_eq!(FrameHeader::parse(&header.bytes(&[1; 16])[..51], &[1; 16]), None);
    }

    #[test]
    fn lengths_over_the_limit_are_refused_though_their_checksum_is_right() {
        let (header, _) = frame(vec![1; 10]);
        for stored in [MAX_STORED + 1, 1 << 31, u32::MAX] {
            let lie = FrameHeader { stored, ..header };
            assert_eq!(FrameHeader::parse(&lie.bytes(&[1; 16]), &[1; 16]), None);
        }
        let lie = FrameHeader { raw: u32::MAX, ..header };
        assert_eq!(FrameHeader::parse(&lie.bytes(&[1; 16]), &[1; 16]), None);
    }

    #[test]
    fn a_payload_that_changed_is_not_unpacked() {
        let (header, mut stored) = frame(vec![0; 1 << 20]);
        let mut unpacker = Unpacker::default();
        assert_eq!(header.unpack(&stored, &mut unpacker).unwrap().len(), 1 << 20);
        stored[3] ^= 1;
        assert_eq!(header.unpack(&stored, &mut unpacker), Err(FrameFault::Checksum));
    }
}
