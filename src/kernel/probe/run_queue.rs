//! How long threads waited for a CPU, by the eBPF program of assets/probe/run_queue.bpf.c, which counts in memory that this process
//! shares with it. This process tells it which processes there are, and reads what it has counted.
//!
//! Nothing is pinned: the program is detached and unloaded when this process ends, however it ends.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustc_hash::FxHashMap;

use super::loader_process::{LoaderProcess, ProbeProgram};
use super::probe_error::ProbeError;
use super::slot_table::SlotTable;
use crate::ids::CpuId;
use crate::kernel::fields::parse_u32;
use crate::kernel::root::Root;
use crate::kernel::sys::SharedWords;
use crate::sample::histogram_bucket::HistogramBucket;
use crate::sample::run_queue::{ProcessWaits, RunQueues, WaitHistogram};
use crate::sample::{Instant, Name, Reading};
use crate::units::{Counter, SmallSort};

/// How large the maps are, and which process is counted: the loader sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunQueueLayout {
    /// One more than the highest number of a CPU
    pub cpus: u32,
    /// `None`: all processes. Its number is that of the initial pid namespace.
    pub pid: Option<u32>,
}

/// Processes that are counted at most, 2 KiB each
pub const PROCESS_SLOTS: u32 = 1024;
/// `TABLE_BITS` in run_queue.bpf.c
const TABLE_BITS: u32 = 12;
const TABLE_PLACES: usize = 1 << TABLE_BITS;

impl RunQueueLayout {
    const MAX_CPUS: u32 = 8192;

    /// For a machine with CPUs up to this number.
    pub fn new(possible_cpus: u32, pid: Option<u32>) -> RunQueueLayout {
        RunQueueLayout { cpus: possible_cpus.clamp(1, Self::MAX_CPUS), pid }
    }

    /// For the command line of the loader.
    pub fn to_words(self) -> [String; 2] {
        [self.cpus.to_string(), self.pid.unwrap_or(0).to_string()]
    }

    /// The inverse of `to_words`; `None` for anything else.
    pub fn from_words(words: &[String]) -> Option<RunQueueLayout> {
        let [cpus, pid] = words else { return None };
        let (cpus, pid): (u32, u32) = (cpus.parse().ok()?, pid.parse().ok()?);
        (1..=Self::MAX_CPUS).contains(&cpus).then_some(RunQueueLayout { cpus, pid: Some(pid).filter(|&pid| pid > 0) })
    }
}

/// The attached program. Dropping it detaches and unloads it.
#[derive(Debug)]
pub struct RunQueueProbe {
    layout: RunQueueLayout,
    cpus: SharedWords,
    processes: SharedWords,
    table: SlotTable,
    /// Of the processes in the table, as last read: those that have ended since are shown with it
    names: FxHashMap<u32, Name>,
    /// Processes for which there was no place
    uncounted: usize,
    /// Of the program with its tracepoint
    _link: OwnedFd,
}

impl RunQueueProbe {
    /// Loads and attaches the program, which takes a third of a second, and waits for that. `program`: the path of stalltop, run
    /// again as the loader.
    pub fn attach(program: &Path, layout: RunQueueLayout) -> Result<RunQueueProbe, ProbeError> {
        let loaded = LoaderProcess::load(program, ProbeProgram::RunQueue(layout))?;
        let [cpus, processes, places, link] =
            <[OwnedFd; 4]>::try_from(loaded.descriptors).map_err(|_| ProbeError::Descriptors)?;
        Ok(RunQueueProbe {
            layout,
            cpus: SharedWords::map(cpus.as_fd(), layout.cpus as usize * u8::COUNT)?,
            processes: SharedWords::map(processes.as_fd(), PROCESS_SLOTS as usize * u8::COUNT)?,
            table: SlotTable::map(places.as_fd(), TABLE_PLACES, PROCESS_SLOTS)?,
            names: FxHashMap::default(),
            uncounted: 0,
            _link: link,
        })
    }

    /// Processes that are counted by CPU only, since the last reading, because there was no place for them.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// What was counted. A process that has begun since is counted from now on, and one that has ended no more.
    pub fn read(&mut self, root: &Root, now: impl FnOnce() -> Instant) -> Reading<RunQueues> {
        let mut pids: Vec<u32> = match self.layout.pid {
            Some(pid) => vec![pid],
            None => root.list_directory("proc")?.iter().filter_map(|name| parse_u32(name.as_encoded_bytes())).collect(),
        };
        pids.sort_unstable();
        let at = now();
        let cpus = (0..self.layout.cpus).map(|cpu| (CpuId(cpu), waits_of(&self.cpus, cpu)));
        let cpus = cpus.filter(|(_, waits)| !waits.is_empty()).collect();
        let counted = self.table.iter().map(|(pid, slot)| (pid, waits_of(&self.processes, slot)));
        let mut processes: Vec<ProcessWaits> = counted
            .filter(|(_, waits)| !waits.is_empty())
            .map(|(pid, waits)| {
                // A program that was executed since has given it another name.
                let name = name_of(root, pid).or_else(|| self.names.get(&pid).cloned());
                ProcessWaits { pid, name, waits }
            })
            .collect();
        processes.small_sort_by_key(|process| process.pid);
        self.table.retain(|pid| pids.binary_search(&pid).is_ok());
        self.names.retain(|pid, _| pids.binary_search(pid).is_ok());
        for process in &processes {
            if let (Some(name), Some(known)) = (&process.name, self.names.get_mut(&process.pid)) {
                known.clone_from(name);
            }
        }
        let counts = &self.processes;
        self.uncounted = 0;
        for pid in pids {
            let mut is_new = false;
            let slot = self.table.add(pid, hash_of(pid), |new| {
                let at = new.slot as usize * u8::COUNT;
                counts.fill(at..at + u8::COUNT, 0);
                is_new = true;
            });
            if is_new && let Some(name) = name_of(root, pid) {
                self.names.insert(pid, name);
            }
            self.uncounted += usize::from(slot.is_none());
        }
        Ok(RunQueues { at, cpus, processes })
    }
}

/// `hash_of` in run_queue.bpf.c
fn hash_of(pid: u32) -> u32 {
    pid.wrapping_mul(2_654_435_761) >> (u32::BITS - TABLE_BITS)
}

fn name_of(root: &Root, pid: u32) -> Option<Name> {
    root.read_once(format!("proc/{pid}/comm")).ok().map(|name| Name::from(name.trim_ascii_end()))
}

fn waits_of(histograms: &SharedWords, index: u32) -> WaitHistogram {
    let count = |bucket: u8| (bucket, Counter(histograms.get(index as usize * u8::COUNT + usize::from(bucket))));
    (0..=u8::MAX).map(count).filter(|(_, count)| count.0 > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_read_from_its_words() {
        for layout in [RunQueueLayout::new(6, Some(7)), RunQueueLayout::new(u32::MAX, None)] {
            assert_eq!(RunQueueLayout::from_words(&layout.to_words()), Some(layout));
        }
        for wrong in [["0", "0"], ["9000", "0"], ["2", "x"]] {
            assert_eq!(RunQueueLayout::from_words(&wrong.map(str::to_owned)), None, "{wrong:?}");
        }
    }
}
