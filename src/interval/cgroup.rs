//! Control groups against their limits.

use crate::ids::CgroupId;
use crate::sample::Sample;
use crate::units::{Bytes, PerSecond, Ratio, growth};

/// One group with a quota or a memory limit, present at both samples.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupSpan {
    pub id: CgroupId,
    /// What the quota allows, in CPUs; `None` is no limit
    pub quota_cpus: Option<f64>,
    /// What it used, in CPUs
    pub used_cpus: Option<f64>,
    /// Share of the periods with work in which it was throttled
    pub throttled_periods: Option<Ratio>,
    /// Throttled time ÷ Δt; may pass 1 on v2 and many CPUs, since each CPU's is added
    pub throttled: Option<Ratio>,
    pub memory_limit: Option<Bytes>,
    pub memory_used: Option<Bytes>,
    pub refaults: Option<PerSecond>,
    pub major_faults: Option<PerSecond>,
}

/// Groups present at both samples.
pub(super) fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<CgroupSpan> {
    let (Ok(was), Ok(now)) = (&older.cgroups, &newer.cgroups) else { return Vec::new() };
    let mut spans = Vec::with_capacity(now.len());
    for group in now {
        let Some(before) = was.iter().find(|before| before.id == group.id) else { continue };
        let seconds_of = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
        spans.push(CgroupSpan {
            id: group.id.clone(),
            quota_cpus: match (group.quota_us, group.period_us) {
                (Some(quota), Some(period)) if period > 0 => Some(quota as f64 / period as f64),
                _ => None,
            },
            used_cpus: seconds_of(growth(group.usage_ns, before.usage_ns)).map(|used| used / seconds),
            throttled_periods: growth(group.throttled_periods, before.throttled_periods)
                .zip(growth(group.periods, before.periods))
                .and_then(|(throttled, periods)| Ratio::of(throttled as f64, periods as f64)),
            throttled: seconds_of(growth(group.throttled_ns, before.throttled_ns)).and_then(|time| Ratio::of(time, seconds)),
            memory_limit: group.memory_limit_bytes.map(Bytes),
            memory_used: group.memory_usage_bytes.map(Bytes),
            refaults: PerSecond::between(group.refaulted_pages, before.refaulted_pages, seconds),
            major_faults: PerSecond::between(group.major_faults, before.major_faults, seconds),
        });
    }
    spans
}
