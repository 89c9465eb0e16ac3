//! `cgroup`: the control groups that have a limit, against it.

use super::column::{Column, Precision, Unit};
use super::{Cell, TypedTable, unit_capacity};
use crate::ids::CgroupVersion;
use crate::interval::cgroup::CgroupSpan;

type Figure = Column<CgroupSpan>;

pub(super) static CGROUP: TypedTable<CgroupSpan> = TypedTable {
    name: "cgroup",
    description: "a row a control group that has a limit: what it used, and how it was held back",
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

const COLUMNS: &[Figure] = &[
    Figure::new("v", "version", Unit::Id, "of the cgroup interface: 1 or 2", |_, group| {
        Cell::Number(if group.id.version == CgroupVersion::V1 { 1.0 } else { 2.0 })
    }),
    Figure::new("quota", "quota_cpus", Unit::Count, "CPUs that it may use", |_, group| group.quota_cpus.into())
        .precision(Precision::TwoDecimals),
    Figure::new("%CPU", "cpu_ratio", Unit::PercentOfCpu, "used, of one CPU", |_, group| group.used_cpus.into()),
    Figure::new("%thr", "throttled_ratio", Unit::PercentOfCpu, "throttled, its CPUs added", |_, group| group.throttled.into()),
    Figure::new("%thrPer", "throttled_periods_ratio", Unit::Percent, "share of its periods in which it was", |_, group| {
        group.throttled_periods.into()
    }),
    Figure::new("memory", "memory_used_bytes", Unit::Kilobytes, "memory that it uses", |_, group| group.memory_used.into()),
    Figure::new("limit", "memory_limit_bytes", Unit::Kilobytes, "that it may use", |_, group| group.memory_limit.into()),
    Figure::new(
        "hits/s",
        "limit_hits_per_second",
        Unit::PerSecond,
        "allocations that met its limit; counted near it",
        |_, group| group.memory_limit_hits.into(),
    ),
    Figure::new(
        "refault/s",
        "refaults_per_second",
        Unit::PerSecond,
        "pages that came back; counted near its limit",
        |_, group| group.refaults.into(),
    ),
    Figure::new(
        "majflt/s",
        "major_faults_per_second",
        Unit::PerSecond,
        "faults that had to read; counted near its limit",
        |_, group| group.major_faults.into(),
    )
    .hidden_by_default(),
    Figure::new("oom", "oom_kills", Unit::Count, "kills in the interval", |_, group| group.oom_kills.into()),
    pressure_column("%cpu-some", "psi_cpu_some_ratio", |_, group| group.pressure.cpu_some.into()),
    pressure_column("%io-some", "psi_io_some_ratio", |_, group| group.pressure.io_some.into()),
    pressure_column("%io-full", "psi_io_full_ratio", |_, group| group.pressure.io_full.into()),
    pressure_column("%mem-some", "psi_memory_some_ratio", |_, group| group.pressure.memory_some.into()),
    pressure_column("%mem-full", "psi_memory_full_ratio", |_, group| group.pressure.memory_full.into()),
    Figure::text("cpuset", "allowed_cpus", "CPUs that its cpuset allows", |_, group| group.cpus.as_ref().into())
        .hidden_by_default(),
    Figure::text("Cgroup", "cgroup", "its path", |_, group| (&group.id.path).into()),
];

/// Pressure of the group's own tasks; v2.
const fn pressure_column(name: &'static str, json: &'static str, read: fn(&super::FigureInput, &CgroupSpan) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, "its tasks were stalled; cgroup v2", read).time_share().hidden_by_default()
}
