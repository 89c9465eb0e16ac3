//! Threads and groups whose work is meant to wait for other work.

use crate::findings::rule_context::RuleContext;
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::task::ThreadSpan;
use crate::interval::wait_counts::ThreadWaits;
use crate::sample::task::{SCHED_BATCH, SCHED_IDLE, SCHED_OTHER, Scheduling};
use crate::sample::waits::WaitClass;

/// A thread of this nice value gets a tenth of the CPU time of one of nice 0.
const MIN_LOW_PRIORITY_NICE: i8 = 10;

/// Whether the thread is marked as work that may wait: nice 10 or more, SCHED_BATCH or SCHED_IDLE.
pub fn is_low_priority(thread: &ThreadSpan) -> bool {
    is_low(thread.background, thread.scheduling)
}

fn is_low(background: bool, scheduling: Option<Scheduling>) -> bool {
    let low = scheduling.is_some_and(|scheduling| match scheduling.policy {
        SCHED_OTHER => scheduling.nice >= MIN_LOW_PRIORITY_NICE,
        policy => matches!(policy, SCHED_BATCH | SCHED_IDLE),
    });
    background || low
}

/// Whether all threads of the group that were seen blocked are such work, and no connection waits for them.
pub fn is_background(context: &RuleContext, group: &BlockedGroup) -> bool {
    let interval = context.interval;
    let Ok(tasks) = &interval.newer.tasks else { return false };
    let Some(number) = interval.newer.waits.groups.iter().position(|id| *id == group.group) else { return false };
    let infers_locks = group.lock_inferred >= MIN_REPORTED_THREADS;
    let is_blocked = |thread: &&ThreadWaits| {
        let classes = [WaitClass::Disk, WaitClass::Aio, WaitClass::Memory, WaitClass::Lock, WaitClass::Hidden];
        usize::from(thread.group) == number
            && (classes.iter().any(|&class| thread.count(class) > 0) || infers_locks && thread.count(WaitClass::Futex) > 0)
    };
    let mut blocked = interval.wait_counts.threads.iter().filter(is_blocked).peekable();
    blocked.peek().is_some()
        && group.connections_behind() < 1.0
        && group.behind_ipc_peer < MIN_REPORTED_THREADS
        && blocked.all(|waits| tasks.thread(waits.task).is_some_and(|(_, thread)| is_low(thread.background, thread.scheduling)))
}
