//! The lists of the screens: their cursors, sort orders and filters, and the rows of the displayed one.

use rustc_hash::FxHashSet;

use super::State;
use super::column_chooser::ChosenColumns;
use super::cursor::Cursor;
use super::layout::{self, ScreenLayout};
use super::row_order::HeldOrders;
use super::rows::{self, Item, NetworkRows, Row, TaskRows};
use super::screen::Screen;
use super::sort::SortColumn;
use crate::ids::ProcessId;

/// The lists of all screens.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// By `Screen`
    by_screen: [ListState; Screen::ALL.len()],
    /// Rows of the list on the displayed screen
    pub(super) rows: Vec<Row>,
    pub held: HeldOrders,
    /// Tasks screen: the kind of its rows
    pub task_rows: TaskRows,
    /// Tasks screen: the processes whose branches of the tree are folded
    pub(super) folded: FxHashSet<ProcessId>,
    /// Network screen: the kind of its rows
    pub network_rows: NetworkRows,
    pub chosen_columns: ChosenColumns,
    /// Overview: the items on the frame, from top to bottom
    pub(super) drawn_items: Vec<Item>,
    /// The offset at which the list of the last frame ended at the right; `None`: it went on there
    pub(super) end_offset: Option<u16>,
}

/// Cursor, sort order and filter of one screen's list.
#[derive(Clone, Debug, Default)]
struct ListState {
    cursor: Cursor,
    /// Index in `Screen::sort_columns`
    sort_index: usize,
    sort_reversed: bool,
    filter: String,
    /// Cells by which the list is moved, so that it shows what is right of it
    sideways_offset: u16,
}

/// The sort order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: SortColumn,
    pub reversed: bool,
}

impl State {
    fn list(&self) -> &ListState {
        &self.lists.by_screen[self.screen as usize]
    }

    fn list_mut(&mut self) -> &mut ListState {
        &mut self.lists.by_screen[self.screen as usize]
    }

    /// The rows of the displayed list.
    pub fn rows(&self) -> &[Row] {
        &self.lists.rows
    }

    /// The cursor of the displayed list.
    pub fn cursor(&self) -> &Cursor {
        &self.list().cursor
    }

    /// The filter of the displayed list; empty: no filter.
    pub fn filter(&self) -> &str {
        &self.list().filter
    }

    /// The sort order of the displayed list.
    pub fn sort(&self) -> Sort {
        let ListState { sort_index, sort_reversed, .. } = *self.list();
        let column = self.screen.sort_columns().get(sort_index).copied().unwrap_or(SortColumn::NAME);
        Sort { column, reversed: sort_reversed }
    }

    /// Cells by which the displayed list is moved to the left; drawing moves it no further than its longest row.
    pub fn sideways_offset(&self) -> u16 {
        self.list().sideways_offset
    }

    /// Moves the list by a quarter of the screen, from where the last frame had it; no further to the right than its end.
    pub(super) fn move_sideways(&mut self, right: bool) {
        if self.details.is_some() {
            return;
        }
        let step = (self.setup.size.0 / 4).max(8);
        let end = self.lists.end_offset.unwrap_or(u16::MAX);
        let offset = self.sideways_offset().min(end);
        let moved = if right { offset.saturating_add(step).min(end) } else { offset.saturating_sub(step) };
        self.list_mut().sideways_offset = moved;
    }

    /// Whether the rows are wait classes; they have a fixed order and no filter.
    pub fn shows_wait_classes(&self) -> bool {
        self.screen == Screen::Tasks && self.lists.task_rows.is_wait_classes()
    }

    /// Why the sort order cannot be changed, or `None` if it can.
    pub fn fixed_order_reason(&self) -> Option<&'static str> {
        (self.screen.definition().fixed_order_reason)(self)
    }

    pub(super) fn set_filter(&mut self, text: String) {
        self.list_mut().filter = text;
        self.rebuild_rows();
    }

    /// Sorts by the column that is `step` after the current one, in its usual direction.
    pub(super) fn sort_by_neighbor(&mut self, step: isize) {
        let columns = isize::try_from(self.screen.sort_columns().len()).unwrap_or(1).max(1);
        let list = self.list_mut();
        let index = isize::try_from(list.sort_index).unwrap_or(0) + step;
        list.sort_index = index.rem_euclid(columns).unsigned_abs();
        list.sort_reversed = false;
        self.rebuild_rows();
    }

    pub(super) fn reverse_sort(&mut self) {
        let list = self.list_mut();
        list.sort_reversed = !list.sort_reversed;
        self.rebuild_rows();
    }

    /// Sorts by a column; if it is the sort column already, reverses the order.
    pub(super) fn sort_by(&mut self, column: SortColumn) {
        let Some(index) = self.screen.sort_columns().iter().position(|&known| known == column) else { return };
        let list = self.list_mut();
        list.sort_reversed = list.sort_index == index && !list.sort_reversed;
        list.sort_index = index;
        self.rebuild_rows();
    }

    /// Changes what the rows are, and moves the cursor to the first one.
    pub(super) fn regroup(&mut self, change: impl FnOnce(&mut State)) {
        change(self);
        self.list_mut().cursor = Cursor::default();
        self.list_mut().sideways_offset = 0;
        self.rebuild_rows();
    }

    /// Builds the rows again. The cursor stays on its item.
    pub(super) fn rebuild_rows(&mut self) {
        let rows = rows::build_rows(self);
        self.lists.rows = self.in_held_order(rows);
        self.with_cursor(|state, cursor| cursor.follow_item(&state.lists.rows, |row| rows::row_item(state, row)));
    }

    pub(super) fn select_row(&mut self, row: usize) {
        self.with_cursor(|state, cursor| cursor.select(row, &state.lists.rows, |row| rows::row_item(state, row)));
    }

    /// Selects an item of the overview, which need not be a row of its list.
    pub(super) fn select_item(&mut self, item: Item) {
        self.list_mut().cursor.item = Some(item);
        self.rebuild_rows();
    }

    pub(super) fn scroll_to_cursor(&mut self) {
        self.with_cursor(|_, _| ());
    }

    /// Changes the cursor and scrolls to it.
    fn with_cursor(&mut self, change: impl FnOnce(&State, &mut Cursor)) {
        let mut cursor = std::mem::take(&mut self.list_mut().cursor);
        change(self, &mut cursor);
        let height = usize::from(ScreenLayout::new(self).list_rows);
        let row_height = |at: usize| self.lists.rows.get(at).map_or(1, |&row| layout::row_height(self, row));
        cursor.scroll_into_view(self.lists.rows.len(), height, row_height);
        self.list_mut().cursor = cursor;
    }

    /// The item of the selected row.
    pub fn selected_item(&self) -> Option<Item> {
        if self.selects_on_overview()
            && let Some(item) = &self.cursor().item
            // A process that has ended is in no row.
            && (self.lists.drawn_items.is_empty() || self.lists.drawn_items.contains(item))
        {
            return Some(item.clone());
        }
        self.lists.rows.get(self.cursor().selected).and_then(|&row| rows::row_item(self, row))
    }
}
