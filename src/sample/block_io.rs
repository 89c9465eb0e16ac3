//! Latency histograms of block requests: cumulative counts, as the eBPF program of assets/probe counts them when requests complete.
//! `kernel/probe/block` reads them; `interval/block_latency` computes quantiles.
//!
//! Only devices with requests of their own have them: not dm, md, zram and brd, which pass their I/O on as it comes.

use std::ops::Range;

use super::disk::Operation;
use crate::ids::DiskId;
use crate::units::Counter;

/// The histograms of all devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockIo {
    /// CLOCK_BOOTTIME at which the program was attached: all counts began at 0
    pub since_boottime_ns: u64,
    /// Those in which requests were counted, sorted by device, operation and bucket
    pub buckets: Vec<LatencyBucket>,
}

impl BlockIo {
    /// The buckets of one device.
    pub fn of_disk(&self, disk: DiskId) -> &[LatencyBucket] {
        let start = self.buckets.partition_point(|bucket| bucket.disk < disk);
        let end = self.buckets.partition_point(|bucket| bucket.disk <= disk);
        self.buckets.get(start..end).unwrap_or_default()
    }
}

/// Requests of one operation of a device with about the same latency, by each of three latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBucket {
    pub disk: DiskId,
    pub operation: Operation,
    /// See `bucket_ns`
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

/// `BUCKETS` in assets/probe/block.bpf.c
pub const BUCKETS: usize = 256;
const UNIT_NS: u64 = 128;
/// Buckets to a power of two: one is at most an eighth of its lower edge wide, so that its middle is within 6.25 % of all in it.
const SUB_BUCKETS: u64 = 8;

/// The latencies of a bucket in nanoseconds: eight buckets of 128 ns, then eight to each power of two, up to 37 minutes. The last
/// bucket has all longer ones too.
pub fn bucket_ns(bucket: u8) -> Range<u64> {
    let lower = |bucket: u64| match bucket / SUB_BUCKETS {
        0 => bucket * UNIT_NS,
        power => ((SUB_BUCKETS + bucket % SUB_BUCKETS) << (power - 1)) * UNIT_NS,
    };
    let bucket = u64::from(bucket);
    lower(bucket)..lower(bucket + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjacent_and_no_wider_than_an_eighth() {
        assert_eq!([bucket_ns(0), bucket_ns(7), bucket_ns(8), bucket_ns(16)], [0..128, 896..1024, 1024..1152, 2048..2304]);
        for bucket in 0..u8::MAX {
            let (this, next) = (bucket_ns(bucket), bucket_ns(bucket + 1));
            assert_eq!(this.end, next.start);
            assert!(bucket < 8 || (this.end - this.start) * 8 <= this.start, "{bucket}");
        }
        assert_eq!(bucket_ns(255).end, 1 << 41);
    }
}
