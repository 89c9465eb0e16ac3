//! Finds the threads that sleep in a send, connect, receive or poll call on given sockets: by the descriptor of their system call
//! (/proc/PID/task/TID/syscall), by the list of descriptors of poll, which is read from their memory, and by what their epoll
//! instance watches (/proc/PID/fdinfo). Expensive, hence only for sockets that wait.

pub mod awaited_sockets;

use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use rustc_hash::{FxHashMap, FxHashSet};

use super::listeners::socket_owner::{SocketOwners, parse_socket_inode};
use crate::ids::TaskId;
use crate::kernel::fields::{lines, parse_hexadecimal, words};
use crate::kernel::root::Root;
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::memory::read_mapped;
use crate::sample::waits::Syscall;
use crate::sample::{Absent, Reading};
use crate::units::SmallSort;

/// Threads whose system call is read in one search; of a process all or none.
const MAX_THREADS: usize = 1024;
/// `struct pollfd` of poll(2): an int, two shorts.
const POLLFD_BYTES: usize = 8;
/// A thread in poll for at most so many descriptors waits for the connection that is among them, and serves no other ones.
const MAX_POLLED_BY_CLIENT: u64 = 4;
/// Descriptors of one poll call that are read.
const MAX_POLLED: usize = 1024;

/// Threads asleep in system calls on one socket, by tid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SleepingThreads {
    /// In a send or connect call
    pub sending: Vec<u32>,
    /// In a receive call, or in poll until the socket can be read
    pub receiving: Vec<u32>,
    /// Those of `receiving` that wait for that socket: in a receive call, or in poll for few descriptors
    pub receiving_few: Vec<u32>,
    /// In a poll or epoll call that returns when the socket can be written to; in select if it is the only thread of the process
    pub polling: Vec<u32>,
    /// Those of `polling` that serve no other connections meanwhile: in poll for few descriptors, or in select
    pub polling_few: Vec<u32>,
}

/// By the inode of the socket; `None`: no thread was found, but not all were read.
pub type ThreadsBySocket = FxHashMap<u32, Option<SleepingThreads>>;

/// The threads of the owners of these sockets that sleep in a call on one of them.
pub fn search_threads(
    owners: &SocketOwners,
    sockets: impl Iterator<Item = u32>,
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
) -> ThreadsBySocket {
    let mut by_process: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
    for inode in sockets {
        if let Some((process, _)) = owners.owner(inode) {
            by_process.entry(process.pid).or_default().insert(inode);
        }
    }
    let mut processes: Vec<(u32, FxHashSet<u32>)> = by_process.into_iter().collect();
    processes.small_sort_by_key(|(pid, _)| *pid);
    let mut found = ThreadsBySocket::default();
    let (mut left, mut tids): (usize, Vec<u32>) = (MAX_THREADS, Vec::new());
    for (pid, wanted) in processes {
        tids.clear();
        if files.list_threads(pid, &mut tids).is_err() {
            continue;
        }
        let Some(rest) = left.checked_sub(tids.len()) else {
            // The processes that follow may have fewer.
            found.extend(wanted.into_iter().map(|inode| (inode, None)));
            continue;
        };
        left = rest;
        let mut epolls: FxHashMap<u64, Option<FxHashSet<u32>>> = FxHashMap::default();
        // Threads of one process often poll the same descriptors.
        let mut sockets: FxHashMap<u64, Option<u32>> = FxHashMap::default();
        let mut is_whole = true;
        for &tid in &tids {
            let mut add = |inode: u32, tids: fn(&mut SleepingThreads) -> &mut Vec<u32>| {
                if let Some(threads) = found.entry(inode).or_insert_with(|| Some(SleepingThreads::default())) {
                    tids(threads).push(tid);
                }
            };
            match sleeping_call(pid, tid, files, machine) {
                Ok(Some((call @ (SocketCall::Send | SocketCall::Receive), [descriptor, _]))) => {
                    let inode = socket_of(pid, descriptor, files).filter(|inode| wanted.contains(inode));
                    match (inode, call) {
                        (Some(inode), SocketCall::Send) => add(inode, |threads| &mut threads.sending),
                        (Some(inode), _) => {
                            add(inode, |threads| &mut threads.receiving);
                            add(inode, |threads| &mut threads.receiving_few);
                        }
                        (None, _) => {}
                    }
                }
                Ok(Some((SocketCall::Epoll, [descriptor, _]))) => {
                    match epolls.entry(descriptor).or_insert_with(|| read_writable_watches(root, pid, descriptor)) {
                        Some(watched) => {
                            wanted.intersection(watched).for_each(|&inode| add(inode, |threads| &mut threads.polling));
                        }
                        None => is_whole = false,
                    }
                }
                Ok(Some((SocketCall::Poll, [address, count]))) => {
                    let (polled, are_all) = match read_polled(pid, address, count) {
                        Ok(polled) => polled,
                        // It has returned, or ended.
                        Err(Errno::EFAULT | Errno::ESRCH) => continue,
                        // A sandbox forbids it: with one thread there is one that may wait for the socket.
                        Err(_) if tids.len() == 1 => {
                            wanted.iter().for_each(|&inode| add(inode, |threads| &mut threads.polling));
                            continue;
                        }
                        Err(_) => {
                            is_whole = false;
                            continue;
                        }
                    };
                    is_whole &= are_all;
                    for (descriptor, events) in polled {
                        let inode = *sockets.entry(descriptor).or_insert_with(|| socket_of(pid, descriptor, files));
                        let Some(inode) = inode.filter(|inode| wanted.contains(inode)) else { continue };
                        if events & libc::POLLOUT != 0 {
                            add(inode, |threads| &mut threads.polling);
                            if count <= MAX_POLLED_BY_CLIENT {
                                add(inode, |threads| &mut threads.polling_few);
                            }
                        }
                        if events & libc::POLLIN != 0 {
                            add(inode, |threads| &mut threads.receiving);
                            if count <= MAX_POLLED_BY_CLIENT {
                                add(inode, |threads| &mut threads.receiving_few);
                            }
                        }
                    }
                }
                Ok(Some((SocketCall::Select, _))) if tids.len() == 1 => {
                    for &inode in &wanted {
                        add(inode, |threads| &mut threads.polling);
                        add(inode, |threads| &mut threads.polling_few);
                    }
                }
                Err(Absent::NoPermission) => is_whole = false,
                _ => {}
            }
        }
        if !is_whole {
            for inode in wanted {
                found.entry(inode).or_insert(None);
            }
        }
    }
    found
}

/// The sockets of which a thread sleeps until one can be read: that of its receive call, or those of its poll call for few descriptors.
pub fn sockets_to_read(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Vec<u32> {
    let descriptors = descriptors_to_read(task, files, machine);
    descriptors.into_iter().filter_map(|descriptor| socket_of(task.pid, descriptor, files)).collect()
}

/// The descriptors until one of which it sleeps to read: sockets and other files.
pub fn descriptors_to_read(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Vec<u64> {
    let TaskId { pid, tid, .. } = task;
    match sleeping_call(pid, tid, files, machine) {
        Ok(Some((SocketCall::Receive, [descriptor, _]))) => vec![descriptor],
        Ok(Some((SocketCall::Poll, [address, count]))) if count <= MAX_POLLED_BY_CLIENT => {
            let (polled, _) = read_polled(pid, address, count).unwrap_or_default();
            polled.into_iter().filter(|(_, events)| events & libc::POLLIN != 0).map(|(descriptor, _)| descriptor).collect()
        }
        _ => Vec::new(),
    }
}

/// What a thread sleeps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketCall {
    /// A send or connect call
    Send,
    Receive,
    /// Its descriptor is that of the epoll instance.
    Epoll,
    /// Its arguments are the address of the list of descriptors, and their number.
    Poll,
    /// Its arguments are the number of descriptors in the set, and the address of the set of those to read.
    Select,
    /// Its descriptors are not known.
    IoUring,
}

/// The call that a thread sleeps in, and its first two arguments.
fn sleeping_call(pid: u32, tid: u32, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<(SocketCall, [u64; 2])>> {
    let call = task::parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall"))?)?;
    let call = Syscall::from_number(machine, call);
    Ok(call.and_then(|call| Some((socket_call(call.name)?, [call.arguments[0], call.arguments[1]]))))
}

fn socket_call(name: &str) -> Option<SocketCall> {
    match name {
        "connect" | "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile" => Some(SocketCall::Send),
        "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" => Some(SocketCall::Receive),
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Some(SocketCall::Epoll),
        "poll" | "ppoll" => Some(SocketCall::Poll),
        "select" | "pselect6" => Some(SocketCall::Select),
        "io_uring_enter" => Some(SocketCall::IoUring),
        _ => None,
    }
}

fn socket_of(pid: u32, descriptor: u64, files: &TaskFiles) -> Option<u32> {
    let target = files.read_link(format_args!("{pid}/fd/{descriptor}")).ok()?;
    parse_socket_inode(target.as_bytes())
}

/// The descriptors and events of a poll call, and whether these are all.
fn read_polled(pid: u32, address: u64, count: u64) -> Result<(Vec<(u64, i16)>, bool), Errno> {
    let mut bytes = [0; MAX_POLLED * POLLFD_BYTES];
    let all = usize::try_from(count).unwrap_or(usize::MAX);
    let bytes = bytes.get_mut(..all.min(MAX_POLLED) * POLLFD_BYTES).unwrap_or_default();
    let length = read_mapped(pid, address, bytes)?;
    Ok((parse_polled(bytes.get(..length).unwrap_or_default()), length / POLLFD_BYTES == all))
}

/// A negative descriptor is ignored by poll.
fn parse_polled(bytes: &[u8]) -> Vec<(u64, i16)> {
    let (structs, _) = bytes.as_chunks::<POLLFD_BYTES>();
    let polled = |&[a, b, c, d, e, f, _, _]: &[u8; POLLFD_BYTES]| {
        let descriptor = u64::try_from(i32::from_ne_bytes([a, b, c, d])).ok()?;
        Some((descriptor, i16::from_ne_bytes([e, f])))
    };
    structs.iter().filter_map(polled).collect()
}

/// `None` if they are not readable.
fn read_writable_watches(root: &Root, pid: u32, descriptor: u64) -> Option<FxHashSet<u32>> {
    let text = root.read_once(format!("proc/{pid}/fdinfo/{descriptor}"));
    text.map(|text| parse_watches(&text, libc::EPOLLOUT)).ok()
}

/// The inodes that an epoll instance watches until they can be read; none if they are not known.
pub fn readable_watches(root: &Root, pid: u32, descriptor: u64) -> FxHashSet<u32> {
    let text = root.read_once(format!("proc/{pid}/fdinfo/{descriptor}"));
    text.map(|text| parse_watches(&text, libc::EPOLLIN)).unwrap_or_default()
}

/// The inodes that an epoll instance watches for one of these events. Before Linux 4.13 the file has no inodes: none.
///
/// ```text
/// tfd:        5 events: 8000201d data:                5  pos:0 ino:2c14f sdev:8
/// ```
fn parse_watches(text: &[u8], wanted: libc::c_int) -> FxHashSet<u32> {
    let hexadecimal = |word: &[u8]| u32::try_from(parse_hexadecimal(word)?).ok();
    let watch = |line: &[u8]| {
        let mut words = words(line.strip_prefix(b"tfd:")?);
        let events = hexadecimal(words.nth(2)?)?;
        let inode = words.find_map(|word| word.strip_prefix(b"ino:"))?;
        (events & wanted.cast_unsigned() != 0).then(|| hexadecimal(inode))?
    };
    lines(text).filter_map(watch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::{ProcTree, ThreadFiles};

    /// Adds a process whose threads are all in one system call, and which has these descriptors open.
    fn add_process(tree: &ProcTree, pid: u32, threads: u32, syscall: &str, sockets: &[(u32, u32)]) {
        let threads: Vec<_> = (pid..pid + threads).map(|tid| ThreadFiles { syscall, ..ThreadFiles::sleeping(tid) }).collect();
        tree.process(pid, "server", 77, 0, &threads);
        for (descriptor, inode) in sockets {
            tree.link(format!("socket:[{inode}]"), format!("proc/{pid}/fd/{descriptor}"));
        }
        tree.write(format!("proc/{pid}/comm"), "server\n");
    }

    fn search(tree: &ProcTree, sockets: &[u32]) -> ThreadsBySocket {
        let root = tree.root();
        let mut owners = SocketOwners::default();
        owners.search_now(&root, sockets.iter().copied());
        let mut files = TaskFiles::open(&root).unwrap();
        search_threads(&owners, sockets.iter().copied(), &root, &mut files, b"x86_64")
    }

    fn sending(tids: &[u32]) -> Option<Option<SleepingThreads>> {
        Some(Some(SleepingThreads { sending: tids.to_vec(), ..SleepingThreads::default() }))
    }

    const SEND_ON_5: &str = "44 0x5 0x7f0000000000 0x1 0x4000 0x0 0x0 0x7ffd0000 0x7f000000\n";

    #[test]
    fn a_process_with_too_many_threads_is_unknown_and_the_search_goes_on() {
        let tree = ProcTree::empty();
        add_process(&tree, 100, MAX_THREADS as u32 + 1, SEND_ON_5, &[(5, 11)]);
        add_process(&tree, 5000, 2, SEND_ON_5, &[(5, 12)]);
        let found = search(&tree, &[11, 12]);
        assert_eq!(found.get(&11), Some(&None));
        assert_eq!(found.get(&12).cloned(), sending(&[5000, 5001]));
    }

    /// A file that also root may not read: mode 0200 holds for it, too.
    const UNREADABLE: &str = "/proc/sys/vm/drop_caches";

    #[test]
    fn a_thread_that_is_not_readable_does_not_hide_those_that_were_found() {
        if Root::host().open(UNREADABLE).err() != Some(Absent::NoPermission) {
            return println!("skipped: {UNREADABLE} is readable here");
        }
        let tree = ProcTree::empty();
        add_process(&tree, 100, 3, SEND_ON_5, &[(5, 11), (6, 12)]);
        tree.link(UNREADABLE, "proc/100/task/101/syscall");
        let found = search(&tree, &[11, 12]);
        assert_eq!(found.get(&11).cloned(), sending(&[100, 102]));
        assert_eq!(found.get(&12), Some(&None), "the unreadable thread may wait for it");
    }

    /// A thread of this process that polls so many descriptors, the last of which is the socket with inode 11.
    fn search_polled(count: usize) -> Option<Option<SleepingThreads>> {
        let tree = ProcTree::empty();
        let mut list = vec![libc::pollfd { fd: 3, events: libc::POLLIN, revents: 0 }; count];
        *list.last_mut().unwrap() = libc::pollfd { fd: 9, events: libc::POLLOUT, revents: 0 };
        let call = format!("7 {:#x} {count:#x} 0xffffffff 0x0 0x0 0x0 0x7ffd0000 0x7f000000\n", list.as_ptr() as usize);
        add_process(&tree, std::process::id(), 1, &call, &[(9, 11)]);
        search(&tree, &[11]).get(&11).cloned()
    }

    #[test]
    fn a_long_list_of_poll_is_read_and_one_that_is_too_long_is_unknown() {
        if read_polled(std::process::id(), 0, 1) == Err(Errno::ENOSYS) {
            return println!("skipped: no process_vm_readv here");
        }
        let polling = SleepingThreads { polling: vec![std::process::id()], ..SleepingThreads::default() };
        let few = SleepingThreads { polling_few: polling.polling.clone(), ..polling.clone() };
        assert_eq!(search_polled(2), Some(Some(few)), "it waits for that connection");
        assert_eq!(search_polled(200), Some(Some(polling)), "an event loop");
        assert_eq!(search_polled(2000), Some(None));
    }

    #[test]
    fn what_an_epoll_instance_watches_is_unknown_if_it_is_not_readable() {
        let tree = ProcTree::empty();
        add_process(&tree, 100, 1, "232 0x4 0x7f0000000000 0x10 0xffffffff 0x0 0x0 0x7ffd0000 0x7f000000\n", &[(9, 11)]);
        assert_eq!(search(&tree, &[11]).get(&11), Some(&None));
        tree.write("proc/100/fdinfo/4", "tfd:        9 events:       19 data:                9  pos:0 ino:b sdev:8\n");
        assert_eq!(search(&tree, &[11]).get(&11), None, "it waits to read");
    }

    #[test]
    fn the_descriptors_of_a_poll_call_are_read_from_the_memory_of_its_process() {
        let pollfd = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let list = [pollfd(5, libc::POLLIN), pollfd(-1, libc::POLLIN), pollfd(7, libc::POLLOUT)];
        let expected = vec![(5, libc::POLLIN), (7, libc::POLLOUT)];
        let address = list.as_ptr() as u64;
        match read_polled(std::process::id(), address, 3) {
            Err(Errno::ENOSYS) => return println!("skipped: no process_vm_readv here"),
            polled => assert_eq!(polled, Ok((expected, true))),
        }
        assert_eq!(read_polled(std::process::id(), 8, 3), Err(Errno::EFAULT));
    }

    #[test]
    fn sockets_that_an_epoll_instance_waits_to_write_to() {
        let text = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1061\n\
            tfd:        5 events:       1d data:                5  pos:0 ino:2c14f sdev:8\n\
            tfd:        6 events:       19 data:                6  pos:0 ino:2c150 sdev:8\n\
            tfd:        7 events: 8000201f data:     7f00aabbccdd  pos:0 ino:2c151 sdev:8\n\
            tfd:        8 events:       1d data:                5\n";
        assert_eq!(parse_watches(text, libc::EPOLLOUT), FxHashSet::from_iter([0x2c14f, 0x2c151]));
        assert_eq!(parse_watches(text, libc::EPOLLIN), FxHashSet::from_iter([0x2c14f, 0x2c150, 0x2c151]));
    }
}
