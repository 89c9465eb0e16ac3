//! `memory`: vmstat's amounts and rates, and what the kernel does to find room.

use super::{Column, TypedTable, Unit, unit_capacity};
use crate::interval::memory::MemorySpan;

type Figure = Column<MemorySpan>;

pub static MEMORY_TABLE: TypedTable<MemorySpan> = TypedTable {
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

static COLUMNS: &[&Figure] = &[
    &SWAP_USED_BYTES,
    &FREE_BYTES,
    &BUFFERS_BYTES,
    &CACHE_BYTES,
    &AVAILABLE_BYTES,
    &SWAP_IN_BYTES_PER_SECOND,
    &SWAP_OUT_BYTES_PER_SECOND,
    &PAGED_IN_BYTES_PER_SECOND,
    &PAGED_OUT_BYTES_PER_SECOND,
    &FAULTS_PER_SECOND,
    &MAJOR_FAULTS_PER_SECOND,
    &REFAULTS_PER_SECOND,
    &DIRECT_SCANS_PER_SECOND,
    &RECLAIMED_PER_SECOND,
    &ALLOCATION_STALLS_PER_SECOND,
    &OOM_KILLS,
    &TOTAL_BYTES,
    &DIRTY_BYTES,
    &WRITEBACK_BYTES,
    &SWAP_TOTAL_BYTES,
];

pub static SWAP_USED_BYTES: Figure =
    Figure::new("swpd", "swap_used_bytes", Unit::Kilobytes, "swap in use", |_, memory| memory.swap_used().into());

pub static FREE_BYTES: Figure = Figure::new("free", "free_bytes", Unit::Kilobytes, "MemFree", |_, memory| memory.free.into());

pub static BUFFERS_BYTES: Figure =
    Figure::new("buff", "buffers_bytes", Unit::Kilobytes, "Buffers", |_, memory| memory.buffers.into());

pub static CACHE_BYTES: Figure =
    Figure::new("cache", "cache_bytes", Unit::Kilobytes, "Cached + SReclaimable", |_, memory| memory.caches().into());

pub static AVAILABLE_BYTES: Figure =
    Figure::new("avail", "available_bytes", Unit::Kilobytes, "MemAvailable", |_, memory| memory.available.into())
        .higher_is_better();

pub static SWAP_IN_BYTES_PER_SECOND: Figure =
    Figure::new("si", "swap_in_bytes_per_second", Unit::KilobytesPerSecond, "from swap", |_, memory| memory.swapped_in.into())
        .lower_is_better();

pub static SWAP_OUT_BYTES_PER_SECOND: Figure =
    Figure::new("so", "swap_out_bytes_per_second", Unit::KilobytesPerSecond, "to swap", |_, memory| memory.swapped_out.into())
        .lower_is_better();

pub static PAGED_IN_BYTES_PER_SECOND: Figure =
    Figure::new("bi", "paged_in_bytes_per_second", Unit::KilobytesPerSecond, "from block devices", |_, memory| {
        memory.paged_in.into()
    });

pub static PAGED_OUT_BYTES_PER_SECOND: Figure =
    Figure::new("bo", "paged_out_bytes_per_second", Unit::KilobytesPerSecond, "to block devices", |_, memory| {
        memory.paged_out.into()
    });

pub static FAULTS_PER_SECOND: Figure =
    Figure::new("flt/s", "faults_per_second", Unit::PerSecond, "page faults", |_, memory| memory.faults.into());

pub static MAJOR_FAULTS_PER_SECOND: Figure =
    Figure::new("majflt/s", "major_faults_per_second", Unit::PerSecond, "major page faults: from storage", |_, memory| {
        memory.major_faults.into()
    })
    .lower_is_better();

pub static REFAULTS_PER_SECOND: Figure = Figure::new(
    "refault/s",
    "refaults_per_second",
    Unit::PerSecond,
    "pages read again soon after they were reclaimed",
    |_, memory| memory.refaults.into(),
)
.lower_is_better();

pub static DIRECT_SCANS_PER_SECOND: Figure = Figure::new(
    "dscan/s",
    "direct_scans_per_second",
    Unit::PerSecond,
    "pages scanned in direct reclaim (pgscan_direct)",
    |_, memory| memory.scanned_direct.into(),
)
.lower_is_better();

pub static RECLAIMED_PER_SECOND: Figure =
    Figure::new("reclm/s", "reclaimed_per_second", Unit::PerSecond, "pages reclaimed", |_, memory| memory.reclaimed.into())
        .hidden_by_default();

pub static ALLOCATION_STALLS_PER_SECOND: Figure =
    Figure::new("stall/s", "allocation_stalls_per_second", Unit::PerSecond, "allocations that had to wait", |_, memory| {
        memory.allocation_stalls.into()
    })
    .hidden_by_default()
    .lower_is_better();

pub static OOM_KILLS: Figure =
    Figure::new("oom", "oom_kills", Unit::Count, "kills for want of memory in the interval", |_, memory| {
        memory.oom_kills.into()
    })
    .lower_is_better();

pub static TOTAL_BYTES: Figure =
    Figure::new("total", "total_bytes", Unit::Kilobytes, "MemTotal", |_, memory| memory.total.into()).hidden_by_default();

pub static DIRTY_BYTES: Figure =
    Figure::new("dirty", "dirty_bytes", Unit::Kilobytes, "Dirty", |_, memory| memory.dirty.into()).hidden_by_default();

pub static WRITEBACK_BYTES: Figure =
    Figure::new("wback", "writeback_bytes", Unit::Kilobytes, "Writeback", |_, memory| memory.writeback.into())
        .hidden_by_default();

pub static SWAP_TOTAL_BYTES: Figure =
    Figure::new("swap", "swap_total_bytes", Unit::Kilobytes, "SwapTotal", |_, memory| memory.swap_total.into())
        .hidden_by_default();
