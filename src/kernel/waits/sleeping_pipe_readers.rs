//! Finds the readers of full pipes in which threads have waited for about a second, while the reader sleeps: a log collector that is stuck.
//!
//! Sub-samples see a thread enter its wait in the pipe; it is watched until it leaves that. The pipe is that of the descriptor of its system
//! call, and the processes that may read it are the writer's ancestors, children and siblings. Nothing is read before a thread has waited.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::full_pipes::{MAX_THREADS, ancestors, find_readers, is_in_full_pipe, relatives};
use super::ipc_peers::{Endpoint, read_endpoint};
use crate::ids::TaskId;
use crate::kernel::network::unix_senders::MIN_FULL_NS;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::{PipeLink, Waits, class};

/// The readers of the same writers are looked for again after this time.
const KEPT_NS: u64 = 10_000_000_000;

/// Keeps which threads it watches, and what it last read.
#[derive(Debug, Default)]
pub struct SleepingPipeReaders {
    watched: BTreeSet<TaskId>,
    last: Option<LastReading>,
}

#[derive(Debug)]
struct LastReading {
    /// Processes whose threads waited, with their start time
    writers: Vec<(u32, u64)>,
    read_ns: u64,
    links: Vec<PipeLink>,
}

impl SleepingPipeReaders {
    /// Adds the pipes between these threads' processes and those that have the read end open. `now_ns`: CLOCK_BOOTTIME of the sample.
    pub fn read(
        &mut self,
        waits: &mut Waits,
        tasks: Option<&Tasks>,
        (root, machine): (&Root, &[u8]),
        files: &mut TaskFiles,
        now_ns: u64,
    ) {
        self.watch(waits);
        let Some(tasks) = tasks.filter(|_| !self.watched.is_empty()) else { return };
        self.watched.retain(|task| tasks.thread(*task).is_some_and(|(_, thread)| is_in_full_pipe(thread)));
        let has_waited = |thread: &Thread| thread.last_timeslice_ns.is_some_and(|at| now_ns.saturating_sub(at) >= MIN_FULL_NS);
        // One thread a process: the pipe of one is full, whichever it is.
        let mut blocked: BTreeMap<(u32, u64), TaskId> = BTreeMap::new();
        for &task in &self.watched {
            let Some((process, _)) = tasks.thread(task).filter(|(_, thread)| has_waited(thread)) else { continue };
            blocked.entry((process.pid, process.start_ticks)).or_insert(task);
        }
        if blocked.is_empty() {
            self.last = None;
            return;
        }
        let writers: Vec<(u32, u64)> = blocked.keys().copied().collect();
        let known = self.last.take().filter(|last| last.writers == writers && now_ns.saturating_sub(last.read_ns) < KEPT_NS);
        let last = known.unwrap_or_else(|| {
            let links = find_links(blocked.into_values(), tasks, (root, machine), files);
            LastReading { writers, read_ns: now_ns, links }
        });
        waits.pipe_links.extend(&last.links);
        self.last = Some(last);
        waits.pipe_links.sort_unstable();
        waits.pipe_links.dedup();
    }

    /// Adds the threads that sub-samples saw in a full pipe.
    fn watch(&mut self, waits: &Waits) {
        let is_full = |wait: u32| {
            let wchan = waits.observed_wait(wait).and_then(|wait| wait.wchan.as_ref());
            wchan.is_some_and(|wchan| class::is_full_pipe(wchan.as_bytes()))
        };
        if waits.observed.iter().any(|wait| is_full(wait.id)) {
            let seen = waits.threads.iter().filter(|row| is_full(row.wait)).map(|row| row.task);
            let left = MAX_THREADS.saturating_sub(self.watched.len());
            self.watched.extend(seen.take(left));
        }
    }
}

fn find_links(
    blocked: impl Iterator<Item = TaskId>,
    tasks: &Tasks,
    (root, machine): (&Root, &[u8]),
    files: &mut TaskFiles,
) -> Vec<PipeLink> {
    let mut writers: FxHashMap<u32, BTreeSet<u32>> = FxHashMap::default();
    let mut readers: BTreeSet<u32> = BTreeSet::new();
    for task in blocked {
        let Ok(Some(Endpoint::PipeWrite(inode))) = read_endpoint(task, files, machine) else { continue };
        writers.entry(inode).or_default().insert(task.pid);
        let Some(process) = tasks.process(task.pid) else { continue };
        readers.extend(
            relatives(tasks, process).chain(ancestors(tasks, process)).map(|process: &std::sync::Arc<Process>| process.pid),
        );
    }
    if writers.is_empty() { Vec::new() } else { find_readers(&writers, readers, root, files) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;
    use crate::sample::task::{RawSyscall, TaskState};
    use crate::sample::waits::{ObservedWait, ThreadWait};
    use crate::synthetic;

    const SECOND: u64 = 1_000_000_000;

    /// A shim (70) that reads the pipe into which its child (77) writes.
    struct Machine {
        tree: ProcTree,
        files: TaskFiles,
        reader: SleepingPipeReaders,
    }

    impl Machine {
        fn new() -> Machine {
            let tree = ProcTree::with([
                ("proc/77/task/77/syscall", "1 0x1 0x7f00 0x10 0x0 0x0 0x0 0x7ffd 0x7f00\n"),
                ("proc/77/fdinfo/1", "pos:\t0\nflags:\t01\nmnt_id:\t15\n"),
                ("proc/70/fdinfo/9", "pos:\t0\nflags:\t00\nmnt_id:\t15\n"),
            ]);
            tree.link("pipe:[900]", "proc/77/fd/1");
            tree.link("pipe:[900]", "proc/70/fd/9");
            Machine { files: TaskFiles::open(&tree.root()).unwrap(), tree, reader: SleepingPipeReaders::default() }
        }

        /// The links at this time, if the writer last ran at second 1. `seen`: whether sub-samples saw it in the pipe.
        fn links(&mut self, now_ns: u64, wchan: &str, seen: bool) -> Vec<PipeLink> {
            let writer = synthetic::thread(77, "app").state(TaskState::Sleeping).with(|thread| {
                thread.wait.wchan = Ok(wchan.into());
                thread.last_timeslice_ns = Some(SECOND);
            });
            let processes = vec![
                synthetic::process(70, "shim").threads([synthetic::thread(70, "shim")]).build().into(),
                synthetic::process(77, "app").parent(70).threads([writer]).build().into(),
            ];
            let tasks = Tasks { processes, ..Tasks::default() };
            let task = tasks.process(77).unwrap().task_id(&tasks.process(77).unwrap().threads[0]);
            let observed = ObservedWait {
                id: 1,
                state: TaskState::Sleeping,
                wchan: Some(wchan.into()),
                syscall: None::<RawSyscall>,
                has_timeout: false,
                is_behind_named_owner: false,
                java_lock: None,
                wait_event: None,
            };
            let mut waits = Waits::default();
            if seen {
                waits.observed = vec![observed];
                waits.threads = vec![ThreadWait { task, wait: 1, group: 0, seen_count: 10 }];
            }
            self.reader.read(&mut waits, Some(&tasks), (&self.tree.root(), b"x86_64"), &mut self.files, now_ns);
            waits.pipe_links
        }
    }

    #[test]
    fn a_writer_that_waits_for_a_second_has_its_reader_until_it_leaves_the_pipe() {
        let link = PipeLink { writer: 77, reader: 70, is_full: true };
        let mut machine = Machine::new();
        assert_eq!(machine.links(SECOND + SECOND / 2, "anon_pipe_write", true), [], "for half a second");
        assert_eq!(machine.links(3 * SECOND, "anon_pipe_write", false), [link], "no sub-sample reads it any more");
        machine.tree.remove_process(70);
        assert_eq!(machine.links(4 * SECOND, "anon_pipe_write", false), [link], "not read again");
        assert_eq!(machine.links(14 * SECOND, "anon_pipe_write", false), [], "the reader has closed it");
    }

    #[test]
    fn a_writer_that_has_left_the_pipe_is_not_watched_any_longer() {
        let mut machine = Machine::new();
        assert_ne!(machine.links(3 * SECOND, "anon_pipe_write", true), []);
        assert_eq!(machine.links(4 * SECOND, "do_epoll_wait", false), []);
        assert_eq!(machine.links(5 * SECOND, "anon_pipe_write", false), [], "it waits there again, which no sub-sample saw");
    }

    #[test]
    fn a_thread_that_was_not_seen_in_a_full_pipe_is_not_watched() {
        let mut machine = Machine::new();
        assert_eq!(machine.links(3 * SECOND, "anon_pipe_read", true), []);
        assert_eq!(machine.links(4 * SECOND, "anon_pipe_write", false), []);
    }
}
