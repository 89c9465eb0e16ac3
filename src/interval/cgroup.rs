//! Control groups: use of CPU, memory and I/O against their limits. docs/metrics.md, "Control groups".

use crate::ids::{CgroupId, DiskId};
use crate::interval::pressure::stalled_share;
use crate::sample::cgroup::{Cgroup, CgroupPressure, CgroupPressureAverages, IoLimit};
use crate::sample::{Name, Sample};
use crate::units::{Bytes, Counter, PerSecond, Ratio, delta};

/// One group with a limit, present at both samples.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupSpan {
    pub id: CgroupId,
    /// CPU quota, in CPUs; `None` is no limit
    pub quota_cpus: Option<f64>,
    /// CPU time used ÷ Δt, in CPUs
    pub used_cpus: Option<f64>,
    /// nr_throttled ÷ nr_periods: share of the periods with work in which it was throttled
    pub throttled_periods: Option<Ratio>,
    /// Throttled time ÷ Δt, summed over CPUs, so that it may exceed 1
    pub throttled: Option<Ratio>,
    pub memory_limit: Option<Bytes>,
    pub memory_used: Option<Bytes>,
    pub refaults: Option<PerSecond>,
    pub major_faults: Option<PerSecond>,
    /// Allocations that reached this group's own memory limit
    pub memory_limit_hits: Option<PerSecond>,
    /// Kills in this interval: a count, not a rate
    pub oom_kills: Option<u64>,
    /// How often in this interval its memory limit, or that of a group below it, was met and nothing could be reclaimed; v2 only
    pub limit_ooms: Option<u64>,
    /// The CPUs that its cpuset allows, where they are fewer than those of the group above
    pub cpus: Option<Name>,
    pub pressure: CgroupPressureSpan,
    /// The kernel's averages at the end of the interval; v2 only
    pub pressure_averages: CgroupPressureAverages,
}

impl CgroupSpan {
    /// Share of the time in which its quota throttled it: at most the throttled time, which the kernel adds up for all CPUs, and at
    /// most the throttled periods. `None` if neither is known.
    pub fn throttled_share(&self) -> Option<Ratio> {
        let known = [self.throttled, self.throttled_periods].into_iter().flatten();
        known.map(|share| Ratio(share.0.min(1.0))).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Shares of the interval in which tasks of a group were stalled; v2 only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CgroupPressureSpan {
    pub cpu_some: Option<Ratio>,
    pub io_some: Option<Ratio>,
    pub io_full: Option<Ratio>,
    pub memory_some: Option<Ratio>,
    pub memory_full: Option<Ratio>,
}

impl CgroupPressureSpan {
    fn between(older: &CgroupPressure, newer: &CgroupPressure, seconds: f64) -> CgroupPressureSpan {
        let share = |newer: Option<Counter>, older: Option<Counter>| stalled_share(delta(newer, older)?, seconds);
        CgroupPressureSpan {
            cpu_some: share(newer.cpu_some_us, older.cpu_some_us),
            io_some: share(newer.io_some_us, older.io_some_us),
            io_full: share(newer.io_full_us, older.io_full_us),
            memory_some: share(newer.memory_some_us, older.memory_some_us),
            memory_full: share(newer.memory_full_us, older.memory_full_us),
        }
    }
}

/// The I/O of a group on one device against its limits there; present at both samples.
#[derive(Clone, Debug, PartialEq)]
pub struct IoLimitSpan {
    pub cgroup: CgroupId,
    pub disk: DiskId,
    /// Its limits, one or more of the four
    pub usages: Vec<IoLimitUsage>,
}

/// One limit of I/O and its use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoLimitUsage {
    pub kind: IoLimitKind,
    pub limit: PerSecond,
    pub used: Option<PerSecond>,
}

impl IoLimitUsage {
    /// Use ÷ limit; `None` if the use is unknown.
    pub fn utilization(&self) -> Option<f64> {
        Ratio::new(self.used?.0, self.limit.0).map(|share| share.0)
    }
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoLimitKind {
    Reads,
    Writes,
    ReadBytes,
    WriteBytes,
}

/// Groups present at both samples.
/// `max_cpus`: online CPUs.
pub(super) fn between(older: &Sample, newer: &Sample, seconds: f64, max_cpus: Option<f64>) -> Vec<CgroupSpan> {
    let (Ok(was), Ok(now)) = (&older.cgroups, &newer.cgroups) else { return Vec::new() };
    // Both are sorted by id.
    let before = |group: &Cgroup| was.binary_search_by(|old| old.id.cmp(&group.id)).ok().and_then(|at| was.get(at));
    now.iter().filter_map(|group| Some(span(before(group)?, group, seconds, max_cpus))).collect()
}

fn span(before: &Cgroup, group: &Cgroup, seconds: f64, max_cpus: Option<f64>) -> CgroupSpan {
    let seconds_of = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    let rate = |field: fn(&Cgroup) -> Option<Counter>| PerSecond::between(field(group), field(before), seconds);
    CgroupSpan {
        id: group.id.clone(),
        quota_cpus: match (group.quota_us, group.period_us) {
            (Some(quota), Some(period)) if period > 0 => Some(quota as f64 / period as f64),
            _ => None,
        },
        used_cpus: seconds_of(delta(group.usage_ns, before.usage_ns))
            .map(|used| max_cpus.map_or(used / seconds, |most| most.min(used / seconds))),
        throttled_periods: delta(group.throttled_periods, before.throttled_periods)
            .zip(delta(group.periods, before.periods))
            .and_then(|(throttled, periods)| Ratio::new(throttled as f64, periods as f64)),
        throttled: seconds_of(delta(group.throttled_ns, before.throttled_ns)).and_then(|time| Ratio::new(time, seconds)),
        memory_limit: group.memory_limit_bytes.map(Bytes),
        memory_used: group.memory_usage_bytes.map(Bytes),
        refaults: rate(|group| group.refaulted_pages),
        major_faults: rate(|group| group.major_faults),
        memory_limit_hits: rate(|group| group.memory_limit_hits),
        oom_kills: delta(group.oom_kills, before.oom_kills),
        limit_ooms: delta(group.limit_ooms, before.limit_ooms),
        cpus: group.cpus.clone(),
        pressure: CgroupPressureSpan::between(&before.pressure, &group.pressure, seconds),
        pressure_averages: group.pressure_averages,
    }
}

/// Limits of I/O present at both samples.
pub(super) fn io_limits_between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<IoLimitSpan> {
    let was = &older.io_limits;
    let before = |limit: &IoLimit| {
        let order = |old: &IoLimit| (&old.cgroup, old.disk).cmp(&(&limit.cgroup, limit.disk));
        was.binary_search_by(order).ok().and_then(|at| was.get(at))
    };
    let span = |limit: &IoLimit| {
        let old = before(limit)?;
        let (most, now, then) = (limit.max, limit.stat, old.stat);
        let uses = [
            (IoLimitKind::Reads, most.reads, now.reads, then.reads),
            (IoLimitKind::Writes, most.writes, now.writes, then.writes),
            (IoLimitKind::ReadBytes, most.read_bytes, now.read_bytes, then.read_bytes),
            (IoLimitKind::WriteBytes, most.write_bytes, now.write_bytes, then.write_bytes),
        ];
        let uses = uses.into_iter().filter_map(|(measure, most, now, then)| {
            let most = PerSecond(most? as f64);
            Some(IoLimitUsage { kind: measure, limit: most, used: PerSecond::between(now, then, seconds) })
        });
        Some(IoLimitSpan { cgroup: limit.cgroup.clone(), disk: limit.disk, usages: uses.collect() })
    };
    newer.io_limits.iter().filter_map(span).collect()
}
