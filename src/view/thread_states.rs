//! The pane of threads by state: how many ran, waited for a CPU, or were blocked, over time.

use ratatui::layout::Rect;

use super::pane::Pane;
use super::panes::{AXIS_WIDTH, in_window, layer_style, nice_ceiling};
use super::safe_line::SafeLine;
use super::text::format_number;
use super::theme::StyleRole;
use super::widgets::range_column::PEAK;
use super::widgets::stacked_area::{Layer, StackedArea};
use crate::findings::Evaluation;
use crate::safe;
use crate::state::State;
use crate::state::graph_columns::GraphColumns;
use crate::state::history::{GraphFigure, ThreadState, thread_states};
use crate::state::recording_series::ValueRange;
use crate::units::format;

/// How the states of threads are drawn, as in `ThreadState`: the layers from the bottom.
pub const LAYERS: [(char, StyleRole, &str); 5] = [
    ('█', StyleRole::User, "running"),
    ('░', StyleRole::RunQueue, "wait for a CPU"),
    ('▒', StyleRole::Disk, "storage"),
    ('╱', StyleRole::Lock, "lock"),
    ('╳', StyleRole::OtherBlocked, "other D"),
];

/// Cells of the figures right of the graph.
const FIGURES_WIDTH: u16 = 24;

pub fn draw(state: &State, evaluation: &Evaluation, pane: &mut Pane) {
    let width = pane.width().saturating_sub(2 + AXIS_WIDTH + FIGURES_WIDTH);
    let columns = state.graph_columns(width);
    let mut inner = pane.framed(in_window("Threads by state", state, &columns), SafeLine::default());
    let counts = counts(&columns);
    let highest = counts.iter().flatten().map(|counts| counts.iter().sum::<f32>()).fold(1.0, f32::max);
    let top = nice_ceiling(highest, 1000.0);
    let shares: Vec<Option<[f32; 6]>> = counts.into_iter().map(|counts| Some(counts?.map(|count| count / top))).collect();
    let last = inner.height().saturating_sub(1);
    for (row, value) in [(0, top), (last / 2, top / 2.0), (last, 0.0)] {
        inner.line(row, (safe!("{:>6}", format_number(f64::from(value), 5)), StyleRole::Dim));
    }
    let area = inner.area();
    let [running, run_queue, disk, lock, other] =
        LAYERS.map(|(glyph, role, _)| Layer { glyph, style: layer_style(&inner, glyph, role) });
    let peak = Layer { glyph: PEAK, style: inner.graph_style(StyleRole::Dim) };
    let layers = [running, run_queue, disk, lock, other, peak];
    let graph = Rect { x: area.x + AXIS_WIDTH, width, ..area };
    inner.part(graph).render(StackedArea { columns: &shares, layers });
    let legend = Rect { x: graph.right() + 1, width: FIGURES_WIDTH - 1, ..area };
    draw_legend(evaluation, &mut inner.part(legend));
    pane.time_axis(columns.axis(), graph);
}

/// The mean numbers of each column, and above them what the interval with most threads had more.
fn counts(columns: &GraphColumns) -> Vec<Option<[f32; 6]>> {
    let [running, run_queue, disk, lock, other, all] =
        ThreadState::ALL.map(|state| columns.value_ranges(&GraphFigure::Threads(state)));
    let mean = |of: &[Option<ValueRange>], at: usize| of.get(at).copied().flatten().map_or(0.0, |range| range.mean);
    let column = |(at, all): (usize, &Option<ValueRange>)| {
        let all = (*all)?;
        let peak = if columns.has_peaks { all.max - all.mean } else { 0.0 };
        Some([mean(&running, at), mean(&run_queue, at), mean(&disk, at), mean(&lock, at), mean(&other, at), peak])
    };
    all.iter().enumerate().map(column).collect()
}

/// The figures of the interval, in the order of the layers from the top.
fn draw_legend(evaluation: &Evaluation, pane: &mut Pane) {
    let Some(now) = thread_states(evaluation) else {
        pane.line(0, ("- /proc cannot be read", StyleRole::Dim));
        return;
    };
    let mut y = 0;
    for ((glyph, role, word), count) in LAYERS.into_iter().zip(now).rev() {
        let mut line = SafeLine::default();
        line.push_glyphs([(glyph, role)]);
        line.push(safe!(" {word:<15}"), StyleRole::Dim);
        let value = safe!("{:>5}", format_number(f64::from(count), 5));
        pane.line(y, line.with(value, if count > 0.0 { StyleRole::Plain } else { StyleRole::Dim }));
        y += 1;
    }
    if let Some(tasks) = &evaluation.interval.tasks {
        let of = format::plural(u64::from(tasks.counts.threads), "thread", "threads");
        pane.line(y, (safe!("of {of}"), StyleRole::Dim));
    }
}
