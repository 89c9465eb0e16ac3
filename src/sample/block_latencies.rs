//! Latency histograms of block requests: cumulative counts, as the eBPF program of assets/probe counts them when requests complete.
//! `kernel/probe/block` reads them; `interval/block_latencies` computes quantiles.
//!
//! Only devices with requests of their own have them: not dm, md, zram and brd, which pass their I/O on as it comes.

use super::disk::Operation;
use crate::ids::DiskId;
use crate::units::Counter;

/// The histograms of all devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockLatencies {
    /// CLOCK_BOOTTIME at which the program was first attached: all counts began at 0. Where it would take too much CPU time it is attached
    /// for a part of the time, so that these are fewer requests than those of /proc/diskstats.
    pub since_boottime_ns: u64,
    /// Those in which requests were counted, sorted by device, operation and bucket
    pub buckets: Vec<LatencyBucket>,
}

impl BlockLatencies {
    /// The buckets of one device.
    pub fn of_disk(&self, disk: DiskId) -> &[LatencyBucket] {
        let start = self.buckets.partition_point(|bucket| bucket.disk < disk);
        let end = self.buckets.partition_point(|bucket| bucket.disk <= disk);
        self.buckets.get(start..end).unwrap_or_default()
    }
}

/// One bucket of the three histograms (`completed`, `queued`, `on_device`) of one operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBucket {
    pub disk: DiskId,
    pub operation: Operation,
    /// See `histogram_bucket`
    pub bucket: u8,
    /// From start_time_ns, when the request was made, to its completion: the time that /proc/diskstats adds up
    pub completed: Counter,
    /// Of those: began at the sector where the last request of this operation on the device ended, in the order of completion
    pub sequential: Counter,
    /// From start_time_ns to io_start_time_ns, when the driver got it; not counted where the kernel does not set that
    pub queued: Counter,
    /// From io_start_time_ns to completion
    pub on_device: Counter,
}
