//! Which file a loop device stands on. A path and a size can be those of another file next time, and what was learned of the
//! one must not be taken for the other.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use rustc_hash::FxHashMap;

use crate::kernel::root::Root;
use crate::sample::Name;

/// How long a file system may take to say which file a path is; the next look hears of it otherwise.
const PATIENCE: Duration = Duration::from_millis(250);

/// Asks on threads of their own: the file may be on a server that does not answer, which must cost this one fact.
#[derive(Debug, Default)]
pub struct Backings {
    known: FxHashMap<Name, Backing>,
}

#[derive(Debug, Default)]
struct Backing {
    version: Option<Name>,
    asked: Option<Receiver<Option<Name>>>,
}

impl Backings {
    /// Inode number and, where the file system keeps one, birth time of the file with that path: no other file has both.
    /// `None` where it cannot be told.
    pub fn version(&mut self, root: &Root, file: &Name) -> Option<Name> {
        if !root.is_host() {
            return None;
        }
        let backing = self.known.entry(file.clone()).or_default();
        if backing.asked.is_none() {
            backing.asked = ask(file);
        }
        match backing.asked.as_ref()?.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => {}
            answer => {
                backing.asked = None;
                backing.version = answer.ok().flatten();
            }
        }
        backing.version.clone()
    }
}

fn ask(file: &Name) -> Option<Receiver<Option<Name>>> {
    let path = file_path(file);
    let (sender, answer) = channel();
    let body = move || {
        // Nobody listens any more when the program ends.
        let _ = sender.send(version_of(&path));
    };
    thread::Builder::new().name("backing".to_owned()).spawn(body).ok().map(|_| answer)
}

fn file_path(file: &Name) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(file.as_bytes()))
}

fn version_of(path: &Path) -> Option<Name> {
    let facts = fs::symlink_metadata(path).ok()?;
    let born = facts.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or_else(String::new, |at| format!("@{}.{:09}", at.as_secs(), at.subsec_nanos()));
    Some(Name::from(format!("{}{born}", facts.ino()).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_anew_at_the_same_path_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.img");
        let name = Name::from(path.as_os_str().as_encoded_bytes());
        let root = Root::host();
        let mut backings = Backings::default();
        let version = |backings: &mut Backings| backings.version(&root, &name);
        assert_eq!(version(&mut backings), None);
        fs::write(&path, "old").unwrap();
        let old = version(&mut backings).unwrap();
        fs::write(&path, "older, and written to since").unwrap();
        assert_eq!(version(&mut backings), Some(old.clone()));
        // Kept, so that its inode is not given away again.
        fs::rename(&path, folder.path().join("b.img")).unwrap();
        fs::write(&path, "new").unwrap();
        assert_ne!(version(&mut backings), Some(old));
    }
}
