//! Which threads of a large process ran since the last sweep, without asking each of them.
//!
//! The process's clock says that *some* thread ran; with thousands of them, finding out which costs a read for each. The
//! eBPF iterator (`kernel/probe.rs`) tells all at once. It is loaded, by another process, only when a process has been so
//! large and busy a few times: never before the first screen, and on most machines never.

use std::path::PathBuf;

use crate::kernel::probe::loader_process::{LoaderProcess, has_bpf_capabilities};
use crate::kernel::probe::{TaskIterator, TaskRow};
use crate::sample::task::Schedstat;

/// Threads of one process from which the iterator is cheaper than asking each: a scan takes as long as 200 reads on a
/// machine with 1,000 threads, and loading it as long as 10,000.
pub const LARGE_PROCESS_THREADS: usize = 1_000;
/// In so many sweeps the threads of a large process had to be asked before the iterator is loaded.
const MIN_SCANS_BEFORE_LOADING: u32 = 3;

/// How it is found out which threads ran.
#[derive(Debug)]
pub struct ThreadActivity {
    source: Source,
    /// The program that loads the iterator, where that is permitted
    loader_program: Option<PathBuf>,
    /// The process that has loaded it and may not be gone yet
    exiting_loader: Option<LoaderProcess>,
    /// Answers of this sweep; void between two.
    rows: Vec<TaskRow>,
    iterator_was_read: bool,
    /// This sweep has met a large process that ran.
    met_large_process: bool,
}

#[derive(Debug)]
enum Source {
    /// Nothing to gain so far; how many sweeps would have gained.
    Files(u32),
    /// It is being loaded.
    Loading(LoaderProcess),
    Iterator(TaskIterator),
    /// Refused, for good.
    FilesOnly,
}

impl ThreadActivity {
    /// `possible` where /proc is that of the running kernel, and numbers of tasks are the kernel's own.
    pub fn new(possible: bool) -> ThreadActivity {
        let by = if possible { Source::Files(0) } else { Source::FilesOnly };
        ThreadActivity {
            source: by,
            loader_program: None,
            exiting_loader: None,
            rows: Vec::new(),
            iterator_was_read: false,
            met_large_process: false,
        }
    }

    /// From now on the iterator may be loaded by this program, which is ours.
    pub fn allow_iterator(&mut self, program: PathBuf) {
        self.loader_program = Some(program);
    }

    /// About to ask so many threads of one process whose clock has been read. True when what is known is older than that
    /// reading: then the process must be looked at again in the next sweep.
    pub fn prepare_for_process(&mut self, threads: usize) -> bool {
        if threads < LARGE_PROCESS_THREADS {
            return false;
        }
        self.met_large_process = true;
        if self.iterator_was_read {
            return true;
        }
        if let Source::Iterator(probe) = &mut self.source {
            if probe.read_rows(&mut self.rows).is_err() {
                self.rows.clear();
                self.source = Source::FilesOnly;
            }
            self.iterator_was_read = true;
        }
        false
    }

    /// Whether the iterator says that the thread has not run since its schedstat was read. False where it does not know.
    pub fn has_not_run(&self, pid: u32, tid: u32, sched: Option<&Schedstat>) -> bool {
        let Ok(at) = self.rows.binary_search_by_key(&tid, |row| row.tid) else { return false };
        let Some((row, sched)) = self.rows.get(at).zip(sched) else { return false };
        row.pid == pid && row.matches(sched)
    }

    pub fn uses_iterator(&self) -> bool {
        matches!(self.source, Source::Iterator(_))
    }

    /// Whether the iterator is being loaded.
    pub fn is_loading(&self) -> bool {
        matches!(self.source, Source::Loading(_))
    }

    /// The sweep is over: what was said is void, and it may be time to load the iterator, or it has been loaded.
    pub fn finish_scan(&mut self) {
        self.rows.clear();
        self.iterator_was_read = false;
        let wanted = std::mem::take(&mut self.met_large_process);
        if self.exiting_loader.as_mut().is_some_and(LoaderProcess::has_exited) {
            self.exiting_loader = None;
        }
        self.source = match std::mem::replace(&mut self.source, Source::FilesOnly) {
            Source::Files(sweeps) if sweeps < MIN_SCANS_BEFORE_LOADING => Source::Files(sweeps + u32::from(wanted)),
            Source::Files(sweeps) => match &self.loader_program {
                Some(program) if has_bpf_capabilities() => {
                    LoaderProcess::spawn(program).map_or(Source::FilesOnly, Source::Loading)
                }
                // Our rights stay what they are: they are not looked at in each sweep.
                Some(_) => Source::FilesOnly,
                None => Source::Files(sweeps),
            },
            Source::Loading(mut loader) => match loader.try_result() {
                None => Source::Loading(loader),
                Some(answer) => {
                    self.exiting_loader = Some(loader);
                    answer.map_or(Source::FilesOnly, Source::Iterator)
                }
            },
            by => by,
        };
    }
}
