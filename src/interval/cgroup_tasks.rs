//! Active processes by cgroup: their CPU time, run-queue wait and microstates, added up.

use rustc_hash::FxHashMap;

use super::Interval;
use super::task::Microstates;
use super::task_activity::{TaskActivity, floor_to_hundredth};
use crate::ids::CgroupId;

/// The active processes of a cgroup; those that slept the whole time are not among them.
pub struct CgroupTasks<'a> {
    /// `None`: the cgroup cannot be read
    pub cgroup: Option<&'a CgroupId>,
    pub processes: u32,
    pub threads: u32,
    /// CPUs used
    pub cpu: f64,
    /// Average number of threads that waited for a CPU
    pub run_queue: f64,
    /// Σ over the threads of its active processes
    pub states: Microstates,
    weight: f64,
}

/// The cgroups with active processes, most active first.
pub fn cgroup_tasks(interval: &Interval) -> Vec<CgroupTasks<'_>> {
    let activity = TaskActivity::new(interval);
    let mut groups: FxHashMap<Option<&CgroupId>, CgroupTasks> = FxHashMap::default();
    for (process, span) in interval.active_processes() {
        let cgroup = process.facts.cgroup.as_ref().ok();
        let group = groups.entry(cgroup).or_insert_with(|| CgroupTasks {
            cgroup,
            processes: 0,
            threads: 0,
            cpu: 0.0,
            run_queue: 0.0,
            states: Microstates::default(),
            weight: 0.0,
        });
        group.processes += 1;
        group.threads += span.threads;
        group.cpu += span.cpu.map_or(0.0, |cpu| cpu.0);
        group.run_queue += span.run_queue_wait.map_or(0.0, |wait| wait.0);
        group.states.add(&span.states);
        group.weight += activity.weight(process, &span.states, span.cpu, span.run_queue_wait);
    }
    let mut list: Vec<CgroupTasks> = groups.into_values().collect();
    list.sort_unstable_by(|a, b| {
        floor_to_hundredth(b.weight).total_cmp(&floor_to_hundredth(a.weight)).then_with(|| a.cgroup.cmp(&b.cgroup))
    });
    list
}
