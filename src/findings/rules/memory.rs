//! Rules about memory: tasks that wait for it, swapping, OOM kills.

pub mod cgroup_thrashing;
pub mod oom_kill;
pub mod pressure;
pub mod swapping;

/// Starting programs have major faults, too. So refaults alone must reach this share of the threshold `refaults-per-second`.
/// docs/metrics.md, "Fixed thresholds".
const MIN_REFAULTS_OF_THRESHOLD: f64 = 0.5;
