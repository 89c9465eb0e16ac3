//! Which threads of a large process ran since the last sweep, without asking each of them.
//!
//! The process's clock says that *some* thread ran; with thousands of them, finding out which costs a read for each. The
//! eBPF iterator (`kernel/probe.rs`) tells all at once. It is loaded only when a process has been so large and busy for
//! some sweeps: never before the first screen, and on most machines never.

use crate::kernel::probe::{Probe, Row};
use crate::sample::task::Sched;

/// Threads of one process from which the iterator is cheaper than asking each: a scan takes as long as 200 reads on a
/// machine with 1,000 threads, and loading it as long as 10,000.
const LARGE: usize = 1_000;
/// So many sweeps in a row found a large process at work before the iterator is loaded.
const PERSISTENT: u32 = 3;

/// How it is found out which threads ran.
#[derive(Debug)]
pub struct Ran {
    by: By,
    /// Answers of this sweep; void between two.
    rows: Vec<Row>,
    scanned: bool,
    /// This sweep has met a large process that ran.
    wanted: bool,
}

#[derive(Debug)]
enum By {
    /// Nothing to gain so far; how many sweeps in a row would have gained.
    Files(u32),
    Iterator(Box<Probe>),
    /// Refused, for good.
    FilesOnly,
}

impl Ran {
    /// `possible` where /proc is that of the running kernel, and numbers of tasks are the kernel's own.
    pub fn new(possible: bool) -> Ran {
        let by = if possible { By::Files(0) } else { By::FilesOnly };
        Ran { by, rows: Vec::new(), scanned: false, wanted: false }
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

    /// The sweep is over: what was said is void, and it may be time to load the iterator.
    pub fn end(&mut self) {
        self.rows.clear();
        self.scanned = false;
        let wanted = std::mem::take(&mut self.wanted);
        if let By::Files(sweeps) = &mut self.by {
            *sweeps = if wanted { *sweeps + 1 } else { 0 };
            if *sweeps >= PERSISTENT {
                self.by = Probe::load().map_or(By::FilesOnly, |probe| By::Iterator(Box::new(probe)));
            }
        }
    }
}
