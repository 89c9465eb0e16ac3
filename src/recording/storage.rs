//! Where the bytes go: the few operations a recording needs, so that a test may fail the n-th of them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use super::error::{Place, RecordingError};

/// Room on the file system that is written to, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub available: u64,
    pub total: u64,
}

/// What is written to.
pub trait Storage: Send {
    /// Appends some of `bytes`; how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Until the device has it all.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes back what was written last; only ever our own unfinished frame.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// `None` where nobody can tell.
    fn room(&self) -> Option<Room>;
}

/// All of `bytes`, through interruptions and short writes. On error also how many bytes were taken.
pub fn write_all(storage: &mut dyn Storage, bytes: &[u8]) -> Result<(), (u64, io::Error)> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let taken = (bytes.len() - rest.len()) as u64;
        match storage.write(rest) {
            Ok(0) => return Err((taken, io::ErrorKind::WriteZero.into())),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A pipe that somebody else made non-blocking (ssh does).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err((taken, error)),
        }
    }
    Ok(())
}

/// A new file, locked as long as it is open.
pub struct FileStorage {
    file: LockedFile,
}

/// Some file systems know no locks; then a reader cannot tell that the file is still growing.
enum LockedFile {
    Locked(Flock<File>),
    Plain(File),
}

impl FileStorage {
    /// Creates the file: new, ours alone, never through a link.
    pub fn create(path: &Path) -> Result<FileStorage, RecordingError> {
        let place = || Place::from(path);
        let opened = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
            .open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Err(refusal(path, error)),
        };
        // Whatever the umask took away.
        if let Err(source) = file.set_permissions(std::fs::Permissions::from_mode(0o600)) {
            return Err(RecordingError::Write { path: place(), source });
        }
        lock(file).map(|file| FileStorage { file }).map_err(|_| RecordingError::BeingWritten { path: place() })
    }

    /// Deletes the file again, if it is still the one that was created.
    pub fn discard(&self, path: &Path) {
        let own = self.file().metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        let there = path.symlink_metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        if let (Ok(own), Ok(there)) = (own, there)
            && own == there
        {
            // Nothing is lost when it stays.
            let _ = std::fs::remove_file(path);
        }
    }

    fn file(&self) -> &File {
        match &self.file {
            LockedFile::Locked(file) => file,
            LockedFile::Plain(file) => file,
        }
    }
}

/// A reader that asks whether we are writing may hold the lock for a moment.
fn lock(mut file: File) -> Result<LockedFile, ()> {
    for _ in 0..100 {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(LockedFile::Locked(locked)),
            Err((back, nix::errno::Errno::EWOULDBLOCK | nix::errno::Errno::EINTR)) => {
                file = back;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((back, _)) => return Ok(LockedFile::Plain(back)),
        }
    }
    Err(())
}

/// Whether somebody is writing this file now. Never blocks.
pub fn is_being_written(file: &File) -> bool {
    let Ok(file) = file.try_clone() else { return false };
    // The lock belongs to the open file, which the clone shares; it is given back at once.
    matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, nix::errno::Errno::EWOULDBLOCK)))
}

/// Why the file could not be created, from what is there.
fn refusal(path: &Path, source: io::Error) -> RecordingError {
    let place = Place::from(path);
    match source.kind() {
        io::ErrorKind::PermissionDenied => return RecordingError::NotPermitted { path: place, source },
        io::ErrorKind::AlreadyExists => {}
        _ => return RecordingError::Write { path: place, source },
    }
    let kind = path.symlink_metadata().map(|metadata| metadata.file_type());
    match kind {
        Ok(kind) if kind.is_file() => {
            let reading = OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path);
            match reading {
                Ok(file) if is_being_written(&file) => RecordingError::BeingWritten { path: place },
                _ => RecordingError::Exists { path: place },
            }
        }
        Ok(kind) => RecordingError::NotARegularTarget { path: place, kind: kind_words(kind) },
        Err(_) => RecordingError::Exists { path: place },
    }
}

fn kind_words(kind: std::fs::FileType) -> &'static str {
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

    fn room(&self) -> Option<Room> {
        let room = nix::sys::statvfs::fstatvfs(self.file().as_fd()).ok()?;
        let unit = room.fragment_size();
        Some(Room { available: room.blocks_available().saturating_mul(unit), total: room.blocks().saturating_mul(unit) })
    }
}

/// A pipe, or standard output: what is written cannot be taken back.
pub struct StreamStorage<W>(pub W);

impl<W: Write + Send> Storage for StreamStorage<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        // Somebody may be watching at the other end.
        self.0.flush()?;
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn room(&self) -> Option<Room> {
        None
    }
}

/// What is read from, at any place.
pub trait Source: Send {
    fn length(&self) -> io::Result<u64>;

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether more may come.
    fn is_being_written(&self) -> bool;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn is_being_written(&self) -> bool {
        is_being_written(self)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        self.get(from..).unwrap_or_default().read(buffer)
    }

    fn is_being_written(&self) -> bool {
        false
    }
}

/// Up to `length` bytes from `offset` on: fewer only where the source ends.
pub fn read_at_most(source: &dyn Source, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read_at(offset + filled as u64, rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

/// Opens a recording for reading. A pipe or a device is no file to seek in, and opening it must not block.
pub fn open_source(path: &Path) -> Result<File, RecordingError> {
    let failed = |source| RecordingError::Read { path: path.into(), offset: None, source };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC | nix::libc::O_NOCTTY)
        .open(path)
        .map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() {
        return Err(RecordingError::NotSeekable { path: path.into(), kind: kind_words(kind) });
    }
    Ok(file)
}
