//! The scan of all tasks. It reads what may have changed since the last scan and keeps what it read, so that the same need not be read
//! again. The sample has what was read; differences are computed in `interval`.
//!
//! - discovery: which processes exist (`discovery`, `discovery/new_pids`), and which threads (`process/threads`)
//! - change detection: which processes ran, by their CPU clocks (`process_clock`), and which of their threads (`cpu_time_check`)
//! - reading: the files of a process (`process`, `facts`) and of a thread (`thread`, `thread/wait`)
//! - scheduling: what is read when, and by which sub-sample (`schedule`, `turns`)
//! - cache: what is kept between readings (`process::KnownProcess`, `thread::KnownThread`, `interner`)

use crate::units::SmallSort;

mod context;
mod cpu_time_check;
pub mod discovery;
mod facts;
mod interner;
mod network_namespaces;
mod process;
mod process_clock;
mod schedule;
#[cfg(test)]
mod tests;
pub mod thread;
mod turns;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use nix::time::ClockId;
use rustc_hash::FxHashMap;

use context::ScanContext;
pub use discovery::new_pids;
pub use network_namespaces::{NetworkNamespaceMembers, parse_namespace_inode};
pub use process::KnownProcess;
pub use process_clock::{ProcessClocks, read_clock_ns};
pub use thread::{JavaWait, KnownThread};

use super::exits::{ProcessIdentity, ProcessLookup};
use super::root::Root;
use super::task::files::{TaskFiles, is_in_initial_pid_namespace};
use crate::ids::{CpuId, GroupId};
use crate::sample::host::Host;
use crate::sample::task::{HiddenTasks, RunTime, Tasks};
use crate::sample::waits::JavaLock;
use crate::sample::{Name, Reading};

/// Threads whose readings of run time a sample keeps, and the run time of such a thread at least.
const MAX_MOVING_THREADS: usize = 16;
const MIN_MOVING_RUN_NS: u64 = 100_000_000;
/// Number of processes beside a stuck one of their group whose wait channels are read in one scan.
const MAX_SIBLINGS_EXAMINED: usize = 64;

/// Scans all tasks, and sub-samples the hot ones.
#[derive(Debug)]
pub struct TaskScanner {
    context: ScanContext,
    /// Sorted by pid
    processes: Vec<KnownProcess>,
    /// Indices of the processes that sub-samples read or poll, sorted; made by each scan
    watched: Vec<usize>,
    /// Sub-samples leave the monitor itself out.
    own_pid: u32,
    new_pids: new_pids::NewPidTracker,
    turns: turns::Turns,
    /// CLOCK_BOOTTIME
    first_scan_ns: Option<u64>,
    in_pid_namespace: bool,
    hides_processes: bool,
}

impl TaskScanner {
    /// Reads nothing yet. Fails only where there is no /proc.
    pub fn new(root: &Root, host: &Host) -> Reading<TaskScanner> {
        let in_pid_namespace = is_in_initial_pid_namespace(root) == Ok(false);
        Ok(TaskScanner {
            context: ScanContext::new(root, host)?,
            processes: Vec::new(),
            watched: Vec::new(),
            own_pid: own_pid(root),
            new_pids: new_pids::NewPidTracker::new(in_pid_namespace),
            turns: turns::Turns::default(),
            first_scan_ns: None,
            in_pid_namespace,
            hides_processes: host.privilege.hidepid && !host.privilege.has_cap_sys_ptrace,
        })
    }

    /// Reads what may have changed since the last scan. `counters` were read before. `Tasks::users` stays empty.
    pub fn scan(&mut self, now_ns: u64, counters: new_pids::ForkCounters) -> Tasks {
        self.context.begin_scan(now_ns);
        self.update_processes(counters);
        self.reread_in_turn();
        self.read_facts();
        let Self { processes, context, .. } = self;
        context.network_namespaces.retain(|pid| processes.binary_search_by_key(&pid, |known| known.pid).is_ok());
        self.examine_siblings_of_stuck();
        self.context.end_scan();
        self.first_scan_ns.get_or_insert(now_ns);
        self.update_watched(now_ns);
        Tasks {
            processes: self.processes.iter().map(|known| Arc::clone(&known.sampled)).collect(),
            users: Arc::default(),
            hidden: self.hidden_tasks(),
            read_times: std::mem::take(&mut self.context.read_times),
            run_times: self.take_run_times(),
        }
    }

    /// The run times of the threads that moved between CPUs since the last sample, of the busiest ones.
    fn take_run_times(&mut self) -> Vec<RunTime> {
        let mut threads: Vec<(u64, Vec<RunTime>)> = Vec::new();
        for known in self.sub_sampled_mut() {
            known.for_each_hot_thread(|process, thread, sampled| {
                let run_ns = thread.run_times.run_ns();
                if thread.run_times.has_moved() && run_ns >= MIN_MOVING_RUN_NS {
                    let task = process.task_id(sampled);
                    let readings = thread.run_times.iter();
                    let readings = readings.map(|(cpu, run_ns)| RunTime { task, run_ns, cpu: cpu.map(CpuId) }).collect();
                    threads.push((run_ns, readings));
                }
            });
        }
        // Also those of threads that are not hot any more: they belong to this interval.
        self.processes.iter_mut().for_each(KnownProcess::clear_run_times);
        threads.small_sort_by_key(|(run_ns, _)| Reverse(*run_ns));
        let busiest = threads.into_iter().take(MAX_MOVING_THREADS);
        let mut run_times: Vec<RunTime> = busiest.flat_map(|(_, readings)| readings).collect();
        // Stable: the readings of a thread stay in their order.
        run_times.small_sort_by_key(|reading| reading.task);
        run_times
    }

    /// The time of the sample that the next scan belongs to, CLOCK_BOOTTIME.
    pub fn set_sample_time(&mut self, boottime_ns: u64) {
        self.context.set_sample_time(boottime_ns);
    }

    /// The processes in other network namespaces than stalltop.
    pub fn network_namespaces(&self) -> &NetworkNamespaceMembers {
        &self.context.network_namespaces
    }

    /// Reads threads that may wait for a mutex of Rust in each sub-sample from now on.
    pub fn follow_likely_mutexes(&mut self) {
        self.context.follows_likely_mutexes = true;
    }

    /// All processes as they were last read.
    pub fn processes(&self) -> &[KnownProcess] {
        &self.processes
    }

    /// The process with this pid, as it was last read.
    pub fn process(&self, pid: u32) -> Option<&KnownProcess> {
        let at = self.processes.binary_search_by_key(&pid, |known| known.pid).ok()?;
        self.processes.get(at)
    }

    /// `KnownProcess::set_java_waits`
    pub fn set_java_waits(&mut self, pid: u32, waits: &FxHashMap<u32, Option<JavaLock>>) {
        if let Ok(at) = self.processes.binary_search_by_key(&pid, |known| known.pid)
            && let Some(known) = self.processes.get_mut(at)
        {
            known.set_java_waits(waits, &self.context);
        }
    }

    /// The processes that sub-samples read, as they were last read; mutable.
    pub fn sub_sampled_mut(&mut self) -> impl Iterator<Item = &mut KnownProcess> {
        let now_ns = self.context.now_ns;
        select_mut(&mut self.processes, &self.watched).filter(move |known| known.is_sub_sampled(now_ns))
    }

    /// The same, read-only.
    pub fn sub_sampled(&self) -> impl Iterator<Item = &KnownProcess> {
        let now_ns = self.context.now_ns;
        self.watched.iter().filter_map(|&index| self.processes.get(index)).filter(move |known| known.is_sub_sampled(now_ns))
    }

    /// Whether a thread was last seen in a wait that may be for a device.
    pub fn has_blocked_threads(&self) -> bool {
        self.sub_sampled().any(KnownProcess::has_blocked_thread)
    }

    /// For a fixture tree: the CPU clock of a process, ns; `None`: the process has ended.
    pub fn set_process_clock(&mut self, pid: u32, cpu_ns: Option<u64>) {
        self.context.clocks.set_fixed(pid, cpu_ns);
    }

    /// Tasks whose files the last scan, and the sub-samples since, have read.
    pub fn tasks_read(&self) -> u32 {
        self.context.tasks_read
    }

    /// Every uid that owned a process.
    pub fn owner_uids(&self) -> &BTreeSet<u32> {
        &self.context.owner_uids
    }

    /// `Host::machine`
    pub fn machine(&self) -> &Name {
        &self.context.machine
    }

    pub fn files(&mut self) -> &mut TaskFiles {
        &mut self.context.files
    }

    /// Reads slow facts that are due: first those of processes that ran or are stuck, then the others, each as far as the budget allows.
    fn read_facts(&mut self) {
        let clock = || read_clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
        let budget = schedule::facts_budget(self.first_scan_ns, self.context.now_ns);
        let Self { processes, context, .. } = self;
        let now_ns = context.now_ns;
        for (urgent, allowed_ns) in [(true, budget.urgent_ns), (false, budget.other_ns)] {
            let due = |known: &&mut KnownProcess| match urgent {
                true => known.facts.is_urgent(known.hot_threads().next().is_some()),
                false => known.facts.is_due(now_ns),
            };
            let mut begin = None;
            for (number, known) in processes.iter_mut().filter(due).enumerate() {
                // Usually nothing is due, and the clock is not read.
                if number % 8 == 0 && clock().saturating_sub(*begin.get_or_insert_with(clock)) >= allowed_ns {
                    break;
                }
                facts::read(known, context);
            }
        }
    }

    /// Processes that wait for a lock of a stuck process of their group do not run: their wait channels are read because of that one.
    fn examine_siblings_of_stuck(&mut self) {
        let stuck = self.processes.iter().filter(|known| known.has_stuck_thread()).map(|known| known.sampled.group());
        let stuck: BTreeSet<GroupId> = stuck.filter(|group| matches!(group, GroupId::Siblings { .. })).collect();
        if stuck.is_empty() {
            return;
        }
        let parents: BTreeSet<u32> = stuck.iter().filter_map(GroupId::parent).collect();
        let mut left = MAX_SIBLINGS_EXAMINED;
        for known in &mut self.processes {
            let sibling = left > 0 && parents.contains(&known.sampled.ppid) && stuck.contains(&known.sampled.group());
            if sibling && known.read_waits_beside_stuck_sibling(&mut self.context) {
                left -= 1;
                known.park_if_idle(self.context.now_ns);
            }
        }
    }

    fn hidden_tasks(&self) -> HiddenTasks {
        let mut hidden = HiddenTasks { processes: self.in_pid_namespace || self.hides_processes, ..HiddenTasks::default() };
        for known in &self.processes {
            hidden.wait_channels = hidden.wait_channels.saturating_add(known.hidden.wait_channels);
            hidden.schedstats = hidden.schedstats.saturating_add(known.hidden.schedstats);
        }
        hidden
    }
}

/// The pid of this process in the pid namespace of this /proc; 0, the pid of none, if it is not there.
fn own_pid(root: &Root) -> u32 {
    let link = root.read_link("proc/self").ok();
    link.and_then(|link| link.to_str()?.parse().ok()).unwrap_or(0)
}

impl ProcessLookup for TaskScanner {
    fn process(&self, pid: u32) -> Option<ProcessIdentity<'_>> {
        let process = &self.process(pid)?.sampled;
        let start_ns = u128::from(process.start_ticks) * 1_000_000_000 / u128::from(self.context.ticks_per_second);
        Some(ProcessIdentity {
            id: process.id(),
            start_ns: u64::try_from(start_ns).unwrap_or(u64::MAX),
            ppid: process.ppid,
            comm: &process.comm,
        })
    }

    fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.process(pid).is_some_and(|known| known.sampled.thread(tid).is_some())
    }
}

/// The items at these places, which are sorted.
fn select_mut<'a, T>(items: &'a mut [T], places: &'a [usize]) -> impl Iterator<Item = &'a mut T> {
    let (mut rest, mut passed) = (items, 0);
    places.iter().map_while(move |&place| {
        let (item, behind) = std::mem::take(&mut rest).split_at_mut_checked(place.checked_sub(passed)?)?.1.split_first_mut()?;
        (rest, passed) = (behind, place + 1);
        Some(item)
    })
}
