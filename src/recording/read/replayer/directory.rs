//! The files of a directory that are recordings, and their order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::recording::error::{DetectedFormat, RecordingError};
use crate::recording::read::segment_file::SegmentFile;

/// What the names of segments end in.
const EXTENSION: &str = "stalltop";

/// What `read_new` found.
pub struct NewSegments {
    pub files: Vec<SegmentFile>,
    pub unreadable: Vec<(PathBuf, RecordingError)>,
}

/// Segments of the directory that are not known yet, which they are then.
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
            // As many files as we may open are open: that is no fault of theirs.
            Err(RecordingError::Read { source, .. }) if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                return Err(failed(source));
            }
            Err(error) => {
                let looks_like = match &error {
                    RecordingError::NotARecording { looks_like, .. } => Some(*looks_like),
                    _ => None,
                };
                new.unreadable.push((path.clone(), error));
                // Its recorder may be about to write the first bytes: it is looked at again.
                if matches!(looks_like, Some(DetectedFormat::Empty | DetectedFormat::TruncatedHeader)) {
                    continue;
                }
            }
        }
        known.insert(path);
    }
    Ok(new)
}

/// Each segment stays open, and a week of short ones is more files than a process may have open unasked.
fn raise_open_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Where it is refused, opening says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// In the order of time: one run of a machine after the other, and within a run by the clock that nobody sets.
pub fn sort_by_time(mut parts: Vec<SegmentFile>) -> Vec<SegmentFile> {
    let run = |part: &SegmentFile| (part.meta().host.boot_id.clone(), part.meta().host.hostname.clone());
    let mut began = BTreeMap::new();
    for part in &parts {
        let known = began.entry(run(part)).or_insert(part.start_times());
        *known = part.start_times().min(*known);
    }
    parts.sort_by_cached_key(|part| {
        let run = run(part);
        // One without a sample has just begun, or never got any.
        let none = if part.is_growing() { u64::MAX } else { 0 };
        let first_ns = part.timestamp(0).map_or(none, |at| at.boottime_ns);
        (began.get(&run).copied(), run, first_ns, part.start_times())
    });
    parts
}
