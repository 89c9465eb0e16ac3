//! One look at all tasks. It remembers what it saw so as not to read it again: a cache of facts, never a difference.
//!
//! The interface is small on purpose (`sweep`, `glance`, `awake`): a task iterator in the kernel may take its place.

mod between;
pub mod births;
mod books;
mod clock;
mod facts;
mod names;
mod process;
mod ran;
mod roll;
#[cfg(test)]
mod tests;
pub mod thread;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use nix::time::ClockId;
use nix::unistd::gettid;

use births::{Births, Newcomers};
pub use clock::{ProcessClocks, nanoseconds};
use process::Seen;
pub use process::{KnownProcess, Watched};
pub use thread::KnownThread;

use super::exits::{Kin, Relative};
use super::root::Root;
use super::task::{self, files::TaskFiles};
use crate::ids::GroupId;
use crate::sample::host::Host;
use crate::sample::task::{Hidden, Sched, Tasks};
use crate::sample::{Name, Reading};
use names::Names;
use ran::Ran;
use roll::Entry;

/// CPU time that slow facts may take: in the first sweep, for a fast first screen; in the next ones, so that most of them are
/// known before anybody has read it; and then, when nobody is in a hurry for those of processes that do nothing.
const FACTS_FIRST_NS: u64 = 16_000_000;
const FACTS_WARM_UP_NS: u64 = 25_000_000;
const FACTS_LATER_NS: u64 = 1_000_000;
/// Those of processes at work, which are read before the others.
const FACTS_URGENT_NS: u64 = 10_000_000;
/// Threads whose allowed CPUs are read in one sweep: a status each.
const ALLOWED_AT_ONCE: u32 = 64;
/// Processes that look parked, but have a stuck sibling: so many are examined in one sweep.
const SIBLINGS_AT_ONCE: usize = 64;
/// Until so long after the first sweep nothing is known about who runs: all clocks are asked.
const WARM_UP_NS: u64 = 1_500_000_000;
/// The inode of the initial pid namespace: PROC_PID_INIT_INO of include/linux/proc_ns.h.
pub const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// All that is known about all tasks.
#[derive(Debug)]
pub struct Sweep {
    eye: Eye,
    /// Sorted by pid.
    processes: Vec<KnownProcess>,
    /// Beside `processes`, in the same order
    roll: Vec<Entry>,
    /// Indices of those that are not at rest
    up: Vec<usize>,
    /// Indices of those that sub-samples look at: few of many.
    awake: Vec<usize>,
    /// Indices of those whose clocks sub-samples ask though they sleep
    warm: Vec<usize>,
    pids: Vec<u32>,
    /// Those that this sweep has found to have ended
    ended: Vec<u32>,
    /// The monitor is not part of the box's work: sub-samples leave it out.
    own_pid: u32,
    births: Births,
    first_sweep_ns: Option<u64>,
    namespaced: bool,
    hidepid: bool,
}

/// What every look needs.
#[derive(Debug)]
pub struct Eye {
    pub files: TaskFiles,
    pub names: Names,
    pub clocks: ProcessClocks,
    pub machine: Name,
    pub ran: Ran,
    /// CLOCK_BOOTTIME of the look.
    pub now_ns: u64,
    /// The number of the last sub-sample
    pub look: u32,
    /// How many sweeps there were
    pub sweeps: u32,
    /// Processes that sub-samples look at
    pub awake: usize,
    pub tasks_read: u32,
    pub tids: Vec<u32>,
    /// Threads whose CPUs may still be asked for in this sweep.
    pub allowed_left: u32,
    /// CLOCK_BOOTTIME of the sweep before, in ticks: what started later is new.
    previous_sweep_ticks: Option<u64>,
    ticks_per_second: u64,
    /// A kernel without CONFIG_SCHED_INFO gives three zeros to all.
    has_schedstat: bool,
    user: u32,
    sees_other_users: bool,
    /// Who owns a process, or did.
    pub owners: BTreeSet<u32>,
}

impl Eye {
    /// Whether what started then cannot have been there at the sweep before, and has run since.
    fn is_born(&self, start_ticks: u64) -> bool {
        self.previous_sweep_ticks.is_some_and(|previous| start_ticks >= previous)
    }

    /// Whether wait channels and system calls of that user's tasks may be read.
    fn sees(&self, uid: u32) -> bool {
        self.sees_other_users || uid == self.user
    }

    fn ticks(&self, ns: u64) -> u64 {
        u64::try_from(u128::from(ns) * u128::from(self.ticks_per_second) / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

fn has_run(sched: Sched) -> bool {
    sched.timeslices.0 > 0
}

impl Sweep {
    /// Knows nothing yet. Fails only when there is no /proc.
    pub fn new(root: &Root, host: &Host) -> Reading<Sweep> {
        let namespace = root.read_link("proc/self/ns/pid");
        let namespaced = namespace.is_ok_and(|link| link.as_os_str() != INITIAL_PID_NAMESPACE);
        let clocks = ProcessClocks::of(root);
        let eye = Eye {
            files: TaskFiles::open(root)?,
            names: Names::default(),
            ran: Ran::new(clocks.can_tell() && !namespaced),
            clocks,
            machine: host.machine.clone(),
            now_ns: 0,
            look: 0,
            sweeps: 0,
            awake: 0,
            tasks_read: 0,
            tids: Vec::new(),
            allowed_left: 0,
            previous_sweep_ticks: None,
            ticks_per_second: host.ticks_per_second.max(1),
            has_schedstat: root.read_once("proc/self/schedstat").ok().as_deref().and_then(task::schedstat).is_none_or(has_run),
            user: host.privilege.effective_uid,
            sees_other_users: host.privilege.sees_other_users,
            owners: BTreeSet::new(),
        };
        Ok(Sweep {
            eye,
            processes: Vec::new(),
            roll: Vec::new(),
            up: Vec::new(),
            awake: Vec::new(),
            warm: Vec::new(),
            own_pid: if root.is_host() { std::process::id() } else { 0 },
            pids: Vec::new(),
            ended: Vec::new(),
            births: Births::new(namespaced),
            first_sweep_ns: None,
            namespaced,
            hidepid: host.privilege.hidepid && !host.privilege.sees_other_users,
        })
    }

    /// Reads whatever may have changed since the last sweep. `births` was read before.
    /// The names of users are not looked up here.
    pub fn sweep(&mut self, now_ns: u64, births: births::Count) -> Tasks {
        self.eye.now_ns = now_ns;
        self.eye.sweeps = self.eye.sweeps.wrapping_add(1);
        self.eye.tasks_read = 0;
        self.eye.allowed_left = ALLOWED_AT_ONCE;
        match self.births.since(now_ns, births, self.processes.len()) {
            newcomers if newcomers == Newcomers::Anywhere || !self.eye.clocks.can_tell() => self.walk(),
            newcomers => {
                self.look_again();
                if let Newcomers::Among(numbers) = newcomers {
                    self.find(numbers);
                }
            }
        }
        self.find_parents();
        self.find_up();
        self.read_facts();
        self.examine_siblings();
        self.eye.ran.end();
        // One tick earlier: start times are cut down to whole ticks.
        self.eye.previous_sweep_ticks = Some(self.eye.ticks(now_ns));
        self.first_sweep_ns.get_or_insert(now_ns);
        self.find_awake(now_ns);
        self.find_warm(now_ns);
        for &index in &self.up {
            if let Some((entry, known)) = self.roll.get_mut(index).zip(self.processes.get_mut(index)) {
                *entry = Entry::of(known, now_ns);
            }
        }
        Tasks {
            processes: self.processes.iter().map(|known| Arc::clone(&known.shared)).collect(),
            users: Arc::default(),
            hidden: self.hidden(),
        }
    }

    /// All processes as they were last seen.
    pub fn known(&self) -> &[KnownProcess] {
        &self.processes
    }

    /// The processes that sub-samples look at, as they were last seen; to be annotated.
    pub fn awake(&mut self) -> impl Iterator<Item = &mut KnownProcess> {
        at_places(&mut self.processes, &self.awake)
    }

    /// Whether a thread may be waiting for a device, as it was last seen.
    pub fn has_blocked(&self) -> bool {
        self.awake.iter().filter_map(|&place| self.processes.get(place)).any(KnownProcess::has_blocked)
    }

    fn find_up(&mut self) {
        self.up.clear();
        self.up.extend((0..).zip(&self.roll).filter(|(_, entry)| !entry.is_at_rest()).map(|(index, _)| index));
    }

    /// Of a tree that stands for a machine: what the CPU clock of a process says, in nanoseconds.
    pub fn give_clock(&mut self, pid: u32, cpu_ns: u64) {
        self.eye.clocks.give(pid, cpu_ns);
    }

    /// Tasks whose files the last sweep, and the sub-samples since, have read.
    pub fn tasks_read(&self) -> u32 {
        self.eye.tasks_read
    }

    /// From now on the eBPF iterator may be loaded, by this program.
    pub fn permit_iterator(&mut self, program: PathBuf) {
        self.eye.ran.permit(program);
    }

    /// Whether the eBPF iterator is being loaded.
    pub fn is_loading_iterator(&self) -> bool {
        self.eye.ran.is_loading()
    }

    /// Whether the eBPF iterator tells which threads of a large process ran.
    pub fn has_iterator(&self) -> bool {
        self.eye.ran.is_by_iterator()
    }

    /// Users that own a process, or did.
    pub fn owners(&self) -> &BTreeSet<u32> {
        &self.eye.owners
    }

    pub fn files(&mut self) -> &mut TaskFiles {
        &mut self.eye.files
    }

    /// Looks at those that may have moved.
    fn look_again(&mut self) {
        let Self { processes, roll, eye, ended, .. } = self;
        for (entry, index) in roll.iter_mut().zip(0..) {
            let clock_ns = eye.clocks.cpu_ns(entry.pid);
            if !entry.still_rests(clock_ns)
                && let Some(known) = processes.get_mut(index)
            {
                let stays = look(known, clock_ns, eye, ended);
                // Another one may have its number by now.
                let other = if stays { None } else { KnownProcess::first(eye, known.pid).ok() };
                let gone = !stays && other.is_none();
                if let Some(other) = other {
                    *known = other;
                }
                *entry = Entry::of(known, eye.now_ns);
                entry.gone = gone;
            }
        }
        self.strike_off();
    }

    /// Forgets those that are gone.
    fn strike_off(&mut self) {
        let Self { processes, roll, .. } = self;
        if roll.iter().any(|entry| entry.gone) {
            let mut entries = roll.iter();
            processes.retain(|_| entries.next().is_some_and(|entry| !entry.gone));
            roll.retain(|entry| !entry.gone);
        }
    }

    /// Looks again and goes through /proc: some process may be new. Who is known stays where it is, and is not moved for
    /// a few others.
    fn walk(&mut self) {
        self.look_again();
        let Self { roll, eye, ended, pids, .. } = self;
        eye.files.list_processes(pids);
        let mut known = roll.iter_mut().peekable();
        let mut unlisted = |entry: &mut Entry| {
            entry.gone = true;
            ended.push(entry.pid);
        };
        pids.retain(|&pid| {
            while let Some(entry) = known.next_if(|entry| entry.pid < pid) {
                unlisted(entry);
            }
            known.next_if(|entry| entry.pid == pid).is_none()
        });
        known.for_each(&mut unlisted);
        self.strike_off();
        let Self { processes, roll, eye, pids, .. } = self;
        let before = processes.len();
        processes.reserve(pids.len());
        // One that ended between listing and reading was never there.
        processes.extend(pids.iter().filter_map(|&pid| KnownProcess::first(eye, pid).ok()));
        roll.extend(processes.iter_mut().skip(before).map(|known| Entry::of(known, eye.now_ns)));
        if !roll.is_sorted_by_key(|entry| entry.pid) {
            processes.sort_by_key(|known| known.pid);
            roll.sort_by_key(|entry| entry.pid);
        }
    }

    /// Whoever's parent ended has another one, though it may sleep.
    fn find_parents(&mut self) {
        let Self { processes, eye, ended, .. } = self;
        ended.sort_unstable();
        let orphans = processes.iter_mut().filter(|known| ended.binary_search(&known.shared.ppid).is_ok());
        if !ended.is_empty() {
            orphans.for_each(|known| known.ask_parent(eye));
        }
        ended.clear();
    }

    /// Asks each of these numbers whether it is a new process's: a clock that cannot be read is that of a thread, or of nobody.
    fn find(&mut self, numbers: RangeInclusive<u32>) {
        // Our own thread's number reads the clock of the process.
        let own = u32::try_from(gettid().as_raw()).unwrap_or(0);
        for pid in numbers.filter(|&pid| pid != own) {
            let Err(place) = self.processes.binary_search_by_key(&pid, |known| known.pid) else { continue };
            if self.eye.clocks.cpu_ns(pid).is_some()
                && let Ok(mut known) = KnownProcess::first(&mut self.eye, pid)
            {
                self.roll.insert(place, Entry::of(&mut known, self.eye.now_ns));
                self.processes.insert(place, known);
            }
        }
    }

    /// First those of processes that ran or are stuck, then the rest, each as far as the time allows.
    fn read_facts(&mut self) {
        let clock = || nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
        let rest_ns = match self.first_sweep_ns {
            None => FACTS_FIRST_NS,
            Some(_) if self.is_warming_up(self.eye.now_ns) => FACTS_WARM_UP_NS,
            Some(_) => FACTS_LATER_NS,
        };
        let Self { processes, up, eye, .. } = self;
        for (urgent, allowed) in [(true, FACTS_URGENT_NS.max(rest_ns)), (false, rest_ns)] {
            let wanted = |known: &&mut KnownProcess| match urgent {
                true => known.facts.is_urgent(!known.up.hot.is_empty()),
                false => known.facts.is_due(),
            };
            let mut begin = None;
            for (number, known) in at_places(processes, up).filter(wanted).enumerate() {
                // Mostly there is nothing to be read, and our own clock is not asked.
                if number % 8 == 0 && clock().saturating_sub(*begin.get_or_insert_with(clock)) >= allowed {
                    break;
                }
                facts::read(known, eye);
            }
        }
    }

    fn is_warming_up(&self, now_ns: u64) -> bool {
        self.first_sweep_ns.is_none_or(|first| now_ns.saturating_sub(first) < WARM_UP_NS)
    }

    /// Processes that wait for a lock which a stuck sibling has do not work, so nobody would ever look at them.
    fn examine_siblings(&mut self) {
        let stuck: BTreeSet<GroupId> = self
            .up
            .iter()
            .filter_map(|&index| self.processes.get(index))
            .filter(|known| known.is_stuck())
            .map(|known| known.shared.group())
            .filter(|group| matches!(group, GroupId::Siblings { .. }))
            .collect();
        if stuck.is_empty() {
            return;
        }
        let parents: BTreeSet<u32> = stuck.iter().filter_map(GroupId::parent).collect();
        let mut left = SIBLINGS_AT_ONCE;
        for (known, entry) in self.processes.iter_mut().zip(&mut self.roll) {
            let asked = left > 0 && parents.contains(&known.shared.ppid) && stuck.contains(&known.shared.group());
            if asked && known.examine_sibling(&mut self.eye) {
                left -= 1;
                *entry = Entry::of(known, self.eye.now_ns);
            }
        }
        self.find_up();
    }

    fn known_process(&self, pid: u32) -> Option<&KnownProcess> {
        let at = self.processes.binary_search_by_key(&pid, |known| known.pid).ok()?;
        self.processes.get(at)
    }

    fn hidden(&self) -> Hidden {
        let mut hidden = Hidden { processes: self.namespaced || self.hidepid, ..Hidden::default() };
        for entry in &self.roll {
            hidden.wait_channels = hidden.wait_channels.saturating_add(entry.hidden.0);
            hidden.schedstats = hidden.schedstats.saturating_add(entry.hidden.1);
        }
        hidden
    }
}

impl Kin for Sweep {
    fn process(&self, pid: u32) -> Option<Relative<'_>> {
        let process = &self.known_process(pid)?.shared;
        let start_ns = u128::from(process.start_ticks) * 1_000_000_000 / u128::from(self.eye.ticks_per_second);
        Some(Relative {
            id: process.id(),
            start_ns: u64::try_from(start_ns).unwrap_or(u64::MAX),
            ppid: process.ppid,
            comm: &process.comm,
        })
    }

    fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.known_process(pid).is_some_and(|known| known.shared.thread(tid).is_some())
    }
}

/// Looks at a known process again: whether it is still there. One that ended is noted, also while nobody has waited for it.
fn look(known: &mut KnownProcess, clock_ns: Option<u64>, eye: &mut Eye, ended: &mut Vec<u32>) -> bool {
    let seen = known.look(eye, clock_ns);
    if seen == Seen::Gone || (seen == Seen::Moved && known.is_zombie()) {
        ended.push(known.pid);
    }
    seen != Seen::Gone
}

/// The items at these places, which are sorted.
fn at_places<'a, T>(items: &'a mut [T], places: &'a [usize]) -> impl Iterator<Item = &'a mut T> {
    let (mut rest, mut passed) = (items, 0);
    places.iter().map_while(move |&place| {
        let (item, behind) = std::mem::take(&mut rest).split_at_mut_checked(place.checked_sub(passed)?)?.1.split_first_mut()?;
        (rest, passed) = (behind, place + 1);
        Some(item)
    })
}
