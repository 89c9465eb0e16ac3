//! Files that are written to: new, mode 0600, in a directory that is held open from the beginning, so that no other process
//! can replace it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::atomic_file::{AtomicFile, open_directory};
use super::{DiskSpace, Storage};
use crate::recording::error::{Location, RecordingError};

/// A directory that is held open: later changes of its path have no effect.
pub struct DirHandle {
    fd: OwnedFd,
    path: PathBuf,
}

impl DirHandle {
    pub fn open(path: &Path) -> Result<DirHandle, RecordingError> {
        let handle = open_directory(path).map_err(|error| creation_error(path, error))?;
        Ok(DirHandle { fd: handle, path: path.to_owned() })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path to an entry of the directory, independent of the directory's own path.
    pub fn entry_path(&self, name: &OsStr) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).join(name)
    }

    /// Deletes the entry with that name, unless it is a directory.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn create_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // On 32-bit machines the file may grow beyond 2 GiB too.
        let flags = flags | OFlag::O_LARGEFILE;
        Ok(File::from(nix::fcntl::openat(&self.fd, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?))
    }

    /// Syncs the directory's entries, where the file system can.
    fn sync(&self) {
        let _ = nix::unistd::fsync(&self.fd);
    }
}

/// A new file that is locked (`flock`) as long as it is open.
pub struct FileStorage {
    file: LockedFile,
    directory: Arc<DirHandle>,
    file_name: OsString,
    /// Name of the first file of the recording, of which this is a successor.
    base_name: OsString,
}

/// Some file systems have no locks: there a reader cannot see that the file is still growing.
enum LockedFile {
    Locked(Flock<File>),
    Unlocked(File),
}

impl FileStorage {
    /// Creates the file: new, mode 0600, never through a link.
    pub fn create(path: &Path) -> Result<FileStorage, RecordingError> {
        // A trailing slash makes it the name of a directory.
        let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
        let Some(name) = name else {
            return Err(RecordingError::NotARegularFile { path: path.into(), kind: "a directory" });
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let handle = open_directory(here).map_err(|error| creation_error(path, error))?;
        FileStorage::create_in(&Arc::new(DirHandle { fd: handle, path: folder.to_owned() }), name)
    }

    /// The same in a directory that is held open.
    pub fn create_in(folder: &Arc<DirHandle>, name: &OsStr) -> Result<FileStorage, RecordingError> {
        FileStorage::create_as(folder, name, name)
    }

    fn create_as(folder: &Arc<DirHandle>, name: &OsStr, first: &OsStr) -> Result<FileStorage, RecordingError> {
        let path = folder.path.join(name);
        let file = folder.create_file(name).map_err(|error| creation_error(&path, error))?;
        // Independent of the umask.
        if let Err(source) = file.set_permissions(std::fs::Permissions::from_mode(0o600)) {
            // The file is empty and was just created here.
            let _ = folder.remove_file(name);
            return Err(RecordingError::Write { path: Location::File(path), source });
        }
        folder.sync();
        let file = lock_exclusive(file).map_err(|()| RecordingError::BeingWritten { path: Location::File(path) })?;
        Ok(FileStorage { file, directory: Arc::clone(folder), file_name: name.to_owned(), base_name: first.to_owned() })
    }

    fn path(&self) -> PathBuf {
        self.directory.path.join(&self.file_name)
    }

    fn file(&self) -> &File {
        match &self.file {
            LockedFile::Locked(file) => file,
            LockedFile::Unlocked(file) => file,
        }
    }
}

/// A recording that is written at once: either all of it is on the disk, or there is no such file.
pub struct NewRecordingFile(AtomicFile);

impl NewRecordingFile {
    pub fn create(path: &Path) -> Result<NewRecordingFile, RecordingError> {
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(RecordingError::NotARegularFile { path: path.into(), kind: "a directory" });
        }
        AtomicFile::create(path).map(NewRecordingFile).map_err(|error| creation_error(path, error))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), RecordingError> {
        let path = self.0.path();
        self.0.file().write_all(bytes).map_err(|source| RecordingError::Write { path: path.into(), source })
    }

    /// Gives the file its name.
    pub fn commit(self) -> Result<(), RecordingError> {
        let path = self.0.path().to_owned();
        self.0.commit().map_err(|error| creation_error(&path, error))
    }
}

/// Writes a recording that is complete in memory to a new file, mode 0600.
pub fn save_recording(path: &Path, bytes: &[u8]) -> Result<(), RecordingError> {
    let mut file = NewRecordingFile::create(path)?;
    file.write(bytes)?;
    file.commit()
}

/// The name of a successor: NAME.stalltop becomes NAME-2.stalltop.
fn numbered_name(name: &OsStr, number: u32) -> OsString {
    let name = Path::new(name);
    let mut numbered = name.file_stem().unwrap_or_default().to_owned();
    numbered.push(format!("-{number}"));
    if let Some(extension) = name.extension() {
        numbered.push(".");
        numbered.push(extension);
    }
    numbered
}

/// A reader that tests for a writer may hold the lock for a moment.
fn lock_exclusive(mut file: File) -> Result<LockedFile, ()> {
    for _ in 0..100 {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(LockedFile::Locked(locked)),
            Err((back, nix::errno::Errno::EWOULDBLOCK | nix::errno::Errno::EINTR)) => {
                file = back;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((back, _)) => return Ok(LockedFile::Unlocked(back)),
        }
    }
    Err(())
}

/// Whether a recorder has this file locked. Never blocks.
pub fn is_being_written(file: &File) -> bool {
    let Ok(file) = file.try_clone() else { return false };
    // The lock belongs to the open file, which the clone shares; it is released at once.
    matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, nix::errno::Errno::EWOULDBLOCK)))
}

/// Why the file could not be created, by what exists there.
fn creation_error(path: &Path, source: io::Error) -> RecordingError {
    let place = Location::from(path);
    match source.kind() {
        io::ErrorKind::PermissionDenied => return RecordingError::PermissionDenied { path: place, source },
        io::ErrorKind::AlreadyExists => {}
        _ => return RecordingError::Write { path: place, source },
    }
    let kind = path.symlink_metadata().map(|metadata| metadata.file_type());
    match kind {
        Ok(kind) if kind.is_file() => {
            let reading = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
            match reading {
                Ok(file) if is_being_written(&file) => RecordingError::BeingWritten { path: place },
                _ => RecordingError::AlreadyExists { path: place },
            }
        }
        Ok(kind) => RecordingError::NotARegularFile { path: place, kind: file_type_name(kind) },
        Err(_) => RecordingError::AlreadyExists { path: place },
    }
}

fn file_type_name(kind: std::fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Both have 32 bits on some machines, and their product has more.
fn blocks_to_bytes(blocks: impl Into<u64>, unit: impl Into<u64>) -> u64 {
    blocks.into().saturating_mul(unit.into())
}

impl Storage for FileStorage {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file().sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file().set_len(length)
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        let room = nix::sys::statvfs::fstatvfs(self.file().as_fd()).ok()?;
        let unit = room.fragment_size();
        Some(DiskSpace {
            available: blocks_to_bytes(room.blocks_available(), unit),
            total: blocks_to_bytes(room.blocks(), unit),
        })
    }

    fn location(&self) -> Location {
        Location::File(self.path())
    }

    fn create_successor(&self) -> Option<Result<Box<dyn Storage>, RecordingError>> {
        /// After that many failures another file would not help.
        const MOST: u32 = 99;
        let mut taken = RecordingError::AlreadyExists { path: self.location() };
        for number in 2..=MOST {
            match FileStorage::create_as(&self.directory, &numbered_name(&self.base_name, number), &self.base_name) {
                Ok(storage) => return Some(Ok(Box::new(storage))),
                Err(error @ (RecordingError::AlreadyExists { .. } | RecordingError::BeingWritten { .. })) => taken = error,
                Err(other) => return Some(Err(other)),
            }
        }
        Some(Err(taken))
    }

    fn discard(&self) {
        let which = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let own = self.file().metadata().map(which);
        let there = self.directory.entry_path(&self.file_name).symlink_metadata().map(which);
        if let (Ok(own), Ok(there)) = (own, there)
            && own == there
        {
            // An empty file that stays does no harm.
            let _ = self.directory.remove_file(&self.file_name);
        }
    }
}

/// Opens a recording for reading. Pipes and devices cannot be read at an offset, and opening them must not block.
pub fn open_source(path: &Path) -> Result<File, RecordingError> {
    let failed = |source| RecordingError::Read { path: path.into(), offset: None, source };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path)
        .map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() {
        return Err(RecordingError::NotSeekable { path: path.into(), kind: file_type_name(kind) });
    }
    Ok(file)
}
