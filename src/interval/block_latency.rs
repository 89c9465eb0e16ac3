//! Distributions of the latencies of block requests in an interval: differences of the histograms of `sample/block_io`, and
//! quantiles of them. A quantile is the middle of its bucket, within 6.25 % of the exact one.

use crate::ids::DiskId;
use crate::sample::Sample;
use crate::sample::block_io::{BUCKETS, BlockIo, LatencyBucket, bucket_ns};
use crate::sample::disk::Operation;
use crate::units::{Counter, Millis, Ratio};

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

/// Counts of requests by latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyHistogram {
    /// Bucket (`bucket_ns`) and requests in it, more than none; sorted
    counts: Vec<(u8, u64)>,
}

impl LatencyHistogram {
    /// From buckets in their order, and the number in each.
    pub fn new(counts: impl IntoIterator<Item = (u8, u64)>) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        for (bucket, count) in counts {
            histogram.add(bucket, count);
        }
        histogram
    }

    /// Several together.
    pub fn sum<'a>(all: impl Iterator<Item = &'a LatencyHistogram>) -> LatencyHistogram {
        let mut counts = [0_u64; BUCKETS];
        for &(bucket, count) in all.flat_map(|histogram| &histogram.counts) {
            if let Some(sum) = counts.get_mut(usize::from(bucket)) {
                *sum = sum.saturating_add(count);
            }
        }
        LatencyHistogram::new((0..=u8::MAX).zip(counts))
    }

    /// Those that are not among `part`.
    pub fn without(&self, part: &LatencyHistogram) -> LatencyHistogram {
        let of_part = |bucket: u8| part.counts.iter().find(|known| known.0 == bucket).map_or(0, |known| known.1);
        LatencyHistogram::new(self.counts.iter().map(|&(bucket, count)| (bucket, count.saturating_sub(of_part(bucket)))))
    }

    /// Requests in it.
    pub fn requests(&self) -> u64 {
        self.counts.iter().map(|count| count.1).fold(0, u64::saturating_add)
    }

    /// The latency that this share of the requests, 0 to 1, did not exceed; `None` without requests.
    pub fn quantile(&self, share: f64) -> Option<Millis> {
        let rank = (self.requests() as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0_u64;
        let bucket = self.counts.iter().find(|&&(_, count)| {
            sum = sum.saturating_add(count);
            sum >= rank
        })?;
        Some(middle(bucket.0))
    }

    /// As `quantile`, but within its bucket by rank, as if the bucket's requests were spread evenly: closer than the middle where a
    /// bucket has many.
    pub fn interpolated_quantile(&self, share: f64) -> Option<Millis> {
        let rank = (self.requests() as f64 * share).ceil().max(1.0);
        let mut sum = 0.0;
        let &(bucket, count) = self.counts.iter().find(|&&(_, count)| {
            sum += count as f64;
            sum >= rank
        })?;
        let edges = bucket_ns(bucket);
        let within = (rank - 0.5 - (sum - count as f64)) / count as f64;
        Some(Millis((edges.start as f64 + within * (edges.end - edges.start) as f64) / 1e6))
    }

    /// The longest latency, as the middle of its bucket; `None` without requests.
    pub fn max(&self) -> Option<Millis> {
        self.counts.last().map(|&(bucket, _)| middle(bucket))
    }

    /// The middle of each bucket with requests, and how many, the shortest first.
    pub fn counts(&self) -> impl Iterator<Item = (Millis, u64)> {
        self.counts.iter().map(|&(bucket, count)| (middle(bucket), count))
    }

    /// Each bucket with requests (`bucket_ns`), and how many, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u8, u64)> {
        self.counts.iter().copied()
    }

    /// Adds the requests of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        let mut place = 0;
        for &(bucket, count) in &other.counts {
            while self.counts.get(place).is_some_and(|known| known.0 < bucket) {
                place += 1;
            }
            match self.counts.get_mut(place).filter(|known| known.0 == bucket) {
                Some(known) => known.1 = known.1.saturating_add(count),
                None => self.counts.insert(place, (bucket, count)),
            }
        }
    }

    fn add(&mut self, bucket: u8, count: u64) {
        if count > 0 {
            self.counts.push((bucket, count));
        }
    }
}

impl OperationLatency {
    /// Share of the requests that began where the last one ended; `None` without requests.
    pub fn sequential_share(&self) -> Option<Ratio> {
        Ratio::new(self.sequential as f64, self.total.requests() as f64)
    }
}

fn middle(bucket: u8) -> Millis {
    let edges = bucket_ns(bucket);
    Millis((edges.start + edges.end) as f64 / 2.0 / 1e6)
}

/// The distributions of a device by operation, of those with requests. Empty without the eBPF program.
pub(super) fn between(older: &Sample, newer: &Sample, disk: DiskId) -> Vec<OperationLatency> {
    let Ok(now) = &newer.block_io else { return Vec::new() };
    let was = match &older.block_io {
        Ok(was) if was.since_boottime_ns == now.since_boottime_ns => of_disk(was, disk),
        // Attached in this interval: all that it has counted is of it.
        _ if now.since_boottime_ns >= older.at.boottime_ns => &[],
        _ => return Vec::new(),
    };
    let mut list: Vec<OperationLatency> = Vec::new();
    for bucket in of_disk(now, disk) {
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
    list.retain(|latency| !latency.total.counts.is_empty());
    list
}

/// The buckets of one device.
fn of_disk(all: &BlockIo, disk: DiskId) -> &[LatencyBucket] {
    let start = all.buckets.partition_point(|bucket| bucket.disk < disk);
    let end = all.buckets.partition_point(|bucket| bucket.disk <= disk);
    all.buckets.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Absent, Instant};

    const DISK: DiskId = DiskId { major: 8, minor: 16 };

    fn bucket(minor: u32, operation: Operation, bucket: u8, completed: u64) -> LatencyBucket {
        let disk = DiskId { major: 8, minor };
        let (queued, on_device) = (Counter(0), Counter(completed / 2));
        LatencyBucket { disk, operation, bucket, completed: Counter(completed), sequential: Counter(1), queued, on_device }
    }

    fn sample(boottime_ns: u64, since_boottime_ns: u64, buckets: Vec<LatencyBucket>) -> Sample {
        let mut sample = Sample::empty(Instant { boottime_ns, ..Instant::default() });
        sample.block_io = Ok(BlockIo { since_boottime_ns, buckets });
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
        let (low, high) = (Some(middle(40)), Some(middle(80)));
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
        without.block_io = Err(Absent::NoPermission);
        assert_eq!(requests(&newer, &without), None);
    }

    #[test]
    fn merged_histograms_have_the_requests_of_both() {
        let (one, other) = (LatencyHistogram::new([(16, 64), (80, 1)]), LatencyHistogram::new([(7, 2), (16, 3), (90, 5)]));
        let mut merged = one.clone();
        merged.merge(&other);
        assert_eq!(merged, LatencyHistogram::sum([&one, &other].into_iter()));
        assert_eq!(merged.buckets().collect::<Vec<_>>(), [(7, 2), (16, 67), (80, 1), (90, 5)]);
    }

    #[test]
    fn an_interpolated_quantile_is_within_its_bucket_by_rank() {
        // 2,048 to 2,304 ns, and 524,288 to 589,824 ns
        let histogram = LatencyHistogram::new([(16, 64), (80, 1)]);
        let ns = |share| histogram.interpolated_quantile(share).map(|latency| (latency.0 * 1e6).round());
        assert_eq!([ns(0.0), ns(0.5), ns(64.0 / 65.0), ns(1.0)], [2050.0, 2178.0, 2302.0, 557_056.0].map(Some));
        let without = histogram.without(&LatencyHistogram::new([(16, 64), (17, 3)]));
        assert_eq!((without.requests(), without.max()), (1, Some(middle(80))));
        assert_eq!(LatencyHistogram::default().interpolated_quantile(0.5), None);
    }
}
