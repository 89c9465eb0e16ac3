//! The locks of one thread: the one for which it waits, with its holder, and those that it holds while others wait for them.

use super::Interval;
use super::lock_graph::{CycleKind, LockGraph, LockId, Owner};
use super::lock_holders::{LockHolder, holder_of_most};
use super::task::wait_class;
use crate::ids::TaskId;
use crate::sample::task::{Process, Thread};
use crate::sample::waits::{OwnerField, Syscall, WaitClass, class};

#[derive(Debug)]
pub struct ThreadLocks {
    /// The holder of the lock for which the thread waits at the newer sample; `None` if it is not known
    pub holder: Option<LockHolder>,
    /// Each lock that the thread was seen to hold, with the mean number of threads that waited for it
    pub held: Vec<(OwnerField, f64)>,
}

/// The locks of this thread, which belongs to that process.
pub fn thread_locks(interval: &Interval, process: &Process, thread: &Thread) -> ThreadLocks {
    let graph = LockGraph::new(&interval.host, &interval.newer);
    let in_deadlocks = interval.locks.deadlocks.iter().flat_map(|deadlock| &deadlock.threads);
    let in_cycles: Vec<(TaskId, CycleKind)> = in_deadlocks.map(|thread| (thread.wait.task, CycleKind::Deadlock)).collect();
    let waited = awaited_lock(interval, &graph, process, thread);
    let owners: Vec<&Owner> = graph.owners.iter().filter(|owner| Some(owner.lock) == waited).collect();
    let waiters: f64 = owners.iter().map(|owner| owner.waiters).sum();
    let mut held: Vec<(LockId, OwnerField, f64)> = Vec::new();
    for owner in graph.owners.iter().filter(|owner| owner.thread.wait.task == process.task_id(thread)) {
        match held.iter_mut().find(|(lock, ..)| *lock == owner.lock) {
            Some((_, _, waiters)) => *waiters += owner.waiters,
            None => held.push((owner.lock, owner.field, owner.waiters)),
        }
    }
    ThreadLocks {
        holder: holder_of_most(&graph, &in_cycles, &owners, waiters).map(|(_, holder)| holder),
        held: held.into_iter().map(|(_, field, waiters)| (field, waiters)).collect(),
    }
}

/// The lock for which a thread waits: by its futex call, or, inside the kernel, where its group waits for one only.
fn awaited_lock(interval: &Interval, graph: &LockGraph, process: &Process, thread: &Thread) -> Option<LockId> {
    let machine = interval.host.machine.as_bytes();
    let group = interval.newer.waits.groups.iter().position(|group| *group == process.group());
    let group = group.and_then(|group| u16::try_from(group).ok())?;
    let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(machine, call));
    if let Some(call) = call
        && let Some(futex) = call.futex_wait()
    {
        let address = futex.address();
        return Some(match call.is_shared_futex() {
            true => LockId::SharedFutex { group, address },
            false => LockId::Futex { pid: process.pid, address },
        });
    }
    let is_in_file_lock = thread.wait.wchan.as_ref().is_ok_and(|wchan| class::is_file_lock(wchan.as_bytes()));
    if wait_class(&interval.host, thread) != WaitClass::Lock || is_in_file_lock {
        return None;
    }
    let mut locks = graph.owners.iter().filter(|owner| owner.group == group && owner.field.is_of_kernel());
    let first = locks.next()?.lock;
    locks.all(|owner| owner.lock == first).then_some(first)
}
