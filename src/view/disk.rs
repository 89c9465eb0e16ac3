//! The disk screen: one line per operation, each latency against its own baseline.

use super::canvas::Canvas;
use super::list::{draw_list, list_status};
use super::text::{self, SafeText, format_number, format_optional};
use super::theme::{StyleRole, severity_symbol};
use super::wait_location;
use super::widgets::sparkline;
use super::widgets::table::{ColumnSpec, Table};
use crate::baseline::{self, LatencyStatus};
use crate::findings::{Evaluation, Kind, Severity, Subject};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::sample::disk::Disk;
use crate::state::layout::{ScreenLayout, active_operations};
use crate::state::rows::is_idle;
use crate::state::{Row, SortColumn, State};

const DISK_COLUMNS: [ColumnSpec; 11] = [
    ColumnSpec::text("DISK", 8).sorted_by(SortColumn::Name),
    ColumnSpec::text("op", 2),
    ColumnSpec::numeric("/s", 6).sorted_by(SortColumn::Rate),
    ColumnSpec::numeric("MB/s", 5).min_table_width(60),
    ColumnSpec::numeric("KB/req", 6).min_table_width(72),
    ColumnSpec::numeric("await", 5).sorted_by(SortColumn::Await),
    ColumnSpec::numeric("base", 5).min_table_width(50),
    ColumnSpec::numeric("×base", 6),
    ColumnSpec::numeric("queue", 5).sorted_by(SortColumn::Queue).min_table_width(50),
    ColumnSpec::numeric("infl", 4).min_table_width(60),
    ColumnSpec::numeric("busy%", 5).sorted_by(SortColumn::Busy).min_table_width(60),
];

const HISTORY_HEADING: &str = "await, log";

pub fn table(width: u16) -> Table {
    let mut specs = DISK_COLUMNS.to_vec();
    if width >= 120 {
        specs.insert(3, ColumnSpec::numeric("merged%", 7));
    }
    if width >= 76 {
        specs.push(ColumnSpec::text(HISTORY_HEADING, 0));
    }
    Table::new(&specs, width)
}

pub fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, canvas: &mut Canvas) {
    let interval = &*evaluation.interval;
    let table = table(canvas.width());
    table.draw_header(canvas, 0, Some(state.sort()));
    if interval.newer.disks.is_err() {
        canvas.text_to_end(0, 1, "- /proc/diskstats cannot be read", StyleRole::Dim);
        return;
    }
    let end = draw_list(state, layout, canvas, |canvas, y, row| {
        if let Row::Disk(at) = row
            && let Some(disk) = interval.disks.get(at)
        {
            disk_lines(state, evaluation, disk, &table, canvas, y);
        }
    });
    if state.rows.is_empty() && state.filter().is_empty() {
        canvas.text_to_end(0, end, "no disk I/O", StyleRole::Dim);
    }
    let bottom = layout.rows_before_list + layout.list_rows;
    let idle: Vec<String> = (interval.disks.iter())
        .filter(|disk| is_idle(state, disk))
        .map(|disk| wait_location::disk_name(&interval.newer, disk.id).to_string())
        .collect();
    let mut foot = bottom;
    if !idle.is_empty() && end + 1 < bottom {
        foot -= 1;
        canvas.text_to_end(0, bottom - 1, safe!("idle: {}", idle.join(" ")), StyleRole::Dim);
    }
    let words = list_status(state, layout);
    if !words.is_empty() && end + 1 < bottom {
        canvas.text_right(0, bottom - 1, canvas.width(), &words, StyleRole::Dim);
    }
    if end + 1 < foot && evaluation.latency_statuses.iter().any(|status| status.provisional) {
        canvas.text_to_end(0, foot - 1, "~ provisional baseline: not learned yet, at most a warning", StyleRole::Dim);
    }
}

fn disk_lines(state: &State, evaluation: &Evaluation, disk: &DiskSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    let interval = &*evaluation.interval;
    let facts = interval.newer.disks.as_ref().ok().and_then(|disks| disks.get(disk.index));
    table.draw_cell(canvas, y, "DISK", wait_location::disk_name(&interval.newer, disk.id), StyleRole::Bold);
    table.draw_cell(canvas, y, "queue", safe!("{}", format_optional(disk.aqu_sz, 5)), StyleRole::Plain);
    table.draw_cell(
        canvas,
        y,
        "infl",
        safe!("{}", disk.in_flight),
        if disk.stalled { StyleRole::Critical } else { StyleRole::Plain },
    );
    table.draw_cell(canvas, y, "busy%", safe!("{}", text::format_percent(disk.busy.map(|busy| busy.0), 5)), StyleRole::Dim);
    let mut lines = 0;
    for (line, (operation, span)) in (y..).zip(active_operations(disk)) {
        let status = latency_status(evaluation, disk.id, operation);
        table.draw_cell(canvas, line, "op", operation_letter(operation), StyleRole::Plain);
        table.draw_cell(canvas, line, "/s", safe!("{}", format_number(span.rate.0, 6)), StyleRole::Plain);
        table.draw_cell(
            canvas,
            line,
            "merged%",
            safe!("{}", text::format_percent(span.merged_share().map(|share| share.0), 6)),
            StyleRole::Dim,
        );
        let sized = operation != Operation::Flush;
        let size = format_optional(sized.then_some(span.kilobytes.0 / 1024.0), 5);
        table.draw_cell(canvas, line, "MB/s", safe!("{size}"), if sized { StyleRole::Plain } else { StyleRole::Dim });
        table.draw_cell(canvas, line, "KB/req", safe!("{}", format_optional(span.request_size_kib, 6)), StyleRole::Dim);
        table.draw_cell(
            canvas,
            line,
            "await",
            safe!("{}", format_optional(span.r#await.map(|time| time.0), 5)),
            StyleRole::Plain,
        );
        if let Some(status) = status {
            let mark = if status.provisional { "~" } else { "" };
            table.draw_cell(canvas, line, "base", safe!("{}{mark}", format_number(status.baseline.0, 4)), StyleRole::Dim);
        }
        let (words, role) = baseline_multiple(evaluation, status);
        table.draw_cell(canvas, line, "×base", &words, role);
        latency_history(state, interval, (disk.id, operation), status, table.column_area(HISTORY_HEADING), canvas, line);
        lines += 1;
    }
    if lines == 0 {
        let words = if disk.stalled { "none completed, all pending" } else { "no requests now" };
        let (x, _) = table.column_area("op").unwrap_or((10, 2));
        canvas.text(x, y, 24, words, if disk.stalled { StyleRole::Critical } else { StyleRole::Dim });
    } else if lines > 1
        && let Some(facts) = facts
    {
        canvas.text(1, y + 1, 8, device_kind(facts), StyleRole::Dim);
        if lines > 2
            && let Some(size) = facts.facts.size_bytes
        {
            canvas.text(1, y + 2, 8, safe!("{}", text::bytes(size as f64)), StyleRole::Dim);
        }
    }
}

/// A sparkline of the latencies of one operation, on a logarithmic scale against its baseline.
pub fn latency_history(
    state: &State,
    interval: &Interval,
    (id, operation): (DiskId, Operation),
    status: Option<&LatencyStatus>,
    place: Option<(u16, u16)>,
    canvas: &mut Canvas,
    y: u16,
) {
    let Some((x, width)) = place else { return };
    let cells = state.history.graph_cells(interval.at(), usize::from(width));
    let awaits: Vec<Option<f32>> = cells.iter().map(|cell| cell.as_ref()?.disk_await(id, operation)).collect();
    // Without a baseline, relative to the lowest displayed value.
    let best = || awaits.iter().flatten().copied().fold(f32::INFINITY, f32::min);
    let baseline = status.map_or_else(best, |status| status.baseline.0 as f32);
    let levels = awaits.iter().map(|time| {
        let time = (*time)?;
        let role = status.map_or(StyleRole::Plain, |status| {
            severity_for_multiple(f64::from(time / baseline), status.provisional).map_or(StyleRole::Good, StyleRole::from)
        });
        Some((sparkline::log_ratio_level(time, baseline), role))
    });
    sparkline::sparkline(canvas, x, y, width, levels);
}

fn operation_letter(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "r",
        Operation::Write => "w",
        Operation::Flush => "f",
        Operation::Discard => "d",
    }
}

/// The kind of device.
pub fn device_kind(disk: &Disk) -> SafeText {
    let name = disk.name.as_bytes();
    let starts = |prefix: &str| name.starts_with(prefix.as_bytes());
    let word = match disk.facts.rotational {
        _ if starts("nvme") => "NVMe",
        _ if starts("vd") || starts("xvd") => "virtual",
        _ if starts("loop") => "loop",
        _ if starts("dm-") => "dm",
        _ if starts("md") => "md",
        _ if starts("zram") => "zram",
        Some(true) => "HDD",
        Some(false) => "SSD",
        None => "",
    };
    word.into()
}

/// The latency status of one operation of a device.
pub fn latency_status(evaluation: &Evaluation, disk: DiskId, operation: Operation) -> Option<&LatencyStatus> {
    baseline::find_status(&evaluation.latency_statuses, disk, operation)
}

/// The latency as a multiple of its baseline, followed by the symbol of the device's active finding, if any. Without a finding
/// a high multiple has no symbol: it is of few or cheap requests.
pub fn baseline_multiple(evaluation: &Evaluation, status: Option<&LatencyStatus>) -> (SafeText, StyleRole) {
    let Some((status, times)) = status.and_then(|status| Some((status, status.multiple?))) else {
        return ("- ".into(), StyleRole::Dim);
    };
    let most = severity_for_multiple(times, status.provisional);
    let severity = most.and_then(|most| Some(latency_finding_severity(evaluation, status.disk)?.min(most)));
    let mark = severity.map_or(if status.provisional { "~" } else { " " }, severity_symbol);
    (safe!("{}{mark}", format_number(times, 5)), severity.map_or(StyleRole::Plain, StyleRole::from))
}

/// The highest severity for a multiple of the baseline.
fn severity_for_multiple(times: f64, provisional: bool) -> Option<Severity> {
    match times {
        far if far >= 10.0 => Some(if provisional { Severity::Warning } else { Severity::Critical }),
        far if far >= 3.0 && !provisional => Some(Severity::Warning),
        _ => None,
    }
}

/// The severity of the active latency finding of a device.
fn latency_finding_severity(evaluation: &Evaluation, disk: DiskId) -> Option<Severity> {
    let of_disk = |subject: &Subject| matches!(subject, Subject::Disk { id, .. } if *id == disk);
    let slow = evaluation.active.iter().filter(|finding| finding.kind == Kind::DiskLatency && of_disk(&finding.subject));
    slow.map(|finding| finding.severity).max()
}
