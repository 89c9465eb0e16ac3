//! The panes of the disk screen: await over time, queue and throughput over time, the distribution of await.

use super::await_graph::{draw_graph, in_steady_order};
use super::idle_devices::idle_devices;
use super::{latency_map, latency_status, slow_multiple};
use crate::findings::Evaluation;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::sample::Absent;
use crate::state::graph_columns::GraphColumns;
use crate::state::history::{GraphFigure, IntervalSummary};
use crate::state::layout::ScreenLayout;
use crate::state::{Item, State, rows};
use crate::units::format;
use crate::units::{Millis, time};
use crate::view::pane::Pane;
use crate::view::panes::{nice_ceiling, ranges_in_window};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::wait_location;
use crate::view::widgets::area_graph::AreaGraph;
use crate::view::widgets::sparkline::sparkline;

/// The device under the cursor, or all with activity.
pub fn disks<'a>(state: &State, evaluation: &'a Evaluation) -> Vec<&'a DiskSpan> {
    match &state.cursor().item {
        Some(Item::Disk(id)) => evaluation.interval.disk(*id).into_iter().collect(),
        _ => rows::busiest_disks(state, &evaluation.interval),
    }
}

pub fn name(evaluation: &Evaluation, disk: &DiskSpan) -> SafeText {
    wait_location::disk_name(&evaluation.interval.newer, disk.id)
}

/// The name of the device under the cursor, for the frame.
fn cursor_note(state: &State, evaluation: &Evaluation) -> SafeLine {
    match &state.cursor().item {
        Some(Item::Disk(id)) => {
            let name = wait_location::disk_name(&evaluation.interval.newer, *id);
            SafeLine::new(safe!("{name}, the selected row"), StyleRole::Dim)
        }
        _ => SafeLine::new("of the selected row, or all", StyleRole::Dim),
    }
}

/// Cells of a graph below which there is one fewer in a row, and rows below which there is one row of graphs fewer.
const GRAPH_SIZE: (u16, u16) = (44, 6);

/// A graph for each operation, as many as fit.
pub fn await_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("Await over time, log axis", StyleRole::Bold), cursor_note(state, evaluation));
    let operations = in_steady_order(state, evaluation, &disks(state, evaluation));
    let count = u16::try_from(operations.len()).unwrap_or(u16::MAX);
    if count == 0 {
        idle_devices(state, evaluation, &mut inner);
        return;
    }
    let across = (inner.width() / GRAPH_SIZE.0).clamp(1, count);
    let down = (inner.height() / GRAPH_SIZE.1).clamp(1, count.div_ceil(across));
    let (width, height) = (inner.width() / across, inner.height() / down);
    for (at, &operation) in (0..across.saturating_mul(down)).zip(&operations) {
        let (column, row) = (at % across, at / across);
        let gap = u16::from(column + 1 < across) * 2;
        let mut part = inner.subarea(column * width, row * height, width - gap, height);
        draw_graph(state, evaluation, operation, &mut part);
    }
}

/// Cells of name and figure left of a line, and of the scale right of it.
const LINE_LABEL: u16 = 24;
const LINE_SCALE: u16 = 11;

/// Of each device: requests in flight, KB read and written, over time.
pub fn load_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let graph = pane.width().saturating_sub(2 + LINE_LABEL + LINE_SCALE);
    let columns = state.graph_columns(graph);
    let mut inner = pane.framed(ranges_in_window("Queue and throughput", state, &columns), SafeLine::default());
    let disks = disks(state, evaluation);
    let mut blocks = Vec::new();
    for disk in &disks {
        let lines = load_lines(disk, &columns);
        if !lines.is_empty() {
            blocks.push((name(evaluation, disk), lines));
        }
    }
    let lines: usize = blocks.iter().map(|(_, lines)| lines.len() + 1).sum();
    if lines == 0 {
        idle_devices(state, evaluation, &mut inner);
        return;
    }
    let rows = (inner.height().saturating_add(1) / u16::try_from(lines).unwrap_or(u16::MAX)).clamp(1, MAX_LINE_ROWS);
    let mut y = 0;
    let mut end = 0;
    'blocks: for (name, lines) in blocks {
        for (at, line) in lines.into_iter().enumerate() {
            if y + rows > inner.height() {
                break 'blocks;
            }
            let name = if at == 0 { name.clone() } else { SafeText::default() };
            draw_line(name, line, &mut inner.subarea(0, y, u16::MAX, rows));
            y += rows;
            end = y;
        }
        y += 1;
    }
    let graphs = inner.subarea(LINE_LABEL, 0, graph, end).area();
    pane.time_axis(columns.axis(), graphs);
}

/// Rows of a graph in the list at most.
const MAX_LINE_ROWS: u16 = 4;

/// Name and figure beside the graph, and the value of its top.
fn draw_line(name: SafeText, line: LoadLine, pane: &mut Pane) {
    let (width, rows) = (pane.width().saturating_sub(LINE_LABEL + LINE_SCALE), pane.height());
    let mut text = SafeLine::new(name, StyleRole::Bold);
    text.pad_to(9);
    text.append(line.label);
    text.pad_to(usize::from(LINE_LABEL));
    let scale = safe!(" ≤ {}", line.scale);
    if rows == 1 {
        text.push_glyphs(sparkline(width, line.values.into_iter().map(|value| Some((value?[2] / line.top, line.role)))));
        pane.line(0, text.with(scale, StyleRole::Dim));
        return;
    }
    pane.line(rows - 1, text);
    pane.subarea(LINE_LABEL + width, 0, u16::MAX, 1).line(0, (scale, StyleRole::Dim));
    let (style, peak_style) = (pane.area_gradient(line.role), pane.graph_style(StyleRole::Dim));
    let mut graph = pane.subarea(LINE_LABEL, 0, width, rows);
    graph.render(AreaGraph::new(&line.values, line.top, style, peak_style));
}

struct LoadLine {
    label: SafeLine,
    /// Minimum, mean and maximum of each column
    values: Vec<Option<[f32; 3]>>,
    role: StyleRole,
    top: f32,
    /// The value of a full cell
    scale: String,
}

/// The queue, then reads and writes if there were any; none if the disk had no requests.
fn load_lines(disk: &DiskSpan, columns: &GraphColumns) -> Vec<LoadLine> {
    let highest = |values: &[Option<[f32; 3]>]| values.iter().flatten().map(|&[_, _, max]| max).fold(0.0, f32::max);
    let mut lines = Vec::new();
    let queue = columns.ranges(&GraphFigure::DiskQueue(disk.id));
    if queue.iter().flatten().next().is_some() {
        let top = nice_ceiling(highest(&queue).max(1.0), 1000.0);
        let label = SafeLine::new("queue ", StyleRole::Dim)
            .with(safe!("{:>7}", crate::view::text::format_optional(disk.aqu_sz, 5)), StyleRole::Plain);
        let scale = format_number(f64::from(top), 5);
        lines.push(LoadLine { label, values: queue, role: StyleRole::Disk, top, scale });
    }
    let sides = [
        ("read ", GraphFigure::DiskRead(disk.id), disk.reads.kilobytes.0, StyleRole::User),
        ("write", GraphFigure::DiskWritten(disk.id), disk.writes.kilobytes.0, StyleRole::System),
    ];
    for (word, side, now, role) in sides {
        let values = columns.ranges(&side);
        if highest(&values) <= 0.0 {
            continue;
        }
        let top = nice_ceiling(highest(&values).max(1.0), 1024.0);
        let figure = safe!("{:>6}/s", format::short_bytes(now * 1024.0));
        let label = SafeLine::new(safe!("{word} "), StyleRole::Dim).with(figure, StyleRole::Plain);
        lines.push(LoadLine { label, values, role, top, scale: format!("{}/s", format::short_bytes(f64::from(top) * 1024.0)) });
    }
    lines
}

/// Upper edges of the classes, in milliseconds.
const EDGES: [f32; 15] = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, f32::INFINITY];

/// Cells of a bar at most.
const MAX_BAR: u16 = 40;

/// How long the first operation had which await: seconds of the history by class of await.
pub fn distribution_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let slowest = in_steady_order(state, evaluation, &disks(state, evaluation)).first().copied();
    let Some((disk, operation)) = slowest else {
        let mut inner = pane.framed(("Distribution of await", StyleRole::Bold), SafeLine::default());
        idle_devices(state, evaluation, &mut inner);
        return;
    };
    if latency_map::is_known(state, disk, operation) {
        latency_map::draw(state, evaluation, (disk, operation), pane);
        return;
    }
    let at = evaluation.interval.at();
    let past: Vec<&IntervalSummary> =
        state.graphs.history.iter().filter(|summary| summary.at.boottime_ns <= at.boottime_ns).collect();
    let seconds = seconds_by_class(&past, disk, operation);
    let all: f32 = past.iter().map(|summary| summary.seconds).sum();
    let title = SafeLine::new(safe!("{} {}", name(evaluation, disk), operation.plural()), StyleRole::Bold)
        .with(safe!(": seconds by await, last {}", time::duration(f64::from(all))), StyleRole::Dim);
    // Of a recording without it, the page of the device says so.
    let is_off = matches!(evaluation.interval.newer.block_latencies, Err(Absent::NotRead));
    let note = latency_map::obstacle(evaluation).filter(|_| !is_off).map(|why| SafeLine::new(why, StyleRole::Dim));
    let mut inner = pane.framed(title, note.unwrap_or_default());
    let status = latency_status(evaluation, disk.id, operation);
    let baseline = status.map(|status| status.baseline.0 as f32);
    let slow = slow_multiple(evaluation, status);
    let (first, last) = (seconds.iter().position(|&time| time > 0.0), seconds.iter().rposition(|&time| time > 0.0));
    let (Some(first), Some(last)) = (first, last) else { return };
    // As many classes as there are rows, the longest ones first.
    let first = first.max((last + 1).saturating_sub(usize::from(inner.height())));
    let most = seconds.iter().copied().fold(0.0, f32::max);
    for (y, class) in (0..inner.height()).zip(first..=last) {
        let (Some(&time), Some(&edge)) = (seconds.get(class), EDGES.get(class)) else { continue };
        let label = match edge.is_finite() {
            true => safe!("≤ {:>7}", format::latency(Millis(f64::from(edge)))),
            false => safe!("> {:>7}", format::latency(Millis(1000.0))),
        };
        let room = inner.width().saturating_sub(32).min(MAX_BAR);
        let cells = (time / most * f32::from(room)).ceil() as usize;
        let below = if class == 0 { 0.0 } else { EDGES.get(class - 1).copied().unwrap_or(0.0) };
        let within = |value: f32| value > below && value <= edge;
        let role = match baseline {
            Some(baseline) if below >= baseline * slow => StyleRole::Warning,
            _ => StyleRole::Good,
        };
        let mut line =
            SafeLine::new(label, StyleRole::Dim).with(safe!(" {:>5} s ", format_number(f64::from(time), 4)), StyleRole::Plain);
        line.push_glyphs(std::iter::repeat_n(('▇', role), cells));
        if baseline.is_some_and(within) {
            line.push(" baseline", StyleRole::Dim);
        }
        if baseline.is_some_and(|baseline| within(baseline * slow)) {
            line.push(safe!(" {slow}×"), StyleRole::Dim);
        }
        inner.line(y, line);
    }
}

fn seconds_by_class(past: &[&IntervalSummary], disk: &DiskSpan, operation: Operation) -> [f32; EDGES.len()] {
    let mut seconds = [0.0; EDGES.len()];
    for summary in past {
        let Some(time) = summary.disk_await(disk.id, operation) else { continue };
        let class = EDGES.iter().position(|&edge| time <= edge);
        if let Some(sum) = class.and_then(|class| seconds.get_mut(class)) {
            *sum += summary.seconds;
        }
    }
    seconds
}

/// The table of devices.
pub fn devices_pane(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("Devices, a line for each operation", StyleRole::Bold), SafeLine::default());
    super::draw(state, evaluation, layout, &mut inner);
}
