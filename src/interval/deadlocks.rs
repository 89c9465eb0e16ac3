//! Deadlocks of futex locks and of locks inside the kernel: threads each of which holds a lock and waits for the lock of the next, by
//! the owner fields of the locks.
//! docs/metrics.md, "Lock holders".

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::lock_graph::{LockGraph, LockId, Owner};
use crate::ids::{GroupId, TaskId};
use crate::sample::waits::OwnerField;
use crate::sample::{Name, Sample};
use crate::units::reaches_threshold;

/// Threads that wait for each other's locks.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlock {
    pub group: GroupId,
    /// In the order in which they wait: each waits for the lock that the next one holds, the last for that of the first. A thread that
    /// waits for its own lock is alone.
    pub threads: Vec<BlockedThread>,
    /// Parallel to `threads`: how it is known that it holds its lock
    pub known_by: Vec<OwnerField>,
    /// Name of the process
    pub process: Name,
    /// Mean number of other threads that wait for one of the locks
    pub others: f64,
}

/// A cycle counts if this share of the sub-samples saw each of its threads hold its lock and wait for the next one: a thread that takes
/// locks in turn is seen so for a moment. docs/metrics.md, "Fixed thresholds".
const MIN_SEEN_SHARE: f64 = 0.8;

/// The deadlocks of an interval, in the order of pids.
pub fn deadlocks(graph: &LockGraph, newer: &Sample) -> Vec<Deadlock> {
    let waits = &newer.waits;
    let edges = edges(graph);
    let mut seen: Vec<TaskId> = Vec::new();
    let mut found = Vec::new();
    let mut starts: Vec<&TaskId> = edges.keys().collect();
    starts.sort_unstable();
    for &start in starts {
        let Some(cycle) = find_cycle(&edges, start).filter(|cycle| !cycle.iter().any(|task| seen.contains(task))) else {
            continue;
        };
        seen.extend(&cycle);
        let owners: Vec<&Owner> = cycle.iter().filter_map(|task| edges.get(task)).map(|edge| edge.owner).collect();
        let Some(group) = owners.first().and_then(|owner| waits.groups.get(usize::from(owner.group))) else { continue };
        let is_of_cycle = |owner: &&Owner| owners.iter().any(|one| one.lock == owner.lock);
        let waiters: f64 = graph.owners.iter().filter(is_of_cycle).map(|owner| owner.waiters).sum();
        let name = newer.tasks.as_ref().ok().and_then(|tasks| Some(tasks.process(start.pid)?.comm.clone()));
        found.push(Deadlock {
            group: group.clone(),
            threads: owners.iter().map(|owner| owner.thread.clone()).collect(),
            known_by: owners.iter().map(|owner| owner.field).collect(),
            process: name.unwrap_or_default(),
            others: (waiters - cycle.len() as f64).max(0.0),
        });
    }
    found
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
    // A holder that wake-ups show is not one that the lock names.
    let is_named = |owner: &&Owner| !matches!(owner.field, OwnerField::Waker(_));
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
