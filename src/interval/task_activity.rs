//! Activity of tasks in an interval: the mean number of threads that ran, waited for a CPU, or were blocked. Tasks are sorted by
//! it by default.

use crate::ids::GroupId;
use crate::interval::Interval;
use crate::interval::task::{Microstates, visible_wait_class};
use crate::sample::Host;
use crate::sample::task::{Process, Thread};
use crate::sample::waits::WaitClass;
use crate::units::Ratio;

/// Minimum average number of threads behind a lock whose holder is blocked on storage, for the group's lock waits to count fully.
const MIN_THREADS_BEHIND_STORAGE: f64 = 0.05;
/// Weight of other lock waits: most are idle workers.
const OTHER_LOCK_WEIGHT: f64 = 0.02;

/// Computes the activity of tasks in an interval.
pub struct TaskActivity<'a> {
    /// Groups whose threads wait for a lock whose holder is blocked on storage
    groups_behind_storage: Vec<&'a GroupId>,
}

impl<'a> TaskActivity<'a> {
    /// Determines the groups whose lock waits count fully.
    pub fn new(interval: &'a Interval) -> TaskActivity<'a> {
        let groups = interval.idle_blocked.iter().flat_map(|idle| &idle.groups);
        TaskActivity {
            groups_behind_storage: groups
                .filter(|group| group.behind_lock() >= MIN_THREADS_BEHIND_STORAGE)
                .map(|group| &group.group)
                .collect(),
        }
    }

    /// The wait class of a thread. In a group whose lock holder is blocked on storage a futex wait is a lock wait, as in the finding.
    pub fn wait_class(&self, host: &Host, process: &Process, thread: &Thread) -> WaitClass {
        match visible_wait_class(host, process, thread) {
            WaitClass::Futex if self.is_behind_storage(process) => WaitClass::Lock,
            class => class,
        }
    }

    fn is_behind_storage(&self, process: &Process) -> bool {
        !self.groups_behind_storage.is_empty() && self.groups_behind_storage.contains(&&process.group())
    }

    /// Average number of threads that ran, waited for a CPU or were blocked. Lock waits count fully only in a group whose lock
    /// holder is blocked on storage.
    pub fn weight(&self, process: &Process, states: &Microstates, cpu: Option<Ratio>, run_queue: Option<Ratio>) -> f64 {
        let ran = cpu.map_or(0.0, |cpu| cpu.0).max(states.user + states.system);
        let lock =
            if states.lock > 0.0 && self.is_behind_storage(process) { states.lock } else { states.lock * OTHER_LOCK_WEIGHT };
        ran + run_queue.map_or(states.run_queue, |wait| wait.0) + states.disk + states.other_blocked + lock
    }
}

/// Rounds down to a hundredth of a thread, which keeps the order of nearly idle rows stable.
pub fn floor_to_hundredth(threads: f64) -> f64 {
    (threads * 100.0).floor() / 100.0
}
