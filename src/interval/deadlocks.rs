//! Deadlocks of futex locks and of locks inside the kernel: threads each of which holds a lock and waits for the lock of the next, by
//! the owner fields of the locks; and locks whose holder has ended. A cycle in which a thread waits with a timeout is none.
//! docs/metrics.md, "Lock holders".

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::holder_activity::HolderActivity;
pub use super::lock_graph::CycleKind;
use super::lock_graph::{LockGraph, LockId, Owner};
use crate::ids::{GroupId, TaskId};
use crate::sample::task::TaskState;
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
pub fn lock_cycles(graph: &LockGraph, newer: &Sample) -> Vec<Deadlock> {
    let edges = edges(graph);
    let mut seen: Vec<TaskId> = Vec::new();
    let mut found: Vec<Deadlock> = ended_holders(graph).filter_map(|owner| deadlock(graph, newer, &[owner])).collect();
    let mut starts: Vec<&TaskId> = edges.keys().collect();
    starts.sort_unstable();
    for &start in starts {
        let Some(cycle) = find_cycle(&edges, start).filter(|cycle| !cycle.iter().any(|task| seen.contains(task))) else {
            continue;
        };
        seen.extend(&cycle);
        let owners: Vec<&Owner> = cycle.iter().filter_map(|task| edges.get(task)).map(|edge| edge.owner).collect();
        found.extend(deadlock(graph, newer, &owners));
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

/// Whether the lock names its holder: one that wake-ups show may be another.
fn is_named(owner: &&Owner) -> bool {
    !matches!(owner.field, OwnerField::Waker(_))
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
    let owners = || graph.owners.iter().filter(is_named).filter(|owner| reaches_threshold(owner.seen_share, MIN_SEEN_SHARE));
    let holders: FxHashMap<LockId, TaskId> = owners().map(|owner| (owner.lock, owner.thread.wait.task)).collect();
    owners().filter_map(|owner| Some((owner.thread.wait.task, Edge { owner, next: *holders.get(&owner.wanted?)? }))).collect()
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
            awaited_monitor: None,
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
        let newer = synthetic::sample(2.0).with(|sample| {
            sample.waits.groups = vec![GroupId::Process(ProcessId { pid: 700, start_ticks: 1 })];
            sample.waits.sub_samples = vec![SubSample::default(); usize::from(SUB_SAMPLES)];
            sample.waits.lock_owners = rows;
        });
        let newer = newer.build();
        let tids = |deadlock: &Deadlock| deadlock.threads.iter().map(|thread| thread.wait.task.tid).collect::<Vec<_>>();
        let all = lock_cycles(&LockGraph::new(&synthetic::host(), &newer), &newer);
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
    fn threads_behind_a_holder_that_has_ended_are_a_deadlock() {
        assert_eq!(found(vec![row(A, ended(701), SUB_SAMPLES)]), [(vec![701], true, 12.0)]);
        assert_eq!(found(vec![row(A, ended(701), 5)]), [], "a thread that is just ending");
        let leader = BlockedWait { state: TaskState::Zombie, ..behind(700, 0) };
        assert_eq!(found(vec![row(A, leader, SUB_SAMPLES)]), [(vec![700], true, 12.0)], "the main thread");
    }
}
