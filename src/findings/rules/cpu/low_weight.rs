//! Part of the rules about saturated CPUs and threads: cgroups whose CPU weight marks their work as work that may wait, as a nice value does for a thread.

use std::collections::BTreeMap;

use crate::findings::cgroups::CgroupAncestors;
use crate::findings::rule_context::RuleContext;
use crate::ids::{CgroupId, CgroupVersion};
use crate::interval::cgroup_names::describe_cgroup;
use crate::sample::cgroup::CgroupWeight;

/// Share of the default weight up to which a cgroup is one of low weight: about that of nice 10. docs/metrics.md, "Fixed thresholds".
const MAX_LOW_WEIGHT_SHARE: f64 = 0.11;

/// The cgroups of low weight whose tasks want a CPU.
pub struct LowWeightCgroups<'a>(CgroupAncestors<'a, &'a CgroupWeight>);

impl<'a> LowWeightCgroups<'a> {
    pub fn from_context(context: &RuleContext<'a>) -> LowWeightCgroups<'a> {
        let interval: &'a crate::interval::Interval = context.interval;
        // At one of its ends the tasks of a cgroup may have slept.
        let weights = interval.older.cgroup_weights.iter().chain(&interval.newer.cgroup_weights);
        let low = weights.filter(|group| is_low(group));
        LowWeightCgroups(CgroupAncestors::from_cgroups(low.map(|group| (&group.id, group))))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cgroup of low weight that the process is in; of several the innermost.
    pub fn of_process(&self, context: &RuleContext<'a>, pid: u32) -> Option<&'a CgroupWeight> {
        let cgroup: &CgroupId = context.process(pid)?.facts.cgroup.as_ref().ok()?;
        self.0.ancestors_of(cgroup).last().copied()
    }

    /// `cgroup /batch: cpu.weight 10`, for the one whose threads use most.
    pub fn describe_top(&self, context: &RuleContext<'a>) -> Option<String> {
        let mut used: BTreeMap<&CgroupId, (f64, u64)> = BTreeMap::new();
        for thread in context.interval.tasks.iter().flat_map(|tasks| &tasks.threads) {
            let Some(group) = self.of_process(context, thread.id.pid) else { continue };
            used.entry(&group.id).or_insert((0.0, group.weight)).0 += thread.cpu.map_or(0.0, |used| used.0);
        }
        let (id, (_, weight)) = used.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        Some(describe(context, id, weight))
    }

    /// `; its cgroup has low CPU weight (cgroup /batch: cpu.weight 10)`, for a thread of a process in one.
    pub fn clause(&self, context: &RuleContext<'a>, pid: u32) -> Option<String> {
        // Usually there is none: then no process is looked up.
        let group = Some(pid).filter(|_| !self.is_empty()).and_then(|pid| self.of_process(context, pid))?;
        Some(format!("; its cgroup has low CPU weight ({})", describe(context, &group.id, group.weight)))
    }
}

fn describe(context: &RuleContext, id: &CgroupId, weight: u64) -> String {
    let name = describe_cgroup(&context.interval.newer, id.path.as_bytes());
    match (weight, id.version) {
        (0, _) => format!("{name}: cpu.idle 1"),
        (_, CgroupVersion::V1) => format!("{name}: cpu.shares {weight}"),
        (_, CgroupVersion::V2) => format!("{name}: cpu.weight {weight}"),
    }
}

fn is_low(group: &CgroupWeight) -> bool {
    let default = match group.id.version {
        CgroupVersion::V1 => 1024.0, // cpu.shares
        CgroupVersion::V2 => 100.0,  // cpu.weight
    };
    // The kubelet makes the weights of pods from their CPU requests: a small one is no low priority.
    let is_of_pod = || group.id.path.as_bytes().windows(b"kubepods".len()).any(|word| word == b"kubepods");
    group.weight == 0 || (group.weight as f64 <= default * MAX_LOW_WEIGHT_SHARE && !is_of_pod())
}
