//! `memory`: vmstat's amounts and rates, and what the kernel does to find room.

use super::column::{Column, Unit};
use super::{TypedTable, unit_capacity};
use crate::interval::memory::MemorySpan;

type Figure = Column<MemorySpan>;

pub(super) static MEMORY: TypedTable<MemorySpan> = TypedTable {
    name: "memory",
    description: "memory: amounts at the end of the interval, rates over it; vmstat's names",
    columns: &[COLUMNS],
    key_columns: &[],
    column_sets: &[],
    single_row: true,
    default_sort: "majflt/s",
    for_each_row: |look, show| look.interval.memory.iter().for_each(show),
    is_idle: |_| false,
    capacity: unit_capacity,
};

const COLUMNS: &[Figure] = &[
    Figure::new("swpd", "swap_used_bytes", Unit::Kilobytes, "swap in use", |_, memory| memory.swap_used().into()),
    Figure::new("free", "free_bytes", Unit::Kilobytes, "MemFree", |_, memory| memory.free.into()),
    Figure::new("buff", "buffers_bytes", Unit::Kilobytes, "Buffers", |_, memory| memory.buffers.into()),
    Figure::new("cache", "cache_bytes", Unit::Kilobytes, "Cached + SReclaimable", |_, memory| memory.caches().into()),
    Figure::new("avail", "available_bytes", Unit::Kilobytes, "MemAvailable", |_, memory| memory.available.into()),
    Figure::new("si", "swap_in_bytes_per_second", Unit::KilobytesPerSecond, "from swap", |_, memory| memory.swapped_in.into()),
    Figure::new("so", "swap_out_bytes_per_second", Unit::KilobytesPerSecond, "to swap", |_, memory| memory.swapped_out.into()),
    Figure::new("bi", "paged_in_bytes_per_second", Unit::KilobytesPerSecond, "from block devices", |_, memory| {
        memory.paged_in.into()
    }),
    Figure::new("bo", "paged_out_bytes_per_second", Unit::KilobytesPerSecond, "to block devices", |_, memory| {
        memory.paged_out.into()
    }),
    Figure::new("flt/s", "faults_per_second", Unit::PerSecond, "page faults", |_, memory| memory.faults.into()),
    Figure::new("majflt/s", "major_faults_per_second", Unit::PerSecond, "faults that had to read", |_, memory| {
        memory.major_faults.into()
    }),
    Figure::new(
        "refault/s",
        "refaults_per_second",
        Unit::PerSecond,
        "pages that came back soon after they were dropped",
        |_, memory| memory.refaults.into(),
    ),
    Figure::new(
        "dscan/s",
        "direct_scans_per_second",
        Unit::PerSecond,
        "pages that tasks looked at for room themselves",
        |_, memory| memory.scanned_direct.into(),
    ),
    Figure::new("reclm/s", "reclaimed_per_second", Unit::PerSecond, "pages reclaimed", |_, memory| memory.reclaimed.into())
        .hidden_by_default(),
    Figure::new("stall/s", "allocation_stalls_per_second", Unit::PerSecond, "allocations that had to wait", |_, memory| {
        memory.allocation_stalls.into()
    })
    .hidden_by_default(),
    Figure::new("oom", "oom_kills", Unit::Count, "kills for want of memory in the interval", |_, memory| {
        memory.oom_kills.into()
    }),
    Figure::new("total", "total_bytes", Unit::Kilobytes, "MemTotal", |_, memory| memory.total.into()).hidden_by_default(),
    Figure::new("dirty", "dirty_bytes", Unit::Kilobytes, "Dirty", |_, memory| memory.dirty.into()).hidden_by_default(),
    Figure::new("wback", "writeback_bytes", Unit::Kilobytes, "Writeback", |_, memory| memory.writeback.into())
        .hidden_by_default(),
    Figure::new("swap", "swap_total_bytes", Unit::Kilobytes, "SwapTotal", |_, memory| memory.swap_total.into())
        .hidden_by_default(),
];
