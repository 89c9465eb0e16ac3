//! The open file descriptors of each process against its limit: st_size of /proc/PID/fd, which needs no privilege, and
//! /proc/PID/limits. A process that did not run since the last reading has as many as before.

use super::reading::{KnownReadings, MIN_KEPT_SHARE, ReadScope, is_near};
use crate::ids::ProcessId;
use crate::kernel::fields::{lines, parse_u64, words};
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::limits::{Limit, LimitKind};
use crate::sample::task::Process;

/// The limit is not read of a process with fewer descriptors, unless it is busy: one without descriptors may call accept again and again.
const MIN_DESCRIPTORS: u64 = 40;
/// CPUs since its last reading from which a process is busy. Its limit is read again each time: prlimit may have changed it.
const MIN_BUSY_CPUS: f64 = 0.5;
/// A program that keeps fewer descriptors for itself has locked itself in (a sandbox), and opens none.
const MIN_LIMIT: u64 = 10;
/// A limit is read again after this time, and while the process is near it.
const LIMIT_TTL_NS: u64 = 60_000_000_000;
/// Processes read in one sample, about 2 ms; the next one goes on with the others.
const MAX_PROCESSES: usize = 512;

/// Keeps count and limit of each process.
#[derive(Debug, Default)]
pub struct OpenFileReader {
    /// Sorted by pid
    known: Vec<KnownProcess>,
    /// The next reading begins at this pid: the first one for which there was no time
    next_pid: u32,
    /// Whether st_size of /proc/PID/fd is the number of descriptors; `None`: not tried yet
    counts_supported: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct KnownProcess {
    id: ProcessId,
    /// Its CPU time when it was read, in ns; `None`: it was not read yet
    cpu_time: Option<u64>,
    /// CLOCK_BOOTTIME when it was read
    read_ns: u64,
    used: u64,
    /// The soft limit; `None` if it was not read, or there is no limit
    max: Option<u64>,
    /// CLOCK_BOOTTIME when the limit was read; 0: never
    limit_read_ns: u64,
}

impl OpenFileReader {
    /// Whether the kernel counts descriptors.
    pub fn are_counts_supported(&self) -> bool {
        self.counts_supported == Some(true)
    }

    pub fn sample(
        &mut self,
        root: &Root,
        files: &TaskFiles,
        scope: ReadScope,
        known: KnownReadings<'_>,
        rows: &mut Vec<Limit>,
    ) {
        // This process has descriptors open: before Linux 6.2 the size is 0.
        let count_of = |pid: u32| files.descriptor_count(pid).ok();
        let own = || count_of(std::process::id()).is_some_and(|count| count > 0);
        if !*self.counts_supported.get_or_insert_with(own) {
            return;
        }
        let mut before = std::mem::take(&mut self.known).into_iter().peekable();
        let processes: Vec<_> = known.tasks.processes.iter().filter(|process| !process.kernel_thread).collect();
        for process in &processes {
            while before.next_if(|old| old.id.pid < process.pid).is_some() {}
            let this = before.next_if(|old| old.id == process.id()).unwrap_or_else(|| KnownProcess::new(process.id()));
            self.known.push(this);
        }
        let first = self.known.partition_point(|this| this.id.pid < self.next_pid);
        let (before_first, from_first) = self.known.split_at_mut(first);
        let in_turn = from_first.iter_mut().zip(processes.iter().skip(first)).chain(before_first.iter_mut().zip(&processes));
        let mut left = MAX_PROCESSES;
        for (this, process) in in_turn {
            let wanted = scope == ReadScope::All || this.cpu_time.is_none() || this.is_near();
            if !wanted || this.cpu_time == Some(cpu_time(process)) {
                continue;
            }
            if left == 0 {
                self.next_pid = process.pid;
                break;
            }
            left -= 1;
            this.read(process, count_of(process.pid), root, known.now_ns);
        }
        for (this, process) in self.known.iter().zip(processes) {
            if let Some(max) = this.max {
                let owner = Some((this.id, process.comm.clone()));
                let limit = Limit { process: owner, ..Limit::new(LimitKind::OpenFiles, this.used, max) };
                rows.extend(is_near(&limit).then_some(limit));
            }
        }
    }
}

impl KnownProcess {
    fn new(id: ProcessId) -> KnownProcess {
        KnownProcess { id, cpu_time: None, read_ns: 0, used: 0, max: None, limit_read_ns: 0 }
    }

    fn is_near(&self) -> bool {
        self.max.is_some_and(|max| self.used as f64 >= max as f64 * MIN_KEPT_SHARE)
    }

    fn read(&mut self, process: &Process, count: Option<u64>, root: &Root, now_ns: u64) {
        let now = cpu_time(process);
        let used = self.cpu_time.map_or(0, |before| now.saturating_sub(before));
        let is_busy = used as f64 >= now_ns.saturating_sub(self.read_ns) as f64 * MIN_BUSY_CPUS && self.cpu_time.is_some();
        (self.cpu_time, self.read_ns) = (Some(now), now_ns);
        let Some(count) = count else { return };
        self.used = count;
        let is_old = self.limit_read_ns == 0 || now_ns.saturating_sub(self.limit_read_ns) >= LIMIT_TTL_NS;
        let is_wanted = count >= MIN_DESCRIPTORS && (is_old || self.is_near());
        if is_busy || is_wanted {
            let text = root.read_once(format!("proc/{}/limits", process.pid));
            self.max = text.ok().and_then(|text| parse_open_file_limit(&text)).filter(|&max| max >= MIN_LIMIT);
            self.limit_read_ns = now_ns;
        }
    }
}

/// CPU time of a process in ns. It grows whenever the process runs.
fn cpu_time(process: &Process) -> u64 {
    // USER_HZ is 100 on the architectures of today.
    let ticks = || process.user_ticks.0.wrapping_add(process.system_ticks.0).wrapping_mul(10_000_000);
    process.cpu_ns.map_or_else(ticks, |time| time.0)
}

/// The soft limit in the line `Max open files` of /proc/PID/limits; `None` without a limit.
fn parse_open_file_limit(text: &[u8]) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Max open files"))?;
    words(line).next().and_then(parse_u64)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use super::*;
    use crate::kernel::cgroup::CgroupReader;
    use crate::proc_tree::ProcTree;
    use crate::sample::task::Tasks;
    use crate::synthetic;

    /// The descriptors are those of this test's own process.
    #[test]
    fn the_limit_of_a_busy_process_is_read_whatever_it_has_open_and_again_each_time() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let pid = std::process::id();
        let files = TaskFiles::open(&Root::host()).unwrap();
        if files.descriptor_count(pid).is_ok_and(|count| count == 0) {
            println!("skipped: before Linux 6.2 descriptors are not counted");
            return;
        }
        let _descriptors: Vec<File> = (0..MIN_LIMIT).map(|_| File::open("/dev/null").unwrap()).collect();
        let write = |max: u64| {
            tree.write(format!("proc/{pid}/limits"), format!("Max open files  {max}  {max}  files\n"));
        };
        let cgroups = CgroupReader::default();
        let mut reader = OpenFileReader::default();
        let mut read = |seconds: u64, cpu_seconds: f64| {
            let run_ns = (cpu_seconds * 1e9) as u64;
            let process = synthetic::process(pid, "test").ran(run_ns).threads([synthetic::thread(pid, "test")]).build();
            let tasks = Tasks { processes: vec![Arc::new(process)], ..Tasks::default() };
            let mut rows = Vec::new();
            let known = KnownReadings { tasks: &tasks, load: None, cgroups: &cgroups, now_ns: seconds * 1_000_000_000 };
            reader.sample(&root, &files, ReadScope::All, known, &mut rows);
            rows.into_iter().map(|row| row.max).collect::<Vec<_>>()
        };
        write(1_000_000);
        assert_eq!(read(10, 1.0), [0_u64; 0]);
        assert_eq!(read(15, 6.0), [0_u64; 0], "busy, with many left");
        write(MIN_LIMIT);
        assert_eq!(read(20, 11.0), [MIN_LIMIT], "lowered by prlimit");
        write(MIN_LIMIT - 1);
        assert_eq!(read(25, 16.0), [0_u64; 0], "a sandbox");
    }

    /// The size of a directory stands for the number of descriptors.
    #[test]
    fn of_many_busy_processes_each_is_read_in_its_turn() {
        const LAST: u32 = 4_000_000;
        let tree = ProcTree::with([(format!("proc/{LAST}/limits"), format!("Max open files  {MIN_LIMIT}  20  files\n"))]);
        for pid in [LAST, std::process::id()] {
            (0..40).for_each(|number| tree.write(format!("proc/{pid}/fd/descriptor-{number}"), ""));
        }
        let (root, cgroups) = (tree.root(), CgroupReader::default());
        let files = TaskFiles::open(&root).unwrap();
        let mut reader = OpenFileReader::default();
        let pids = || (1..=MAX_PROCESSES as u32 + 1).chain([LAST]);
        let mut read = |seconds: u64| {
            let process =
                |pid| synthetic::process(pid, "busy").ran(seconds * 1_000_000_000).threads([synthetic::thread(pid, "busy")]);
            let processes = pids().map(|pid| Arc::new(process(pid).build())).collect();
            let tasks = Tasks { processes, ..Tasks::default() };
            let mut rows = Vec::new();
            let known = KnownReadings { tasks: &tasks, load: None, cgroups: &cgroups, now_ns: seconds * 1_000_000_000 };
            reader.sample(&root, &files, ReadScope::All, known, &mut rows);
            rows.len()
        };
        assert_eq!([10, 15].map(&mut read), [0, 1]);
    }

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max processes             96365                96365                processes \n\
            Max open files            1024                 524288               files     \n";
        assert_eq!(parse_open_file_limit(text), Some(1024));
        assert_eq!(
            parse_open_file_limit(b"Max open files            unlimited            unlimited            files     \n"),
            None
        );
        assert_eq!(parse_open_file_limit(b"Max open files"), None);
    }
}
