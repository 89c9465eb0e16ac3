//! `pressure`: the shares of time in which tasks were stalled.

use super::{Column, TypedTable, Unit, unit_capacity};
use crate::interval::pressure::PressureSpan;

type Figure = Column<PressureSpan>;

pub static PRESSURE_TABLE: TypedTable<PressureSpan> = TypedTable {
    name: "pressure",
    description: "pressure stall shares (/proc/pressure): exact, of the interval itself",
    columns: &[&[
        &PSI_CPU_SOME_RATIO,
        &PSI_IO_SOME_RATIO,
        &PSI_IO_FULL_RATIO,
        &PSI_MEMORY_SOME_RATIO,
        &PSI_MEMORY_FULL_RATIO,
        &PSI_IRQ_FULL_RATIO,
    ]],
    key_columns: &[],
    column_sets: &[],
    single_row: true,
    default_sort: "%io-some",
    for_each_row: |look, show| show(&look.interval.pressure),
    is_idle: |psi| {
        *psi == PressureSpan::default()
            || [psi.cpu_some, psi.io_some, psi.memory_some].iter().flatten().all(|share| share.0 == 0.0)
    },
    capacity: unit_capacity,
};

pub static PSI_CPU_SOME_RATIO: Figure =
    Figure::new("%cpu-some", "psi_cpu_some_ratio", Unit::Percent, "some task waited for a CPU", |_, psi| psi.cpu_some.into())
        .time_share()
        .lower_is_better();

pub static PSI_IO_SOME_RATIO: Figure =
    Figure::new("%io-some", "psi_io_some_ratio", Unit::Percent, "some task waited for I/O", |_, psi| psi.io_some.into())
        .time_share()
        .lower_is_better();

pub static PSI_IO_FULL_RATIO: Figure =
    Figure::new("%io-full", "psi_io_full_ratio", Unit::Percent, "all tasks that were not idle waited for I/O", |_, psi| {
        psi.io_full.into()
    })
    .time_share()
    .lower_is_better();

pub static PSI_MEMORY_SOME_RATIO: Figure =
    Figure::new("%mem-some", "psi_memory_some_ratio", Unit::Percent, "some task waited for memory", |_, psi| {
        psi.memory_some.into()
    })
    .time_share()
    .lower_is_better();

pub static PSI_MEMORY_FULL_RATIO: Figure = Figure::new(
    "%mem-full",
    "psi_memory_full_ratio",
    Unit::Percent,
    "all tasks that were not idle waited for memory",
    |_, psi| psi.memory_full.into(),
)
.time_share()
.lower_is_better();

pub static PSI_IRQ_FULL_RATIO: Figure =
    Figure::new("%irq-full", "psi_irq_full_ratio", Unit::Percent, "tasks waited behind interrupts; since 6.1", |_, psi| {
        psi.irq_full.into()
    })
    .time_share()
    .lower_is_better();
