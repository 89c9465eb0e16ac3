//! A list that is wider than the screen: `(` and `)` move it sideways. Its first column stays.
//!
//! What does not fit stands beyond the right edge: the columns for which the screen is too narrow, and the end of a long text in the
//! last column. A sign in the line of the headings says on which side there is more.

use ratatui::layout::{Constraint, Rect};

use super::{ColumnSpec, Columns, TableRow, draw_lines};
use crate::state::keys::Action;
use crate::state::{ClickTarget, Sort, State};
use crate::units::SmallSort;
use crate::view::pane::Pane;
use crate::view::panes::MAX_SPARKLINE_WIDTH;
use crate::view::safe_line::SafeLine;
use crate::view::theme::StyleRole;

/// Cells of a text at most, beyond the edge.
const MAX_TEXT_WIDTH: u16 = 512;

/// Cells of the text in the last column of the screen, where columns follow it beyond the edge.
const WIDE_TEXT_WIDTH: u16 = 40;

/// The column of the sign, and the blank before it.
const SIGN_WIDTH: u16 = 2;

/// What a list has beyond the right edge.
pub(super) struct Sideways<C> {
    /// Cells by which the list is moved; 0: not
    offset: u16,
    has_columns: bool,
    /// Whether the sign has a column of its own
    has_sign_column: bool,
    /// All columns with their places beside each other, if it is moved
    moved: Vec<(ColumnSpec<C>, Rect)>,
}

impl<C> Sideways<C> {
    /// Whether there are columns beyond the edge.
    pub(super) fn has_columns(&self) -> bool {
        self.has_columns
    }

    pub(super) fn sign_column(&self) -> Option<Constraint> {
        self.has_sign_column.then_some(Constraint::Length(1))
    }
}

impl<C: Copy> Columns<C> {
    /// The columns of the list of the displayed screen.
    pub fn movable(state: &State, specs: &[ColumnSpec<C>], width: u16) -> Columns<C> {
        let columns = Columns::new(specs, width);
        // The other screens have no key for it.
        if state.screen.sort_columns().is_empty() {
            return columns;
        }
        let fits = |spec: &ColumnSpec<C>| columns.shown.iter().any(|shown| shown.key == spec.key);
        let mut beyond: Vec<_> = specs.iter().filter(|spec| !spec.heading.is_empty() && !fits(spec)).copied().collect();
        // A text has no end: nothing follows it.
        beyond.small_sort_by_key(|spec| spec.width == 0);
        // The heading of a column of numbers ends at the edge: the sign needs room of its own.
        let has_sign_column = !beyond.is_empty() && columns.shown.last().is_some_and(|last| last.right_aligned);
        let columns = if has_sign_column { Columns::new(specs, width.saturating_sub(SIGN_WIDTH)) } else { columns };
        let offset = state.sideways_offset();
        let moved = if offset > 0 { columns.beside_each_other(&beyond) } else { Vec::new() };
        Columns { sideways: Some(Sideways { offset, has_columns: !beyond.is_empty(), has_sign_column, moved }), ..columns }
    }

    /// The columns on the screen and those beyond its edge, with their places.
    fn beside_each_other(&self, beyond: &[ColumnSpec<C>]) -> Vec<(ColumnSpec<C>, Rect)> {
        let mut columns: Vec<(ColumnSpec<C>, Rect)> = self.shown.iter().copied().zip(self.places.iter().copied()).collect();
        if let Some((spec, place)) = columns.last_mut()
            && is_text(spec)
        {
            place.width = place.width.max(if beyond.is_empty() { MAX_TEXT_WIDTH } else { WIDE_TEXT_WIDTH });
        }
        let mut x = columns.last().map_or(0, |(_, place)| place.right().saturating_add(1));
        for spec in beyond {
            let width = match spec.width {
                0 if spec.is_graph => MAX_SPARKLINE_WIDTH,
                0 => MAX_TEXT_WIDTH,
                width => width,
            };
            columns.push((*spec, Rect::new(x, 0, width, 1)));
            x = x.saturating_add(width).saturating_add(1);
        }
        columns
    }

    pub(super) fn is_moved(&self) -> bool {
        self.sideways.as_ref().is_some_and(|sideways| sideways.offset > 0)
    }

    /// The columns of which a row has cells.
    pub(super) fn filled_columns(&self) -> impl Iterator<Item = (&ColumnSpec<C>, Rect)> {
        let moved = self.sideways.iter().flat_map(|sideways| &sideways.moved).map(|(spec, place)| (spec, *place));
        let unmoved = self.shown.iter().zip(self.places.iter().copied());
        moved.chain(unmoved.filter(|_| !self.is_moved()))
    }

    /// Whether a cell of this column keeps a text that is longer than it is, so that it is known that the text goes on.
    pub(super) fn keeps_text(&self, at: usize) -> bool {
        self.sideways.is_some() && at + 1 == self.shown.len() && self.shown.last().is_some_and(is_text)
    }

    /// Draws headings and rows from the offset on; the first column stays.
    pub(super) fn draw_moved(&self, pane: &mut Pane, sort: Option<Sort>, rows: impl IntoIterator<Item = TableRow>) {
        let Some(sideways) = &self.sideways else { return };
        let width = pane.table_width();
        let fixed = sideways.moved.first().map_or(0, |(_, place)| place.right() + 1).min(width / 2);
        let room = width - fixed;
        let rows = rows.into_iter().take(usize::from(pane.height().saturating_sub(1)));
        let rows: Vec<MovedRow> = std::iter::once(self.headings(sort)).chain(rows).map(|row| self.moved_row(row)).collect();
        let longest = rows.iter().map(|row| row.line.width()).max().unwrap_or(0);
        let most = u16::try_from(longest).unwrap_or(u16::MAX).saturating_sub(width);
        let offset = sideways.offset.min(most);
        self.draw_targets(pane, sort, (fixed, offset));
        let mut lines = Vec::with_capacity(rows.len());
        for (y, row) in (0..).zip(rows) {
            if let Some(item) = row.item {
                pane.subarea(0, y, u16::MAX, 1).on_click(ClickTarget::Item(item));
            }
            let line = match row.stays {
                true => row.line,
                false => {
                    let mut line = row.line.clone().window(0, usize::from(fixed));
                    line.pad_to(usize::from(fixed));
                    line.append(row.line.window(usize::from(fixed + offset), usize::from(room)));
                    line
                }
            };
            lines.push(TableRow::line(line).selected(row.selected));
        }
        draw_lines(&mut pane.subarea(0, 0, width, u16::MAX), lines);
        if offset > 0 {
            draw_sign(pane, fixed.saturating_sub(1), "‹", ClickTarget::MovedList(offset));
        }
        if offset < most {
            draw_right_sign(pane);
        }
    }

    /// What a click on the headings does.
    fn draw_targets(&self, pane: &mut Pane, sort: Option<Sort>, (fixed, offset): (u16, u16)) {
        if !self.choosable.is_empty() {
            pane.subarea(0, 0, u16::MAX, 1).on_click(ClickTarget::Columns(self.choosable.clone()));
        }
        for (spec, place) in self.filled_columns() {
            let Some(column) = spec.sort_column.filter(|_| sort.is_some()) else { continue };
            let stays = place.x < fixed;
            let edge = |x: u16| if stays { x } else { x.saturating_sub(offset).max(fixed) };
            let (from, until) = (edge(place.x), edge(place.right() + 1));
            pane.subarea(from, 0, until.saturating_sub(from), 1).on_click(ClickTarget::Column(column));
        }
    }

    /// The cells of a row beside each other.
    fn moved_row(&self, row: TableRow) -> MovedRow {
        let stays = row.cells.first().is_some_and(|cell| cell.over_rest);
        let mut line = SafeLine::default();
        for (cell, (_, place)) in row.cells.into_iter().zip(self.filled_columns()) {
            let width = usize::from(place.width);
            let text = if cell.over_rest { cell.line } else { cell.line.truncated(width) };
            let blanks = if cell.right_aligned { width.saturating_sub(text.width()) } else { 0 };
            line.pad_to(usize::from(place.x) + blanks);
            line.append(text);
        }
        MovedRow { line, stays, selected: row.selected, item: row.item }
    }
}

/// A row as one line.
struct MovedRow {
    line: SafeLine,
    /// It is a line of text over all columns
    stays: bool,
    selected: bool,
    item: Option<crate::state::Item>,
}

/// A column of text that takes the remaining width.
fn is_text<C>(spec: &ColumnSpec<C>) -> bool {
    spec.width == 0 && !spec.right_aligned && !spec.is_graph
}

/// Draws the sign that there is more at the right.
pub(super) fn draw_right_sign(pane: &mut Pane) {
    draw_sign(pane, pane.width().saturating_sub(1), "›", ClickTarget::Action(Action::MoveRight));
}

fn draw_sign(pane: &mut Pane, x: u16, sign: &'static str, target: ClickTarget) {
    let mut cell = pane.subarea(x, 0, 1, 1);
    cell.line(0, (sign, StyleRole::Key));
    cell.on_click(target);
}
