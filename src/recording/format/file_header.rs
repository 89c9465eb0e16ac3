//! The file header: 64 bytes, written twice, so that damage of one copy loses nothing.

use crate::recording::format::wire::array_at;

pub const MAGIC: [u8; 8] = *b"\x89TOP\r\n\x1a\n";
/// Development versions before format 1.0 wrote this one. Their recordings are refused.
const DEVELOPMENT_MAGIC: [u8; 8] = *b"\x89STL\r\n\x1a\n";
pub const LENGTH: usize = 64;
pub const MAJOR: u16 = 1;
pub const MINOR: u16 = 0;

/// Flags of additions that an older reader may ignore.
const COMPATIBLE: u32 = 0;
/// Flags of additions that a reader must support.
const INCOMPATIBLE: u32 = 0;

/// Salt of the checksums of frame headers, so that frames of another recording are never accepted.
pub type FileId = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub major: u16,
    pub minor: u16,
    pub compatible_flags: u32,
    pub incompatible_flags: u32,
    pub id: FileId,
    /// CLOCK_REALTIME, nanoseconds.
    pub created_ns: i64,
}

/// Why a file header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    NoMagic,
    /// Written by a development version, before format 1.0.
    DevelopmentVersion,
    Damaged,
    NewerVersion {
        major: u16,
        minor: u16,
    },
    UnknownFlags(u32),
}

impl FileHeader {
    pub fn new(id: FileId, created_ns: i64) -> FileHeader {
        FileHeader {
            major: MAJOR,
            minor: MINOR,
            compatible_flags: COMPATIBLE,
            incompatible_flags: INCOMPATIBLE,
            id,
            created_ns,
        }
    }

    /// One copy of the header.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.major.to_le_bytes());
        bytes.extend_from_slice(&self.minor.to_le_bytes());
        bytes.extend_from_slice(&self.compatible_flags.to_le_bytes());
        bytes.extend_from_slice(&self.incompatible_flags.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.created_ns.to_le_bytes());
        bytes.resize(LENGTH - 4, 0);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let mut header = [0; LENGTH];
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }

    /// Parses one copy.
    pub fn parse(bytes: &[u8]) -> Result<FileHeader, HeaderError> {
        if bytes.starts_with(&DEVELOPMENT_MAGIC) {
            return Err(HeaderError::DevelopmentVersion);
        }
        if !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::NoMagic);
        }
        let header = Self::parse_fields(bytes).ok_or(HeaderError::Damaged)?;
        if header.major > MAJOR {
            return Err(HeaderError::NewerVersion { major: header.major, minor: header.minor });
        }
        match header.incompatible_flags & !INCOMPATIBLE {
            0 => Ok(header),
            unknown => Err(HeaderError::UnknownFlags(unknown)),
        }
    }

    /// Parses the two copies at the start of a file; also returns whether one of them is damaged.
    pub fn parse_copies(bytes: &[u8]) -> Result<(FileHeader, bool), HeaderError> {
        let first = Self::parse(bytes);
        let second = Self::parse(bytes.get(LENGTH..).unwrap_or_default());
        match (first, second) {
            (Ok(first), Ok(second)) => Ok((first, first != second)),
            (Ok(header), Err(_)) | (Err(HeaderError::Damaged | HeaderError::NoMagic), Ok(header)) => Ok((header, true)),
            (Err(HeaderError::NoMagic), Err(HeaderError::NoMagic)) => Err(HeaderError::NoMagic),
            // The first copy may be damaged where the second one has the reason.
            (Err(HeaderError::Damaged | HeaderError::NoMagic), Err(fault)) => match fault {
                HeaderError::NoMagic => Err(HeaderError::Damaged),
                other => Err(other),
            },
            (Err(fault), _) => Err(fault),
        }
    }

    fn parse_fields(bytes: &[u8]) -> Option<FileHeader> {
        let bytes = bytes.get(..LENGTH)?;
        let (covered, _) = bytes.split_at(LENGTH - 4);
        if crc32c::crc32c(covered) != u32::from_le_bytes(array_at(bytes, LENGTH - 4)?) {
            return None;
        }
        Some(FileHeader {
            major: u16::from_le_bytes(array_at(bytes, 8)?),
            minor: u16::from_le_bytes(array_at(bytes, 10)?),
            compatible_flags: u32::from_le_bytes(array_at(bytes, 12)?),
            incompatible_flags: u32::from_le_bytes(array_at(bytes, 16)?),
            id: array_at(bytes, 20)?,
            created_ns: i64::from_le_bytes(array_at(bytes, 36)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sound_copy_is_enough() {
        let header = FileHeader::new([7; 16], -5);
        let both = [header.to_bytes(), header.to_bytes()].concat();
        assert_eq!(FileHeader::parse_copies(&both), Ok((header, false)));
        for at in 0..both.len() {
            let mut damaged = both.clone();
            damaged[at] ^= 0x10;
            assert_eq!(FileHeader::parse_copies(&damaged), Ok((header, true)), "byte {at}");
        }
        assert_eq!(FileHeader::parse_copies(b"hello"), Err(HeaderError::NoMagic));
        assert_eq!(FileHeader::parse_copies(&DEVELOPMENT_MAGIC), Err(HeaderError::DevelopmentVersion));
        assert_eq!(FileHeader::parse_copies(&both[..40]), Err(HeaderError::Damaged));
    }

    #[test]
    fn the_future_is_told_apart() {
        let newer = FileHeader { major: MAJOR + 1, ..FileHeader::new([7; 16], 0) };
        assert_eq!(FileHeader::parse(&newer.to_bytes()), Err(HeaderError::NewerVersion { major: MAJOR + 1, minor: MINOR }));
        let flagged = FileHeader { incompatible_flags: 4, ..FileHeader::new([7; 16], 0) };
        assert_eq!(FileHeader::parse(&flagged.to_bytes()), Err(HeaderError::UnknownFlags(4)));
        let compatible = FileHeader { compatible_flags: 4, minor: 9, ..FileHeader::new([7; 16], 0) };
        assert_eq!(FileHeader::parse(&compatible.to_bytes()), Ok(compatible));
    }
}
