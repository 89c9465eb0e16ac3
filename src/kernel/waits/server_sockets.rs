//! Reads the sockets on which a server has not served a request: unread or unanswered data of connections, and connections in accept
//! queues.
//!
//! Only of processes whose threads were seen blocked or behind a lock for much of the interval, or runnable in a cgroup that its CPU quota
//! throttles, and of stopped and frozen ones; and only while there are few sockets. The descriptors of a process are read only if some
//! socket is unserved.
//! `interval::server_connections` decides which connections wait.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ipc_peers::parse_inode;
use super::remote_waits::{has_few_sockets, tcp_sockets};
use super::tcp_files::parse_tcp_file;
use super::unix_sockets::dump_unserved_sockets;
use crate::ids::CgroupId;
use crate::kernel::fields::parse_u32;
use crate::kernel::network::remote_hosts::Connection;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::cgroup::Controller;
use crate::sample::task::{Process, TaskState, Tasks};
use crate::sample::waits::{ServerSocket, UnreadServer, WaitClass, Waits, class};
use crate::sample::{Absent, Name, Reading};
use crate::units::SmallSort;

/// Bounds of an interval: processes with sockets, stopped ones among them, processes examined in all, descriptors read of all of them,
/// and sockets kept.
const MAX_PROCESSES: usize = 16;
const MAX_STOPPED: usize = MAX_PROCESSES / 2;
const MAX_EXAMINED: usize = 64;
const MAX_DESCRIPTORS: usize = 4096;
const MAX_SERVER_SOCKETS: usize = 1024;
/// The descriptors of a stopped process, and of one with at most so many, are read before the sockets: most have no socket (editors,
/// jobs of a shell, scripts behind a file lock), and a dump of the sockets costs 0.6 ms even without any.
const MAX_READ_FIRST: usize = 64;
/// A process is examined if its threads were seen blocked, or runnable in a throttled cgroup, in this share of the sub-samples. A limit
/// on cost, not a judgement.
const MIN_BLOCKED_SHARE: f64 = 0.4;

/// A process that may have unserved sockets.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    pid: u32,
    group: u16,
    /// Stopped or frozen
    is_stopped: bool,
}

/// Adds the unserved sockets of processes that are blocked, behind a lock, stopped, frozen, or runnable in a throttled cgroup.
pub(super) fn read_server_sockets(
    waits: &mut Waits,
    (tasks, throttled): (Option<&Tasks>, &[&CgroupId]),
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
) {
    if !root.is_host() {
        return;
    }
    let mut candidates = blocked_processes(waits, tasks.filter(|_| !throttled.is_empty()).zip(Some(throttled)), machine);
    add_stopped_processes(&mut candidates, waits, tasks);
    if candidates.is_empty() {
        return;
    }
    let mut namespaces: FxHashMap<Option<PathBuf>, UnservedSockets> = FxHashMap::default();
    let mut descriptors = Descriptors { root, files, left: MAX_DESCRIPTORS };
    let own = root.read_link("proc/self/ns/net").ok();
    let mut unread: BTreeMap<u16, Absent> = BTreeMap::new();
    let mut places = Places::default();
    for &Candidate { pid, group, is_stopped } in &candidates {
        if !places.may_examine(is_stopped) {
            unread.entry(group).or_insert(Absent::NotRead);
            continue;
        }
        let listed = descriptors.list(pid);
        let is_cheap = is_stopped || listed.as_ref().is_ok_and(|list| list.len() <= MAX_READ_FIRST);
        let read_first = is_cheap.then(|| descriptors.sockets(pid, &listed));
        if read_first.as_ref().is_some_and(|sockets| sockets.as_ref().is_ok_and(Vec::is_empty)) {
            continue;
        }
        places.add_with_sockets(is_stopped);
        let theirs = root.read_link(format!("proc/{pid}/ns/net")).ok().filter(|theirs| own.as_ref() != Some(theirs));
        let is_other = theirs.is_some();
        let unserved = namespaces.entry(theirs).or_insert_with(|| match is_other {
            true => read_other_namespace(root, pid),
            false => read_own_namespace(root),
        });
        let mut missing = unserved.missing;
        if !unserved.sockets.is_empty() {
            match read_first.unwrap_or_else(|| descriptors.sockets(pid, &listed)) {
                // Processes that share a socket have it once.
                Ok(inodes) => {
                    let sockets = inodes.iter().filter_map(|inode| unserved.sockets.remove(inode));
                    waits.server_sockets.extend(sockets.map(|socket| ServerSocket { group, pid, ..socket }));
                }
                // It has ended.
                Err(Absent::NoSuchFile) => continue,
                Err(why) => missing = Some(why),
            }
        }
        if let Some(why) = missing.filter(|why| *why != Absent::Vanished) {
            unread.insert(group, why);
        }
    }
    waits.server_sockets.sort_unstable();
    waits.server_sockets.truncate(MAX_SERVER_SOCKETS);
    waits.unread_servers = unread.into_iter().map(|(group, reason)| UnreadServer { group, reason }).collect();
}

/// How many processes were examined.
#[derive(Debug, Default)]
struct Places {
    examined: usize,
    with_sockets: usize,
    stopped_with_sockets: usize,
}

impl Places {
    /// Whether one more process may be examined, which it then is.
    fn may_examine(&mut self, is_stopped: bool) -> bool {
        let is_full = self.with_sockets >= MAX_PROCESSES || self.examined >= MAX_EXAMINED;
        let may = !is_full && (!is_stopped || self.stopped_with_sockets < MAX_STOPPED);
        self.examined += usize::from(may);
        may
    }

    /// The process that is examined has sockets, or may have some.
    fn add_with_sockets(&mut self, is_stopped: bool) {
        self.with_sockets += 1;
        self.stopped_with_sockets += usize::from(is_stopped);
    }
}

/// The processes with threads that were blocked or behind a lock, those with most sightings first; then those with threads that were
/// runnable in one of these cgroups: they are many on a busy host.
fn blocked_processes(waits: &Waits, throttled: Option<(&Tasks, &[&CgroupId])>, machine: &[u8]) -> Vec<Candidate> {
    let mut processes: FxHashMap<(u32, u16), u32> = FxHashMap::default();
    for wait in &waits.blocked {
        let seen_count = processes.entry((wait.task.pid, wait.group)).or_default();
        *seen_count = seen_count.saturating_add(u32::from(wait.seen_count));
    }
    // A futex address that several threads share, or the lock of a file: in a queue of one thread none is certainly behind a lock.
    let is_file_lock = |wchan: Option<&Name>| wchan.is_some_and(|wchan| class::is_file_lock(wchan.as_bytes()));
    for queue in &waits.wait_queues {
        let Some(wait) = waits.observed_wait(queue.wait).filter(|wait| wait.state == TaskState::Sleeping) else { continue };
        let is_lock = wait.class(machine) == WaitClass::Lock;
        if !is_lock || (queue.futex_address.is_none() && !is_file_lock(wait.wchan.as_ref())) {
            continue;
        }
        for row in waits.threads.iter().filter(|row| row.group == queue.group && row.wait == queue.wait) {
            let seen_count = processes.entry((row.task.pid, row.group)).or_default();
            *seen_count = seen_count.saturating_add(u32::from(row.seen_count));
        }
    }
    let least = (waits.sub_samples.len() as f64 * MIN_BLOCKED_SHARE).max(1.0);
    let mut list = most_seen(&processes, least);
    if let Some((tasks, cgroups)) = throttled {
        for row in &waits.threads {
            let is_runnable = waits.observed_wait(row.wait).is_some_and(|wait| wait.state == TaskState::Running);
            let process = if is_runnable { tasks.process(row.task.pid) } else { None };
            if process.is_some_and(|process| is_in_one_of(cgroups, process)) {
                let seen_count = processes.entry((row.task.pid, row.group)).or_default();
                *seen_count = seen_count.saturating_add(u32::from(row.seen_count));
            }
        }
        let more = most_seen(&processes, least);
        let is_new = |process: &(u32, u16)| !list.contains(process);
        let more: Vec<(u32, u16)> = more.into_iter().filter(is_new).collect();
        list.extend(more);
    }
    list.into_iter().map(|(pid, group)| Candidate { pid, group, is_stopped: false }).collect()
}

/// Those with at least so many sightings, those with most first.
fn most_seen(processes: &FxHashMap<(u32, u16), u32>, least: f64) -> Vec<(u32, u16)> {
    let mut list: Vec<((u32, u16), u32)> = processes.iter().map(|(&process, &seen_count)| (process, seen_count)).collect();
    list.retain(|&(_, seen_count)| f64::from(seen_count) >= least);
    list.small_sort_by_key(|&(process, seen_count)| (std::cmp::Reverse(seen_count), process));
    list.into_iter().map(|(process, _)| process).collect()
}

/// Whether the CPU quota of one of these cgroups applies to the process.
fn is_in_one_of(cgroups: &[&CgroupId], process: &Process) -> bool {
    let Some(own) = process.cgroup_for(Controller::Cpu) else { return false };
    let applies = |cgroup: &CgroupId| own.path_with_ancestors().any(|path| path == cgroup.path.as_bytes());
    cgroups.iter().any(|cgroup| cgroup.version == own.version && applies(cgroup))
}

/// Adds the processes of which every thread is stopped, traced or frozen, and their groups. They come first: they serve nothing.
fn add_stopped_processes(candidates: &mut Vec<Candidate>, waits: &mut Waits, tasks: Option<&Tasks>) {
    let Some(tasks) = tasks else { return };
    for process in tasks.processes.iter().filter(|process| process.is_stopped()) {
        let group = process.group();
        let place = waits.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            waits.groups.push(group);
            waits.groups.len() - 1
        });
        let Ok(group) = u16::try_from(place) else { break };
        candidates.retain(|candidate| candidate.pid != process.pid);
        candidates.insert(0, Candidate { pid: process.pid, group, is_stopped: true });
    }
}

/// Reads /proc/PID/fd, of all processes at most so many links.
struct Descriptors<'a> {
    root: &'a Root,
    files: &'a mut TaskFiles,
    left: usize,
}

impl Descriptors<'_> {
    /// The descriptors of a process.
    fn list(&self, pid: u32) -> Reading<Vec<u32>> {
        let names = self.root.list_directory(format!("proc/{pid}/fd"))?;
        Ok(names.iter().filter_map(|name| parse_u32(name.as_bytes())).collect())
    }

    /// The inodes of the sockets among these; `Absent::NotRead` if they are too many.
    fn sockets(&mut self, pid: u32, listed: &Reading<Vec<u32>>) -> Reading<Vec<u32>> {
        let numbers = listed.as_deref().map_err(|why| *why)?;
        self.left = self.left.checked_sub(numbers.len()).ok_or(Absent::NotRead)?;
        let links = numbers.iter().filter_map(|descriptor| self.files.read_link(format_args!("{pid}/fd/{descriptor}")).ok());
        Ok(links.filter_map(|target| parse_inode(target.as_bytes(), b"socket:[")).collect())
    }
}

/// The unserved sockets of one network namespace.
#[derive(Debug, Default)]
struct UnservedSockets {
    /// By inode
    sockets: FxHashMap<u32, ServerSocket>,
    /// Why sockets are missing; `Absent::NotRead` if there are too many
    missing: Option<Absent>,
}

/// Those of this process's network namespace.
fn read_own_namespace(root: &Root) -> UnservedSockets {
    let mut unserved = UnservedSockets::default();
    let tcp = if has_few_sockets(root, "proc/net") { tcp_sockets(is_unserved) } else { Err(Absent::NotRead) };
    match tcp {
        Ok(sockets) => {
            let served = sockets.into_iter().filter(|(_, (_, local_port_listens))| *local_port_listens);
            unserved.sockets.extend(served.map(|(inode, (socket, _))| (inode, tcp_socket(&socket))));
        }
        Err(why) => unserved.missing = Some(why),
    }
    match dump_unserved_sockets() {
        Ok(sockets) => unserved.sockets.extend(sockets),
        Err(why) => unserved.missing = Some(why),
    }
    unserved
}

/// Those of another namespace, without the times of tcp_info and without Unix sockets, which /proc does not show.
fn read_other_namespace(root: &Root, pid: u32) -> UnservedSockets {
    if !has_few_sockets(root, &format!("proc/{pid}/net")) {
        return UnservedSockets { missing: Some(Absent::NotRead), ..UnservedSockets::default() };
    }
    let mut listening = FxHashSet::default();
    let (mut found, mut missing) = (Vec::new(), None);
    for name in ["tcp", "tcp6"] {
        match root.read_once(format!("proc/{pid}/net/{name}")) {
            Ok(text) => found.extend(parse_tcp_file(&text, &mut listening)),
            // A kernel without IPv6.
            Err(Absent::NoSuchFile) if name == "tcp6" => {}
            Err(Absent::NoSuchFile) => missing = Some(Absent::Vanished),
            Err(why) => missing = Some(why),
        }
    }
    found.retain(|(_, socket)| socket.local_port.is_some_and(|port| listening.contains(&port)));
    UnservedSockets { sockets: found.into_iter().collect(), missing }
}

fn is_unserved(socket: &Connection) -> bool {
    let info = &socket.tcp_info;
    let may_be_unanswered = !socket.is_listening() && info.last_data_received_ms <= info.last_data_sent_ms;
    socket.unread_bytes > 0 || may_be_unanswered
}

fn tcp_socket(socket: &Connection) -> ServerSocket {
    let listens = socket.is_listening();
    let info = &socket.tcp_info;
    let of_connection = |value: u32| (!listens).then_some(value);
    ServerSocket {
        local_port: Some(socket.ports.0),
        // Of a listening socket idiag_rqueue is the length of its accept queue.
        accept_queue: if listens { socket.unread_bytes } else { 0 },
        unread_bytes: if listens { 0 } else { socket.unread_bytes },
        last_data_sent_ms: of_connection(info.last_data_sent_ms),
        last_data_received_ms: of_connection(info.last_data_received_ms),
        data_segments_in: info.data_segments_in.filter(|_| !listens),
        data_segments_out: info.data_segments_out.filter(|_| !listens),
        ..ServerSocket::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::ids::{CgroupVersion, TaskId};
    use crate::sample::task::ProcessFacts;
    use crate::sample::waits::{BlockedWait, SubSample};
    use crate::synthetic;

    #[test]
    fn blocked_processes_come_before_runnable_ones_of_a_throttled_cgroup() {
        let lab = CgroupId { version: CgroupVersion::V2, path: "/lab".into() };
        let task = |pid| TaskId { pid, tid: pid, start_ticks: 1 };
        let process = |pid: u32| {
            let facts = ProcessFacts { cgroup: Ok(lab.clone()), ..ProcessFacts::default() };
            std::sync::Arc::new(synthetic::process(pid, "server").facts(facts).build())
        };
        let tasks = Tasks { processes: vec![process(7), process(8), process(9)], ..Tasks::default() };
        let asleep = |pid| synthetic::waits::asleep(task(pid), "server", "jbd2_log_wait_commit");
        let blocked = |pid, seen_count| BlockedWait { state: TaskState::Blocked, seen_count, ..asleep(pid) };
        let running = |pid, seen_count| synthetic::waits::thread(task(pid), 0, &[(WaitClass::Running, seen_count)]);
        let waits = Waits {
            sub_samples: vec![SubSample::default(); 10],
            observed: synthetic::waits::observed(),
            blocked: vec![blocked(8, 2), blocked(9, 5)],
            threads: [running(7, 10), running(8, 4), running(9, 5)].concat(),
            ..Waits::default()
        };
        let pids = |throttled: Option<(&Tasks, &[&CgroupId])>| -> Vec<u32> {
            blocked_processes(&waits, throttled, b"x86_64").iter().map(|candidate| candidate.pid).collect()
        };
        assert_eq!(pids(None), [9]);
        assert_eq!(pids(Some((&tasks, &[&lab]))), [9, 7, 8], "the blocked one first, and once");
    }

    #[test]
    fn stopped_processes_leave_half_of_the_places_and_those_without_sockets_take_none() {
        let mut places = Places::default();
        assert!((0..20).all(|_| places.may_examine(true)), "they have no sockets");
        let mut take = |is_stopped| {
            let may = places.may_examine(is_stopped);
            if may {
                places.add_with_sockets(is_stopped);
            }
            may
        };
        assert_eq!((0..20).filter(|_| take(true)).count(), 8);
        assert_eq!((0..20).filter(|_| take(false)).count(), 8);
        let mut places = Places::default();
        assert_eq!((0..1000).filter(|_| places.may_examine(true)).count(), MAX_EXAMINED);
    }

    fn inode(descriptor: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        parse_inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
    }

    #[test]
    fn unread_requests_and_accept_queues_of_this_namespace_are_found() {
        let Ok(listener) = TcpListener::bind("127.0.0.1:0") else { return println!("skipped: no loopback interface") };
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let server = listener.accept().unwrap().0;
        client.write_all(b"request").unwrap();
        let _not_accepted = TcpStream::connect(address).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let unix_listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let mut unix_client = UnixStream::connect(folder.path().join("socket")).unwrap();
        let unix_server = unix_listener.accept().unwrap().0;
        unix_client.write_all(b"request").unwrap();
        let _not_accepted = UnixStream::connect(folder.path().join("socket")).unwrap();

        let own = read_own_namespace(&Root::host()).sockets;
        if own.is_empty() {
            return println!("skipped: this kernel has no sock_diag");
        }
        let port = Some(address.port());
        let unread = own.get(&inode(&server)).unwrap();
        assert_eq!((unread.local_port, unread.unread_bytes, unread.accept_queue), (port, 7, 0));
        assert!(unread.last_data_received_ms.is_some());
        let queue = own.get(&inode(&listener)).unwrap();
        assert_eq!((queue.local_port, queue.unread_bytes, queue.accept_queue), (port, 0, 1));
        assert!(!own.contains_key(&inode(&client)), "no socket listens at its port");
        let unread = own.get(&inode(&unix_server)).unwrap();
        assert_eq!((unread.local_port, unread.unread_bytes), (None, 7));
        assert_eq!(own.get(&inode(&unix_listener)).unwrap().accept_queue, 1);

        let other = read_other_namespace(&Root::host(), std::process::id()).sockets;
        assert_eq!(other.get(&inode(&server)).map(|socket| (socket.local_port, socket.unread_bytes)), Some((port, 7)));
        assert_eq!(other.get(&inode(&listener)).map(|socket| socket.accept_queue), Some(1));
    }
}
