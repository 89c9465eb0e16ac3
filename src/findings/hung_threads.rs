//! Hung threads of user processes: blocked in one single wait for at least `hung-seconds`.

use crate::findings::thresholds::Thresholds;
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::sample::waits::class::is_fuse_request;

/// User threads that have been in D, or waiting for FUSE, for at least `hung_seconds` without a timeslice.
pub fn hung_threads<'a>(interval: &'a Interval, thresholds: &Thresholds) -> impl Iterator<Item = &'a BlockedThread> {
    let least = thresholds.hung_seconds;
    let blocked = interval.blocked_threads.iter();
    blocked.filter(|thread| !matches!(thread.class, WaitClass::Vfork | WaitClass::Frozen | WaitClass::Aio)).filter(
        move |thread| waited_seconds(interval, thread.wait.blocked_since_ns) >= least && is_still_blocked(interval, thread),
    )
}

/// Seconds from `since_ns` (CLOCK_BOOTTIME) to the newer sample.
pub fn waited_seconds(interval: &Interval, since_ns: u64) -> f64 {
    interval.at().boottime_ns.saturating_sub(since_ns) as f64 / 1e9
}

/// Whether it still is blocked at the sample and is no kernel thread. True if tasks could not be read.
fn is_still_blocked(interval: &Interval, blocked: &BlockedThread) -> bool {
    let Ok(tasks) = &interval.newer.tasks else { return true };
    let still = |state: TaskState| state == TaskState::Blocked || state == TaskState::Sleeping && waits_for_fuse(blocked);
    tasks.thread(blocked.wait.task).is_some_and(|(process, thread)| !process.kernel_thread && still(thread.state))
}

/// Whether it waits for a file system in user space (FUSE); such a thread is in S.
pub fn waits_for_fuse(thread: &BlockedThread) -> bool {
    thread.wait.wchan.as_ref().is_some_and(|channel| is_fuse_request(channel.as_bytes()))
}
