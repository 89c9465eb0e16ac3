//! A table of a details page. It may be scrolled like the lines of the page; its headings stay in sight.

use crate::state::Item;
use crate::view::columns::{ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;

/// A column: its heading, and its width; 0 is the remaining width.
pub struct PageColumn {
    spec: ColumnSpec<usize>,
}

/// A column of numbers.
pub const fn number(heading: &'static str, width: u16) -> PageColumn {
    PageColumn { spec: ColumnSpec::text(heading, width, 0).right_aligned() }
}

/// A column of words.
pub const fn words(heading: &'static str, width: u16) -> PageColumn {
    PageColumn { spec: ColumnSpec::text(heading, width, 0) }
}

/// Rows below headings.
pub struct PageTable {
    columns: Vec<ColumnSpec<usize>>,
    rows: Vec<PageRow>,
}

struct PageRow {
    cells: Vec<SafeText>,
    role: StyleRole,
    /// Whose page a click, or Enter on the selected row, opens
    item: Option<Item>,
}

/// Columns left of the table.
const INDENT: u16 = 2;

impl PageTable {
    pub fn new<const N: usize>(columns: [PageColumn; N]) -> PageTable {
        PageTable::from_columns(columns.into_iter())
    }

    /// As `new`, with columns that depend on what is shown.
    pub fn from_columns(columns: impl Iterator<Item = PageColumn>) -> PageTable {
        PageTable { columns: columns.enumerate().map(|(at, column)| column.spec.with_cell(at)).collect(), rows: Vec::new() }
    }

    /// Adds a row for such columns.
    pub fn push_cells(&mut self, cells: impl Iterator<Item = SafeText>, role: StyleRole) {
        self.rows.push(PageRow { cells: cells.collect(), role, item: None });
    }

    /// Adds a row: the texts of its cells.
    pub fn push<const N: usize>(&mut self, cells: [SafeText; N], role: StyleRole) {
        self.rows.push(PageRow { cells: cells.into(), role, item: None });
    }

    /// Adds a row that can be selected and opened.
    pub fn push_item<const N: usize>(&mut self, cells: [SafeText; N], item: Item, role: StyleRole) {
        self.rows.push(PageRow { cells: cells.into(), role, item: Some(item) });
    }

    /// The items of the rows, with their lines below the headings.
    pub fn items(&self) -> impl Iterator<Item = (usize, &Item)> {
        (1..).zip(&self.rows).filter_map(|(line, row)| Some((line, row.item.as_ref()?)))
    }

    /// Lines with the headings.
    pub fn height(&self) -> usize {
        1 + self.rows.len()
    }

    /// Draws the table from row `y` on, without its first `skipped` rows. The row of the selected item is marked.
    pub fn draw(&self, pane: &mut Pane, y: u16, skipped: usize, selected: Option<&Item>) {
        let mut pane = pane.subarea(INDENT, y, u16::MAX, u16::MAX);
        let columns = Columns::new(&self.columns, pane.width());
        let rows = self.rows.iter().skip(skipped).map(|PageRow { cells, role, item }| {
            let row = columns.row(|at, cell| {
                if let Some(text) = cells.get(at) {
                    cell.text(text.clone(), *role);
                }
            });
            row.selected(item.is_some() && item.as_ref() == selected).with_item(item.clone())
        });
        columns.draw(&mut pane, None, rows);
    }
}
