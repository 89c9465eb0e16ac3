//! The columns of one kind of operation of a disk: a line of the disk screen. In tables each kind has columns of its own
//! (`figures::disk`).

use super::{Cell, Column, FigureInput, Precision, Unit};
use crate::baseline::{self, LatencyStatus};
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::units::Millis;

type Figure = Column<OperationRow>;

/// One kind of operation of one disk.
pub struct OperationRow {
    disk: DiskId,
    pub operation: Operation,
    span: OpSpan,
    /// Within which 99 % of the requests completed
    p99: Option<Millis>,
}

impl OperationRow {
    /// `None` if the kernel does not count operations of that kind.
    pub fn new(disk: &DiskSpan, operation: Operation) -> Option<OperationRow> {
        let (_, span) = disk.operations().find(|(kind, _)| *kind == operation)?;
        let p99 = disk.latency(operation).and_then(|known| known.total.quantile(0.99));
        Some(OperationRow { disk: disk.id, operation, span: *span, p99 })
    }

    /// How the latency compares with its baseline; `None` without a baseline.
    pub fn latency_status<'a>(&self, input: &FigureInput<'a>) -> Option<&'a LatencyStatus> {
        baseline::find_status(input.latency_statuses, self.disk, self.operation)
    }

    fn is_flush(&self) -> bool {
        self.operation == Operation::Flush
    }
}

pub static OPERATIONS_PER_SECOND: Figure =
    Figure::new("/s", "operations_per_second", Unit::PerSecond, "completed", |_, row| row.span.rate.into());

/// A flush moves no bytes.
pub static BYTES_PER_SECOND: Figure =
    Figure::new("MB/s", "bytes_per_second", Unit::MegabytesPerSecond, "read, written or discarded", |_, row| {
        Some(row.span.kilobytes.0 * 1024.0).filter(|_| !row.is_flush()).into()
    });

/// The kernel merges no flushes.
pub static MERGED_RATIO: Figure =
    Figure::new("merged%", "merged_ratio", Unit::Percent, "share of requests that were merged", |_, row| {
        if row.is_flush() { 0.0.into() } else { row.span.merged_share().into() }
    });

pub static SIZE_BYTES: Figure = Figure::new("KB/req", "size_bytes", Unit::Kilobytes, "mean size of a request", |_, row| {
    row.span.request_size_kib.filter(|_| !row.is_flush()).map_or(Cell::Unknown, |kib| (kib * 1024.0).into())
});

pub static AWAIT_SECONDS: Figure =
    Figure::new("await", "await_seconds", Unit::Milliseconds, "mean time of a request, queue included", |_, row| {
        row.span.r#await.into()
    })
    .lower_is_better();

pub static P99_SECONDS: Figure =
    Figure::new("p99", "p99_seconds", Unit::Milliseconds, "time within which 99 % of the requests completed", |_, row| {
        row.p99.into()
    })
    .lower_is_better();

pub static BASELINE_SECONDS: Figure =
    Figure::new("base", "baseline_seconds", Unit::Milliseconds, "baseline of await: one request at a time", |input, row| {
        row.latency_status(input).map(|status| status.baseline).into()
    })
    .reference();

pub static BASELINE_MULTIPLE: Figure =
    Figure::new("×base", "baseline_multiple", Unit::Count, "await ÷ base", |input, row| {
        row.latency_status(input).and_then(|status| status.multiple).into()
    })
    .precision(Precision::TwoDecimals)
    .lower_is_better();
