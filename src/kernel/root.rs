//! Where /proc and /sys are: the running machine, or a tree of captured files in tests.
//!
//! The only place that opens kernel files by name. A failure becomes an `Absent`, never an error that ends anything.
//! Nothing is parsed here.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};

use crate::sample::{Absent, Reading};

/// No file that is read here comes near it; one that does is not what it seems.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// How much is asked for at once. Files of seq_file give less and must be asked again until they give nothing.
const READ_BYTES: usize = 16 << 10;

/// The same of a file that is known to hold little: what is asked for is filled with zeros first.
const SMALL_READ_BYTES: usize = 4 << 10;

/// A reading shorter than this leaves half a page free: more than a record of any file that is kept open takes.
const SHORT_READ_BYTES: usize = 2 << 10;

/// The directory that stands for `/`. Paths are given relative to it: `proc/stat`, `sys/block`.
#[derive(Clone, Debug)]
pub struct Root {
    base: PathBuf,
    is_host: bool,
}

impl Root {
    /// The running machine.
    pub fn host() -> Root {
        Root { base: PathBuf::from("/"), is_host: true }
    }

    /// A tree that has `proc` and `sys` in it. System calls that do not go through files (netlink, ioctl) are not made.
    pub fn at_directory(base: PathBuf) -> Root {
        Root { base, is_host: false }
    }

    /// Whether this is the running machine, so that its system calls speak of the same thing as its files.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// The full path. A leading `/` of `relative` is taken as this root, not as the machine's.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        let relative = relative.as_ref();
        self.base.join(relative.strip_prefix("/").unwrap_or(relative))
    }

    /// Opens a file for reading.
    pub fn open(&self, relative: impl AsRef<Path>) -> Reading<File> {
        File::open(self.path(relative)).map_err(|error| absent_from_io_error(&error))
    }

    /// Reads the whole file into `buffer`, which is emptied first, also when nothing can be read.
    pub fn read(&self, relative: impl AsRef<Path>, buffer: &mut Vec<u8>) -> Reading<()> {
        buffer.clear();
        let file = self.open(relative)?;
        read_whole(&file, buffer)
    }

    /// The whole file in a buffer of its own: for facts that are read once.
    pub fn read_once(&self, relative: impl AsRef<Path>) -> Reading<Vec<u8>> {
        let mut buffer = Vec::new();
        self.read(relative, &mut buffer)?;
        Ok(buffer)
    }

    /// Where a symbolic link points, as it is written in the link.
    pub fn read_link(&self, relative: impl AsRef<Path>) -> Reading<PathBuf> {
        std::fs::read_link(self.path(relative)).map_err(|error| absent_from_io_error(&error))
    }

    /// The names in a directory, in the order in which the kernel gives them.
    pub fn list_directory(&self, relative: impl AsRef<Path>) -> Reading<Vec<OsString>> {
        let entries = std::fs::read_dir(self.path(relative)).map_err(|error| absent_from_io_error(&error))?;
        Ok(entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect())
    }

    /// A directory of which several files are to be read.
    pub fn open_directory(&self, relative: impl AsRef<Path>) -> Reading<OpenDirectory> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = open(&self.path(relative), flags, Mode::empty()).map_err(absent_from_errno)?;
        Ok(OpenDirectory { directory, buffer: Vec::new() })
    }

    /// Whether there is such a file, a link counting as what it points to.
    pub fn exists(&self, relative: impl AsRef<Path>) -> bool {
        self.path(relative).exists()
    }
}

/// An open directory of small files (of sysfs: one value each) and a buffer for one of them at a time.
#[derive(Debug)]
pub struct OpenDirectory {
    directory: OwnedFd,
    buffer: Vec<u8>,
}

impl OpenDirectory {
    /// The whole of a file below it.
    pub fn read(&mut self, name: impl AsRef<Path>) -> Reading<&[u8]> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let file = openat(&self.directory, name.as_ref(), flags, Mode::empty()).map_err(absent_from_errno)?;
        read_short_records(&file.into(), &mut self.buffer, SMALL_READ_BYTES)?;
        Ok(&self.buffer)
    }

    /// Shows each name in a directory below it, `.` for its own.
    pub fn for_each_entry(&self, name: &str, mut show: impl FnMut(&[u8])) -> Reading<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut names = Dir::openat(&self.directory, name, flags, Mode::empty()).map_err(absent_from_errno)?;
        let names = names.iter().filter_map(Result::ok);
        names.for_each(|entry| match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => show(name),
        });
        Ok(())
    }

    /// Whether there is such a file below it, a link counting as what it points to.
    pub fn exists(&self, name: impl AsRef<Path>) -> bool {
        fstatat(&self.directory, name.as_ref(), AtFlags::empty()).is_ok()
    }
}

/// A file that is read again and again from its start: opened once, then one or two system calls a reading.
#[derive(Debug)]
pub struct FileHandle {
    relative: PathBuf,
    file: Option<File>,
    /// Of the file as it was last opened.
    inode: Option<u64>,
    was_replaced: bool,
    /// How much is asked for: some more than it gave the last time
    read_bytes: usize,
}

impl FileHandle {
    /// Opens nothing yet.
    pub fn new(relative: impl Into<PathBuf>) -> FileHandle {
        FileHandle { relative: relative.into(), file: None, inode: None, was_replaced: false, read_bytes: READ_BYTES }
    }

    /// Reads the whole file into `buffer`, which is emptied first. A descriptor that went bad is opened again once.
    pub fn read(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Reading<()> {
        if let Some(file) = &self.file {
            if read_short_records(file, buffer, self.read_bytes).is_ok() {
                self.read_bytes = next_read_bytes(buffer);
                return Ok(());
            }
            self.file = None;
        }
        buffer.clear();
        let file = root.open(&self.relative)?;
        read_short_records(&file, buffer, self.read_bytes)?;
        let inode = file.metadata().ok().map(|file| file.ino());
        self.was_replaced |= self.inode.is_some() && inode != self.inode;
        self.inode = inode;
        self.file = Some(file);
        self.read_bytes = next_read_bytes(buffer);
        // Nothing was known of its length yet.
        buffer.shrink_to(self.read_bytes);
        Ok(())
    }

    /// Whether since the last question the file became another one under the same name (a control group that was deleted and
    /// made again): the kernel's file systems do not give an inode number away again soon.
    pub fn take_was_replaced(&mut self) -> bool {
        std::mem::take(&mut self.was_replaced)
    }

    /// Reads what one system call gives of the start of the file, and says how much that is.
    pub fn read_prefix(&mut self, root: &Root, start: &mut [u8]) -> Reading<usize> {
        if let Some(length) = self.file.as_ref().and_then(|file| file.read_at(start, 0).ok()) {
            return Ok(length);
        }
        let file = root.open(&self.relative)?;
        let length = file.read_at(start, 0).map_err(|error| absent_from_io_error(&error))?;
        self.file = Some(file);
        Ok(length)
    }

    /// Closes the descriptor until the next reading: where there are too many of them.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Whether a descriptor is open.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }
}

/// How much is asked for the next time.
fn next_read_bytes(last: &[u8]) -> usize {
    (last.len() + SHORT_READ_BYTES).clamp(SMALL_READ_BYTES, READ_BYTES)
}

/// Reads an open file from offset 0 to its end. `buffer` is emptied first, and left empty on failure.
pub fn read_whole(file: &File, buffer: &mut Vec<u8>) -> Reading<()> {
    read_to_end(file, buffer, 0, READ_BYTES)
}

/// The same of a file with short records. seq_file makes up as many records as fit into a page, so that a reading which
/// leaves room for any of them was the last one: to ask once more would make the kernel walk through its list again.
fn read_short_records(file: &File, buffer: &mut Vec<u8>, room: usize) -> Reading<()> {
    read_to_end(file, buffer, SHORT_READ_BYTES, room)
}

fn read_to_end(file: &File, buffer: &mut Vec<u8>, short: usize, room: usize) -> Reading<()> {
    let mut filled = 0;
    let why = loop {
        // What an earlier reading left there need not be made zero again.
        buffer.resize(filled + room, 0);
        match file.read_at(buffer.get_mut(filled..).unwrap_or_default(), filled as u64) {
            Ok(read) => {
                filled += read;
                // Also of what came after a full page: the rest of /proc/vmstat is a line or two.
                if read == 0 || read < short {
                    buffer.truncate(filled);
                    return Ok(());
                }
                if filled > MAX_FILE_BYTES {
                    break Absent::Malformed;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break absent_from_io_error(&error),
        }
    };
    buffer.clear();
    Err(why)
}

/// The reason in the vocabulary of samples.
pub fn absent_from_io_error(error: &io::Error) -> Absent {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Absent::NoSuchFile,
        // ENODEV: the device behind an attribute of sysfs has gone.
        Some(libc::ESRCH | libc::ENODEV) => Absent::Vanished,
        Some(libc::EACCES | libc::EPERM) => Absent::NoPermission,
        Some(libc::EOPNOTSUPP) => Absent::Unsupported,
        Some(errno) => Absent::Os(errno),
        None => Absent::Malformed,
    }
}

/// The same for the error of a system call.
pub fn absent_from_errno(errno: Errno) -> Absent {
    absent_from_io_error(&errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_says_so_and_leaves_nothing_of_the_last_one() {
        let mut buffer = b"of the last file".to_vec();
        assert_eq!(Root::host().read("proc/no-such-file", &mut buffer), Err(Absent::NoSuchFile));
        assert!(buffer.is_empty());
        let mut buffer = b"of the last file".to_vec();
        assert_eq!(FileHandle::new("proc/no-such-file").read(&Root::host(), &mut buffer), Err(Absent::NoSuchFile));
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_kept_file_is_read_from_its_start_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at_directory(directory.path().to_owned());
        let long = vec![b'x'; 3 * READ_BYTES + 5];
        std::fs::write(directory.path().join("stat"), &long).unwrap();
        let (mut kept, mut buffer) = (FileHandle::new("stat"), Vec::new());
        for _ in 0..2 {
            kept.read(&root, &mut buffer).unwrap();
            assert_eq!(buffer, long);
        }
        std::fs::write(directory.path().join("stat"), b"short").unwrap();
        kept.read(&root, &mut buffer).unwrap();
        assert_eq!(buffer, b"short");
    }

    #[test]
    fn a_leading_slash_stays_inside_the_tree() {
        let root = Root::at_directory(PathBuf::from("/fixture"));
        assert_eq!(root.path("/proc/stat"), PathBuf::from("/fixture/proc/stat"));
        assert_eq!(root.path("proc/stat"), PathBuf::from("/fixture/proc/stat"));
    }

    #[test]
    fn errors_become_reasons() {
        let reason = |errno| absent_from_io_error(&io::Error::from_raw_os_error(errno));
        assert_eq!(reason(libc::ENOENT), Absent::NoSuchFile);
        assert_eq!(reason(libc::ESRCH), Absent::Vanished);
        assert_eq!(reason(libc::EACCES), Absent::NoPermission);
        assert_eq!(reason(libc::EPERM), Absent::NoPermission);
        assert_eq!(reason(libc::EOPNOTSUPP), Absent::Unsupported);
        assert_eq!(reason(libc::EIO), Absent::Os(libc::EIO));
    }
}
