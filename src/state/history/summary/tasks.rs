//! How tasks spent one interval: the most active processes, and the process or thread whose page is open.

use super::{IntervalSummary, heaviest};
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::task::{Microstates, ProcessSpan, ThreadSpan};
use crate::sample::Instant;
use crate::units::Ratio;

/// Each summary keeps the most active processes.
const MAX_PROCESSES: usize = 48;

/// Each summary keeps the most active threads, and those whose pages were opened last.
const MAX_AWAKE_THREADS: usize = 128;
const MAX_FOLLOWED_THREADS: usize = 8;

/// Lock waits are of little weight: most are of idle workers.
const LOCK_WEIGHT: f32 = 0.02;

/// Of threads, those that use CPU time are listed: many that wait must not displace them.
const THREAD_CPU_WEIGHT: f32 = 100.0;

/// The task of the open page, of which each interval keeps the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowedTask {
    Process(ProcessId),
    Thread(TaskId),
}

/// The tasks of one interval.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskSummaries {
    /// Sorted
    processes: Box<[ProcessSummary]>,
    /// Whether the other processes slept: these are not only the most active ones
    others_slept: bool,
    /// The most active threads of those that did not sleep all the time: tid and states, sorted by tid
    awake_threads: Box<[(u32, StateShares)]>,
    /// Whether the other threads slept
    other_threads_slept: bool,
    /// The one that was opened last is the last one
    followed_threads: Box<[(TaskId, StateShares)]>,
}

#[derive(Clone, Copy, Debug)]
struct ProcessSummary {
    id: ProcessId,
    cpus: f32,
    states: StateShares,
}

/// Shares of the time of threads by state, in 1/200 each; `None` if most of the time is unknown.
#[derive(Clone, Copy, Debug)]
struct StateShares(Option<[u8; 6]>);

/// A process or thread in one interval.
#[derive(Clone, Copy, Debug)]
pub struct TaskPoint {
    pub at: Instant,
    summary: PointSummary,
}

#[derive(Clone, Copy, Debug)]
enum PointSummary {
    Process(ProcessSummary),
    Thread(TaskId, StateShares),
}

impl TaskPoint {
    /// `None` if it did not exist at the end of the interval.
    pub fn new(interval: &Interval, task: FollowedTask) -> Option<TaskPoint> {
        let (newer, spans) = (interval.newer.tasks.as_ref().ok()?, interval.tasks.as_ref()?);
        let summary = match task {
            FollowedTask::Process(id) => {
                let process = newer.process(id.pid).filter(|process| process.id() == id)?;
                PointSummary::Process(ProcessSummary::new(&spans.process(process)))
            }
            FollowedTask::Thread(id) => {
                newer.thread(id)?;
                let asleep = StateShares(Some([0; 6]));
                PointSummary::Thread(id, spans.thread(id).map_or(asleep, |span| StateShares::new(&span.states)))
            }
        };
        Some(TaskPoint { at: interval.at(), summary })
    }
}

impl IntervalSummary {
    /// Adds the figures of a process or thread in this interval.
    pub fn add_task(&mut self, point: TaskPoint) {
        match point.summary {
            PointSummary::Process(process) => self.tasks.add_process(process),
            PointSummary::Thread(id, states) => self.tasks.add_thread(id, states),
        }
    }

    /// CPUs that the process used; `None` if that was not kept.
    pub fn process_cpus(&self, id: ProcessId) -> Option<f32> {
        self.tasks.process(id).map(|process| process.cpus).or(self.tasks.others_slept.then_some(0.0))
    }

    /// Shares of the time of a process's threads: user, system, waiting for a CPU, on storage, behind a lock, otherwise in D; the
    /// rest is sleep. `None` if that is unknown or was not kept.
    pub fn process_states(&self, id: ProcessId) -> Option<[f32; 6]> {
        match self.tasks.process(id) {
            Some(process) => process.states.shares(),
            None => self.tasks.others_slept.then_some([0.0; 6]),
        }
    }

    /// The same of one thread.
    pub fn thread_states(&self, id: TaskId) -> Option<[f32; 6]> {
        match self.tasks.thread(id) {
            Some(states) => states.shares(),
            None => self.tasks.others_slept(id).then_some([0.0; 6]),
        }
    }

    /// Whether it is known how a task spent this interval.
    pub fn knows(&self, task: FollowedTask) -> bool {
        match task {
            FollowedTask::Process(id) => self.process_states(id).is_some(),
            FollowedTask::Thread(id) => self.thread_states(id).is_some(),
        }
    }
}

impl TaskSummaries {
    pub(super) fn new(interval: &Interval) -> TaskSummaries {
        let Some(tasks) = &interval.tasks else { return TaskSummaries::default() };
        let active = |span: &&ProcessSpan| span.cpu.is_some_and(|cpu| cpu.0 > 0.0005) || span.states.non_sleep() > 0.0005;
        let active: Vec<&ProcessSpan> = tasks.active_processes.iter().filter(active).collect();
        let others_slept = active.len() <= MAX_PROCESSES;
        let processes = heaviest(active, MAX_PROCESSES, |span| weight(span.cpu, &span.states));
        let is_active = |span: &&ThreadSpan| span.states.non_sleep() > 0.0005 || span.states.unknown > 0.5;
        let threads: Vec<&ThreadSpan> = tasks.threads.iter().filter(is_active).collect();
        let other_threads_slept = threads.len() <= MAX_AWAKE_THREADS;
        let used = |span: &ThreadSpan| span.cpu.map_or(0.0, |cpu| cpu.0) as f32;
        let threads =
            heaviest(threads, MAX_AWAKE_THREADS, |span| weight(span.cpu, &span.states) + used(span) * THREAD_CPU_WEIGHT);
        let mut awake_threads: Box<[(u32, StateShares)]> =
            threads.into_iter().map(|span| (span.id.tid, StateShares::new(&span.states))).collect();
        awake_threads.sort_unstable_by_key(|thread| thread.0);
        TaskSummaries {
            processes: processes.into_iter().map(ProcessSummary::new).collect(),
            others_slept,
            awake_threads,
            other_threads_slept,
            followed_threads: Box::default(),
        }
    }

    fn thread(&self, id: TaskId) -> Option<StateShares> {
        let followed = self.followed_threads.iter().find(|thread| thread.0 == id).map(|thread| thread.1);
        let awake = || {
            let place = self.awake_threads.binary_search_by_key(&id.tid, |thread| thread.0).ok()?;
            self.awake_threads.get(place).map(|thread| thread.1)
        };
        followed.or_else(awake)
    }

    /// Whether a thread that is not among those kept slept.
    fn others_slept(&self, id: TaskId) -> bool {
        let process_slept = || self.others_slept && !self.processes.iter().any(|process| process.id.pid == id.pid);
        self.other_threads_slept || process_slept()
    }

    fn process(&self, id: ProcessId) -> Option<&ProcessSummary> {
        self.processes.get(self.processes.binary_search_by_key(&id, |process| process.id).ok()?)
    }

    fn add_process(&mut self, process: ProcessSummary) {
        if let Err(place) = self.processes.binary_search_by_key(&process.id, |known| known.id) {
            let mut processes = std::mem::take(&mut self.processes).into_vec();
            processes.insert(place, process);
            self.processes = processes.into_boxed_slice();
        }
    }

    fn add_thread(&mut self, id: TaskId, states: StateShares) {
        let mut threads = std::mem::take(&mut self.followed_threads).into_vec();
        threads.retain(|known| known.0 != id);
        if threads.len() >= MAX_FOLLOWED_THREADS {
            threads.remove(0);
        }
        threads.push((id, states));
        self.followed_threads = threads.into_boxed_slice();
    }
}

/// How much a process or thread did or waited.
fn weight(cpu: Option<Ratio>, states: &Microstates) -> f32 {
    let cpus = cpu.map_or(0.0, |cpu| cpu.0) + states.run_queue + states.disk + states.other_blocked;
    cpus as f32 + states.lock as f32 * LOCK_WEIGHT
}

impl ProcessSummary {
    fn new(span: &ProcessSpan) -> ProcessSummary {
        let cpus = span.cpu.map_or(0.0, |cpu| cpu.0) as f32;
        ProcessSummary { id: span.id, cpus, states: StateShares::new(&span.states) }
    }
}

impl StateShares {
    fn new(states: &Microstates) -> StateShares {
        let whole = (states.non_sleep() + states.sleep + states.unknown).max(f64::MIN_POSITIVE);
        let parts = [states.user, states.system, states.run_queue, states.disk, states.lock, states.other_blocked];
        let shares = parts.map(|part| (part / whole * 200.0).round().clamp(0.0, 200.0) as u8);
        StateShares((states.unknown <= whole / 2.0).then_some(shares))
    }

    /// 0 … 1
    fn shares(self) -> Option<[f32; 6]> {
        Some(self.0?.map(|share| f32::from(share) / 200.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Evaluation;
    use crate::synthetic::{self, ProcessBuilder, process, process_id, sample, task_id, thread};

    /// A second; `processes` are those after that many seconds of it.
    fn evaluation(processes: impl Fn(u64) -> Vec<ProcessBuilder>) -> Evaluation {
        let at = |second: u64| sample(100.0 + second as f64).processes(processes(second));
        synthetic::evaluation(at(0), at(1))
    }

    /// Processes with pids from 1 on, each of which uses a thousandth of a CPU more than the one before.
    fn busy(count: u32) -> Evaluation {
        evaluation(|second| (1..=count).map(|pid| process(pid, "busy").ran(u64::from(pid) * 1_000_000 * second)).collect())
    }

    #[test]
    fn a_followed_process_is_known_beside_the_most_active_ones() {
        let many = busy(60);
        let mut summary = IntervalSummary::from_evaluation(&many, None);
        let add = |summary: &mut IntervalSummary, pid| {
            summary.add_task(TaskPoint::new(&many.interval, FollowedTask::Process(process_id(pid))).unwrap());
        };
        let cpus = |summary: &IntervalSummary| [5, 13, 60].map(|pid| summary.process_cpus(process_id(pid)));
        assert_eq!(cpus(&summary), [None, Some(0.013), Some(0.06)], "the 48 most active ones");
        add(&mut summary, 5);
        add(&mut summary, 60);
        assert_eq!(cpus(&summary), [Some(0.005), Some(0.013), Some(0.06)]);
        assert_eq!(summary.process_states(process_id(4)), None);
        let summary = IntervalSummary::from_evaluation(&busy(3), None);
        let slept = process_id(4);
        assert_eq!((summary.process_cpus(slept), summary.process_states(slept)), (Some(0.0), Some([0.0; 6])));
    }

    #[test]
    fn the_threads_that_were_followed_last_are_known() {
        let evaluation = evaluation(|second| {
            let threads = (1..=200).map(|tid| thread(tid, "busy").ran(u64::from(tid) * 1_000_000 * second, 0, second));
            vec![
                process(1, "busy").ran(20_100_000_000 * second).threads(threads),
                process(300, "idle").threads([thread(300, "idle")]),
            ]
        });
        let mut summary = IntervalSummary::from_evaluation(&evaluation, None);
        let task = |tid| FollowedTask::Thread(task_id(1, tid));
        for tid in [1, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10] {
            summary.add_task(TaskPoint::new(&evaluation.interval, task(tid)).unwrap());
        }
        assert_eq!([1, 2, 3, 10, 11, 200].map(|tid| summary.knows(task(tid))), [false, false, true, true, false, true]);
        assert!(summary.knows(FollowedTask::Thread(task_id(300, 300))), "its process slept");
    }

    #[test]
    fn time_that_is_mostly_unknown_is_not_sleep() {
        let states_with_unknown = |unknown| {
            let states = Microstates { user: 1.0 - unknown, unknown, ..Microstates::default() };
            StateShares::new(&states).shares().map(|shares| shares[0])
        };
        assert_eq!([0.4, 0.6].map(states_with_unknown), [Some(0.6), None]);
    }
}
