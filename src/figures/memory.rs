//! `memory`: amounts and rates as in vmstat, and reclaim.

use super::{Column, TypedTable, Unit, unit_capacity};
use crate::interval::memory::MemorySpan;

type Figure = Column<MemorySpan>;

pub static MEMORY_TABLE: TypedTable<MemorySpan> = TypedTable {
    name: "memory",
    description: "memory: amounts at the end of the interval, rates over it; vmstat's names",
    columns: &[COLUMNS],
    key_columns: &[],
    column_sets: &[],
    default_sort: &MAJOR_FAULTS_PER_SECOND,
    pid_column: None,
    for_each_row: |input, show| input.interval.memory.iter().for_each(show),
    is_idle: |_| false,
    capacity: unit_capacity,
};

columns! {
    COLUMNS: MemorySpan;

    SWAP_USED_BYTES = Figure::new("swpd", "swap_used_bytes", Unit::Kilobytes, "swap in use",
        |_, memory| memory.swap_used().into());
    FREE_BYTES = Figure::new("free", "free_bytes", Unit::Kilobytes, "MemFree", |_, memory| memory.free.into());
    BUFFERS_BYTES = Figure::new("buff", "buffers_bytes", Unit::Kilobytes, "Buffers", |_, memory| memory.buffers.into());
    CACHE_BYTES = Figure::new("cache", "cache_bytes", Unit::Kilobytes, "Cached + SReclaimable",
        |_, memory| memory.caches().into());
    AVAILABLE_BYTES = Figure::new("avail", "available_bytes", Unit::Kilobytes, "MemAvailable",
        |_, memory| memory.available.into()).higher_is_better();
    SWAP_IN_BYTES_PER_SECOND = Figure::new("si", "swap_in_bytes_per_second", Unit::KilobytesPerSecond, "swapped in",
        |_, memory| memory.swapped_in.into()).lower_is_better();
    SWAP_OUT_BYTES_PER_SECOND = Figure::new("so", "swap_out_bytes_per_second", Unit::KilobytesPerSecond, "swapped out",
        |_, memory| memory.swapped_out.into()).lower_is_better();
    PAGED_IN_BYTES_PER_SECOND = Figure::new("bi", "paged_in_bytes_per_second", Unit::KilobytesPerSecond, "received from block devices",
        |_, memory| memory.paged_in.into());
    PAGED_OUT_BYTES_PER_SECOND = Figure::new("bo", "paged_out_bytes_per_second", Unit::KilobytesPerSecond, "sent to block devices",
        |_, memory| memory.paged_out.into());
    FAULTS_PER_SECOND = Figure::new("flt/s", "faults_per_second", Unit::PerSecond, "page faults, minor and major",
        |_, memory| memory.faults.into());
    MAJOR_FAULTS_PER_SECOND = Figure::new("majflt/s", "major_faults_per_second", Unit::PerSecond,
        "major page faults: from storage",
        |_, memory| memory.major_faults.into()).lower_is_better();
    REFAULTS_PER_SECOND = Figure::new("refault/s", "refaults_per_second", Unit::PerSecond,
        "pages read again soon after they were reclaimed",
        |_, memory| memory.refaults.into()).lower_is_better();
    DIRECT_SCANS_PER_SECOND = Figure::new("dscan/s", "direct_scans_per_second", Unit::PerSecond,
        "pages scanned in direct reclaim (pgscan_direct)",
        |_, memory| memory.scanned_direct.into()).lower_is_better();
    RECLAIMED_PER_SECOND = Figure::new("reclm/s", "reclaimed_per_second", Unit::PerSecond, "pages reclaimed (pgsteal)",
        |_, memory| memory.reclaimed.into()).hidden_by_default();
    ALLOCATION_STALLS_PER_SECOND = Figure::new("stall/s", "allocation_stalls_per_second", Unit::PerSecond,
        "allocations that entered direct reclaim (allocstall)",
        |_, memory| memory.allocation_stalls.into()).hidden_by_default().lower_is_better();
    THP_FAULT_FALLBACKS_PER_SECOND = Figure::new("thpfb/s", "thp_fault_fallbacks_per_second", Unit::PerSecond,
        "page faults that got no huge page (thp_fault_fallback)",
        |_, memory| memory.thp_fault_fallbacks.into()).hidden_by_default().lower_is_better();
    COMPACTION_STALLS_PER_SECOND = Figure::new("compst/s", "compaction_stalls_per_second", Unit::PerSecond,
        "allocations that waited for memory compaction (compact_stall)",
        |_, memory| memory.compaction_stalls.into()).hidden_by_default().lower_is_better();
    OOM_KILLS = Figure::new("oom", "oom_kills", Unit::Count, "OOM kills in the interval",
        |_, memory| memory.oom_kills.into()).lower_is_better();
    TOTAL_BYTES = Figure::new("total", "total_bytes", Unit::Kilobytes, "MemTotal",
        |_, memory| memory.total.into()).hidden_by_default();
    DIRTY_BYTES = Figure::new("dirty", "dirty_bytes", Unit::Kilobytes, "Dirty",
        |_, memory| memory.dirty.into()).hidden_by_default();
    WRITEBACK_BYTES = Figure::new("wback", "writeback_bytes", Unit::Kilobytes, "Writeback",
        |_, memory| memory.writeback.into()).hidden_by_default();
    SLAB_BYTES = Figure::new("slab", "slab_bytes", Unit::Kilobytes, "kernel memory in slabs: SReclaimable + SUnreclaim",
        |_, memory| memory.slab().into()).hidden_by_default();
    SLAB_UNRECLAIMABLE_BYTES = Figure::new("sunrecl", "slab_unreclaimable_bytes", Unit::Kilobytes, "SUnreclaim",
        |_, memory| memory.slab_unreclaimable.into()).hidden_by_default();
    SHARED_BYTES = Figure::new("shmem", "shared_bytes", Unit::Kilobytes, "Shmem: tmpfs and shared memory, part of the cache",
        |_, memory| memory.shmem.into()).hidden_by_default();
    SWAP_TOTAL_BYTES = Figure::new("swap", "swap_total_bytes", Unit::Kilobytes, "SwapTotal",
        |_, memory| memory.swap_total.into()).hidden_by_default();
}
