//! Totals over all processes of a sample. Processes that did not change share the `Arc` of the sample before, and the totals of that
//! sample contain them: only the others are added and subtracted. With 30 of 2,000 processes changed this takes two thirds of the
//! time off an interval.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use super::thread::is_not_sleeping;
use crate::interval::pairing::shared_prefix;
use crate::sample::task::{Process, TaskState};

/// Of one sample; the next one's are updated from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTotals {
    /// Threads that are not dead
    pub(super) threads: u32,
    /// Processes whose CPU time is known without their threads
    pub(super) with_cpu_time: u32,
    /// Processes with schedstat
    pub(super) with_schedstat: u32,
    /// Places of the processes with a thread that is not asleep
    awake: Vec<usize>,
    /// Places of the processes with the title of a session of PostgreSQL
    pub(in crate::interval) database_sessions: Vec<usize>,
}

/// A process of the newer sample that the older sample does not share.
pub(super) struct Visit<'a> {
    /// The process with the same pid in the older sample
    pub(super) old: Option<&'a Arc<Process>>,
    pub(super) new: &'a Arc<Process>,
    /// Its place in the newer sample
    pub(super) place: usize,
}

impl ProcessTotals {
    pub(super) fn new(processes: &[Arc<Process>]) -> ProcessTotals {
        ProcessTotals::default().next(&[], processes, |_| ())
    }

    /// The totals of `newer`, where these are those of `older`; both sorted by pid. Visits each process that is new or changed,
    /// or that has a thread that is not asleep.
    pub(super) fn next<'a>(
        &self,
        older: &'a [Arc<Process>],
        newer: &'a [Arc<Process>],
        mut visit: impl FnMut(Visit<'a>),
    ) -> ProcessTotals {
        let (mut awake, mut sessions) = (self.awake.iter().peekable(), self.database_sessions.iter().peekable());
        let mut totals = ProcessTotals {
            awake: Vec::with_capacity(self.awake.len()),
            database_sessions: Vec::with_capacity(self.database_sessions.len()),
            ..*self
        };
        let (mut old_place, mut new_place) = (0, 0);
        loop {
            let (olds, news) = (older.get(old_place..).unwrap_or_default(), newer.get(new_place..).unwrap_or_default());
            let shared = shared_prefix(olds, news);
            let same = old_place..old_place + shared;
            for offset in offsets_within(&mut awake, &same) {
                let place = new_place + offset;
                totals.awake.push(place);
                olds.get(offset).into_iter().for_each(|same| visit(Visit { old: Some(same), new: same, place }));
            }
            totals.database_sessions.extend(offsets_within(&mut sessions, &same).map(|offset| new_place + offset));
            old_place += shared;
            new_place += shared;
            let (old, new) = (olds.get(shared), news.get(shared));
            if let Some(old) = old.filter(|old| new.is_none_or(|new| old.pid <= new.pid)) {
                totals.remove(old);
                old_place += 1;
            }
            let Some(new) = new else {
                if old.is_none() {
                    return totals;
                }
                continue;
            };
            if old.is_some_and(|old| old.pid < new.pid) {
                continue;
            }
            totals.add(new);
            if new.threads.iter().any(is_not_sleeping) {
                totals.awake.push(new_place);
            }
            if is_database_session(new) {
                totals.database_sessions.push(new_place);
            }
            visit(Visit { old: old.filter(|old| old.pid == new.pid), new, place: new_place });
            new_place += 1;
        }
    }

    pub(super) fn add(&mut self, process: &Process) {
        self.threads += alive_threads(process);
        self.with_cpu_time += u32::from(has_cpu_time(process));
        self.with_schedstat += u32::from(has_schedstat(process));
    }

    fn remove(&mut self, process: &Process) {
        self.threads -= alive_threads(process);
        self.with_cpu_time -= u32::from(has_cpu_time(process));
        self.with_schedstat -= u32::from(has_schedstat(process));
    }
}

/// The places within the range, as distances from its start. `places` ascend; those before the range are passed.
fn offsets_within<'p>(
    places: &mut Peekable<impl Iterator<Item = &'p usize>>,
    range: &Range<usize>,
) -> impl Iterator<Item = usize> {
    while places.next_if(|&&place| place < range.start).is_some() {}
    std::iter::from_fn(|| places.next_if(|&&place| place < range.end).map(|place| place - range.start))
}

/// Whether its title is one with which PostgreSQL says what a session does.
fn is_database_session(process: &Process) -> bool {
    process.facts.cmdline.as_ref().is_ok_and(|title| title.as_bytes().starts_with(b"postgres: "))
}

/// Threads but those that are being reaped.
pub(super) fn alive_threads(process: &Process) -> u32 {
    let alive = process.threads.iter().filter(|thread| thread.state != TaskState::Dead).count();
    u32::try_from(alive).unwrap_or(u32::MAX)
}

fn has_cpu_time(process: &Process) -> bool {
    process.cpu_ns.is_some() || !process.kernel_thread
}

/// A kernel has schedstat for all threads or for none.
pub(super) fn has_schedstat(process: &Process) -> bool {
    process.threads.first().is_some_and(|thread| thread.schedstat.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::task::ProcessFacts;
    use crate::synthetic;

    fn process(pid: u32, state: TaskState) -> Arc<Process> {
        Arc::new(synthetic::process(pid, "sh").threads([synthetic::thread(pid, "sh").state(state)]).build())
    }

    fn session(pid: u32, state: TaskState) -> Arc<Process> {
        let mut process = Process::clone(&process(pid, state));
        let cmdline = Ok("postgres: app shop [local] idle".into());
        process.facts = Arc::new(ProcessFacts { cmdline, ..ProcessFacts::default() });
        Arc::new(process)
    }

    #[test]
    fn totals_that_go_on_from_the_sample_before_are_those_of_all_processes() {
        use TaskState::{Blocked, Dead, Running, Sleeping};
        let [a, b, c, _] = [(1, Sleeping), (2, Running), (4, Blocked), (6, Sleeping)].map(|(pid, state)| process(pid, state));
        let d = session(6, Sleeping);
        let older = [a.clone(), b.clone(), c.clone(), d.clone()];
        let changed = process(6, Dead);
        let cases: [&[Arc<Process>]; 6] = [
            &older,
            &[],
            &[session(1, Sleeping), b.clone(), session(3, Running), d.clone(), session(7, Blocked)],
            &[b.clone(), process(3, Running), c.clone(), changed.clone()],
            &[a.clone(), d.clone()],
            &[process(1, Running), process(2, Sleeping), c.clone(), process(5, Sleeping), d.clone(), process(9, Blocked)],
        ];
        for newer in cases {
            let mut visited = Vec::new();
            let totals = ProcessTotals::new(&older).next(&older, newer, |visit| visited.push(visit.new.pid));
            assert_eq!(totals, ProcessTotals::new(newer));
            let sessions: Vec<usize> = (0..newer.len()).filter(|&place| is_database_session(&newer[place])).collect();
            assert_eq!(totals.database_sessions, sessions);
            let is_quiet =
                |new: &Arc<Process>| older.iter().any(|old| Arc::ptr_eq(old, new)) && !new.threads.iter().any(is_not_sleeping);
            let due: Vec<u32> = newer.iter().filter(|new| !is_quiet(new)).map(|new| new.pid).collect();
            assert_eq!(visited, due);
        }
    }
}
