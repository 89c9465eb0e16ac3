//! A synthetic machine for scans, with CPU clocks that the test sets.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::super::*;
use crate::kernel::task::wait_channel::WaitChannelFile;
use crate::sample::host::Privilege;
use crate::sample::task::{Process, Thread};
use crate::sample::{Absent, Name};

pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) struct Machine {
    directory: tempfile::TempDir,
    pub(super) scanner: TaskScanner,
    pub(super) now_ns: u64,
}

/// A thread of the fixture tree.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) tid: u32,
    pub(super) state: char,
    pub(super) timeslices: u64,
    pub(super) channel: &'a str,
    pub(super) call: &'a str,
}

pub(super) const ASLEEP: Given<'static> =
    Given { tid: 0, state: 'S', timeslices: 5, channel: "hrtimer_nanosleep", call: "230 0x0 0x0 0x0" };

impl Machine {
    pub(super) fn new(sees_other_users: bool) -> Machine {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("proc")).unwrap();
        let privilege = Privilege {
            effective_uid: 65_000,
            has_cap_sys_ptrace: sees_other_users,
            delay_accounting: Err(Absent::NotRead),
            hidepid: false,
        };
        let host = Host {
            hostname: Name::default(),
            kernel: Name::default(),
            machine: Name::from("x86_64"),
            boot_id: Name::default(),
            boot_time_s: None,
            page_size: 4096,
            ticks_per_second: 100,
            topology: Vec::new(),
            privilege,
            has_hypervisor: None,
        };
        let mut scanner = TaskScanner::new(&Root::at_directory(directory.path().to_owned()), &host).unwrap();
        scanner.context.clocks = ProcessClocks::Fixed(BTreeMap::new());
        Machine { directory, scanner, now_ns: 1000 * SECOND }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join("proc").join(relative)
    }

    pub(super) fn write(&self, relative: &str, text: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Adds or changes a process, whose CPU clock is `clock_ns`.
    pub(super) fn put(&mut self, pid: u32, comm: &str, start_ticks: u64, clock_ns: u64, threads: &[Given<'_>]) {
        let count = threads.len();
        let stat = |tid: u32, state: char| {
            format!(
                "{tid} ({comm}) {state} 700 {pid} {pid} 0 -1 4194304 10 0 0 0 {} 2 0 0 20 0 {count} 0 {start_ticks} 1000 50 \
                 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 77 0 0 0 0\n",
                clock_ns / 10_000_000
            )
        };
        let leader = threads.iter().find(|thread| thread.tid == pid).map_or('S', |thread| thread.state);
        self.write(&format!("{pid}/stat"), stat(pid, leader));
        self.write(&format!("{pid}/cmdline"), format!("/bin/{comm}\0--flag\0"));
        self.write(&format!("{pid}/cgroup"), "0::/a.slice\n");
        // Threads that stay keep their files, because descriptors may be open.
        for entry in fs::read_dir(self.path(&format!("{pid}/task"))).into_iter().flatten().flatten() {
            if !threads.iter().any(|thread| entry.file_name() == *thread.tid.to_string()) {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
        for thread in threads {
            let directory = format!("{pid}/task/{}", thread.tid);
            let run_ns = clock_ns / count as u64;
            for place in [directory.clone(), if thread.tid == pid { pid.to_string() } else { directory.clone() }] {
                self.write(&format!("{place}/schedstat"), format!("{run_ns} 7 {}\n", thread.timeslices));
                self.write(&format!("{place}/wchan"), thread.channel);
                self.write(&format!("{place}/syscall"), format!("{}\n", thread.call));
            }
            self.write(&format!("{directory}/stat"), stat(thread.tid, thread.state));
        }
        self.clock(pid, clock_ns);
    }

    pub(super) fn clock(&mut self, pid: u32, clock_ns: u64) {
        self.scanner.set_process_clock(pid, clock_ns);
    }

    pub(super) fn end(&mut self, pid: u32) {
        fs::remove_dir_all(self.path(&pid.to_string())).unwrap();
        let ProcessClocks::Fixed(clocks) = &mut self.scanner.context.clocks else { panic!("clocks are given") };
        clocks.remove(&pid);
    }

    /// One second later.
    pub(super) fn scan(&mut self) -> Tasks {
        self.now_ns += SECOND;
        self.scanner.scan(self.now_ns, new_pids::ForkCounters::default())
    }

    /// The same of a tree whose processes have no CPU clocks.
    pub(super) fn scan_without_clocks(&mut self) -> Tasks {
        let clocks = std::mem::replace(&mut self.scanner.context.clocks, ProcessClocks::Unavailable);
        let tasks = self.scan();
        self.scanner.context.clocks = clocks;
        tasks
    }

    /// Threads that no scan saw run are not asked for their waits.
    pub(super) fn skip_first_waits(&mut self) {
        self.scanner.context.first_waits_left = 0;
    }

    /// The processes in /proc/locks.
    pub(super) fn set_file_lock_pids(&mut self, pids: impl IntoIterator<Item = u32>) {
        self.scanner.context.file_lock_pids = pids.into_iter().collect();
    }

    /// A kernel without CONFIG_SCHED_INFO.
    pub(super) fn disable_schedstat(&mut self) {
        self.scanner.context.has_schedstat = false;
    }

    pub(super) fn set_wait_channel_file(&mut self, file: WaitChannelFile) {
        self.scanner.context.files.wait_channel_file = file;
    }

    pub(super) fn set_has_fuse_mounts(&mut self, has_fuse_mounts: bool) {
        self.scanner.context.files.has_fuse_mounts = has_fuse_mounts;
    }

    /// The process that is taken for the monitor itself.
    pub(super) fn set_own_pid(&mut self, pid: u32) {
        self.scanner.own_pid = pid;
    }

    /// Closes the files of all processes: in a tree those of an ended thread can be read yet, in /proc not.
    pub(super) fn close_descriptors(&mut self) {
        self.scanner.processes.iter_mut().for_each(KnownProcess::close_descriptors);
    }

    pub(super) fn is_parked(&self, pid: u32) -> bool {
        self.process(pid).is_parked()
    }

    pub(super) fn ran_recently(&self, pid: u32) -> bool {
        self.process(pid).ran_recently(self.now_ns)
    }

    fn process(&self, pid: u32) -> &KnownProcess {
        self.scanner.processes.iter().find(|known| known.pid == pid).unwrap()
    }

    pub(super) fn hot(&mut self) -> Vec<u32> {
        let hot = |known: &KnownProcess| known.hot_threads().map(|thread| thread.tid).collect::<Vec<_>>();
        self.scanner.processes.iter().flat_map(hot).collect()
    }

    pub(super) fn known(&mut self, pid: u32, tid: u32) -> &KnownThread {
        let TaskScanner { processes, context, .. } = &mut self.scanner;
        let known = processes.iter_mut().find(|known| known.pid == pid).unwrap();
        if known.is_parked() {
            known.unpark(context);
        }
        known.threads().0.iter().find(|thread| thread.tid == tid).unwrap()
    }
}

pub(super) fn one(tid: u32) -> Given<'static> {
    Given { tid, ..ASLEEP }
}

pub(super) fn only(tasks: &Tasks, pid: u32) -> (&Process, &Thread) {
    let process = tasks.process(pid).unwrap();
    (process, &process.threads[0])
}
