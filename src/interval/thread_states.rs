//! How many threads were in each state, as means of the interval.

use super::Interval;
use super::idle_blocked::BlockedGroup;
use super::task::{Microstates, TaskSpan};

/// A mean from which it rounds to a thread. docs/metrics.md, "Fixed thresholds".
const MIN_WHOLE_THREAD: f64 = 0.5;

/// Average number of threads in each state, of the processes that ran or had a thread that was not asleep.
pub fn mean_thread_states(tasks: &TaskSpan) -> Microstates {
    let mut sums = Microstates::default();
    tasks.active_processes.iter().for_each(|process| sums.add(&process.states));
    sums
}

/// Threads in lock waits: the mean of the interval, of blocked groups as in their finding. Where none of them ran, the number at its
/// end.
pub fn threads_in_lock_waits(interval: &Interval, tasks: &TaskSpan) -> f64 {
    let groups: Vec<&BlockedGroup> =
        interval.idle_blocked.iter().flat_map(|idle| &idle.groups).filter(|group| group.behind_lock() > 0.0).collect();
    let others = interval.active_processes().filter(|(process, row)| {
        row.states.lock > 0.0 && (groups.is_empty() || groups.iter().all(|group| group.group != process.group()))
    });
    let mean = others.map(|(_, row)| row.states.lock).chain(groups.iter().map(|group| group.behind_lock())).sum();
    if mean >= MIN_WHOLE_THREAD { mean } else { f64::from(tasks.counts.lock_wait) }
}
