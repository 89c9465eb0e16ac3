//! The list of a screen: its visible rows with the cursor, and its status text.

use super::canvas::Canvas;
use super::safe_text::SafeText;
use crate::state::layout::{self, ScreenLayout};
use crate::state::{Row, State};

/// Draws the visible rows with `draw(canvas, first line, row)`; returns the line after the last row.
pub fn draw_list(
    state: &State,
    layout: &ScreenLayout,
    canvas: &mut Canvas,
    mut draw: impl FnMut(&mut Canvas, u16, Row),
) -> u16 {
    let mut y = layout.rows_before_list;
    let end = layout.rows_before_list + layout.list_rows;
    let cursor = state.cursor();
    for (at, &row) in state.rows.iter().enumerate().skip(cursor.top) {
        let lines = u16::try_from(layout::row_height(state, row)).unwrap_or(1);
        if y >= end {
            break;
        }
        let height = lines.min(end - y);
        draw(&mut canvas.subarea(0, 0, u16::MAX, y + height), y, row);
        if at == cursor.selected && cursor.item.is_some() {
            canvas.highlight_rows(y, height);
        }
        y += height;
    }
    y
}

/// Filter, sort order and visible rows of the list, for the right end of a heading.
pub fn list_status(state: &State, layout: &ScreenLayout) -> SafeText {
    let mut words = String::new();
    let sort = state.sort();
    if !state.filter().is_empty() && !state.shows_wait_classes() {
        words = format!("/{} ", state.filter());
    }
    let usual = state.screen.sort_columns().first().is_none_or(|&first| first == sort.column) && !sort.reversed;
    if !usual && state.fixed_order_reason().is_none() {
        words += &format!("by {}{} ", sort.column.label(), if sort.reversed { " reversed" } else { "" });
    }
    let last = state.cursor().top + usize::from(layout.list_rows);
    if state.rows.len() > usize::from(layout.list_rows) {
        words += &format!("{}–{} of {}", state.cursor().top + 1, last.min(state.rows.len()), state.rows.len());
    }
    SafeText::sanitize(words)
}
