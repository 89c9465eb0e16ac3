//! Reads what threads of a process do for which a lock's owner waits, without threads that wait for others.

use rustc_hash::{FxHashMap, FxHashSet};

use super::holder_wait::read_holder_wait;
use super::ipc_peers::{Endpoint, endpoint_of_call, is_receive, read_end_of_descriptor};
use crate::ids::TaskId;
use crate::kernel::network::sleeping_threads::{descriptors_to_read, readable_watches};
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::{BlockedWait, Syscall, Waits};

/// The waits of a process's threads, from sub-samples or else read now. Not of threads that wait for others than at these ends,
/// unless they asked a remote end. Their group is that of the threads behind the lock.
pub(super) fn peer_waits(
    waits: &Waits,
    (process, group): (&Process, u16),
    (ends, asked): (&FxHashSet<Endpoint>, &FxHashMap<TaskId, u32>),
    (root, machine): (&Root, &[u8]),
    files: &mut TaskFiles,
) -> Vec<BlockedWait> {
    let all = u16::try_from(waits.sub_samples.len().max(1)).unwrap_or(u16::MAX);
    let mut found = Vec::new();
    for thread in process.threads.iter() {
        let task = process.task_id(thread);
        // A main thread that has ended stays in the list while the others run.
        if matches!(thread.state, TaskState::Zombie | TaskState::Dead) {
            continue;
        }
        let now = read_holder_wait(files, task.pid, task.tid, group);
        let from = waits.threads.partition_point(|row| row.task < task);
        let to = waits.threads.partition_point(|row| row.task <= task);
        let rows = waits.threads.get(from..to).unwrap_or_default();
        let most = rows.iter().max_by_key(|row| row.seen_count).and_then(|row| waits.observed_wait(row.wait));
        let is_there = |now: &BlockedWait| most.is_none_or(|most| most.state == now.state && most.wchan == now.wchan);
        let is_asking = asked.contains_key(&task);
        if now.as_ref().is_some_and(|now| is_there(now) && !is_asking && waits_for_others(now, ends, (root, machine), files)) {
            continue;
        }
        let before = found.len();
        for row in rows {
            let Some(seen) = waits.observed_wait(row.wait) else { continue };
            let is_same = |wait: &&BlockedWait| wait.task == task && wait.state == seen.state && wait.wchan == seen.wchan;
            // These have the arguments of the system call; of a blocked thread its file is known, too.
            let read = waits.blocked.iter().find(is_same).or(now.as_ref().filter(is_same));
            let wait = match read {
                Some(read) => BlockedWait { group, seen_count: row.seen_count, ..read.clone() },
                None => BlockedWait {
                    wchan: seen.wchan.clone(),
                    syscall: seen.syscall,
                    seen_count: row.seen_count,
                    ..BlockedWait::new(task, group, thread.comm.clone(), seen.state)
                },
            };
            found.push(wait);
        }
        if found.len() == before {
            found.extend(now.map(|now| BlockedWait { seen_count: all, ..now }));
        }
    }
    found
}

/// Whether a thread waits for a connection, or for data from elsewhere than these ends: it serves others.
fn waits_for_others(
    wait: &BlockedWait,
    ends: &FxHashSet<Endpoint>,
    (root, machine): (&Root, &[u8]),
    files: &mut TaskFiles,
) -> bool {
    let pid = wait.task.pid;
    let Some(call) = wait.syscall.and_then(|call| Syscall::from_number(machine, call)) else { return false };
    // A request may come over another pipe than the answer goes.
    let is_any_pipe = ends.iter().any(|end| !matches!(end, Endpoint::Socket(_)));
    let is_there = |end: Endpoint| ends.contains(&end) || (is_any_pipe && matches!(end, Endpoint::PipeRead(_)));
    match call.name {
        "accept" | "accept4" => true,
        "poll" | "ppoll" => {
            let descriptors = descriptors_to_read(wait.task, files, machine);
            let mut read = descriptors.iter().map(|&at| read_end_of_descriptor(pid, at, files));
            // Without any it polls too many.
            !descriptors.is_empty() && read.all(|end| end.is_ok_and(|end| !end.is_some_and(is_there)))
        }
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => {
            let watched = readable_watches(root, pid, call.arguments[0]);
            let is_watched = |inode: u32| is_there(Endpoint::Socket(inode)) || is_there(Endpoint::PipeRead(inode));
            !watched.is_empty() && !is_any_pipe && !watched.into_iter().any(is_watched)
        }
        _ => is_receive(call) && endpoint_of_call(pid, call, files).is_ok_and(|end| !end.is_some_and(is_there)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;
    use crate::sample::task::RawSyscall;
    use crate::synthetic;

    /// Thread 100 asleep in the system call with this number.
    fn asleep(number: i64, descriptor: u64) -> BlockedWait {
        let task = TaskId { pid: 100, tid: 100, start_ticks: 1 };
        let syscall = Some(RawSyscall { number, arguments: [descriptor, 0, 0] });
        BlockedWait { syscall, ..synthetic::waits::asleep(task, "server", "unix_stream_data_wait") }
    }

    #[test]
    fn threads_that_wait_for_others_are_left_out() {
        let tree = ProcTree::with([("proc/100/fdinfo/9", "tfd: 5 events: 19 data: 5  pos:0 ino:15 sdev:8\n")]);
        for (descriptor, target) in [(5, "socket:[21]"), (6, "socket:[22]"), (7, "pipe:[13]")] {
            tree.link(target, format!("proc/100/fd/{descriptor}"));
        }
        let root = tree.root();
        let mut files = TaskFiles::open(&root).unwrap();
        let mut for_others = |number, descriptor, end| {
            let ends = FxHashSet::from_iter([end]);
            waits_for_others(&asleep(number, descriptor), &ends, (&root, b"x86_64"), &mut files)
        };
        let end = Endpoint::Socket(21);
        assert!(!for_others(0, 5, end), "it reads the request");
        assert!(for_others(0, 6, end), "that of another client");
        assert!(for_others(43, 6, end), "it accepts connections");
        assert!(!for_others(232, 9, end), "an event loop that watches this connection");
        assert!(for_others(232, 9, Endpoint::Socket(22)), "one that watches another one");
        assert!(!for_others(232, 8, end), "what it watches is not known");
        assert!(!for_others(230, 0, end), "it sleeps");
        assert!(!for_others(0, 7, Endpoint::PipeWrite(12)), "the request may come over that pipe");
    }
}
