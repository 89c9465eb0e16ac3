//! What graphs keep of the disks in one interval.

use super::heaviest;
use crate::figures::disk_operation::{self, OperationRow};
use crate::figures::{Column, FigureInput, disk};
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::latency_histogram::LatencyHistogram;

/// Each summary keeps the most active disks.
const MAX_DISKS: usize = 64;

/// Upper edges of the classes of latency that a summary distinguishes, in milliseconds.
pub const LATENCY_CLASSES: [f32; 17] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, f32::INFINITY];

#[derive(Clone, Debug)]
pub struct DiskSummary {
    pub id: DiskId,
    /// Average latency in milliseconds by operation; NaN if none completed
    pub awaits: [f32; 4],
    /// Requests in flight on average; NaN if unknown
    pub queue: f32,
    /// KB per second read and written
    pub kilobytes: [f32; 2],
    /// Shares of the requests in each class of latency; of operations whose single requests were measured
    pub latencies: Box<[(Operation, [f32; LATENCY_CLASSES.len()])]>,
}

/// Those with requests, sorted.
pub fn busiest_disks(input: &FigureInput) -> Box<[DiskSummary]> {
    let busy = input.interval.disks.iter().filter(|disk| disk.completed() > 0).collect();
    let list = heaviest(busy, MAX_DISKS, |disk| disk.operations().map(|(_, op)| op.concurrency as f32).sum());
    list.into_iter().map(|disk| DiskSummary::from_span(input, disk)).collect()
}

impl DiskSummary {
    fn from_span(input: &FigureInput, disk: &DiskSpan) -> DiskSummary {
        let mut awaits = [f32::NAN; 4];
        for (operation, _) in disk.operations() {
            let row = OperationRow::new(disk, operation);
            let time = row.and_then(|row| disk_operation::AWAIT_SECONDS.displayed(input, &row));
            if let (Some(slot), Some(time)) = (awaits.get_mut(operation as usize), time) {
                *slot = time as f32;
            }
        }
        let rate = |figure: &Column<DiskSpan>| figure.displayed(input, disk).unwrap_or(0.0) as f32;
        DiskSummary {
            id: disk.id,
            awaits,
            queue: disk::QUEUE.number(input, disk).map_or(f32::NAN, |queue| queue as f32),
            kilobytes: [rate(&disk::READ_BYTES_PER_SECOND), rate(&disk::WRITE_BYTES_PER_SECOND)],
            latencies: disk.latencies.iter().map(|known| (known.operation, class_shares(&known.total))).collect(),
        }
    }
}

/// The share of the requests in each of `LATENCY_CLASSES`.
fn class_shares(histogram: &LatencyHistogram) -> [f32; LATENCY_CLASSES.len()] {
    let mut shares = [0.0; LATENCY_CLASSES.len()];
    let all = histogram.requests().max(1) as f64;
    for (latency, requests) in histogram.counts() {
        let class = LATENCY_CLASSES.iter().position(|&edge| latency.0 as f32 <= edge);
        if let Some(share) = class.and_then(|class| shares.get_mut(class)) {
            *share += (requests as f64 / all) as f32;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::disk::Operation::Read;
    use crate::sample::block_latencies::BlockLatencies;
    use crate::sample::histogram_bucket::HistogramBucket;
    use crate::state::history::summary::{GraphFigure, IntervalSummary};
    use crate::synthetic::{disk, evaluation, latency_bucket, operations, sample};

    #[test]
    fn requests_are_counted_in_the_class_of_their_latency() {
        let id = DiskId { major: 8, minor: 0 };
        let sample = |second: u64, requests: [u64; 2]| {
            let bucket_of = |ns: u64| (0..=u8::MAX).find(|bucket| bucket.edges_ns().contains(&ns)).unwrap();
            let latencies = [1_100_000, 40_000_000].map(bucket_of).into_iter().zip(requests);
            let buckets = latencies.map(|(bucket, count)| latency_bucket(id, Read, bucket, count)).collect();
            let reads = operations(requests.iter().sum(), 0, 0);
            let sample = sample(second as f64).disk(disk("sda").id(8, 0).reads(reads));
            sample.with(|sample| sample.block_latencies = Ok(BlockLatencies { since_boottime_ns: 1, buckets }))
        };
        let evaluation = evaluation(sample(5, [10, 10]), sample(6, [85, 35]));
        let summary = IntervalSummary::from_evaluation(&evaluation, None);
        let share = |class| summary.figure(&GraphFigure::DiskLatency(id, Read, class));
        assert_eq!([6, 7, 11, 12].map(share), [Some(0.0), Some(0.75), Some(0.25), Some(0.0)]);
        assert_eq!(summary.figure(&GraphFigure::DiskLatency(id, Operation::Write, 7)), None);
    }
}
