//! Converts an error of a recording to a failure: exit code, message, remedy.

use std::io;

use crate::app::program::exit::{Exit, Failure};
use crate::recording::{DetectedFormat, Location, RecordingError};

const RECORD_HINT: &str = "give the name of a recording, such as 'stalltop record' writes";

/// Converts an error of a recording.
pub fn failure(error: RecordingError) -> Failure {
    if let RecordingError::Read { path: Location::File(path), source, .. } = &error
        && path.as_os_str() == "-"
        && source.kind() == io::ErrorKind::NotFound
    {
        let remedy = "save the stream first, or use 'stalltop check -' or 'stalltop replay -'";
        return Failure::new(Exit::Failed, "cannot read '-'", "this command reads files only", remedy);
    }
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
        | RecordingError::NoCompleteSample { .. }
        | RecordingError::NoSegments { .. }
        | RecordingError::NotSeekable { .. } => Exit::NotRecording,
        RecordingError::BeingWritten { .. } | RecordingError::Write { .. } => Exit::CannotWrite,
        RecordingError::AlreadyExists { .. }
        | RecordingError::NotARegularFile { .. }
        | RecordingError::PermissionDenied { .. }
        | RecordingError::MultipleBoots { .. } => Exit::Refused,
    };
    let remedy = match &error {
        RecordingError::NotSeekable { .. } => {
            "give a file, or read it as a stream: 'stalltop check - < FILE', 'stalltop replay - < FILE'"
        }
        RecordingError::NoCompleteSample { .. } => "'stalltop info --verify' shows what is in it",
        RecordingError::AlreadyExists { .. } => "give another name",
        RecordingError::NotARegularFile { .. } => "give the name of a new file, or - for standard output",
        RecordingError::PermissionDenied { .. } => "give a directory that this user may write to",
        RecordingError::Read { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
            "allow more open files (ulimit -n), or cut and cat some of them first"
        }
        RecordingError::Read { source, .. } if is_no_path(source) => RECORD_HINT,
        RecordingError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "read it as its owner, or as root"
        }
        RecordingError::NotARecording {
            looks_like: DetectedFormat::Empty | DetectedFormat::Text | DetectedFormat::Elf | DetectedFormat::Unknown,
            ..
        }
        | RecordingError::NoSegments { .. } => RECORD_HINT,
        RecordingError::MultipleBoots { .. } => "select one boot: stalltop cut --from --to",
        RecordingError::Write { source, .. } if is_no_path(source) => "give an existing directory",
        RecordingError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            "free space, or give another directory"
        }
        _ => "",
    };
    Failure::new(exit, error.to_string(), "", remedy)
}

/// There is no such file, or a part of its path is no directory.
fn is_no_path(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
