//! `disk`: the columns of `iostat -x`, each latency beside its baseline, and the columns of pt-diskstats. The disk screen has
//! `disk_operation`. `interval/disk` computes the values.

use super::{Cell, Column, ColumnSet, FigureInput, Precision, TypedTable, Unit, disk_latency, unit_capacity};
use crate::baseline::{self, LatencyStatus};
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::units::{PerSecond, Ratio};

type Figure = Column<DiskSpan>;

pub static DISK_TABLE: TypedTable<DiskSpan> = TypedTable {
    name: "disk",
    description: "a row per whole block device: iostat -x, and each latency beside its baseline",
    columns: &[
        DEVICE,
        READS,
        WRITES,
        DISCARDS_FLUSHES_AND_QUEUE,
        BASELINES,
        disk_latency::READ_LATENCIES,
        disk_latency::WRITE_LATENCIES,
        disk_latency::FLUSH_LATENCIES,
        disk_latency::DISCARD_LATENCIES,
        PT_DISKSTATS,
    ],
    key_columns: &[&NAME],
    column_sets: &[
        ColumnSet { name: "pt", columns: &[DEVICE, PT_DISKSTATS] },
        ColumnSet { name: "latency", columns: &[DEVICE, disk_latency::SUMMARY] },
    ],
    default_sort: &BUSY_RATIO,
    pid_column: None,
    for_each_row: |input, show| input.interval.disks.iter().for_each(show),
    is_idle: |disk| disk.completed() == 0 && disk.in_flight == 0,
    capacity: unit_capacity,
};

columns! {
    DEVICE: DiskSpan;

    NAME = Figure::text("Device", "name", "the kernel's name of the device", device_name);
}

columns! {
    READS: DiskSpan;

    READS_PER_SECOND = Figure::new("r/s", "reads_per_second", Unit::PerSecond, "reads completed",
        |_, disk| disk.reads.rate.into());
    READ_BYTES_PER_SECOND = Figure::new("rkB/s", "read_bytes_per_second", Unit::KilobytesPerSecond, "read",
        |_, disk| bytes_per_second(disk.reads.kilobytes));
    READS_MERGED_PER_SECOND = Figure::new("rrqm/s", "reads_merged_per_second", Unit::PerSecond, "reads merged while queued",
        |_, disk| disk.reads.merged.into());
    READS_MERGED_RATIO = Figure::new("%rrqm", "reads_merged_ratio", Unit::Percent, "share of reads that were merged",
        |_, disk| disk.reads.merged_share().into());
    READ_AWAIT_SECONDS = Figure::new("r_await", "read_await_seconds", Unit::Milliseconds, "mean time of a read, queue included",
        |_, disk| disk.reads.r#await.into()).lower_is_better();
    READ_SIZE_BYTES = Figure::new("rareq-sz", "read_size_bytes", Unit::Kilobytes, "mean size of a read",
        |_, disk| request_size(&disk.reads)).precision(Precision::TwoDecimals);
}

columns! {
    WRITES: DiskSpan;

    WRITES_PER_SECOND = Figure::new("w/s", "writes_per_second", Unit::PerSecond, "writes completed",
        |_, disk| disk.writes.rate.into());
    WRITE_BYTES_PER_SECOND = Figure::new("wkB/s", "write_bytes_per_second", Unit::KilobytesPerSecond, "written",
        |_, disk| bytes_per_second(disk.writes.kilobytes));
    WRITES_MERGED_PER_SECOND = Figure::new("wrqm/s", "writes_merged_per_second", Unit::PerSecond, "writes merged while queued",
        |_, disk| disk.writes.merged.into());
    WRITES_MERGED_RATIO = Figure::new("%wrqm", "writes_merged_ratio", Unit::Percent, "share of writes that were merged",
        |_, disk| disk.writes.merged_share().into());
    WRITE_AWAIT_SECONDS = Figure::new("w_await", "write_await_seconds", Unit::Milliseconds,
        "mean time of a write, queue included",
        |_, disk| disk.writes.r#await.into()).lower_is_better();
    WRITE_SIZE_BYTES = Figure::new("wareq-sz", "write_size_bytes", Unit::Kilobytes, "mean size of a write",
        |_, disk| request_size(&disk.writes)).precision(Precision::TwoDecimals);
}

columns! {
    DISCARDS_FLUSHES_AND_QUEUE: DiskSpan;

    DISCARDS_PER_SECOND = Figure::new("d/s", "discards_per_second", Unit::PerSecond, "discards completed; since 4.18",
        |_, disk| disk.discards.map(|op| op.rate).into());
    DISCARD_BYTES_PER_SECOND = Figure::new("dkB/s", "discard_bytes_per_second", Unit::KilobytesPerSecond, "discarded",
        |_, disk| disk.discards.map_or(Cell::Unknown, |op| bytes_per_second(op.kilobytes)));
    DISCARDS_MERGED_PER_SECOND = Figure::new("drqm/s", "discards_merged_per_second", Unit::PerSecond,
        "discards merged while queued",
        |_, disk| disk.discards.map(|op| op.merged).into());
    DISCARDS_MERGED_RATIO = Figure::new("%drqm", "discards_merged_ratio", Unit::Percent, "share of discards that were merged",
        |_, disk| disk.discards.and_then(|op| op.merged_share()).into());
    DISCARD_AWAIT_SECONDS = Figure::new("d_await", "discard_await_seconds", Unit::Milliseconds,
        "mean time of a discard, queue included",
        |_, disk| disk.discards.and_then(|op| op.r#await).into()).lower_is_better();
    DISCARD_SIZE_BYTES = Figure::new("dareq-sz", "discard_size_bytes", Unit::Kilobytes, "mean size of a discard",
        |_, disk| disk.discards.as_ref().map_or(Cell::Unknown, request_size)).precision(Precision::TwoDecimals);
    FLUSHES_PER_SECOND = Figure::new("f/s", "flushes_per_second", Unit::PerSecond, "flushes completed; since 5.5",
        |_, disk| disk.flushes.map(|op| op.rate).into());
    FLUSH_AWAIT_SECONDS = Figure::new("f_await", "flush_await_seconds", Unit::Milliseconds, "mean time of a flush",
        |_, disk| disk.flushes.and_then(|op| op.r#await).into()).lower_is_better();
    QUEUE = Figure::new("aqu-sz", "queue", Unit::Count, "requests outstanding on average",
        |_, disk| disk.aqu_sz.into()).precision(Precision::TwoDecimals).lower_is_better().heading("queue");
    IN_FLIGHT = Figure::new("in-flight", "in_flight", Unit::Count, "requests outstanding at the end",
        |_, disk| disk.in_flight.into()).heading("infl");
    BUSY_RATIO = Figure::new("busy%", "busy_ratio", Unit::Percent, "time with a request outstanding: no measure of saturation",
        |_, disk| disk.busy.into()).time_share();
}

columns! {
    BASELINES: DiskSpan;

    READ_BASELINE_SECONDS = Figure::new("r_base", "read_baseline_seconds", Unit::Milliseconds,
        "baseline of r_await: one request at a time",
        |input, disk| latency_status(input, disk, Operation::Read).map(|status| status.baseline).into()).reference();
    READ_MULTIPLE = Figure::new("r_x", "read_multiple", Unit::Count, "r_await ÷ r_base",
        |input, disk| baseline_multiple(&disk.reads, latency_status(input, disk, Operation::Read)))
        .precision(Precision::TwoDecimals).lower_is_better().heading("r×base");
    WRITE_BASELINE_SECONDS = Figure::new("w_base", "write_baseline_seconds", Unit::Milliseconds,
        "baseline of w_await: one request at a time",
        |input, disk| latency_status(input, disk, Operation::Write).map(|status| status.baseline).into()).reference();
    WRITE_MULTIPLE = Figure::new("w_x", "write_multiple", Unit::Count, "w_await ÷ w_base",
        |input, disk| baseline_multiple(&disk.writes, latency_status(input, disk, Operation::Write)))
        .precision(Precision::TwoDecimals).lower_is_better().heading("w×base");
    FLUSH_BASELINE_SECONDS = Figure::new("f_base", "flush_baseline_seconds", Unit::Milliseconds,
        "baseline of f_await: one request at a time",
        |input, disk| latency_status(input, disk, Operation::Flush).map(|status| status.baseline).into())
        .hidden_by_default().reference();
    READ_BASELINE_INTERVALS = Figure::new("r_learned", "read_baseline_intervals", Unit::Count,
        "intervals that r_base was learned from; 0: provisional",
        |input, disk| latency_status(input, disk, Operation::Read).map(learned_intervals).into())
        .hidden_by_default().reference();
    WRITE_BASELINE_INTERVALS = Figure::new("w_learned", "write_baseline_intervals", Unit::Count,
        "intervals that w_base was learned from; 0: provisional",
        |input, disk| latency_status(input, disk, Operation::Write).map(learned_intervals).into())
        .hidden_by_default().reference();
}

columns! {
    /// pt-diskstats' columns; where iostat has the same one, with its key in JSON.
    PT_DISKSTATS: DiskSpan;

    PT_RD_S = Figure::new("rd_s", "reads_per_second", Unit::PerSecond, "r/s",
        |_, disk| disk.reads.rate.into()).hidden_by_default();
    PT_RD_AVKB = Figure::new("rd_avkb", "read_size_bytes", Unit::Kilobytes, "rareq-sz",
        |_, disk| request_size(&disk.reads)).precision(Precision::TwoDecimals).hidden_by_default();
    PT_RD_MB_S = Figure::new("rd_mb_s", "read_bytes_per_second", Unit::MegabytesPerSecond, "rkB/s in MB",
        |_, disk| bytes_per_second(disk.reads.kilobytes)).hidden_by_default();
    PT_RD_MRG = Figure::new("rd_mrg", "reads_merged_ratio", Unit::Percent, "%rrqm",
        |_, disk| disk.reads.merged_share().into()).hidden_by_default();
    PT_RD_CNC = Figure::new("rd_cnc", "read_concurrency", Unit::Count, "reads outstanding on average",
        |_, disk| disk.reads.concurrency.into()).precision(Precision::TwoDecimals).hidden_by_default();
    PT_RD_RT = Figure::new("rd_rt", "read_response_seconds", Unit::Milliseconds, "mean time of a read, merged reads included",
        |_, disk| response_time(&disk.reads)).hidden_by_default();
    PT_WR_S = Figure::new("wr_s", "writes_per_second", Unit::PerSecond, "w/s",
        |_, disk| disk.writes.rate.into()).hidden_by_default();
    PT_WR_AVKB = Figure::new("wr_avkb", "write_size_bytes", Unit::Kilobytes, "wareq-sz",
        |_, disk| request_size(&disk.writes)).precision(Precision::TwoDecimals).hidden_by_default();
    PT_WR_MB_S = Figure::new("wr_mb_s", "write_bytes_per_second", Unit::MegabytesPerSecond, "wkB/s in MB",
        |_, disk| bytes_per_second(disk.writes.kilobytes)).hidden_by_default();
    PT_WR_MRG = Figure::new("wr_mrg", "writes_merged_ratio", Unit::Percent, "%wrqm",
        |_, disk| disk.writes.merged_share().into()).hidden_by_default();
    PT_WR_CNC = Figure::new("wr_cnc", "write_concurrency", Unit::Count, "writes outstanding on average",
        |_, disk| disk.writes.concurrency.into()).precision(Precision::TwoDecimals).hidden_by_default();
    PT_WR_RT = Figure::new("wr_rt", "write_response_seconds", Unit::Milliseconds,
        "mean time of a write, merged writes included",
        |_, disk| response_time(&disk.writes)).hidden_by_default();
    PT_BUSY = Figure::new("busy", "busy_ratio", Unit::Percent, "busy%",
        |_, disk| disk.busy.into()).time_share().hidden_by_default();
    PT_IN_PRG = Figure::new("in_prg", "in_flight", Unit::Count, "in-flight",
        |_, disk| disk.in_flight.into()).hidden_by_default();
    PT_IO_S = Figure::new("io_s", "requests_per_second", Unit::PerSecond, "reads and writes completed",
        |_, disk| (disk.reads.rate.0 + disk.writes.rate.0).into()).hidden_by_default();
    PT_QTIME = Figure::new("qtime", "queue_seconds", Unit::Milliseconds, "mean time of a request beyond stime",
        |_, disk| disk.aqu_sz.zip(disk.busy).and_then(|(queue, busy)| seconds_per_request(disk, queue - busy.0)).into())
        .hidden_by_default();
    PT_STIME = Figure::new("stime", "service_seconds", Unit::Milliseconds,
        "busy time ÷ requests: no service time where they overlap",
        |_, disk| disk.busy.and_then(|busy| seconds_per_request(disk, busy.0)).into()).hidden_by_default();
}

/// Of all kinds of operations together; the screens sort by it.
pub static OPERATIONS_PER_SECOND: Figure = Figure::new(
    "io/s",
    "operations_per_second",
    Unit::PerSecond,
    "reads, writes, discards and flushes completed",
    |_, disk| disk.operations().map(|(_, op)| op.rate.0).sum::<f64>().into(),
);

/// Of the slowest kind of operation; the screens sort by it.
pub static LONGEST_AWAIT_SECONDS: Figure = Figure::new(
    "await",
    "longest_await_seconds",
    Unit::Milliseconds,
    "mean time of an operation of the slowest kind, queue included",
    |_, disk| disk.operations().filter_map(|(_, op)| op.r#await).max_by(|a, b| a.0.total_cmp(&b.0)).into(),
)
.lower_is_better();

fn device_name(input: &FigureInput, disk: &DiskSpan) -> Cell {
    let disks = input.interval.newer.disks.as_ref().ok();
    disks.and_then(|disks| disks.get(disk.index)).map(|disk| &disk.name).into()
}

/// From KB of 1024 bytes.
fn bytes_per_second(kilobytes: PerSecond) -> Cell {
    (kilobytes.0 * 1024.0).into()
}

fn request_size(op: &OpSpan) -> Cell {
    op.request_size_kib.map(|kib| kib * 1024.0).into()
}

/// Requests per second, those included that were merged.
fn request_rate(op: &OpSpan) -> f64 {
    op.rate.0 + op.merged.0
}

fn response_time(op: &OpSpan) -> Cell {
    Ratio::new(op.concurrency, request_rate(op)).into()
}

/// Seconds of one request, of what is counted in seconds per second.
fn seconds_per_request(disk: &DiskSpan, seconds: f64) -> Option<Ratio> {
    Ratio::new(seconds, request_rate(&disk.reads) + request_rate(&disk.writes))
}

fn latency_status<'a>(input: &FigureInput<'a>, disk: &DiskSpan, operation: Operation) -> Option<&'a LatencyStatus> {
    baseline::find_status(input.latency_statuses, disk.id, operation)
}

fn baseline_multiple(op: &OpSpan, status: Option<&LatencyStatus>) -> Cell {
    op.r#await.zip(status).and_then(|(r#await, status)| Ratio::new(r#await.0, status.baseline.0)).into()
}

fn learned_intervals(status: &LatencyStatus) -> u32 {
    if status.provisional { 0 } else { status.learned_intervals }
}
