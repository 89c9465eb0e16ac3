//! Threads that wait for a CPU and are restricted to some CPUs (cpuset, taskset), grouped by the set of CPUs.

use std::collections::BTreeMap;

use super::cpu::CpuSpan;
use super::task::TaskSpan;
use crate::ids::cpu_list::parse_cpu_list;
use crate::ids::{CpuId, TaskId};
use crate::sample::{Name, Sample};
use crate::units::SmallSort;

/// Threads that are restricted to the same CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct AffinityWaiters {
    /// As the kernel lists them: `0-3,8`
    pub cpus_allowed_list: Name,
    /// The online CPUs among them; fewer than all online CPUs
    pub cpus: Vec<CpuId>,
    /// Mean share of these CPUs that is busy or stolen, 0 … 1
    pub busy: f64,
    /// Mean number of these threads that run
    pub running: f64,
    /// The threads that waited for a CPU, with the share of the interval that each waited; longest first
    pub waiters: Vec<(TaskId, f64)>,
}

/// Threads that waited less than this share of the time are ignored.
const MIN_WAIT_SHARE: f64 = 0.02;

/// The sets of allowed CPUs that are smaller than all online CPUs.
pub(super) fn affinity_waiters(newer: &Sample, cpu: &CpuSpan, tasks: &TaskSpan) -> Vec<AffinityWaiters> {
    let Ok(sample) = &newer.tasks else { return Vec::new() };
    let mut found: BTreeMap<&Name, AffinityWaiters> = BTreeMap::new();
    // Background threads are meant to wait.
    for span in tasks.threads.iter().filter(|span| !span.background) {
        let Some(wait) = span.run_queue_wait.filter(|wait| wait.0 >= MIN_WAIT_SHARE) else { continue };
        let Some(allowed) = sample.thread(span.id).and_then(|(_, thread)| thread.cpus_allowed_list.as_ref()) else { continue };
        let group = found.entry(allowed).or_insert_with(|| AffinityWaiters::new(allowed, cpu));
        group.running += span.cpu.map_or(0.0, |used| used.0);
        group.waiters.push((span.id, wait.0));
    }
    let mut groups: Vec<AffinityWaiters> = found.into_values().filter(|group| is_restricted(group, cpu)).collect();
    for group in &mut groups {
        group.waiters.small_sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    }
    groups
}

fn is_restricted(group: &AffinityWaiters, cpu: &CpuSpan) -> bool {
    !group.cpus.is_empty() && group.cpus.len() < cpu.cpus.len()
}

impl AffinityWaiters {
    fn new(allowed: &Name, cpu: &CpuSpan) -> AffinityWaiters {
        let ranges: Vec<_> = parse_cpu_list(allowed.as_bytes()).collect();
        let online = cpu.cpus.iter().filter(|core| ranges.iter().any(|range| range.contains(&core.id.0)));
        let cores: Vec<_> = online.collect();
        let taken: f64 = cores.iter().map(|core| core.shares.busy() + core.shares.steal).sum();
        AffinityWaiters {
            cpus_allowed_list: allowed.clone(),
            busy: taken / cores.len().max(1) as f64,
            cpus: cores.iter().map(|core| core.id).collect(),
            running: 0.0,
            waiters: Vec::new(),
        }
    }
}
