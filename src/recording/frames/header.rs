//! The file header: 64 bytes that say what this is. Written twice, so that one damaged copy costs nothing.

use crate::recording::payload::layout::Layout;
use crate::recording::wire::array;

pub const MAGIC: [u8; 8] = *b"\x89STL\r\n\x1a\n";
pub const LENGTH: usize = 64;
pub const MAJOR: u16 = 1;
pub const MINOR: u16 = 4;

/// Flags of things that an older reader may ignore; none yet.
const COMPATIBLE: u32 = 0;
/// A flag that a reader must know: the samples are laid out in rows of eight, their columns may be packed.
const EIGHTS: u32 = 1;
/// Of those in rows of eight: their columns are written in forms that are kept from frame to frame.
const FORMS: u32 = 2;
/// All flags that a reader must know, and this one does.
const INCOMPATIBLE: u32 = EIGHTS | FORMS;

/// What salts each frame's checksum, so that bytes of another recording are never taken for this one's.
pub type FileId = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub major: u16,
    pub minor: u16,
    pub compatible: u32,
    pub incompatible: u32,
    pub id: FileId,
    /// CLOCK_REALTIME, nanoseconds.
    pub created_ns: i64,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    NoMagic,
    Damaged,
    Newer { major: u16, minor: u16 },
    Flags(u32),
}

impl FileHeader {
    pub fn new(id: FileId, created_ns: i64) -> FileHeader {
        let incompatible = match Layout::NEW {
            Layout::Tree => 0,
            Layout::Eights => EIGHTS,
            Layout::Forms => EIGHTS | FORMS,
        };
        FileHeader { major: MAJOR, minor: MINOR, compatible: COMPATIBLE, incompatible, id, created_ns }
    }

    /// How its samples are laid out.
    pub fn layout(&self) -> Layout {
        match self.incompatible & (EIGHTS | FORMS) {
            0 => Layout::Tree,
            EIGHTS => Layout::Eights,
            _ => Layout::Forms,
        }
    }

    /// One copy.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.major.to_le_bytes());
        bytes.extend_from_slice(&self.minor.to_le_bytes());
        bytes.extend_from_slice(&self.compatible.to_le_bytes());
        bytes.extend_from_slice(&self.incompatible.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.created_ns.to_le_bytes());
        bytes.resize(LENGTH - 4, 0);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let mut header = [0; LENGTH];
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }

    /// From one copy.
    pub fn parse(bytes: &[u8]) -> Result<FileHeader, HeaderFault> {
        if !bytes.starts_with(&MAGIC) {
            return Err(HeaderFault::NoMagic);
        }
        let header = Self::fields(bytes).ok_or(HeaderFault::Damaged)?;
        if header.major > MAJOR {
            return Err(HeaderFault::Newer { major: header.major, minor: header.minor });
        }
        match header.incompatible & !INCOMPATIBLE {
            0 => Ok(header),
            unknown => Err(HeaderFault::Flags(unknown)),
        }
    }

    /// From the two copies at the start of a file; also whether one of them is damaged.
    pub fn parse_copies(bytes: &[u8]) -> Result<(FileHeader, bool), HeaderFault> {
        let first = Self::parse(bytes);
        let second = Self::parse(bytes.get(LENGTH..).unwrap_or_default());
        match (first, second) {
            (Ok(first), Ok(second)) => Ok((first, first != second)),
            (Ok(header), Err(_)) | (Err(HeaderFault::Damaged | HeaderFault::NoMagic), Ok(header)) => Ok((header, true)),
            (Err(HeaderFault::NoMagic), Err(HeaderFault::NoMagic)) => Err(HeaderFault::NoMagic),
            (Err(fault @ (HeaderFault::Newer { .. } | HeaderFault::Flags(_))), _)
            | (_, Err(fault @ (HeaderFault::Newer { .. } | HeaderFault::Flags(_)))) => Err(fault),
            (Err(_), Err(_)) => Err(HeaderFault::Damaged),
        }
    }

    fn fields(bytes: &[u8]) -> Option<FileHeader> {
        let bytes = bytes.get(..LENGTH)?;
        let (covered, _) = bytes.split_at(LENGTH - 4);
        if crc32c::crc32c(covered) != u32::from_le_bytes(array(bytes, LENGTH - 4)?) {
            return None;
        }
        Some(FileHeader {
            major: u16::from_le_bytes(array(bytes, 8)?),
            minor: u16::from_le_bytes(array(bytes, 10)?),
            compatible: u32::from_le_bytes(array(bytes, 12)?),
            incompatible: u32::from_le_bytes(array(bytes, 16)?),
            id: array(bytes, 20)?,
            created_ns: i64::from_le_bytes(array(bytes, 36)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sound_copy_is_enough() {
        let header = FileHeader::new([7; 16], -5);
        let both = [header.bytes(), header.bytes()].concat();
        assert_eq!(FileHeader::parse_copies(&both), Ok((header, false)));
        for at in 0..both.len() {
            let mut damaged = both.clone();
            damaged[at] ^= 0x10;
            assert_eq!(FileHeader::parse_copies(&damaged), Ok((header, true)), "byte {at}");
        }
        assert_eq!(FileHeader::parse_copies(b"hello"), Err(HeaderFault::NoMagic));
        assert_eq!(FileHeader::parse_copies(&both[..40]), Err(HeaderFault::Damaged));
    }

    #[test]
    fn the_future_is_told_apart() {
        let newer = FileHeader { major: MAJOR + 1, ..FileHeader::new([7; 16], 0) };
        assert_eq!(FileHeader::parse(&newer.bytes()), Err(HeaderFault::Newer { major: MAJOR + 1, minor: MINOR }));
        let flagged = FileHeader { incompatible: 4, ..FileHeader::new([7; 16], 0) };
        assert_eq!(FileHeader::parse(&flagged.bytes()), Err(HeaderFault::Flags(4)));
        let compatible = FileHeader { compatible: 4, minor: 9, ..FileHeader::new([7; 16], 0) };
        assert_eq!(FileHeader::parse(&compatible.bytes()), Ok(compatible));
    }
}
