//! A fixture tree: files below a temporary directory in place of /proc and /sys, and a sampler that reads them. It is the same
//! on every machine and at every load. Unit tests have it from `src/lib.rs`.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use stalltop::kernel::{Root, Sampler};
use stalltop::sample::Sample;
use tempfile::TempDir;

/// Files in place of /proc and /sys.
pub struct ProcTree {
    directory: TempDir,
}

impl ProcTree {
    /// A tree without any file; /proc is there.
    pub fn empty() -> ProcTree {
        // In memory where that is possible: it is many files.
        let tree = ProcTree { directory: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap() };
        fs::create_dir(tree.path("proc")).unwrap();
        tree
    }

    /// A tree with these files alone.
    pub fn with<P: AsRef<Path>, T: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, T)>) -> ProcTree {
        let tree = ProcTree::empty();
        files.into_iter().for_each(|(path, text)| tree.write(path, text));
        tree
    }

    /// A tree with one CPU and no task.
    pub fn new() -> ProcTree {
        ProcTree::with([("proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nprocesses 5000\n")])
    }

    pub fn root(&self) -> Root {
        Root::at_directory(self.directory().to_owned())
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The path of `proc/diskstats`, `sys/block` and so on.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory().join(path)
    }

    /// Writes a file and the directories above it.
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let (path, text) = (self.path(path), text.as_ref());
        make(&path, || fs::write(&path, text));
    }

    /// Makes a symbolic link and the directories above it. A file or link of that name is removed.
    pub fn link(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) {
        let (path, target) = (self.path(path), target.as_ref());
        make(&path, || match symlink(target, &path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(&path)?;
                symlink(target, &path)
            }
            result => result,
        });
    }

    /// Makes a named pipe and the directories above it.
    pub fn named_pipe(&self, path: impl AsRef<Path>) {
        let path = self.path(path);
        make(&path, || Ok(nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU)?));
    }

    /// Removes a file.
    pub fn remove(&self, path: impl AsRef<Path>) {
        fs::remove_file(self.path(path)).unwrap();
    }

    /// A process, new or changed, whose threads have run for `run_ns` together. Threads that are not named have ended.
    pub fn process(&self, pid: u32, comm: &str, start_ticks: u64, run_ns: u64, threads: &[ThreadFiles<'_>]) {
        self.write(format!("proc/{pid}/cmdline"), format!("/bin/{comm}\0--flag\0"));
        self.write(format!("proc/{pid}/cgroup"), "0::/a.slice\n");
        // Threads that stay keep their files, because descriptors may be open.
        for entry in fs::read_dir(self.path(format!("proc/{pid}/task"))).into_iter().flatten().flatten() {
            if !threads.iter().any(|thread| entry.file_name() == *thread.tid.to_string()) {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
        let count = u32::try_from(threads.len()).unwrap();
        for thread in threads {
            let user_ticks = run_ns / 10_000_000;
            let stat = Stat {
                comm: comm.as_bytes(),
                state: thread.state,
                start_ticks,
                user_ticks,
                ..Stat::sleeping(pid, thread.tid, count)
            };
            self.thread(&stat, run_ns / u64::from(count), *thread);
        }
    }

    /// One thread of a process, new or changed. The files of the first thread are also those of the process.
    pub fn thread(&self, stat: &Stat<'_>, run_ns: u64, thread: ThreadFiles<'_>) {
        self.times(stat, run_ns, thread.timeslices);
        for place in places(stat) {
            self.write(format!("{place}/wchan"), thread.wchan);
            self.write(format!("{place}/syscall"), format!("{}\n", thread.syscall));
        }
    }

    /// What a thread has run: its stat and schedstat.
    fn times(&self, stat: &Stat<'_>, run_ns: u64, timeslices: u64) {
        let line = stat.line();
        for place in places(stat) {
            self.write(format!("{place}/stat"), &line);
            self.write(format!("{place}/schedstat"), format!("{run_ns} 902341 {timeslices}\n"));
        }
    }

    /// Removes a process.
    pub fn remove_process(&self, pid: u32) {
        fs::remove_dir_all(self.path(format!("proc/{pid}"))).unwrap();
    }
}

/// Makes a file, and the directories above it if they are missing: most are there, and there are 100,000 files.
fn make(path: &Path, file: impl Fn() -> io::Result<()>) {
    let result = file().or_else(|error| match error.kind() {
        ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap())?;
            file()
        }
        _ => Err(error),
    });
    result.unwrap();
}

/// The directories of a thread: the first of a process has two.
fn places(stat: &Stat<'_>) -> impl Iterator<Item = String> {
    let process = format!("proc/{}", stat.pid);
    let task = format!("{process}/task/{}", stat.tid);
    [Some(task), (stat.pid == stat.tid).then_some(process)].into_iter().flatten()
}

/// What a thread does, in stat, schedstat, wchan and syscall.
#[derive(Clone, Copy)]
pub struct ThreadFiles<'a> {
    pub tid: u32,
    pub state: char,
    pub timeslices: u64,
    pub wchan: &'a str,
    pub syscall: &'a str,
}

impl ThreadFiles<'_> {
    /// A thread in clock_nanosleep.
    pub const fn sleeping(tid: u32) -> ThreadFiles<'static> {
        ThreadFiles { tid, state: 'S', timeslices: 5, wchan: "hrtimer_nanosleep", syscall: "230 0x0 0x0 0x0" }
    }
}

/// A line of /proc/PID/stat or /proc/PID/task/TID/stat: proc_pid_stat(5). What is not named here is always the same.
pub struct Stat<'a> {
    pub pid: u32,
    pub tid: u32,
    pub comm: &'a [u8],
    pub state: char,
    pub parent: u32,
    pub flags: u32,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub threads: u32,
    pub start_ticks: u64,
    pub virtual_bytes: u64,
    pub resident_pages: u64,
    pub block_io_delay_ticks: u64,
}

impl Stat<'_> {
    /// A thread of a user's process that sleeps.
    pub fn sleeping(pid: u32, tid: u32, threads: u32) -> Stat<'static> {
        Stat {
            pid,
            tid,
            comm: b"worker",
            state: 'S',
            parent: 700,
            flags: 0x40_0000,
            minor_faults: 1093,
            major_faults: 12,
            user_ticks: 0,
            system_ticks: 3,
            threads,
            start_ticks: 2457,
            virtual_bytes: 168_296_448,
            resident_pages: 2103,
            block_io_delay_ticks: 3,
        }
    }

    pub fn line(&self) -> Vec<u8> {
        let Stat { pid, state, parent, flags, minor_faults, major_faults, user_ticks, system_ticks, threads, .. } = self;
        let Stat { start_ticks, virtual_bytes, resident_pages, block_io_delay_ticks, .. } = self;
        let rest = format!(
            ") {state} {parent} {pid} {pid} 0 -1 {flags} {minor_faults} 0 {major_faults} 0 {user_ticks} {system_ticks} 0 0 20 0 \
             {threads} 0 {start_ticks} {virtual_bytes} {resident_pages} 18446744073709551615 94006 94015 140722 0 0 0 0 4096 17663 \
             0 0 0 17 1 0 0 {block_io_delay_ticks} 0 0 94025 94026 94057 140722 140723 140723 140724 0\n"
        );
        [format!("{} (", self.tid).as_bytes(), self.comm, rest.as_bytes()].concat()
    }
}

/// A fixture tree with processes of one size, and a sampler whose clock the test sets.
pub struct SampledTree {
    tree: ProcTree,
    pub sampler: Sampler,
    /// The previous sample, which a caller still holds while the next one is taken
    last: Option<Sample>,
    threads: u32,
    now_ns: u64,
}

/// The pid of the first process; the others follow.
pub const FIRST_PID: u32 = 1000;

const SECOND_NS: u64 = 1_000_000_000;

/// CPU time of each thread before the first sample.
const RUN_NS: u64 = 40_000_000;

/// More samples than it takes, also on a slow machine, to read the expensive files of a few hundred processes.
const SAMPLES: u32 = 6;

impl SampledTree {
    /// Makes the tree and samples it until nothing expensive is left to be read.
    pub fn new(processes: u32, threads: u32) -> SampledTree {
        let tree = ProcTree::new();
        let sampler = Sampler::new(tree.root()).unwrap();
        let mut tree = SampledTree { tree, sampler, last: None, threads, now_ns: 1000 * SECOND_NS };
        tree.sampler.set_sub_sample_cpu_share(f64::INFINITY);
        for at in 0..processes {
            let pid = FIRST_PID + at * threads;
            tree.begin(pid);
            tree.sampler.set_process_clock(pid, RUN_NS * u64::from(threads));
        }
        // How much is read in a sample depends on CPU time. The number of samples is fixed, so that two trees have the same
        // clock and the same turns.
        for _ in 0..SAMPLES {
            tree.sample();
        }
        while !is_complete(tree.sample(), processes) {}
        for _ in 0..2 {
            tree.sample();
        }
        tree
    }

    /// One more sleeping process. It has no CPU clock: its files are read every time.
    pub fn begin(&mut self, pid: u32) {
        self.tree.write(format!("proc/{pid}/cmdline"), format!("/usr/bin/worker\0--id={pid}\0"));
        self.tree.write(format!("proc/{pid}/cgroup"), "0::/system.slice/worker.service\n");
        let io = "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\nsyscr: 1\nsyscw: 1\n";
        self.tree.write(format!("proc/{pid}/io"), io);
        for tid in pid..pid + self.threads {
            self.with_stat(pid, tid, RUN_NS, |stat, timeslices| {
                self.tree.thread(stat, RUN_NS, ThreadFiles { timeslices, ..ThreadFiles::sleeping(tid) });
            });
        }
    }

    /// A thread that has run for so long, and its timeslices.
    fn with_stat(&self, pid: u32, tid: u32, run_ns: u64, write: impl FnOnce(&Stat<'_>, u64)) {
        let (comm, user_ticks) = (format!("worker-{}", tid % 16), run_ns / 10_000_000);
        let stat = Stat { comm: comm.as_bytes(), user_ticks, ..Stat::sleeping(pid, tid, self.threads) };
        write(&stat, run_ns / 1_000_000);
    }

    /// Ends a process without a CPU clock.
    pub fn end(&mut self, pid: u32) {
        self.tree.remove_process(pid);
    }

    /// Writes a file that is not a task's: `proc/diskstats`.
    pub fn machine_file(&self, path: &str, text: &str) {
        self.tree.write(path, text);
    }

    /// The next sample, a second later.
    pub fn sample(&mut self) -> &Sample {
        self.now_ns += SECOND_NS;
        self.sampler.set_fixed_time(self.now_ns);
        let sample = self.sampler.sample();
        self.last.insert(sample)
    }

    /// A sub-sample a tenth of a second after the sample.
    pub fn sub_sample(&mut self) {
        self.sub_sample_at(1);
    }

    /// A sub-sample so many tenths of a second after the sample.
    pub fn sub_sample_at(&mut self, tenths: u32) {
        self.sampler.set_fixed_time(self.now_ns + SECOND_NS / 10 * u64::from(tenths));
        assert!(self.sampler.sub_sample(), "the CPU budget is unlimited");
    }

    /// Sets the run time of a thread, in milliseconds since the beginning.
    pub fn run(&mut self, pid: u32, tid: u32, run_ms: u64) {
        let run_ns = RUN_NS + run_ms * 1_000_000;
        self.with_stat(pid, tid, run_ns, |stat, timeslices| self.tree.times(stat, run_ns, timeslices));
    }

    /// Sets the CPU clock of a process, in milliseconds since the beginning.
    pub fn clock(&mut self, pid: u32, run_ms: u64) {
        self.sampler.set_process_clock(pid, RUN_NS * u64::from(self.threads) + run_ms * 1_000_000);
    }

    /// Writes the kernel stack of a process of one thread.
    pub fn stack(&self, pid: u32, text: &str) {
        self.tree.write(format!("proc/{pid}/task/{pid}/stack"), text);
    }

    /// Puts a process of one thread into D in this kernel function, until `wake`.
    pub fn block(&self, pid: u32, wchan: &str) {
        self.change_state(pid, ") S ", ") D ", wchan);
    }

    /// Puts a blocked process of one thread to sleep again.
    pub fn wake(&self, pid: u32) {
        self.change_state(pid, ") D ", ") S ", ThreadFiles::sleeping(pid).wchan);
    }

    fn change_state(&self, pid: u32, from: &str, to: &str, wchan: &str) {
        for path in [format!("proc/{pid}/stat"), format!("proc/{pid}/task/{pid}/stat")] {
            let stat = fs::read_to_string(self.tree.path(&path)).unwrap();
            self.tree.write(&path, stat.replace(from, to));
        }
        self.tree.write(format!("proc/{pid}/wchan"), wchan);
    }
}

fn is_complete(sample: &Sample, processes: u32) -> bool {
    let Ok(tasks) = &sample.tasks else { return false };
    assert_eq!(tasks.processes.len(), processes as usize, "all processes are found");
    tasks.processes.iter().all(|process| process.facts.cmdline.is_ok())
}
