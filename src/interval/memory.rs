//! Memory: gauges of /proc/meminfo, and rates of paging, swapping, reclaim and refaults from /proc/vmstat.

use crate::sample::memory::Memory;
use crate::sample::{Host, Sample};
use crate::units::{Bytes, Counter, PerSecond};

/// Gauges at the end of the interval, rates over it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemorySpan {
    pub total: Option<Bytes>,
    /// MemAvailable: the kernel's estimate of what can be allocated without swapping; `None` before 3.14
    pub available: Option<Bytes>,
    pub free: Option<Bytes>,
    pub cached: Option<Bytes>,
    pub buffers: Option<Bytes>,
    pub dirty: Option<Bytes>,
    pub writeback: Option<Bytes>,
    /// Dirty + Writeback, the larger of both ends of the interval: what the kernel compares with its limit
    pub dirty_or_writeback: Option<Bytes>,
    /// The level from which writers are held back: the mean of nr_dirty_threshold and nr_dirty_background_threshold
    pub dirty_throttle: Option<Bytes>,
    /// nr_dirty_threshold: writers are stopped
    pub dirty_limit: Option<Bytes>,
    pub swap_total: Option<Bytes>,
    pub swap_free: Option<Bytes>,
    /// SReclaimable: kernel caches that can be reclaimed
    pub slab_reclaimable: Option<Bytes>,
    /// SUnreclaim: other memory of the kernel in slabs
    pub slab_unreclaimable: Option<Bytes>,
    /// Shmem: tmpfs and shared memory, which Cached contains
    pub shmem: Option<Bytes>,
    /// Bytes per second from and to swap
    pub swapped_in: Option<PerSecond>,
    pub swapped_out: Option<PerSecond>,
    /// Bytes per second from and to block devices
    pub paged_in: Option<PerSecond>,
    pub paged_out: Option<PerSecond>,
    /// pgmajfault: page faults per second that had to read the page from a disk
    pub major_faults: Option<PerSecond>,
    /// pgfault: page faults per second, the major ones included
    pub faults: Option<PerSecond>,
    /// workingset_refault: pages per second that were read again soon after they were evicted
    pub refaults: Option<PerSecond>,
    /// pgscan_direct: pages per second that were scanned in direct reclaim, by the threads that allocate
    pub scanned_direct: Option<PerSecond>,
    /// pgsteal_kswapd and pgsteal_direct: pages per second
    pub reclaimed: Option<PerSecond>,
    /// allocstall: allocations per second that began direct reclaim
    pub allocation_stalls: Option<PerSecond>,
    /// Page faults that got a small page because no huge page was free
    pub thp_fault_fallbacks: Option<PerSecond>,
    /// Allocations that waited while the kernel moved pages to free a larger block
    pub compaction_stalls: Option<PerSecond>,
    /// Kills in this interval: a count, not a rate
    pub oom_kills: Option<u64>,
}

impl MemorySpan {
    /// What vmstat calls cache: Cached + SReclaimable.
    pub fn caches(&self) -> Option<Bytes> {
        let slab = self.slab_reclaimable.unwrap_or_default();
        self.cached.map(|cached| Bytes(cached.0.saturating_add(slab.0)))
    }

    /// SReclaimable + SUnreclaim.
    pub fn slab(&self) -> Option<Bytes> {
        Some(Bytes(self.slab_reclaimable?.0.saturating_add(self.slab_unreclaimable?.0)))
    }

    /// SwapTotal − SwapFree.
    pub fn swap_used(&self) -> Option<Bytes> {
        Some(Bytes(self.swap_total?.0.saturating_sub(self.swap_free?.0)))
    }

    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64) -> Option<MemorySpan> {
        let (was, now) = (older.memory.as_ref().ok()?, newer.memory.as_ref().ok()?);
        let rate = |field: fn(&Memory) -> Option<Counter>| PerSecond::between(field(now), field(was), seconds);
        let amount = |kb: Option<u64>| kb.map(|kb| Bytes(kb.saturating_mul(1024)));
        let page = host.page_size as f64;
        let pages = |count: u64| Bytes(count.saturating_mul(host.page_size));
        let dirty_kb = |memory: &Memory| Some(memory.dirty_kb?.saturating_add(memory.writeback_kb?));
        Some(MemorySpan {
            total: amount(now.total_kb),
            available: amount(now.available_kb),
            free: amount(now.free_kb),
            cached: amount(now.cached_kb),
            buffers: amount(now.buffers_kb),
            dirty: amount(now.dirty_kb),
            writeback: amount(now.writeback_kb),
            dirty_or_writeback: amount(dirty_kb(was).max(dirty_kb(now))),
            dirty_throttle: now
                .dirty_threshold_pages
                .zip(now.dirty_background_threshold_pages)
                .map(|(limit, background)| pages(limit.saturating_add(background) / 2)),
            dirty_limit: now.dirty_threshold_pages.map(pages),
            swap_total: amount(now.swap_total_kb),
            swap_free: amount(now.swap_free_kb),
            slab_reclaimable: amount(now.slab_reclaimable_kb),
            slab_unreclaimable: amount(now.slab_unreclaimable_kb),
            shmem: amount(now.shmem_kb),
            swapped_in: rate(|m| m.swapped_in_pages).map(|pages| PerSecond(pages.0 * page)),
            swapped_out: rate(|m| m.swapped_out_pages).map(|pages| PerSecond(pages.0 * page)),
            paged_in: rate(|m| m.paged_in_kb).map(|kb| PerSecond(kb.0 * 1024.0)),
            paged_out: rate(|m| m.paged_out_kb).map(|kb| PerSecond(kb.0 * 1024.0)),
            major_faults: rate(|m| m.major_faults),
            faults: rate(|m| m.faults),
            refaults: rate(|m| m.refaulted_pages),
            scanned_direct: rate(|m| m.scanned_direct_pages),
            reclaimed: rate(|m| m.reclaimed_pages),
            allocation_stalls: rate(|m| m.allocation_stalls),
            thp_fault_fallbacks: rate(|m| m.thp_fault_fallbacks),
            compaction_stalls: rate(|m| m.compaction_stalls),
            oom_kills: crate::units::delta(now.oom_kills, was.oom_kills),
        })
    }
}
