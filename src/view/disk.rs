//! The disk screen: one line per operation, each latency against its own baseline. The values are columns of
//! `figures::disk_operation` and `figures::disk`.

pub mod await_graph;
pub mod idle_devices;
pub mod latency_map;
mod panes;

use super::ScreenView;
use super::columns::{CellContent, ColumnSpec, Columns, TableRow};
use super::list::{list_end, list_status, visible_rows};
use super::pane::Pane;
use super::panes::MAX_SPARKLINE_WIDTH;
use super::safe_text::SafeText;
use super::text::{format_figure, format_number};
use super::theme::{StyleRole, severity_symbol};
use super::time_cells::TimeCells;
use super::wait_location;
use super::widgets::sparkline;
use crate::baseline::{self, LatencyStatus};
use crate::figures::disk_operation::{self, OperationRow};
use crate::figures::{Column, FigureInput, disk};
use crate::findings::{Evaluation, Kind, Severity, Subject, slow_p99};
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::sample::disk::Disk;
use crate::state::history::GraphFigure;
use crate::state::layout::{ScreenLayout, active_operations};
use crate::state::rows::is_idle;
use crate::state::{Row, SortColumn, State};
use crate::units::format;

/// A line of a device: one operation; the first line also has the values of the device.
pub struct DiskLine<'a> {
    state: &'a State,
    evaluation: &'a Evaluation,
    disk: &'a DiskSpan,
    /// 0 is the first line of the device
    line: usize,
    /// Its operation; `None` if none is active
    row: Option<OperationRow>,
}

type Spec = ColumnSpec<fn(&DiskLine, CellContent)>;

const DISK_COLUMNS: [Spec; 11] = [
    Spec::text("DISK", 8, device_cell).sorted_by(SortColumn::NAME),
    Spec::text("op", 2, operation_cell).key("operation"),
    Spec::figure(&disk_operation::OPERATIONS_PER_SECOND, 6, |line, cell| {
        line.operation_figure(cell, &disk_operation::OPERATIONS_PER_SECOND, 6, StyleRole::Plain);
    })
    .sorted_by(SortColumn::DISK_RATE),
    Spec::figure(&disk_operation::BYTES_PER_SECOND, 5, |line, cell| {
        let moves_bytes = line.operation() != Some(Operation::Flush);
        let role = if moves_bytes { StyleRole::Plain } else { StyleRole::Dim };
        line.operation_figure(cell, &disk_operation::BYTES_PER_SECOND, 5, role);
    })
    .min_table_width(60),
    Spec::figure(&disk_operation::SIZE_BYTES, 6, |line, cell| {
        line.operation_figure(cell, &disk_operation::SIZE_BYTES, 6, StyleRole::Dim);
    })
    .min_table_width(72),
    Spec::figure(&disk_operation::AWAIT_SECONDS, 5, |line, cell| {
        line.operation_figure(cell, &disk_operation::AWAIT_SECONDS, 5, StyleRole::Plain);
    })
    .sorted_by(SortColumn::DISK_AWAIT),
    Spec::figure(&disk_operation::BASELINE_SECONDS, 5, |line, cell| {
        if let Some(status) = line.status() {
            let mark = if status.provisional { "~" } else { "" };
            cell.text(safe!("{}{mark}", format_number(status.baseline.0, 4)), StyleRole::Dim);
        }
    })
    .min_table_width(50),
    Spec::figure(&disk_operation::BASELINE_MULTIPLE, 6, |line, cell| {
        if line.row.is_some() {
            let (words, role) = styled_baseline_multiple(line.evaluation, line.status());
            cell.text(&words, role);
        }
    }),
    Spec::figure(&disk::QUEUE, 5, |line, cell| line.device_figure(cell, &disk::QUEUE, 5, StyleRole::Plain))
        .sorted_by(SortColumn::DISK_QUEUE)
        .min_table_width(50),
    Spec::figure(&disk::IN_FLIGHT, 4, |line, cell| {
        let role = if line.disk.stalled { StyleRole::Critical } else { StyleRole::Plain };
        line.device_figure(cell, &disk::IN_FLIGHT, 4, role);
    })
    .min_table_width(60),
    Spec::figure(&disk::BUSY_RATIO, 5, |line, cell| line.device_figure(cell, &disk::BUSY_RATIO, 5, StyleRole::Dim))
        .sorted_by(SortColumn::DISK_BUSY)
        .min_table_width(60),
];

const MERGED: Spec = Spec::figure(&disk_operation::MERGED_RATIO, 7, |line, cell| {
    line.operation_figure(cell, &disk_operation::MERGED_RATIO, 6, StyleRole::Dim);
});

const P99: Spec = Spec::figure(&disk_operation::P99_SECONDS, 6, |line, cell| {
    if let Some(row) = &line.row {
        let severity = line.status().and_then(|status| tail_severity(line.evaluation, status));
        let value = format_figure(&disk_operation::P99_SECONDS, &line.input(), row, 5);
        let mark = severity.map_or(" ", severity_symbol);
        cell.text(safe!("{value}{mark}"), severity.map_or(StyleRole::Plain, StyleRole::from));
    }
})
.min_table_width(60);

const HISTORY: Spec = Spec::graph("await, log", 0, |line, cell| {
    if let Some(operation) = line.operation() {
        let width = cell.width.min(MAX_SPARKLINE_WIDTH);
        cell.glyphs(latency_glyphs(line.state, line.evaluation, (line.disk.id, operation), width));
    }
})
.key("await_history");

impl DiskLine<'_> {
    fn input(&self) -> FigureInput<'_> {
        self.evaluation.into()
    }

    fn operation(&self) -> Option<Operation> {
        self.row.as_ref().map(|row| row.operation)
    }

    fn status(&self) -> Option<&LatencyStatus> {
        self.row.as_ref()?.latency_status(&self.input())
    }

    /// A value of the operation.
    fn operation_figure(&self, cell: CellContent, figure: &Column<OperationRow>, cells: usize, role: StyleRole) {
        if let Some(row) = &self.row {
            cell.text(format_figure(figure, &self.input(), row, cells), role);
        }
    }

    /// A value of the device, on its first line only.
    fn device_figure(&self, cell: CellContent, figure: &Column<DiskSpan>, cells: usize, role: StyleRole) {
        if self.line == 0 {
            cell.text(format_figure(figure, &self.input(), self.disk, cells), role);
        }
    }
}

/// The name; on the second line the kind of device, on the third its size.
fn device_cell(line: &DiskLine, cell: CellContent) {
    let newer = &line.evaluation.interval.newer;
    let facts = newer.disks.as_ref().ok().and_then(|disks| disks.get(line.disk.index));
    match (line.line, facts) {
        (0, _) => cell.text(wait_location::disk_name(newer, line.disk.id), StyleRole::Bold),
        (1, Some(facts)) => {
            cell.text(safe!(" {}", device_kind(facts)), StyleRole::Dim);
        }
        (2, Some(facts)) => {
            if let Some(size) = facts.facts.size_bytes {
                cell.text(safe!(" {}", format::short_bytes(size as f64)), StyleRole::Dim);
            }
        }
        _ => {}
    }
}

fn operation_cell(line: &DiskLine, cell: CellContent) {
    match line.operation() {
        Some(operation) => cell.text(operation_letter(operation), StyleRole::Plain),
        None => {
            let (words, role) = match line.disk.stalled {
                true => ("none completed, all pending", StyleRole::Critical),
                false => ("no requests now", StyleRole::Dim),
            };
            cell.text_over_rest(words, role);
        }
    }
}

/// The table of disks for a width.
pub fn table(state: &State, width: u16) -> Columns<fn(&DiskLine, CellContent)> {
    let mut specs = DISK_COLUMNS.to_vec();
    let is_known = |shown: &Evaluation| shown.interval.newer.block_latencies.is_ok();
    let has_p99 = state.current().is_some_and(is_known);
    if has_p99 {
        let after_await = specs.iter().position(|spec| spec.is_figure(&disk_operation::AWAIT_SECONDS));
        specs.insert(after_await.map_or(0, |at| at + 1), P99);
    }
    if width >= 120 {
        specs.insert(3, MERGED);
    }
    let room = if has_p99 { P99.width } else { 0 };
    if width >= 76 + room {
        specs.push(HISTORY);
    }
    Columns::chosen(state, &specs, width)
}

pub const SCREEN: ScreenView =
    ScreenView { draw, panes: &[panes::await_pane, panes::load_pane, panes::distribution_pane, panes::devices_pane] };

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let table = table(state, pane.width());
    let visible = visible_rows(state, layout);
    let rows = visible.iter().flat_map(|visible| {
        let disk = if let Row::Disk(at) = visible.row { interval.disks.get(at) } else { None };
        let lines = disk.map(|disk| disk_lines(state, evaluation, disk, &table)).unwrap_or_default();
        lines.into_iter().take(usize::from(visible.height)).map(|line| line.selected(visible.selected))
    });
    table.draw(pane, Some(state.sort()), rows);
    if interval.newer.disks.is_err() {
        pane.line(1, ("- /proc/diskstats cannot be read", StyleRole::Dim));
        return;
    }
    let end = list_end(layout, &visible);
    if state.rows().is_empty() && state.filter().is_empty() {
        pane.line(end, ("no disk I/O", StyleRole::Dim));
    }
    let bottom = layout.rows_before_list + layout.list_rows;
    let idle: Vec<String> = (interval.disks.iter())
        .filter(|disk| is_idle(state, disk))
        .map(|disk| wait_location::disk_name(&interval.newer, disk.id).to_string())
        .collect();
    let mut foot = bottom;
    if !idle.is_empty() && end + 1 < bottom {
        foot -= 1;
        pane.line(bottom - 1, (safe!("idle: {}", idle.join(" ")), StyleRole::Dim));
    }
    let words = list_status(state, layout);
    if !words.is_empty() && end + 1 < bottom {
        pane.line_right(bottom - 1, (&words, StyleRole::Dim));
    }
    if end + 1 < foot && evaluation.latency_statuses.iter().any(|status| status.provisional) {
        foot -= 1;
        pane.line(foot, ("~ provisional baseline: not learned yet, at most a warning", StyleRole::Dim));
    }
    let room = foot.saturating_sub(end + 2).min(MAX_GRAPH_ROWS);
    if room >= MIN_GRAPH_ROWS && !layout.has_panes() && !state.setup.terminal.is_slow {
        let disks = panes::disks(state, evaluation);
        if let Some(&slowest) = await_graph::slowest_first(state, evaluation, &disks).first() {
            await_graph::draw_graph(state, evaluation, slowest, &mut pane.subarea(0, end + 1, u16::MAX, room));
        }
    }
}

/// Rows of a graph below a short list, with its title.
const MIN_GRAPH_ROWS: u16 = 5;
const MAX_GRAPH_ROWS: u16 = 10;

/// One line for each operation.
fn disk_lines(
    state: &State,
    evaluation: &Evaluation,
    disk: &DiskSpan,
    table: &Columns<fn(&DiskLine, CellContent)>,
) -> Vec<TableRow> {
    let operations: Vec<Operation> = active_operations(disk).map(|(operation, _)| operation).collect();
    let line = |line: usize| {
        let row = operations.get(line).and_then(|&operation| OperationRow::new(disk, operation));
        let line = DiskLine { state, evaluation, disk, line, row };
        table.row(|fill, cell| fill(&line, cell))
    };
    (0..operations.len().max(1)).map(line).collect()
}

/// The latencies of one operation, one glyph a cell, on a logarithmic scale against its baseline.
pub fn latency_glyphs(
    state: &State,
    evaluation: &Evaluation,
    (id, operation): (DiskId, Operation),
    width: u16,
) -> Vec<(char, StyleRole)> {
    let status = latency_status(evaluation, id, operation);
    let cells = TimeCells::new(state, &GraphFigure::DiskAwait(id, operation), width);
    // Without a baseline, relative to the lowest displayed value.
    let best = || cells.values.iter().flatten().copied().fold(f32::INFINITY, f32::min);
    let baseline = status.map_or_else(best, |status| status.baseline.0 as f32);
    let queues = TimeCells::new(state, &GraphFigure::DiskQueue(id), width).values;
    let glyphs = cells.glyphs_beside(&queues, |time, queue| {
        let role = status.map_or(StyleRole::Plain, |status| {
            let (multiple, queue) = (f64::from(time / baseline), queue.map(f64::from));
            let severity = evaluation.thresholds().latency_severity(multiple, status.provisional, queue);
            severity.map_or(StyleRole::Good, StyleRole::from)
        });
        (sparkline::log_ratio_level(time, baseline), role)
    });
    glyphs.collect()
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

/// The multiple of this baseline from which a latency is slow: `latency-multiple`, of a provisional one `latency-provisional-multiple`.
pub fn slow_multiple(evaluation: &Evaluation, status: Option<&LatencyStatus>) -> f32 {
    evaluation.thresholds().needed_multiple(status.is_some_and(|status| status.provisional)) as f32
}

/// The latency as a multiple of its baseline, followed by the symbol of the device's active finding, if any. Without a finding
/// a high multiple has no symbol: it is of few or cheap requests.
pub fn styled_baseline_multiple(evaluation: &Evaluation, status: Option<&LatencyStatus>) -> (SafeText, StyleRole) {
    let Some((status, times)) = status.and_then(|status| Some((status, status.multiple?))) else {
        return ("- ".into(), StyleRole::Dim);
    };
    let queue = status.window_load.map(|load| load.concurrency(status.operation));
    let most = evaluation.thresholds().latency_severity(times, status.provisional, queue);
    let severity = most.and_then(|most| Some(latency_finding_severity(evaluation, status.disk)?.min(most)));
    let mark = severity.map_or(if status.provisional { "~" } else { " " }, severity_symbol);
    (safe!("{}{mark}", format_number(times, 5)), severity.map_or(StyleRole::Plain, StyleRole::from))
}

/// The severity of the active latency finding of a device, if the p99 of this operation exceeds its baseline by enough for one.
fn tail_severity(evaluation: &Evaluation, status: &LatencyStatus) -> Option<Severity> {
    slow_p99(status, evaluation.thresholds())?;
    latency_finding_severity(evaluation, status.disk)
}

/// The severity of the active latency finding of a device.
pub fn latency_finding_severity(evaluation: &Evaluation, disk: DiskId) -> Option<Severity> {
    let of_disk = |subject: &Subject| matches!(subject, Subject::Disk { id, .. } if *id == disk);
    let slow = evaluation.active.iter().filter(|finding| finding.kind == Kind::DiskLatency && of_disk(&finding.subject));
    slow.map(|finding| finding.severity).max()
}
