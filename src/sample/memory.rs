//! Memory: gauges of /proc/meminfo and counters of /proc/vmstat.

use crate::units::Counter;

/// A NUMA node, /sys/devices/system/node/nodeN/meminfo; gauges in kB of 1024 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNode {
    pub node: u32,
    /// `MemTotal`
    pub total_kb: u64,
    /// `MemFree`
    pub free_kb: u64,
    /// `Active(file)` + `Inactive(file)`
    pub file_kb: u64,
    /// `SReclaimable`; since Linux 4.20, else 0
    pub slab_reclaimable_kb: u64,
}

/// Gauges are in kB of 1024 bytes, counters in events, pages or kB. A field that this kernel does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `MemTotal`
    pub total_kb: Option<u64>,
    /// `MemFree`
    pub free_kb: Option<u64>,
    /// `MemAvailable`; since Linux 3.14
    pub available_kb: Option<u64>,
    /// `Buffers`
    pub buffers_kb: Option<u64>,
    /// `Cached`
    pub cached_kb: Option<u64>,
    /// `Shmem`
    pub shmem_kb: Option<u64>,
    /// `SReclaimable`
    pub slab_reclaimable_kb: Option<u64>,
    /// `SUnreclaim`
    pub slab_unreclaimable_kb: Option<u64>,
    /// `SwapTotal`
    pub swap_total_kb: Option<u64>,
    /// `SwapFree`
    pub swap_free_kb: Option<u64>,
    /// `Dirty`
    pub dirty_kb: Option<u64>,
    /// `Writeback`
    pub writeback_kb: Option<u64>,
    /// `pswpin`, pages
    pub swapped_in_pages: Option<Counter>,
    /// `pswpout`, pages
    pub swapped_out_pages: Option<Counter>,
    /// `pgpgin`, kB
    pub paged_in_kb: Option<Counter>,
    /// `pgpgout`, kB
    pub paged_out_kb: Option<Counter>,
    /// `pgfault`
    pub faults: Option<Counter>,
    /// `pgmajfault`
    pub major_faults: Option<Counter>,
    /// `pgscan_kswapd`, pages
    pub scanned_kswapd_pages: Option<Counter>,
    /// `pgscan_direct`, pages: scanned in direct reclaim
    pub scanned_direct_pages: Option<Counter>,
    /// `pgsteal_kswapd` + `pgsteal_direct`, pages; sar's "steal", here reclaimed
    pub reclaimed_pages: Option<Counter>,
    /// `workingset_refault_anon` + `workingset_refault_file` (before 5.9 `workingset_refault`), pages
    pub refaulted_pages: Option<Counter>,
    /// Sum of `allocstall_*`
    pub allocation_stalls: Option<Counter>,
    /// `thp_fault_fallback`: page faults that got a small page because no huge page was free
    pub thp_fault_fallbacks: Option<Counter>,
    /// `oom_kill`
    pub oom_kills: Option<Counter>,
    /// `nr_dirty_threshold`, pages: the limit of dirty pages, of which dirty memory is a share (vm.dirty_ratio, vm.dirty_bytes)
    pub dirty_threshold_pages: Option<u64>,
    /// `nr_dirty_background_threshold`, pages: writeback begins
    pub dirty_background_threshold_pages: Option<u64>,
    /// Allocations that waited for direct compaction of memory (`compact_stall`)
    pub compaction_stalls: Option<Counter>,
}
