//! `cgroup`: control groups that have a limit, with their use of CPU, memory and I/O.

use super::{Cell, Column, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::ids::CgroupVersion;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::cgroup_names::CgroupName;
use crate::sample::cgroup::StallAverages;

type Figure = Column<CgroupSpan>;

pub static CGROUP_TABLE: TypedTable<CgroupSpan> = TypedTable {
    name: "cgroup",
    description: "a row per control group with a limit: its usage, and how much it was throttled",
    columns: &[COLUMNS],
    key_columns: &[&VERSION, &CGROUP],
    column_sets: &[],
    default_sort: &THROTTLED_RATIO,
    pid_column: None,
    for_each_row: |input, show| input.interval.cgroups.iter().for_each(show),
    is_idle: |group| {
        let none = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
        none(group.used_cpus) && none(group.throttled.map(|share| share.0)) && none(group.memory_limit_hits.map(|rate| rate.0))
    },
    capacity: unit_capacity,
};

columns! {
    COLUMNS: CgroupSpan;

    VERSION = Figure::new("v", "version", Unit::Id, "of the cgroup interface: 1 or 2",
        |_, group| Cell::Number(if group.id.version == CgroupVersion::V1 { 1.0 } else { 2.0 }));
    QUOTA_CPUS = Figure::new("quota", "quota_cpus", Unit::Count, "CPU quota in CPUs",
        |_, group| group.quota_cpus.into()).precision(Precision::TwoDecimals);
    CPU_RATIO = Figure::new("%CPU", "cpu_ratio", Unit::PercentOfCpu, "used, of one CPU", |_, group| group.used_cpus.into());
    THROTTLED_RATIO = Figure::new("%thr", "throttled_ratio", Unit::PercentOfCpu, "throttled, its CPUs added up",
        |_, group| group.throttled.into());
    THROTTLED_PERIODS_RATIO = Figure::new("%thrPer", "throttled_periods_ratio", Unit::Percent,
        "share of its periods in which it was throttled",
        |_, group| group.throttled_periods.into());
    MEMORY_USED_BYTES = Figure::new("memory", "memory_used_bytes", Unit::Kilobytes, "memory that it uses",
        |_, group| group.memory_used.into());
    MEMORY_LIMIT_BYTES = Figure::new("limit", "memory_limit_bytes", Unit::Kilobytes, "memory limit",
        |_, group| group.memory_limit.into());
    LIMIT_HITS_PER_SECOND = Figure::new("hits/s", "limit_hits_per_second", Unit::PerSecond,
        "allocations that hit its limit; read only near it",
        |_, group| group.memory_limit_hits.into());
    REFAULTS_PER_SECOND = Figure::new("refault/s", "refaults_per_second", Unit::PerSecond,
        "refaults: pages reclaimed and read again; read only near its limit",
        |_, group| group.refaults.into());
    MAJOR_FAULTS_PER_SECOND = Figure::new("majflt/s", "major_faults_per_second", Unit::PerSecond,
        "major page faults; read only near its limit",
        |_, group| group.major_faults.into()).hidden_by_default();
    OOM_KILLS = Figure::new("oom", "oom_kills", Unit::Count, "OOM kills in the interval", |_, group| group.oom_kills.into());
    PSI_CPU_SOME_RATIO = pressure_column("%cpu-some", "psi_cpu_some_ratio",
        "some of its tasks waited for a CPU; cgroup v2", |_, group| group.pressure.cpu_some.into());
    PSI_IO_SOME_RATIO = pressure_column("%io-some", "psi_io_some_ratio",
        "some of its tasks waited for I/O; cgroup v2", |_, group| group.pressure.io_some.into());
    PSI_IO_FULL_RATIO = pressure_column("%io-full", "psi_io_full_ratio",
        "all of its tasks that were not idle waited for I/O; cgroup v2", |_, group| group.pressure.io_full.into());
    PSI_MEMORY_SOME_RATIO = pressure_column("%mem-some", "psi_memory_some_ratio",
        "some of its tasks waited for memory; cgroup v2", |_, group| group.pressure.memory_some.into());
    PSI_MEMORY_FULL_RATIO = pressure_column("%mem-full", "psi_memory_full_ratio",
        "all of its tasks that were not idle waited for memory; cgroup v2", |_, group| group.pressure.memory_full.into());
    PSI_CPU_SOME_10S_RATIO = average_column("%cpu-some10", "psi_cpu_some_10s_ratio",
        |_, group| average(group.pressure_averages.cpu_some, |line| line.avg10));
    PSI_CPU_SOME_60S_RATIO = average_column("%cpu-some60", "psi_cpu_some_60s_ratio",
        |_, group| average(group.pressure_averages.cpu_some, |line| line.avg60));
    PSI_CPU_SOME_300S_RATIO = average_column("%cpu-some300", "psi_cpu_some_300s_ratio",
        |_, group| average(group.pressure_averages.cpu_some, |line| line.avg300));
    PSI_IO_SOME_10S_RATIO = average_column("%io-some10", "psi_io_some_10s_ratio",
        |_, group| average(group.pressure_averages.io_some, |line| line.avg10));
    PSI_IO_SOME_60S_RATIO = average_column("%io-some60", "psi_io_some_60s_ratio",
        |_, group| average(group.pressure_averages.io_some, |line| line.avg60));
    PSI_IO_SOME_300S_RATIO = average_column("%io-some300", "psi_io_some_300s_ratio",
        |_, group| average(group.pressure_averages.io_some, |line| line.avg300));
    PSI_IO_FULL_10S_RATIO = average_column("%io-full10", "psi_io_full_10s_ratio",
        |_, group| average(group.pressure_averages.io_full, |line| line.avg10));
    PSI_IO_FULL_60S_RATIO = average_column("%io-full60", "psi_io_full_60s_ratio",
        |_, group| average(group.pressure_averages.io_full, |line| line.avg60));
    PSI_IO_FULL_300S_RATIO = average_column("%io-full300", "psi_io_full_300s_ratio",
        |_, group| average(group.pressure_averages.io_full, |line| line.avg300));
    PSI_MEMORY_SOME_10S_RATIO = average_column("%mem-some10", "psi_memory_some_10s_ratio",
        |_, group| average(group.pressure_averages.memory_some, |line| line.avg10));
    PSI_MEMORY_SOME_60S_RATIO = average_column("%mem-some60", "psi_memory_some_60s_ratio",
        |_, group| average(group.pressure_averages.memory_some, |line| line.avg60));
    PSI_MEMORY_SOME_300S_RATIO = average_column("%mem-some300", "psi_memory_some_300s_ratio",
        |_, group| average(group.pressure_averages.memory_some, |line| line.avg300));
    PSI_MEMORY_FULL_10S_RATIO = average_column("%mem-full10", "psi_memory_full_10s_ratio",
        |_, group| average(group.pressure_averages.memory_full, |line| line.avg10));
    PSI_MEMORY_FULL_60S_RATIO = average_column("%mem-full60", "psi_memory_full_60s_ratio",
        |_, group| average(group.pressure_averages.memory_full, |line| line.avg60));
    PSI_MEMORY_FULL_300S_RATIO = average_column("%mem-full300", "psi_memory_full_300s_ratio",
        |_, group| average(group.pressure_averages.memory_full, |line| line.avg300));
    HELD_BACK_RATIO = Figure::new("%held", "held_back_ratio", Unit::PercentOfCpu,
        "its tasks were throttled, or stalled for I/O or memory: the largest share",
        |_, group| held_back(group).into()).without_total().hidden_by_default();
    MEMORY_USED_RATIO = Figure::new("%mem", "memory_used_ratio", Unit::Percent, "memory that it uses, of its limit",
        |_, group| memory_used(group).into()).without_total().hidden_by_default();
    IO_LIMIT_USED_RATIO = Figure::new("%iolim", "io_limit_used_ratio", Unit::Percent, "use of the I/O limit that is used most",
        |input, group| io_limit_used(input, group).into()).without_total().hidden_by_default();
    ALLOWED_CPUS = Figure::text("cpuset", "allowed_cpus", "CPUs that its cpuset allows",
        |_, group| group.cpus.as_ref().into()).hidden_by_default();
    OWNER = Figure::text("of", "owner", "what it belongs to: container, pod, unit (of systemd), or cgroup",
        |input, group| Cell::Text(name(input, group).kind.word().into()));
    NAME = Figure::text("Name", "name", "name of its container, pod or unit",
        |input, group| Cell::Text(name(input, group).label()));
    CGROUP = Figure::text("Cgroup", "cgroup", "its path", |_, group| (&group.id.path).into());
}

fn name(input: &FigureInput, group: &CgroupSpan) -> CgroupName {
    CgroupName::from_path(&input.interval.newer, group.id.path.as_bytes())
}

/// The kernel's average over the last 10, 60 or 300 s.
const fn average_column(name: &'static str, json: &'static str, read: fn(&FigureInput, &CgroupSpan) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, "the kernel's average; cgroup v2", read).without_total().hidden_by_default()
}

fn average(line: Option<StallAverages>, which: fn(StallAverages) -> u16) -> Cell {
    line.map(|line| f64::from(which(line)) / 10_000.0).into()
}

fn held_back(group: &CgroupSpan) -> Option<f64> {
    let shares = [group.throttled, group.pressure.io_some, group.pressure.memory_some];
    shares.into_iter().flatten().map(|share| share.0).max_by(f64::total_cmp)
}

fn memory_used(group: &CgroupSpan) -> Option<f64> {
    let (used, limit) = (group.memory_used?.0 as f64, group.memory_limit?.0 as f64);
    (limit > 0.0).then(|| used / limit)
}

fn io_limit_used(input: &FigureInput, group: &CgroupSpan) -> Option<f64> {
    // Sorted by group.
    let limits = &input.interval.io_limits;
    let first = limits.partition_point(|limit| limit.cgroup < group.id);
    let own = limits.iter().skip(first).take_while(|limit| limit.cgroup == group.id);
    own.flat_map(|limit| &limit.usages).filter_map(|usage| usage.utilization()).max_by(f64::total_cmp)
}

/// Pressure of the group's own tasks; v2.
const fn pressure_column(
    name: &'static str,
    json: &'static str,
    meaning: &'static str,
    read: fn(&FigureInput, &CgroupSpan) -> Cell,
) -> Figure {
    Figure::new(name, json, Unit::Percent, meaning, read).time_share().hidden_by_default()
}
