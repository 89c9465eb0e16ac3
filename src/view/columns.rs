//! The columns of a table: a heading, a width and a function that makes the cell of a row. ratatui's `Table` draws them.
//!
//! One column may take the remaining width. A click on the heading of a sort column sorts, one on a row with an item selects it.

mod sideways;

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::{Cell, Row, Table, Widget};

use super::pane::{Pane, SafeWidget};
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::{StyleRole, Theme};
use crate::figures::{Column, Unit};
use crate::state::{ChoosableColumn, ClickTarget, Item, Sort, SortColumn, State};
use sideways::Sideways;

/// A column of a table. `C` is the function that makes a cell.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec<C> {
    /// Its name among the columns of its table, and in the file of what was chosen
    pub key: &'static str,
    pub heading: &'static str,
    /// 0: the remaining width (one column per table)
    pub width: u16,
    right_aligned: bool,
    pub sort_column: Option<SortColumn>,
    /// Minimum width of the table for this column
    pub min_table_width: u16,
    /// Shown only if the user has chosen it
    pub hidden_by_default: bool,
    /// Its cells are graphs, which are as wide as their cell
    is_graph: bool,
    cell: C,
}

impl<C: Copy> ColumnSpec<C> {
    /// A figure of the catalogue, with its key and heading there; right-aligned, unless it is a name.
    pub const fn figure<T>(column: &'static Column<T>, width: u16, cell: C) -> ColumnSpec<C> {
        let right_aligned = !matches!(column.definition.unit, Unit::Name);
        let spec = ColumnSpec::text(column.definition.heading, width, cell).key(column.definition.key);
        ColumnSpec { right_aligned, ..spec }
    }

    /// A column that is no figure: a description, names below the title of the table. Left-aligned. Its key is its heading,
    /// unless it has another one.
    pub const fn text(heading: &'static str, width: u16, cell: C) -> ColumnSpec<C> {
        ColumnSpec {
            key: heading,
            heading,
            width,
            right_aligned: false,
            sort_column: None,
            min_table_width: 0,
            hidden_by_default: false,
            is_graph: false,
            cell,
        }
    }

    /// Values over time, or a bar.
    pub const fn graph(heading: &'static str, width: u16, cell: C) -> ColumnSpec<C> {
        ColumnSpec { is_graph: true, ..ColumnSpec::text(heading, width, cell) }
    }

    pub const fn key(self, key: &'static str) -> ColumnSpec<C> {
        ColumnSpec { key, ..self }
    }

    /// Whether it is this figure of the catalogue.
    pub fn is_figure<T>(&self, column: &Column<T>) -> bool {
        self.key == column.definition.key
    }

    pub const fn right_aligned(self) -> ColumnSpec<C> {
        ColumnSpec { right_aligned: true, ..self }
    }

    pub const fn sorted_by(self, column: SortColumn) -> ColumnSpec<C> {
        ColumnSpec { sort_column: Some(column), ..self }
    }

    pub const fn min_table_width(self, width: u16) -> ColumnSpec<C> {
        ColumnSpec { min_table_width: width, ..self }
    }

    pub const fn hidden_by_default(self) -> ColumnSpec<C> {
        ColumnSpec { hidden_by_default: true, ..self }
    }

    pub(super) fn choosable(&self) -> ChoosableColumn {
        ChoosableColumn { key: self.key, heading: self.heading, hidden_by_default: self.hidden_by_default }
    }

    pub const fn width(self, width: u16) -> ColumnSpec<C> {
        ColumnSpec { width, ..self }
    }

    /// The same column with another function.
    pub const fn with_cell(self, cell: C) -> ColumnSpec<C> {
        ColumnSpec { cell, ..self }
    }

    fn constraint(&self) -> Constraint {
        if self.width == 0 { Constraint::Fill(1) } else { Constraint::Length(self.width) }
    }
}

/// A cell to be filled, and its width.
pub struct CellContent<'a> {
    cell: &'a mut RowCell,
    pub width: u16,
    /// Text that is longer than the cell is kept, because the table can be moved sideways
    keeps_text: bool,
}

impl CellContent<'_> {
    /// Text with the alignment of the column.
    pub fn text(self, text: impl Into<SafeText>, role: StyleRole) {
        let text = text.into();
        // What is nothing stays in the background.
        let role = if role == StyleRole::Plain && is_zero(text.as_str()) { StyleRole::Dim } else { role };
        self.line(SafeLine::new(text, role));
    }

    /// Text that was shortened to fit; a list that is moved sideways has all of it.
    pub fn excerpt(self, text: impl Into<SafeText>, role: StyleRole) {
        self.cell.goes_on = true;
        self.text(text, role);
    }

    pub fn line(self, line: SafeLine) {
        self.cell.line = if self.keeps_text { line } else { line.truncated(usize::from(self.width)) };
    }

    /// One glyph a cell.
    pub fn glyphs(self, glyphs: impl IntoIterator<Item = (char, StyleRole)>) {
        self.cell.line.push_glyphs(glyphs);
    }

    /// Left-aligned text over all columns that follow.
    pub fn text_over_rest(self, text: impl Into<SafeText>, role: StyleRole) {
        self.cell.line = SafeLine::new(text, role);
        self.cell.over_rest = true;
        self.cell.right_aligned = false;
    }
}

/// Nothing, too little to matter, or unknown.
fn is_zero(text: &str) -> bool {
    matches!(text.trim(), "0" | "0B" | "<.01" | "-")
}

#[derive(Default)]
struct RowCell {
    line: SafeLine,
    right_aligned: bool,
    /// Over all columns that follow
    over_rest: bool,
    /// Its text was shortened to fit
    goes_on: bool,
}

/// A row of cells.
#[derive(Default)]
pub struct TableRow {
    cells: Vec<RowCell>,
    selected: bool,
    /// What a click selects
    item: Option<Item>,
}

impl TableRow {
    /// A row that is one line of text over all columns.
    pub fn line(line: SafeLine) -> TableRow {
        TableRow { cells: vec![RowCell { line, over_rest: true, ..RowCell::default() }], ..TableRow::default() }
    }

    /// The row, highlighted as a whole if it is the `selected` one.
    #[must_use]
    pub fn selected(self, selected: bool) -> TableRow {
        TableRow { selected, ..self }
    }

    /// The row, which a click selects and opens.
    #[must_use]
    pub fn with_item(self, item: Option<Item>) -> TableRow {
        TableRow { item, ..self }
    }

    fn styled(self, columns: usize, theme: Theme) -> Row<'static> {
        let cells = self.cells.into_iter().enumerate().map(|(at, cell)| {
            let line = if self.selected { cell.line.without_dim() } else { cell.line }.into_styled(theme);
            let styled = Cell::from(if cell.right_aligned { line.right_aligned() } else { line });
            if cell.over_rest { styled.column_span(u16::try_from(columns - at).unwrap_or(1)) } else { styled }
        });
        let row = Row::new(cells);
        if self.selected { row.style(theme.cursor_style()) } else { row }
    }
}

/// The columns that fit into a width.
pub struct Columns<C> {
    shown: Vec<ColumnSpec<C>>,
    /// Column and width of each
    places: Vec<Rect>,
    /// Those that the user may hide or show
    choosable: Vec<ChoosableColumn>,
    /// Of the list of a screen, which can be moved sideways
    sideways: Option<Sideways<C>>,
}

impl<C: Copy> Columns<C> {
    /// Without the columns that the user has hidden. The first one is always shown.
    pub fn chosen(state: &State, specs: &[ColumnSpec<C>], width: u16) -> Columns<C> {
        let is_choosable =
            |spec: &ColumnSpec<C>| !spec.heading.is_empty() && specs.first().is_none_or(|first| first.key != spec.key);
        let is_shown = |spec: &&ColumnSpec<C>| !is_choosable(spec) || !state.hides_column(spec.choosable());
        let shown: Vec<ColumnSpec<C>> = specs.iter().filter(is_shown).copied().collect();
        let choosable = specs.iter().filter(|spec| is_choosable(spec)).map(ColumnSpec::choosable).collect();
        Columns { choosable, ..Columns::movable(state, &shown, width) }
    }

    pub fn new(specs: &[ColumnSpec<C>], width: u16) -> Columns<C> {
        let mut shown: Vec<ColumnSpec<C>> = specs.iter().copied().filter(|spec| width >= spec.min_table_width).collect();
        drop_least_important(&mut shown, width);
        // No column is narrower than its figures: those that do not fit are left out.
        let mut end = 0;
        let fits = |spec: &ColumnSpec<C>| {
            let begins = end;
            end += spec.width + 1;
            begins < width && begins + spec.width <= width
        };
        let fitting = shown.iter().map_while(|spec| Some(spec).copied()).take_while(fits).count();
        shown.truncate(fitting);
        let constraints = shown.iter().map(ColumnSpec::constraint);
        let row = Rect::new(0, 0, width, 1);
        let places = Layout::horizontal(constraints).spacing(1).split(row).to_vec();
        Columns { shown, places, choosable: Vec::new(), sideways: None }
    }

    /// Makes a row: `fill(cell function, cell)` fills one cell.
    pub fn row(&self, mut fill: impl FnMut(C, CellContent)) -> TableRow {
        let mut row = TableRow { cells: Vec::with_capacity(self.shown.len()), ..TableRow::default() };
        for (at, (spec, place)) in self.filled_columns().enumerate() {
            let mut cell = RowCell { right_aligned: spec.right_aligned, ..RowCell::default() };
            fill(spec.cell, CellContent { cell: &mut cell, width: place.width, keeps_text: self.keeps_text(at) });
            let over_rest = cell.over_rest;
            row.cells.push(cell);
            if over_rest {
                break;
            }
        }
        row
    }

    /// Draws the headings, in which the sort column is marked, and the rows.
    pub fn draw(&self, pane: &mut Pane, sort: Option<Sort>, rows: impl IntoIterator<Item = TableRow>) {
        if self.is_moved() {
            return self.draw_moved(pane, sort, rows);
        }
        let mut goes_on = self.sideways.as_ref().is_some_and(Sideways::has_columns);
        let width = pane.table_width();
        // Where a scroll bar takes a column, the column with the remaining width is narrower.
        let narrower = self.shown.iter().position(|spec| spec.width == 0).filter(|_| width < pane.width());
        let narrower = narrower.and_then(|at| Some((at, usize::from(self.places.get(at)?.width).saturating_sub(1))));
        let theme = pane.theme();
        let count = self.shown.len();
        if !self.choosable.is_empty() {
            pane.subarea(0, 0, u16::MAX, 1).on_click(ClickTarget::Columns(self.choosable.clone()));
        }
        for (spec, place) in self.shown.iter().zip(&self.places) {
            // A table without an order is no list of the screen.
            if let Some(column) = spec.sort_column.filter(|_| sort.is_some()) {
                pane.subarea(place.x, 0, place.width.saturating_add(1), 1).on_click(ClickTarget::Column(column));
            }
        }
        let mut items = Vec::new();
        let rows: Vec<Row> = (1..pane.height().max(1))
            .zip(rows)
            .map(|(y, mut row)| {
                items.extend(row.item.take().map(|item| (y, item)));
                let kept = self.places.iter().enumerate().skip(self.places.len().saturating_sub(1));
                let kept = kept.map(|(at, place)| (at, usize::from(place.width))).filter(|_| self.sideways.is_some());
                for (at, width) in kept.chain(narrower) {
                    if let Some(cell) = row.cells.get_mut(at).filter(|cell| !cell.over_rest) {
                        goes_on |= self.keeps_text(at) && (cell.goes_on || cell.line.width() > width);
                        let line = std::mem::take(&mut cell.line);
                        let is_graph = self.shown.get(at).is_some_and(|spec| spec.is_graph);
                        // A graph keeps its newest values.
                        let first = line.width().saturating_sub(width);
                        cell.line = match first {
                            0 => line,
                            _ if is_graph => line.window(first, width),
                            _ => line.truncated(width),
                        };
                    }
                }
                row.styled(count, theme)
            })
            .collect();
        for (y, item) in items {
            pane.subarea(0, y, u16::MAX, 1).on_click(ClickTarget::Item(item));
        }
        let sign = self.sideways.as_ref().and_then(Sideways::sign_column);
        let widths = self.shown.iter().map(ColumnSpec::constraint).chain(sign);
        let mut headings = self.headings(sort);
        // The sign takes the last cell of the pane.
        let beside_sign = self.places.last().filter(|_| goes_on).map(|place| pane.width().saturating_sub(place.x + 1));
        let beside_sign = beside_sign.map(|room| (count.saturating_sub(1), usize::from(room)));
        for (at, room) in narrower.into_iter().chain(beside_sign) {
            if let Some(heading) = headings.cells.get_mut(at) {
                heading.line = std::mem::take(&mut heading.line).truncated(room);
            }
        }
        let table = Table::new(rows, widths).column_spacing(1).header(headings.styled(count, theme));
        pane.subarea(0, 0, width, u16::MAX).render(SafeTable(table));
        if goes_on {
            sideways::draw_right_sign(pane);
        }
    }

    fn headings(&self, sort: Option<Sort>) -> TableRow {
        let heading = |(spec, place): (&ColumnSpec<C>, Rect)| {
            let sort = sort.filter(|sort| spec.sort_column == Some(sort.column));
            let role = sort.map_or(StyleRole::Heading, |_| StyleRole::SortHeading);
            let mut line = SafeLine::new(spec.heading, role).truncated(usize::from(place.width));
            if let Some(sort) = sort
                && line.width() < usize::from(place.width)
            {
                let ascending = sort.column.is_ascending() != sort.reversed;
                line.push(if ascending { "▴" } else { "▾" }, StyleRole::SortHeading);
            }
            RowCell { line, right_aligned: spec.right_aligned, ..RowCell::default() }
        };
        TableRow { cells: self.filled_columns().map(heading).collect(), ..TableRow::default() }
    }

    /// How many columns are shown.
    pub fn count(&self) -> usize {
        self.shown.len()
    }

    /// First column and width of the last column.
    pub fn last_column_area(&self) -> Option<(u16, u16)> {
        self.places.last().map(|place| (place.x, place.width))
    }
}

/// Cells of the column with the remaining width at least.
const MIN_REMAINING_WIDTH: u16 = 8;

/// Where columns that the user has added leave too little room, drops those that need the widest table.
fn drop_least_important<C>(shown: &mut Vec<ColumnSpec<C>>, width: u16) {
    let cells = |spec: &ColumnSpec<C>| 1 + if spec.width == 0 { MIN_REMAINING_WIDTH } else { spec.width };
    while shown.iter().map(cells).sum::<u16>() > width.saturating_add(1) && shown.iter().any(|spec| spec.hidden_by_default) {
        let droppable = shown.iter().enumerate().filter(|(_, spec)| !spec.hidden_by_default && spec.min_table_width > 0);
        let Some((least, _)) = droppable.max_by_key(|(_, spec)| spec.min_table_width) else { return };
        shown.remove(least);
    }
}

/// Draws headings and rows that are a line each.
fn draw_lines(pane: &mut Pane, lines: Vec<TableRow>) {
    let theme = pane.theme();
    let mut rows = lines.into_iter().map(|line| line.styled(1, theme));
    let headings = rows.next().unwrap_or_default();
    pane.render(SafeTable(Table::new(rows.collect::<Vec<Row>>(), [Constraint::Fill(1)]).header(headings)));
}

/// A table whose text is that of `SafeLine`s and literals.
struct SafeTable(Table<'static>);

impl Widget for SafeTable {
    fn render(self, area: Rect, buffer: &mut ratatui::buffer::Buffer) {
        self.0.render(area, buffer);
    }
}

impl SafeWidget for SafeTable {}
