//! One look at all tasks. It remembers what it saw so as not to read it again: a cache of facts, never a difference.
//!
//! The interface is small on purpose (`sweep`, `glance`, `awake`): a task iterator in the kernel may take its place.

mod cpu_time_check;
mod facts;
mod idle_index;
mod interner;
pub mod new_pids;
mod process;
mod process_clock;
mod sub_sample;
#[cfg(test)]
mod tests;
pub mod thread;
mod thread_activity;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use nix::time::ClockId;
use nix::unistd::gettid;

use new_pids::{NewPidTracker, NewPids};
use process::ProcessChange;
pub use process::{ActiveState, KnownProcess};
pub use process_clock::{ProcessClocks, read_clock_ns};
pub use thread::KnownThread;

use super::exits::{ProcessIdentity, ProcessLookup};
use super::root::Root;
use super::task::{self, files::TaskFiles};
use crate::ids::GroupId;
use crate::sample::host::Host;
use crate::sample::task::{HiddenTasks, Schedstat, Tasks};
use crate::sample::{Name, Reading};
use idle_index::IdleEntry;
use interner::Interner;
use thread_activity::ThreadActivity;

/// CPU time that slow facts may take: in the first sweep, for a fast first screen; in the next ones, so that most of them are
/// known before anybody has read it; and then, when nobody is in a hurry for those of processes that do nothing.
const FACTS_BUDGET_FIRST_NS: u64 = 16_000_000;
const FACTS_BUDGET_WARM_UP_NS: u64 = 25_000_000;
const FACTS_BUDGET_LATER_NS: u64 = 1_000_000;
/// Those of processes at work, which are read before the others.
const FACTS_BUDGET_URGENT_NS: u64 = 10_000_000;
/// Threads whose allowed CPUs are read in one sweep: a status each.
const MAX_AFFINITY_READS: u32 = 64;
/// Processes that look parked, but have a stuck sibling: so many are examined in one sweep.
const MAX_SIBLINGS_EXAMINED: usize = 64;
/// Until so long after the first sweep nothing is known about who runs: all clocks are asked.
const WARM_UP_NS: u64 = 1_500_000_000;
/// The inode of the initial pid namespace: PROC_PID_INIT_INO of include/linux/proc_ns.h.
pub const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// All that is known about all tasks.
#[derive(Debug)]
pub struct TaskScanner {
    context: ScanContext,
    /// Sorted by pid.
    processes: Vec<KnownProcess>,
    /// Beside `processes`, in the same order
    idle_index: Vec<IdleEntry>,
    /// Indices of those that are not at rest
    active: Vec<usize>,
    /// Indices of those that sub-samples look at: few of many.
    sub_sampled: Vec<usize>,
    /// Indices of those whose clocks sub-samples ask though they sleep
    clock_polled: Vec<usize>,
    pids: Vec<u32>,
    /// Those that this sweep has found to have ended
    exited_pids: Vec<u32>,
    /// The monitor is not part of the box's work: sub-samples leave it out.
    own_pid: u32,
    new_pids: NewPidTracker,
    first_scan_ns: Option<u64>,
    in_pid_namespace: bool,
    hides_processes: bool,
}

/// What every look needs.
#[derive(Debug)]
pub struct ScanContext {
    pub files: TaskFiles,
    pub interner: Interner,
    pub clocks: ProcessClocks,
    pub machine: Name,
    pub thread_activity: ThreadActivity,
    /// CLOCK_BOOTTIME of the look.
    pub now_ns: u64,
    /// The number of the last sub-sample
    pub sub_sample_number: u32,
    /// How many sweeps there were
    pub scan_number: u32,
    /// Processes that sub-samples look at
    pub sub_sampled_count: usize,
    pub tasks_read: u32,
    pub tids: Vec<u32>,
    /// Threads whose CPUs may still be asked for in this sweep.
    pub affinity_reads_left: u32,
    /// CLOCK_BOOTTIME of the sweep before, in ticks: what started later is new.
    last_scan_ticks: Option<u64>,
    ticks_per_second: u64,
    /// A kernel without CONFIG_SCHED_INFO gives three zeros to all.
    has_schedstat: bool,
    own_uid: u32,
    has_cap_sys_ptrace: bool,
    /// Who owns a process, or did.
    pub owner_uids: BTreeSet<u32>,
}

impl ScanContext {
    /// Whether what started then cannot have been there at the sweep before, and has run since.
    fn started_since_last_scan(&self, start_ticks: u64) -> bool {
        self.last_scan_ticks.is_some_and(|previous| start_ticks >= previous)
    }

    /// Whether wait channels and system calls of that user's tasks may be read.
    fn can_inspect_tasks_of(&self, uid: u32) -> bool {
        self.has_cap_sys_ptrace || uid == self.own_uid
    }

    fn ns_to_ticks(&self, ns: u64) -> u64 {
        u64::try_from(u128::from(ns) * u128::from(self.ticks_per_second) / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

fn has_run(sched: Schedstat) -> bool {
    sched.timeslices.0 > 0
}

impl TaskScanner {
    /// Knows nothing yet. Fails only when there is no /proc.
    pub fn new(root: &Root, host: &Host) -> Reading<TaskScanner> {
        let namespace = root.read_link("proc/self/ns/pid");
        let namespaced = namespace.is_ok_and(|link| link.as_os_str() != INITIAL_PID_NAMESPACE);
        let clocks = ProcessClocks::for_root(root);
        let eye = ScanContext {
            files: TaskFiles::open(root)?,
            interner: Interner::default(),
            thread_activity: ThreadActivity::new(clocks.are_available() && !namespaced),
            clocks,
            machine: host.machine.clone(),
            now_ns: 0,
            sub_sample_number: 0,
            scan_number: 0,
            sub_sampled_count: 0,
            tasks_read: 0,
            tids: Vec::new(),
            affinity_reads_left: 0,
            last_scan_ticks: None,
            ticks_per_second: host.ticks_per_second.max(1),
            has_schedstat: root
                .read_once("proc/self/schedstat")
                .ok()
                .as_deref()
                .and_then(task::parse_schedstat)
                .is_none_or(has_run),
            own_uid: host.privilege.effective_uid,
            has_cap_sys_ptrace: host.privilege.has_cap_sys_ptrace,
            owner_uids: BTreeSet::new(),
        };
        Ok(TaskScanner {
            context: eye,
            processes: Vec::new(),
            idle_index: Vec::new(),
            active: Vec::new(),
            sub_sampled: Vec::new(),
            clock_polled: Vec::new(),
            own_pid: if root.is_host() { std::process::id() } else { 0 },
            pids: Vec::new(),
            exited_pids: Vec::new(),
            new_pids: NewPidTracker::new(namespaced),
            first_scan_ns: None,
            in_pid_namespace: namespaced,
            hides_processes: host.privilege.hidepid && !host.privilege.has_cap_sys_ptrace,
        })
    }

    /// Reads whatever may have changed since the last sweep. `births` was read before.
    /// The names of users are not looked up here.
    pub fn scan(&mut self, now_ns: u64, births: new_pids::ForkCounters) -> Tasks {
        self.context.now_ns = now_ns;
        self.context.scan_number = self.context.scan_number.wrapping_add(1);
        self.context.tasks_read = 0;
        self.context.affinity_reads_left = MAX_AFFINITY_READS;
        match self.new_pids.update(now_ns, births, self.processes.len()) {
            newcomers if newcomers == NewPids::Anywhere || !self.context.clocks.are_available() => self.walk_proc(),
            newcomers => {
                self.rescan_changed();
                if let NewPids::InRange(numbers) = newcomers {
                    self.find_new_pids(numbers);
                }
            }
        }
        self.refresh_parents();
        self.find_active();
        self.read_facts();
        self.examine_siblings_of_stuck();
        self.context.thread_activity.finish_scan();
        // One tick earlier: start times are cut down to whole ticks.
        self.context.last_scan_ticks = Some(self.context.ns_to_ticks(now_ns));
        self.first_scan_ns.get_or_insert(now_ns);
        self.find_sub_sampled(now_ns);
        self.find_clock_polled(now_ns);
        for &index in &self.active {
            if let Some((entry, known)) = self.idle_index.get_mut(index).zip(self.processes.get_mut(index)) {
                *entry = IdleEntry::park_and_index(known, now_ns);
            }
        }
        Tasks {
            processes: self.processes.iter().map(|known| Arc::clone(&known.sampled)).collect(),
            users: Arc::default(),
            hidden: self.hidden_tasks(),
        }
    }

    /// All processes as they were last seen.
    pub fn processes(&self) -> &[KnownProcess] {
        &self.processes
    }

    /// The processes that sub-samples look at, as they were last seen; to be annotated.
    pub fn sub_sampled_mut(&mut self) -> impl Iterator<Item = &mut KnownProcess> {
        select_mut(&mut self.processes, &self.sub_sampled)
    }

    /// Whether a thread may be waiting for a device, as it was last seen.
    pub fn has_blocked_threads(&self) -> bool {
        self.sub_sampled.iter().filter_map(|&place| self.processes.get(place)).any(KnownProcess::has_blocked_thread)
    }

    fn find_active(&mut self) {
        self.active.clear();
        self.active.extend((0..).zip(&self.idle_index).filter(|(_, entry)| !entry.is_idle()).map(|(index, _)| index));
    }

    /// Of a tree that stands for a machine: what the CPU clock of a process says, in nanoseconds.
    pub fn set_process_clock(&mut self, pid: u32, cpu_ns: u64) {
        self.context.clocks.set_fixed(pid, cpu_ns);
    }

    /// Tasks whose files the last sweep, and the sub-samples since, have read.
    pub fn tasks_read(&self) -> u32 {
        self.context.tasks_read
    }

    /// From now on the eBPF iterator may be loaded, by this program.
    pub fn allow_bpf_iterator(&mut self, program: PathBuf) {
        self.context.thread_activity.allow_iterator(program);
    }

    /// Whether the eBPF iterator is being loaded.
    pub fn is_loading_bpf_iterator(&self) -> bool {
        self.context.thread_activity.is_loading()
    }

    /// Whether the eBPF iterator tells which threads of a large process ran.
    pub fn has_bpf_iterator(&self) -> bool {
        self.context.thread_activity.uses_iterator()
    }

    /// Users that own a process, or did.
    pub fn owner_uids(&self) -> &BTreeSet<u32> {
        &self.context.owner_uids
    }

    pub fn files(&mut self) -> &mut TaskFiles {
        &mut self.context.files
    }

    /// Looks at those that may have moved.
    fn rescan_changed(&mut self) {
        let Self { processes, idle_index: roll, context: eye, exited_pids: ended, .. } = self;
        for (entry, index) in roll.iter_mut().zip(0..) {
            let clock_ns = eye.clocks.cpu_ns(entry.pid);
            if !entry.is_still_idle(clock_ns)
                && let Some(known) = processes.get_mut(index)
            {
                let stays = rescan(known, clock_ns, eye, ended);
                // Another one may have its number by now.
                let other = if stays { None } else { KnownProcess::discover(eye, known.pid).ok() };
                let gone = !stays && other.is_none();
                if let Some(other) = other {
                    *known = other;
                }
                *entry = IdleEntry::park_and_index(known, eye.now_ns);
                entry.is_gone = gone;
            }
        }
        self.remove_gone();
    }

    /// Forgets those that are gone.
    fn remove_gone(&mut self) {
        let Self { processes, idle_index: roll, .. } = self;
        if roll.iter().any(|entry| entry.is_gone) {
            let mut entries = roll.iter();
            processes.retain(|_| entries.next().is_some_and(|entry| !entry.is_gone));
            roll.retain(|entry| !entry.is_gone);
        }
    }

    /// Looks again and goes through /proc: some process may be new. Who is known stays where it is, and is not moved for
    /// a few others.
    fn walk_proc(&mut self) {
        self.rescan_changed();
        let Self { idle_index: roll, context: eye, exited_pids: ended, pids, .. } = self;
        eye.files.list_processes(pids);
        let mut known = roll.iter_mut().peekable();
        let mut unlisted = |entry: &mut IdleEntry| {
            entry.is_gone = true;
            ended.push(entry.pid);
        };
        pids.retain(|&pid| {
            while let Some(entry) = known.next_if(|entry| entry.pid < pid) {
                unlisted(entry);
            }
            known.next_if(|entry| entry.pid == pid).is_none()
        });
        known.for_each(&mut unlisted);
        self.remove_gone();
        let Self { processes, idle_index: roll, context: eye, pids, .. } = self;
        let before = processes.len();
        processes.reserve(pids.len());
        // One that ended between listing and reading was never there.
        processes.extend(pids.iter().filter_map(|&pid| KnownProcess::discover(eye, pid).ok()));
        roll.extend(processes.iter_mut().skip(before).map(|known| IdleEntry::park_and_index(known, eye.now_ns)));
        if !roll.is_sorted_by_key(|entry| entry.pid) {
            processes.sort_by_key(|known| known.pid);
            roll.sort_by_key(|entry| entry.pid);
        }
    }

    /// Whoever's parent ended has another one, though it may sleep.
    fn refresh_parents(&mut self) {
        let Self { processes, context: eye, exited_pids: ended, .. } = self;
        ended.sort_unstable();
        let orphans = processes.iter_mut().filter(|known| ended.binary_search(&known.sampled.ppid).is_ok());
        if !ended.is_empty() {
            orphans.for_each(|known| known.refresh_parent(eye));
        }
        ended.clear();
    }

    /// Asks each of these numbers whether it is a new process's: a clock that cannot be read is that of a thread, or of nobody.
    fn find_new_pids(&mut self, numbers: RangeInclusive<u32>) {
        // Our own thread's number reads the clock of the process.
        let own = u32::try_from(gettid().as_raw()).unwrap_or(0);
        for pid in numbers.filter(|&pid| pid != own) {
            let Err(place) = self.processes.binary_search_by_key(&pid, |known| known.pid) else { continue };
            if self.context.clocks.cpu_ns(pid).is_some()
                && let Ok(mut known) = KnownProcess::discover(&mut self.context, pid)
            {
                self.idle_index.insert(place, IdleEntry::park_and_index(&mut known, self.context.now_ns));
                self.processes.insert(place, known);
            }
        }
    }

    /// First those of processes that ran or are stuck, then the rest, each as far as the time allows.
    fn read_facts(&mut self) {
        let clock = || read_clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
        let rest_ns = match self.first_scan_ns {
            None => FACTS_BUDGET_FIRST_NS,
            Some(_) if self.is_warming_up(self.context.now_ns) => FACTS_BUDGET_WARM_UP_NS,
            Some(_) => FACTS_BUDGET_LATER_NS,
        };
        let Self { processes, active: up, context: eye, .. } = self;
        for (urgent, allowed) in [(true, FACTS_BUDGET_URGENT_NS.max(rest_ns)), (false, rest_ns)] {
            let wanted = |known: &&mut KnownProcess| match urgent {
                true => known.facts.is_urgent(!known.active.hot.is_empty()),
                false => known.facts.is_due(),
            };
            let mut begin = None;
            for (number, known) in select_mut(processes, up).filter(wanted).enumerate() {
                // Mostly there is nothing to be read, and our own clock is not asked.
                if number % 8 == 0 && clock().saturating_sub(*begin.get_or_insert_with(clock)) >= allowed {
                    break;
                }
                facts::read(known, eye);
            }
        }
    }

    fn is_warming_up(&self, now_ns: u64) -> bool {
        self.first_scan_ns.is_none_or(|first| now_ns.saturating_sub(first) < WARM_UP_NS)
    }

    /// Processes that wait for a lock which a stuck sibling has do not work, so nobody would ever look at them.
    fn examine_siblings_of_stuck(&mut self) {
        let stuck: BTreeSet<GroupId> = self
            .active
            .iter()
            .filter_map(|&index| self.processes.get(index))
            .filter(|known| known.has_stuck_thread())
            .map(|known| known.sampled.group())
            .filter(|group| matches!(group, GroupId::Siblings { .. }))
            .collect();
        if stuck.is_empty() {
            return;
        }
        let parents: BTreeSet<u32> = stuck.iter().filter_map(GroupId::parent).collect();
        let mut left = MAX_SIBLINGS_EXAMINED;
        for (known, entry) in self.processes.iter_mut().zip(&mut self.idle_index) {
            let asked = left > 0 && parents.contains(&known.sampled.ppid) && stuck.contains(&known.sampled.group());
            if asked && known.examine_sibling(&mut self.context) {
                left -= 1;
                *entry = IdleEntry::park_and_index(known, self.context.now_ns);
            }
        }
        self.find_active();
    }

    fn known_process(&self, pid: u32) -> Option<&KnownProcess> {
        let at = self.processes.binary_search_by_key(&pid, |known| known.pid).ok()?;
        self.processes.get(at)
    }

    fn hidden_tasks(&self) -> HiddenTasks {
        let mut hidden = HiddenTasks { processes: self.in_pid_namespace || self.hides_processes, ..HiddenTasks::default() };
        for entry in &self.idle_index {
            hidden.wait_channels = hidden.wait_channels.saturating_add(entry.hidden.0);
            hidden.schedstats = hidden.schedstats.saturating_add(entry.hidden.1);
        }
        hidden
    }
}

impl ProcessLookup for TaskScanner {
    fn process(&self, pid: u32) -> Option<ProcessIdentity<'_>> {
        let process = &self.known_process(pid)?.sampled;
        let start_ns = u128::from(process.start_ticks) * 1_000_000_000 / u128::from(self.context.ticks_per_second);
        Some(ProcessIdentity {
            id: process.id(),
            start_ns: u64::try_from(start_ns).unwrap_or(u64::MAX),
            ppid: process.ppid,
            comm: &process.comm,
        })
    }

    fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.known_process(pid).is_some_and(|known| known.sampled.thread(tid).is_some())
    }
}

/// Looks at a known process again: whether it is still there. One that ended is noted, also while nobody has waited for it.
fn rescan(known: &mut KnownProcess, clock_ns: Option<u64>, eye: &mut ScanContext, ended: &mut Vec<u32>) -> bool {
    let seen = known.rescan(eye, clock_ns);
    if seen == ProcessChange::Gone || (seen == ProcessChange::Changed && known.is_zombie()) {
        ended.push(known.pid);
    }
    seen != ProcessChange::Gone
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
