//! An error of a recording as the end of the program: exit code, message, remedy.

use std::io;

use crate::app::program::exit::{Exit, Failure};
use crate::recording::{DetectedFormat, RecordingError};

const RECORD_HINT: &str = "give the name of a recording: 'stalltop record' makes one";

/// An error of a recording as the end of the program.
pub fn failure(error: RecordingError) -> Failure {
    let exit = match &error {
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Exit::Refused,
        RecordingError::Read { .. } | RecordingError::NoSuchSample { .. } => Exit::Failed,
        RecordingError::DamagedFrame { .. } => Exit::Damaged,
        RecordingError::NotARecording { .. }
        | RecordingError::HeaderDamaged { .. }
        | RecordingError::NewerFormat { .. }
        | RecordingError::DevelopmentVersion { .. }
        | RecordingError::UnknownFlags { .. }
        | RecordingError::NoMeta { .. }
        | RecordingError::NoIntactSamples { .. }
        | RecordingError::NoSegments { .. }
        | RecordingError::NotSeekable { .. } => Exit::NotRecording,
        RecordingError::BeingWritten { .. } | RecordingError::Write { .. } => Exit::CannotWrite,
        RecordingError::AlreadyExists { .. }
        | RecordingError::NotARegularFile { .. }
        | RecordingError::PermissionDenied { .. }
        | RecordingError::MultipleBoots { .. } => Exit::Refused,
    };
    let remedy = match &error {
        RecordingError::AlreadyExists { .. } => "give another name",
        RecordingError::NotARegularFile { .. } => "give the name of a new file, or - for standard output",
        RecordingError::PermissionDenied { .. } => "give a directory that you may write",
        RecordingError::Read { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
            "allow more open files (ulimit -n), or cut and cat some of them first"
        }
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => RECORD_HINT,
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "read it as its owner, or as root"
        }
        RecordingError::NotARecording {
            looks_like: DetectedFormat::Text | DetectedFormat::Elf | DetectedFormat::Unknown,
            ..
        }
        | RecordingError::NoSegments { .. } => RECORD_HINT,
        RecordingError::MultipleBoots { .. } => "take one of them: stalltop cut --from --to",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => "give a directory that is there",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            "make room, or give another place"
        }
        _ => "",
    };
    Failure::new(exit, error.to_string(), "", remedy)
}
