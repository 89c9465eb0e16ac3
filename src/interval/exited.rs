//! Processes that ended: their CPU time is in no process of the newer sample, but in what their parents got when they
//! waited for them. Any user sees that, and it is exact: the kernel scales it from run time, as it does a process's own.

use std::sync::Arc;

use super::new_tasks::IntervalStart;
use crate::ids::ProcessId;
use crate::sample::task::{ChildrenCpuTime, Process};
use crate::sample::{Host, Sample};

/// What became of processes between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitedSpan {
    /// CPU time of processes that ended and were waited for, less what the older sample has of them, in CPUs. `None` where
    /// the recording does not have it.
    pub cpus: Option<f64>,
    /// The part of it of processes that neither sample has, in CPUs: without the last stretch, estimated, of those that
    /// the older one has
    pub unseen_cpus: Option<f64>,
    /// Who waited for those, most first
    pub parents: Vec<(ProcessId, f64)>,
    /// Threads, leaders of new processes included, that only the newer sample has
    pub new_threads: u32,
}

/// So many generations are gone back at most.
const MAX_ANCESTORS: usize = 32;

/// A process of the newer sample whose children ended.
struct ReapingParent {
    id: ProcessId,
    /// Seconds of CPU that it got
    children_cpu_seconds: f64,
    /// Of that, what ended processes used after the older sample had them
    tail_cpu_seconds: f64,
}

impl ExitedSpan {
    /// `room`: CPUs that the tasks of the newer sample left to those that ended.
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64, room: Option<f64>) -> Option<ExitedSpan> {
        let (was, now) = (older.tasks.as_ref().ok()?, newer.tasks.as_ref().ok()?);
        let ticks = host.ticks_per_second.max(1) as f64;
        let clock = TickClock {
            ticks_per_second: ticks,
            older_ns: older.at.boottime_ns,
            interval_start: IntervalStart::new(host, older),
        };
        let mut span = ExitedSpan::default();
        let (mut heirs, mut gone): (Vec<ReapingParent>, Vec<&Process>) = Default::default();
        let mut before = was.processes.iter().peekable();
        for process in &now.processes {
            while let Some(old) = before.next_if(|old| old.pid < process.pid) {
                gone.push(old);
            }
            let old = before.next_if(|old| old.pid == process.pid);
            let same = old.filter(|old| old.start_ticks == process.start_ticks);
            gone.extend(old.filter(|_| same.is_none()).map(Arc::as_ref));
            if same.is_some_and(|old| Arc::ptr_eq(old, process)) {
                continue;
            }
            span.new_threads = span.new_threads.saturating_add(count_new_threads(same, process, &clock));
            if let Some(got) = clock.reaped_children_cpu_seconds(same, process).filter(|&got| got > 0.0) {
                heirs.push(ReapingParent { id: process.id(), children_cpu_seconds: got, tail_cpu_seconds: 0.0 });
            }
        }
        gone.extend(before.map(Arc::as_ref));
        gone.sort_by_key(|process| process.pid);
        for process in gone.iter().filter(|process| !process.kernel_thread) {
            let Some(heir) = reaping_parent(process, &gone, &mut heirs) else { continue };
            heir.children_cpu_seconds -= clock.sampled_cpu_seconds(process);
            heir.tail_cpu_seconds += clock.estimated_tail_seconds(process, seconds);
        }
        // What one got who is no parent in the older sample: an orphan's new one, mostly init.
        let astray: f64 = heirs.iter().map(|heir| (-heir.children_cpu_seconds).max(0.0)).sum();
        if let Some(init) = heirs.iter_mut().find(|heir| heir.id.pid == 1) {
            init.children_cpu_seconds = (init.children_cpu_seconds - astray).max(0.0);
        }
        let recorded = now.processes.iter().any(|process| process.children_cpu.is_some());
        span.cpus = recorded.then(|| heirs.iter().map(|heir| heir.children_cpu_seconds.max(0.0)).sum::<f64>() / seconds);
        span.parents = (heirs.iter())
            .map(|heir| (heir.id, (heir.children_cpu_seconds - heir.tail_cpu_seconds).max(0.0) / seconds))
            .filter(|&(_, cpus)| cpus > 0.0)
            .collect();
        span.unseen_cpus = recorded.then(|| span.parents.iter().map(|&(_, cpus)| cpus).sum());
        span.parents.sort_by(|a, b| b.1.total_cmp(&a.1));
        if let Some(room) = room {
            span.scale_to(room);
        }
        Some(span)
    }

    /// Nobody used more than there is. A sweep takes a while: a child that ended between the looks at its parent and at
    /// itself is in neither sample, and its parent gets in this interval what it had used in all its life.
    fn scale_to(&mut self, room: f64) {
        self.cpus = self.cpus.map(|cpus| cpus.min(room));
        let Some(unseen) = self.unseen_cpus.filter(|&unseen| unseen > room) else { return };
        self.unseen_cpus = Some(room);
        for (_, cpus) in &mut self.parents {
            *cpus *= room / unseen;
        }
    }
}

/// Threads of it that the older sample does not have. One that is not new, but was not seen before, is none.
fn count_new_threads(old: Option<&Arc<Process>>, new: &Process, clock: &TickClock) -> u32 {
    // Both are sorted: there may be ten thousand.
    let mut before = old.map_or(&[][..], |old| &old.threads).iter().peekable();
    let fresh = new.threads.iter().filter(|thread| {
        while before.next_if(|old| old.tid < thread.tid).is_some() {}
        match before.next_if(|old| old.tid == thread.tid) {
            Some(old) => old.start_ticks != thread.start_ticks,
            None => clock.interval_start.is_before(thread.start_ticks),
        }
    });
    u32::try_from(fresh.count()).unwrap_or(u32::MAX)
}

/// Who got what an ended process had used: its parent, or the nearest ancestor that did not end too.
fn reaping_parent<'a>(process: &Process, gone: &[&Process], heirs: &'a mut [ReapingParent]) -> Option<&'a mut ReapingParent> {
    let mut pid = process.ppid;
    for _ in 0..MAX_ANCESTORS {
        if let Ok(at) = heirs.binary_search_by_key(&pid, |heir| heir.id.pid) {
            return heirs.get_mut(at);
        }
        let at = gone.binary_search_by_key(&pid, |process| process.pid).ok()?;
        pid = gone.get(at)?.ppid;
    }
    None
}

/// The machine's ticks, and when the older sample was taken.
struct TickClock {
    ticks_per_second: f64,
    older_ns: u64,
    interval_start: IntervalStart,
}

impl TickClock {
    fn seconds(&self, ended: ChildrenCpuTime) -> f64 {
        (ended.user_ticks.0 as f64 + ended.system_ticks.0 as f64) / self.ticks_per_second
    }

    /// CPU time that it got of children that ended since.
    fn reaped_children_cpu_seconds(&self, old: Option<&Arc<Process>>, new: &Process) -> Option<f64> {
        let now = new.children_cpu?;
        match old {
            None => self.interval_start.is_before(new.start_ticks).then(|| self.seconds(now)),
            Some(old) => {
                let was = old.children_cpu?;
                let user_ticks = now.user_ticks.since(was.user_ticks)?;
                Some((user_ticks as f64 + now.system_ticks.since(was.system_ticks)? as f64) / self.ticks_per_second)
            }
        }
    }

    /// What the older sample has of it, its children's included.
    fn sampled_cpu_seconds(&self, process: &Process) -> f64 {
        self.own_cpu_seconds(process) + process.children_cpu.map_or(0.0, |ended| self.seconds(ended))
    }

    fn own_cpu_seconds(&self, process: &Process) -> f64 {
        let ticks = || (process.user_ticks.0 as f64 + process.system_ticks.0 as f64) / self.ticks_per_second;
        process.cpu_ns.map_or_else(ticks, |ns| ns.0 as f64 / 1e9)
    }

    /// What it is likely to have used after the older sample: it went on as before, for half the interval, or for as long
    /// again as it had lived where that is less.
    fn estimated_tail_seconds(&self, process: &Process, seconds: f64) -> f64 {
        let age =
            (self.older_ns as f64 / 1e9 - process.start_ticks as f64 / self.ticks_per_second).max(0.5 / self.ticks_per_second);
        self.own_cpu_seconds(process) / age * age.min(seconds / 2.0)
    }
}
