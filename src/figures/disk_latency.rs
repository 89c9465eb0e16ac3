//! Distributions of the latencies of block requests: columns of the table `disk`, hidden unless selected, and unknown without the
//! eBPF program that counts them. `interval/block_latencies` computes the values.

use super::{Cell, Column, ColumnList, FigureInput, Unit};
use crate::baseline;
use crate::interval::block_latencies::OperationLatency;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::latency_histogram::LatencyHistogram;

type Figure = Column<DiskSpan>;

columns! {
    READS: DiskSpan;

    READ_P50_SECONDS = latency("r_p50", "read_p50_seconds", "median time of a read, queue included",
        |_, disk| quantile(disk, Operation::Read, |known| &known.total, 0.5));
    READ_P95_SECONDS = latency("r_p95", "read_p95_seconds", "time within which 95 % of reads completed, queue included",
        |_, disk| quantile(disk, Operation::Read, |known| &known.total, 0.95));
    READ_P99_SECONDS = latency("r_p99", "read_p99_seconds", "time within which 99 % of reads completed, queue included",
        |_, disk| quantile(disk, Operation::Read, |known| &known.total, 0.99));
    READ_P99_BASELINE_SECONDS = latency("r_p99_base", "read_p99_baseline_seconds", "baseline of r_p99: one request at a time",
        |input, disk| p99_baseline(input, disk, Operation::Read)).reference();
    READ_P99_9_SECONDS = latency("r_p99.9", "read_p99_9_seconds", "time within which 99.9 % of reads completed, queue included",
        |_, disk| quantile(disk, Operation::Read, |known| &known.total, 0.999));
    READ_MAX_SECONDS = latency("r_max", "read_max_seconds", "longest time of a read, queue included",
        |_, disk| disk.latency(Operation::Read).and_then(|known| known.total.max()).into());
    READ_MEASURED_RATIO = Figure::new("r_meas", "read_measured_ratio", Unit::Percent,
        "share of reads whose time was measured: of the others, p50 to max and r_seq say nothing",
        |_, disk| disk.measured_share(Operation::Read).into()).hidden_by_default();
    READ_QUEUE_P50_SECONDS = latency("r_queue_p50", "read_queue_p50_seconds", "median time of a read before the driver got it",
        |_, disk| quantile(disk, Operation::Read, |known| &known.queue, 0.5));
    READ_QUEUE_P99_SECONDS = latency("r_queue_p99", "read_queue_p99_seconds", "time within which 99 % of reads were handed to the driver",
        |_, disk| quantile(disk, Operation::Read, |known| &known.queue, 0.99));
    READ_DEVICE_P50_SECONDS = latency("r_dev_p50", "read_device_p50_seconds", "median time of a read in driver and device",
        |_, disk| quantile(disk, Operation::Read, |known| &known.device, 0.5));
    READ_DEVICE_P99_SECONDS = latency("r_dev_p99", "read_device_p99_seconds", "time within which driver and device completed 99 % of reads",
        |_, disk| quantile(disk, Operation::Read, |known| &known.device, 0.99));
    READ_SEQUENTIAL_RATIO = Figure::new("r_seq", "read_sequential_ratio", Unit::Percent,
        "share of reads that began where the read before ended",
        |_, disk| disk.latency(Operation::Read).and_then(OperationLatency::sequential_share).into()).hidden_by_default();
}

columns! {
    WRITES: DiskSpan;

    WRITE_P50_SECONDS = latency("w_p50", "write_p50_seconds", "median time of a write, queue included",
        |_, disk| quantile(disk, Operation::Write, |known| &known.total, 0.5));
    WRITE_P95_SECONDS = latency("w_p95", "write_p95_seconds", "time within which 95 % of writes completed, queue included",
        |_, disk| quantile(disk, Operation::Write, |known| &known.total, 0.95));
    WRITE_P99_SECONDS = latency("w_p99", "write_p99_seconds", "time within which 99 % of writes completed, queue included",
        |_, disk| quantile(disk, Operation::Write, |known| &known.total, 0.99));
    WRITE_P99_BASELINE_SECONDS = latency("w_p99_base", "write_p99_baseline_seconds", "baseline of w_p99: one request at a time",
        |input, disk| p99_baseline(input, disk, Operation::Write)).reference();
    WRITE_P99_9_SECONDS = latency("w_p99.9", "write_p99_9_seconds", "time within which 99.9 % of writes completed, queue included",
        |_, disk| quantile(disk, Operation::Write, |known| &known.total, 0.999));
    WRITE_MAX_SECONDS = latency("w_max", "write_max_seconds", "longest time of a write, queue included",
        |_, disk| disk.latency(Operation::Write).and_then(|known| known.total.max()).into());
    WRITE_MEASURED_RATIO = Figure::new("w_meas", "write_measured_ratio", Unit::Percent,
        "share of writes whose time was measured: of the others, p50 to max and w_seq say nothing",
        |_, disk| disk.measured_share(Operation::Write).into()).hidden_by_default();
    WRITE_QUEUE_P50_SECONDS = latency("w_queue_p50", "write_queue_p50_seconds", "median time of a write before the driver got it",
        |_, disk| quantile(disk, Operation::Write, |known| &known.queue, 0.5));
    WRITE_QUEUE_P99_SECONDS = latency("w_queue_p99", "write_queue_p99_seconds", "time within which 99 % of writes were handed to the driver",
        |_, disk| quantile(disk, Operation::Write, |known| &known.queue, 0.99));
    WRITE_DEVICE_P50_SECONDS = latency("w_dev_p50", "write_device_p50_seconds", "median time of a write in driver and device",
        |_, disk| quantile(disk, Operation::Write, |known| &known.device, 0.5));
    WRITE_DEVICE_P99_SECONDS = latency("w_dev_p99", "write_device_p99_seconds", "time within which driver and device completed 99 % of writes",
        |_, disk| quantile(disk, Operation::Write, |known| &known.device, 0.99));
    WRITE_SEQUENTIAL_RATIO = Figure::new("w_seq", "write_sequential_ratio", Unit::Percent,
        "share of writes that began where the write before ended",
        |_, disk| disk.latency(Operation::Write).and_then(OperationLatency::sequential_share).into()).hidden_by_default();
}

columns! {
    FLUSHES: DiskSpan;

    FLUSH_P50_SECONDS = latency("f_p50", "flush_p50_seconds", "median time of a flush, queue included",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.total, 0.5));
    FLUSH_P95_SECONDS = latency("f_p95", "flush_p95_seconds", "time within which 95 % of flushes completed, queue included",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.total, 0.95));
    FLUSH_P99_SECONDS = latency("f_p99", "flush_p99_seconds", "time within which 99 % of flushes completed, queue included",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.total, 0.99));
    FLUSH_P99_BASELINE_SECONDS = latency("f_p99_base", "flush_p99_baseline_seconds", "baseline of f_p99: one request at a time",
        |input, disk| p99_baseline(input, disk, Operation::Flush)).reference();
    FLUSH_P99_9_SECONDS = latency("f_p99.9", "flush_p99_9_seconds", "time within which 99.9 % of flushes completed, queue included",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.total, 0.999));
    FLUSH_MAX_SECONDS = latency("f_max", "flush_max_seconds", "longest time of a flush, queue included",
        |_, disk| disk.latency(Operation::Flush).and_then(|known| known.total.max()).into());
    FLUSH_MEASURED_RATIO = Figure::new("f_meas", "flush_measured_ratio", Unit::Percent,
        "share of flushes whose time was measured: of the others, p50 to max say nothing",
        |_, disk| disk.measured_share(Operation::Flush).into()).hidden_by_default();
    FLUSH_QUEUE_P50_SECONDS = latency("f_queue_p50", "flush_queue_p50_seconds", "median time of a flush before the driver got it",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.queue, 0.5));
    FLUSH_QUEUE_P99_SECONDS = latency("f_queue_p99", "flush_queue_p99_seconds", "time within which 99 % of flushes were handed to the driver",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.queue, 0.99));
    FLUSH_DEVICE_P50_SECONDS = latency("f_dev_p50", "flush_device_p50_seconds", "median time of a flush in driver and device",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.device, 0.5));
    FLUSH_DEVICE_P99_SECONDS = latency("f_dev_p99", "flush_device_p99_seconds", "time within which driver and device completed 99 % of flushes",
        |_, disk| quantile(disk, Operation::Flush, |known| &known.device, 0.99));
}

columns! {
    DISCARDS: DiskSpan;

    DISCARD_P50_SECONDS = latency("d_p50", "discard_p50_seconds", "median time of a discard, queue included",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.total, 0.5));
    DISCARD_P95_SECONDS = latency("d_p95", "discard_p95_seconds", "time within which 95 % of discards completed, queue included",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.total, 0.95));
    DISCARD_P99_SECONDS = latency("d_p99", "discard_p99_seconds", "time within which 99 % of discards completed, queue included",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.total, 0.99));
    DISCARD_P99_9_SECONDS = latency("d_p99.9", "discard_p99_9_seconds", "time within which 99.9 % of discards completed, queue included",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.total, 0.999));
    DISCARD_MAX_SECONDS = latency("d_max", "discard_max_seconds", "longest time of a discard, queue included",
        |_, disk| disk.latency(Operation::Discard).and_then(|known| known.total.max()).into());
    DISCARD_MEASURED_RATIO = Figure::new("d_meas", "discard_measured_ratio", Unit::Percent,
        "share of discards whose time was measured: of the others, p50 to max and d_seq say nothing",
        |_, disk| disk.measured_share(Operation::Discard).into()).hidden_by_default();
    DISCARD_QUEUE_P50_SECONDS = latency("d_queue_p50", "discard_queue_p50_seconds", "median time of a discard before the driver got it",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.queue, 0.5));
    DISCARD_QUEUE_P99_SECONDS = latency("d_queue_p99", "discard_queue_p99_seconds", "time within which 99 % of discards were handed to the driver",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.queue, 0.99));
    DISCARD_DEVICE_P50_SECONDS = latency("d_dev_p50", "discard_device_p50_seconds", "median time of a discard in driver and device",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.device, 0.5));
    DISCARD_DEVICE_P99_SECONDS = latency("d_dev_p99", "discard_device_p99_seconds", "time within which driver and device completed 99 % of discards",
        |_, disk| quantile(disk, Operation::Discard, |known| &known.device, 0.99));
    DISCARD_SEQUENTIAL_RATIO = Figure::new("d_seq", "discard_sequential_ratio", Unit::Percent,
        "share of discards that began where the discard before ended",
        |_, disk| disk.latency(Operation::Discard).and_then(OperationLatency::sequential_share).into()).hidden_by_default();
}

/// What fits into a line: reads, writes and flushes.
pub(super) static SUMMARY: ColumnList<DiskSpan> = &[
    &READ_P50_SECONDS,
    &READ_P99_SECONDS,
    &READ_P99_9_SECONDS,
    &READ_MAX_SECONDS,
    &READ_MEASURED_RATIO,
    &READ_SEQUENTIAL_RATIO,
    &WRITE_P50_SECONDS,
    &WRITE_P99_SECONDS,
    &WRITE_P99_9_SECONDS,
    &WRITE_MAX_SECONDS,
    &WRITE_MEASURED_RATIO,
    &WRITE_SEQUENTIAL_RATIO,
    &FLUSH_P50_SECONDS,
    &FLUSH_P99_SECONDS,
    &FLUSH_MAX_SECONDS,
    &FLUSH_MEASURED_RATIO,
];
pub(super) static READ_LATENCIES: ColumnList<DiskSpan> = READS;
pub(super) static WRITE_LATENCIES: ColumnList<DiskSpan> = WRITES;
pub(super) static FLUSH_LATENCIES: ColumnList<DiskSpan> = FLUSHES;
pub(super) static DISCARD_LATENCIES: ColumnList<DiskSpan> = DISCARDS;

fn p99_baseline(input: &FigureInput, disk: &DiskSpan, operation: Operation) -> Cell {
    let status = baseline::find_status(input.latency_statuses, disk.id, operation);
    status.and_then(|status| Some(status.requests?.baseline.p99)).into()
}

/// A latency by its quantile.
const fn latency(
    title: &'static str,
    key: &'static str,
    description: &'static str,
    value: fn(&super::FigureInput, &DiskSpan) -> Cell,
) -> Figure {
    Figure::four_digits(title, key, Unit::Milliseconds, description, value).lower_is_better().hidden_by_default()
}

fn quantile(disk: &DiskSpan, operation: Operation, of: fn(&OperationLatency) -> &LatencyHistogram, share: f64) -> Cell {
    disk.latency(operation).and_then(|known| of(known).quantile(share)).into()
}
