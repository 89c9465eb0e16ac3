//! An eBPF task iterator that says which threads ran: 0.25 µs a thread, where opening and reading its schedstat takes 6.
//!
//! The object comes from assets/probe (source and build script beside it) and is relocated to the running kernel by its
//! type information, in a process of its own (`loader`): that takes 30 MB. What is left in this one is a descriptor.
//! Nothing is pinned: the iterator is gone with this process. It is never trusted for completeness: on one machine it left
//! out all threads of pid 1. Sampling does not use it: with few threads at work among thousands it saved nothing (docs/cost-history.md).

pub mod loader_process;
#[cfg_attr(target_arch = "x86", path = "probe/not_loading.rs")]
mod program_loader;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::sample::task::Schedstat;

// enum bpf_cmd and bpf_attach_type of include/uapi/linux/bpf.h
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_TRACE_ITER: u32 = 28;

/// What the iterator says of a thread: `struct row` of assets/probe/tasks.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// The process, by its number in the initial pid namespace
    pub pid: u32,
    pub tid: u32,
    /// Time on CPUs, in nanoseconds: the first number of its schedstat
    pub run_ns: u64,
    /// The third number of its schedstat
    pub timeslices: u64,
}

/// Bytes of a row.
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

    /// Whether the thread has not run since its schedstat said this.
    pub fn matches(&self, sched: &Schedstat) -> bool {
        self.run_ns == sched.run_ns.0 && self.timeslices == sched.timeslices.0
    }
}

/// The loaded iterator.
#[derive(Debug)]
pub struct TaskIterator {
    link: OwnedFd,
    /// One answer, as it comes from the kernel
    buffer: Box<[u8]>,
}

impl TaskIterator {
    /// Attaches the loaded program.
    fn attach(program: &OwnedFd) -> io::Result<TaskIterator> {
        // prog_fd, target_fd, attach_type, flags of `link_create`
        let link = bpf(BPF_LINK_CREATE, [raw_descriptor(program), 0, BPF_TRACE_ITER, 0])?;
        Ok(TaskIterator { link, buffer: vec![0; 4096 * ROW_BYTES].into_boxed_slice() })
    }

    /// All threads that the iterator names, into `rows`, sorted by thread number.
    pub fn read_rows(&mut self, rows: &mut Vec<TaskRow>) -> io::Result<()> {
        rows.clear();
        let mut answer = File::from(bpf(BPF_ITER_CREATE, [raw_descriptor(&self.link), 0, 0, 0])?);
        let mut held = 0;
        loop {
            // The kernel may hand out less than a row's end.
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

/// bpf(2) as of include/uapi/linux/bpf.h, for the two calls that the crate which loads the program makes only on objects of
/// its own. Both give a descriptor.
fn bpf(command: libc::c_int, attributes: [u32; 4]) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes as it is told, and keeps nothing of them.
    let made = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(&attributes)) };
    match RawFd::try_from(made) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn raw_descriptor(descriptor: &OwnedFd) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
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
    fn it_says_of_each_thread_what_schedstat_says() {
        let mut probe = match program_loader::load_program() {
            Ok(program) => TaskIterator::attach(&program).unwrap(),
            Err(why) => return println!("skipped: {why}"),
        };
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
        if namespace.as_os_str() != crate::kernel::scan::INITIAL_PID_NAMESPACE {
            return println!("skipped: not in the initial pid namespace");
        }
        let mut rows = Vec::new();
        // A thread that ran in between is told by the second scan.
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
