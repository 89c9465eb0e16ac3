//! A scanner of a fixture tree, with CPU clocks that the test sets.

use std::path::PathBuf;

use nix::unistd::getuid;

use super::super::*;
use crate::kernel::task::wait_channel::WaitChannelFile;
pub(super) use crate::proc_tree::{ProcTree, ThreadFiles};
use crate::sample::host::Privilege;
use crate::sample::task::{Process, Thread};
use crate::synthetic::host;

pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) struct Machine {
    tree: ProcTree,
    pub(super) scanner: TaskScanner,
    pub(super) now_ns: u64,
}

impl Machine {
    pub(super) fn new(sees_other_users: bool) -> Machine {
        Machine::on(ProcTree::empty(), sees_other_users)
    }

    /// Of an unprivileged user, who owns all processes.
    pub(super) fn unprivileged() -> Machine {
        let tree = ProcTree::empty();
        let privilege = Privilege { effective_uid: getuid().as_raw(), has_cap_sys_ptrace: false, ..host().privilege };
        let scanner = TaskScanner::new(&tree.root(), &Host { privilege, ..host() }).unwrap();
        Machine { tree, scanner, now_ns: 1000 * SECOND }
    }

    /// With files that are read once, when the scanner is made.
    pub(super) fn on(tree: ProcTree, sees_other_users: bool) -> Machine {
        let privilege = Privilege { effective_uid: 65_000, has_cap_sys_ptrace: sees_other_users, ..host().privilege };
        let scanner = TaskScanner::new(&tree.root(), &Host { privilege, ..host() }).unwrap();
        Machine { tree, scanner, now_ns: 1000 * SECOND }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.tree.path("proc").join(relative)
    }

    pub(super) fn write(&self, relative: &str, text: impl AsRef<[u8]>) {
        self.tree.write(self.path(relative), text);
    }

    /// Adds or changes a process, whose CPU clock is `clock_ns`.
    pub(super) fn put(&mut self, pid: u32, comm: &str, start_ticks: u64, clock_ns: u64, threads: &[ThreadFiles<'_>]) {
        self.put_without_clock(pid, comm, start_ticks, clock_ns, threads);
        self.clock(pid, clock_ns);
    }

    pub(super) fn put_without_clock(&self, pid: u32, comm: &str, start_ticks: u64, run_ns: u64, threads: &[ThreadFiles<'_>]) {
        self.tree.process(pid, comm, start_ticks, run_ns, threads);
    }

    pub(super) fn clock(&mut self, pid: u32, clock_ns: u64) {
        self.scanner.set_process_clock(pid, Some(clock_ns));
    }

    pub(super) fn end(&mut self, pid: u32) {
        self.tree.remove_process(pid);
        self.scanner.set_process_clock(pid, None);
    }

    /// One second later.
    pub(super) fn scan(&mut self) -> Tasks {
        self.now_ns += SECOND;
        self.scanner.scan(self.now_ns, new_pids::ForkCounters::default())
    }

    pub(super) fn set_wait_channel_file(&mut self, file: WaitChannelFile) {
        self.scanner.files().wait_channel_file = file;
    }

    /// Keeps no file open from now on: in a tree an open file of an ended thread can be read yet, in /proc not.
    pub(super) fn keep_no_files_open(&mut self) {
        self.scanner.files().max_open = 0;
    }

    pub(super) fn is_parked(&self, pid: u32) -> bool {
        self.process(pid).is_parked()
    }

    pub(super) fn ran_recently(&self, pid: u32) -> bool {
        self.process(pid).ran_recently(self.now_ns)
    }

    fn process(&self, pid: u32) -> &KnownProcess {
        self.scanner.process(pid).unwrap()
    }

    pub(super) fn hot(&self) -> Vec<u32> {
        let hot = |known: &KnownProcess| known.hot_threads().map(|thread| thread.tid).collect::<Vec<_>>();
        self.scanner.processes().iter().flat_map(hot).collect()
    }

    /// A thread of a process that is not parked.
    pub(super) fn known(&self, pid: u32, tid: u32) -> &KnownThread {
        self.process(pid).threads().0.iter().find(|thread| thread.tid == tid).unwrap()
    }
}

pub(super) fn one(tid: u32) -> ThreadFiles<'static> {
    ThreadFiles::sleeping(tid)
}

pub(super) fn only(tasks: &Tasks, pid: u32) -> (&Process, &Thread) {
    let process = tasks.process(pid).unwrap();
    (process, &process.threads[0])
}
