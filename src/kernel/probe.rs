//! A BPF task iterator that lists the run time of every thread in 0.25 µs per thread; reading a schedstat takes 6 µs.
//!
//! The object file is in assets/probe, with its source and build script. A child process (`loader_process`) relocates it to
//! the running kernel by BTF, which takes 30 MB, and passes the program's descriptor. Nothing is pinned: the iterator ends
//! with this process. It may be incomplete (on one machine it left out all threads of pid 1): other threads are read from
//! /proc.

pub mod loader_process;
#[cfg_attr(target_arch = "x86", path = "probe/not_loading.rs")]
mod program_loader;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::sys;
use crate::sample::task::Schedstat;

/// One thread: `struct row` of assets/probe/tasks.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Thread group id in the initial pid namespace
    pub pid: u32,
    pub tid: u32,
    /// Time on CPUs in nanoseconds, the first number of schedstat
    pub run_ns: u64,
    /// Time slices, the third number of schedstat
    pub timeslices: u64,
}

/// Size of a row.
const ROW_BYTES: usize = 24;

impl TaskRow {
    fn from_bytes(bytes: &[u8; ROW_BYTES]) -> TaskRow {
        let [p0, p1, p2, p3, t0, t1, t2, t3, rest @ ..] = *bytes;
        let [r0, r1, r2, r3, r4, r5, r6, r7, s0, s1, s2, s3, s4, s5, s6, s7] = rest;
        TaskRow {
            pid: u32::from_ne_bytes([p0, p1, p2, p3]),
            tid: u32::from_ne_bytes([t0, t1, t2, t3]),
            run_ns: u64::from_ne_bytes([r0, r1, r2, r3, r4, r5, r6, r7]),
            timeslices: u64::from_ne_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        }
    }

    /// Whether the thread has not run since this schedstat.
    pub fn matches(&self, sched: &Schedstat) -> bool {
        self.run_ns == sched.run_ns.0 && self.timeslices == sched.timeslices.0
    }
}

/// The loaded iterator.
#[derive(Debug)]
pub struct TaskIterator {
    link: OwnedFd,
    /// Bytes of one read(2)
    buffer: Box<[u8]>,
}

impl TaskIterator {
    /// Attaches a loaded program.
    fn attach(program: &OwnedFd) -> io::Result<TaskIterator> {
        let link = sys::bpf_link_create(program.as_fd())?;
        Ok(TaskIterator { link, buffer: vec![0; 4096 * ROW_BYTES].into_boxed_slice() })
    }

    /// Reads all rows of the iterator into `rows`, sorted by tid.
    pub fn read_rows(&mut self, rows: &mut Vec<TaskRow>) -> io::Result<()> {
        rows.clear();
        let mut answer = File::from(sys::bpf_iter_create(self.link.as_fd())?);
        let mut held = 0;
        loop {
            // A read may end within a row.
            let read = answer.read(self.buffer.get_mut(held..).unwrap_or_default())?;
            if read == 0 {
                break;
            }
            held += read;
            let (whole, rest) = self.buffer.get(..held).unwrap_or_default().as_chunks::<ROW_BYTES>();
            rows.extend(whole.iter().map(TaskRow::from_bytes));
            let (used, rest) = (whole.len() * ROW_BYTES, rest.len());
            self.buffer.copy_within(used..used + rest, 0);
            held = rest;
        }
        if !rows.is_sorted_by_key(|row| row.tid) {
            rows.sort_unstable_by_key(|row| row.tid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task;

    fn schedstat(row: &TaskRow) -> Option<Schedstat> {
        let text = std::fs::read(format!("/proc/{}/task/{}/schedstat", row.pid, row.tid)).ok()?;
        task::parse_schedstat(&text)
    }

    #[test]
    fn rows_of_the_iterator_equal_schedstat() {
        let mut probe = match program_loader::load_program() {
            Ok(program) => TaskIterator::attach(&program).unwrap(),
            Err(why) => return println!("skipped: {why}"),
        };
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
        if namespace.as_os_str() != crate::kernel::scan::INITIAL_PID_NAMESPACE {
            return println!("skipped: not in the initial pid namespace");
        }
        let mut rows = Vec::new();
        // The second scan shows whether a thread ran in between.
        let mut compared = 0;
        for _ in 0..20 {
            let mut before = Vec::new();
            probe.read_rows(&mut before).unwrap();
            let said: Vec<_> = before.iter().map(|row| (*row, schedstat(row))).collect();
            probe.read_rows(&mut rows).unwrap();
            for (row, sched) in said {
                let Some(sched) = sched else { continue };
                if rows.binary_search_by_key(&row.tid, |row| row.tid).is_ok_and(|at| rows[at] == row) {
                    assert!(row.matches(&sched), "{row:?} and {sched:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 0, "nothing was at rest");
        let own = rows.iter().filter(|row| row.pid == std::process::id()).count();
        assert!(own >= 2, "this process has a thread for its test");
    }
}
