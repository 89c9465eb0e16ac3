//! Metrics of control groups that have a limit: CPU time, throttling, pressure. Named as cAdvisor names them.

use super::family::{FamilyList, Metric, label};
use super::names;
use super::selection::Selection;
use crate::figures::cgroup::{CPU_RATIO, HELD_BACK_RATIO, NAME};
use crate::figures::{Cell, FigureInput};
use crate::findings::Evaluation;
use crate::ids::CgroupId;
use crate::interval::cgroup::CgroupSpan;
use crate::units::{Counter, SmallSort};

const MAX_CGROUPS: usize = 16;

/// The groups that have series.
#[derive(Clone, Debug)]
pub struct CgroupMetrics(Selection<CgroupId>);

impl Default for CgroupMetrics {
    fn default() -> CgroupMetrics {
        CgroupMetrics(Selection::new(MAX_CGROUPS))
    }
}

impl CgroupMetrics {
    /// Returns how many groups have no series.
    pub fn add(&mut self, evaluation: &Evaluation, families: &mut FamilyList) -> usize {
        let interval = &evaluation.interval;
        let Ok(groups) = &interval.newer.cgroups else { return 0 };
        let input = FigureInput::from(evaluation);
        let share = |group: &CgroupSpan| {
            HELD_BACK_RATIO.number(&input, group).unwrap_or(0.0).max(CPU_RATIO.number(&input, group).unwrap_or(0.0))
        };
        let mut spans: Vec<(f64, &CgroupSpan)> = interval.cgroups.iter().map(|group| (share(group), group)).collect();
        spans.small_sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let candidates: Vec<CgroupId> = spans.iter().map(|(_, group)| group.id.clone()).collect();
        let left_out = self.0.update(&candidates, interval.at().boottime_ns);
        for span in interval.cgroups.iter().filter(|span| self.0.contains(&span.id)) {
            // Sorted by id.
            let at = groups.binary_search_by(|group| group.id.cmp(&span.id)).ok();
            let Some(group) = at.and_then(|at| groups.get(at)) else { continue };
            let name = match NAME.value(&input, span) {
                Cell::Text(name) => name,
                _ => String::new(),
            };
            let path = group.id.path.to_string_lossy();
            let mut add = |metric: &'static Metric, counter: Option<Counter>, per_second: f64| {
                let value = counter.map(|counter| counter.0 as f64 / per_second);
                families.add(metric, vec![label("cgroup", &path), label("name", &name)], value);
            };
            add(&names::CGROUP_CPU, group.usage_ns, 1e9);
            add(&names::CGROUP_THROTTLED, group.throttled_ns.filter(|_| group.quota_us.is_some()), 1e9);
            add(&names::CGROUP_CPU_WAITING, group.pressure.cpu_some_us, 1e6);
            add(&names::CGROUP_IO_WAITING, group.pressure.io_some_us, 1e6);
            add(&names::CGROUP_IO_STALLED, group.pressure.io_full_us, 1e6);
            add(&names::CGROUP_MEMORY_WAITING, group.pressure.memory_some_us, 1e6);
            add(&names::CGROUP_MEMORY_STALLED, group.pressure.memory_full_us, 1e6);
        }
        left_out
    }
}
