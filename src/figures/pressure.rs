//! `pressure`: the shares of time in which tasks were stalled (PSI).

use super::{Column, TypedTable, Unit, unit_capacity};
use crate::findings::Kind;
use crate::interval::pressure::PressureSpan;

type Figure = Column<PressureSpan>;

pub static PRESSURE_TABLE: TypedTable<PressureSpan> = TypedTable {
    name: "pressure",
    description: "pressure stall shares (/proc/pressure): exact, of the interval itself",
    columns: &[COLUMNS],
    key_columns: &[],
    column_sets: &[],
    default_sort: &PSI_IO_SOME_RATIO,
    pid_column: None,
    for_each_row: |input, show| show(&input.interval.pressure),
    is_idle: |psi| {
        *psi == PressureSpan::default()
            || [psi.cpu_some, psi.io_some, psi.memory_some].iter().flatten().all(|share| share.0 == 0.0)
    },
    capacity: unit_capacity,
};

columns! {
    COLUMNS: PressureSpan;

    PSI_CPU_SOME_RATIO = Figure::new("%cpu-some", "psi_cpu_some_ratio", Unit::Percent, "some task waited for a CPU",
        |_, psi| psi.cpu_some.into()).time_share().lower_is_better();
    PSI_IO_SOME_RATIO = Figure::new("%io-some", "psi_io_some_ratio", Unit::Percent, "some task waited for I/O",
        |_, psi| psi.io_some.into()).time_share().lower_is_better();
    PSI_IO_FULL_RATIO = Figure::new("%io-full", "psi_io_full_ratio", Unit::Percent,
        "all tasks that were not idle waited for I/O",
        |_, psi| psi.io_full.into()).time_share().lower_is_better();
    PSI_MEMORY_SOME_RATIO = Figure::new("%mem-some", "psi_memory_some_ratio", Unit::Percent, "some task waited for memory",
        |_, psi| psi.memory_some.into()).time_share().lower_is_better().value_of(Kind::MemoryPressure);
    PSI_MEMORY_FULL_RATIO = Figure::new("%mem-full", "psi_memory_full_ratio", Unit::Percent,
        "all tasks that were not idle waited for memory",
        |_, psi| psi.memory_full.into()).time_share().lower_is_better();
    PSI_IRQ_FULL_RATIO = Figure::new("%irq-full", "psi_irq_full_ratio", Unit::Percent,
        "tasks waited behind interrupts; since 6.1",
        |_, psi| psi.irq_full.into()).time_share().lower_is_better();
}
