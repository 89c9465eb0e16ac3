//! Loads a BPF program in a child process, a second instance of this program: relocation by BTF takes 30 MB, which this
//! process would keep. The child sends the descriptors of the program and its maps, or the reason why there are none, and exits.
//!
//! The child has no terminal and none of this process's files, runs at nice 0, is killed after a timeout, and ends
//! with this process at the latest.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use nix::unistd::alarm;

use super::block::BlockLayout;
use super::file_systems::FileSystemsLayout;
use super::probe_error::ProbeError;
use super::program_loader;
use super::query::QueryLayout;
use super::run_queue::RunQueueLayout;
use crate::kernel::sys;

/// What the child loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeProgram {
    /// The descriptors of the iterator, then, where the kernel has the tracepoints, of the programs and maps of `lock_contention`
    TaskIterator,
    /// The descriptors of the program and of its maps `histograms` and `devices`
    Block(BlockLayout),
    /// The descriptors of the maps `counts` and `places`, then the links of the programs, which the child has attached
    FileSystems(FileSystemsLayout),
    /// The descriptors of the maps `cpus`, `processes` and `places`, then the link of the program, which the child has attached
    RunQueue(RunQueueLayout),
    /// The descriptors of the maps `totals_map` and `preemptors`, of the links of two tracepoints, then of the programs of functions
    Query(QueryLayout),
    /// The descriptors of the programs `waking` and `switched`, and of the maps `control_map`, `threads`, `futexes` and `edges`
    Wakes,
    /// The descriptors of the program `waking` and of its map `locks`
    LockWakers,
}

/// How programs read what the kernel has of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAccess {
    /// By the types that the kernel describes (BTF)
    Types,
    /// At offsets that the loader has found: `task_layout`
    Layout,
}

/// What the child sends.
#[derive(Debug)]
pub struct Loaded {
    pub descriptors: Vec<OwnedFd>,
    pub access: TaskAccess,
    /// Tracepoints that do not exist in this kernel
    pub missing: Vec<String>,
    /// What the kernel refused, and why: a program by its tracepoint, or entries of a map by its name
    pub refused: Vec<(String, String)>,
}

impl Loaded {
    pub fn new(descriptors: Vec<OwnedFd>) -> Loaded {
        Loaded { descriptors, access: TaskAccess::Types, missing: Vec::new(), refused: Vec::new() }
    }

    /// `loaded`, or `loaded-by-layout`, and what is missing; then a line for each refusal.
    fn to_text(&self) -> String {
        let line = |(name, why): &(String, String)| format!("\n{name}: {:.MAX_REASON_CHARS$}", why.replace('\n', " "));
        let refused: String = self.refused.iter().map(line).collect();
        let loaded = match self.access {
            TaskAccess::Types => "loaded",
            TaskAccess::Layout => LOADED_BY_LAYOUT,
        };
        format!("{loaded} {}{refused}", self.missing.join(" "))
    }

    fn from_text(descriptors: Vec<OwnedFd>, text: &str) -> Loaded {
        let mut lines = text.lines();
        let mut words = lines.next().unwrap_or_default().split_whitespace();
        let access = if words.next() == Some(LOADED_BY_LAYOUT) { TaskAccess::Layout } else { TaskAccess::Types };
        let missing = words.map(str::to_owned).collect();
        let refused = lines.map(|line| {
            let (name, why) = line.split_once(": ").unwrap_or((line, ""));
            (name.to_owned(), why.to_owned())
        });
        Loaded { descriptors, access, missing, refused: refused.collect() }
    }
}

const LOADED_BY_LAYOUT: &str = "loaded-by-layout";

const TASK_ITERATOR: &str = "--load-the-iterator";
const BLOCK: &str = "--load-the-block-probe";
const FILE_SYSTEMS: &str = "--load-the-file-system-probe";
const RUN_QUEUE: &str = "--load-the-run-queue-probe";
const QUERY: &str = "--load-the-query-probe";
const WAKES: &str = "--load-the-wakes-probe";
const LOCK_WAKERS: &str = "--load-the-lock-wakers-probe";

impl ProbeProgram {
    /// From the arguments of the child; `None` if this process is not one.
    pub fn from_arguments(arguments: &[OsString]) -> Option<ProbeProgram> {
        let (first, rest) = arguments.split_first()?;
        let without_words = [
            (TASK_ITERATOR, ProbeProgram::TaskIterator),
            (WAKES, ProbeProgram::Wakes),
            (LOCK_WAKERS, ProbeProgram::LockWakers),
        ];
        if let Some((_, program)) = without_words.into_iter().find(|(word, _)| first == word && rest.is_empty()) {
            return Some(program);
        }
        let rest: Vec<String> = rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        if first == FILE_SYSTEMS {
            return FileSystemsLayout::from_words(&rest).map(ProbeProgram::FileSystems);
        }
        if first == RUN_QUEUE {
            return RunQueueLayout::from_words(&rest).map(ProbeProgram::RunQueue);
        }
        if first == QUERY {
            return QueryLayout::from_words(&rest).map(ProbeProgram::Query);
        }
        BlockLayout::from_words(&rest).filter(|_| first == BLOCK).map(ProbeProgram::Block)
    }

    fn arguments(self) -> Vec<String> {
        match self {
            ProbeProgram::TaskIterator => vec![TASK_ITERATOR.to_owned()],
            ProbeProgram::Wakes => vec![WAKES.to_owned()],
            ProbeProgram::LockWakers => vec![LOCK_WAKERS.to_owned()],
            ProbeProgram::Block(layout) => std::iter::once(BLOCK.to_owned()).chain(layout.to_words()).collect(),
            ProbeProgram::RunQueue(layout) => std::iter::once(RUN_QUEUE.to_owned()).chain(layout.to_words()).collect(),
            ProbeProgram::Query(layout) => std::iter::once(QUERY.to_owned()).chain(layout.to_words()).collect(),
            ProbeProgram::FileSystems(layout) => std::iter::once(FILE_SYSTEMS.to_owned()).chain(layout.to_words()).collect(),
        }
    }
}

/// That of an ordinary program: the sampling thread, from which it inherits, has -20.
const LOADER_NICE: libc::c_int = 0;
/// Loading takes 50 ms of CPU, which may come late on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest message; the rest is cut off.
const MAX_MESSAGE_BYTES: usize = 2048;
/// A loader that was killed is waited for at most this long.
const MAX_REAP_TIME: Duration = Duration::from_millis(100);
/// Of the reason of one refusal: all of them fit into the message
const MAX_REASON_CHARS: usize = 120;

/// This program, also when its file was moved or replaced.
pub fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// The child process.
#[derive(Debug)]
pub struct LoaderProcess {
    child: Child,
    socket: OwnedFd,
    deadline: Instant,
}

impl LoaderProcess {
    /// Runs `program`, the path of stalltop, as the loader, and waits for what it loads.
    pub fn load(program: &Path, wanted: ProbeProgram) -> Result<Loaded, ProbeError> {
        LoaderProcess::spawn(program, wanted).map_err(ProbeError::Spawn)?.wait_for_result()
    }

    /// Starts `program`, the path of stalltop, as the loader; does not wait.
    pub fn spawn(program: &Path, wanted: ProbeProgram) -> io::Result<LoaderProcess> {
        let (socket, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
        let child = Command::new(program)
            .args(wanted.arguments())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of the terminal's keys do not reach it.
            .process_group(0)
            .spawn()?;
        Ok(LoaderProcess { child, socket, deadline: Instant::now() + LOAD_TIMEOUT })
    }

    /// The result; `None` while the child is still loading. Does not wait.
    pub fn try_result(&mut self) -> Option<Result<Loaded, ProbeError>> {
        let answer = match receive_result(&self.socket) {
            Err(Errno::EAGAIN) if Instant::now() < self.deadline => return None,
            Err(Errno::EAGAIN) => Err(ProbeError::Timeout(LOAD_TIMEOUT.as_secs())),
            Err(why) => Err(ProbeError::Socket(why)),
            Ok((descriptors, why)) => match (descriptors.is_empty(), why.is_empty()) {
                (false, _) => Ok(Loaded::from_text(descriptors, &why)),
                (true, true) => Err(ProbeError::NoMessage),
                (true, false) => Err(ProbeError::NotLoaded(why)),
            },
        };
        Some(answer)
    }

    /// Whether the child has exited, and was reaped.
    pub fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the result.
    pub fn wait_for_result(&mut self) -> Result<Loaded, ProbeError> {
        loop {
            if let Some(answer) = self.try_result() {
                return answer;
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            // Whatever ended the wait, the result is tried again, up to the deadline.
            let _ = poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout);
        }
    }
}

impl Drop for LoaderProcess {
    fn drop(&mut self) {
        // Its result was received, or is not needed any more.
        let _ = self.child.kill();
        // Not longer: in D it would block the monitor.
        let deadline = Instant::now() + MAX_REAP_TIME;
        while !self.has_exited() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// In the child: loads the program and sends its descriptors over standard input, which is a socket.
pub fn run_loader(wanted: ProbeProgram) {
    // The parent has given up by then.
    alarm::set(u32::try_from(LOAD_TIMEOUT.as_secs()).unwrap_or(u32::MAX));
    let _ = set_pdeathsig(Signal::SIGKILL);
    // Where it is forbidden the loader has the priority of the monitor.
    let _ = sys::set_nice(LOADER_NICE);
    let answer = program_loader::load_program(wanted).map_err(|why| why.to_string());
    // There is nowhere to report a failure to.
    let _ = send_result(io::stdin().as_raw_fd(), &answer);
}

fn send_result(socket: RawFd, answer: &Result<Loaded, String>) -> nix::Result<usize> {
    let text = answer.as_ref().map_or_else(String::clone, Loaded::to_text);
    let text = text.as_bytes();
    let text = [IoSlice::new(text.get(..MAX_MESSAGE_BYTES).unwrap_or(text))];
    let descriptors: Vec<RawFd> = answer.iter().flat_map(|loaded| &loaded.descriptors).map(AsRawFd::as_raw_fd).collect();
    let rights: Vec<_> = answer.iter().map(|_| ControlMessage::ScmRights(&descriptors)).collect();
    sendmsg::<()>(socket, &text, &rights, MsgFlags::MSG_NOSIGNAL, None)
}

fn receive_result(socket: &OwnedFd) -> nix::Result<(Vec<OwnedFd>, String)> {
    let mut text = [0; MAX_MESSAGE_BYTES];
    let (length, descriptors) = sys::receive_descriptors(socket.as_fd(), &mut text)?;
    Ok((descriptors, String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::probe::file_systems::TaskFilter;
    use crate::kernel::probe::query::database::{Database, StateNumbers};

    #[test]
    fn a_loader_that_sends_nothing_or_cannot_start_is_an_error() {
        let load = |program| LoaderProcess::load(Path::new(program), ProbeProgram::TaskIterator).unwrap_err();
        assert!(matches!(load("/bin/true"), ProbeError::NoMessage));
        assert!(matches!(load("/nonexistent/stalltop"), ProbeError::Spawn(_)));
    }

    #[test]
    fn a_sent_descriptor_and_message_are_received() {
        let pair = || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap()
        };
        let (ours, theirs) = pair();
        assert_eq!(receive_result(&ours).unwrap_err(), Errno::EAGAIN);
        send_result(theirs.as_raw_fd(), &Err("refused".repeat(400))).unwrap();
        let (descriptors, why) = receive_result(&ours).unwrap();
        assert!(descriptors.is_empty() && why.starts_with("refusedrefused") && why.len() == MAX_MESSAGE_BYTES);
        let file = |path| OwnedFd::from(std::fs::File::open(path).unwrap());
        let descriptors = vec![file("/dev/null"), file("/dev/null"), file("/proc/self/stat")];
        let refused = vec![("io_write".to_owned(), "no\npermission: EPERM".to_owned())];
        let sent = Ok(Loaded { descriptors, access: TaskAccess::Layout, missing: vec!["io_read".to_owned()], refused });
        send_result(theirs.as_raw_fd(), &sent).unwrap();
        let (mut descriptors, text) = receive_result(&ours).unwrap();
        assert_eq!((descriptors.len(), text.as_str()), (3, "loaded-by-layout io_read\nio_write: no permission: EPERM"));
        let read = Loaded::from_text(Vec::new(), &text);
        assert_eq!((read.access, Loaded::from_text(Vec::new(), "loaded").access), (TaskAccess::Layout, TaskAccess::Types));
        assert_eq!((read.missing, read.refused[0].1.as_str()), (vec!["io_read".to_owned()], "no permission: EPERM"));
        let mut text = String::new();
        io::Read::read_to_string(&mut std::fs::File::from(descriptors.pop().unwrap()), &mut text).unwrap();
        assert!(text.starts_with(&std::process::id().to_string()));
    }

    #[test]
    fn the_child_is_told_what_to_load() {
        let database = Database::PostgreSql { activity: 9, lock_wait: Some(8), states: StateNumbers::Since18 };
        let wanted = [
            ProbeProgram::TaskIterator,
            ProbeProgram::Wakes,
            ProbeProgram::LockWakers,
            ProbeProgram::Block(BlockLayout::new(6, 3)),
            ProbeProgram::FileSystems(FileSystemsLayout::new(6, TaskFilter { pid: Some(7), uid: None })),
            ProbeProgram::RunQueue(RunQueueLayout::new(6, Some(7))),
            ProbeProgram::Query(QueryLayout { pid: 7, database }),
        ];
        for program in wanted {
            let words: Vec<OsString> = program.arguments().into_iter().map(OsString::from).collect();
            assert_eq!(ProbeProgram::from_arguments(&words), Some(program));
        }
        for other in [&[][..], &["--help"], &[TASK_ITERATOR, "x"], &[BLOCK], &[BLOCK, "3", "8", "0"], &[BLOCK, "2", "900", "0"]]
        {
            let words: Vec<OsString> = other.iter().map(OsString::from).collect();
            assert_eq!(ProbeProgram::from_arguments(&words), None, "{other:?}");
        }
    }
}
