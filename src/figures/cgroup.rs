//! `cgroup`: the control groups that have a limit, against it.

use super::{Cell, Column, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::ids::CgroupVersion;
use crate::interval::cgroup::CgroupSpan;

type Figure = Column<CgroupSpan>;

pub static CGROUP_TABLE: TypedTable<CgroupSpan> = TypedTable {
    name: "cgroup",
    description: "a row per control group with a limit: its usage, and how much it was throttled",
    columns: &[COLUMNS],
    key_columns: &["v", "Cgroup"],
    column_sets: &[],
    single_row: false,
    default_sort: "%thr",
    for_each_row: |look, show| look.interval.cgroups.iter().for_each(show),
    is_idle: |group| {
        let none = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
        none(group.used_cpus) && none(group.throttled.map(|share| share.0)) && none(group.memory_limit_hits.map(|rate| rate.0))
    },
    capacity: unit_capacity,
};

static COLUMNS: &[&Figure] = &[
    &VERSION,
    &QUOTA_CPUS,
    &CPU_RATIO,
    &THROTTLED_RATIO,
    &THROTTLED_PERIODS_RATIO,
    &MEMORY_USED_BYTES,
    &MEMORY_LIMIT_BYTES,
    &LIMIT_HITS_PER_SECOND,
    &REFAULTS_PER_SECOND,
    &MAJOR_FAULTS_PER_SECOND,
    &OOM_KILLS,
    &PSI_CPU_SOME_RATIO,
    &PSI_IO_SOME_RATIO,
    &PSI_IO_FULL_RATIO,
    &PSI_MEMORY_SOME_RATIO,
    &PSI_MEMORY_FULL_RATIO,
    &ALLOWED_CPUS,
    &CGROUP,
];

pub static VERSION: Figure = Figure::new("v", "version", Unit::Id, "of the cgroup interface: 1 or 2", |_, group| {
    Cell::Number(if group.id.version == CgroupVersion::V1 { 1.0 } else { 2.0 })
});

pub static QUOTA_CPUS: Figure =
    Figure::new("quota", "quota_cpus", Unit::Count, "CPU quota in CPUs", |_, group| group.quota_cpus.into())
        .precision(Precision::TwoDecimals);

pub static CPU_RATIO: Figure =
    Figure::new("%CPU", "cpu_ratio", Unit::PercentOfCpu, "used, of one CPU", |_, group| group.used_cpus.into());

pub static THROTTLED_RATIO: Figure =
    Figure::new("%thr", "throttled_ratio", Unit::PercentOfCpu, "throttled, its CPUs added up", |_, group| {
        group.throttled.into()
    });

pub static THROTTLED_PERIODS_RATIO: Figure = Figure::new(
    "%thrPer",
    "throttled_periods_ratio",
    Unit::Percent,
    "share of its periods in which it was throttled",
    |_, group| group.throttled_periods.into(),
);

pub static MEMORY_USED_BYTES: Figure =
    Figure::new("memory", "memory_used_bytes", Unit::Kilobytes, "memory that it uses", |_, group| group.memory_used.into());

pub static MEMORY_LIMIT_BYTES: Figure =
    Figure::new("limit", "memory_limit_bytes", Unit::Kilobytes, "memory limit", |_, group| group.memory_limit.into());

pub static LIMIT_HITS_PER_SECOND: Figure = Figure::new(
    "hits/s",
    "limit_hits_per_second",
    Unit::PerSecond,
    "allocations that hit its limit; read only near it",
    |_, group| group.memory_limit_hits.into(),
);

pub static REFAULTS_PER_SECOND: Figure = Figure::new(
    "refault/s",
    "refaults_per_second",
    Unit::PerSecond,
    "refaults: pages reclaimed and read again; read only near its limit",
    |_, group| group.refaults.into(),
);

pub static MAJOR_FAULTS_PER_SECOND: Figure = Figure::new(
    "majflt/s",
    "major_faults_per_second",
    Unit::PerSecond,
    "major page faults; read only near its limit",
    |_, group| group.major_faults.into(),
)
.hidden_by_default();

pub static OOM_KILLS: Figure =
    Figure::new("oom", "oom_kills", Unit::Count, "kills in the interval", |_, group| group.oom_kills.into());

pub static PSI_CPU_SOME_RATIO: Figure =
    pressure_column("%cpu-some", "psi_cpu_some_ratio", |_, group| group.pressure.cpu_some.into());

pub static PSI_IO_SOME_RATIO: Figure =
    pressure_column("%io-some", "psi_io_some_ratio", |_, group| group.pressure.io_some.into());

pub static PSI_IO_FULL_RATIO: Figure =
    pressure_column("%io-full", "psi_io_full_ratio", |_, group| group.pressure.io_full.into());

pub static PSI_MEMORY_SOME_RATIO: Figure =
    pressure_column("%mem-some", "psi_memory_some_ratio", |_, group| group.pressure.memory_some.into());

pub static PSI_MEMORY_FULL_RATIO: Figure =
    pressure_column("%mem-full", "psi_memory_full_ratio", |_, group| group.pressure.memory_full.into());

pub static ALLOWED_CPUS: Figure =
    Figure::text("cpuset", "allowed_cpus", "CPUs that its cpuset allows", |_, group| group.cpus.as_ref().into())
        .hidden_by_default();

pub static CGROUP: Figure = Figure::text("Cgroup", "cgroup", "its path", |_, group| (&group.id.path).into());

/// Pressure of the group's own tasks; v2.
const fn pressure_column(name: &'static str, json: &'static str, read: fn(&FigureInput, &CgroupSpan) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, "its tasks were stalled; cgroup v2", read).time_share().hidden_by_default()
}
