//! Deadlocks of futex locks and of locks inside the kernel: threads each of which holds a lock and waits for the lock of the next, by
//! the owner fields of the locks; and locks whose holder has ended. A cycle in which a thread waits with a timeout is none.
//! docs/metrics.md, "Lock holders".

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::holder_activity::HolderActivity;
pub use super::lock_graph::CycleKind;
use super::lock_graph::{LockGraph, LockId, Owner};
use crate::ids::{GroupId, TaskId};
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::OwnerField;
use crate::sample::{Name, Sample};
use crate::units::reaches_threshold;

/// Threads that wait for each other's locks.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlock {
    pub group: GroupId,
    /// In the order in which they wait: each waits for the lock that the next one holds, the last for that of the first. A thread that
    /// waits for its own lock is alone, and so is one that has ended.
    pub threads: Vec<BlockedThread>,
    /// Parallel to `threads`: how it is known that it holds its lock
    pub known_by: Vec<OwnerField>,
    /// Name of the process
    pub process: Name,
    /// Mean number of other threads that wait for one of the locks
    pub others: f64,
    /// Whether it ends by itself
    pub kind: CycleKind,
}

impl Deadlock {
    /// Whether the one thread has ended, and did not release its lock.
    pub fn has_ended(&self) -> bool {
        let is_over = |thread: &BlockedThread| matches!(thread.wait.state, TaskState::Zombie | TaskState::Dead);
        self.threads.first().is_some_and(is_over)
    }
}

/// A cycle counts if this share of the sub-samples saw each of its threads hold its lock and wait for the next one: a thread that takes
/// locks in turn is seen so for a moment. docs/metrics.md, "Fixed thresholds".
const MIN_SEEN_SHARE: f64 = 0.8;

/// The cycles of an interval, deadlocks and others, in the order of pids.
pub fn lock_cycles(graph: &LockGraph, older: &Sample, newer: &Sample) -> Vec<Deadlock> {
    let edges = edges(graph);
    let mut seen: Vec<TaskId> = Vec::new();
    let ended = ended_holders(graph).filter(|owner| !has_been_passed_on(owner, older, newer));
    let mut found: Vec<Deadlock> = ended.filter_map(|owner| deadlock(graph, newer, &[owner])).collect();
    let mut starts: Vec<&TaskId> = edges.keys().collect();
    starts.sort_unstable();
    for &start in starts {
        let Some(cycle) = find_cycle(&edges, start).filter(|cycle| !cycle.iter().any(|task| seen.contains(task))) else {
            continue;
        };
        seen.extend(&cycle);
        found.extend(deadlock(graph, newer, &owners_in_cycle(graph, &edges, &cycle)));
    }
    found
}

fn deadlock(graph: &LockGraph, newer: &Sample, owners: &[&Owner]) -> Option<Deadlock> {
    let first = owners.first()?;
    let has_ended = first.activity == HolderActivity::Ended;
    let is_of_these = |owner: &&Owner| owners.iter().any(|one| one.lock == owner.lock);
    let count = |owner: &Owner| if has_ended { owner.untimed_waiters } else { owner.waiters };
    let waiters: f64 = graph.owners.iter().filter(is_of_these).map(count).sum();
    let name = newer.tasks.as_ref().ok().and_then(|tasks| Some(tasks.process(first.thread.wait.task.pid)?.comm.clone()));
    Some(Deadlock {
        group: newer.waits.groups.get(usize::from(first.group))?.clone(),
        threads: owners.iter().map(|owner| owner.thread.clone()).collect(),
        known_by: owners.iter().map(|owner| owner.field).collect(),
        process: name.unwrap_or_default(),
        others: (waiters - if has_ended { 0.0 } else { owners.len() as f64 }).max(0.0),
        kind: if owners.iter().any(|owner| owner.has_timeout) { CycleKind::Timed } else { CycleKind::Deadlock },
    })
}

/// Holders of futex locks that have ended, for which threads wait without a timeout.
fn ended_holders(graph: &LockGraph) -> impl Iterator<Item = &Owner> {
    let is_ended = |owner: &&Owner| {
        owner.activity == HolderActivity::Ended
            && !owner.field.is_of_kernel()
            && is_named(owner)
            && owner.untimed_waiters > 0.0
            && reaches_threshold(owner.seen_share, MIN_SEEN_SHARE)
    };
    graph.owners.iter().filter(is_ended)
}

/// Whether a thread that waited for the lock at the older sample has run since: what looks like a mutex whose holder has ended is
/// another lock, or a mutex that another thread unlocks. Not known where threads wait with a timeout, which run when it ends.
fn has_been_passed_on(owner: &Owner, older: &Sample, newer: &Sample) -> bool {
    let (Ok(was), Ok(now)) = (&older.tasks, &newer.tasks) else { return false };
    if owner.waiters > owner.untimed_waiters {
        return false;
    }
    let group = newer.waits.groups.get(usize::from(owner.group));
    let (address, pid) = match owner.lock {
        LockId::Futex { pid, address } => (address, Some(pid)),
        LockId::SharedFutex { address, .. } => (address, None),
        LockId::Kernel(_) => return false,
    };
    let waited = |thread: &Thread| thread.wait.syscall().is_ok_and(|call| call.arguments[0] == address);
    let has_run = |process: &Process, thread: &Thread| {
        let last_timeslice_ns = || now.thread(process.task_id(thread)).map(|(_, now)| now.last_timeslice_ns);
        waited(thread) && last_timeslice_ns().is_some_and(|last_timeslice_ns| last_timeslice_ns != thread.last_timeslice_ns)
    };
    let processes =
        group.into_iter().flat_map(|group| was.members(group)).filter(|process| pid.is_none_or(|pid| process.pid == pid));
    processes.into_iter().any(|process| process.threads.iter().any(|thread| has_run(process, thread)))
}

/// Of each thread of the cycle the lock for which the one before waits: it may hold others, too.
fn owners_in_cycle<'a>(graph: &'a LockGraph, edges: &FxHashMap<TaskId, Edge<'a>>, cycle: &[TaskId]) -> Vec<&'a Owner> {
    let before = cycle.iter().cycle().skip(cycle.len().saturating_sub(1));
    let owner = |(task, before): (&TaskId, &TaskId)| {
        let wanted = edges.get(before)?.owner.wanted;
        let holds = |owner: &&Owner| owner.thread.wait.task == *task && Some(owner.lock) == wanted;
        lasting_owners(graph).find(holds)
    };
    cycle.iter().zip(before).filter_map(owner).collect()
}

/// Whether the lock names its holder: one that wake-ups or a hint show may be another.
fn is_named(owner: &&Owner) -> bool {
    !matches!(owner.field, OwnerField::Waker(_)) && !owner.field.is_hint()
}

/// Holders that locks name, each in a wait that lasts.
fn lasting_owners(graph: &LockGraph) -> impl Iterator<Item = &Owner> {
    let lasts = |owner: &&Owner| reaches_threshold(owner.seen_share, MIN_SEEN_SHARE);
    graph.owners.iter().filter(is_named).filter(lasts)
}

/// A thread that holds a lock and waits for another one.
struct Edge<'a> {
    /// It, with the lock that it holds
    owner: &'a Owner,
    /// The holder of the lock for which it waits
    next: TaskId,
}

/// By the thread that waits.
fn edges(graph: &LockGraph) -> FxHashMap<TaskId, Edge<'_>> {
    let holders: FxHashMap<LockId, TaskId> = lasting_owners(graph).map(|owner| (owner.lock, owner.thread.wait.task)).collect();
    lasting_owners(graph)
        .filter_map(|owner| Some((owner.thread.wait.task, Edge { owner, next: *holders.get(&owner.wanted?)? })))
        .collect()
}

/// The cycle that contains `start`, if following the waits leads back to it.
fn find_cycle(edges: &FxHashMap<TaskId, Edge>, start: TaskId) -> Option<Vec<TaskId>> {
    let mut cycle = vec![start];
    loop {
        let next = edges.get(cycle.last()?)?.next;
        if next == start {
            return Some(cycle);
        }
        if cycle.contains(&next) {
            return None;
        }
        cycle.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::ids::ProcessId;
    use crate::sample::task::RawSyscall;
    use crate::sample::waits::{BlockedWait, LockOwner, SubSample};
    use crate::synthetic;

    const SUB_SAMPLES: u16 = 10;
    const A: u64 = 0x1000;
    const B: u64 = 0x2000;

    /// The holder of a mutex for which 12 threads wait, in as many of the sub-samples.
    fn row(futex_address: u64, holder: BlockedWait, seen_count: u16) -> LockOwner {
        LockOwner {
            group: 0,
            futex_address,
            is_shared: false,
            field: OwnerField::GlibcMutex,
            waiters: 12 * u32::from(SUB_SAMPLES),
            owner: BlockedWait { seen_count, ..holder },
            kernel_lock: None,
            timed_waiters: 0,
            awaited_java_lock: None,
        }
    }

    /// It waits for the mutex at this address.
    fn behind(tid: u32, address: u64) -> BlockedWait {
        let task = TaskId { pid: 700, tid, start_ticks: 1 };
        let syscall = Some(RawSyscall { number: 202, arguments: [address, 0x80, 2] });
        BlockedWait { syscall, ..synthetic::waits::asleep(task, "knot", "futex_do_wait") }
    }

    fn ended(tid: u32) -> BlockedWait {
        BlockedWait::new(TaskId { pid: 700, tid, start_ticks: 0 }, 0, Name::default(), TaskState::Dead)
    }

    /// Threads, whether the first one has ended, and how many others wait.
    fn found(rows: Vec<LockOwner>) -> Vec<(Vec<u32>, bool, f64)> {
        found_between(&synthetic::sample(1.0).build(), synthetic::sample(2.0), rows)
    }

    fn found_between(older: &Sample, newer: synthetic::SampleBuilder, rows: Vec<LockOwner>) -> Vec<(Vec<u32>, bool, f64)> {
        let newer = newer.with(|sample| {
            sample.waits.groups = vec![GroupId::Process(ProcessId { pid: 700, start_ticks: 1 })];
            sample.waits.sub_samples = vec![SubSample::default(); usize::from(SUB_SAMPLES)];
            sample.waits.lock_owners = rows;
        });
        let newer = newer.build();
        let tids = |deadlock: &Deadlock| deadlock.threads.iter().map(|thread| thread.wait.task.tid).collect::<Vec<_>>();
        let all = lock_cycles(&LockGraph::new(&synthetic::host(), &newer), older, &newer);
        let deadlocks = all.iter().filter(|cycle| cycle.kind == CycleKind::Deadlock);
        deadlocks.map(|deadlock| (tids(deadlock), deadlock.has_ended(), deadlock.others)).collect()
    }

    #[test]
    fn threads_that_hold_what_the_next_one_waits_for_are_a_deadlock() {
        let both = vec![row(A, behind(701, B), SUB_SAMPLES), row(B, behind(702, A), SUB_SAMPLES)];
        assert_eq!(found(both), [(vec![701, 702], false, 22.0)]);
        let seldom = vec![row(A, behind(701, B), SUB_SAMPLES), row(B, behind(702, A), 5)];
        assert_eq!(found(seldom), [], "taken in turn");
        assert_eq!(found(vec![row(A, behind(701, B), SUB_SAMPLES)]), [], "the holder of the other one is not known");
    }

    #[test]
    fn a_cycle_in_which_one_thread_waits_with_a_timeout_is_no_deadlock() {
        let timed = |holder: BlockedWait| BlockedWait { has_timeout: true, ..holder };
        let one = vec![row(A, timed(behind(701, B)), SUB_SAMPLES), row(B, behind(702, A), SUB_SAMPLES)];
        assert_eq!(found(one), []);
        let running = BlockedWait { syscall: None, state: TaskState::Running, ..behind(701, B) };
        let before = vec![row(A, running, 2), row(A, timed(behind(701, B)), 8), row(B, behind(702, A), SUB_SAMPLES)];
        assert_eq!(found(before), [], "also where it ran between two waits");
        assert_eq!(found(vec![row(A, timed(behind(701, A)), SUB_SAMPLES)]), [], "its own lock");
        assert_eq!(found(vec![row(A, behind(701, A), SUB_SAMPLES)]), [(vec![701], false, 11.0)]);
    }

    #[test]
    fn threads_that_wait_with_a_timeout_proceed_although_the_holder_has_ended() {
        let waiters = |timed_waiters| LockOwner { timed_waiters, ..row(A, ended(701), SUB_SAMPLES) };
        assert_eq!(found(vec![waiters(120)]), []);
        assert_eq!(found(vec![waiters(100)]), [(vec![701], true, 2.0)]);
    }

    #[test]
    fn the_threads_behind_a_cycle_are_those_of_its_locks_whatever_else_its_threads_hold() {
        let other = |address| LockOwner { waiters: 30, ..row(address, behind(701, B), SUB_SAMPLES) };
        let both = [row(A, behind(701, B), SUB_SAMPLES), row(B, behind(702, A), SUB_SAMPLES)];
        for address in [A - 8, B + 8] {
            let all = both.iter().cloned().chain([other(address)]).collect();
            assert_eq!(found(all), [(vec![701, 702], false, 22.0)], "{address:x}");
        }
    }

    #[test]
    fn a_lock_that_is_passed_on_has_a_holder_whatever_its_words_say() {
        let process = |last_timeslice_ns, address| {
            let thread = synthetic::thread(703, "knot").with(|thread| {
                thread.start_ticks = 1;
                thread.last_timeslice_ns = Some(last_timeslice_ns);
                thread.wait.syscall = Ok(Arc::new(RawSyscall { number: 202, arguments: [address, 0x80, 2] }));
            });
            synthetic::process(700, "knot").with(|process| process.start_ticks = 1).threads([thread])
        };
        let between = |was: (u64, u64), now: (u64, u64)| {
            let older = synthetic::sample(1.0).processes([process(was.0, was.1)]).build();
            let newer = synthetic::sample(2.0).processes([process(now.0, now.1)]);
            found_between(&older, newer, vec![row(A, ended(701), SUB_SAMPLES)]).len()
        };
        assert_eq!(between((5, A), (5, A)), 1);
        assert_eq!(between((5, A), (7, A)), 0, "it waits again");
        assert_eq!(between((5, A), (7, B)), 0);
        assert_eq!(between((5, B), (7, A)), 1, "one more waits");
    }

    #[test]
    fn threads_behind_a_holder_that_has_ended_are_a_deadlock() {
        assert_eq!(found(vec![row(A, ended(701), SUB_SAMPLES)]), [(vec![701], true, 12.0)]);
        assert_eq!(found(vec![row(A, ended(701), 5)]), [], "a thread that is just ending");
        let leader = BlockedWait { state: TaskState::Zombie, ..behind(700, 0) };
        assert_eq!(found(vec![row(A, leader, SUB_SAMPLES)]), [(vec![700], true, 12.0)], "the main thread");
    }
}
