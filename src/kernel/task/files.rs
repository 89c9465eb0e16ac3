//! A task's files below /proc: opened relative to one kept directory, read into one reused buffer, and kept open for
//! those that are read again and again (a pread costs half of open, read and close).
//!
//! The kernel binds an open file of /proc to the task itself: after its end a read fails, also when the number has
//! been given to another task. So a kept descriptor never speaks of a stranger.

use std::ffi::{CStr, OsString};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, fstatat};
use nix::sys::uio::pread;

use crate::kernel::mounts;
use crate::kernel::root::{Root, absent_from_io_error};
use crate::sample::{Absent, Reading};

/// Enough for every file of a fixed form; cmdline is cut here.
const BUFFER_BYTES: usize = 4096;
/// Longest: `4294967295/task/4294967295/schedstat` and the NUL, or a descriptor's link.
const PATH_BYTES: usize = 64;
/// Descriptors we may have at most, whatever the hard limit: each costs the kernel about a kilobyte.
const MAX_DESCRIPTORS: libc::rlim_t = 16_384;
/// Left for everything else in this process.
const RESERVED_DESCRIPTORS: libc::rlim_t = 256;

/// Descriptors kept open now. One count for the process, as the limit is.
static OPEN_DESCRIPTORS: AtomicUsize = AtomicUsize::new(0);

/// The files of a thread that are worth a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadFile {
    Schedstat,
    Stat,
    Wchan,
    Syscall,
}

/// The files of a process that are worth a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFile {
    Stat,
    Io,
}

/// Open descriptors of one task, indexed by `ThreadFile` or `ProcessFile`.
#[derive(Debug, Default)]
pub struct TaskDescriptors([Option<CountedDescriptor>; 4]);

impl TaskDescriptors {
    pub const EMPTY: TaskDescriptors = TaskDescriptors([const { None }; 4]);

    /// Gives back all descriptors.
    pub fn close_all(&mut self) {
        self.0 = Default::default();
    }

    /// Gives back all but the first, schedstat, which alone tells whether a thread ran.
    pub fn close_all_but_schedstat(&mut self) {
        for kept in self.0.iter_mut().skip(1) {
            *kept = None;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

#[derive(Debug)]
struct CountedDescriptor(OwnedFd);

impl CountedDescriptor {
    fn new(descriptor: OwnedFd) -> CountedDescriptor {
        OPEN_DESCRIPTORS.fetch_add(1, Ordering::Relaxed);
        CountedDescriptor(descriptor)
    }
}

impl Drop for CountedDescriptor {
    fn drop(&mut self) {
        OPEN_DESCRIPTORS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The directory /proc, kept open, and the buffer that every read fills.
#[derive(Debug)]
pub struct TaskFiles {
    proc: Dir,
    buffer: Box<[u8; BUFFER_BYTES]>,
    max_open: usize,
    /// Whether something was mounted when it was opened for which threads wait asleep (FUSE).
    pub has_fuse_mounts: bool,
}

impl TaskFiles {
    /// Opens /proc below `root` and raises the limit of open files as far as we will use it.
    pub fn open(root: &Root) -> Reading<TaskFiles> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let proc = Dir::open(&root.path("proc"), flags, Mode::empty()).map_err(absent_from_errno)?;
        let (buffer, has_user_file_systems) = (Box::new([0; BUFFER_BYTES]), mounts::has_fuse_mounts(root));
        Ok(TaskFiles { proc, buffer, max_open: raise_descriptor_limit(), has_fuse_mounts: has_user_file_systems })
    }

    /// Every number in /proc, sorted, into `pids`.
    pub fn list_processes(&mut self, pids: &mut Vec<u32>) {
        pids.clear();
        pids.extend(self.proc.iter().filter_map(Result::ok).filter_map(|entry| parse_task_number(entry.file_name())));
        pids.sort_unstable();
    }

    /// Every thread of a process, sorted, into `tids`.
    pub fn list_threads(&mut self, pid: u32, tids: &mut Vec<u32>) -> Reading<()> {
        tids.clear();
        let mut path = [0; PATH_BYTES];
        let path = format_path(&mut path, format_args!("{pid}/task"))?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut directory = Dir::openat(&self.proc, path, flags, Mode::empty()).map_err(absent_from_errno)?;
        tids.extend(directory.iter().filter_map(Result::ok).filter_map(|entry| parse_task_number(entry.file_name())));
        tids.sort_unstable();
        if tids.is_empty() { Err(Absent::Vanished) } else { Ok(()) }
    }

    /// A thread's file, over a descriptor kept in `kept` when there is one; a new one is kept when `keep` says so.
    pub fn read_thread_file(
        &mut self,
        pid: u32,
        tid: u32,
        file: ThreadFile,
        kept: &mut TaskDescriptors,
        keep: bool,
    ) -> Reading<&[u8]> {
        let name = match file {
            ThreadFile::Schedstat => "schedstat",
            ThreadFile::Stat => "stat",
            ThreadFile::Wchan => "wchan",
            ThreadFile::Syscall => "syscall",
        };
        let slot = kept.0.get_mut(file as usize).ok_or(Absent::NotRead)?;
        // Of the leader, but for stat, the short path says the same, and the kernel has fewer names to look up and keep.
        if pid == tid && file != ThreadFile::Stat {
            return self.read(slot, keep, format_args!("{pid}/{name}"));
        }
        self.read(slot, keep, format_args!("{pid}/task/{tid}/{name}"))
    }

    /// A file of the whole process, in the same way.
    pub fn read_process_file(&mut self, pid: u32, file: ProcessFile, kept: &mut TaskDescriptors, keep: bool) -> Reading<&[u8]> {
        let name = match file {
            ProcessFile::Stat => "stat",
            ProcessFile::Io => "io",
        };
        let slot = kept.0.get_mut(file as usize).ok_or(Absent::NotRead)?;
        self.read(slot, keep, format_args!("{pid}/{name}"))
    }

    /// A file that is read seldom, at most 4 KiB of it.
    pub fn read_once(&mut self, path: std::fmt::Arguments<'_>) -> Reading<&[u8]> {
        self.read(&mut None, false, path)
    }

    /// Where a link points. The kernel makes the text up from memory: no file system is asked.
    pub fn read_link(&self, path: std::fmt::Arguments<'_>) -> Reading<OsString> {
        let mut bytes = [0; PATH_BYTES];
        readlinkat(&self.proc, format_path(&mut bytes, path)?).map_err(absent_from_errno)
    }

    /// Who owns /proc/PID: the effective user of the process, or root where it is not dumpable.
    pub fn owner_uid(&self, pid: u32) -> Reading<u32> {
        let mut path = [0; PATH_BYTES];
        let path = format_path(&mut path, format_args!("{pid}"))?;
        fstatat(&self.proc, path, AtFlags::empty()).map(|stat| stat.st_uid).map_err(absent_from_errno)
    }

    fn read(&mut self, slot: &mut Option<CountedDescriptor>, keep: bool, path: std::fmt::Arguments<'_>) -> Reading<&[u8]> {
        let length = match slot {
            Some(CountedDescriptor(descriptor)) => match pread(&*descriptor, self.buffer.as_mut_slice(), 0) {
                Ok(length) => length,
                Err(errno) => {
                    *slot = None;
                    return Err(absent_from_errno(errno));
                }
            },
            None => {
                let mut bytes = [0; PATH_BYTES];
                let path = format_path(&mut bytes, path)?;
                let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                let descriptor = openat(&self.proc, path, flags, Mode::empty()).map_err(absent_from_errno)?;
                let length = pread(&descriptor, self.buffer.as_mut_slice(), 0).map_err(absent_from_errno)?;
                if keep && OPEN_DESCRIPTORS.load(Ordering::Relaxed) < self.max_open {
                    *slot = Some(CountedDescriptor::new(descriptor));
                }
                length
            }
        };
        Ok(self.buffer.get(..length).unwrap_or_default())
    }
}

/// Whether a failure to read means that the task is gone.
pub fn is_task_gone(why: Absent) -> bool {
    matches!(why, Absent::NoSuchFile | Absent::Vanished)
}

fn absent_from_errno(errno: nix::Error) -> Absent {
    absent_from_io_error(&errno.into())
}

fn parse_task_number(name: &CStr) -> Option<u32> {
    let name = name.to_bytes();
    if !name.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// The path as a C string in `bytes`.
fn format_path<'a>(bytes: &'a mut [u8; PATH_BYTES], path: std::fmt::Arguments<'_>) -> Reading<&'a CStr> {
    let mut room = bytes.as_mut_slice();
    room.write_fmt(path).map_err(|_| Absent::Malformed)?;
    // The buffer is all zeros behind what was written.
    CStr::from_bytes_until_nul(bytes).map_err(|_| Absent::Malformed)
}

/// How many descriptors may be kept, after the soft limit was raised as far as that makes sense.
fn raise_descriptor_limit() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    let wanted = hard.min(MAX_DESCRIPTORS);
    let allowed = if wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() { wanted } else { soft };
    usize::try_from(allowed.min(MAX_DESCRIPTORS).saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_descriptor_reads_afresh_and_is_given_back() {
        let root = tempfile::tempdir().unwrap();
        let task = root.path().join("proc/7/task/8");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("schedstat"), "1 2 3\n").unwrap();
        let mut files = TaskFiles::open(&Root::at_directory(root.path().to_owned())).unwrap();
        let mut kept = TaskDescriptors::default();
        assert_eq!(files.read_thread_file(7, 8, ThreadFile::Schedstat, &mut kept, true), Ok(&b"1 2 3\n"[..]));
        std::fs::write(task.join("schedstat"), "4 5 6\n").unwrap();
        assert_eq!(files.read_thread_file(7, 8, ThreadFile::Schedstat, &mut kept, true), Ok(&b"4 5 6\n"[..]));
        assert!(!kept.is_empty());
        kept.close_all();
        assert!(kept.is_empty());
        assert_eq!(files.read_thread_file(7, 9, ThreadFile::Schedstat, &mut kept, true), Err(Absent::NoSuchFile));
    }

    #[test]
    fn only_numbers_are_tasks() {
        let root = tempfile::tempdir().unwrap();
        for name in ["30", "4", "self", "4x", "+5", "99999999999"] {
            std::fs::create_dir_all(root.path().join("proc").join(name)).unwrap();
        }
        let mut files = TaskFiles::open(&Root::at_directory(root.path().to_owned())).unwrap();
        let mut pids = Vec::new();
        for _ in 0..2 {
            files.list_processes(&mut pids);
            assert_eq!(pids, [4, 30]);
        }
    }
}
