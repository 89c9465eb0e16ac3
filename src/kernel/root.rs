//! Opens and reads the files below /proc and /sys, of the running machine or of a tree of captured files in tests.
//!
//! All files are opened here, those of tasks excepted (`task::files`). A failure is an `Absent` with its reason. Nothing is
//! parsed here.

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

/// Kernel files are much smaller; a larger file is refused.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Size of one read(2). A seq_file returns less and is read until it returns 0.
const READ_BYTES: usize = 16 << 10;

/// The same for a file that is known to be small: the buffer has to be zeroed before the read.
const SMALL_READ_BYTES: usize = 4 << 10;

/// A read that returns less leaves half a page free: more than a record of any file that is kept open.
const SHORT_READ_BYTES: usize = 2 << 10;

/// The directory used as `/`. Paths are relative to it: `proc/stat`, `sys/block`.
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

    /// A fixture tree with `proc` and `sys` in it. System calls other than on files (netlink, ioctl) are then not made.
    pub fn at_directory(base: PathBuf) -> Root {
        Root { base, is_host: false }
    }

    /// Whether this is the running machine, so that system calls and files are of the same machine.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// The full path. A leading `/` of `relative` is this root, not the machine's.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        let relative = relative.as_ref();
        self.base.join(relative.strip_prefix("/").unwrap_or(relative))
    }

    /// Opens a file for reading.
    pub fn open(&self, relative: impl AsRef<Path>) -> Reading<File> {
        File::open(self.path(relative)).map_err(|error| absent_from_io_error(&error))
    }

    /// Reads the whole file into `buffer`, which is cleared first, also on failure.
    pub fn read(&self, relative: impl AsRef<Path>, buffer: &mut Vec<u8>) -> Reading<()> {
        buffer.clear();
        let file = self.open(relative)?;
        read_whole(&file, buffer)
    }

    /// The whole file in a new buffer, for facts that are read once.
    pub fn read_once(&self, relative: impl AsRef<Path>) -> Reading<Vec<u8>> {
        let mut buffer = Vec::new();
        self.read(relative, &mut buffer)?;
        Ok(buffer)
    }

    /// The target of a symbolic link, as written in the link.
    pub fn read_link(&self, relative: impl AsRef<Path>) -> Reading<PathBuf> {
        std::fs::read_link(self.path(relative)).map_err(|error| absent_from_io_error(&error))
    }

    /// The names in a directory, in the kernel's order.
    pub fn list_directory(&self, relative: impl AsRef<Path>) -> Reading<Vec<OsString>> {
        self.list_directory_start(relative, usize::MAX)
    }

    /// The first names in a directory, in the kernel's order, at most so many.
    pub fn list_directory_start(&self, relative: impl AsRef<Path>, max_names: usize) -> Reading<Vec<OsString>> {
        let entries = std::fs::read_dir(self.path(relative)).map_err(|error| absent_from_io_error(&error))?;
        Ok(entries.filter_map(Result::ok).map(|entry| entry.file_name()).take(max_names).collect())
    }

    /// Opens a directory of which several files are to be read.
    pub fn open_directory(&self, relative: impl AsRef<Path>) -> Reading<OpenDirectory> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = open(&self.path(relative), flags, Mode::empty()).map_err(absent_from_errno)?;
        Ok(OpenDirectory { directory, buffer: Vec::new() })
    }

    /// Whether the file exists; symbolic links are followed.
    pub fn exists(&self, relative: impl AsRef<Path>) -> bool {
        self.path(relative).exists()
    }
}

/// An open directory of small files (in sysfs one value each), with a buffer for one file.
#[derive(Debug)]
pub struct OpenDirectory {
    directory: OwnedFd,
    buffer: Vec<u8>,
}

impl OpenDirectory {
    /// Reads a whole file below it.
    pub fn read(&mut self, name: impl AsRef<Path>) -> Reading<&[u8]> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let file = openat(&self.directory, name.as_ref(), flags, Mode::empty()).map_err(absent_from_errno)?;
        read_short_records(&file.into(), &mut self.buffer, SMALL_READ_BYTES)?;
        Ok(&self.buffer)
    }

    /// Calls `visit` with each name in a directory below it; `.` is the directory itself.
    pub fn for_each_entry(&self, name: &str, mut visit: impl FnMut(&[u8])) -> Reading<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut names = Dir::openat(&self.directory, name, flags, Mode::empty()).map_err(absent_from_errno)?;
        let names = names.iter().filter_map(Result::ok);
        names.for_each(|entry| match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => visit(name),
        });
        Ok(())
    }

    /// Whether the file exists below it; symbolic links are followed.
    pub fn exists(&self, name: impl AsRef<Path>) -> bool {
        fstatat(&self.directory, name.as_ref(), AtFlags::empty()).is_ok()
    }
}

/// A file that is read repeatedly from its start: opened once, then one or two system calls a reading.
#[derive(Debug)]
pub struct FileHandle {
    relative: PathBuf,
    file: Option<File>,
    /// Inode of the file as last opened
    inode: Option<u64>,
    was_replaced: bool,
    /// Size of the next read(2): some more than the file had the last time
    read_bytes: usize,
}

impl FileHandle {
    /// Does not open the file yet.
    pub fn new(relative: impl Into<PathBuf>) -> FileHandle {
        FileHandle { relative: relative.into(), file: None, inode: None, was_replaced: false, read_bytes: READ_BYTES }
    }

    /// Reads the whole file into `buffer`, which is cleared first. A descriptor that fails is opened again once. The file's records must
    /// be shorter than `SHORT_READ_BYTES`: a shorter read is taken for the last one.
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
        // Its length was not known yet.
        buffer.shrink_to(self.read_bytes);
        Ok(())
    }

    /// Whether the file became another one of the same name since the last call (a cgroup that was deleted and created
    /// again). The kernel's file systems do not reuse an inode number soon.
    pub fn take_was_replaced(&mut self) -> bool {
        std::mem::take(&mut self.was_replaced)
    }

    /// Reads the start of the file by one system call; returns the number of bytes.
    pub fn read_prefix(&mut self, root: &Root, start: &mut [u8]) -> Reading<usize> {
        if let Some(length) = self.file.as_ref().and_then(|file| file.read_at(start, 0).ok()) {
            return Ok(length);
        }
        let file = root.open(&self.relative)?;
        let length = file.read_at(start, 0).map_err(|error| absent_from_io_error(&error))?;
        self.file = Some(file);
        Ok(length)
    }

    /// Closes the descriptor until the next reading.
    pub fn close(&mut self) {
        self.file = None;
    }
}

/// Size of the next read(2) of a file of this length.
fn next_read_bytes(last: &[u8]) -> usize {
    (last.len() + SHORT_READ_BYTES).clamp(SMALL_READ_BYTES, READ_BYTES)
}

/// Reads an open file from offset 0 to its end. `buffer` is cleared first, and empty on failure.
pub fn read_whole(file: &File, buffer: &mut Vec<u8>) -> Reading<()> {
    read_to_end(file, buffer, 0, READ_BYTES)
}

/// As `read_whole`, for a file with short records. seq_file formats as many records as fit into a page: a read that leaves space
/// for one more was the last. Another read would make the kernel walk its list again.
fn read_short_records(file: &File, buffer: &mut Vec<u8>, room: usize) -> Reading<()> {
    read_to_end(file, buffer, SHORT_READ_BYTES, room)
}

fn read_to_end(file: &File, buffer: &mut Vec<u8>, short: usize, room: usize) -> Reading<()> {
    let mut filled = 0;
    let why = loop {
        // The bytes of an earlier reading need not be zeroed again.
        buffer.resize(filled + room, 0);
        match file.read_at(buffer.get_mut(filled..).unwrap_or_default(), filled as u64) {
            Ok(read) => {
                filled += read;
                // Also after a full page: the rest of /proc/vmstat is a line or two.
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

/// The `Absent` of an I/O error.
pub fn absent_from_io_error(error: &io::Error) -> Absent {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Absent::NoSuchFile,
        // ENODEV: the device of a sysfs attribute was removed.
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
    use crate::proc_tree::ProcTree;

    #[test]
    fn a_missing_file_is_an_error_and_clears_the_buffer() {
        let mut buffer = b"of the last file".to_vec();
        assert_eq!(Root::host().read("proc/no-such-file", &mut buffer), Err(Absent::NoSuchFile));
        assert!(buffer.is_empty());
        let mut buffer = b"of the last file".to_vec();
        assert_eq!(FileHandle::new("proc/no-such-file").read(&Root::host(), &mut buffer), Err(Absent::NoSuchFile));
        assert!(buffer.is_empty());
    }

    #[test]
    fn an_open_file_is_read_from_its_start_each_time() {
        let long = vec![b'x'; 3 * READ_BYTES + 5];
        let tree = ProcTree::with([("stat", &long)]);
        let root = tree.root();
        let (mut kept, mut buffer) = (FileHandle::new("stat"), Vec::new());
        for _ in 0..2 {
            kept.read(&root, &mut buffer).unwrap();
            assert_eq!(buffer, long);
        }
        tree.write("stat", b"short");
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
