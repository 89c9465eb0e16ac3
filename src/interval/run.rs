//! Combines consecutive intervals to one: the totals of a whole run, or of a part of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::idle_blocked::IdleBlocked;
use super::{Interval, IntervalContext};
use crate::ids::{ProcessId, TaskId};
use crate::sample::Sample;
use crate::sample::context_switches::TaskContextSwitches;
use crate::sample::task::{Process, TaskState, Tasks, Thread};

/// Adds consecutive intervals.
#[derive(Debug, Default)]
pub struct RunAccumulator {
    first: Option<Arc<Sample>>,
    last: Option<Arc<Interval>>,
    intervals: u64,
    /// The machine was rebooted in between, or it is another one: counters of the first and the last sample cannot be subtracted
    boot_changed: bool,
    idle_blocked: IdleBlockedMean,
    /// Processes that ended, as they were last seen
    ended: BTreeMap<ProcessId, Arc<Process>>,
    /// Threads that ended before their processes did, as they were last seen
    ended_threads: BTreeMap<ProcessId, BTreeMap<u32, Thread>>,
    /// How many those are
    ended_thread_count: usize,
    /// The context switches of ended threads
    ended_switches: BTreeMap<TaskId, TaskContextSwitches>,
}

/// Ended processes, and ended threads, that are kept at most.
const MAX_ENDED: usize = 100_000;

impl RunAccumulator {
    /// Adds the interval that follows.
    pub fn add(&mut self, interval: &Arc<Interval>) {
        self.boot_changed |= !self.is_same_boot(interval);
        if self.first.is_none() {
            self.first = Some(Arc::clone(&interval.older));
        }
        if let (Ok(was), Ok(now)) = (&interval.older.tasks, &interval.newer.tasks) {
            self.remember_ended(was, now);
        }
        if let (Ok(was), Ok(now)) = (&interval.older.context_switches, &interval.newer.context_switches) {
            let gone = was.iter().filter(|old| now.binary_search_by_key(&old.task, |new| new.task).is_err());
            let room = (2 * MAX_ENDED).saturating_sub(self.ended_switches.len());
            self.ended_switches.extend(gone.take(room).map(|old| (old.task, *old)));
        }
        self.idle_blocked.add(interval);
        self.last = Some(Arc::clone(interval));
        self.intervals += 1;
    }

    /// Keeps the tasks that exited between two samples.
    fn remember_ended(&mut self, was: &Tasks, now: &Tasks) {
        for old in &was.processes {
            match now.process(old.pid).filter(|new| new.id() == old.id()) {
                Some(new) if Arc::ptr_eq(old, new) => {}
                Some(new) => {
                    let is_there = |old: &Thread| new.thread(old.tid).is_some_and(|new| new.start_ticks == old.start_ticks);
                    for thread in old.threads.iter().filter(|thread| !is_there(thread)) {
                        if self.ended_thread_count < MAX_ENDED {
                            self.ended_thread_count += 1;
                            let ended = Thread { state: TaskState::Dead, ..thread.clone() };
                            self.ended_threads.entry(old.id()).or_default().insert(thread.tid, ended);
                        }
                    }
                }
                None if self.ended.len() < MAX_ENDED => {
                    self.ended.insert(old.id(), Arc::clone(old));
                }
                None => {}
            }
        }
    }

    /// Whether that interval is of the same boot of the same machine.
    pub fn is_same_boot(&self, interval: &Interval) -> bool {
        self.last.as_ref().is_none_or(|last| last.host.is_same_boot(&interval.host))
    }

    /// Whether more than one interval was added.
    pub fn has_several_intervals(&self) -> bool {
        self.intervals > 1
    }

    /// The interval that was added last.
    pub fn last(&self) -> Option<&Interval> {
        self.last.as_deref()
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        match (&self.first, &self.last) {
            (Some(first), Some(last)) => last.newer.at.seconds_since(first.at),
            _ => 0.0,
        }
    }

    /// The interval from the first sample to the last one. Counters are subtracted once, so that no rounding adds up. `None` if
    /// the machine was rebooted in between.
    pub fn total(&self) -> Option<Arc<Interval>> {
        let (first, last) = (self.first.as_ref().filter(|_| !self.boot_changed)?, self.last.as_ref()?);
        if self.intervals == 1 {
            return Some(Arc::clone(last));
        }
        let newer = self.with_ended(&last.newer);
        let context = IntervalContext { links: Arc::clone(&last.link_overrides), ..IntervalContext::default() };
        let mut interval = Interval::with_context(&last.host, first, &newer, context)?;
        interval.idle_blocked = self.idle_blocked.mean();
        if let (Some(whole), Some(end)) = (&mut interval.tasks, &last.tasks) {
            // Exited threads have no state.
            whole.counts = end.counts;
        }
        Some(Arc::new(interval))
    }

    /// The last sample with the processes and threads that exited before it. A reused pid belongs to the newer process.
    fn with_ended(&self, last: &Arc<Sample>) -> Arc<Sample> {
        let Ok(tasks) = &last.tasks else { return Arc::clone(last) };
        if self.ended.is_empty() && self.ended_threads.is_empty() {
            return Arc::clone(last);
        }
        let gone = self.ended.values().filter(|process| tasks.process(process.pid).is_none());
        let mut all: BTreeMap<u32, &Arc<Process>> = gone.map(|process| (process.pid, process)).collect();
        all.extend(tasks.processes.iter().map(|process| (process.pid, process)));
        let processes = all.into_values().map(|process| self.with_ended_threads(process)).collect();
        let tasks = Tasks {
            processes,
            users: Arc::clone(&tasks.users),
            hidden: tasks.hidden,
            read_times: tasks.read_times.clone(),
            run_times: tasks.run_times.clone(),
        };
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

/// Idle-but-blocked of several intervals: the time-weighted mean, since sub-samples belong to one interval.
#[derive(Debug, Default)]
struct IdleBlockedMean {
    seconds: f64,
    sums: IdleBlocked,
}

impl IdleBlockedMean {
    fn add(&mut self, interval: &Interval) {
        let Some(blocked) = &interval.idle_blocked else { return };
        let (sums, seconds) = (&mut self.sums, interval.seconds);
        self.seconds += seconds;
        sums.ratio += blocked.ratio * seconds;
        sums.cpus += blocked.cpus * seconds;
        sums.ratio_with_connections += blocked.ratio_with_connections * seconds;
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
            ratio_with_connections: sums.ratio_with_connections * part,
            free: sums.free * part,
            available: sums.available * part,
            blocked_threads: sums.blocked_threads * part,
            ..sums.clone()
        })
    }
}
