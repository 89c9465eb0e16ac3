//! Many intervals as one: what a whole run, or a longer stretch of a recording, comes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Look;
use crate::baseline::Standing;
use crate::findings::Judged;
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::idle_blocked::IdleBlocked;
use crate::sample::Sample;
use crate::sample::context_switches::TaskContextSwitches;
use crate::sample::task::{Process, TaskState, Tasks, Thread};

/// Intervals that follow each other.
#[derive(Debug, Default)]
pub struct Run {
    first: Option<Arc<Sample>>,
    last: Option<Arc<Interval>>,
    standings: Arc<[Standing]>,
    intervals: u64,
    /// The machine was started anew in between, or it is another one: no counter goes on from the first sample to the last
    is_broken: bool,
    blocked: Blocked,
    /// Processes that ended, as they were last seen
    ended: BTreeMap<ProcessId, Arc<Process>>,
    /// Threads that ended before their processes did, as they were last seen
    ended_threads: BTreeMap<ProcessId, BTreeMap<u32, Thread>>,
    /// How many those are
    threads: usize,
    /// The context switches of all who ended
    ended_switches: BTreeMap<TaskId, TaskContextSwitches>,
}

/// What the run comes to.
pub struct Whole {
    pub interval: Arc<Interval>,
    pub standings: Arc<[Standing]>,
}

impl Whole {
    pub fn look(&self) -> Look<'_> {
        Look { interval: &self.interval, standings: &self.standings }
    }
}

/// So many processes, and so many threads, that ended are remembered.
const MOST_ENDED: usize = 100_000;

impl Run {
    pub fn add(&mut self, judged: &Judged) {
        let interval = &judged.interval;
        self.is_broken |= !self.goes_on_in(judged);
        if self.first.is_none() {
            self.first = Some(Arc::clone(&interval.older));
        }
        if let (Ok(was), Ok(now)) = (&interval.older.tasks, &interval.newer.tasks) {
            self.remember(was, now);
        }
        if let (Ok(was), Ok(now)) = (&interval.older.context_switches, &interval.newer.context_switches) {
            let gone = was.iter().filter(|old| now.binary_search_by_key(&old.task, |new| new.task).is_err());
            let room = (2 * MOST_ENDED).saturating_sub(self.ended_switches.len());
            self.ended_switches.extend(gone.take(room).map(|old| (old.task, *old)));
        }
        self.blocked.add(interval);
        self.standings = Arc::clone(&judged.standings);
        self.last = Some(Arc::clone(interval));
        self.intervals += 1;
    }

    /// Whoever ended in between.
    fn remember(&mut self, was: &Tasks, now: &Tasks) {
        for old in &was.processes {
            match now.process(old.pid).filter(|new| new.id() == old.id()) {
                Some(new) if Arc::ptr_eq(old, new) => {}
                Some(new) => {
                    let is_there = |old: &Thread| new.thread(old.tid).is_some_and(|new| new.start_ticks == old.start_ticks);
                    for thread in old.threads.iter().filter(|thread| !is_there(thread)) {
                        if self.threads < MOST_ENDED {
                            self.threads += 1;
                            let ended = Thread { state: TaskState::Dead, ..thread.clone() };
                            self.ended_threads.entry(old.id()).or_default().insert(thread.tid, ended);
                        }
                    }
                }
                None if self.ended.len() < MOST_ENDED => {
                    self.ended.insert(old.id(), Arc::clone(old));
                }
                None => {}
            }
        }
    }

    /// Whether that interval is of the same run of the machine.
    pub fn goes_on_in(&self, judged: &Judged) -> bool {
        self.last.as_ref().is_none_or(|last| last.host.is_same_boot(&judged.interval.host))
    }

    pub fn is_several(&self) -> bool {
        self.intervals > 1
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        match (&self.first, &self.last) {
            (Some(first), Some(last)) => last.newer.at.seconds_since(first.at),
            _ => 0.0,
        }
    }

    /// From the first sample to the last one: counters are subtracted once, so that nothing is rounded or lost between. `None`
    /// where they began anew in between.
    pub fn whole(&self) -> Option<Whole> {
        let (first, last) = (self.first.as_ref().filter(|_| !self.is_broken)?, self.last.as_ref()?);
        let standings = Arc::clone(&self.standings);
        if self.intervals == 1 {
            return Some(Whole { interval: Arc::clone(last), standings });
        }
        let newer = self.with_ended(&last.newer);
        let mut interval = Interval::between(&last.host, first, &newer)?;
        interval.idle_blocked = self.blocked.mean();
        if let (Some(whole), Some(end)) = (&mut interval.tasks, &last.tasks) {
            // Who has ended is in no state any more.
            whole.counts = end.counts;
        }
        Some(Whole { interval: Arc::new(interval), standings })
    }

    /// The last sample with the processes and threads that did not live to see it. A number that was given away again is
    /// its new owner's.
    fn with_ended(&self, last: &Arc<Sample>) -> Arc<Sample> {
        let Ok(tasks) = &last.tasks else { return Arc::clone(last) };
        if self.ended.is_empty() && self.ended_threads.is_empty() {
            return Arc::clone(last);
        }
        let gone = self.ended.values().filter(|process| tasks.process(process.pid).is_none());
        let mut all: BTreeMap<u32, &Arc<Process>> = gone.map(|process| (process.pid, process)).collect();
        all.extend(tasks.processes.iter().map(|process| (process.pid, process)));
        let processes = all.into_values().map(|process| self.with_ended_threads(process)).collect();
        let tasks = Tasks { processes, users: Arc::clone(&tasks.users), hidden: tasks.hidden };
        let switches = last.context_switches.as_ref().map_err(|why| *why).map(|switches| {
            let mut all = self.ended_switches.clone();
            all.extend(switches.iter().map(|row| (row.task, *row)));
            all.into_values().collect()
        });
        Arc::new(Sample { tasks: Ok(tasks), context_switches: switches, ..Sample::clone(last) })
    }

    fn with_ended_threads(&self, process: &Arc<Process>) -> Arc<Process> {
        let Some(ended) = self.ended_threads.get(&process.id()) else { return Arc::clone(process) };
        let mut threads: BTreeMap<u32, Thread> = ended.clone();
        threads.extend(process.threads.iter().map(|thread| (thread.tid, thread.clone())));
        Arc::new(Process { threads: threads.into_values().collect(), ..Process::clone(process) })
    }
}

/// Idle-but-blocked rests on sub-samples, which belong to one interval: of several it is the mean over their time.
#[derive(Debug, Default)]
struct Blocked {
    seconds: f64,
    sums: IdleBlocked,
}

impl Blocked {
    fn add(&mut self, interval: &Interval) {
        let Some(blocked) = &interval.idle_blocked else { return };
        let (sums, seconds) = (&mut self.sums, interval.seconds);
        self.seconds += seconds;
        sums.ratio += blocked.ratio * seconds;
        sums.cpus += blocked.cpus * seconds;
        sums.free += blocked.free * seconds;
        sums.available += blocked.available * seconds;
        sums.blocked_threads += blocked.blocked_threads * seconds;
        sums.lower_bound |= blocked.lower_bound;
        sums.sub_samples = sums.sub_samples.saturating_add(blocked.sub_samples);
    }

    fn mean(&self) -> Option<IdleBlocked> {
        let part = 1.0 / Some(self.seconds).filter(|&seconds| seconds > 0.0)?;
        let sums = &self.sums;
        Some(IdleBlocked {
            ratio: sums.ratio * part,
            cpus: sums.cpus * part,
            free: sums.free * part,
            available: sums.available * part,
            blocked_threads: sums.blocked_threads * part,
            ..sums.clone()
        })
    }
}
