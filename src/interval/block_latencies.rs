//! Distributions of the latencies of block requests in an interval: differences of the histograms of `sample/block_latencies`.

use super::latency_histogram::LatencyHistogram;
use crate::ids::DiskId;
use crate::sample::Sample;
use crate::sample::block_latencies::LatencyBucket;
use crate::sample::disk::Operation;
use crate::units::{Counter, Ratio};

/// The requests of one operation of a device that completed in the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationLatency {
    pub operation: Operation,
    /// From the request to its completion
    pub total: LatencyHistogram,
    /// The part of it before the driver got the request; empty where the kernel does not say when that was
    pub queue: LatencyHistogram,
    /// The part of it after that
    pub device: LatencyHistogram,
    /// Requests that began where the last one ended
    pub sequential: u64,
}

impl OperationLatency {
    /// Share of the requests that began where the last one ended; `None` without requests.
    pub fn sequential_share(&self) -> Option<Ratio> {
        Ratio::new(self.sequential as f64, self.total.requests() as f64)
    }
}

/// The distributions of a device by operation, of those with requests. Empty without the eBPF program.
pub(super) fn between(older: &Sample, newer: &Sample, disk: DiskId) -> Vec<OperationLatency> {
    let Ok(now) = &newer.block_latencies else { return Vec::new() };
    let was = match &older.block_latencies {
        Ok(was) if was.since_boottime_ns == now.since_boottime_ns => was.of_disk(disk),
        // Attached in this interval: all that it has counted is of it.
        _ if now.since_boottime_ns >= older.at.boottime_ns => &[],
        _ => return Vec::new(),
    };
    let mut list: Vec<OperationLatency> = Vec::new();
    for bucket in now.of_disk(disk) {
        let key = |bucket: &LatencyBucket| (bucket.operation, bucket.bucket);
        let before = was.binary_search_by_key(&key(bucket), key).ok().and_then(|place| was.get(place));
        let grown = |counter: fn(&LatencyBucket) -> Counter| counter(bucket).since(before.map_or(Counter(0), counter));
        let [Some(completed), Some(sequential), Some(queued), Some(on_device)] =
            [grown(|b| b.completed), grown(|b| b.sequential), grown(|b| b.queued), grown(|b| b.on_device)]
        else {
            // Another device has taken the number.
            return Vec::new();
        };
        if list.last().is_none_or(|last| last.operation != bucket.operation) {
            let none = LatencyHistogram::default;
            let operation = bucket.operation;
            list.push(OperationLatency { operation, total: none(), queue: none(), device: none(), sequential: 0 });
        }
        if let Some(last) = list.last_mut() {
            last.total.add(bucket.bucket, completed);
            last.queue.add(bucket.bucket, queued);
            last.device.add(bucket.bucket, on_device);
            last.sequential = last.sequential.saturating_add(sequential);
        }
    }
    list.retain(|latency| !latency.total.is_empty());
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::block_latencies::BlockLatencies;
    use crate::sample::{Absent, Instant};

    const DISK: DiskId = DiskId { major: 8, minor: 16 };

    fn bucket(minor: u32, operation: Operation, bucket: u8, completed: u64) -> LatencyBucket {
        let disk = DiskId { major: 8, minor };
        let (queued, on_device) = (Counter(0), Counter(completed / 2));
        LatencyBucket { disk, operation, bucket, completed: Counter(completed), sequential: Counter(1), queued, on_device }
    }

    fn sample(boottime_ns: u64, since_boottime_ns: u64, buckets: Vec<LatencyBucket>) -> Sample {
        let mut sample = Sample::empty(Instant { boottime_ns, ..Instant::default() });
        sample.block_latencies = Ok(BlockLatencies { since_boottime_ns, buckets });
        sample
    }

    #[test]
    fn quantiles_are_those_of_the_requests_of_the_interval() {
        let older = sample(10, 5, vec![bucket(0, Operation::Read, 9, 77), bucket(16, Operation::Read, 40, 100)]);
        let newer = sample(
            20,
            5,
            vec![
                bucket(0, Operation::Read, 9, 99),
                bucket(16, Operation::Read, 40, 198),
                bucket(16, Operation::Read, 80, 2),
                bucket(16, Operation::Flush, 7, 1),
            ],
        );
        let list = between(&older, &newer, DISK);
        let [reads, flushes] = list.as_slice() else { panic!("{list:?}") };
        assert_eq!((reads.operation, reads.total.requests(), reads.sequential), (Operation::Read, 100, 1));
        let [low, high] = [40, 80].map(|bucket| LatencyHistogram::new([(bucket, 1)]).max());
        assert_eq!([0.0, 0.5, 0.98, 0.981, 1.0].map(|share| reads.total.quantile(share)), [low, low, low, high, high]);
        assert_eq!((reads.total.max(), reads.queue.max(), reads.device.requests()), (high, None, 50));
        assert_eq!((flushes.operation, flushes.total.requests()), (Operation::Flush, 1));
        assert!(between(&older, &newer, DiskId { major: 8, minor: 1 }).is_empty());
    }

    #[test]
    fn counts_of_another_attachment_or_device_are_no_interval() {
        let buckets = |count| vec![bucket(16, Operation::Write, 3, count)];
        let requests = |older: &Sample, newer: &Sample| between(older, newer, DISK).first().map(|write| write.total.requests());
        let newer = sample(20, 15, buckets(4));
        assert_eq!(requests(&sample(10, 15, buckets(1)), &newer), Some(3));
        assert_eq!(requests(&sample(10, 5, buckets(1)), &newer), Some(4), "attached within the interval");
        assert_eq!(requests(&Sample::empty(Instant::default()), &newer), Some(4));
        assert_eq!(requests(&sample(16, 5, buckets(1)), &newer), None, "attached before it");
        assert_eq!(requests(&sample(10, 15, buckets(9)), &newer), None);
        let mut without = newer.clone();
        without.block_latencies = Err(Absent::NoPermission);
        assert_eq!(requests(&newer, &without), None);
    }
}
