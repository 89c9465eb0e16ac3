//! Metrics of disks: the kernel's counters, the figures of the interval by operation, and latency histograms of single requests.

use super::family::{FamilyList, Label, label};
use super::names;
use super::selection::Selection;
use crate::figures::disk_operation::{AWAIT_SECONDS, BASELINE_MULTIPLE, BASELINE_SECONDS, OperationRow};
use crate::figures::{FigureInput, disk};
use crate::findings::Evaluation;
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::sample::block_latencies::LatencyBucket;
use crate::sample::disk::Disk;
use crate::units::SmallSort;

const MAX_DISKS: usize = 16;

/// Disks with histograms: each of up to four operations has eleven series in the text formats.
const MAX_HISTOGRAM_DISKS: usize = 2;

/// The disks that have series.
#[derive(Clone, Debug)]
pub struct DiskMetrics {
    disks: Selection<DiskId>,
    with_histograms: Selection<DiskId>,
}

impl Default for DiskMetrics {
    fn default() -> DiskMetrics {
        DiskMetrics { disks: Selection::new(MAX_DISKS), with_histograms: Selection::new(MAX_HISTOGRAM_DISKS) }
    }
}

/// Completed operations, milliseconds and sectors since boot. Flushes have no sectors.
type Counters = (u64, u64, Option<u64>);

impl DiskMetrics {
    /// Returns how many disks have no series.
    pub fn add(&mut self, evaluation: &Evaluation, families: &mut FamilyList) -> usize {
        let interval = &evaluation.interval;
        let Ok(disks) = &interval.newer.disks else { return 0 };
        let work = |disk: &DiskSpan| disk.operations().map(|(_, span)| span.concurrency).sum::<f64>();
        let mut spans: Vec<&DiskSpan> = interval.disks.iter().collect();
        // Stable: disks without I/O remain sorted by id.
        spans.small_sort_by(|a, b| work(b).total_cmp(&work(a)));
        let candidates: Vec<DiskId> = spans.iter().map(|span| span.id).collect();
        let now_ns = interval.at().boottime_ns;
        let left_out = self.disks.update(&candidates, now_ns);
        let requests = interval.newer.block_latencies.as_ref().ok();
        let counted = |disk: &&DiskId| requests.is_some_and(|requests| !requests.of_disk(**disk).is_empty());
        self.with_histograms.update(&candidates.iter().filter(counted).copied().collect::<Vec<_>>(), now_ns);
        let input = FigureInput::from(evaluation);
        for span in interval.disks.iter().filter(|span| self.disks.contains(&span.id)) {
            let Some(disk) = disks.get(span.index) else { continue };
            add_disk(&input, disk, span, families);
            if let Some(requests) = requests.filter(|_| self.with_histograms.contains(&span.id)) {
                add_histograms(disk, requests.of_disk(span.id), families);
            }
        }
        left_out
    }
}

fn add_disk(input: &FigureInput, disk: &Disk, span: &DiskSpan, families: &mut FamilyList) {
    let device = || label("device", &disk.name.to_string_lossy());
    families.add(&names::DISK_BUSY_SECONDS, vec![device()], disk.io_ticks_ms.0 as f64 / 1e3);
    families.add(&names::DISK_BUSY, vec![device()], disk::BUSY_RATIO.number(input, span));
    families.add(&names::DISK_QUEUE, vec![device()], disk::QUEUE.number(input, span));
    for (operation, (completed, time_ms, sectors)) in counters(disk) {
        let labels = || -> Vec<Label> { vec![device(), ("operation", operation.as_str().to_owned())] };
        families.add(&names::DISK_OPERATIONS, labels(), completed as f64);
        families.add(&names::DISK_OPERATION_SECONDS, labels(), time_ms as f64 / 1e3);
        families.add(&names::DISK_BYTES, labels(), sectors.map(|sectors| sectors as f64 * 512.0));
        if let Some(row) = OperationRow::new(span, operation) {
            families.add(&names::DISK_AWAIT, labels(), AWAIT_SECONDS.number(input, &row));
            families.add(&names::DISK_BASELINE, labels(), BASELINE_SECONDS.number(input, &row));
            families.add(&names::DISK_BASELINE_RATIO, labels(), BASELINE_MULTIPLE.number(input, &row));
        }
    }
}

/// All requests since the eBPF program was attached, by operation.
fn add_histograms(disk: &Disk, buckets: &[LatencyBucket], families: &mut FamilyList) {
    for buckets in buckets.chunk_by(|a, b| a.operation == b.operation) {
        let Some(operation) = buckets.first().map(|bucket| bucket.operation) else { continue };
        let labels = vec![label("device", &disk.name.to_string_lossy()), ("operation", operation.as_str().to_owned())];
        let histogram = LatencyHistogram::new(buckets.iter().map(|bucket| (bucket.bucket, bucket.completed.0)));
        families.add_histogram(&names::DISK_REQUEST_DURATION, labels, histogram);
    }
}

/// By kind of operation; without kinds that the kernel does not count or that the disk has never done.
fn counters(disk: &Disk) -> impl Iterator<Item = (Operation, Counters)> {
    let of = |op: crate::sample::disk::OpCounters| (op.completed.0, op.time_ms.0, Some(op.sectors.0));
    let flushes = disk.flushes.zip(disk.flush_time_ms).map(|(completed, time)| (completed.0, time.0, None));
    let all = [
        (Operation::Read, Some(of(disk.reads))),
        (Operation::Write, Some(of(disk.writes))),
        (Operation::Flush, flushes),
        (Operation::Discard, disk.discards.map(of)),
    ];
    all.into_iter().filter_map(|(operation, counters)| Some((operation, counters.filter(|(completed, _, _)| *completed > 0)?)))
}
