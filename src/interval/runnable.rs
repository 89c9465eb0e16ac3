//! What a thread that is runnable (state R) did for most of an interval: it ran, waited for a CPU, or its CPU quota kept it from running.

use super::Interval;
use super::lock_holders::{HolderActivity, LockHolder};
use super::throttling::{Throttling, throttling};
use crate::ids::{CgroupId, TaskId};

/// What a runnable thread did for most of the interval.
#[derive(Clone, Copy, Debug)]
pub enum RunnableThread<'a> {
    /// On a CPU, or not known
    Runs,
    WaitsForCpu,
    Throttled(Throttling<'a>),
}

impl RunnableThread<'_> {
    pub fn new(interval: &Interval, task: TaskId) -> RunnableThread<'_> {
        let span = interval.tasks.as_ref().and_then(|tasks| tasks.thread(task));
        let (ran, waited) = span.map_or((0.0, 0.0), |span| (span.states.user + span.states.system, span.states.run_queue));
        if waited <= ran {
            return RunnableThread::Runs;
        }
        let throttling = interval.process(task.pid).and_then(|process| throttling(interval, process));
        throttling.map_or(RunnableThread::WaitsForCpu, RunnableThread::Throttled)
    }
}

/// Whether the quota of this cgroup throttles the holder of a lock, or the thread for which it waits in the end.
pub fn is_throttled_by(interval: &Interval, holder: &LockHolder, cgroup: &CgroupId) -> bool {
    holder.last_activity() == HolderActivity::Running
        && match RunnableThread::new(interval, holder.last_thread().wait.task) {
            RunnableThread::Throttled(by) => by.cgroup == cgroup,
            RunnableThread::Runs | RunnableThread::WaitsForCpu => false,
        }
}
