//! What the panes of all screens share: their frames, the columns of a graph over time, its axis and title.
//!
//! Graphs do not scroll: a new interval overwrites the oldest column, so that few bytes are sent.

use ratatui::layout::{Constraint, Rect};

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::StyleRole;
use crate::findings::Evaluation;
use crate::safe;
use crate::sample::Instant;
use crate::state::history::IntervalSummary;
use crate::state::layout::ScreenLayout;
use crate::state::{ClickTarget, State};
use crate::units::time;

/// Draws a pane with its frame.
pub type Draw = fn(&State, &Evaluation, &ScreenLayout, &mut Pane);

/// Draws the panes that the layout has.
pub fn draw(draws: &[Draw], state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let focused = state.pane_focus().focused;
    for area in &layout.panes {
        let Some(draw) = draws.get(area.pane) else { continue };
        let mut part = pane.subarea(area.x, area.y, area.width, area.height);
        part.on_click(ClickTarget::Pane(area.pane));
        draw(state, evaluation, layout, &mut part.with_focus(focused == Some(area.pane)));
    }
}

/// The columns of a graph over time, a summary of an interval or nothing in each.
pub fn time_columns<'a>(state: &'a State, evaluation: &Evaluation, width: u16) -> Vec<Option<&'a IntervalSummary>> {
    time_columns_at(state, evaluation.interval.at(), width)
}

/// The same, up to a time.
pub fn time_columns_at(state: &State, at: Instant, width: u16) -> Vec<Option<&IntervalSummary>> {
    state.history.sweep(at, step_ns(state), width)
}

/// `CPU, last 1m52s`
pub fn over_time(what: &'static str, state: &State, width: u16) -> SafeLine {
    SafeLine::new(what, StyleRole::Bold).with(safe!(", {}", last_seconds(state, width)), StyleRole::Dim)
}

/// `last 1m52s`: the time that a graph of this width has.
pub fn last_seconds(state: &State, width: u16) -> SafeText {
    let seconds = f64::from(width.saturating_sub(1)) * step_ns(state) as f64 / 1e9;
    safe!("last {}", time::duration(seconds))
}

fn step_ns(state: &State) -> u64 {
    state.setup.interval_ms.max(1).saturating_mul(1_000_000)
}

/// Cells of the axis of a graph in the left half, so that the same time is in the same column of all of them.
pub const AXIS_WIDTH: u16 = 8;

/// Cells of the figures right of such a graph.
pub fn figures_width(pane: &Pane) -> u16 {
    if pane.width() >= 90 { 30 } else { 23 }
}

/// Where a pane has its table, and its graph: beside the table, below its rows, or nowhere.
pub fn table_and_graph(pane: &Pane, rows: usize) -> (Rect, Option<Rect>) {
    let area = pane.area();
    if area.width >= TABLE_WIDTH + MIN_GRAPH_WIDTH {
        let [table, graph] = pane.columns([Constraint::Length(TABLE_WIDTH), Constraint::Fill(1)]);
        return (table, Some(graph));
    }
    let rows = u16::try_from(rows.max(1)).unwrap_or(u16::MAX).saturating_add(2);
    if area.height >= rows.saturating_add(MIN_GRAPH_HEIGHT) {
        let [table, graph] = pane.rows([Constraint::Length(rows), Constraint::Fill(1)]);
        return (table, Some(graph));
    }
    (area, None)
}

/// The title of a graph: as many parts as fit.
pub fn graph_title(parts: impl IntoIterator<Item = SafeLine>, width: u16) -> SafeLine {
    let mut title = SafeLine::default();
    for part in parts {
        if !title.is_empty() && title.width() + part.width() > usize::from(width) {
            break;
        }
        title.append(part);
    }
    title
}

/// The next of 1, 2, 5, 10, 20, …, 500 that is at least the value; above that of 1,000 or, in KB, of 1,024 times as much.
pub fn nice_ceiling(value: f32, thousand: f32) -> f32 {
    const STEPS: [f32; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
    let mut unit = 1.0;
    loop {
        match STEPS.into_iter().find(|step| step * unit >= value) {
            Some(step) => return step * unit,
            None if unit > 1e12 => return value,
            None => unit *= thousand,
        }
    }
}

/// Cells of a graph in a row of a table at most.
pub const MAX_SPARKLINE_WIDTH: u16 = 40;

/// Cells of the figures beside a graph.
const TABLE_WIDTH: u16 = 79;

/// Of a graph, its title and axis included.
const MIN_GRAPH_WIDTH: u16 = 24;
const MIN_GRAPH_HEIGHT: u16 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_a_round_number() {
        let kilobytes = |value| nice_ceiling(value, 1024.0);
        assert_eq!([1.0, 1.5, 3.0, 225.0, 600.0, 11_791.0].map(kilobytes), [1.0, 2.0, 5.0, 500.0, 1024.0, 20_480.0]);
        assert_eq!(nice_ceiling(1200.0, 1000.0), 2000.0);
    }
}
