//! What the panes of all screens share: their frames, the columns of a graph over time, its axis and title.
//!
//! Graphs do not scroll: a new interval overwrites the oldest column, so that few bytes are sent.

use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::StyleRole;
use super::widgets::range_column::{ABOVE_MIN, PEAK};
use crate::findings::Evaluation;
use crate::safe;
use crate::state::graph_columns::GraphColumns;
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

/// `CPU, last 1m52s`; in a replay `CPU, 12:03:10–12:05:02`; with `│ max` where a column shows several intervals.
pub fn in_window(what: &'static str, state: &State, columns: &GraphColumns) -> SafeLine {
    peaks_in_window(what, PEAK, state, columns)
}

/// The same of a graph that shows minima too.
pub fn ranges_in_window(what: &'static str, state: &State, columns: &GraphColumns) -> SafeLine {
    let words = safe!(", {}{}", shown_time(state, columns), ranges_note(columns));
    SafeLine::new(what, StyleRole::Bold).with(words, StyleRole::Dim)
}

/// What the glyphs of a graph mean whose columns show several intervals; in a narrow one only the line, as in all graphs.
pub fn ranges_note(columns: &GraphColumns) -> SafeText {
    match columns.width() {
        _ if !columns.has_peaks => SafeText::default(),
        MIN_WIDTH_FOR_LENGTH.. => safe!("  {ABOVE_MIN} min–mean  {PEAK} max"),
        _ => safe!("  {PEAK} max"),
    }
}

/// The same with the glyph that shows a maximum.
pub fn peaks_in_window(what: &'static str, peak: char, state: &State, columns: &GraphColumns) -> SafeLine {
    let peaks = if columns.has_peaks { format!("  {peak} max") } else { String::new() };
    SafeLine::new(what, StyleRole::Bold).with(safe!(", {}{peaks}", shown_time(state, columns)), StyleRole::Dim)
}

/// The same of a graph that shows maxima only.
pub fn maxima_in_window(what: &'static str, state: &State, columns: &GraphColumns) -> SafeLine {
    let peaks = if columns.has_peaks { ", maxima" } else { "" };
    SafeLine::new(what, StyleRole::Bold).with(safe!(", {}{peaks}", shown_time(state, columns)), StyleRole::Dim)
}

/// The time that a graph shows.
pub fn shown_time(state: &State, columns: &GraphColumns) -> SafeText {
    let Some(window) = columns.window else {
        let seconds = f64::from(columns.width().saturating_sub(1)) * columns.step_ns as f64 / 1e9;
        return safe!("last {}", time::duration(seconds));
    };
    let zone = &state.setup.time_zone;
    let day = |at| text::format_day_prefix(at, zone, state.spans_days());
    let clock = |at| match window.length_ns() {
        7_200_000_000_000.. => text::format_hours_minutes(at, zone),
        _ => time::time_of_day(at, zone),
    };
    let (start, end) = (window.start_ns, window.end_ns);
    let length = match columns.width() {
        MIN_WIDTH_FOR_LENGTH.. => format!(" ({})", time::duration(window.length_ns() as f64 / 1e9)),
        _ => String::new(),
    };
    safe!("{}{}–{}{length}", day(start), clock(start), clock(end))
}

/// Cells of a graph from which the length of its window is named.
const MIN_WIDTH_FOR_LENGTH: u16 = 60;

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

/// The style of a layer of a stacked area: textures are bright, full blocks are not.
pub fn layer_style(pane: &Pane, glyph: char, role: StyleRole) -> Style {
    if glyph == '█' { pane.area_style(role) } else { pane.graph_style(role) }
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
