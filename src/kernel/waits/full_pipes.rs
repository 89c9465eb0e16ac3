//! Finds the readers of the full pipes in which threads wait: of a thread behind a stopped or frozen reader, and of the owner of a lock.
//!
//! The pipe is that of the descriptor of the thread's system call. Read only if a process is stopped, or if the owner of a lock is in a
//! full pipe.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ipc_peers::{Endpoint, read_endpoint, read_open_endpoints};
use super::pipelines::busy_processes;
use crate::ids::TaskId;
use crate::kernel::fields::parse_u32;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::{Process, TaskState, Tasks, Thread};
use crate::sample::waits::{PipeLink, Waits, class};

/// Bounds of an interval: threads in full pipes, stopped processes, and descriptors read of all processes.
pub(super) const MAX_THREADS: usize = 64;
const MAX_STOPPED: usize = 16;
/// … relatives of one of them, and threads of one relative.
const MAX_RELATIVES: usize = 16;
/// init and kthreadd: their children are not related.
const LAST_BOOT_PID: u32 = 2;
const MAX_DESCRIPTORS: usize = 1024;

/// Adds the pipes between threads that wait in full pipes and the processes that read them.
pub(super) fn trace_full_pipes(waits: &mut Waits, tasks: Option<&Tasks>, root: &Root, files: &mut TaskFiles, machine: &[u8]) {
    let mut threads = lock_owners_in_full_pipes(waits);
    let mut readers: BTreeSet<u32> = BTreeSet::new();
    if let Some(tasks) = tasks {
        for process in tasks.processes.iter().filter(|process| process.is_stopped()).take(MAX_STOPPED) {
            readers.insert(process.pid);
            for relative in relatives(tasks, process) {
                // They may read the same pipe.
                readers.insert(relative.pid);
                threads.extend(sleeping_threads(relative));
            }
        }
    }
    if !readers.is_empty() {
        threads.extend(tasks.into_iter().flat_map(|tasks| &tasks.processes).flat_map(|process| threads_in_full_pipes(process)));
    }
    let mut writers: FxHashMap<u32, BTreeSet<u32>> = FxHashMap::default();
    for task in threads.iter().take(MAX_THREADS) {
        if let Ok(Some(Endpoint::PipeWrite(inode))) = read_endpoint(*task, files, machine) {
            writers.entry(inode).or_default().insert(task.pid);
        }
    }
    if writers.is_empty() {
        return;
    }
    readers.extend(busy_processes(waits).into_iter().chain(writers.values().flatten().copied()));
    waits.pipe_links.extend(find_readers(&writers, readers, root, files));
    waits.pipe_links.sort_unstable();
    waits.pipe_links.dedup();
}

/// The full pipes between processes: `writers` by the inode of the pipe, and those of `readers` that have its read end open.
pub(super) fn find_readers(
    writers: &FxHashMap<u32, BTreeSet<u32>>,
    readers: BTreeSet<u32>,
    root: &Root,
    files: &mut TaskFiles,
) -> Vec<PipeLink> {
    let mut links = Vec::new();
    let mut left = MAX_DESCRIPTORS;
    for reader in readers {
        let Ok(descriptors) = root.list_directory(format!("proc/{reader}/fd")) else { continue };
        let Some(rest) = left.checked_sub(descriptors.len()) else { continue };
        left = rest;
        for descriptor in descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())) {
            for end in read_open_endpoints(reader, descriptor, files) {
                let Endpoint::PipeRead(inode) = end else { continue };
                let writers = writers.get(&inode).into_iter().flatten().copied().filter(|&writer| writer != reader);
                links.extend(writers.map(|writer| PipeLink { writer, reader, is_full: true }));
            }
        }
    }
    links
}

/// Its parent, its children, and its siblings: a pipeline of a shell has one parent.
pub(super) fn relatives<'a>(tasks: &'a Tasks, of: &'a Process) -> impl Iterator<Item = &'a Arc<Process>> {
    let is_related = |other: &&Arc<Process>| {
        let is_sibling = other.ppid == of.ppid && of.ppid > LAST_BOOT_PID && other.pid != of.pid;
        other.ppid == of.pid || (other.pid == of.ppid && other.pid > LAST_BOOT_PID) || is_sibling
    };
    tasks.processes.iter().filter(is_related).take(MAX_RELATIVES)
}

/// Its parent, the parent of that one, and so on.
pub(super) fn ancestors<'a>(tasks: &'a Tasks, of: &'a Process) -> impl Iterator<Item = &'a Arc<Process>> {
    let parent = |process: &Process| tasks.process(process.ppid).filter(|parent| parent.pid > LAST_BOOT_PID);
    std::iter::successors(parent(of), move |process| parent(process)).take(MAX_RELATIVES)
}

/// Threads whose wait channel was not read: they have slept since before the first sample.
fn sleeping_threads(process: &Process) -> impl Iterator<Item = TaskId> {
    let sleeping = process.threads.iter().filter(|thread| thread.state == TaskState::Sleeping && thread.wait.wchan.is_err());
    sleeping.map(|thread| process.task_id(thread)).take(MAX_RELATIVES)
}

fn threads_in_full_pipes(process: &Process) -> impl Iterator<Item = TaskId> {
    process.threads.iter().filter(|thread| is_in_full_pipe(thread)).map(|thread| process.task_id(thread))
}

pub(super) fn is_in_full_pipe(thread: &Thread) -> bool {
    thread.state == TaskState::Sleeping && thread.wait.wchan.as_ref().is_ok_and(|wchan| class::is_full_pipe(wchan.as_bytes()))
}

fn lock_owners_in_full_pipes(waits: &Waits) -> BTreeSet<TaskId> {
    let in_full_pipe = waits
        .lock_owner_waits()
        .filter(|owner| owner.wchan.as_ref().is_some_and(|wchan| class::is_full_pipe(wchan.as_bytes())));
    in_full_pipe.map(|owner| owner.task).collect()
}
