//! Part of rule cpu-saturated: the weights of the cgroups of the threads that want a CPU, as the reason that one gets little.
//!
//! The kernel divides CPU time between the groups of one parent in the proportion of their weights, and only then between the
//! threads of each. So the two groups below the common parent of two threads are compared.

use std::collections::BTreeMap;

use crate::findings::formatting::{cpu_time, plural};
use crate::findings::rule_context::RuleContext;
use crate::findings::rules::cpu::demand::Demand;
use crate::ids::{CgroupId, CgroupVersion};
use crate::interval::cgroup_names::describe_cgroup;

/// The weight of the other group must be at least this multiple of that of the group of the starved thread.
/// docs/metrics.md, "Fixed thresholds".
const MIN_WEIGHT_RATIO: f64 = 2.0;

/// The weight of a group in which `cpu.idle` is 1 (WEIGHT_IDLEPRIO), on the scale of cpu.shares.
const IDLE_SHARES: f64 = 3.0;

/// The demand of the threads of a cgroup, and of the groups below it.
#[derive(Clone, Copy, Default)]
struct GroupDemand {
    threads: u32,
    /// CPUs
    used: f64,
}

/// `cgroup /light has cpu.shares 20 beside 4096 of cgroup /heavy, whose 4 threads use 1.97 CPUs`.
pub fn cgroup_weight_reason(context: &RuleContext, starved: &Demand, demands: &[Demand]) -> Option<String> {
    let own = cgroup_of(context, starved)?;
    let mut others: BTreeMap<(&[u8], &[u8]), GroupDemand> = BTreeMap::new();
    for demand in demands {
        let Some(pair) = cgroup_of(context, demand).and_then(|other| siblings(own, other)) else { continue };
        let group = others.entry(pair).or_default();
        group.threads += 1;
        group.used += demand.used;
    }
    let (&(path, other_path), other) = others.iter().max_by(|a, b| a.1.used.total_cmp(&b.1.used))?;
    let (weight, other_weight) = (weight(context, own.version, path)?, weight(context, own.version, other_path)?);
    let file = match own.version {
        CgroupVersion::V1 => "cpu.shares",
        CgroupVersion::V2 => "cpu.weight",
    };
    let name = |path: &[u8]| describe_cgroup(&context.interval.newer, path);
    let (group, other_group) = (name(path), name(other_path));
    if effective(other_weight) < effective(weight) * MIN_WEIGHT_RATIO {
        return None;
    }
    let own_weight = if weight == 0 { "cpu.idle 1".into() } else { format!("{file} {weight}") };
    let used = cpu_time(other.used);
    let whose = plural(f64::from(other.threads), "thread uses", "threads use");
    Some(format!("{group} has {own_weight} beside {other_weight} of {other_group}, whose {whose} {used}"))
}

/// Whether CPU weights divide the time between the two threads, so that their nice values do not.
pub fn are_divided_by_weights(context: &RuleContext, one: &Demand, other: &Demand) -> bool {
    let Some((own, others)) = cgroup_of(context, one).zip(cgroup_of(context, other)) else { return false };
    let is_known = |path| weight(context, own.version, path).is_some();
    siblings(own, others).is_some_and(|(path, other_path)| is_known(path) && is_known(other_path))
}

fn cgroup_of<'a>(context: &'a RuleContext, demand: &Demand) -> Option<&'a CgroupId> {
    context.process(demand.thread.id.pid)?.facts.cgroup.as_ref().ok()
}

/// The two groups below the common parent; `None` if one contains the other.
fn siblings<'a>(own: &'a CgroupId, other: &'a CgroupId) -> Option<(&'a [u8], &'a [u8])> {
    let same_hierarchy = own.version == other.version;
    own.path_with_ancestors().zip(other.path_with_ancestors()).find(|(a, b)| same_hierarchy && a != b)
}

/// `None` if it was not read.
fn weight(context: &RuleContext, version: CgroupVersion, path: &[u8]) -> Option<u64> {
    context.interval.cgroup_weight(version, path)
}

fn effective(weight: u64) -> f64 {
    if weight == 0 { IDLE_SHARES } else { weight as f64 }
}
