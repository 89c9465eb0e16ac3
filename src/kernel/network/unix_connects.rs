//! Finds the threads that sleep in connect until a Unix socket has room in its accept queue, and the process that should accept: the
//! address by the arguments of the call (/proc/PID/task/TID/syscall, process_vm_readv), the queue by sock_diag (UNIX_DIAG).
//!
//! While no accept queue is full, nothing else is read.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::listeners::socket_owner::SocketOwners;
use super::namespaces::NamespaceReader;
use super::unix_senders::MIN_FULL_NS;
use crate::ids::{ProcessId, TaskId};
use crate::kernel::root::Root;
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::memory::{may_hold_memory_lock, read_mapped};
use crate::kernel::waits::unix_sockets::{UnixListener, dump_full_listeners, open_unix_diag};
use crate::sample::network::unix_senders::UnixSenders;
use crate::sample::task::{Process, TaskState, Tasks, Thread};
use crate::sample::task_state::RawSyscall;
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Absent, Name};
use crate::units::SmallSort;

/// Threads whose system call is read at one sample, some 3 µs each.
const MAX_THREADS: usize = 4096;
/// Listening sockets of a sample, those with most threads first.
const MAX_LISTENERS: usize = 4;
/// Rows of a listening socket, a process each, those with most threads first: as many as a server has workers, since findings say how many
/// processes wait. The last one has the threads of all other processes, too.
const MAX_PROCESSES: usize = 256;
/// `sun_path` in `struct sockaddr_un`
const PATH_AT: usize = 2;
/// Size of `struct sockaddr_un`
const SOCKADDR_BYTES: usize = 110;

/// The threads of one process that wait for one socket.
#[derive(Debug)]
struct Clients {
    process: (ProcessId, Name),
    threads: u32,
    /// CLOCK_BOOTTIME ns at which the first of them began to wait, or was first seen
    since_ns: u64,
}

/// What is known of threads while an accept queue is full.
#[derive(Debug, Default)]
pub struct UnixConnects {
    /// CLOCK_BOOTTIME ns at which each thread in connect was first seen there
    first_seen_ns: FxHashMap<TaskId, u64>,
    /// Threads that have not run since the first sample, and sleep in another call
    elsewhere: FxHashSet<TaskId>,
}

impl UnixConnects {
    /// The threads that wait at `now_ns` (CLOCK_BOOTTIME), at most `MAX_PROCESSES` rows for each socket: the first one has waited for
    /// `MIN_FULL_NS`. `owners` is searched for the processes that have these sockets open.
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
        if listeners.is_empty() {
            *self = UnixConnects::default();
            return Vec::new();
        }
        let mut waits: Vec<(&UnixListener, Vec<Clients>)> = self
            .clients(&listeners, tasks, now_ns, machine, files)
            .into_iter()
            .map(|(at, clients)| (&listeners[at], clients))
            .collect();
        waits.retain(|(_, clients)| clients.iter().any(|clients| now_ns.saturating_sub(clients.since_ns) >= MIN_FULL_NS));
        waits.small_sort_by_key(|(listener, clients)| {
            (Reverse(clients.iter().map(|clients| clients.threads).sum::<u32>()), listener.inode)
        });
        waits.truncate(MAX_LISTENERS);
        owners.search_now(root, waits.iter().map(|(listener, _)| listener.inode));
        let is_only = |listener: &UnixListener| listeners.iter().filter(|other| other.name == listener.name).count() == 1;
        let rows = waits.into_iter().flat_map(|(listener, clients)| {
            // With the same address in several containers it is not known which one the threads connect to.
            let receiver = owners.owner(listener.inode).filter(|_| is_only(listener));
            most_clients(clients).into_iter().map(move |clients| UnixSenders {
                owner: clients.process,
                receiver: receiver.clone(),
                are_datagrams: false,
                address: Some(listener.name.clone()),
                sockets: listener.accept_queue,
                threads: clients.threads,
                polling_threads: 0,
                since_boottime_ns: clients.since_ns,
                unread_bytes: 0,
                backlog: Some(listener.backlog),
            })
        });
        rows.collect()
    }

    /// Whether a thread was in connect at the last search, however short.
    pub fn is_waiting(&self) -> bool {
        !self.first_seen_ns.is_empty()
    }

    /// The clients of each listening socket, by its place in the list.
    fn clients(
        &mut self,
        listeners: &[UnixListener],
        tasks: Option<&Tasks>,
        now_ns: u64,
        machine: &[u8],
        files: &mut TaskFiles,
    ) -> FxHashMap<usize, Vec<Clients>> {
        let mut before = std::mem::take(&mut self.first_seen_ns);
        let mut found: FxHashMap<usize, Vec<Clients>> = FxHashMap::default();
        let elsewhere = std::mem::take(&mut self.elsewhere);
        let unread = |(process, thread): &(&Process, &Thread)| !elsewhere.contains(&task_id(process, thread));
        let threads = tasks.into_iter().flat_map(|tasks| {
            let in_connect = sleeping(tasks).filter(|(_, thread)| may_be_in_connect(thread, machine));
            in_connect.chain(sleeping(tasks).filter(|(_, thread)| is_not_read(thread)).filter(unread))
        });
        let mut read_elsewhere = Vec::new();
        for (process, thread) in threads.take(MAX_THREADS) {
            let task = task_id(process, thread);
            let Some(address) = connect_address(task, machine, files) else {
                read_elsewhere.extend(is_not_read(thread).then_some(task));
                continue;
            };
            let Some(at) = listener_of(listeners, &address) else { continue };
            let first_seen_ns = before.remove(&task).unwrap_or(now_ns);
            self.first_seen_ns.insert(task, first_seen_ns);
            let since_ns = thread.last_timeslice_ns.unwrap_or(first_seen_ns);
            let clients = found.entry(at).or_default();
            match clients.iter_mut().find(|known| known.process.0 == process.id()) {
                Some(known) => {
                    known.threads += 1;
                    known.since_ns = known.since_ns.min(since_ns);
                }
                None => clients.push(Clients { process: (process.id(), process.comm.clone()), threads: 1, since_ns }),
            }
        }
        self.elsewhere = elsewhere;
        self.elsewhere.extend(read_elsewhere);
        found
    }
}

/// Those with most threads; the last one gets the threads of the others.
fn most_clients(mut clients: Vec<Clients>) -> Vec<Clients> {
    clients.small_sort_by_key(|clients| (Reverse(clients.threads), clients.process.0));
    let others = clients.split_off(clients.len().min(MAX_PROCESSES));
    if let Some(last) = clients.last_mut() {
        for other in others {
            last.threads = last.threads.saturating_add(other.threads);
            last.since_ns = last.since_ns.min(other.since_ns);
        }
    }
    clients
}

fn task_id(process: &Process, thread: &Thread) -> TaskId {
    TaskId { pid: process.pid, tid: thread.tid, start_ticks: thread.start_ticks }
}

/// The threads in state S of processes whose memory can be read.
fn sleeping(tasks: &Tasks) -> impl Iterator<Item = (&Process, &Thread)> {
    let processes = tasks.processes.iter().filter(|process| !process.kernel_thread && !memory_read_may_hang(process));
    let threads = processes.flat_map(|process| process.threads.iter().map(move |thread| (&**process, thread)));
    threads.filter(|(_, thread)| thread.state == TaskState::Sleeping)
}

/// Whether a thread of it may hold the lock of its address space while it hangs.
fn memory_read_may_hang(process: &Process) -> bool {
    process.threads.iter().any(|thread| {
        let is_in_page_fault = thread.wait.syscall().is_ok_and(RawSyscall::is_page_fault);
        let wchan = thread.wait.wchan.as_ref().ok();
        let class = wchan.map(|name| WaitClass::classify_settled(thread.state, Some(name.as_bytes()), None));
        may_hold_memory_lock(thread.state, class, is_in_page_fault)
    })
}

/// Whether the scan found it in `unix_wait_for_peer`, in which senders of datagrams sleep too; where the kernel shows no wait channel, in
/// connect.
fn may_be_in_connect(thread: &Thread, machine: &[u8]) -> bool {
    match &thread.wait.wchan {
        Ok(name) => name.as_bytes() == b"unix_wait_for_peer",
        Err(_) => thread.wait.syscall().is_ok_and(|call| connect_call(machine, call).is_some()),
    }
}

/// Whether the scan has not read where it sleeps, since it has not run since the first sample.
fn is_not_read(thread: &Thread) -> bool {
    thread.wait.wchan == Err(Absent::NotRead) && thread.wait.syscall == Err(Absent::NotRead)
}

fn connect_call(machine: &[u8], call: RawSyscall) -> Option<Syscall> {
    Syscall::from_number(machine, call).filter(|call| call.name == "connect")
}

/// The address that a thread connects to.
fn connect_address(task: TaskId, machine: &[u8], files: &mut TaskFiles) -> Option<Name> {
    let TaskId { pid, tid, .. } = task;
    let call = task::parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall")).ok()?).ok()?;
    let call = connect_call(machine, call)?;
    let mut bytes = [0; SOCKADDR_BYTES];
    // The length is an int.
    let length = usize::try_from(call.arguments[2] & u64::from(u32::MAX)).unwrap_or(usize::MAX).min(SOCKADDR_BYTES);
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

/// The place of the listening socket with that address. Another path may lead to it, by a symbolic link as /var/run is: then the only one
/// with the same file name.
fn listener_of(listeners: &[UnixListener], address: &Name) -> Option<usize> {
    let file_name = |name: &Name| {
        let path = name.as_bytes();
        (path.first() != Some(&b'@')).then(|| path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec())
    };
    listeners.iter().position(|listener| listener.name == *address).or_else(|| {
        let wanted = file_name(address)?;
        let mut same = (0..listeners.len()).filter(|&at| file_name(&listeners[at].name).as_ref() == Some(&wanted));
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
        let found = |address| listener_of(&listeners, &Name::from(address));
        assert_eq!(found("/run/a.sock"), Some(0));
        assert_eq!(found("/var/run/a.sock"), Some(0));
        assert_eq!(found("@x/a.sock"), None, "abstract: no path");
        assert_eq!(found("/run/b.sock"), None);
        assert_eq!(found("/run/y/c.sock"), Some(2));
        assert_eq!(found("c.sock"), None, "either");
    }

    #[test]
    fn of_many_processes_the_threads_are_all_counted() {
        let clients = |pid: u32, threads| Clients {
            process: (ProcessId { pid, start_ticks: 1 }, Name::from("client")),
            threads,
            since_ns: u64::from(pid),
        };
        let rows = most_clients((1..=300).map(|pid| clients(pid, if pid == 150 { 7 } else { 1 })).collect());
        assert_eq!(rows.len(), MAX_PROCESSES);
        assert_eq!(rows.first().map(|row| (row.process.0.pid, row.threads)), Some((150, 7)));
        assert_eq!(rows.iter().map(|row| row.threads).sum::<u32>(), 306);
    }

    /// A listening socket of this process with a full accept queue, and a thread in connect.
    #[test]
    fn a_thread_in_connect_is_found_with_its_address() {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::net::{UnixListener as Listener, UnixStream};
        let machine = crate::kernel::host::read(&Root::host()).machine.clone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.sock");
        let listener = Listener::bind(&path).unwrap();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
        let first = UnixStream::connect(&path).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let address = path.clone();
        let client = std::thread::spawn(move || {
            sender.send(nix::unistd::gettid().as_raw()).unwrap();
            UnixStream::connect(address).map(drop)
        });
        let tid = u32::try_from(receiver.recv().unwrap()).unwrap();
        let task = TaskId { pid: std::process::id(), tid, start_ticks: 0 };
        let mut files = TaskFiles::open(&Root::host()).unwrap();
        let name = Name::from(path.as_os_str().as_bytes());
        let full = || open_unix_diag().and_then(|mut socket| dump_full_listeners(&mut socket));
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let mut found = None;
        while found.is_none() && !client.is_finished() && std::time::Instant::now() < end {
            found = connect_address(task, machine.as_bytes(), &mut files);
            std::thread::yield_now();
        }
        let listeners = full();
        // Room for the thread, which ends then.
        let accepted = listener.accept();
        let connected = client.join().unwrap();
        drop((first, accepted));
        match listeners {
            Err(why) => println!("skipped: this kernel has no UNIX_DIAG ({why})"),
            Ok(listeners) => {
                let listed = listeners.iter().find(|listener| listener.name == name);
                assert_eq!(listed.map(|listener| (listener.accept_queue, listener.backlog)), Some((1, 0)));
            }
        }
        match found {
            None if crate::kernel::task::memory::is_readable(std::process::id()) != Ok(true) => {
                println!("skipped: this user may not read memory");
            }
            found => assert_eq!(found, Some(name), "{connected:?}"),
        }
    }
}
