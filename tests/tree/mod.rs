//! A tree of files that stands for a machine with many tasks, and the sampler that looks at it: the same on every machine
//! and at every load.

// Each user of this file takes what it needs.
#![allow(dead_code)]

use std::fs;
use std::path::Path;

use stalltop::kernel::{Root, Sampler};
use stalltop::sample::Sample;
use tempfile::TempDir;

/// A machine of files. Each process has so many threads, all asleep.
pub struct Tree {
    directory: TempDir,
    pub sampler: Sampler,
    /// The sample before, which is in somebody's hands while the next one is taken
    last: Option<Sample>,
    threads: u32,
    now_ns: u64,
}

/// The first process has this number, and the others follow each other.
pub const FIRST: u32 = 1000;

const SECOND_NS: u64 = 1_000_000_000;

/// What each thread ran before the first look.
const RAN_NS: u64 = 40_000_000;

/// More than it takes, on a slow machine too, to read all that is slow of a few hundred processes.
const LOOKS: u32 = 6;

impl Tree {
    /// Plants it and looks until nothing slow is left to be read.
    pub fn new(processes: u32, threads: u32) -> Tree {
        // In memory where that is possible: it is many files.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let proc = directory.path().join("proc");
        fs::create_dir_all(&proc).unwrap();
        write(&proc.join("stat"), "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nprocesses 5000\n");
        let sampler = Sampler::new(Root::at_directory(directory.path().to_owned())).unwrap();
        let mut tree = Tree { directory, sampler, last: None, threads, now_ns: 1000 * SECOND_NS };
        tree.sampler.set_sub_sample_cpu_share(f64::INFINITY);
        for at in 0..processes {
            let pid = FIRST + at * threads;
            tree.begin(pid);
            tree.sampler.set_process_clock(pid, RAN_NS * u64::from(threads));
        }
        // How much is read in a look goes by CPU time. As many looks each time: two trees are at the same second, and in the
        // same turn.
        for _ in 0..LOOKS {
            tree.look();
        }
        while !is_complete(tree.look(), processes) {}
        for _ in 0..2 {
            tree.look();
        }
        tree
    }

    /// Another process, asleep. It has no clock: its files are read every time.
    pub fn begin(&mut self, pid: u32) {
        fs::create_dir_all(self.file(pid, "")).unwrap();
        write(&self.file(pid, "cmdline"), &format!("/usr/bin/worker\0--id={}\0", (pid - FIRST) / self.threads));
        write(&self.file(pid, "cgroup"), "0::/system.slice/worker.service\n");
        write(&self.file(pid, "io"), "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\nsyscr: 1\nsyscw: 1\n");
        for tid in pid..pid + self.threads {
            fs::create_dir_all(self.file(pid, &format!("task/{tid}"))).unwrap();
            self.put(pid, tid, RAN_NS);
        }
    }

    /// A process without a clock has ended.
    pub fn end(&mut self, pid: u32) {
        fs::remove_dir_all(self.file(pid, "")).unwrap();
    }

    /// A file of the whole machine: `proc/diskstats`.
    pub fn machine_file(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, text);
    }

    /// The next sample, a second later.
    pub fn look(&mut self) -> &Sample {
        self.now_ns += SECOND_NS;
        self.sampler.set_fixed_time(self.now_ns);
        let sample = self.sampler.sample();
        self.last.insert(sample)
    }

    /// A look between two samples, a tenth of a second later.
    pub fn glance(&mut self) {
        self.glance_at(1);
    }

    /// The same, so many tenths of a second later.
    pub fn glance_at(&mut self, tenths: u32) {
        self.sampler.set_fixed_time(self.now_ns + SECOND_NS / 10 * u64::from(tenths));
        assert!(self.sampler.sub_sample(), "the budget is without end");
    }

    /// A thread has run for so many milliseconds since the beginning.
    pub fn run(&mut self, pid: u32, tid: u32, ran_ms: u64) {
        self.put(pid, tid, RAN_NS + ran_ms * 1_000_000);
    }

    /// Its threads have run for so many milliseconds together.
    pub fn clock(&mut self, pid: u32, ran_ms: u64) {
        self.sampler.set_process_clock(pid, RAN_NS * u64::from(self.threads) + ran_ms * 1_000_000);
    }

    /// A process of one thread is in D there, until it runs again.
    pub fn block(&self, pid: u32, channel: &str) {
        for path in ["stat".to_owned(), format!("task/{pid}/stat")] {
            let stat = fs::read_to_string(self.file(pid, &path)).unwrap();
            write(&self.file(pid, &path), &stat.replace(") S ", ") D "));
        }
        write(&self.file(pid, "wchan"), channel);
    }

    fn put(&self, pid: u32, tid: u32, run_ns: u64) {
        let ticks = run_ns / 10_000_000;
        let stat = format!(
            "{tid} (worker-{}) S 700 {pid} {pid} 0 -1 4194304 1093 0 12 0 {ticks} 3 0 0 20 0 {} 0 2457 168296448 2103 \
             18446744073709551615 94006 94015 140722 0 0 0 0 4096 17663 0 0 0 17 1 0 0 3 0 0 94025 94026 94057 140722 140723 \
             140723 140724 0\n",
            tid % 16,
            self.threads
        );
        let schedstat = format!("{run_ns} 902341 {}\n", run_ns / 1_000_000);
        for (file, text) in
            [("schedstat", schedstat.as_str()), ("wchan", "hrtimer_nanosleep"), ("syscall", "230 0x0 0x0 0x0\n")]
        {
            // Of the leader the short path is read.
            let path = if pid == tid { file.to_owned() } else { format!("task/{tid}/{file}") };
            write(&self.file(pid, &path), text);
        }
        write(&self.file(pid, &format!("task/{tid}/stat")), &stat);
        if pid == tid {
            write(&self.file(pid, "stat"), &stat);
        }
    }

    fn file(&self, pid: u32, name: &str) -> std::path::PathBuf {
        self.directory.path().join("proc").join(pid.to_string()).join(name)
    }
}

fn is_complete(sample: &Sample, processes: u32) -> bool {
    let Ok(tasks) = &sample.tasks else { return false };
    assert_eq!(tasks.processes.len(), processes as usize, "all processes are found");
    tasks.processes.iter().all(|process| process.facts.cmdline.is_ok())
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}
