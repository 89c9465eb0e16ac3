//! Where the bytes go: the few operations a recording needs, so that a test may fail the n-th of them.

mod atomic_file;
mod file;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::recording::error::{Location, RecordingError};
pub use atomic_file::{AtomicFile, parent_directory};
use file::is_being_written;
pub use file::{DirHandle, FileStorage, NewRecordingFile, open_source, save_recording};

/// Room on the file system that is written to, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
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
    fn disk_space(&self) -> Option<DiskSpace>;

    /// Where it is.
    fn location(&self) -> Location {
        Location::Stream
    }

    /// Another one beside it, for when this one has failed; `None` where there never is one.
    fn create_successor(&self) -> Option<Result<Box<dyn Storage>, RecordingError>> {
        None
    }

    /// Nothing was begun in it after all: as if it had never been there.
    fn discard(&self) {}
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

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }
}

/// What is read from, at any place.
pub trait RecordingSource: Send + Sync {
    fn length(&self) -> io::Result<u64>;

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether more may come.
    fn is_being_written(&self) -> bool;
}

impl RecordingSource for File {
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

impl RecordingSource for Vec<u8> {
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
pub fn read_at_most(source: &dyn RecordingSource, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    read_into(source, offset, length, &mut buffer)?;
    Ok(buffer)
}

/// The same into a buffer that is used again.
pub fn read_into(source: &dyn RecordingSource, offset: u64, length: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(length, 0);
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
    Ok(())
}
