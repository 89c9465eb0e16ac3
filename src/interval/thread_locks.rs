//! The locks of one thread: the one for which it waits, with its holder, and those that it holds while others wait for them.

use super::Interval;
use super::lock_graph::{CycleKind, LockGraph, LockId, Owner};
use super::lock_holders::{LockHolder, MIN_ONE_LOCK_SHARE, holder_of_most};
use super::task::wait_class;
use crate::ids::TaskId;
use crate::sample::task::{Process, Thread};
use crate::sample::waits::{OwnerField, Syscall, WaitClass, class};
use crate::units::reaches_threshold;

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

/// The lock for which a thread waits: by its futex call, or, inside the kernel and of Java, where its group waits for one only, whose holder is
/// known.
fn awaited_lock(interval: &Interval, graph: &LockGraph, process: &Process, thread: &Thread) -> Option<LockId> {
    let machine = interval.host.machine.as_bytes();
    let group = interval.newer.waits.groups.iter().position(|group| *group == process.group());
    let group = group.and_then(|group| u16::try_from(group).ok())?;
    if waits_for_java_lock(interval, process.task_id(thread)) {
        return one_lock(graph, &interval.locks.futex_holders, group, OwnerField::is_of_java);
    }
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
    one_lock(graph, &interval.locks.kernel_holders, group, OwnerField::is_of_kernel)
}

/// Whether sub-samples saw it wait for a lock of Java: its futex is its own, and the address of the lock is not kept by thread.
fn waits_for_java_lock(interval: &Interval, task: TaskId) -> bool {
    let waits = &interval.newer.waits;
    let is_in_lock = |id: u32| waits.observed_wait(id).is_some_and(|wait| wait.java_lock.is_some());
    waits.threads.iter().any(|row| row.task == task && is_in_lock(row.wait))
}

/// The lock of such a kind for which the group waits, if it is one only, whose holder is known: the holders of other locks of the group may not be.
fn one_lock(graph: &LockGraph, holders: &[LockHolder], group: u16, is_of_kind: fn(OwnerField) -> bool) -> Option<LockId> {
    let holder = holders.iter().find(|holder| holder.group == group && is_of_kind(holder.field))?;
    let is_one = holder.has_one_lock() && reaches_threshold(holder.share, MIN_ONE_LOCK_SHARE);
    let of_holder =
        |owner: &&Owner| owner.group == group && is_of_kind(owner.field) && owner.thread.wait.task == holder.thread.wait.task;
    graph.owners.iter().filter(|_| is_one).find(of_holder).map(|owner| owner.lock)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::{GroupId, ProcessId};
    use crate::sample::task::{RawSyscall, TaskState};
    use crate::sample::waits::{GroupWait, JavaLockKind, LockOwner, ObservedWait, SubSample, ThreadWait};
    use crate::synthetic;

    const LOCK: u64 = 0x1000;

    #[test]
    fn a_waiter_has_the_holder_of_its_mutex_and_the_holder_what_it_holds() {
        let owner = synthetic::waits::asleep(TaskId { pid: 700, tid: 701, start_ticks: 1 }, "app", "hrtimer_nanosleep");
        let thread = |tid, address| {
            synthetic::thread(tid, "app").with(|thread| {
                thread.start_ticks = 1;
                thread.wait.syscall = Ok(Arc::new(RawSyscall { number: 202, arguments: [address, 0x80, 2] }));
            })
        };
        let threads = [thread(700, LOCK + 8), thread(701, 0), thread(702, LOCK)];
        let process = synthetic::process(700, "app").with(|process| process.start_ticks = 1).threads(threads).build();
        let newer = synthetic::sample(2.0).processes([process.clone()]).with(|sample| {
            sample.waits.groups = vec![GroupId::Process(ProcessId { pid: 700, start_ticks: 1 })];
            sample.waits.sub_samples = vec![SubSample::default(); 10];
            sample.waits.lock_owners = vec![LockOwner {
                group: 0,
                futex_address: LOCK,
                is_shared: false,
                field: OwnerField::GlibcMutex,
                waiters: 30,
                owner: crate::sample::waits::BlockedWait { seen_count: 10, ..owner },
                kernel_lock: None,
                timed_waiters: 0,
                awaited_java_lock: None,
            }];
        });
        let interval =
            Interval::between(&Arc::new(synthetic::host()), &synthetic::sample(1.0).shared(), &newer.shared()).unwrap();
        let of = |tid: u32| thread_locks(&interval, &process, process.thread(tid).unwrap());
        let holder = |tid: u32| of(tid).holder.map(|holder| (holder.thread.wait.task.tid, holder.waiters));
        assert_eq!([700, 701, 702].map(holder), [None, None, Some((701, 3.0))]);
        assert_eq!(of(701).held, [(OwnerField::GlibcMutex, 3.0)]);
        assert_eq!(of(702).held, []);
    }

    #[test]
    fn a_thread_of_java_has_the_holder_of_the_one_lock_of_java_for_which_its_process_waits() {
        let owner = synthetic::waits::asleep(TaskId { pid: 700, tid: 701, start_ticks: 1 }, "java", "hrtimer_nanosleep");
        let thread = |tid| {
            synthetic::thread(tid, "java").with(|thread| {
                thread.start_ticks = 1;
                thread.wait.syscall = Ok(Arc::new(RawSyscall { number: 202, arguments: [u64::from(tid) * 64, 0x189, 0] }));
            })
        };
        let threads = [700, 701, 702, 703].map(thread);
        let process = synthetic::process(700, "java").with(|process| process.start_ticks = 1).threads(threads).build();
        let with_locks = |addresses: &[u64]| {
            let newer = synthetic::sample(2.0).processes([process.clone()]).with(|sample| {
                let waits = &mut sample.waits;
                waits.groups = vec![GroupId::Process(ProcessId { pid: 700, start_ticks: 1 })];
                let wait = GroupWait { group: 0, wait: 9, active: true, threads: 8, at_shared_address: 8 };
                waits.sub_samples = vec![SubSample { waits: vec![wait], ..SubSample::default() }; 10];
                waits.observed = vec![ObservedWait {
                    id: 9,
                    state: TaskState::Sleeping,
                    wchan: Some("futex_do_wait".into()),
                    syscall: Some(RawSyscall { number: 202, arguments: [0, 0x189, 0] }),
                    has_timeout: false,
                    is_behind_named_owner: false,
                    wait_event: None,
                    java_lock: Some(JavaLockKind::Synchronizer),
                }];
                let task = TaskId { pid: 700, tid: 702, start_ticks: 1 };
                waits.threads = vec![ThreadWait { task, wait: 9, group: 0, seen_count: 10 }];
                waits.lock_owners = (0..)
                    .zip(addresses)
                    .map(|(place, &address)| LockOwner {
                        group: 0,
                        futex_address: address,
                        is_shared: false,
                        field: OwnerField::JavaSynchronizer,
                        waiters: 80 / addresses.len() as u32,
                        owner: crate::sample::waits::BlockedWait {
                            seen_count: 10,
                            task: TaskId { tid: 701 + 2 * place, ..owner.task },
                            ..owner.clone()
                        },
                        kernel_lock: None,
                        timed_waiters: 0,
                        awaited_java_lock: None,
                    })
                    .collect();
            });
            let host = Arc::new(synthetic::host());
            let interval = Interval::between(&host, &synthetic::sample(1.0).shared(), &newer.shared()).unwrap();
            [702, 703].map(|tid| {
                let holder = thread_locks(&interval, &process, process.thread(tid).unwrap()).holder;
                holder.map(|holder| (holder.thread.wait.task.tid, holder.field))
            })
        };
        assert_eq!(with_locks(&[LOCK]), [Some((701, OwnerField::JavaSynchronizer)), None], "the other one is idle");
        assert_eq!(with_locks(&[LOCK, LOCK + 64]), [None, None], "which of them is not known");
    }
}
