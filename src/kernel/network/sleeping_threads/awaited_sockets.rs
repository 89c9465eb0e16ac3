//! The sockets of which one thread sleeps until any of them can be read: a receive call has one, an event loop (epoll, poll, select,
//! io_uring) those that it watches. Expensive, hence only for threads for which others wait.

use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::{SocketCall, read_polled, readable_watches, sleeping_call, socket_of};
use crate::ids::TaskId;
use crate::kernel::fields::parse_u64;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::memory::read_mapped;

/// Descriptors of one select call (FD_SETSIZE), and files of a process in io_uring_enter.
const MAX_DESCRIPTORS: usize = 1024;
/// Threads of that process.
const MAX_THREADS: usize = 64;

/// The sockets of which a thread sleeps until one can be read: that of its receive call, or all those of an event loop. What
/// io_uring_enter waits for is not known: then all sockets of the process, unless another thread of it sleeps in a call on sockets.
pub fn awaited_sockets(task: TaskId, root: &Root, files: &mut TaskFiles, machine: &[u8]) -> Vec<u32> {
    let TaskId { pid, tid, .. } = task;
    let descriptors: Vec<u64> = match sleeping_call(pid, tid, files, machine) {
        Ok(Some((SocketCall::Receive, [descriptor, _]))) => vec![descriptor],
        Ok(Some((SocketCall::Epoll, [descriptor, _]))) => return readable_watches(root, pid, descriptor).into_iter().collect(),
        Ok(Some((SocketCall::Poll, [address, count]))) => {
            let (polled, _) = read_polled(pid, address, count).unwrap_or_default();
            polled.into_iter().filter(|(_, events)| events & libc::POLLIN != 0).map(|(descriptor, _)| descriptor).collect()
        }
        Ok(Some((SocketCall::Select, [count, address]))) => read_selected(pid, address, count).unwrap_or_default(),
        Ok(Some((SocketCall::IoUring, _))) if !has_threads_in_socket_calls(pid, files, machine) => {
            let names = root.list_directory(format!("proc/{pid}/fd")).unwrap_or_default();
            if names.len() > MAX_DESCRIPTORS {
                return Vec::new();
            }
            names.iter().filter_map(|name| parse_u64(name.as_bytes())).collect()
        }
        _ => return Vec::new(),
    };
    descriptors.into_iter().filter_map(|descriptor| socket_of(pid, descriptor, files)).collect()
}

/// True also if the process has too many threads.
fn has_threads_in_socket_calls(pid: u32, files: &mut TaskFiles, machine: &[u8]) -> bool {
    let mut tids = Vec::new();
    if files.list_threads(pid, &mut tids).is_err() || tids.len() > MAX_THREADS {
        return true;
    }
    let call = |tid: u32| sleeping_call(pid, tid, files, machine).ok().flatten();
    tids.into_iter().filter_map(call).any(|(call, _)| call != SocketCall::IoUring)
}

/// The descriptors that a select call waits to read; none if the set is a null pointer.
fn read_selected(pid: u32, address: u64, count: u64) -> Result<Vec<u64>, Errno> {
    let mut bytes = [0; MAX_DESCRIPTORS / 8];
    if address == 0 {
        return Ok(Vec::new());
    }
    let length = read_mapped(pid, address, &mut bytes)?;
    Ok(parse_selected(bytes.get(..length).unwrap_or_default(), count))
}

/// A bit for each descriptor, in words of the machine's size: of little-endian machines the lowest bit of the first byte is descriptor 0.
fn parse_selected(bytes: &[u8], count: u64) -> Vec<u64> {
    let is_set = |descriptor: &u64| {
        let byte = usize::try_from(descriptor / 8).ok().and_then(|at| bytes.get(at));
        byte.is_some_and(|byte| byte >> (descriptor % 8) & 1 == 1)
    };
    (0..count.min(MAX_DESCRIPTORS as u64)).filter(is_set).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::proc_tree::ProcTree;

    /// Adds a thread of process 100, which has the sockets 11 and 12 open as 5 and 6.
    fn add_thread(tree: &ProcTree, tid: u32, syscall: &str) {
        tree.write(format!("proc/100/task/{tid}/syscall"), syscall);
        for (descriptor, target) in [("5", "socket:[11]"), ("6", "socket:[12]"), ("7", "anon_inode:[eventpoll]")] {
            tree.link(target, format!("proc/100/fd/{descriptor}"));
        }
    }

    fn sockets(tree: &ProcTree, tid: u32) -> Vec<u32> {
        let root = tree.root();
        let mut files = TaskFiles::open(&root).unwrap();
        let task = TaskId { pid: 100, tid, start_ticks: 1 };
        let mut found = awaited_sockets(task, &root, &mut files, b"x86_64");
        found.sort_unstable();
        found
    }

    fn call(number: u32, first: u64) -> String {
        format!("{number} {first:#x} 0x0 0x0 0x0 0x0 0x0 0x7ffd00000000 0x7f0000000000\n")
    }

    #[test]
    fn a_receive_call_has_one_socket_and_epoll_those_that_it_watches_to_read() {
        let tree = ProcTree::empty();
        add_thread(&tree, 100, &call(45, 5));
        add_thread(&tree, 101, &call(232, 7));
        let watches =
            "pos:\t0\ntfd:  5 events: 19 data: 5  pos:0 ino:b sdev:8\ntfd:  6 events: 4 data: 6  pos:0 ino:c sdev:8\n";
        tree.write("proc/100/fdinfo/7", watches);
        assert_eq!(sockets(&tree, 100), [11]);
        assert_eq!(sockets(&tree, 101), [11], "and not the one that it watches to write");
        add_thread(&tree, 102, &call(230, 0));
        assert_eq!(sockets(&tree, 102), [0; 0], "it sleeps for a fixed time");
    }

    #[test]
    fn io_uring_has_all_sockets_of_a_process_without_other_threads_on_sockets() {
        let tree = ProcTree::empty();
        add_thread(&tree, 100, &call(426, 7));
        add_thread(&tree, 101, &call(202, 0x1000));
        assert_eq!(sockets(&tree, 100), [11, 12]);
        add_thread(&tree, 102, &call(45, 5));
        assert_eq!(sockets(&tree, 100), [0; 0], "its sockets may be those of the other thread");
    }

    #[test]
    fn select_waits_for_the_descriptors_of_its_set() {
        assert_eq!(parse_selected(&[0b0010_0001, 0b1000_0000], 16), [0, 5, 15]);
        assert_eq!(parse_selected(&[0b0010_0001, 0b1000_0000], 6), [0, 5], "nfds is one more than the last");
        assert_eq!(parse_selected(&[1], u64::MAX), [0], "the set ends before");
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let descriptor = u64::try_from(one.as_raw_fd()).unwrap();
        let mut set = [0_u8; MAX_DESCRIPTORS / 8];
        set[usize::try_from(descriptor / 8).unwrap()] = 1 << (descriptor % 8);
        match read_selected(std::process::id(), set.as_ptr() as u64, descriptor + 1) {
            Ok(found) => assert_eq!(found, [descriptor]),
            Err(why) => println!("skipped: process_vm_readv is not permitted here ({why})"),
        }
        assert_eq!(read_selected(std::process::id(), 0, 0), Ok(vec![]), "select as a sleep");
    }
}
