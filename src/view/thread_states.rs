//! The pane of threads by state: how many ran, waited for a CPU, or were blocked, over time.

use ratatui::layout::Rect;

use super::pane::Pane;
use super::panes::{AXIS_WIDTH, nice_ceiling, over_time, time_columns};
use super::safe_line::SafeLine;
use super::text::format_number;
use super::theme::StyleRole;
use super::widgets::stacked_area::{Layer, StackedArea};
use crate::findings::Evaluation;
use crate::safe;
use crate::state::State;
use crate::state::history::thread_states;
use crate::units::format;

/// The layers from the bottom, as in `IntervalSummary::threads`.
const LAYERS: [(char, StyleRole, &str); 5] = [
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
    let mut inner = pane.framed(over_time("Threads by state", state, width), SafeLine::default());
    let columns = time_columns(state, evaluation, width);
    let counts: Vec<Option<[f32; 5]>> = columns.iter().map(|summary| summary.as_ref()?.threads()).collect();
    let highest = counts.iter().flatten().map(|counts| counts.iter().sum::<f32>()).fold(1.0, f32::max);
    let top = nice_ceiling(highest, 1000.0);
    let shares: Vec<Option<[f32; 5]>> = counts.into_iter().map(|counts| Some(counts?.map(|count| count / top))).collect();
    let last = inner.height().saturating_sub(1);
    for (row, value) in [(0, top), (last / 2, top / 2.0), (last, 0.0)] {
        inner.line(row, (safe!("{:>6}", format_number(f64::from(value), 5)), StyleRole::Dim));
    }
    let area = inner.area();
    let layers = LAYERS.map(|(glyph, role, _)| Layer { glyph, style: inner.graph_style(role) });
    let graph = Rect { x: area.x + AXIS_WIDTH, width, ..area };
    inner.part(graph).render(StackedArea { columns: &shares, layers });
    let legend = Rect { x: graph.right() + 1, width: FIGURES_WIDTH - 1, ..area };
    draw_legend(evaluation, &mut inner.part(legend));
}

/// The figures of the interval, in the order of the layers from the top.
fn draw_legend(evaluation: &Evaluation, pane: &mut Pane) {
    let Some(now) = thread_states(evaluation) else { return };
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
