//! Processes that ended: their CPU time is in no process of the newer sample, but in what their parents got when they
//! waited for them. Any user sees that, and it is exact: the kernel scales it from run time, as it does a process's own.

use std::sync::Arc;

use super::newborn::Beginning;
use crate::ids::ProcessId;
use crate::sample::task::{Ended, Process};
use crate::sample::{Host, Sample};

/// What became of processes between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndedSpan {
    /// CPU time of processes that ended and were waited for, less what the older sample has of them, in CPUs. `None` where
    /// the recording does not have it.
    pub cpus: Option<f64>,
    /// The part of it of processes that neither sample has, in CPUs: without the last stretch, estimated, of those that
    /// the older one has
    pub unseen: Option<f64>,
    /// Who waited for those, most first
    pub parents: Vec<(ProcessId, f64)>,
    /// Threads, leaders of new processes included, that only the newer sample has
    pub born: u32,
}

/// So many generations are gone back at most.
const MOST_ANCESTORS: usize = 32;

/// A process of the newer sample whose children ended.
struct Heir {
    id: ProcessId,
    /// Seconds of CPU that it got
    got: f64,
    /// Of that, what ended processes used after the older sample had them
    tails: f64,
}

impl EndedSpan {
    /// `room`: CPUs that the tasks of the newer sample left to those that ended.
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64, room: Option<f64>) -> Option<EndedSpan> {
        let (was, now) = (older.tasks.as_ref().ok()?, newer.tasks.as_ref().ok()?);
        let ticks = host.ticks_per_second.max(1) as f64;
        let clock = Clock { ticks, older_ns: older.at.boottime_ns, beginning: Beginning::of(host, older) };
        let mut span = EndedSpan::default();
        let (mut heirs, mut gone): (Vec<Heir>, Vec<&Process>) = Default::default();
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
            span.born = span.born.saturating_add(born(same, process, &clock));
            if let Some(got) = clock.got(same, process).filter(|&got| got > 0.0) {
                heirs.push(Heir { id: process.id(), got, tails: 0.0 });
            }
        }
        gone.extend(before.map(Arc::as_ref));
        gone.sort_by_key(|process| process.pid);
        for process in gone.iter().filter(|process| !process.kernel_thread) {
            let Some(heir) = heir(process, &gone, &mut heirs) else { continue };
            heir.got -= clock.used(process);
            heir.tails += clock.tail(process, seconds);
        }
        // What one got who is no parent in the older sample: an orphan's new one, mostly init.
        let astray: f64 = heirs.iter().map(|heir| (-heir.got).max(0.0)).sum();
        if let Some(init) = heirs.iter_mut().find(|heir| heir.id.pid == 1) {
            init.got = (init.got - astray).max(0.0);
        }
        let recorded = now.processes.iter().any(|process| process.children.is_some());
        span.cpus = recorded.then(|| heirs.iter().map(|heir| heir.got.max(0.0)).sum::<f64>() / seconds);
        span.parents = (heirs.iter())
            .map(|heir| (heir.id, (heir.got - heir.tails).max(0.0) / seconds))
            .filter(|&(_, cpus)| cpus > 0.0)
            .collect();
        span.unseen = recorded.then(|| span.parents.iter().map(|&(_, cpus)| cpus).sum());
        span.parents.sort_by(|a, b| b.1.total_cmp(&a.1));
        if let Some(room) = room {
            span.fit(room);
        }
        Some(span)
    }

    /// Nobody used more than there is. A sweep takes a while: a child that ended between the looks at its parent and at
    /// itself is in neither sample, and its parent gets in this interval what it had used in all its life.
    fn fit(&mut self, room: f64) {
        self.cpus = self.cpus.map(|cpus| cpus.min(room));
        let Some(unseen) = self.unseen.filter(|&unseen| unseen > room) else { return };
        self.unseen = Some(room);
        for (_, cpus) in &mut self.parents {
            *cpus *= room / unseen;
        }
    }
}

/// Threads of it that the older sample does not have. One that is not new, but was not seen before, is none.
fn born(old: Option<&Arc<Process>>, new: &Process, clock: &Clock) -> u32 {
    // Both are sorted: there may be ten thousand.
    let mut before = old.map_or(&[][..], |old| &old.threads).iter().peekable();
    let fresh = new.threads.iter().filter(|thread| {
        while before.next_if(|old| old.tid < thread.tid).is_some() {}
        match before.next_if(|old| old.tid == thread.tid) {
            Some(old) => old.start_ticks != thread.start_ticks,
            None => clock.beginning.is_before(thread.start_ticks),
        }
    });
    u32::try_from(fresh.count()).unwrap_or(u32::MAX)
}

/// Who got what an ended process had used: its parent, or the nearest ancestor that did not end too.
fn heir<'a>(process: &Process, gone: &[&Process], heirs: &'a mut [Heir]) -> Option<&'a mut Heir> {
    let mut pid = process.ppid;
    for _ in 0..MOST_ANCESTORS {
        if let Ok(at) = heirs.binary_search_by_key(&pid, |heir| heir.id.pid) {
            return heirs.get_mut(at);
        }
        let at = gone.binary_search_by_key(&pid, |process| process.pid).ok()?;
        pid = gone.get(at)?.ppid;
    }
    None
}

/// The machine's ticks, and when the older sample was taken.
struct Clock {
    ticks: f64,
    older_ns: u64,
    beginning: Beginning,
}

impl Clock {
    fn seconds(&self, ended: Ended) -> f64 {
        (ended.user_ticks.0 as f64 + ended.system_ticks.0 as f64) / self.ticks
    }

    /// CPU time that it got of children that ended since.
    fn got(&self, old: Option<&Arc<Process>>, new: &Process) -> Option<f64> {
        let now = new.children?;
        match old {
            None => self.beginning.is_before(new.start_ticks).then(|| self.seconds(now)),
            Some(old) => {
                let was = old.children?;
                let user_ticks = now.user_ticks.since(was.user_ticks)?;
                Some((user_ticks as f64 + now.system_ticks.since(was.system_ticks)? as f64) / self.ticks)
            }
        }
    }

    /// What the older sample has of it, its children's included.
    fn used(&self, process: &Process) -> f64 {
        self.own(process) + process.children.map_or(0.0, |ended| self.seconds(ended))
    }

    fn own(&self, process: &Process) -> f64 {
        let ticks = || (process.user_ticks.0 as f64 + process.system_ticks.0 as f64) / self.ticks;
        process.cpu_ns.map_or_else(ticks, |ns| ns.0 as f64 / 1e9)
    }

    /// What it is likely to have used after the older sample: it went on as before, for half the interval, or for as long
    /// again as it had lived where that is less.
    fn tail(&self, process: &Process, seconds: f64) -> f64 {
        let age = (self.older_ns as f64 / 1e9 - process.start_ticks as f64 / self.ticks).max(0.5 / self.ticks);
        self.own(process) / age * age.min(seconds / 2.0)
    }
}
