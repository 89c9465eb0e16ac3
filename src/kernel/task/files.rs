//! Opens and reads the files of tasks in /proc: relative to one open directory, into one reused buffer. Files that are read
//! repeatedly stay open (a pread takes half the time of open, read and close).
//!
//! An open file of /proc belongs to its task: after the task has exited a read fails, even if another task has its pid. A thread that
//! calls execve takes over pid and files of its process's first thread, so that these can still be read.

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
use crate::kernel::sys_admin::with_sys_admin;
use crate::kernel::task::read_watch::{TaskRead, watched};
use crate::kernel::task::wait_channel::WaitChannelFile;
use crate::sample::{Absent, Reading};

/// Larger than most files; cmdline is cut to it.
const BUFFER_BYTES: usize = 4096;
/// A longer file is cut to this: status of a process with 4,000 supplementary groups.
const MAX_LONG_FILE_BYTES: usize = 64 * 1024;
/// The longest path is `4294967295/task/4294967295/schedstat` with NUL, or a link in fd.
const PATH_BYTES: usize = 64;
/// Most descriptors that are kept open, even if the hard limit allows more: each takes about 1 KiB in the kernel.
const MAX_DESCRIPTORS: libc::rlim_t = 16_384;
/// Descriptors reserved for the rest of this process.
const RESERVED_DESCRIPTORS: libc::rlim_t = 256;
/// /proc/self/ns/pid there: PROC_PID_INIT_INO in include/linux/proc_ns.h
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether the numbers of tasks in /proc are those of the initial pid namespace. Fails where the link cannot be read.
pub fn is_in_initial_pid_namespace(root: &Root) -> Reading<bool> {
    root.read_link("proc/self/ns/pid").map(|link| link.as_os_str() == INITIAL_PID_NAMESPACE)
}

/// Descriptors kept open now, in the whole process, since the limit is per process.
static OPEN_DESCRIPTORS: AtomicUsize = AtomicUsize::new(0);

/// Files of a thread that may be kept open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadFile {
    Schedstat,
    Stat,
    WaitChannel,
    Syscall,
}

/// Files of a process that may be kept open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFile {
    Stat,
    Io,
}

/// What becomes of a file that was opened for a read. One that is open already stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRead {
    Close,
    /// As long as descriptors are left
    KeepOpen,
}

impl AfterRead {
    pub fn keep_open_if(condition: bool) -> AfterRead {
        if condition { AfterRead::KeepOpen } else { AfterRead::Close }
    }
}

/// Open descriptors of one task, indexed by `ThreadFile` or `ProcessFile`.
#[derive(Debug, Default)]
pub struct TaskDescriptors([Option<CountedDescriptor>; 4]);

impl TaskDescriptors {
    /// Closes all descriptors.
    pub fn close_all(&mut self) {
        self.0 = Default::default();
    }

    /// Closes all but schedstat, which alone shows whether a thread ran.
    pub fn close_all_but_schedstat(&mut self) {
        for kept in self.0.iter_mut().skip(1) {
            *kept = None;
        }
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

/// The open directory /proc, and the buffer of all reads.
#[derive(Debug)]
pub struct TaskFiles {
    proc: Dir,
    buffer: Box<[u8; BUFFER_BYTES]>,
    /// A file that did not fit into `buffer`
    long_file: Vec<u8>,
    /// Files that may be kept open
    pub max_open: usize,
    /// Whether a FUSE file system was mounted at the start: threads wait for it in state S.
    pub has_fuse_mounts: bool,
    pub wait_channel_file: WaitChannelFile,
    knows_wait_channel_file: bool,
}

impl TaskFiles {
    /// Opens /proc below `root` and raises the limit of open files as far as it will be used.
    pub fn open(root: &Root) -> Reading<TaskFiles> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let proc = Dir::open(&root.path("proc"), flags, Mode::empty()).map_err(absent_from_errno)?;
        let (buffer, has_fuse_mounts) = (Box::new([0; BUFFER_BYTES]), mounts::has_fuse_mounts(root));
        let (max_open, detected) = (raise_descriptor_limit(), WaitChannelFile::try_detect(root));
        let (wait_channel_file, knows_wait_channel_file) = (detected.unwrap_or_default(), detected.is_some());
        let long_file = Vec::new();
        Ok(TaskFiles { proc, buffer, long_file, max_open, has_fuse_mounts, wait_channel_file, knows_wait_channel_file })
    }

    /// Tries again which file has the wait channel, if that is not known yet.
    pub fn detect_wait_channel_file(&mut self) {
        // Of a captured tree it is known.
        if !self.knows_wait_channel_file
            && let Some(file) = WaitChannelFile::try_detect(&Root::host())
        {
            (self.wait_channel_file, self.knows_wait_channel_file) = (file, true);
        }
    }

    /// Lists the pids in /proc into `pids`, sorted.
    pub fn list_processes(&mut self, pids: &mut Vec<u32>) {
        pids.clear();
        pids.extend(self.proc.iter().filter_map(Result::ok).filter_map(|entry| parse_task_number(entry.file_name())));
        pids.sort_unstable();
    }

    /// Lists the threads of a process into `tids`, sorted. Fails if there is none.
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

    /// Reads a file of a thread, over the descriptor in `kept` if there is one; a new one is closed after the read, or kept there.
    pub fn read_thread_file(
        &mut self,
        pid: u32,
        tid: u32,
        file: ThreadFile,
        kept: &mut TaskDescriptors,
        after: AfterRead,
    ) -> Reading<&[u8]> {
        let name = match file {
            ThreadFile::Schedstat => "schedstat",
            ThreadFile::Stat => "stat",
            ThreadFile::WaitChannel => self.wait_channel_file.name(),
            ThreadFile::Syscall => "syscall",
        };
        let slot = kept.0.get_mut(file as usize).ok_or(Absent::NotRead)?;
        if (file, self.wait_channel_file) == (ThreadFile::WaitChannel, WaitChannelFile::Stack) {
            return with_sys_admin(|| self.read(pid, slot, after, format_args!("{pid}/task/{tid}/{name}")))?;
        }
        // For the leader /proc/PID has the same files, except stat, with a shorter path to look up.
        if pid == tid && file != ThreadFile::Stat {
            return self.read(pid, slot, after, format_args!("{pid}/{name}"));
        }
        self.read(pid, slot, after, format_args!("{pid}/task/{tid}/{name}"))
    }

    /// Reads a file of a process in the same way.
    pub fn read_process_file(
        &mut self,
        pid: u32,
        file: ProcessFile,
        kept: &mut TaskDescriptors,
        after: AfterRead,
    ) -> Reading<&[u8]> {
        let name = match file {
            ProcessFile::Stat => "stat",
            ProcessFile::Io => "io",
        };
        let slot = kept.0.get_mut(file as usize).ok_or(Absent::NotRead)?;
        self.read(pid, slot, after, format_args!("{pid}/{name}"))
    }

    /// Reads a file that is read seldom, at most 64 KiB of it.
    pub fn read_once(&mut self, path: std::fmt::Arguments<'_>) -> Reading<&[u8]> {
        let length = self.read_unkept(TaskRead::Files, path)?.len();
        match length {
            BUFFER_BYTES => self.read_long_file(path),
            _ => Ok(self.buffer.get(..length).unwrap_or_default()),
        }
    }

    /// Reads the first 4 KiB of cmdline, which the kernel reads from the memory of the process.
    pub fn read_command_line(&mut self, pid: u32) -> Reading<&[u8]> {
        self.read_unkept(TaskRead::Memory, format_args!("{pid}/cmdline"))
    }

    fn read_unkept(&mut self, what: TaskRead, path: std::fmt::Arguments<'_>) -> Reading<&[u8]> {
        let mut bytes = [0; PATH_BYTES];
        let text = format_path(&mut bytes, path)?.to_bytes();
        let pid = text.split(|byte| *byte == b'/').next().and_then(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
        let read = watched(pid.unwrap_or(0), what, || self.read_now(&mut None, AfterRead::Close, path));
        let length = read.unwrap_or(Err(Absent::Os(libc::ETIMEDOUT)))?;
        Ok(self.buffer.get(..length).unwrap_or_default())
    }

    /// The wait channel of a thread, read as by `read_thread_file`: `0` if it does not sleep, empty if it is hidden.
    pub fn read_wait_channel(&mut self, pid: u32, tid: u32, kept: &mut TaskDescriptors, after: AfterRead) -> Reading<&[u8]> {
        let file = self.wait_channel_file;
        match file {
            WaitChannelFile::Unavailable => Err(Absent::NoSuchFile),
            file => Ok(file.symbol(self.read_thread_file(pid, tid, ThreadFile::WaitChannel, kept, after)?)),
        }
    }

    /// The target of a link in /proc/PID. The kernel formats it from memory, without access to the file system of the target.
    pub fn read_link(&self, path: std::fmt::Arguments<'_>) -> Reading<OsString> {
        let mut bytes = [0; PATH_BYTES];
        readlinkat(&self.proc, format_path(&mut bytes, path)?).map_err(absent_from_errno)
    }

    /// Whether the numbers of tasks here are those of the initial pid namespace.
    pub fn is_in_initial_pid_namespace(&self) -> bool {
        self.read_link(format_args!("self/ns/pid")).is_ok_and(|link| link == INITIAL_PID_NAMESPACE)
    }

    /// The owner of /proc/PID: the effective uid of the process, or 0 if it is not dumpable.
    pub fn owner_uid(&self, pid: u32) -> Reading<u32> {
        let mut path = [0; PATH_BYTES];
        let path = format_path(&mut path, format_args!("{pid}"))?;
        fstatat(&self.proc, path, AtFlags::empty()).map(|stat| stat.st_uid).map_err(absent_from_errno)
    }

    /// Number of open descriptors of a process: st_size of /proc/PID/fd, since Linux 6.2; 0 before. Needs no privilege.
    pub fn descriptor_count(&self, pid: u32) -> Reading<u64> {
        let mut path = [0; PATH_BYTES];
        let path = format_path(&mut path, format_args!("{pid}/fd"))?;
        let size = fstatat(&self.proc, path, AtFlags::empty()).map(|stat| stat.st_size).map_err(absent_from_errno)?;
        Ok(u64::try_from(size).unwrap_or(0))
    }

    /// The file is opened anew: the kernel writes all of it for one read, so that its lines belong together.
    fn read_long_file(&mut self, path: std::fmt::Arguments<'_>) -> Reading<&[u8]> {
        self.long_file.resize(MAX_LONG_FILE_BYTES, 0);
        let mut bytes = [0; PATH_BYTES];
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let path = format_path(&mut bytes, path)?;
        let descriptor = openat(&self.proc, path, flags, Mode::empty()).map_err(absent_from_errno)?;
        let length = pread(&descriptor, &mut self.long_file, 0).map_err(absent_from_errno)?;
        Ok(self.long_file.get(..length).unwrap_or_default())
    }

    /// Fails with ETIMEDOUT where a read of a file of this process did not return before.
    fn read(
        &mut self,
        pid: u32,
        slot: &mut Option<CountedDescriptor>,
        after: AfterRead,
        path: std::fmt::Arguments<'_>,
    ) -> Reading<&[u8]> {
        let read = watched(pid, TaskRead::Files, || self.read_now(slot, after, path));
        let length = read.unwrap_or(Err(Absent::Os(libc::ETIMEDOUT)))?;
        Ok(self.buffer.get(..length).unwrap_or_default())
    }

    fn read_now(
        &mut self,
        slot: &mut Option<CountedDescriptor>,
        after: AfterRead,
        path: std::fmt::Arguments<'_>,
    ) -> Reading<usize> {
        match slot {
            Some(CountedDescriptor(descriptor)) => match pread(&*descriptor, self.buffer.as_mut_slice(), 0) {
                Ok(length) => Ok(length),
                Err(errno) => {
                    *slot = None;
                    Err(absent_from_errno(errno))
                }
            },
            None => {
                let mut bytes = [0; PATH_BYTES];
                let path = format_path(&mut bytes, path)?;
                let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                let descriptor = openat(&self.proc, path, flags, Mode::empty()).map_err(absent_from_errno)?;
                let length = pread(&descriptor, self.buffer.as_mut_slice(), 0).map_err(absent_from_errno)?;
                if after == AfterRead::KeepOpen && OPEN_DESCRIPTORS.load(Ordering::Relaxed) < self.max_open {
                    *slot = Some(CountedDescriptor::new(descriptor));
                }
                Ok(length)
            }
        }
    }
}

/// Whether this reason means that the task is gone.
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
    // The buffer is all zeros behind the path.
    CStr::from_bytes_until_nul(bytes).map_err(|_| Absent::Malformed)
}

/// Raises the soft limit; returns how many descriptors may be kept.
fn raise_descriptor_limit() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    let wanted = hard.min(MAX_DESCRIPTORS);
    let allowed = if wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() { wanted } else { soft };
    usize::try_from(allowed.min(MAX_DESCRIPTORS).saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn a_kept_descriptor_reads_from_the_start_and_is_closed_again() {
        let tree = ProcTree::with([("proc/7/task/8/schedstat", "1 2 3\n")]);
        let mut files = TaskFiles::open(&tree.root()).unwrap();
        let mut kept = TaskDescriptors::default();
        assert_eq!(files.read_thread_file(7, 8, ThreadFile::Schedstat, &mut kept, AfterRead::KeepOpen), Ok(&b"1 2 3\n"[..]));
        tree.write("proc/7/task/8/schedstat", "4 5 6\n");
        assert_eq!(files.read_thread_file(7, 8, ThreadFile::Schedstat, &mut kept, AfterRead::KeepOpen), Ok(&b"4 5 6\n"[..]));
        assert!(kept.0.iter().any(Option::is_some));
        kept.close_all();
        assert!(kept.0.iter().all(Option::is_none));
        assert_eq!(
            files.read_thread_file(7, 9, ThreadFile::Schedstat, &mut kept, AfterRead::KeepOpen),
            Err(Absent::NoSuchFile)
        );
    }

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole_and_one_of_megabytes_is_cut() {
        let status = format!("Groups:\t{}\nCpus_allowed_list:\t0-12\n", "100000 ".repeat(600));
        let tree = ProcTree::with([
            ("proc/7/status", status.clone()),
            ("proc/8/status", "x".repeat(1 << 20)),
            ("proc/7/cmdline", "x".repeat(5000)),
        ]);
        let mut files = TaskFiles::open(&tree.root()).unwrap();
        assert_eq!(files.read_once(format_args!("7/status")), Ok(status.as_bytes()));
        assert_eq!(files.read_once(format_args!("8/status")).map(<[u8]>::len), Ok(64 * 1024));
        assert_eq!(files.read_command_line(7).map(<[u8]>::len), Ok(4096));
        assert_eq!(files.read_once(format_args!("9/status")), Err(Absent::NoSuchFile));
    }

    #[test]
    fn only_numbers_are_tasks() {
        let names = ["30", "4", "self", "4x", "+5", "99999999999"];
        let tree = ProcTree::with(names.map(|name| (format!("proc/{name}/stat"), "")));
        let mut files = TaskFiles::open(&tree.root()).unwrap();
        let mut pids = Vec::new();
        for _ in 0..2 {
            files.list_processes(&mut pids);
            assert_eq!(pids, [4, 30]);
        }
    }
}
