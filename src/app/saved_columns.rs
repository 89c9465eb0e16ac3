//! The hidden columns of each screen, in the state directory: `columns.toml` beside the baselines. A file that cannot be read or
//! written costs nothing but the choice.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::program::threads::{spawn, with_timeout};
use crate::baseline::store::BaselineStore;
use crate::state::HiddenColumns;

/// How long the start of the program waits for the file.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The hidden columns of the last run; none if they cannot be read.
pub fn load() -> HiddenColumns {
    with_timeout(TIMEOUT, || Some(read(&path(&store()?)?))).ok().flatten().unwrap_or_default()
}

/// Replaces the file, on a thread of its own.
pub fn save(hidden: &HiddenColumns) {
    let hidden = hidden.clone();
    // Nothing is lost but the choice.
    let _ = spawn("save columns", move || {
        let store = store()?;
        store.make_directory().ok()?;
        write(&path(&store)?, &hidden).ok()
    });
}

fn store() -> Option<BaselineStore> {
    BaselineStore::at_default_path(nix::unistd::geteuid().as_raw())
}

fn path(store: &BaselineStore) -> Option<PathBuf> {
    Some(store.path().parent()?.join("columns.toml"))
}

fn read(path: &Path) -> HiddenColumns {
    let mut text = String::new();
    let is_file = fs::metadata(path).is_ok_and(|facts| facts.is_file());
    let read = File::open(path).ok().filter(|_| is_file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text).ok());
    read.and_then(|_| toml::from_str(&text).ok()).unwrap_or_default()
}

fn write(path: &Path, hidden: &HiddenColumns) -> io::Result<()> {
    let text = toml::to_string(hidden).map_err(io::Error::other)?;
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_columns_are_read_back_and_a_damaged_file_hides_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("columns.toml");
        assert!(read(&path).is_empty(), "no file");
        let hidden: HiddenColumns = [("disk".to_owned(), ["×base".to_owned(), "op".to_owned()].into())].into();
        write(&path, &hidden).unwrap();
        assert_eq!(read(&path), hidden);
        for damaged in [&b"disk = 3"[..], b"\xff", b"[[["] {
            fs::write(&path, damaged).unwrap();
            assert!(read(&path).is_empty());
        }
        assert!(read(directory.path()).is_empty(), "a directory");
    }
}
