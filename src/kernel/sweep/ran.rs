//! Which threads of a large process ran since the last sweep, without asking each of them.
//!
//! The process's clock says that *some* thread ran; with thousands of them, finding out which costs a read for each. The
//! eBPF iterator (`kernel/probe.rs`) tells all at once. It is loaded, by another process, only when a process has been so
//! large and busy a few times: never before the first screen, and on most machines never.

use std::path::PathBuf;

use crate::kernel::probe::loader::{Loader, is_permitted};
use crate::kernel::probe::{Probe, Row};
use crate::sample::task::Sched;

/// Threads of one process from which the iterator is cheaper than asking each: a scan takes as long as 200 reads on a
/// machine with 1,000 threads, and loading it as long as 10,000.
pub const LARGE: usize = 1_000;
/// In so many sweeps the threads of a large process had to be asked before the iterator is loaded.
const PERSISTENT: u32 = 3;

/// How it is found out which threads ran.
#[derive(Debug)]
pub struct Ran {
    by: By,
    /// The program that loads the iterator, where that is permitted
    loading: Option<PathBuf>,
    /// The process that has loaded it and may not be gone yet
    leaving: Option<Loader>,
    /// Answers of this sweep; void between two.
    rows: Vec<Row>,
    scanned: bool,
    /// This sweep has met a large process that ran.
    wanted: bool,
}

#[derive(Debug)]
enum By {
    /// Nothing to gain so far; how many sweeps would have gained.
    Files(u32),
    /// It is being loaded.
    Soon(Loader),
    Iterator(Probe),
    /// Refused, for good.
    FilesOnly,
}

impl Ran {
    /// `possible` where /proc is that of the running kernel, and numbers of tasks are the kernel's own.
    pub fn new(possible: bool) -> Ran {
        let by = if possible { By::Files(0) } else { By::FilesOnly };
        Ran { by, loading: None, leaving: None, rows: Vec::new(), scanned: false, wanted: false }
    }

    /// From now on the iterator may be loaded by this program, which is ours.
    pub fn permit(&mut self, program: PathBuf) {
        self.loading = Some(program);
    }

    /// About to ask so many threads of one process whose clock has been read. True when what is known is older than that
    /// reading: then the process must be looked at again in the next sweep.
    pub fn prepare(&mut self, threads: usize) -> bool {
        if threads < LARGE {
            return false;
        }
        self.wanted = true;
        if self.scanned {
            return true;
        }
        if let By::Iterator(probe) = &mut self.by {
            if probe.scan(&mut self.rows).is_err() {
                self.rows.clear();
                self.by = By::FilesOnly;
            }
            self.scanned = true;
        }
        false
    }

    /// Whether the iterator says that the thread has not run since its schedstat was read. False where it does not know.
    pub fn is_at_rest(&self, pid: u32, tid: u32, sched: Option<&Sched>) -> bool {
        let Ok(at) = self.rows.binary_search_by_key(&tid, |row| row.tid) else { return false };
        let Some((row, sched)) = self.rows.get(at).zip(sched) else { return false };
        row.pid == pid && row.agrees(sched)
    }

    pub fn is_by_iterator(&self) -> bool {
        matches!(self.by, By::Iterator(_))
    }

    /// Whether the iterator is being loaded.
    pub fn is_loading(&self) -> bool {
        matches!(self.by, By::Soon(_))
    }

    /// The sweep is over: what was said is void, and it may be time to load the iterator, or it has been loaded.
    pub fn end(&mut self) {
        self.rows.clear();
        self.scanned = false;
        let wanted = std::mem::take(&mut self.wanted);
        if self.leaving.as_mut().is_some_and(Loader::is_gone) {
            self.leaving = None;
        }
        self.by = match std::mem::replace(&mut self.by, By::FilesOnly) {
            By::Files(sweeps) if sweeps < PERSISTENT => By::Files(sweeps + u32::from(wanted)),
            By::Files(sweeps) => match &self.loading {
                Some(program) if is_permitted() => Loader::start(program).map_or(By::FilesOnly, By::Soon),
                // Our rights stay what they are: they are not looked at in each sweep.
                Some(_) => By::FilesOnly,
                None => By::Files(sweeps),
            },
            By::Soon(mut loader) => match loader.answer() {
                None => By::Soon(loader),
                Some(answer) => {
                    self.leaving = Some(loader);
                    answer.map_or(By::FilesOnly, By::Iterator)
                }
            },
            by => by,
        };
    }
}
