//! Whether the CPU quota of its cgroup, or of one above it, throttles a process. A throttled thread is runnable, but the kernel
//! does not let it run: it does not wait for a CPU.

use crate::ids::CgroupId;
use crate::interval::Interval;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;

/// The quota that throttles a process.
#[derive(Clone, Copy, Debug)]
pub struct Throttling<'a> {
    pub cgroup: &'a CgroupId,
    /// CPUs; `None` if it was removed within the interval
    pub quota_cpus: Option<f64>,
    /// Share of the time in which it throttled, at most 1: the smaller of throttled time and throttled periods
    pub share: f64,
}

/// Share of the time from which a process counts as throttled. docs/metrics.md, "Fixed thresholds".
const MIN_THROTTLED_SHARE: f64 = 0.05;

/// Throttled time, summed over CPUs, from which the CPU screen names the cgroup.
pub const MIN_NAMED_THROTTLED: f64 = 0.01;

/// The quota that throttled this process most, if one did for at least `MIN_THROTTLED_SHARE` of the time.
pub fn throttling<'a>(interval: &'a Interval, process: &Process) -> Option<Throttling<'a>> {
    let throttled = interval.cgroups.iter().filter_map(|group| {
        let share = group.throttled.and(group.throttled_share())?.0;
        (share >= MIN_THROTTLED_SHARE).then_some(Throttling { cgroup: &group.id, quota_cpus: group.quota_cpus, share })
    });
    // Usually no quota throttles: then the cgroup of the process is not looked up.
    let mut throttled = throttled.peekable();
    throttled.peek()?;
    let own = process.cgroup_for(Controller::Cpu)?;
    let applies = |group: &Throttling| {
        group.cgroup.version == own.version && own.path_with_ancestors().any(|path| path == group.cgroup.path.as_bytes())
    };
    throttled.filter(applies).max_by(|a, b| a.share.total_cmp(&b.share))
}
