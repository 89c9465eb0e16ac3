//! The operations on files and pipes that a recording needs, as traits, so that a test can make the n-th of them fail.

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

/// Space on the file system that is written to, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub available: u64,
    pub total: u64,
}

/// A file or a pipe that is written to.
pub trait Storage: Send {
    /// Appends some of `bytes`; returns how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Returns when the device has all that was written.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts off what was written last: only an incomplete frame of this recorder.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// `None` where it is unknown.
    fn disk_space(&self) -> Option<DiskSpace>;

    /// Where the recording is.
    fn location(&self) -> Location {
        Location::Stream
    }

    /// Creates the next file after this one has failed; `None` where there is none, as for a pipe.
    fn create_successor(&self) -> Option<Result<Box<dyn Storage>, RecordingError>> {
        None
    }

    /// Deletes the file, in which nothing was written.
    fn discard(&self) {}
}

/// Writes all of `bytes`, through interruptions and short writes. An error comes with the number of bytes that were written.
pub fn write_all(storage: &mut dyn Storage, bytes: &[u8]) -> Result<(), (u64, io::Error)> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let taken = (bytes.len() - rest.len()) as u64;
        match storage.write(rest) {
            Ok(0) => return Err((taken, io::ErrorKind::WriteZero.into())),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another process has made the pipe non-blocking, as ssh does.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err((taken, error)),
        }
    }
    Ok(())
}

/// A pipe or standard output: what is written cannot be cut off again.
pub struct StreamStorage<W>(pub W);

impl<W: Write + Send> Storage for StreamStorage<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        // A reader may show each sample as it arrives.
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

/// A file that is read from, at any offset.
pub trait RecordingSource: Send + Sync {
    fn length(&self) -> io::Result<u64>;

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether more may be written.
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

/// Reads up to `length` bytes from `offset` on: fewer only where the source ends.
pub fn read_at_most(source: &dyn RecordingSource, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    read_into(source, offset, length, &mut buffer)?;
    Ok(buffer)
}

/// The same into a buffer that is reused.
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
