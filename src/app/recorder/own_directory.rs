//! A directory that recordings are created in and deleted from: only this user may write to it, and it is held open, so that replacing
//! its path changes neither where files are written nor where they are deleted.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recorder;
use crate::recording::DirHandle;

/// Opens the directory, and creates it with mode 0700 if it is missing. `option`: the one that names it.
pub fn open_or_create(directory: &Path, option: &str) -> Result<Arc<DirHandle>, Failure> {
    if !directory.is_dir() {
        let made = DirBuilder::new().mode(0o700).create(directory);
        made.map_err(|error| {
            let what = format!("cannot record into {}", quoted(directory));
            let remedy = format!("give the name of a directory: {option} creates files in it");
            Failure::new(Exit::CannotWrite, what, error.to_string(), remedy)
        })?;
    }
    let folder = DirHandle::open(directory).map_err(recorder::failure)?;
    check_private(&folder)?;
    Ok(Arc::new(folder))
}

/// The regular files of this user whose names are wanted.
pub fn own_files(folder: &DirHandle, is_wanted: impl Fn(&str) -> bool) -> Vec<(OsString, Metadata)> {
    let own = nix::unistd::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(folder.entry_path(OsStr::new("."))) else { return Vec::new() };
    let wanted = entries.flatten().map(|entry| entry.file_name()).filter(|name| name.to_str().is_some_and(&is_wanted));
    let with_metadata = wanted.filter_map(|name| Some((folder.entry_path(&name).symlink_metadata().ok()?, name)));
    with_metadata
        .filter(|(metadata, _)| metadata.is_file() && metadata.uid() == own)
        .map(|(metadata, name)| (name, metadata))
        .collect()
}

/// Refuses a directory that others can write to: no files are deleted there. For root, that includes its group and its owner.
fn check_private(folder: &DirHandle) -> Result<(), Failure> {
    let path = folder.path();
    let refused = |why: String| {
        let what = format!("cannot record into {}", quoted(path));
        Failure::new(Exit::Refused, what, why, "give a directory that only this user may write to")
    };
    let metadata = folder.entry_path(OsStr::new(".")).metadata().map_err(|error| refused(error.to_string()))?;
    let own = nix::unistd::geteuid();
    let others = if own.is_root() { 0o022 } else { 0o002 };
    if metadata.mode() & others != 0 {
        return Err(refused(format!("others may write to it (mode {:o})", metadata.mode() & 0o7777)));
    }
    if own.is_root() && metadata.uid() != 0 {
        return Err(refused(format!("it belongs to user {} (mode {:o})", metadata.uid(), metadata.mode() & 0o7777)));
    }
    Ok(())
}
