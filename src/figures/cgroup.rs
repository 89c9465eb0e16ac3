//! `cgroup`: control groups that have a limit, with their use of CPU, memory and I/O.

use super::{Cell, Column, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::ids::CgroupVersion;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::cgroup_names::CgroupName;

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
    PSI_CPU_SOME_RATIO = pressure_column("%cpu-some", "psi_cpu_some_ratio", |_, group| group.pressure.cpu_some.into());
    PSI_IO_SOME_RATIO = pressure_column("%io-some", "psi_io_some_ratio", |_, group| group.pressure.io_some.into());
    PSI_IO_FULL_RATIO = pressure_column("%io-full", "psi_io_full_ratio", |_, group| group.pressure.io_full.into());
    PSI_MEMORY_SOME_RATIO = pressure_column("%mem-some", "psi_memory_some_ratio", |_, group| group.pressure.memory_some.into());
    PSI_MEMORY_FULL_RATIO = pressure_column("%mem-full", "psi_memory_full_ratio", |_, group| group.pressure.memory_full.into());
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

/// Pressure of the group's own tasks; v2.
const fn pressure_column(name: &'static str, json: &'static str, read: fn(&FigureInput, &CgroupSpan) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, "its tasks were stalled; cgroup v2", read).time_share().hidden_by_default()
}
