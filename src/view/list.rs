//! The list of a screen: which rows are visible, its scroll bar, and its status text.

use super::pane::Pane;
use super::safe_text::SafeText;
use crate::state::layout::{self, ScreenLayout};
use crate::state::{ClickTarget, Row, Screen, SortColumn, State};

/// A row of the list that is on the screen.
#[derive(Clone, Copy, Debug)]
pub struct VisibleRow {
    pub row: Row,
    /// Its index in `State::rows`
    pub index: usize,
    /// Its first line in the body
    pub y: u16,
    /// Its lines; fewer than it has if it is cut at the end of the list
    pub height: u16,
    /// Whether the cursor is on it
    pub selected: bool,
}

/// The visible rows from top to bottom.
pub fn visible_rows(state: &State, layout: &ScreenLayout) -> Vec<VisibleRow> {
    let mut y = layout.rows_before_list;
    let end = layout.rows_before_list + layout.list_rows;
    let cursor = state.cursor();
    let mut visible = Vec::new();
    for (at, &row) in state.rows().iter().enumerate().skip(cursor.top) {
        if y >= end {
            break;
        }
        let height = u16::try_from(layout::row_height(state, row)).unwrap_or(1).min(end - y);
        visible.push(VisibleRow { row, index: at, y, height, selected: at == cursor.selected && cursor.item.is_some() });
        y += height;
    }
    visible
}

/// Whether the list has more rows than are visible.
pub fn is_cut(state: &State, layout: &ScreenLayout) -> bool {
    state.screen != Screen::Overview && visible_rows(state, layout).len() < state.rows().len()
}

/// Lets a click select a row, and draws the scroll bar of a list with more rows than are visible. Not for the overview, whose rows
/// are drawn items.
pub fn draw_scroll_bar_and_targets(state: &State, layout: &ScreenLayout, body: &mut Pane) {
    if state.screen == Screen::Overview {
        return;
    }
    let list = layout.list_area;
    let visible = visible_rows(state, layout);
    // In a pane the bar is on the frame, else in the last column.
    let row_width = list.width - u16::from(!layout.has_panes() && visible.len() < state.rows().len());
    for row in &visible {
        body.subarea(list.x, list.y + row.y, row_width, row.height).on_click(ClickTarget::Row(row.index));
    }
    let with_frame = list.width + u16::from(layout.has_panes());
    let mut edge = body.subarea(list.x, list.y + layout.rows_before_list, with_frame, layout.list_rows);
    edge.scroll_bar(state.rows().len(), state.cursor().top, visible.len());
}

/// The line after the last visible row.
pub fn list_end(layout: &ScreenLayout, visible: &[VisibleRow]) -> u16 {
    visible.last().map_or(layout.rows_before_list, |last| last.y + last.height)
}

/// Width from which the usual order of tasks is named: a narrow heading has the numbers of tasks.
const MIN_NAMED_ORDER_WIDTH: u16 = 100;

/// Filter, sort order and visible rows of the list, for the right end of a heading.
pub fn list_status(state: &State, layout: &ScreenLayout) -> SafeText {
    let mut words = String::new();
    let sort = state.sort();
    if !state.filter().is_empty() && !state.shows_wait_classes() {
        words = format!("/{} ", state.filter());
    }
    // The order by activity has no column of its own.
    let visible = sort.column != SortColumn::TASK_ACTIVITY || layout.width < MIN_NAMED_ORDER_WIDTH;
    let usual = state.screen.sort_columns().first().is_none_or(|&first| first == sort.column) && !sort.reversed;
    if !(usual && visible) && state.fixed_order_reason().is_none() {
        words += &format!("by {}{} ", sort.column.label(), if sort.reversed { " reversed" } else { "" });
    }
    let last = state.cursor().top + usize::from(layout.list_rows);
    if state.rows().len() > usize::from(layout.list_rows) {
        words += &format!("{}–{} of {}", state.cursor().top + 1, last.min(state.rows().len()), state.rows().len());
    }
    SafeText::sanitize(words)
}
