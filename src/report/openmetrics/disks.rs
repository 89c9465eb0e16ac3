//! Metrics of disks: the kernel's counters, and the figures of the interval by operation.

use super::family::{FamilyList, Label, label};
use super::names;
use super::selection::Selection;
use crate::figures::disk_operation::{AWAIT_SECONDS, BASELINE_MULTIPLE, BASELINE_SECONDS, OperationRow};
use crate::figures::{FigureInput, disk};
use crate::findings::Evaluation;
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};
use crate::sample::disk::Disk;
use crate::units::SmallSort;

const MAX_DISKS: usize = 16;

/// The disks that have series.
#[derive(Clone, Debug)]
pub struct DiskMetrics(Selection<DiskId>);

impl Default for DiskMetrics {
    fn default() -> DiskMetrics {
        DiskMetrics(Selection::new(MAX_DISKS))
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
        let left_out = self.0.update(&candidates, interval.at().boottime_ns);
        let input = FigureInput::from(evaluation);
        for span in interval.disks.iter().filter(|span| self.0.contains(&span.id)) {
            let Some(disk) = disks.get(span.index) else { continue };
            add_disk(&input, disk, span, families);
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
