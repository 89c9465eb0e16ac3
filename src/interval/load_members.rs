//! What the load average counts: the threads in R and in D of each group, as the sub-samples saw them. docs/metrics.md,
//! "Load average".

use rustc_hash::FxHashMap;

use super::Interval;
use super::group_label::{GroupLabel, group_label};
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::units::SmallSort;

/// Threads of a group from which it has a row: with fewer it would come and go. docs/metrics.md, "Fixed thresholds".
pub const MIN_LISTED_THREADS: f64 = 0.1;

/// The threads of a group that count in the load average.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadMember {
    pub label: GroupLabel,
    /// Index into `Waits::groups`
    pub group: u16,
    /// Mean number of threads in R: on a CPU, or waiting for one
    pub runnable: f64,
    /// Mean number of threads in D, frozen ones excepted
    pub uninterruptible: f64,
}

impl LoadMember {
    /// Mean number of threads in R and D
    pub fn total(&self) -> f64 {
        self.runnable + self.uninterruptible
    }
}

/// The groups with most such threads first; empty without sub-samples.
pub fn load_members(interval: &Interval) -> Vec<LoadMember> {
    let waits = &interval.newer.waits;
    let mut counts: FxHashMap<u16, [u32; 2]> = FxHashMap::default();
    for row in waits.sub_samples.iter().flat_map(|sub_sample| &sub_sample.waits) {
        let Some(wait) = interval.wait_counts.class_of(row.wait) else { continue };
        let place = match (wait.state, wait.class) {
            (TaskState::Running, _) => 0,
            (TaskState::Blocked, class) if class != WaitClass::Frozen => 1,
            _ => continue,
        };
        if let Some(sum) = counts.entry(row.group).or_default().get_mut(place) {
            *sum = sum.saturating_add(u32::from(row.threads));
        }
    }
    let sub_samples = waits.sub_samples.len().max(1) as f64;
    let member = |(group, [runnable, uninterruptible]): (u16, [u32; 2])| {
        let id = waits.groups.get(usize::from(group))?;
        Some(LoadMember {
            label: group_label(id, &interval.older, &interval.newer),
            group,
            runnable: f64::from(runnable) / sub_samples,
            uninterruptible: f64::from(uninterruptible) / sub_samples,
        })
    };
    let mut members: Vec<LoadMember> = counts.into_iter().filter_map(member).collect();
    members.small_sort_by(|a, b| b.total().total_cmp(&a.total()).then_with(|| a.group.cmp(&b.group)));
    members
}
