//! `memory`: vmstat's amounts and rates, and what the kernel does to find room.

use super::column::{Column, Unit};
use super::{Typed, of_one};
use crate::interval::memory::MemorySpan;

type Figure = Column<MemorySpan>;

pub(super) static MEMORY: Typed<MemorySpan> = Typed {
    name: "memory",
    about: "memory: amounts at the end of the interval, rates over it; vmstat's names",
    columns: &[COLUMNS],
    key: &[],
    sets: &[],
    single: true,
    measure: "majflt/s",
    each: |look, show| look.interval.memory.iter().for_each(show),
    is_idle: |_| false,
    whole: of_one,
};

const COLUMNS: &[Figure] = &[
    Figure::new("swpd", "swap_used_bytes", Unit::Kb, "swap in use", |_, memory| memory.swap_used().into()),
    Figure::new("free", "free_bytes", Unit::Kb, "MemFree", |_, memory| memory.free.into()),
    Figure::new("buff", "buffers_bytes", Unit::Kb, "Buffers", |_, memory| memory.buffers.into()),
    Figure::new("cache", "cache_bytes", Unit::Kb, "Cached + SReclaimable", |_, memory| memory.caches().into()),
    Figure::new("avail", "available_bytes", Unit::Kb, "MemAvailable", |_, memory| memory.available.into()),
    Figure::new("si", "swap_in_bytes_per_second", Unit::KbRate, "from swap", |_, memory| memory.swapped_in.into()),
    Figure::new("so", "swap_out_bytes_per_second", Unit::KbRate, "to swap", |_, memory| memory.swapped_out.into()),
    Figure::new("bi", "paged_in_bytes_per_second", Unit::KbRate, "from block devices", |_, memory| memory.paged_in.into()),
    Figure::new("bo", "paged_out_bytes_per_second", Unit::KbRate, "to block devices", |_, memory| memory.paged_out.into()),
    Figure::new("flt/s", "faults_per_second", Unit::Rate, "page faults", |_, memory| memory.faults.into()),
    Figure::new("majflt/s", "major_faults_per_second", Unit::Rate, "faults that had to read", |_, memory| {
        memory.major_faults.into()
    }),
    Figure::new(
        "refault/s",
        "refaults_per_second",
        Unit::Rate,
        "pages that came back soon after they were dropped",
        |_, memory| memory.refaults.into(),
    ),
    Figure::new(
        "dscan/s",
        "direct_scans_per_second",
        Unit::Rate,
        "pages that tasks looked at for room themselves",
        |_, memory| memory.scanned_direct.into(),
    ),
    Figure::new("reclm/s", "reclaimed_per_second", Unit::Rate, "pages reclaimed", |_, memory| memory.reclaimed.into())
        .unusual(),
    Figure::new("stall/s", "allocation_stalls_per_second", Unit::Rate, "allocations that had to wait", |_, memory| {
        memory.allocation_stalls.into()
    })
    .unusual(),
    Figure::new("oom", "oom_kills", Unit::Count, "kills for want of memory in the interval", |_, memory| {
        memory.oom_kills.into()
    }),
    Figure::new("total", "total_bytes", Unit::Kb, "MemTotal", |_, memory| memory.total.into()).unusual(),
    Figure::new("dirty", "dirty_bytes", Unit::Kb, "Dirty", |_, memory| memory.dirty.into()).unusual(),
    Figure::new("wback", "writeback_bytes", Unit::Kb, "Writeback", |_, memory| memory.writeback.into()).unusual(),
    Figure::new("swap", "swap_total_bytes", Unit::Kb, "SwapTotal", |_, memory| memory.swap_total.into()).unusual(),
];
