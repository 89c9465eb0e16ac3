//! Finds the pipes between a thread that waits in a pipe and a process that is busy, by the descriptors of both.
//!
//! Read only if there are such threads and a busy process at the same time, and only of these processes: `interval::pipelines` says
//! which process waits for which.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use rustc_hash::FxHashMap;

use super::IpcThread;
use super::ipc_peers::{Endpoint, read_open_endpoints};
use crate::kernel::fields::parse_u32;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::TaskState;
use crate::sample::waits::{PipeLink, Waits};
use crate::units::SmallSort;

/// Bounds of an interval: processes that wait in pipes, busy processes, and descriptors read of all of them.
const MAX_WAITING: usize = 32;
const MAX_BUSY: usize = 16;
const MAX_DESCRIPTORS: usize = 1024;
/// A process is busy if its threads were running or in D in this share of the sub-samples. A limit on cost, not a judgement.
const MIN_BUSY_SHARE: f64 = 0.5;

/// Adds the pipes between these processes.
pub(super) fn trace_pipes(waits: &mut Waits, threads: &[IpcThread], root: &Root, files: &mut TaskFiles) {
    let waiting = waiting_processes(threads);
    if waiting.is_empty() {
        return;
    }
    let busy = busy_processes(waits);
    // A busy reader is seen in its pipe at times, too: it empties the pipe faster than its writer wakes.
    let processes: BTreeSet<u32> = waiting.iter().chain(&busy).copied().collect();
    if busy.is_empty() || processes.len() < 2 {
        return;
    }
    // By inode: the processes that have its write end open, and those that have its read end open.
    let mut ends: FxHashMap<u32, (Vec<u32>, Vec<u32>)> = FxHashMap::default();
    let mut left = MAX_DESCRIPTORS;
    for pid in processes {
        let Ok(descriptors) = root.list_directory(format!("proc/{pid}/fd")) else { continue };
        let Some(rest) = left.checked_sub(descriptors.len()) else { continue };
        left = rest;
        for descriptor in descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())) {
            for end in read_open_endpoints(pid, descriptor, files) {
                match end {
                    Endpoint::PipeWrite(inode) => ends.entry(inode).or_default().0.push(pid),
                    Endpoint::PipeRead(inode) => ends.entry(inode).or_default().1.push(pid),
                    Endpoint::Socket(_) => {}
                }
            }
        }
    }
    for (writers, readers) in ends.values() {
        let pairs =
            writers.iter().flat_map(|&writer| readers.iter().map(move |&reader| PipeLink { writer, reader, is_full: false }));
        waits.pipe_links.extend(pairs.filter(|pair| pair.writer != pair.reader));
    }
    waits.pipe_links.sort_unstable();
    waits.pipe_links.dedup();
}

fn waiting_processes(threads: &[IpcThread]) -> BTreeSet<u32> {
    let in_pipe = threads.iter().filter(|thread| thread.pipe_count > 0);
    let processes: BTreeSet<u32> = in_pipe.map(|thread| thread.task.pid).collect();
    processes.into_iter().take(MAX_WAITING).collect()
}

/// The processes whose threads were seen running or in D most.
pub(super) fn busy_processes(waits: &Waits) -> Vec<u32> {
    let least = (waits.sub_samples.len() as f64 * MIN_BUSY_SHARE).max(1.0);
    let mut processes: FxHashMap<u32, u32> = FxHashMap::default();
    for row in &waits.threads {
        let state = waits.observed_wait(row.wait).map(|wait| wait.state);
        if matches!(state, Some(TaskState::Running | TaskState::Blocked)) {
            let seen_count = processes.entry(row.task.pid).or_default();
            *seen_count = seen_count.saturating_add(u32::from(row.seen_count));
        }
    }
    let mut list: Vec<(u32, u32)> = processes.into_iter().filter(|&(_, seen_count)| f64::from(seen_count) >= least).collect();
    list.small_sort_by_key(|&(pid, seen_count)| (Reverse(seen_count), pid));
    list.into_iter().map(|(pid, _)| pid).take(MAX_BUSY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TaskId;

    #[test]
    fn processes_are_limited_and_not_their_threads() {
        let thread = |pid, tid| IpcThread {
            task: TaskId { pid, tid, start_ticks: 1 },
            group: 0,
            pipe_count: 1,
            socket_count: 0,
            beside_storage: false,
        };
        let mut threads: Vec<IpcThread> = (40..140).map(|tid| thread(40, tid)).collect();
        threads.push(thread(200, 200));
        assert_eq!(waiting_processes(&threads), BTreeSet::from([40, 200]));
        threads.extend((300..400).map(|pid| thread(pid, pid)));
        assert_eq!(waiting_processes(&threads).len(), MAX_WAITING);
    }
}
