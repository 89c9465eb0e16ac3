//! The file of baselines in the state directory.
//!
//! It is replaced atomically: read, changed, written to a temporary file, synced, renamed, under a lock on the directory, so that
//! what two concurrent programs learn is merged. A file that cannot be parsed is renamed to .bad, and learning starts again. No
//! symbolic link is followed, and no directory of another user is written to.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use etcetera::BaseStrategy;

use super::Baselines;
use super::format::{FormatError, MAX_FILE_BYTES};

/// A file of baselines.
#[derive(Clone, Debug)]
pub struct BaselineStore {
    path: PathBuf,
    effective_uid: u32,
}

/// The content of a store.
#[derive(Debug, Default)]
pub struct LoadedBaselines {
    pub baselines: Baselines,
    /// Why the baselines start empty although there was a file: one line for the user
    pub notice: Option<String>,
}

/// Identifies a version of the file. Each version has its own inode, since the file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    modified_ns: i128,
    length: u64,
}

/// Why an existing file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Malformed(#[from] FormatError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Interval and number of attempts to take the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);
const LOCK_RETRIES: u32 = 100;

impl BaselineStore {
    /// The default file: in $XDG_STATE_HOME/stalltop if that is set, else in /var/lib/stalltop for root (whose home may be
    /// read-only or not mounted) and in ~/.local/state/stalltop for other users. `None` without a home directory. For root the
    /// variable is ignored if its directory belongs to another user, such as the one who called sudo.
    pub fn at_default_path(effective_uid: u32) -> Option<BaselineStore> {
        let set = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let directory = match set {
            Some(set) if effective_uid != 0 || is_owned_by(&set, 0) => set,
            _ if effective_uid == 0 => PathBuf::from("/var/lib"),
            _ => etcetera::base_strategy::Xdg::new().ok()?.state_dir()?,
        };
        Some(BaselineStore { path: directory.join("stalltop").join("baselines.toml"), effective_uid })
    }

    /// A given file.
    pub fn new(path: PathBuf, effective_uid: u32) -> BaselineStore {
        BaselineStore { path, effective_uid }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; no baselines if it does not exist. Changes nothing.
    pub fn read(&self) -> Result<Baselines, StoreError> {
        match self.read_bytes()? {
            Some(bytes) => Ok(Baselines::from_bytes(&bytes)?),
            None => Ok(Baselines::default()),
        }
    }

    /// The current version of the file; `None` if it does not exist.
    pub fn file_stamp(&self) -> Option<FileStamp> {
        let facts = fs::symlink_metadata(&self.path).ok()?;
        let modified_ns = i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec());
        Some(FileStamp { inode: facts.ino(), modified_ns, length: facts.len() })
    }

    /// Reads the file. Does not fail: a missing file has no baselines, a malformed one is renamed, with a notice.
    pub fn load(&self) -> LoadedBaselines {
        let error = match self.read() {
            Ok(baselines) => return LoadedBaselines { baselines, notice: None },
            Err(error) => error,
        };
        let file = self.path.display();
        let StoreError::Malformed(why) = error else {
            let notice = format!("baselines in {file}: {error}: starting without them");
            return LoadedBaselines { baselines: Baselines::default(), notice: Some(notice) };
        };
        let notice = match self.with_lock(|| self.move_malformed_aside()) {
            // Another program has replaced the file meanwhile.
            Ok(None) => None,
            Ok(Some(aside)) => Some(format!("baselines in {file}: {why}: kept as {}, learning anew", aside.display())),
            Err(error) => Some(format!("baselines in {file}: {why}, and it cannot be put aside: {error}: learning anew")),
        };
        LoadedBaselines { baselines: self.read().unwrap_or_default(), notice }
    }

    /// Reads the file, applies `change` and replaces it, under the lock. Returns the result of `change`.
    pub fn update<T>(&self, change: impl FnOnce(&mut Baselines) -> T) -> io::Result<T> {
        self.make_directory()?;
        self.with_lock(|| {
            self.move_malformed_aside()?;
            let mut baselines = match self.read() {
                Ok(baselines) => baselines,
                Err(StoreError::Io(error)) => return Err(error),
                Err(StoreError::Malformed(why)) => return Err(io::Error::other(why.to_string())),
            };
            let was = baselines.clone();
            let result = change(&mut baselines);
            if baselines != was {
                self.replace(&baselines)?;
            }
            Ok(result)
        })
    }

    /// Why the baselines cannot be saved, determined without writing; `None` if they probably can.
    pub fn write_obstacle(&self, may_write: impl Fn(&Path) -> bool) -> Option<String> {
        let directory = self.directory();
        match fs::symlink_metadata(&self.path) {
            Ok(facts) if !facts.is_file() => return Some(format!("{} is not a regular file", self.path.display())),
            _ => {}
        }
        match fs::metadata(directory) {
            Ok(_) => match self.check_directory() {
                Err(error) => Some(error.to_string()),
                Ok(()) => (!may_write(directory)).then(|| format!("{} cannot be written", directory.display())),
            },
            Err(_) => {
                let there = directory.ancestors().find(|path| path.is_dir())?;
                (!may_write(there)).then(|| format!("{} cannot be made", directory.display()))
            }
        }
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Makes the directory of the file; refuses one that other users may write to.
    pub fn make_directory(&self) -> io::Result<()> {
        let directory = self.directory();
        if !directory.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        self.check_directory()
    }

    /// Refuses a directory that other users may write to, since they could have put files there.
    fn check_directory(&self) -> io::Result<()> {
        let directory = self.directory();
        let facts = fs::metadata(directory)?;
        let refused =
            |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", directory.display())));
        match facts.mode() & 0o7777 {
            _ if facts.uid() != self.effective_uid => refused("belongs to another user"),
            mode if mode & 0o022 != 0 => refused(&format!("may be written by others (mode {mode:04o})")),
            _ => Ok(()),
        }
    }

    /// Runs `body` under an exclusive lock on the directory; without a lock on file systems that have none.
    fn with_lock<T>(&self, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let directory = File::open(self.directory())?;
        for _ in 0..LOCK_RETRIES {
            match directory.try_lock() {
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY_INTERVAL),
                // Closing the directory unlocks it.
                Ok(()) | Err(TryLockError::Error(_)) => return body(),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another program keeps it locked"))
    }

    /// Renames a malformed file to .bad; returns its new path.
    fn move_malformed_aside(&self) -> io::Result<Option<PathBuf>> {
        if !matches!(self.read(), Err(StoreError::Malformed(_))) {
            return Ok(None);
        }
        let aside = self.path.with_extension("toml.bad");
        fs::rename(&self.path, &aside)?;
        Ok(Some(aside))
    }

    /// `None` if the file does not exist.
    fn read_bytes(&self) -> Result<Option<Vec<u8>>, StoreError> {
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(facts) if facts.is_symlink() => return Err(io::Error::other("it is a link, which is not followed").into()),
            Ok(facts) if !facts.is_file() => return Err(io::Error::other("it is not a regular file").into()),
            Ok(facts) if facts.len() > MAX_FILE_BYTES => return Err(FormatError::TooLarge(facts.len()).into()),
            Ok(facts) if facts.uid() != self.effective_uid && facts.uid() != 0 => {
                return Err(io::Error::other("it belongs to another user").into());
            }
            Ok(_) => {}
        }
        let mut bytes = Vec::new();
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&self.path)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn replace(&self, baselines: &Baselines) -> io::Result<()> {
        if fs::symlink_metadata(&self.path).is_ok_and(|facts| !facts.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        let aside = self.path.with_extension(format!("toml.{}", std::process::id()));
        let written = write_synced(&aside, &baselines.to_bytes()).and_then(|()| fs::rename(&aside, &self.path));
        if written.is_err() {
            // The directory may not exist: report the first error.
            let _ = fs::remove_file(&aside);
        }
        written?;
        File::open(self.directory())?.sync_all()
    }
}

/// Whether a path, or its nearest existing ancestor, belongs to that user.
fn is_owned_by(path: &Path, uid: u32) -> bool {
    path.ancestors().find_map(|path| fs::metadata(path).ok()).is_some_and(|facts| facts.uid() == uid)
}

/// Creates a file with mode 0600, writes and syncs it.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
