//! Frames: a header that can be trusted alone, and a payload. Everything after the file header is a frame.

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::Moment;
use super::error::FrameFault;
use super::header::FileId;
use super::wire::array;

/// Begins each frame header: what a reader looks for after damage.
pub const SYNC: [u8; 4] = *b"\xf5\x9dFr";
pub const HEADER_LENGTH: usize = 52;
/// Bytes of a payload as stored.
pub const MAX_STORED: u32 = 16 << 20;
/// Bytes of a payload unpacked.
pub const MAX_RAW: u32 = 64 << 20;

/// Bit 0 of the flags: the payload begins with a zstd frame.
const COMPRESSED: u8 = 1;
/// Bit 1: what stands behind the zstd frame is the rest of the payload, as it is.
const REST: u8 = 2;
/// Below this, packing makes it longer.
const WORTH_PACKING: usize = 64;
/// Ratio against time: measured by benches/encoding.rs.
const LEVEL: i32 = 3;

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
    pub fn unpack(&self, stored: &[u8]) -> Result<Vec<u8>, FrameFault> {
        if crc32c::crc32c(stored) != self.payload_crc {
            return Err(FrameFault::Checksum);
        }
        unpack(stored, self.flags, self.raw)
    }
}

/// The checksum of a frame header, of no use in any other file.
fn salted(id: &FileId, covered: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(id), covered)
}

/// Grows with what comes out, not with what the header claims.
fn unpack(stored: &[u8], flags: u8, raw: u32) -> Result<Vec<u8>, FrameFault> {
    use std::io::Read;
    let raw = raw as usize;
    if flags & COMPRESSED == 0 {
        return if stored.len() == raw { Ok(stored.to_vec()) } else { Err(FrameFault::Compression) };
    }
    let fault = |_| FrameFault::Compression;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stored).map_err(fault)?;
    decoder.window_log_max(26).map_err(fault)?;
    let mut out = Vec::new();
    let mut decoder = decoder.single_frame();
    decoder.by_ref().take(raw as u64 + 1).read_to_end(&mut out).map_err(fault)?;
    if flags & REST != 0 && out.len() <= raw {
        out.extend_from_slice(decoder.finish());
    }
    if out.len() == raw { Ok(out) } else { Err(FrameFault::Compression) }
}

/// Packs payloads; keeps its compressor between frames.
pub struct Packer {
    compressor: Option<Compressor<'static>>,
}

impl Default for Packer {
    fn default() -> Packer {
        Packer { compressor: compressor().ok() }
    }
}

/// With tables and a window that are small for its level: what resembles each other in a frame stands near each other, so that
/// a frame of 10,000 tasks becomes 1 % larger, one of 2,000 smaller, and a third of a megabyte is kept instead of a whole one.
fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    for parameter in [CParameter::WindowLog(16), CParameter::HashLog(14), CParameter::ChainLog(13)] {
        compressor.set_parameter(parameter)?;
    }
    Ok(compressor)
}

/// A payload ready to be stored, without its place in a file.
#[derive(Clone, Debug)]
pub struct Packed {
    pub stored: Vec<u8>,
    pub raw: u32,
    pub flags: u8,
}

impl Packed {
    /// The payload as it was.
    pub fn unpack(&self) -> Result<Vec<u8>, FrameFault> {
        unpack(&self.stored, self.flags, self.raw)
    }
}

impl Packer {
    /// `None` when it is larger than a frame may be.
    pub fn pack(&mut self, raw: Vec<u8>) -> Option<Packed> {
        let all = raw.len();
        self.pack_front(raw, all)
    }

    /// Compresses the first `front` bytes only: the others are bits that cannot become fewer.
    pub fn pack_front(&mut self, raw: Vec<u8>, front: usize) -> Option<Packed> {
        let length = u32::try_from(raw.len()).ok().filter(|&length| length <= MAX_RAW)?;
        let (front, rest) = raw.split_at_checked(front)?;
        let packed = (front.len() >= WORTH_PACKING)
            .then(|| self.compressor.as_mut()?.compress(front).ok())
            .flatten()
            .filter(|packed| packed.len() < front.len());
        let (mut stored, flags) = match packed {
            Some(packed) if rest.is_empty() => (packed, COMPRESSED),
            Some(mut packed) => {
                packed.extend_from_slice(rest);
                (packed, COMPRESSED | REST)
            }
            None => (raw, 0),
        };
        // It was given room for the worst case, and may be kept for minutes.
        stored.shrink_to_fit();
        (stored.len() <= MAX_STORED as usize).then_some(Packed { stored, raw: length, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_bomb_stops_at_what_its_header_says() {
        let (header, stored) = frame(vec![0; 1 << 20]);
        assert!(stored.len() < 200);
        assert_eq!(header.unpack(&stored).unwrap().len(), 1 << 20);
        for raw in [0, 100, (1 << 20) - 1, (1 << 20) + 1, MAX_RAW] {
            assert_eq!(FrameHeader { raw, ..header }.unpack(&stored), Err(FrameFault::Compression), "{raw}");
        }
        let mut flipped = stored;
        flipped[3] ^= 1;
        assert_eq!(header.unpack(&flipped), Err(FrameFault::Checksum));
    }
}
