//! Finds the threads that sleep in connect until a Unix socket has room in its accept queue, and the process that should accept: the
//! address by the arguments of the call (/proc/PID/task/TID/syscall, process_vm_readv), the queue by sock_diag (UNIX_DIAG).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::listeners::socket_owner::SocketOwners;
use super::namespaces::NamespaceReader;
use crate::ids::{ProcessId, TaskId};
use crate::kernel::root::Root;
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::memory::read_mapped;
use crate::kernel::waits::unix_sockets::{UnixListener, dump_full_listeners, open_unix_diag};
use crate::sample::network::unix_senders::UnixSenders;
use crate::sample::task::{Process, TaskState, Tasks, Thread};
use crate::sample::waits::Syscall;
use crate::sample::{Absent, Name};

/// Threads whose system call is read at one sample, some 3 µs each.
const MAX_THREADS: usize = 4096;
/// `sun_path` in `struct sockaddr_un`
const PATH_AT: usize = 2;
/// Size of `struct sockaddr_un`
const SOCKADDR_BYTES: usize = 110;

/// Since when threads wait that have not run since the first sample.
#[derive(Debug, Default)]
pub struct UnixConnects {
    first_seen_ns: FxHashMap<TaskId, u64>,
}

impl UnixConnects {
    /// The threads that wait at `now_ns` (CLOCK_BOOTTIME), a row for each process and socket. `owners` is searched for the processes that
    /// have these sockets open.
    pub fn search(
        &mut self,
        tasks: Option<&Tasks>,
        now_ns: u64,
        (root, machine): (&Root, &[u8]),
        files: &mut TaskFiles,
        owners: &mut SocketOwners,
        namespaces: &mut NamespaceReader,
    ) -> Vec<UnixSenders> {
        let own = open_unix_diag().and_then(|mut socket| dump_full_listeners(&mut socket));
        let inside = namespaces.unix_sockets().filter_map(|socket| dump_full_listeners(socket).ok());
        let listeners: Vec<UnixListener> = own.into_iter().chain(inside).flatten().collect();
        let mut before = std::mem::take(&mut self.first_seen_ns);
        if listeners.is_empty() {
            return Vec::new();
        }
        let mut rows: BTreeMap<(ProcessId, u32), UnixSenders> = BTreeMap::new();
        for (process, thread) in tasks.into_iter().flat_map(threads_that_may_wait).take(MAX_THREADS) {
            let task = TaskId { pid: process.pid, tid: thread.tid, start_ticks: thread.start_ticks };
            let address = connect_address(task, machine, files);
            let Some(listener) = address.and_then(|address| listener_of(&listeners, &address)) else { continue };
            let first_seen_ns = before.remove(&task).unwrap_or(now_ns);
            self.first_seen_ns.insert(task, first_seen_ns);
            let since_ns = thread.last_timeslice_ns.unwrap_or(first_seen_ns);
            let row = rows.entry((process.id(), listener.inode)).or_insert_with(|| UnixSenders {
                owner: (process.id(), process.comm.clone()),
                receiver: None,
                are_datagrams: false,
                address: Some(listener.name.clone()),
                sockets: listener.accept_queue,
                threads: 0,
                polling_threads: 0,
                since_boottime_ns: since_ns,
                unread_bytes: 0,
                backlog: Some(listener.backlog),
            });
            row.threads += 1;
            row.since_boottime_ns = row.since_boottime_ns.min(since_ns);
        }
        owners.search_now(root, rows.keys().map(|&(_, inode)| inode));
        for (&(_, inode), row) in &mut rows {
            row.receiver = owners.owner(inode);
        }
        rows.into_values().collect()
    }
}

/// The threads that the scan found in `unix_wait_for_peer`, in which senders of datagrams sleep too; then those that have slept since before
/// the first sample, of which it has not read where.
fn threads_that_may_wait(tasks: &Tasks) -> impl Iterator<Item = (&Process, &Thread)> {
    let sleeping = || {
        let threads = tasks.processes.iter().filter(|process| !process.kernel_thread);
        let threads = threads.flat_map(|process| process.threads.iter().map(move |thread| (&**process, thread)));
        threads.filter(|(_, thread)| thread.state == TaskState::Sleeping)
    };
    let known =
        sleeping().filter(|(_, thread)| thread.wait.wchan.as_ref().is_ok_and(|name| name.as_bytes() == b"unix_wait_for_peer"));
    known.chain(sleeping().filter(|(_, thread)| thread.wait.wchan == Err(Absent::NotRead)))
}

/// The address that a thread connects to.
fn connect_address(task: TaskId, machine: &[u8], files: &mut TaskFiles) -> Option<Name> {
    let TaskId { pid, tid, .. } = task;
    let call = task::parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall")).ok()?).ok()?;
    let call = Syscall::from_number(machine, call).filter(|call| call.name == "connect")?;
    let mut bytes = [0; SOCKADDR_BYTES];
    let length = usize::try_from(call.arguments[2]).unwrap_or(usize::MAX).min(SOCKADDR_BYTES);
    let bytes = bytes.get_mut(..length)?;
    let read = read_mapped(pid, call.arguments[1], bytes).ok()?;
    parse_address(bytes.get(..read)?)
}

/// The path or `@name` in a `struct sockaddr_un`.
fn parse_address(sockaddr: &[u8]) -> Option<Name> {
    let (family, path) = sockaddr.split_at_checked(PATH_AT)?;
    if family != (libc::AF_UNIX as u16).to_ne_bytes() {
        return None;
    }
    let bytes = match path.split_first()? {
        (0, rest) => [b"@", rest].concat(),
        _ => path.split(|&byte| byte == 0).next()?.to_vec(),
    };
    Some(Name::from(bytes.as_slice()))
}

/// The one of these listening sockets with that address. Another path may lead to it, by a symbolic link as /var/run is: then
/// that with the same file name.
fn listener_of<'a>(listeners: &'a [UnixListener], address: &Name) -> Option<&'a UnixListener> {
    let file_name = |name: &Name| name.as_bytes().rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec);
    listeners.iter().find(|listener| listener.name == *address).or_else(|| {
        let mut same = listeners.iter().filter(|listener| file_name(&listener.name) == file_name(address));
        same.next().filter(|_| same.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_abstract() {
        let unix = |path: &[u8]| [&(libc::AF_UNIX as u16).to_ne_bytes(), path].concat();
        assert_eq!(parse_address(&unix(b"/run/app.sock\0garbage")), Some(Name::from("/run/app.sock")));
        assert_eq!(parse_address(&unix(b"/run/app.sock")), Some(Name::from("/run/app.sock")));
        assert_eq!(parse_address(&unix(b"\0bus")), Some(Name::from("@bus")));
        assert_eq!(parse_address(&[2, 0, 0, 80, 127, 0, 0, 1]), None, "IPv4");
        assert_eq!(parse_address(&[1]), None);
    }

    #[test]
    fn a_socket_is_found_by_its_address_or_by_its_only_file_name() {
        let listener = |inode, name| UnixListener { inode, name: Name::from(name), accept_queue: 6, backlog: 5 };
        let listeners = [listener(1, "/run/a.sock"), listener(3, "/run/x/c.sock"), listener(4, "/run/y/c.sock")];
        let found = |address| listener_of(&listeners, &Name::from(address)).map(|listener| listener.inode);
        assert_eq!(found("/run/a.sock"), Some(1));
        assert_eq!(found("/var/run/a.sock"), Some(1));
        assert_eq!(found("/run/b.sock"), None);
        assert_eq!(found("/run/y/c.sock"), Some(4));
        assert_eq!(found("c.sock"), None, "either");
    }
}
