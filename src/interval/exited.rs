//! CPU time of processes that exited, from cutime and cstime of the parents that waited for them. Every user can read these; the
//! kernel scales them from exact run time, like the CPU time of a process. docs/metrics.md, "Short-lived processes".

use std::sync::Arc;

use super::new_tasks::IntervalStart;
use super::pairing::SortedCursor;
use crate::ids::ProcessId;
use crate::sample::task::{ChildrenCpuTime, Process};
use crate::sample::{Host, Sample};
use crate::units::SmallSort;

/// CPU time of processes that exited between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitedSpan {
    /// CPU time in this interval of processes that exited and were waited for, in CPUs. `None` if the samples lack cutime and
    /// cstime
    pub cpus: Option<f64>,
    /// The part of `cpus` of processes that neither sample contains. What processes of the older sample used between it and
    /// their exit is estimated and left out
    pub unseen_cpus: Option<f64>,
    /// The parents that waited for the unseen ones, with their CPU time in CPUs, most first
    pub parents: Vec<(ProcessId, f64)>,
    /// Threads, leaders of new processes included, that only the newer sample contains
    pub new_threads: u32,
}

/// A task that exits within an interval ran for this share of it on average, on at most one CPU. docs/metrics.md, "Fixed thresholds".
pub const MEAN_LIFETIME_SHARE: f64 = 0.5;

const MAX_ANCESTORS: usize = 32;

/// A process of the newer sample whose children exited.
struct ReapingParent {
    id: ProcessId,
    /// Growth of cutime + cstime
    children_cpu_seconds: f64,
    /// The part of it that exited processes used after the older sample
    tail_cpu_seconds: f64,
}

impl ExitedSpan {
    /// `max_cpus`: CPUs that the tasks of the newer sample did not use.
    pub(super) fn between(
        host: &Host,
        older: &Sample,
        newer: &Sample,
        seconds: f64,
        max_cpus: Option<f64>,
    ) -> Option<ExitedSpan> {
        let (was, now) = (older.tasks.as_ref().ok()?, newer.tasks.as_ref().ok()?);
        let clock = TickClock { host, older_ns: older.at.boottime_ns, interval_start: IntervalStart::new(host, older) };
        let mut span = ExitedSpan::default();
        let (mut parents, mut exited): (Vec<ReapingParent>, Vec<&Process>) = Default::default();
        let mut older_processes = SortedCursor::new(&was.processes);
        let mut newer_processes = now.processes.as_slice();
        loop {
            let shared = older_processes.pass_shared(newer_processes);
            let rest = newer_processes.get(shared..).and_then(<[_]>::split_first);
            let Some((process, rest)) = rest else { break };
            newer_processes = rest;
            exited.extend(older_processes.skip_below(|old| old.pid.cmp(&process.pid)).iter().map(Arc::as_ref));
            let old = older_processes.find(|old| old.pid.cmp(&process.pid));
            let same = old.filter(|old| old.start_ticks == process.start_ticks);
            exited.extend(old.filter(|_| same.is_none()).map(Arc::as_ref));
            span.new_threads = span.new_threads.saturating_add(count_new_threads(same, process, &clock));
            if let Some(got) = clock.reaped_children_cpu_seconds(same, process).filter(|&got| got > 0.0) {
                parents.push(ReapingParent { id: process.id(), children_cpu_seconds: got, tail_cpu_seconds: 0.0 });
            }
        }
        exited.extend(older_processes.rest().iter().map(Arc::as_ref));
        exited.small_sort_by_key(|process| process.pid);
        for process in exited.iter().filter(|process| !process.kernel_thread) {
            let Some(parent) = reaping_parent(process, &exited, &mut parents) else { continue };
            parent.children_cpu_seconds -= clock.sampled_cpu_seconds(process);
            parent.tail_cpu_seconds += clock.estimated_tail_seconds(process, seconds);
        }
        // Orphans are reaped by a process that was not their parent at the older sample: mostly init.
        let unattributed: f64 = parents.iter().map(|parent| (-parent.children_cpu_seconds).max(0.0)).sum();
        if let Some(init) = parents.iter_mut().find(|parent| parent.id.pid == 1) {
            init.children_cpu_seconds = (init.children_cpu_seconds - unattributed).max(0.0);
        }
        let recorded = now.processes.iter().any(|process| process.children_cpu.is_some());
        span.cpus = recorded.then(|| parents.iter().map(|parent| parent.children_cpu_seconds.max(0.0)).sum::<f64>() / seconds);
        span.parents = (parents.iter())
            .map(|parent| (parent.id, (parent.children_cpu_seconds - parent.tail_cpu_seconds).max(0.0) / seconds))
            .filter(|&(_, cpus)| cpus > 0.0)
            .collect();
        span.unseen_cpus = recorded.then(|| span.parents.iter().map(|&(_, cpus)| cpus).sum());
        span.parents.small_sort_by(|a, b| b.1.total_cmp(&a.1));
        if let Some(max_cpus) = max_cpus {
            span.scale_to(max_cpus);
        }
        Some(span)
    }

    /// Limits the CPU time to what was available. A scan takes time: a child that exits between the readings of its parent
    /// and of itself is in neither sample, and its whole CPU time is added to its parent in this interval.
    fn scale_to(&mut self, max_cpus: f64) {
        self.cpus = self.cpus.map(|cpus| cpus.min(max_cpus));
        let Some(unseen) = self.unseen_cpus.filter(|&unseen| unseen > max_cpus) else { return };
        self.unseen_cpus = Some(max_cpus);
        for (_, cpus) in &mut self.parents {
            *cpus *= max_cpus / unseen;
        }
    }
}

/// Number of threads that started after the older sample.
fn count_new_threads(old: Option<&Arc<Process>>, new: &Process, clock: &TickClock) -> u32 {
    let mut older_threads = SortedCursor::new(old.map_or(&[][..], |old| &old.threads));
    let fresh = new.threads.iter().filter(|thread| match older_threads.find(|old| old.tid.cmp(&thread.tid)) {
        Some(old) => old.start_ticks != thread.start_ticks,
        None => clock.interval_start.is_before(thread.start_ticks),
    });
    u32::try_from(fresh.count()).unwrap_or(u32::MAX)
}

/// The process that an exited process's CPU time was added to: its parent, or the nearest ancestor that did not exit too.
fn reaping_parent<'a>(
    process: &Process,
    exited: &[&Process],
    parents: &'a mut [ReapingParent],
) -> Option<&'a mut ReapingParent> {
    let mut pid = process.ppid;
    for _ in 0..MAX_ANCESTORS {
        if let Ok(at) = parents.binary_search_by_key(&pid, |parent| parent.id.pid) {
            return parents.get_mut(at);
        }
        let at = exited.binary_search_by_key(&pid, |process| process.pid).ok()?;
        pid = exited.get(at)?.ppid;
    }
    None
}

/// Converts CPU times of processes to seconds.
struct TickClock<'a> {
    host: &'a Host,
    older_ns: u64,
    interval_start: IntervalStart,
}

impl TickClock<'_> {
    fn seconds(&self, ended: ChildrenCpuTime) -> f64 {
        self.host.seconds(ended.user_ticks.0 as f64 + ended.system_ticks.0 as f64)
    }

    /// CPU time of children that exited since the older sample.
    fn reaped_children_cpu_seconds(&self, old: Option<&Arc<Process>>, new: &Process) -> Option<f64> {
        let now = new.children_cpu?;
        match old {
            None => self.interval_start.is_before(new.start_ticks).then(|| self.seconds(now)),
            Some(old) => {
                let was = old.children_cpu?;
                let user_ticks = now.user_ticks.since(was.user_ticks)?;
                Some(self.host.seconds(user_ticks as f64 + now.system_ticks.since(was.system_ticks)? as f64))
            }
        }
    }

    /// CPU time of the process in the older sample, its waited-for children included.
    fn sampled_cpu_seconds(&self, process: &Process) -> f64 {
        self.own_cpu_seconds(process) + process.children_cpu.map_or(0.0, |ended| self.seconds(ended))
    }

    fn own_cpu_seconds(&self, process: &Process) -> f64 {
        let ticks = || self.host.seconds(process.user_ticks.0 as f64 + process.system_ticks.0 as f64);
        process.cpu_ns.map_or_else(ticks, |ns| ns.0 as f64 / 1e9)
    }

    /// Estimated CPU time after the older sample: the same rate as before, for half the interval or for its age, if that
    /// is less.
    fn estimated_tail_seconds(&self, process: &Process, seconds: f64) -> f64 {
        let age = self.older_ns as f64 / 1e9 - self.host.seconds(process.start_ticks as f64);
        let age = age.max(self.host.seconds(0.5));
        self.own_cpu_seconds(process) / age * age.min(seconds * MEAN_LIFETIME_SHARE)
    }
}
