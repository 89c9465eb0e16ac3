//! Deadlocks of futex locks: threads each of which holds a lock and waits for the lock of the next, by the owner fields of the locks.
//! docs/metrics.md, "Lock holders".

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use crate::ids::{GroupId, TaskId};
use crate::sample::waits::{LockOwner, OwnerField, Syscall, Waits};
use crate::sample::{Host, Name, Sample};
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
pub fn deadlocks(host: &Host, newer: &Sample) -> Vec<Deadlock> {
    let waits = &newer.waits;
    let edges = edges(host, waits);
    let mut seen: Vec<TaskId> = Vec::new();
    let mut found = Vec::new();
    let mut starts: Vec<&TaskId> = edges.keys().collect();
    starts.sort_unstable();
    for &start in starts {
        let Some(cycle) = find_cycle(&edges, start).filter(|cycle| !cycle.iter().any(|task| seen.contains(task))) else {
            continue;
        };
        seen.extend(&cycle);
        let rows: Vec<&Edge> = cycle.iter().filter_map(|task| edges.get(task)).collect();
        let Some(group) = rows.first().and_then(|edge| waits.groups.get(usize::from(edge.row.group))) else { continue };
        let waiters: u32 = rows.iter().map(|edge| edge.row.waiters).fold(0, u32::saturating_add);
        let mean = f64::from(waiters) / waits.sub_samples.len().max(1) as f64;
        let name = newer.tasks.as_ref().ok().and_then(|tasks| Some(tasks.process(start.pid)?.comm.clone()));
        found.push(Deadlock {
            group: group.clone(),
            threads: rows.iter().map(|edge| BlockedThread::new(host.machine.as_bytes(), &edge.row.owner)).collect(),
            known_by: rows.iter().map(|edge| edge.row.field).collect(),
            process: name.unwrap_or_default(),
            others: (mean - cycle.len() as f64).max(0.0),
        });
    }
    found
}

/// A thread that holds a lock and waits for another one.
struct Edge<'a> {
    /// The lock that it holds
    row: &'a LockOwner,
    /// The holder of the lock for which it waits
    next: TaskId,
}

/// By the thread that waits. A lock belongs to the process at whose address it is.
fn edges<'a>(host: &Host, waits: &'a Waits) -> FxHashMap<TaskId, Edge<'a>> {
    let enough =
        |row: &&LockOwner| reaches_threshold(f64::from(row.owner.seen_count), waits.sub_samples.len() as f64 * MIN_SEEN_SHARE);
    let rows = || waits.lock_owners.iter().filter(enough);
    let owners: FxHashMap<(u32, u64), TaskId> =
        rows().map(|row| ((row.owner.task.pid, row.futex_address), row.owner.task)).collect();
    let edge = |row: &'a LockOwner| {
        let call = Syscall::from_number(host.machine.as_bytes(), row.owner.syscall?)?;
        let wanted = call.futex_wait().filter(|_| call.is_contended_futex())?.address();
        let next = *owners.get(&(row.owner.task.pid, wanted))?;
        Some((row.owner.task, Edge { row, next }))
    };
    rows().filter_map(edge).collect()
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
