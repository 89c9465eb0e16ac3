//! `disk`: `iostat -x`, by name, each operation against its baseline; and pt-diskstats' columns.

use super::{Cell, Column, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::baseline::{self, LatencyStatus};
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::units::{PerSecond, Ratio};

type Figure = Column<DiskSpan>;

/// The columns of one kind of operation.
pub struct OperationColumns {
    pub rate: &'static Figure,
    /// Bytes a second; a flush moves none
    pub bytes: Option<&'static Figure>,
    pub merged: Option<&'static Figure>,
    pub r#await: &'static Figure,
    pub size: Option<&'static Figure>,
}

/// The columns of that kind of operation.
pub fn columns(operation: Operation) -> &'static OperationColumns {
    match operation {
        Operation::Read => &READ,
        Operation::Write => &WRITE,
        Operation::Discard => &DISCARD,
        Operation::Flush => &FLUSH,
    }
}

static READ: OperationColumns = OperationColumns {
    rate: &READS_PER_SECOND,
    bytes: Some(&READ_BYTES_PER_SECOND),
    merged: Some(&READS_MERGED_RATIO),
    r#await: &READ_AWAIT_SECONDS,
    size: Some(&READ_SIZE_BYTES),
};

static WRITE: OperationColumns = OperationColumns {
    rate: &WRITES_PER_SECOND,
    bytes: Some(&WRITE_BYTES_PER_SECOND),
    merged: Some(&WRITES_MERGED_RATIO),
    r#await: &WRITE_AWAIT_SECONDS,
    size: Some(&WRITE_SIZE_BYTES),
};

static DISCARD: OperationColumns = OperationColumns {
    rate: &DISCARDS_PER_SECOND,
    bytes: Some(&DISCARD_BYTES_PER_SECOND),
    merged: Some(&DISCARDS_MERGED_RATIO),
    r#await: &DISCARD_AWAIT_SECONDS,
    size: Some(&DISCARD_SIZE_BYTES),
};

static FLUSH: OperationColumns =
    OperationColumns { rate: &FLUSHES_PER_SECOND, bytes: None, merged: None, r#await: &FLUSH_AWAIT_SECONDS, size: None };

pub static DISK_TABLE: TypedTable<DiskSpan> = TypedTable {
    name: "disk",
    description: "a row per whole block device: iostat -x, and each latency beside its baseline",
    columns: &[&[&NAME], READS, WRITES, DISCARDS_FLUSHES_AND_QUEUE, BASELINES, PT_DISKSTATS],
    key_columns: &["Device"],
    column_sets: &[("pt", PT_DISKSTATS_SET)],
    single_row: false,
    default_sort: "busy%",
    for_each_row: |look, show| look.interval.disks.iter().for_each(show),
    is_idle: |disk| disk.completed() == 0 && disk.in_flight == 0,
    capacity: unit_capacity,
};

static READS: &[&Figure] = &[
    &READS_PER_SECOND,
    &READ_BYTES_PER_SECOND,
    &READS_MERGED_PER_SECOND,
    &READS_MERGED_RATIO,
    &READ_AWAIT_SECONDS,
    &READ_SIZE_BYTES,
];

static WRITES: &[&Figure] = &[
    &WRITES_PER_SECOND,
    &WRITE_BYTES_PER_SECOND,
    &WRITES_MERGED_PER_SECOND,
    &WRITES_MERGED_RATIO,
    &WRITE_AWAIT_SECONDS,
    &WRITE_SIZE_BYTES,
];

static DISCARDS_FLUSHES_AND_QUEUE: &[&Figure] = &[
    &DISCARDS_PER_SECOND,
    &DISCARD_BYTES_PER_SECOND,
    &DISCARDS_MERGED_PER_SECOND,
    &DISCARDS_MERGED_RATIO,
    &DISCARD_AWAIT_SECONDS,
    &DISCARD_SIZE_BYTES,
    &FLUSHES_PER_SECOND,
    &FLUSH_AWAIT_SECONDS,
    &QUEUE,
    &IN_FLIGHT,
    &BUSY_RATIO,
];

static BASELINES: &[&Figure] = &[
    &READ_BASELINE_SECONDS,
    &READ_MULTIPLE,
    &WRITE_BASELINE_SECONDS,
    &WRITE_MULTIPLE,
    &FLUSH_BASELINE_SECONDS,
    &READ_BASELINE_INTERVALS,
    &WRITE_BASELINE_INTERVALS,
];

/// Those of pt-diskstats' that are not iostat's under another name have a name of their own in JSON.
static PT_DISKSTATS: &[&Figure] = &[
    &PT_RD_S,
    &PT_RD_AVKB,
    &PT_RD_MB_S,
    &PT_RD_MRG,
    &PT_RD_CNC,
    &PT_RD_RT,
    &PT_WR_S,
    &PT_WR_AVKB,
    &PT_WR_MB_S,
    &PT_WR_MRG,
    &PT_WR_CNC,
    &PT_WR_RT,
    &PT_BUSY,
    &PT_IN_PRG,
    &PT_IO_S,
    &PT_QTIME,
    &PT_STIME,
];

pub static NAME: Figure = Figure::text("Device", "name", "the kernel's name of the device", |look, disk| {
    let disks = look.interval.newer.disks.as_ref().ok();
    disks.and_then(|disks| disks.get(disk.index)).map(|disk| &disk.name).into()
});

pub static READS_PER_SECOND: Figure =
    Figure::new("r/s", "reads_per_second", Unit::PerSecond, "reads completed", |_, disk| disk.reads.rate.into());

pub static READ_BYTES_PER_SECOND: Figure =
    Figure::new("rkB/s", "read_bytes_per_second", Unit::KilobytesPerSecond, "read", |_, disk| {
        bytes_per_second(disk.reads.kilobytes)
    });

pub static READS_MERGED_PER_SECOND: Figure =
    Figure::new("rrqm/s", "reads_merged_per_second", Unit::PerSecond, "reads merged while queued", |_, disk| {
        disk.reads.merged.into()
    });

pub static READS_MERGED_RATIO: Figure =
    Figure::new("%rrqm", "reads_merged_ratio", Unit::Percent, "share of reads that were merged", |_, disk| {
        disk.reads.merged_share().into()
    });

pub static READ_AWAIT_SECONDS: Figure =
    Figure::new("r_await", "read_await_seconds", Unit::Milliseconds, "mean time of a read, queue included", |_, disk| {
        disk.reads.r#await.into()
    })
    .lower_is_better();

pub static READ_SIZE_BYTES: Figure =
    Figure::new("rareq-sz", "read_size_bytes", Unit::Kilobytes, "mean size of a read", |_, disk| request_size(&disk.reads))
        .precision(Precision::TwoDecimals);

pub static WRITES_PER_SECOND: Figure =
    Figure::new("w/s", "writes_per_second", Unit::PerSecond, "writes completed", |_, disk| disk.writes.rate.into());

pub static WRITE_BYTES_PER_SECOND: Figure =
    Figure::new("wkB/s", "write_bytes_per_second", Unit::KilobytesPerSecond, "written", |_, disk| {
        bytes_per_second(disk.writes.kilobytes)
    });

pub static WRITES_MERGED_PER_SECOND: Figure =
    Figure::new("wrqm/s", "writes_merged_per_second", Unit::PerSecond, "writes merged while queued", |_, disk| {
        disk.writes.merged.into()
    });

pub static WRITES_MERGED_RATIO: Figure =
    Figure::new("%wrqm", "writes_merged_ratio", Unit::Percent, "share of writes that were merged", |_, disk| {
        disk.writes.merged_share().into()
    });

pub static WRITE_AWAIT_SECONDS: Figure =
    Figure::new("w_await", "write_await_seconds", Unit::Milliseconds, "mean time of a write, queue included", |_, disk| {
        disk.writes.r#await.into()
    })
    .lower_is_better();

pub static WRITE_SIZE_BYTES: Figure =
    Figure::new("wareq-sz", "write_size_bytes", Unit::Kilobytes, "mean size of a write", |_, disk| request_size(&disk.writes))
        .precision(Precision::TwoDecimals);

pub static DISCARDS_PER_SECOND: Figure =
    Figure::new("d/s", "discards_per_second", Unit::PerSecond, "discards completed; since 4.18", |_, disk| {
        disk.discards.map(|op| op.rate).into()
    });

pub static DISCARD_BYTES_PER_SECOND: Figure =
    Figure::new("dkB/s", "discard_bytes_per_second", Unit::KilobytesPerSecond, "discarded", |_, disk| {
        disk.discards.map_or(Cell::Unknown, |op| bytes_per_second(op.kilobytes))
    });

pub static DISCARDS_MERGED_PER_SECOND: Figure =
    Figure::new("drqm/s", "discards_merged_per_second", Unit::PerSecond, "discards merged while queued", |_, disk| {
        disk.discards.map(|op| op.merged).into()
    });

pub static DISCARDS_MERGED_RATIO: Figure =
    Figure::new("%drqm", "discards_merged_ratio", Unit::Percent, "share of discards that were merged", |_, disk| {
        disk.discards.and_then(|op| op.merged_share()).into()
    });

pub static DISCARD_AWAIT_SECONDS: Figure =
    Figure::new("d_await", "discard_await_seconds", Unit::Milliseconds, "mean time of a discard, queue included", |_, disk| {
        disk.discards.and_then(|op| op.r#await).into()
    })
    .lower_is_better();

pub static DISCARD_SIZE_BYTES: Figure =
    Figure::new("dareq-sz", "discard_size_bytes", Unit::Kilobytes, "mean size of a discard", |_, disk| {
        disk.discards.as_ref().map_or(Cell::Unknown, request_size)
    })
    .precision(Precision::TwoDecimals);

pub static FLUSHES_PER_SECOND: Figure =
    Figure::new("f/s", "flushes_per_second", Unit::PerSecond, "flushes completed; since 5.5", |_, disk| {
        disk.flushes.map(|op| op.rate).into()
    });

pub static FLUSH_AWAIT_SECONDS: Figure =
    Figure::new("f_await", "flush_await_seconds", Unit::Milliseconds, "mean time of a flush", |_, disk| {
        disk.flushes.and_then(|op| op.r#await).into()
    })
    .lower_is_better();

pub static QUEUE: Figure =
    Figure::new("aqu-sz", "queue", Unit::Count, "requests outstanding on average", |_, disk| disk.aqu_sz.into())
        .precision(Precision::TwoDecimals)
        .lower_is_better();

pub static IN_FLIGHT: Figure =
    Figure::new("in-flight", "in_flight", Unit::Count, "requests outstanding at the end", |_, disk| disk.in_flight.into());

pub static BUSY_RATIO: Figure = Figure::new(
    "busy%",
    "busy_ratio",
    Unit::Percent,
    "time with a request outstanding: no measure of saturation",
    |_, disk| disk.busy.into(),
)
.time_share();

pub static READ_BASELINE_SECONDS: Figure = Figure::new(
    "r_base",
    "read_baseline_seconds",
    Unit::Milliseconds,
    "baseline of r_await: one request at a time",
    |look, disk| latency_status(look, disk, Operation::Read).map(|standing| standing.baseline).into(),
)
.reference();

pub static READ_MULTIPLE: Figure = Figure::new("r_x", "read_multiple", Unit::Count, "r_await ÷ r_base", |look, disk| {
    baseline_multiple(&disk.reads, latency_status(look, disk, Operation::Read))
})
.precision(Precision::TwoDecimals)
.lower_is_better();

pub static WRITE_BASELINE_SECONDS: Figure = Figure::new(
    "w_base",
    "write_baseline_seconds",
    Unit::Milliseconds,
    "baseline of w_await: one request at a time",
    |look, disk| latency_status(look, disk, Operation::Write).map(|standing| standing.baseline).into(),
)
.reference();

pub static WRITE_MULTIPLE: Figure = Figure::new("w_x", "write_multiple", Unit::Count, "w_await ÷ w_base", |look, disk| {
    baseline_multiple(&disk.writes, latency_status(look, disk, Operation::Write))
})
.precision(Precision::TwoDecimals)
.lower_is_better();

pub static FLUSH_BASELINE_SECONDS: Figure = Figure::new(
    "f_base",
    "flush_baseline_seconds",
    Unit::Milliseconds,
    "baseline of f_await: one request at a time",
    |look, disk| latency_status(look, disk, Operation::Flush).map(|standing| standing.baseline).into(),
)
.hidden_by_default()
.reference();

pub static READ_BASELINE_INTERVALS: Figure = Figure::new(
    "r_learned",
    "read_baseline_intervals",
    Unit::Count,
    "intervals that r_base was learned from; 0: provisional",
    |look, disk| latency_status(look, disk, Operation::Read).map(learned_intervals).into(),
)
.hidden_by_default()
.reference();

pub static WRITE_BASELINE_INTERVALS: Figure = Figure::new(
    "w_learned",
    "write_baseline_intervals",
    Unit::Count,
    "intervals that w_base was learned from; 0: provisional",
    |look, disk| latency_status(look, disk, Operation::Write).map(learned_intervals).into(),
)
.hidden_by_default()
.reference();

pub static PT_RD_S: Figure =
    Figure::new("rd_s", "reads_per_second", Unit::PerSecond, "r/s", |_, disk| disk.reads.rate.into()).hidden_by_default();

pub static PT_RD_AVKB: Figure =
    Figure::new("rd_avkb", "read_size_bytes", Unit::Kilobytes, "rareq-sz", |_, disk| request_size(&disk.reads))
        .precision(Precision::TwoDecimals)
        .hidden_by_default();

pub static PT_RD_MB_S: Figure =
    Figure::new("rd_mb_s", "read_bytes_per_second", Unit::MegabytesPerSecond, "rkB/s in MB", |_, disk| {
        bytes_per_second(disk.reads.kilobytes)
    })
    .hidden_by_default();

pub static PT_RD_MRG: Figure =
    Figure::new("rd_mrg", "reads_merged_ratio", Unit::Percent, "%rrqm", |_, disk| disk.reads.merged_share().into())
        .hidden_by_default();

pub static PT_RD_CNC: Figure =
    Figure::new("rd_cnc", "read_concurrency", Unit::Count, "reads outstanding on average", |_, disk| {
        disk.reads.concurrency.into()
    })
    .precision(Precision::TwoDecimals)
    .hidden_by_default();

pub static PT_RD_RT: Figure = Figure::new(
    "rd_rt",
    "read_response_seconds",
    Unit::Milliseconds,
    "mean time of a read, merged reads included",
    |_, disk| response_time(&disk.reads),
)
.hidden_by_default();

pub static PT_WR_S: Figure =
    Figure::new("wr_s", "writes_per_second", Unit::PerSecond, "w/s", |_, disk| disk.writes.rate.into()).hidden_by_default();

pub static PT_WR_AVKB: Figure =
    Figure::new("wr_avkb", "write_size_bytes", Unit::Kilobytes, "wareq-sz", |_, disk| request_size(&disk.writes))
        .precision(Precision::TwoDecimals)
        .hidden_by_default();

pub static PT_WR_MB_S: Figure =
    Figure::new("wr_mb_s", "write_bytes_per_second", Unit::MegabytesPerSecond, "wkB/s in MB", |_, disk| {
        bytes_per_second(disk.writes.kilobytes)
    })
    .hidden_by_default();

pub static PT_WR_MRG: Figure =
    Figure::new("wr_mrg", "writes_merged_ratio", Unit::Percent, "%wrqm", |_, disk| disk.writes.merged_share().into())
        .hidden_by_default();

pub static PT_WR_CNC: Figure =
    Figure::new("wr_cnc", "write_concurrency", Unit::Count, "writes outstanding on average", |_, disk| {
        disk.writes.concurrency.into()
    })
    .precision(Precision::TwoDecimals)
    .hidden_by_default();

pub static PT_WR_RT: Figure = Figure::new(
    "wr_rt",
    "write_response_seconds",
    Unit::Milliseconds,
    "mean time of a write, merged writes included",
    |_, disk| response_time(&disk.writes),
)
.hidden_by_default();

pub static PT_BUSY: Figure =
    Figure::new("busy", "busy_ratio", Unit::Percent, "busy%", |_, disk| disk.busy.into()).time_share().hidden_by_default();

pub static PT_IN_PRG: Figure =
    Figure::new("in_prg", "in_flight", Unit::Count, "in-flight", |_, disk| disk.in_flight.into()).hidden_by_default();

pub static PT_IO_S: Figure =
    Figure::new("io_s", "requests_per_second", Unit::PerSecond, "reads and writes completed", |_, disk| {
        (disk.reads.rate.0 + disk.writes.rate.0).into()
    })
    .hidden_by_default();

pub static PT_QTIME: Figure =
    Figure::new("qtime", "queue_seconds", Unit::Milliseconds, "mean time of a request beyond stime", |_, disk| {
        disk.aqu_sz.zip(disk.busy).and_then(|(queue, busy)| seconds_per_request(disk, queue - busy.0)).into()
    })
    .hidden_by_default();

pub static PT_STIME: Figure = Figure::new(
    "stime",
    "service_seconds",
    Unit::Milliseconds,
    "busy time ÷ requests: no service time where they overlap",
    |_, disk| disk.busy.and_then(|busy| seconds_per_request(disk, busy.0)).into(),
)
.hidden_by_default();

/// pt-diskstats' columns, in its order.
const PT_DISKSTATS_SET: &[&str] = &[
    "Device", "rd_s", "rd_avkb", "rd_mb_s", "rd_mrg", "rd_cnc", "rd_rt", "wr_s", "wr_avkb", "wr_mb_s", "wr_mrg", "wr_cnc",
    "wr_rt", "busy", "in_prg", "io_s", "qtime", "stime",
];

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

/// KB of 1024 bytes.
fn bytes_per_second(kilobytes: PerSecond) -> Cell {
    (kilobytes.0 * 1024.0).into()
}

fn request_size(op: &OpSpan) -> Cell {
    op.request_size_kib.map(|kib| kib * 1024.0).into()
}

/// Requests a second, those included that were merged.
fn request_rate(op: &OpSpan) -> f64 {
    op.rate.0 + op.merged.0
}

fn response_time(op: &OpSpan) -> Cell {
    Ratio::new(op.concurrency, request_rate(op)).into()
}

/// Seconds of one request, of what is counted in seconds a second.
fn seconds_per_request(disk: &DiskSpan, seconds: f64) -> Option<Ratio> {
    Ratio::new(seconds, request_rate(&disk.reads) + request_rate(&disk.writes))
}

fn latency_status<'a>(look: &FigureInput<'a>, disk: &DiskSpan, operation: Operation) -> Option<&'a LatencyStatus> {
    baseline::find_status(look.latency_statuses, disk.id, operation)
}

fn baseline_multiple(op: &OpSpan, standing: Option<&LatencyStatus>) -> Cell {
    op.r#await.zip(standing).and_then(|(r#await, standing)| Ratio::new(r#await.0, standing.baseline.0)).into()
}

fn learned_intervals(standing: &LatencyStatus) -> u32 {
    if standing.provisional { 0 } else { standing.learned_intervals }
}
