//! Errors of reading and writing recordings.

use std::io;
use std::path::{Path, PathBuf};

use crate::ids::escape_unprintable;
use crate::recording::format::wire::Malformed;

/// Why a recording cannot be read or written; the message names the place and the reason.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("cannot read '{path}'{}: {source}", at_byte(.offset))]
    Read { path: Location, offset: Option<u64>, source: io::Error },
    #[error("'{path}' is not a stalltop recording: it looks like {looks_like}")]
    NotARecording { path: Location, looks_like: DetectedFormat },
    #[error("'{path}' is damaged in its file header (both copies, bytes 0 to {}): nothing in it can be trusted", crate::recording::format::file_header::LENGTH * 2 - 1)]
    HeaderDamaged { path: Location },
    #[error(
        "'{path}' was written by a newer stalltop (format {major}.{minor}, this one reads {}.x): use that one",
        crate::recording::format::file_header::MAJOR
    )]
    NewerFormat { path: Location, major: u16, minor: u16 },
    #[error(
        "'{path}' was recorded by a development version of stalltop, before format 1.0, which is not read any more: record it again"
    )]
    DevelopmentVersion { path: Location },
    #[error("'{path}' uses additions that this stalltop does not support (flags {flags:#010x} at byte 16): use a newer one")]
    UnknownFlags { path: Location, flags: u32 },
    #[error("'{path}' has no intact meta frame, so that its host is unknown")]
    NoMeta { path: Location },
    #[error("'{path}' has no intact sample: there is nothing to copy")]
    NoIntactSamples { path: Location },
    #[error("'{path}' has no complete sample: {why}")]
    NoCompleteSample { path: Location, why: &'static str },
    #[error("'{path}' cannot be read at an offset (it is {kind})")]
    NotSeekable { path: Location, kind: &'static str },
    #[error("'{path}' has several boots of a machine, or several machines: their counters cannot be in one recording")]
    MultipleBoots { path: Location },
    #[error("the directory '{path}' has no recordings")]
    NoSegments { path: Location },
    #[error("there is no sample {index}; the recording has {len}")]
    NoSuchSample { index: usize, len: usize },
    #[error("the frame at byte {offset} is damaged: {why}")]
    DamagedFrame { offset: u64, why: FrameError },
    #[error("'{path}' exists already, and recordings are never overwritten")]
    AlreadyExists { path: Location },
    #[error("'{path}' is being written by another recorder")]
    BeingWritten { path: Location },
    #[error("'{path}' is {kind}, and a recording is only written to a new file")]
    NotARegularFile { path: Location, kind: &'static str },
    #[error("cannot write '{path}': no permission ({source})")]
    PermissionDenied { path: Location, source: io::Error },
    #[error("cannot write '{path}': {source}")]
    Write { path: Location, source: io::Error },
}

/// Why a frame with an intact header cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("its bytes do not match their checksum")]
    Checksum,
    #[error("the frame that it refers to is missing or damaged")]
    ReferenceMissing,
    #[error("its decompressed length is not the stated one")]
    Compression,
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("the file ends inside it")]
    Truncated,
    #[error("it is not at that offset any more")]
    NotAtOffset,
}

/// Where a recording is: a path, displayed with its control bytes escaped, or a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
    Stream,
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Location {
        Location::File(path.to_path_buf())
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::os::unix::ffi::OsStrExt;
        let Location::File(path) = self else { return f.write_str("-") };
        // Printable text of any alphabet is shown as it is; everything else is escaped.
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            write!(f, "{}{}", escape_unprintable(chunk.valid()), chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

fn at_byte(offset: &Option<u64>) -> String {
    offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default()
}

/// What a file seems to be that is not a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetectedFormat {
    #[error("an empty file, with no header")]
    Empty,
    #[error("a recording that a text-mode transfer has changed (copy it again in binary)")]
    NewlinesConverted,
    #[error("the first bytes of a recording, cut inside the file header")]
    TruncatedHeader,
    #[error("a program (ELF)")]
    Elf,
    #[error("gzip: unpack it first")]
    Gzip,
    #[error("zstd: unpack it first")]
    Zstd,
    #[error("xz: unpack it first")]
    Xz,
    #[error("a raw file of atop")]
    Atop,
    #[error("an asciicast")]
    Asciicast,
    #[error("text")]
    Text,
    #[error("something else")]
    Unknown,
}

impl DetectedFormat {
    /// Detects the format from the first bytes.
    pub fn detect(start: &[u8]) -> DetectedFormat {
        let magic = crate::recording::format::file_header::MAGIC;
        let without = |dropped: u8| magic.iter().copied().filter(|&byte| byte != dropped).collect::<Vec<_>>();
        let doubled = b"\x89TOP\r\r\n\x1a";
        match start {
            [] => DetectedFormat::Empty,
            _ if start.starts_with(&magic) || magic.starts_with(start) => DetectedFormat::TruncatedHeader,
            _ if start.starts_with(&without(b'\r')) || start.starts_with(&without(b'\n')) => DetectedFormat::NewlinesConverted,
            _ if start.starts_with(doubled) || start.starts_with(b"\x09TOP") || start.starts_with(b"\xc2\x89TOP") => {
                DetectedFormat::NewlinesConverted
            }
            _ if start.starts_with(b"\x7fELF") => DetectedFormat::Elf,
            _ if start.starts_with(b"\x1f\x8b") => DetectedFormat::Gzip,
            _ if start.starts_with(b"\x28\xb5\x2f\xfd") => DetectedFormat::Zstd,
            _ if start.starts_with(b"\xfd7zXZ\0") => DetectedFormat::Xz,
            _ if start.starts_with(&0xfeed_beefu32.to_le_bytes()) => DetectedFormat::Atop,
            _ if start.starts_with(b"{\"version\"") => DetectedFormat::Asciicast,
            _ if start.iter().all(|&byte| byte >= 0x20 && byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r')) => {
                DetectedFormat::Text
            }
            _ => DetectedFormat::Unknown,
        }
    }
}
