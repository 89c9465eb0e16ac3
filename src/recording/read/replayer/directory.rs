//! Finds the recordings of a directory, and sorts them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::recording::error::{DetectedFormat, RecordingError};
use crate::recording::read::segment_file::SegmentFile;

/// File extension of segments.
const EXTENSION: &str = "stalltop";

/// New segments of a directory.
pub struct NewSegments {
    pub files: Vec<SegmentFile>,
    pub unreadable: Vec<(PathBuf, RecordingError)>,
}

/// Opens the segments of a directory that are not in `known`, and adds them to it.
pub fn open_new_segments(directory: &Path, known: &mut BTreeSet<PathBuf>) -> Result<NewSegments, RecordingError> {
    let failed = |source| RecordingError::Read { path: directory.into(), offset: None, source };
    let mut new = NewSegments { files: Vec::new(), unreadable: Vec::new() };
    raise_open_file_limit();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) || known.contains(&path) {
            continue;
        }
        match SegmentFile::open(&path) {
            Ok(part) => new.files.push(part),
            // The limit of open files is not an error of the segment.
            Err(RecordingError::Read { source, .. }) if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                return Err(failed(source));
            }
            Err(error) => {
                let looks_like = match &error {
                    RecordingError::NotARecording { looks_like, .. } => Some(*looks_like),
                    _ => None,
                };
                new.unreadable.push((path.clone(), error));
                // Its recorder may be about to write the first bytes: it is tried again.
                if matches!(looks_like, Some(DetectedFormat::Empty | DetectedFormat::TruncatedHeader)) {
                    continue;
                }
            }
        }
        known.insert(path);
    }
    Ok(new)
}

/// Raises the limit of open files: each segment stays open, and a week of short ones exceeds the default.
fn raise_open_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // If it is refused, opening a file fails with EMFILE.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Sorts segments by time: one boot after the other, and by BOOTTIME within a boot.
pub fn sort_by_time(mut parts: Vec<SegmentFile>) -> Vec<SegmentFile> {
    let run = |part: &SegmentFile| (part.meta().host.boot_id.clone(), part.meta().host.hostname.clone());
    let mut began = BTreeMap::new();
    for part in &parts {
        let known = began.entry(run(part)).or_insert(part.start_times());
        *known = part.start_times().min(*known);
    }
    parts.sort_by_cached_key(|part| {
        let run = run(part);
        // A segment without samples has just begun, or never got any.
        let none = if part.is_growing() { u64::MAX } else { 0 };
        let first_ns = part.timestamp(0).map_or(none, |at| at.boottime_ns);
        (began.get(&run).copied(), run, first_ns, part.start_times())
    });
    parts
}
