//! The disk screen: a line an operation, each latency against its own baseline.

use super::canvas::Canvas;
use super::frame::list_status;
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
    ColumnSpec::text("DISK", 8).sorted_by(SortColumn::NAME),
    ColumnSpec::text("op", 2),
    ColumnSpec::numeric("/s", 6).sorted_by(SortColumn::DISK_RATE),
    ColumnSpec::numeric("MB/s", 5).min_table_width(60),
    ColumnSpec::numeric("KB/req", 6).min_table_width(72),
    ColumnSpec::numeric("await", 5).sorted_by(SortColumn::DISK_AWAIT),
    ColumnSpec::numeric("base", 5).min_table_width(50),
    ColumnSpec::numeric("×base", 6),
    ColumnSpec::numeric("queue", 5).sorted_by(SortColumn::DISK_QUEUE).min_table_width(50),
    ColumnSpec::numeric("infl", 4).min_table_width(60),
    ColumnSpec::numeric("busy%", 5).sorted_by(SortColumn::DISK_BUSY).min_table_width(60),
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

pub fn draw(state: &State, judged: &Evaluation, plan: &ScreenLayout, canvas: &mut Canvas) {
    let interval = &*judged.interval;
    let table = table(canvas.width());
    table.draw_header(canvas, 0, Some(state.sort()));
    if interval.newer.disks.is_err() {
        canvas.text_to_end(0, 1, "- /proc/diskstats cannot be read", StyleRole::Dim);
        return;
    }
    let end = super::draw_list(state, plan, canvas, |canvas, y, row| {
        if let Row::Disk(at) = row
            && let Some(disk) = interval.disks.get(at)
        {
            disk_lines(state, judged, disk, &table, canvas, y);
        }
    });
    if state.rows.is_empty() && state.filter().as_str().is_empty() {
        canvas.text_to_end(0, end, "no device reads or writes anything", StyleRole::Dim);
    }
    let bottom = plan.rows_before_list + plan.list_rows;
    let idle: Vec<String> = (interval.disks.iter())
        .filter(|disk| is_idle(state, disk))
        .map(|disk| wait_location::disk_name(&interval.newer, disk.id).to_string())
        .collect();
    let mut foot = bottom;
    if !idle.is_empty() && end + 1 < bottom {
        foot -= 1;
        canvas.text_to_end(0, bottom - 1, safe!("idle: {}", idle.join(" ")), StyleRole::Dim);
    }
    let words = list_status(state, plan);
    if !words.is_empty() && end + 1 < bottom {
        canvas.text_right(0, bottom - 1, canvas.width(), &words, StyleRole::Dim);
    }
    if end + 1 < foot && judged.latency_statuses.iter().any(|standing| standing.provisional) {
        canvas.text_to_end(
            0,
            foot - 1,
            "~ a provisional baseline: not learned yet, never worse than a warning",
            StyleRole::Dim,
        );
    }
}

fn disk_lines(state: &State, judged: &Evaluation, disk: &DiskSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    let interval = &*judged.interval;
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
        let standing = latency_status(judged, disk.id, operation);
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
        if let Some(standing) = standing {
            let mark = if standing.provisional { "~" } else { "" };
            table.draw_cell(canvas, line, "base", safe!("{}{mark}", format_number(standing.baseline.0, 4)), StyleRole::Dim);
        }
        let (words, ink) = baseline_multiple(judged, standing);
        table.draw_cell(canvas, line, "×base", &words, ink);
        latency_history(state, interval, (disk.id, operation), standing, table.column_area(HISTORY_HEADING), canvas, line);
        lines += 1;
    }
    if lines == 0 {
        let words = if disk.stalled { "none completed, all wait" } else { "nothing now" };
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

/// The awaits of one operation of one device, logarithmic against its baseline, at a place of a row.
pub fn latency_history(
    state: &State,
    interval: &Interval,
    (id, operation): (DiskId, Operation),
    standing: Option<&LatencyStatus>,
    place: Option<(u16, u16)>,
    canvas: &mut Canvas,
    y: u16,
) {
    let Some((x, width)) = place else { return };
    let cells = state.history.graph_cells(interval.at(), usize::from(width));
    let awaits: Vec<Option<f32>> = cells.iter().map(|cell| cell.as_ref()?.disk_await(id, operation)).collect();
    // Without a baseline the best of the last minute stands for it.
    let best = || awaits.iter().flatten().copied().fold(f32::INFINITY, f32::min);
    let baseline = standing.map_or_else(best, |standing| standing.baseline.0 as f32);
    let levels = awaits.iter().map(|time| {
        let time = (*time)?;
        let ink = standing.map_or(StyleRole::Plain, |standing| {
            severity_for_multiple(f64::from(time / baseline), standing.provisional).map_or(StyleRole::Good, StyleRole::from)
        });
        Some((sparkline::log_ratio_level(time, baseline), ink))
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

/// What kind of device, in a word.
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

/// Where that operation of that device stands.
pub fn latency_status(judged: &Evaluation, disk: DiskId, operation: Operation) -> Option<&LatencyStatus> {
    baseline::find_status(&judged.latency_statuses, disk, operation)
}

/// How many times its baseline; in the cell behind the figure the sign of the finding that this is, so that no row calls
/// bad what the verdict does not: a multiple of few or cheap requests is felt by nobody.
pub fn baseline_multiple(judged: &Evaluation, standing: Option<&LatencyStatus>) -> (SafeText, StyleRole) {
    let Some((standing, times)) = standing.and_then(|standing| Some((standing, standing.multiple?))) else {
        return ("- ".into(), StyleRole::Dim);
    };
    let most = severity_for_multiple(times, standing.provisional);
    let severity = most.and_then(|most| Some(latency_finding_severity(judged, standing.disk)?.min(most)));
    let mark = severity.map_or(if standing.provisional { "~" } else { " " }, severity_symbol);
    (safe!("{}{mark}", format_number(times, 5)), severity.map_or(StyleRole::Plain, StyleRole::from))
}

/// The worst that so many times a baseline can be.
fn severity_for_multiple(times: f64, provisional: bool) -> Option<Severity> {
    match times {
        far if far >= 10.0 => Some(if provisional { Severity::Warning } else { Severity::Critical }),
        far if far >= 3.0 && !provisional => Some(Severity::Warning),
        _ => None,
    }
}

/// How bad the verdict calls the latency of that device.
fn latency_finding_severity(judged: &Evaluation, disk: DiskId) -> Option<Severity> {
    let of_disk = |subject: &Subject| matches!(subject, Subject::Disk { id, .. } if *id == disk);
    let slow = judged.active.iter().filter(|finding| finding.kind == Kind::DiskLatency && of_disk(&finding.subject));
    slow.map(|finding| finding.severity).max()
}
