//! Finds the processes of a group that have the other end of a pipe or Unix socket open in which a thread of the group waits.
//!
//! A pool of idle workers sleeps in the same read as threads that wait for a process on storage: `interval::ipc_peers` tells
//! them apart by the waits of the holders of the other end. The ends are searched only in groups with a thread on storage,
//! within bounds. `remote_waits` finds the other end of a TCP connection.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use rustc_hash::{FxHashMap, FxHashSet};

use super::IpcThread;
use super::unix_sockets::dump_unix_peers;
use crate::ids::TaskId;
use crate::kernel::fields::{lines, parse_u32, words};
use crate::kernel::root::Root;
use crate::kernel::task::{self, files::TaskFiles};
use crate::sample::Reading;
use crate::sample::task::Tasks;
use crate::sample::waits::{IpcHolder, IpcWaiter, Syscall, Waits};
use crate::units::SmallSort;

/// Bounds of an interval: threads of a group traced, processes of a group and descriptors searched, holders kept of a group.
const MAX_THREADS: usize = 64;
const MAX_PROCESSES: usize = 128;
const MAX_DESCRIPTORS: usize = 2048;
const MAX_HOLDERS: usize = 512;

/// One end of a pipe or socket, by its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Endpoint {
    PipeRead(u32),
    PipeWrite(u32),
    Socket(u32),
}

impl Endpoint {
    /// The other end of its pipe; `None` of a socket.
    pub fn other_pipe_end(self) -> Option<Endpoint> {
        match self {
            Endpoint::PipeRead(pipe) => Some(Endpoint::PipeWrite(pipe)),
            Endpoint::PipeWrite(pipe) => Some(Endpoint::PipeRead(pipe)),
            Endpoint::Socket(_) => None,
        }
    }
}

/// Adds the threads whose end is known, and the holders of the other ends.
pub(super) fn trace_ipc_peers(
    waits: &mut Waits,
    threads: &[IpcThread],
    tasks: Option<&Tasks>,
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
) {
    let groups: BTreeSet<u16> = threads.iter().filter(|thread| thread.beside_storage).map(|thread| thread.group).collect();
    for group in groups {
        let (Some(id), Some(tasks)) = (waits.groups.get(usize::from(group)), tasks) else { continue };
        let members: Vec<u32> = tasks.members(id).map(|process| process.pid).collect();
        if members.len() > MAX_PROCESSES {
            continue;
        }
        let waiting = waiter_endpoints(threads, group, files, machine);
        // With some holders unknown a working one could be missed: none is kept.
        let Some(holders) = find_holders(&members, &waiting, root, files) else { continue };
        let ends: BTreeSet<Endpoint> = waiting.iter().map(|&(_, end)| end).collect();
        let peers: FxHashMap<Endpoint, u16> = ends.into_iter().zip(0..).collect();
        let waiters = waiting.iter().filter_map(|(task, end)| Some(IpcWaiter { task: *task, group, peer: *peers.get(end)? }));
        waits.ipc_waiters.extend(waiters);
        let holders = holders.into_iter().filter_map(|(end, pid)| Some(IpcHolder { group, peer: *peers.get(&end)?, pid }));
        waits.ipc_holders.extend(holders);
    }
    waits.ipc_waiters.small_sort_by_key(|waiter| waiter.task);
    waits.ipc_holders.small_sort_by_key(|holder| (holder.group, holder.peer, holder.pid));
}

/// The end at which each waiter of a group sleeps.
fn waiter_endpoints(threads: &[IpcThread], group: u16, files: &mut TaskFiles, machine: &[u8]) -> Vec<(TaskId, Endpoint)> {
    let of_group = threads.iter().filter(|thread| thread.group == group).take(MAX_THREADS);
    of_group.filter_map(|thread| Some((thread.task, read_endpoint(thread.task, files, machine).ok()??))).collect()
}

/// The socket that a thread receives from.
pub(super) fn receiving_socket(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Option<u32> {
    let call = read_syscall(task, files, machine).ok()?.filter(|call| is_receive(*call))?;
    let target = files.read_link(format_args!("{}/fd/{}", task.pid, call.arguments[0])).ok()?;
    parse_inode(target.as_bytes(), b"socket:[")
}

fn read_syscall(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<Syscall>> {
    let TaskId { pid, tid, .. } = task;
    let call = task::parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall"))?)?;
    Ok(Syscall::from_number(machine, call))
}

/// Whether it waits for data.
pub(super) fn is_receive(call: Syscall) -> bool {
    matches!(call.name, "read" | "readv" | "recvfrom" | "recvmsg")
}

/// The end of a pipe or socket that the thread reads or writes, by the descriptor of its system call.
pub(super) fn read_endpoint(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<Endpoint>> {
    match read_syscall(task, files, machine)? {
        Some(call) => endpoint_of_call(task.pid, call, files),
        None => Ok(None),
    }
}

/// The end that a system call of a process reads or writes.
pub(super) fn endpoint_of_call(pid: u32, call: Syscall, files: &TaskFiles) -> Reading<Option<Endpoint>> {
    match call.name {
        _ if is_receive(call) => read_end_of_descriptor(pid, call.arguments[0], files),
        "write" | "writev" | "sendto" | "sendmsg" => end_of_descriptor(pid, call.arguments[0], Endpoint::PipeWrite, files),
        _ => Ok(None),
    }
}

/// The end that a descriptor is if it is read.
pub(super) fn read_end_of_descriptor(pid: u32, descriptor: u64, files: &TaskFiles) -> Reading<Option<Endpoint>> {
    end_of_descriptor(pid, descriptor, Endpoint::PipeRead, files)
}

/// The end that a descriptor is, of a pipe `pipe_end`.
fn end_of_descriptor(pid: u32, descriptor: u64, pipe_end: fn(u32) -> Endpoint, files: &TaskFiles) -> Reading<Option<Endpoint>> {
    let target = files.read_link(format_args!("{pid}/fd/{descriptor}"))?;
    let socket = || parse_inode(target.as_bytes(), b"socket:[").map(Endpoint::Socket);
    Ok(parse_inode(target.as_bytes(), b"pipe:[").map(pipe_end).or_else(socket))
}

/// `pipe:[12345]`
pub(super) fn parse_inode(target: &[u8], kind: &[u8]) -> Option<u32> {
    parse_u32(target.strip_prefix(kind)?.strip_suffix(b"]")?)
}

/// The ends at which threads wait, with the processes among `members` that have their other ends open; `None` if too many are.
fn find_holders(
    members: &[u32],
    waiting: &[(TaskId, Endpoint)],
    root: &Root,
    files: &mut TaskFiles,
) -> Option<FxHashSet<(Endpoint, u32)>> {
    let socket = |&(_, end): &(TaskId, Endpoint)| if let Endpoint::Socket(inode) = end { Some(inode) } else { None };
    let sockets: FxHashSet<u32> = waiting.iter().filter_map(socket).collect();
    let ask = root.is_host() && !sockets.is_empty();
    let peers = if ask { dump_unix_peers(&sockets).unwrap_or_default() } else { FxHashMap::default() };
    let other_end = |end: Endpoint| match end {
        Endpoint::Socket(socket) => peers.get(&socket).map(|&peer| Endpoint::Socket(peer)),
        pipe_end => pipe_end.other_pipe_end(),
    };
    let wanted: FxHashMap<Endpoint, Endpoint> = waiting.iter().filter_map(|&(_, end)| Some((other_end(end)?, end))).collect();
    let mut holders = FxHashSet::default();
    let mut left = if wanted.is_empty() { return Some(holders) } else { MAX_DESCRIPTORS };
    for &pid in members {
        let Ok(descriptors) = root.list_directory(format!("proc/{pid}/fd")) else { continue };
        left = left.checked_sub(descriptors.len())?;
        for descriptor in descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())) {
            let ends = read_open_endpoints(pid, descriptor, files);
            holders.extend(ends.iter().filter_map(|end| Some((*wanted.get(end)?, pid))));
        }
        if holders.len() > MAX_HOLDERS {
            return None;
        }
    }
    Some(holders)
}

/// The ends that a descriptor is: two for a pipe that is open for reading and writing.
pub(super) fn read_open_endpoints(pid: u32, descriptor: u32, files: &mut TaskFiles) -> Vec<Endpoint> {
    let Ok(target) = files.read_link(format_args!("{pid}/fd/{descriptor}")) else { return Vec::new() };
    if let Some(socket) = parse_inode(target.as_bytes(), b"socket:[") {
        return vec![Endpoint::Socket(socket)];
    }
    let Some(pipe) = parse_inode(target.as_bytes(), b"pipe:[") else { return Vec::new() };
    let text = files.read_once(format_args!("{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = lines(text).find_map(|line| words(line.strip_prefix(b"flags:")?).next());
    // In octal: O_RDONLY 0, O_WRONLY 1, O_RDWR 2.
    match flags.and_then(<[u8]>::last) {
        Some(digit) if digit & 3 == 1 => vec![Endpoint::PipeWrite(pipe)],
        Some(digit) if digit & 3 == 2 => vec![Endpoint::PipeRead(pipe), Endpoint::PipeWrite(pipe)],
        Some(_) => vec![Endpoint::PipeRead(pipe)],
        None => Vec::new(),
    }
}
