//! The panes of the disk screen: await over time, queue and throughput over time, the distribution of await.

use super::await_graph::{draw_graph, slowest_first};
use super::latency_status;
use crate::findings::Evaluation;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::state::history::{DiskLoad, IntervalSummary};
use crate::state::layout::ScreenLayout;
use crate::state::{Item, State, rows};
use crate::units::format;
use crate::units::{Millis, time};
use crate::view::pane::Pane;
use crate::view::panes::{nice_ceiling, over_time, time_columns};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::wait_location;
use crate::view::widgets::sparkline::sparkline;

/// The device under the cursor, or all with activity.
fn disks<'a>(state: &State, evaluation: &'a Evaluation) -> Vec<&'a DiskSpan> {
    match &state.cursor().item {
        Some(Item::Disk(id)) => evaluation.interval.disk(*id).into_iter().collect(),
        _ => rows::busiest_disks(state, &evaluation.interval),
    }
}

fn name(evaluation: &Evaluation, disk: &DiskSpan) -> SafeText {
    wait_location::disk_name(&evaluation.interval.newer, disk.id)
}

/// The name of the device under the cursor, for the frame.
fn cursor_note(state: &State, evaluation: &Evaluation) -> SafeLine {
    match &state.cursor().item {
        Some(Item::Disk(id)) => {
            let name = wait_location::disk_name(&evaluation.interval.newer, *id);
            SafeLine::new(safe!("{name}, the selected row"), StyleRole::Dim)
        }
        _ => SafeLine::new("slowest first", StyleRole::Dim),
    }
}

/// No request: what is known of the devices nevertheless.
fn no_requests(evaluation: &Evaluation, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let names: Vec<String> = interval.disks.iter().map(|disk| name(evaluation, disk).to_string()).collect();
    let words = match (&interval.newer.disks, names.len()) {
        (Err(_), _) => "- /proc/diskstats cannot be read".into(),
        (Ok(_), 0) => "no block device".into(),
        (Ok(_), _) => safe!("no requests in the last seconds: {}", names.join(" ")),
    };
    pane.line(0, (words, StyleRole::Dim));
}

/// Cells of a graph below which there is one fewer in a row, and rows below which there is one row of graphs fewer.
const GRAPH_SIZE: (u16, u16) = (44, 6);

/// A graph for each operation, as many as fit.
pub fn await_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("Await over time, log axis", StyleRole::Bold), cursor_note(state, evaluation));
    let operations = slowest_first(state, evaluation, &disks(state, evaluation));
    let count = u16::try_from(operations.len()).unwrap_or(u16::MAX);
    if count == 0 {
        no_requests(evaluation, &mut inner);
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
    let mut inner = pane.framed(over_time("Queue and throughput", state, graph), SafeLine::default());
    let disks = disks(state, evaluation);
    let columns = time_columns(state, evaluation, graph);
    let mut y = 0;
    for disk in &disks {
        let loads: Vec<Option<DiskLoad>> = columns.iter().map(|summary| summary.as_ref()?.disk_load(disk.id)).collect();
        if loads.iter().flatten().next().is_none() {
            continue;
        }
        let name = name(evaluation, disk);
        for (at, line) in load_lines(disk, &loads).into_iter().enumerate() {
            if y >= inner.height() {
                return;
            }
            let mut text = SafeLine::new(if at == 0 { name.clone() } else { SafeText::default() }, StyleRole::Bold);
            text.pad_to(9);
            text.append(line.label);
            text.pad_to(usize::from(LINE_LABEL));
            let top = line.top;
            text.push_glyphs(sparkline(graph, line.values.into_iter().map(|value| Some((value? / top, line.role)))));
            text.push(safe!(" ≤ {}", line.scale), StyleRole::Dim);
            inner.line(y, text);
            y += 1;
        }
        y += 1;
    }
    if y == 0 {
        no_requests(evaluation, &mut inner);
    }
}

struct LoadLine {
    label: SafeLine,
    values: Vec<Option<f32>>,
    role: StyleRole,
    top: f32,
    /// The value of a full cell
    scale: String,
}

/// The queue, then reads and writes if there were any.
fn load_lines(disk: &DiskSpan, loads: &[Option<DiskLoad>]) -> Vec<LoadLine> {
    let highest = |values: &[Option<f32>]| values.iter().flatten().copied().fold(0.0, f32::max);
    let queue: Vec<Option<f32>> = loads.iter().map(|load| load.as_ref()?.queue).collect();
    let top = nice_ceiling(highest(&queue).max(1.0), 1000.0);
    let label = SafeLine::new("queue ", StyleRole::Dim)
        .with(safe!("{:>7}", crate::view::text::format_optional(disk.aqu_sz, 5)), StyleRole::Plain);
    let mut lines =
        vec![LoadLine { label, values: queue, role: StyleRole::Disk, top, scale: format_number(f64::from(top), 5) }];
    type Side = fn(&DiskLoad) -> f32;
    let sides: [(&str, Side, f64, StyleRole); 2] = [
        ("read ", |load| load.read_kilobytes, disk.reads.kilobytes.0, StyleRole::User),
        ("write", |load| load.written_kilobytes, disk.writes.kilobytes.0, StyleRole::System),
    ];
    for (word, side, now, role) in sides {
        let values: Vec<Option<f32>> = loads.iter().map(|load| load.as_ref().map(side)).collect();
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

/// How long the slowest operation had which await: seconds of the history by class of await.
pub fn distribution_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let slowest = slowest_first(state, evaluation, &disks(state, evaluation)).first().copied();
    let Some((disk, operation)) = slowest else {
        let mut inner = pane.framed(("Distribution of await", StyleRole::Bold), SafeLine::default());
        no_requests(evaluation, &mut inner);
        return;
    };
    let at = evaluation.interval.at();
    let past: Vec<&IntervalSummary> = state.history.iter().filter(|summary| summary.at.boottime_ns <= at.boottime_ns).collect();
    let seconds = seconds_by_class(&past, disk, operation);
    let all: f32 = past.iter().map(|summary| summary.seconds).sum();
    let title = SafeLine::new(safe!("{} {}", name(evaluation, disk), operation.plural()), StyleRole::Bold)
        .with(safe!(": seconds by await, last {}", time::duration(f64::from(all))), StyleRole::Dim);
    let mut inner = pane.framed(title, SafeLine::default());
    let baseline = latency_status(evaluation, disk.id, operation).map(|status| status.baseline.0 as f32);
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
        let room = inner.width().saturating_sub(26).min(MAX_BAR);
        let cells = (time / most * f32::from(room)).ceil() as usize;
        let below = if class == 0 { 0.0 } else { EDGES.get(class - 1).copied().unwrap_or(0.0) };
        let within = |value: f32| value > below && value <= edge;
        let role = match baseline {
            Some(baseline) if below >= baseline * 3.0 => StyleRole::Warning,
            _ => StyleRole::Good,
        };
        let mut line =
            SafeLine::new(label, StyleRole::Dim).with(safe!(" {:>5} s ", format_number(f64::from(time), 4)), StyleRole::Plain);
        line.push_glyphs(std::iter::repeat_n(('▇', role), cells));
        if baseline.is_some_and(within) {
            line.push(" baseline", StyleRole::Dim);
        }
        if baseline.is_some_and(|baseline| within(baseline * 3.0)) {
            line.push(" 3×", StyleRole::Dim);
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
