//! Whether threads that may wait for a lock by inference take turns on storage with the thread that is there.
//!
//! An active thread in a condition variable or semaphore looks the same whether it waits for a lock or for work. Behind a lock that is held
//! through I/O each thread is on storage when its turn comes; idle workers beside one thread that writes a log never are. And what waits
//! in a private futex waits for a thread of its own process. docs/metrics.md, "Idle but blocked".

use rustc_hash::{FxHashMap, FxHashSet};

use super::blocked_threads::{BlockedThread, LONG_WAIT_NS};
use super::wait_counts::{ClassifiedWait, GroupWaits, MIN_ON_STORAGE_SHARE, WaitCounts};
use crate::ids::{GroupId, TaskId};
use crate::sample::waits::{FutexWait, WaitClass};
use crate::sample::{Host, Sample};
use crate::units::reaches_threshold;

/// Share of a group's or process's sightings on storage that other threads of the crowd than the most seen one must have, so that the crowd
/// takes turns there. docs/metrics.md, "Fixed thresholds".
const MIN_TURNS_SHARE: f64 = 0.2;

/// A thread that is on storage in this share of the sub-samples or more may be one that writes for others, such as the log writer of a
/// database. docs/metrics.md, "Fixed thresholds".
const MIN_WRITER_SHARE: f64 = 0.8;
/// Threads that wait in step with it from which they count. docs/metrics.md, "Fixed thresholds".
const MIN_IN_STEP_THREADS: usize = 4;
/// Processes with threads in shared futexes from which one that has been on storage for long holds what they wait for.
/// docs/metrics.md, "Fixed thresholds".
const MIN_SHARED_PROCESSES: usize = 4;
/// They run at least this often for each time that it runs, and at most so often. docs/metrics.md, "Fixed thresholds".
const MIN_STEP_RATIO: f64 = 0.25;
const MAX_STEP_RATIO: f64 = 2.0;

/// What this interval and the one before it show of each group, by index into `Waits::groups`.
#[derive(Clone, Debug, Default)]
pub struct StorageTurns {
    groups: Vec<GroupTurns>,
    /// Pids of the processes with threads in private futexes that may wait for a thread of them on storage
    processes: FxHashSet<u32>,
}

/// Which threads of a group in futexes may wait for a thread on storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupTurns {
    /// Of those in futex calls that show a held lock: the share that may. The others are in private futexes of processes without a
    /// thread on storage
    pub contended: f64,
    /// Of those that wait for a lock by inference: the share that may
    pub inferred: f64,
    /// Part of `inferred`: threads were seen to take turns. Of the others one thread is in one long wait on storage, so that no turn
    /// could be seen, or they run in step with one that is on storage nearly all the time.
    pub seen: f64,
    /// Of threads in futexes that processes share, `inferred` is more than 0.
    shared: bool,
}

impl Default for GroupTurns {
    fn default() -> GroupTurns {
        GroupTurns { contended: 1.0, inferred: 0.0, seen: 0.0, shared: false }
    }
}

/// Sightings of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Sightings {
    storage: u32,
    /// Part of `storage`: in this interval
    storage_now: u32,
    /// In a futex, private or not, that may be a lock
    futex: u32,
    /// In this interval
    private_inferred: u32,
    shared_inferred: u32,
    private_contended: u32,
    shared_contended: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    Seen,
    /// One thread has been in one wait on storage for so long that no other one could have had its turn, or writes for the others.
    Possible,
    None,
}

impl StorageTurns {
    pub(super) fn new(host: &Host, older: &Sample, newer: &Sample, counts: &WaitCounts) -> StorageTurns {
        let mut turns =
            StorageTurns { groups: vec![GroupTurns::default(); newer.waits.groups.len()], processes: FxHashSet::default() };
        let relevant = relevant_groups(newer.waits.groups.len(), counts);
        if !relevant.contains(&true) {
            return turns;
        }
        let mut threads: FxHashMap<(u16, TaskId), Sightings> = FxHashMap::default();
        let is_relevant = |group: u16| relevant.get(usize::from(group)).copied().unwrap_or(false);
        for row in newer.waits.threads.iter().filter(|row| is_relevant(row.group)) {
            let Some(wait) = counts.class_in_group(row.group, row.wait) else { continue };
            threads.entry((row.group, row.task)).or_default().add(wait, row.seen_count, true);
        }
        add_earlier_sightings(host, older, newer, is_relevant, &mut threads);
        let long = long_waits_on_storage(host, newer);
        let timeslices = |task| {
            let of =
                |sample: &Sample| sample.tasks.as_ref().ok()?.thread(task)?.1.schedstat.map(|schedstat| schedstat.timeslices);
            of(newer)?.since(of(older)?)
        };
        let mut groups: FxHashMap<u16, Vec<(TaskId, Sightings)>> = FxHashMap::default();
        for ((group, task), seen) in threads {
            groups.entry(group).or_default().push((task, seen));
        }
        for (group, of_group) in groups {
            let found = turns.evaluate(group, &of_group, &long, counts.sub_samples.len(), &timeslices);
            if let Some(slot) = turns.groups.get_mut(usize::from(group)) {
                *slot = found;
            }
        }
        turns
    }

    /// Of the group with this index into `Waits::groups`.
    pub fn group(&self, group: u16) -> GroupTurns {
        self.groups.get(usize::from(group)).copied().unwrap_or_default()
    }

    /// Whether a thread of this process that waits for a lock by inference may wait for a thread on storage.
    pub fn may_wait(&self, group: u16, pid: u32) -> bool {
        self.group(group).shared || self.processes.contains(&pid)
    }

    fn evaluate(
        &mut self,
        group: u16,
        threads: &[(TaskId, Sightings)],
        long: &[(u16, u32)],
        sub_samples: usize,
        timeslices: &impl Fn(TaskId) -> Option<u64>,
    ) -> GroupTurns {
        let mut processes: FxHashMap<u32, Vec<(TaskId, Sightings)>> = FxHashMap::default();
        for thread in threads {
            processes.entry(thread.0.pid).or_default().push(*thread);
        }
        let has_writer = |threads| runs_in_step(threads, sub_samples, timeslices);
        let has_long_wait = long.iter().any(|(of, _)| *of == group);
        let of_group = turns_of(threads, has_long_wait || has_writer(threads));
        // Idle processes wait for their clients, not in a futex that they share.
        let in_shared = |own: &&Vec<(TaskId, Sightings)>| own.iter().any(|(_, sightings)| sightings.shared_inferred > 0);
        let is_queue = has_long_wait && processes.values().filter(in_shared).count() >= MIN_SHARED_PROCESSES;
        let (mut contended, mut inferred) = (Share::default(), Share::default());
        let mut seen = Share::default();
        for (pid, own) in &processes {
            let of_process = turns_of(own, long.contains(&(group, *pid)) || has_writer(own));
            let storage: u32 = own.iter().map(|(_, sightings)| sightings.storage).sum();
            let is_enough = reaches_threshold(f64::from(storage), MIN_ON_STORAGE_SHARE * sub_samples as f64) && storage > 0;
            let on_storage = is_enough || processes.len() == 1;
            for (_, sightings) in own {
                contended.add(sightings.private_contended, on_storage);
                contended.add(sightings.shared_contended, true);
                inferred.add(sightings.private_inferred, of_process != Turns::None);
                inferred.add(sightings.shared_inferred, of_group != Turns::None);
                seen.add(sightings.private_inferred, of_process == Turns::Seen);
                seen.add(sightings.shared_inferred, of_group == Turns::Seen || is_queue);
            }
            if of_process != Turns::None {
                self.processes.insert(*pid);
            }
        }
        // A lone thread in the futex call of a contended mutex counts as one by inference, but has no sightings as such.
        let alone = if of_group == Turns::None { 0.0 } else { contended.or(0.0) };
        let in_shared = threads.iter().any(|(_, sightings)| sightings.shared_inferred > 0);
        GroupTurns {
            contended: contended.or(1.0),
            inferred: inferred.or(alone),
            seen: seen.or(if of_group == Turns::Seen { alone } else { 0.0 }),
            shared: in_shared && of_group != Turns::None,
        }
    }
}

impl Sightings {
    fn add(&mut self, wait: ClassifiedWait, seen_count: u16, is_now: bool) {
        let seen_count = u32::from(seen_count);
        // Several of them at one address count like a contended mutex.
        if let Some(FutexWait::LikelyMutex { .. }) = wait.futex
            && wait.class == WaitClass::Futex
            && is_now
        {
            let count = if wait.is_private_futex { &mut self.private_contended } else { &mut self.shared_contended };
            *count = count.saturating_add(seen_count);
        }
        let is_contended = matches!(
            wait.futex,
            Some(
                FutexWait::ContendedMutex { .. }
                    | FutexWait::OwnerWord { .. }
                    | FutexWait::RwLock { .. }
                    | FutexWait::PiLock { .. }
                    | FutexWait::LightweightLock { .. }
                    | FutexWait::JavaLock { .. }
            )
        );
        let count = match (wait.class, is_contended) {
            (WaitClass::Disk, _) => {
                self.storage = self.storage.saturating_add(seen_count);
                self.storage_now = self.storage_now.saturating_add(if is_now { seen_count } else { 0 });
                return;
            }
            (WaitClass::Futex, _) if wait.is_private_futex => &mut self.private_inferred,
            (WaitClass::Futex, _) => &mut self.shared_inferred,
            (WaitClass::Lock, true) if wait.is_private_futex => &mut self.private_contended,
            (WaitClass::Lock, true) => &mut self.shared_contended,
            _ => return,
        };
        if is_now {
            *count = count.saturating_add(seen_count);
        }
        self.futex = self.futex.saturating_add(seen_count);
    }
}

/// Sightings of which a condition holds, of all.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    part: f64,
    whole: f64,
}

impl Share {
    fn add(&mut self, seen_count: u32, is_part: bool) {
        self.whole += f64::from(seen_count);
        self.part += if is_part { f64::from(seen_count) } else { 0.0 };
    }

    /// The share, or `none` without sightings.
    fn or(self, none: f64) -> f64 {
        if self.whole > 0.0 { self.part / self.whole } else { none }
    }
}

/// Groups with a thread on storage and threads in futexes.
fn relevant_groups(groups: usize, counts: &WaitCounts) -> Vec<bool> {
    let seen = |is_there: fn(&GroupWaits) -> bool| {
        let mut found = vec![false; groups];
        for row in counts.sub_samples.iter().flatten().filter(|row| is_there(row)) {
            if let Some(slot) = found.get_mut(usize::from(row.group)) {
                *slot = true;
            }
        }
        found
    };
    let in_futex = seen(|row| row.lock_inferred > 0 || row.lock_contended > row.kernel_lock + row.file_lock);
    seen(|row| row.storage > 0).into_iter().zip(in_futex).map(|(storage, futex)| storage && futex).collect()
}

/// Adds what the sub-samples of the interval before this one saw of these groups.
fn add_earlier_sightings(
    host: &Host,
    older: &Sample,
    newer: &Sample,
    is_relevant: impl Fn(u16) -> bool,
    threads: &mut FxHashMap<(u16, TaskId), Sightings>,
) {
    let known: FxHashMap<&GroupId, u16> = newer.waits.groups.iter().zip(0..).collect();
    let number = |id: &GroupId| known.get(id).copied().filter(|group| is_relevant(*group));
    let numbers: Vec<Option<u16>> = older.waits.groups.iter().map(number).collect();
    let mut classified: FxHashMap<u32, Option<ClassifiedWait>> = FxHashMap::default();
    for row in &older.waits.threads {
        let Some(group) = numbers.get(usize::from(row.group)).copied().flatten() else { continue };
        let wait = classified
            .entry(row.wait)
            .or_insert_with(|| older.waits.observed_wait(row.wait).map(|wait| ClassifiedWait::new(wait, host)));
        if let Some(wait) = wait {
            threads.entry((group, row.task)).or_default().add(*wait, row.seen_count, false);
        }
    }
}

/// Group and pid of threads that the last sub-sample saw in a wait on storage that has lasted for long.
fn long_waits_on_storage(host: &Host, newer: &Sample) -> Vec<(u16, u32)> {
    let Some(last) = newer.waits.sub_samples.last() else { return Vec::new() };
    let number = newer.waits.sub_samples.len() - 1;
    let is_long = |since_ns: u64| last.boottime_ns.saturating_sub(since_ns) >= LONG_WAIT_NS;
    let waits = newer.waits.blocked.iter().filter(|wait| {
        usize::from(wait.last_sub_sample) == number
            && is_long(wait.blocked_since_ns)
            && BlockedThread::new(host.machine.as_bytes(), wait).class == WaitClass::Disk
    });
    waits.map(|wait| (wait.group, wait.task.pid)).collect()
}

/// Whether threads in futexes run about as often as one thread that is on storage nearly all the time: each time that it has written
/// they go on. Idle workers run far less often.
fn runs_in_step(threads: &[(TaskId, Sightings)], sub_samples: usize, timeslices: &impl Fn(TaskId) -> Option<u64>) -> bool {
    let Some((writer, seen)) = threads.iter().max_by_key(|(_, seen)| seen.storage_now) else { return false };
    if !reaches_threshold(f64::from(seen.storage_now), MIN_WRITER_SHARE * sub_samples as f64) {
        return false;
    }
    let Some(written) = timeslices(*writer).filter(|&slices| slices > 0) else { return false };
    let others = threads.iter().filter(|(task, seen)| task != writer && seen.private_inferred + seen.shared_inferred > 0);
    let mut ran: Vec<u64> = others.filter_map(|(task, _)| timeslices(*task)).collect();
    ran.sort_unstable();
    let median = ran.get(ran.len() / 2).map_or(0.0, |&slices| slices as f64 / written as f64);
    ran.len() >= MIN_IN_STEP_THREADS && (MIN_STEP_RATIO..=MAX_STEP_RATIO).contains(&median)
}

/// Whether these threads take turns on storage: several of those that wait in futexes were seen there, and not nearly always the same one.
fn turns_of(threads: &[(TaskId, Sightings)], is_possible: bool) -> Turns {
    let all: u32 = threads.iter().map(|(_, seen)| seen.storage).sum();
    let of_crowd = || threads.iter().map(|(_, seen)| seen).filter(|seen| seen.futex > 0).map(|seen| seen.storage);
    let others = of_crowd().sum::<u32>() - of_crowd().max().unwrap_or(0);
    if others > 0 && reaches_threshold(f64::from(others), f64::from(all) * MIN_TURNS_SHARE) {
        Turns::Seen
    } else if is_possible {
        Turns::Possible
    } else {
        Turns::None
    }
}
