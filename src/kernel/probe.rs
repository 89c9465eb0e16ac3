//! The eBPF programs of assets/probe, a file each:
//!
//! - here: the task iterator, which reads which threads wait for locks inside the kernel, and which thread holds each lock
//!   (`waits/kernel_lock_owners.rs` uses it)
//! - `lock_contention`: for which locks threads wait, where they do not say it themselves, for the iterator
//! - `lock_fields`: which of the fields for this the kernel has
//! - `block`, `run_queue`, `query`: histograms of block requests, of waits for a CPU, of queries
//! - `file_systems`: sums over calls on files
//! - `wakes`, `lock_wakers`: which thread wakes which, and which thread was woken last at a mutex
//!
//! A child process (`loader_process`) relocates the object file to the running kernel by BTF, which takes 30 MB, and passes the
//! program's descriptor. The programs of wake-ups do without BTF (`program_loader/task_layout`). Nothing is pinned: a program is
//! unloaded when its last descriptor is closed.

pub mod block;
pub mod block_latencies;
mod duty_cycle;
pub mod file_systems;
pub mod loader_process;
pub mod lock_contention;
pub mod lock_fields;
pub mod lock_wakers;
mod map_words;
pub mod on_demand;
pub mod probe_error;
#[cfg_attr(target_arch = "x86", path = "probe/unsupported_loader.rs")]
pub mod program_loader;
pub mod query;
pub mod run_queue;
mod slot_table;
mod tracepoint_program;
pub mod wakes;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use linux_raw_sys::general::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};

use crate::ids::cpu_list::parse_cpu_list;
use crate::kernel::fields::parse_u64;
use crate::kernel::root::Root;
use crate::kernel::sys;
use crate::sample::Absent;
use loader_process::{LoaderProcess, ProbeProgram};
use lock_contention::LockContention;
use lock_fields::LockFields;
use probe_error::ProbeError;

/// Why programs that need BTF cannot be loaded here, without trying: the reason, and words for it.
pub fn load_obstacle(root: &Root) -> Option<(Absent, &'static str)> {
    if !root.exists("sys/kernel/btf/vmlinux") {
        return Some((Absent::NoSuchFile, "the kernel does not describe its types (/sys/kernel/btf/vmlinux)"));
    }
    permission_obstacle().map(|why| (Absent::NoPermission, why))
}

/// Why this process cannot load programs.
pub fn permission_obstacle() -> Option<&'static str> {
    let held = sys::capget().map_or(0, |sets| sets.effective);
    let has = |capability: u32| held & 1 << capability != 0;
    let is_permitted = has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON);
    match is_permitted {
        true => None,
        false if !kernel_has_cap_bpf() => Some("the kernel has no CAP_BPF (Linux 5.8)"),
        false => Some("no permission"),
    }
}

/// Whether this kernel has CAP_BPF (Linux 5.8); true if that cannot be read.
pub fn kernel_has_cap_bpf() -> bool {
    let last = Root::host().read_once("proc/sys/kernel/cap_last_cap").ok();
    last.and_then(|text| parse_u64(text.trim_ascii())).is_none_or(|last| last >= u64::from(CAP_BPF))
}

/// Highest CPU number + 1; u32::MAX if unknown: then several CPUs may count in one shard.
pub fn possible_cpus(root: &Root) -> u32 {
    let possible = root.read_once("sys/devices/system/cpu/possible").unwrap_or_default();
    parse_cpu_list(&possible).last().map_or(u32::MAX, |range| range.end().saturating_add(1))
}

/// The loaded and attached iterator. Dropping it unloads the program.
#[derive(Debug)]
pub struct TaskIterator {
    link: OwnedFd,
    /// The programs that note for it for which locks threads wait, once they are attached; `None`: this kernel has no such tracepoints, or
    /// refuses the programs
    contention: Option<LockContention>,
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
    /// A fatal signal ends the wait (TASK_WAKEKILL); only of mmap_lock that is known by the wait channel
    pub is_killable: bool,
    /// The lock is known by the tracepoint contention_begin
    pub is_by_contention: bool,
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
    /// Loads and attaches it, and waits for that. `program`: the path of stalltop, run again as the loader.
    pub fn load(program: &Path) -> Result<TaskIterator, ProbeError> {
        TaskIterator::attach(LoaderProcess::load(program, ProbeProgram::TaskIterator)?.descriptors)
    }

    /// Attaches the iterator of the loaded programs.
    pub fn attach(descriptors: Vec<OwnedFd>) -> Result<TaskIterator, ProbeError> {
        let mut descriptors = descriptors.into_iter();
        let program = descriptors.next().ok_or(ProbeError::Descriptors)?;
        let link = sys::bpf_link_create(program.as_fd()).map_err(|why| ProbeError::Refused(why.into()))?;
        let others = <[OwnedFd; 4]>::try_from(descriptors.collect::<Vec<_>>()).ok();
        // Without them it names the holders of fewer locks.
        Ok(TaskIterator { link, contention: others.and_then(|others| LockContention::new(others).ok()) })
    }

    /// The programs that note for which locks threads wait.
    pub fn contention(&mut self) -> Option<&mut LockContention> {
        self.contention.as_mut()
    }

    /// Reads all tasks: about 0.15 µs a thread, and 0.5 µs for each row.
    pub fn read_locks(&self) -> io::Result<Vec<LockRow>> {
        let rows = self.read_pass()?;
        Ok(rows.as_chunks().0.iter().map(LockRow::from_bytes).filter(LockRow::is_of_thread).collect())
    }

    /// Which fields this kernel has; `None` while so many threads wait for locks that the end of a pass is not read.
    pub fn lock_fields(&self) -> io::Result<Option<LockFields>> {
        let rows = self.read_pass()?;
        let last = rows.as_chunks().0.last();
        Ok(last
            .filter(|row| !LockRow::from_bytes(row).is_of_thread())
            .map(|row| LockFields::new(flags_of(row), self.contention.is_some())))
    }

    fn read_pass(&self) -> io::Result<Vec<u8>> {
        // Into an empty buffer the rows of a few dozen threads take fourteen reads.
        let mut bytes = Vec::with_capacity(ROW_BYTES * 64);
        let pass = File::from(sys::bpf_iter_create(self.link.as_fd())?);
        pass.take(MAX_ROWS * ROW_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl LockRow {
    fn from_bytes(bytes: &[u8; ROW_BYTES]) -> LockRow {
        let words = bytes.as_chunks::<4>().0;
        let word = |index: usize| words.get(index).copied().map_or(0, u32::from_ne_bytes);
        let double = |index: usize| bytes.as_chunks::<8>().0.get(index).copied().map_or(0, u64::from_ne_bytes);
        let flags = flags_of(bytes);
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
            is_killable: flags & 8 != 0,
            is_by_contention: flags & 16 != 0,
            pid: word(4),
            tid: word(5),
            owner_pid: word(6),
            owner_tid: word(7),
            owner_is_runnable: word(8) == 0,
            owner_timeslices: double(1),
        }
    }

    /// The last row is of none: it says which fields the kernel has.
    fn is_of_thread(&self) -> bool {
        self.tid != 0
    }
}

fn flags_of(row: &[u8; ROW_BYTES]) -> u32 {
    row.as_chunks::<4>().0.get(10).copied().map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_loaded_and_attached() {
        match program_loader::load_program(ProbeProgram::TaskIterator) {
            Ok(loaded) => {
                let iterator = TaskIterator::attach(loaded.descriptors).unwrap();
                let rows = iterator.read_locks().unwrap();
                assert!(rows.iter().all(|row| row.tid != 0 && row.owner_tid != 0), "{rows:?}");
                let fields = iterator.lock_fields().unwrap().unwrap();
                let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
                assert!(fields.all().iter().any(|(_, is_known)| *is_known), "{fields:?}");
                for (field, is_known) in fields.all() {
                    let name = [b"\0", field.rsplit('.').next().unwrap().as_bytes(), b"\0"].concat();
                    let is_named = types.windows(name.len()).any(|window| window == name);
                    // Another type may have a field of this name.
                    assert!(is_named || !is_known, "{field}");
                }
            }
            Err(why) => println!("skipped: {why}"),
        }
    }
}
