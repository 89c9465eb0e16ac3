//! Columns that stay where they are: fixed widths, numbers to the right, one column that takes what is left.
//!
//! The same places serve to draw and to find out what a click met.

use crate::state::{Sort, SortColumn};
use crate::view::canvas::{Canvas, DisplayText};
use crate::view::theme::StyleRole;

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    pub heading: &'static str,
    /// 0: takes what the others leave (one column a table)
    pub width: u16,
    pub right_aligned: bool,
    pub sort_column: Option<SortColumn>,
    /// Only where the table is at least this wide
    pub min_table_width: u16,
}

impl ColumnSpec {
    /// A column of numbers.
    pub const fn numeric(heading: &'static str, width: u16) -> ColumnSpec {
        ColumnSpec { heading, width, right_aligned: true, sort_column: None, min_table_width: 0 }
    }

    /// A column of words.
    pub const fn text(heading: &'static str, width: u16) -> ColumnSpec {
        ColumnSpec { heading, width, right_aligned: false, sort_column: None, min_table_width: 0 }
    }

    pub const fn sorted_by(self, column: SortColumn) -> ColumnSpec {
        ColumnSpec { sort_column: Some(column), ..self }
    }

    pub const fn min_table_width(self, width: u16) -> ColumnSpec {
        ColumnSpec { min_table_width: width, ..self }
    }
}

/// A column with its place.
#[derive(Clone, Copy, Debug)]
struct PlacedColumn {
    spec: ColumnSpec,
    x: u16,
    width: u16,
}

/// The columns that there is room for.
pub struct Table {
    columns: Vec<PlacedColumn>,
}

impl Table {
    pub fn new(specs: &[ColumnSpec], width: u16) -> Table {
        let shown: Vec<ColumnSpec> = specs.iter().copied().filter(|spec| width >= spec.min_table_width).collect();
        let gaps = u16::try_from(shown.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let fixed: u16 = shown.iter().map(|spec| spec.width).sum::<u16>().saturating_add(gaps);
        let left = width.saturating_sub(fixed);
        let mut x = 0;
        let mut placed = Vec::with_capacity(shown.len());
        for spec in shown {
            let width = if spec.width == 0 { left } else { spec.width };
            placed.push(PlacedColumn { spec, x, width });
            x += width + 1;
        }
        Table { columns: placed }
    }

    /// The headings; the one that the rows are ordered by is marked.
    pub fn draw_header(&self, canvas: &mut Canvas, y: u16, sort: Option<Sort>) {
        for column in &self.columns {
            let by = sort.is_some_and(|sort| column.spec.sort_column == Some(sort.column));
            let ink = if by { StyleRole::Key } else { StyleRole::Heading };
            if column.spec.right_aligned {
                canvas.text_right(column.x, y, column.width, column.spec.heading, ink);
            } else {
                canvas.text(column.x, y, column.width, column.spec.heading, ink);
            }
        }
    }

    /// Puts something under a heading; nothing where there is no room for that column.
    pub fn draw_cell(&self, canvas: &mut Canvas, y: u16, heading: &str, text: impl DisplayText, ink: StyleRole) {
        let Some((x, width)) = self.column_area(heading) else { return };
        let right = self.columns.iter().any(|column| column.spec.heading == heading && column.spec.right_aligned);
        if right {
            canvas.text_right(x, y, width, text, ink);
        } else {
            canvas.text(x, y, width, text, ink);
        }
    }

    /// First cell and width of a column.
    pub fn column_area(&self, heading: &str) -> Option<(u16, u16)> {
        self.columns.iter().find(|column| column.spec.heading == heading).map(|column| (column.x, column.width))
    }

    /// What a click on the headings would sort by.
    pub fn sort_column_at(&self, x: u16) -> Option<SortColumn> {
        self.columns.iter().find(|column| x >= column.x && x < column.x + column.width + 1)?.spec.sort_column
    }
}
