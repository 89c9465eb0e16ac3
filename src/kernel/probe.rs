//! The eBPF programs of assets/probe. Here the task iterator, which says which threads wait for locks inside the kernel, and which
//! threads hold those (`waits/kernel_lock_owners.rs` uses it); `block` has the histograms of block requests. `doctor` tries both.
//!
//! A child process (`loader_process`) relocates the object file to the running kernel by BTF, which takes 30 MB, and passes the
//! program's descriptor. Nothing is pinned: a program is unloaded when its last descriptor is closed.

pub mod block;
pub mod block_latencies;
pub mod file_systems;
pub mod loader_process;
pub mod lock_wakers;
pub mod on_demand;
#[cfg_attr(target_arch = "x86", path = "probe/unsupported_loader.rs")]
pub mod program_loader;
pub mod query;
pub mod run_queue;
mod slot_table;
pub mod wakes;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::kernel::sys;
use loader_process::{LoaderProcess, ProbeProgram};

/// The loaded and attached iterator. Dropping it unloads the program.
#[derive(Debug)]
pub struct TaskIterator {
    link: OwnedFd,
}

/// `struct row` in assets/probe/tasks.bpf.c
const ROW_BYTES: usize = 48;
/// Rows that are read in one pass; the threads of the others are not known to wait for a lock.
const MAX_ROWS: u64 = 4096;

/// A thread in D, the lock inside the kernel that it waits for, and the thread that the lock names as its owner. Ids are those of the
/// initial pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// Its address in the kernel: never shown and never recorded
    pub lock: u64,
    pub kind: LockKind,
    /// An rw-semaphore: it names one of its readers, the last that came
    pub owner_is_reader: bool,
    pub owner_is_kernel_thread: bool,
    /// It is mmap_lock of the thread's own process, for which the thread waits only if its wait channel says so
    pub is_mmap_lock: bool,
    pub pid: u32,
    pub tid: u32,
    pub owner_pid: u32,
    pub owner_tid: u32,
    /// `task_struct.__state` of the owner is TASK_RUNNING
    pub owner_is_runnable: bool,
    /// schedstat, third figure, of the owner; 0 on a kernel without it
    pub owner_timeslices: u64,
}

/// `BLOCKER_TYPE_…` in include/linux/hung_task.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    Mutex,
    Semaphore,
    RwSemaphore,
}

impl TaskIterator {
    /// Loads and attaches it, and waits for that. `program` is this one.
    pub fn load(program: &Path) -> Result<TaskIterator, String> {
        let mut loader = LoaderProcess::spawn(program, ProbeProgram::TaskIterator)
            .map_err(|why| format!("its loader cannot be started: {why}"))?;
        loader.wait_for_result().and_then(|loaded| TaskIterator::attach(loaded.descriptors))
    }

    /// Attaches a loaded program.
    fn attach(descriptors: Vec<OwnedFd>) -> Result<TaskIterator, String> {
        let [program] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| "its loader did not send one program".to_owned())?;
        let link = sys::bpf_link_create(program.as_fd()).map_err(|why| format!("the kernel refuses the probe: {why}"))?;
        Ok(TaskIterator { link })
    }

    /// Reads all tasks: about 0.15 µs a thread, and 0.5 µs for each row.
    pub fn read_locks(&self) -> io::Result<Vec<LockRow>> {
        let mut bytes = Vec::new();
        let pass = File::from(sys::bpf_iter_create(self.link.as_fd())?);
        pass.take(MAX_ROWS * ROW_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(bytes.as_chunks::<ROW_BYTES>().0.iter().map(LockRow::from_bytes).collect())
    }
}

impl LockRow {
    fn from_bytes(bytes: &[u8; ROW_BYTES]) -> LockRow {
        let words = bytes.as_chunks::<4>().0;
        let word = |index: usize| words.get(index).copied().map_or(0, u32::from_ne_bytes);
        let double = |index: usize| bytes.as_chunks::<8>().0.get(index).copied().map_or(0, u64::from_ne_bytes);
        let flags = word(10);
        LockRow {
            lock: double(0),
            kind: match word(9) {
                0 => LockKind::Mutex,
                1 => LockKind::Semaphore,
                _ => LockKind::RwSemaphore,
            },
            owner_is_reader: flags & 1 != 0,
            owner_is_kernel_thread: flags & 2 != 0,
            is_mmap_lock: flags & 4 != 0,
            pid: word(4),
            tid: word(5),
            owner_pid: word(6),
            owner_tid: word(7),
            owner_is_runnable: word(8) == 0,
            owner_timeslices: double(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_loaded_and_attached() {
        match program_loader::load_program(ProbeProgram::TaskIterator) {
            Ok(loaded) => drop(TaskIterator::attach(loaded.descriptors).unwrap()),
            Err(why) => println!("skipped: {why}"),
        }
    }
}
