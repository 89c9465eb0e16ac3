//! `pressure`: the shares of time in which tasks were stalled (PSI).

use super::{Cell, Column, FigureInput, TypedTable, Unit, unit_capacity};
use crate::findings::Kind;
use crate::interval::pressure::PressureSpan;
use crate::sample::Reading;
use crate::sample::pressure::{Stall, StallLine};

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
    PSI_CPU_SOME_10S_RATIO = average_column("%cpu-some10", "psi_cpu_some_10s_ratio",
        |input, _| average(&input.interval.newer.pressure.cpu, |stall| stall.some, |line| line.avg10));
    PSI_CPU_SOME_60S_RATIO = average_column("%cpu-some60", "psi_cpu_some_60s_ratio",
        |input, _| average(&input.interval.newer.pressure.cpu, |stall| stall.some, |line| line.avg60));
    PSI_CPU_SOME_300S_RATIO = average_column("%cpu-some300", "psi_cpu_some_300s_ratio",
        |input, _| average(&input.interval.newer.pressure.cpu, |stall| stall.some, |line| line.avg300));
    PSI_IO_SOME_10S_RATIO = average_column("%io-some10", "psi_io_some_10s_ratio",
        |input, _| average(&input.interval.newer.pressure.io, |stall| stall.some, |line| line.avg10));
    PSI_IO_SOME_60S_RATIO = average_column("%io-some60", "psi_io_some_60s_ratio",
        |input, _| average(&input.interval.newer.pressure.io, |stall| stall.some, |line| line.avg60));
    PSI_IO_SOME_300S_RATIO = average_column("%io-some300", "psi_io_some_300s_ratio",
        |input, _| average(&input.interval.newer.pressure.io, |stall| stall.some, |line| line.avg300));
    PSI_IO_FULL_10S_RATIO = average_column("%io-full10", "psi_io_full_10s_ratio",
        |input, _| average(&input.interval.newer.pressure.io, |stall| stall.full, |line| line.avg10));
    PSI_IO_FULL_60S_RATIO = average_column("%io-full60", "psi_io_full_60s_ratio",
        |input, _| average(&input.interval.newer.pressure.io, |stall| stall.full, |line| line.avg60));
    PSI_IO_FULL_300S_RATIO = average_column("%io-full300", "psi_io_full_300s_ratio",
        |input, _| average(&input.interval.newer.pressure.io, |stall| stall.full, |line| line.avg300));
    PSI_MEMORY_SOME_10S_RATIO = average_column("%mem-some10", "psi_memory_some_10s_ratio",
        |input, _| average(&input.interval.newer.pressure.memory, |stall| stall.some, |line| line.avg10));
    PSI_MEMORY_SOME_60S_RATIO = average_column("%mem-some60", "psi_memory_some_60s_ratio",
        |input, _| average(&input.interval.newer.pressure.memory, |stall| stall.some, |line| line.avg60));
    PSI_MEMORY_SOME_300S_RATIO = average_column("%mem-some300", "psi_memory_some_300s_ratio",
        |input, _| average(&input.interval.newer.pressure.memory, |stall| stall.some, |line| line.avg300));
    PSI_MEMORY_FULL_10S_RATIO = average_column("%mem-full10", "psi_memory_full_10s_ratio",
        |input, _| average(&input.interval.newer.pressure.memory, |stall| stall.full, |line| line.avg10));
    PSI_MEMORY_FULL_60S_RATIO = average_column("%mem-full60", "psi_memory_full_60s_ratio",
        |input, _| average(&input.interval.newer.pressure.memory, |stall| stall.full, |line| line.avg60));
    PSI_MEMORY_FULL_300S_RATIO = average_column("%mem-full300", "psi_memory_full_300s_ratio",
        |input, _| average(&input.interval.newer.pressure.memory, |stall| stall.full, |line| line.avg300));
    PSI_IRQ_FULL_10S_RATIO = average_column("%irq-full10", "psi_irq_full_10s_ratio",
        |input, _| average(&input.interval.newer.pressure.irq, |stall| stall.full, |line| line.avg10));
    PSI_IRQ_FULL_60S_RATIO = average_column("%irq-full60", "psi_irq_full_60s_ratio",
        |input, _| average(&input.interval.newer.pressure.irq, |stall| stall.full, |line| line.avg60));
    PSI_IRQ_FULL_300S_RATIO = average_column("%irq-full300", "psi_irq_full_300s_ratio",
        |input, _| average(&input.interval.newer.pressure.irq, |stall| stall.full, |line| line.avg300));
}

/// The kernel's average over the last 10, 60 or 300 s.
const fn average_column(name: &'static str, json: &'static str, read: fn(&FigureInput, &PressureSpan) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, "the kernel's average", read).without_total().hidden_by_default()
}

fn average(stall: &Reading<Stall>, line: fn(&Stall) -> Option<StallLine>, which: fn(StallLine) -> f32) -> Cell {
    let line = stall.as_ref().ok().and_then(line);
    line.map(|line| f64::from(which(line)) / 100.0).into()
}
