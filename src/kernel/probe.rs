//! An eBPF task iterator that says which threads ran: 0.25 µs a thread, where opening and reading its schedstat takes 6.
//!
//! The object comes from assets/probe (source and build script beside it) and is relocated to the running kernel by its
//! type information. Nothing is pinned: it is gone with this process. It is never trusted for completeness: on one machine
//! the iterator left out all threads of pid 1. Whom it does not name is read from /proc.

use std::io::{self, Read};

use aya::programs::links::LinkError;
use aya::programs::{Iter, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use thiserror::Error;

use crate::sample::task::Sched;

/// Makes one row a thread; the program of that name is in it.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../assets/probe/tasks.bpf.o");
const PROGRAM: &str = "tasks";

/// Why there is no iterator.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// No /sys/kernel/btf/vmlinux: a kernel before 5.4, or built without CONFIG_DEBUG_INFO_BTF.
    #[error("the kernel does not describe its types (/sys/kernel/btf/vmlinux): {0}")]
    Types(#[from] BtfError),
    #[error("the probe does not fit this kernel: {0}")]
    Object(#[from] EbpfError),
    /// No CAP_BPF and CAP_PERFMON, lockdown, a kernel before 5.8, or the verifier.
    #[error("the kernel refuses the probe: {}", in_short(.0))]
    Program(#[from] ProgramError),
    #[error("the kernel refuses the probe: {0}")]
    Link(#[from] LinkError),
    #[error("the probe's answer cannot be read: {0}")]
    Answer(#[from] io::Error),
}

/// The system's word for it, without the verifier's log.
fn in_short(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, .. } => io_error.to_string(),
        other => other.to_string(),
    }
}

/// What the iterator says of a thread: `struct row` of assets/probe/tasks.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The process, by its number in the initial pid namespace
    pub pid: u32,
    pub tid: u32,
    /// Time on CPUs, in nanoseconds: the first number of its schedstat
    pub run_ns: u64,
    /// The third number of its schedstat
    pub timeslices: u64,
}

/// Bytes of a row.
const ROW: usize = 24;

impl Row {
    fn from_bytes(bytes: &[u8; ROW]) -> Row {
        let [p0, p1, p2, p3, t0, t1, t2, t3, rest @ ..] = *bytes;
        let [r0, r1, r2, r3, r4, r5, r6, r7, s0, s1, s2, s3, s4, s5, s6, s7] = rest;
        Row {
            pid: u32::from_ne_bytes([p0, p1, p2, p3]),
            tid: u32::from_ne_bytes([t0, t1, t2, t3]),
            run_ns: u64::from_ne_bytes([r0, r1, r2, r3, r4, r5, r6, r7]),
            timeslices: u64::from_ne_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        }
    }

    /// Whether the thread has not run since its schedstat said this.
    pub fn agrees(&self, sched: &Sched) -> bool {
        self.run_ns == sched.run_ns.0 && self.timeslices == sched.timeslices.0
    }
}

/// The loaded iterator.
#[derive(Debug)]
pub struct Probe {
    object: Ebpf,
    /// One answer, as it comes from the kernel
    bytes: Box<[u8]>,
}

impl Probe {
    /// Loads it: some 50 ms of CPU and, while it lasts, 30 MB for the kernel's type information.
    pub fn load() -> Result<Probe, ProbeError> {
        let types = Btf::from_sys_fs()?;
        let mut object = EbpfLoader::new().btf(Some(&types)).load(OBJECT)?;
        program(&mut object)?.load("task", &types)?;
        Ok(Probe { object, bytes: vec![0; 4096 * ROW].into_boxed_slice() })
    }

    /// All threads that the iterator names, into `rows`, sorted by thread number.
    pub fn scan(&mut self, rows: &mut Vec<Row>) -> Result<(), ProbeError> {
        rows.clear();
        let program = program(&mut self.object)?;
        let link = program.attach()?;
        let mut answer = program.take_link(link)?.into_file()?;
        let mut held = 0;
        loop {
            // The kernel may hand out less than a row's end.
            let read = answer.read(self.bytes.get_mut(held..).unwrap_or_default())?;
            if read == 0 {
                break;
            }
            held += read;
            let (whole, rest) = self.bytes.get(..held).unwrap_or_default().as_chunks::<ROW>();
            rows.extend(whole.iter().map(Row::from_bytes));
            let (used, rest) = (whole.len() * ROW, rest.len());
            self.bytes.copy_within(used..used + rest, 0);
            held = rest;
        }
        if !rows.is_sorted_by_key(|row| row.tid) {
            rows.sort_unstable_by_key(|row| row.tid);
        }
        Ok(())
    }
}

fn program(object: &mut Ebpf) -> Result<&mut Iter, ProbeError> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no program `tasks` in it");
    Ok(object.program_mut(PROGRAM).ok_or_else(missing)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task;

    fn schedstat(row: &Row) -> Option<Sched> {
        let text = std::fs::read(format!("/proc/{}/task/{}/schedstat", row.pid, row.tid)).ok()?;
        task::schedstat(&text)
    }

    #[test]
    fn it_says_of_each_thread_what_schedstat_says() {
        let mut probe = match Probe::load() {
            Ok(probe) => probe,
            Err(why) => return println!("skipped: {why}"),
        };
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
        if namespace.as_os_str() != crate::kernel::sweep::INITIAL_PID_NAMESPACE {
            return println!("skipped: not in the initial pid namespace");
        }
        let mut rows = Vec::new();
        // A thread that ran in between is told by the second scan.
        let mut compared = 0;
        for _ in 0..20 {
            let mut before = Vec::new();
            probe.scan(&mut before).unwrap();
            let said: Vec<_> = before.iter().map(|row| (*row, schedstat(row))).collect();
            probe.scan(&mut rows).unwrap();
            for (row, sched) in said {
                let Some(sched) = sched else { continue };
                if rows.binary_search_by_key(&row.tid, |row| row.tid).is_ok_and(|at| rows[at] == row) {
                    assert!(row.agrees(&sched), "{row:?} and {sched:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 0, "nothing was at rest");
        let own = rows.iter().filter(|row| row.pid == std::process::id()).count();
        assert!(own >= 2, "this process has a thread for its test");
    }
}
