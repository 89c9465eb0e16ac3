//! The pane of cores: how busy each CPU, or the busiest of several, was over time; the busiest one with its top thread. Few CPUs have a
//! graph of several rows each, many a row of a map.

use ratatui::layout::Rect;

use crate::findings::Evaluation;
use crate::interval::cpu::CpuUsage;
use crate::safe;
use crate::state::State;
use crate::state::graph_columns::GraphColumns;
use crate::state::history::GraphFigure;
use crate::state::layout::ScreenLayout;
use crate::state::recording_series::ValueRange;
use crate::view::cpu::busy_role;
use crate::view::pane::Pane;
use crate::view::panes::{AXIS_WIDTH, figures_width, peaks_in_window, ranges_in_window};
use crate::view::safe_line::SafeLine;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::wait_location;
use crate::view::widgets::area_graph::AreaGraph;
use crate::view::widgets::heat_map::{HeatMap, PARTLY_FULL};

/// Rows from which a CPU has a graph of its own: two, and one that separates it from the next.
const MIN_CORE_ROWS: u16 = 3;

pub fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let figures = figures_width(pane);
    let graph_width = pane.width().saturating_sub(2 + AXIS_WIDTH + figures);
    let columns = state.graph_columns(graph_width);
    let count = evaluation.interval.cpu.as_ref().map_or(0, |span| span.cpus.len());
    let step = match pane.height().saturating_sub(2) / u16::try_from(count.max(1)).unwrap_or(u16::MAX) {
        rows @ MIN_CORE_ROWS.. => rows,
        _ => 1,
    };
    let title = match step {
        MIN_CORE_ROWS.. => ranges_in_window("Cores", state, &columns),
        _ => peaks_in_window("Cores", PARTLY_FULL, state, &columns),
    };
    let mut inner = pane.framed(title, hottest(evaluation));
    let Some(span) = &evaluation.interval.cpu else {
        inner.line(0, ("- /proc/stat cannot be read", StyleRole::Dim));
        return;
    };
    let each = count.div_ceil(usize::from(inner.height()).max(1)).max(1);
    let full = evaluation.thresholds().core_busy_ratio;
    let mut rows = 0;
    for cpus in span.cpus.chunks(each) {
        if rows >= inner.height() {
            break;
        }
        inner.line(rows, label(cpus));
        if let Some(cpu) = busiest(cpus) {
            let x = inner.width().saturating_sub(figures - 1);
            inner.subarea(x, rows, figures - 1, 1).line(0, figure(evaluation, cpu, full, each > 1, figures - 1));
        }
        rows += step;
    }
    let graph = Rect { x: inner.area().x + AXIS_WIDTH, width: graph_width, ..inner.area() };
    match step {
        MIN_CORE_ROWS.. => draw_graphs(&columns, &span.cpus, full, step, &mut inner.part(graph)),
        _ => {
            let rows: Vec<_> = span.cpus.chunks(each).map(|cpus| busiest_over_time(&columns, cpus)).collect();
            let theme = inner.theme();
            let style = |busy: f32| theme.value_style(busy_role(f64::from(busy), full), busy);
            inner.part(graph).render(HeatMap { rows: &rows, style });
        }
    }
    pane.time_axis(columns.axis(), Rect { height: rows.min(graph.height), ..graph });
}

/// A graph of 0 to 100 % for each CPU, `step` rows below the one before.
fn draw_graphs(columns: &GraphColumns, cpus: &[CpuUsage], full: f64, step: u16, pane: &mut Pane) {
    let (style, peak_style) = (pane.area_gradient(StyleRole::User), pane.graph_style(StyleRole::Dim));
    let full_style = pane.area_gradient(StyleRole::Warning);
    for (y, cpu) in (0_u16..).step_by(usize::from(step)).zip(cpus) {
        let values = columns.ranges(&GraphFigure::CpuBusy(cpu.id));
        let graph = AreaGraph::new(&values, 1.0, style, peak_style).styled_from(full as f32, full_style);
        pane.subarea(0, y, u16::MAX, step - 1).render(graph);
    }
}

/// The mean and the maximum of the busiest CPU in each column.
fn busiest_over_time(columns: &GraphColumns, cpus: &[CpuUsage]) -> Vec<Option<(f32, f32)>> {
    let mut busiest: Vec<Option<(f32, f32)>> = Vec::new();
    for cpu in cpus {
        let ranges = columns.value_ranges(&GraphFigure::CpuBusy(cpu.id));
        busiest.resize(ranges.len(), None);
        for (highest, range) in busiest.iter_mut().zip(ranges) {
            let Some(ValueRange { mean, max, .. }) = range else { continue };
            let (known_mean, known_max) = highest.unwrap_or((0.0, 0.0));
            *highest = Some((mean.max(known_mean), max.max(known_max)));
        }
    }
    busiest
}

fn busiest(cpus: &[CpuUsage]) -> Option<&CpuUsage> {
    cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()))
}

/// `cpu3`, or `64-127` for the busiest of several.
fn label(cpus: &[CpuUsage]) -> SafeLine {
    let words = match cpus {
        [] => "".into(),
        [only] => safe!("cpu{}", only.id.0),
        [first, .., last] => safe!("{}-{}", first.id.0, last.id.0),
    };
    SafeLine::new(words, StyleRole::Dim)
}

/// `100% redis-server/2211 99.8%`; where there is no room for all of it, without the tid, then without the share of the thread.
fn figure(evaluation: &Evaluation, cpu: &CpuUsage, full: f64, of_several: bool, cells: u16) -> SafeLine {
    let busy = cpu.busy();
    let role = if busy >= full { StyleRole::Warning } else { StyleRole::Plain };
    let mut line = SafeLine::new(safe!("{:>4}%", format_number(busy * 100.0, 4)), role);
    if of_several {
        line.push(safe!(" cpu{}", cpu.id.0), StyleRole::Plain);
    }
    if let Some((task, share)) = cpu.top_thread.filter(|(_, share)| share.0 >= 0.005) {
        let sample = &evaluation.interval.newer;
        let (name, with_tid) = (wait_location::thread_comm(sample, task), wait_location::thread_name(sample, task));
        let share = format_number(share.percent(), 4);
        let room = usize::from(cells).saturating_sub(line.width());
        let ways = [safe!(" {with_tid} {share}%"), safe!(" {name} {share}%"), safe!(" {name}")];
        // Of a name that does not fit either, the beginning says something.
        let words = ways.iter().find(|words| words.width() <= room).or(ways.last()).cloned();
        line.push(words.unwrap_or_default(), StyleRole::Dim);
    }
    line
}

fn hottest(evaluation: &Evaluation) -> SafeLine {
    let span = evaluation.interval.cpu.as_ref();
    let Some(cpu) = span.and_then(|span| busiest(&span.cpus)).filter(|cpu| cpu.busy() >= 0.005) else {
        return SafeLine::default();
    };
    SafeLine::new(safe!("hottest cpu{} {}%", cpu.id.0, format_number(cpu.busy() * 100.0, 4)), StyleRole::Dim)
}
