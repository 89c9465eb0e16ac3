//! On which CPUs a thread ran, and in which part of its run time.

use super::Interval;
use crate::ids::{CpuId, TaskId};
use crate::units::Ratio;

/// The parts of the run time of a thread by CPU, sorted by CPU; empty where they are not known, or if it ran on one CPU.
pub fn cpu_shares(interval: &Interval, task: TaskId) -> Vec<(CpuId, Ratio)> {
    let runs = interval.newer.tasks.as_ref().map(|tasks| tasks.cpu_runs(task)).unwrap_or_default();
    let all: u64 = runs.iter().map(|run| run.run_ns).sum();
    runs.iter().filter_map(|run| Some((run.cpu, Ratio::new(run.run_ns as f64, all as f64)?))).collect()
}
