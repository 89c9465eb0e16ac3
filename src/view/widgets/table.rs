//! Tables with columns of fixed width; one column may take the remaining width.
//!
//! Each column has a function that draws its cell. The column positions also map clicks on headings to sort columns.

use crate::figures::{Column, Unit};
use crate::state::{Sort, SortColumn};
use crate::view::canvas::{Canvas, DisplayText};
use crate::view::theme::StyleRole;

/// A column of a table. `C` is the function that draws a cell.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec<C> {
    pub heading: &'static str,
    /// 0: the remaining width (one column per table)
    pub width: u16,
    right_aligned: bool,
    pub sort_column: Option<SortColumn>,
    /// Minimum width of the table for this column
    pub min_table_width: u16,
    cell: C,
}

impl<C: Copy> ColumnSpec<C> {
    /// A figure of the catalogue, with its heading there; right-aligned, unless it is a name.
    pub const fn figure<T>(column: &'static Column<T>, width: u16, cell: C) -> ColumnSpec<C> {
        let right_aligned = !matches!(column.definition.unit, Unit::Name);
        ColumnSpec { right_aligned, ..ColumnSpec::text(column.definition.heading, width, cell) }
    }

    /// What is no figure: a graph, a description, names below the title of the table. Left-aligned.
    pub const fn text(heading: &'static str, width: u16, cell: C) -> ColumnSpec<C> {
        ColumnSpec { heading, width, right_aligned: false, sort_column: None, min_table_width: 0, cell }
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

    pub const fn width(self, width: u16) -> ColumnSpec<C> {
        ColumnSpec { width, ..self }
    }
}

/// Position and width of a cell.
pub struct CellArea<'a, 'canvas> {
    pub canvas: &'a mut Canvas<'canvas>,
    pub x: u16,
    pub y: u16,
    pub width: u16,
    right_aligned: bool,
}

impl CellArea<'_, '_> {
    /// Draws text with the alignment of the column.
    pub fn text(self, text: impl DisplayText, role: StyleRole) {
        if self.right_aligned {
            self.canvas.text_right(self.x, self.y, self.width, text, role);
        } else {
            self.canvas.text(self.x, self.y, self.width, text, role);
        }
    }
}

/// A column with its position.
#[derive(Clone, Copy, Debug)]
struct PlacedColumn<C> {
    spec: ColumnSpec<C>,
    x: u16,
    width: u16,
}

/// The columns that fit into the width.
pub struct Table<C> {
    columns: Vec<PlacedColumn<C>>,
}

impl<C: Copy> Table<C> {
    pub fn new(specs: &[ColumnSpec<C>], width: u16) -> Table<C> {
        let shown: Vec<ColumnSpec<C>> = specs.iter().copied().filter(|spec| width >= spec.min_table_width).collect();
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

    /// Draws the headings; the sort column is highlighted.
    pub fn draw_header(&self, canvas: &mut Canvas, y: u16, sort: Option<Sort>) {
        for column in &self.columns {
            let by = sort.is_some_and(|sort| column.spec.sort_column == Some(sort.column));
            let role = if by { StyleRole::Key } else { StyleRole::Heading };
            column.area(canvas, y).text(column.spec.heading, role);
        }
    }

    /// Draws a row: `draw(cell function, area)` draws one cell.
    pub fn draw_row(&self, canvas: &mut Canvas, y: u16, mut draw: impl FnMut(C, CellArea)) {
        for column in &self.columns {
            draw(column.spec.cell, column.area(canvas, y));
        }
    }

    /// First column and width of the last column.
    pub fn last_column_area(&self) -> Option<(u16, u16)> {
        self.columns.last().map(|column| (column.x, column.width))
    }

    /// The sort column at a column of the headings.
    pub fn sort_column_at(&self, x: u16) -> Option<SortColumn> {
        self.columns.iter().find(|column| x >= column.x && x < column.x + column.width + 1)?.spec.sort_column
    }
}

impl<C> PlacedColumn<C> {
    fn area<'a, 'canvas>(&self, canvas: &'a mut Canvas<'canvas>, y: u16) -> CellArea<'a, 'canvas> {
        CellArea { canvas, x: self.x, y, width: self.width, right_aligned: self.spec.right_aligned }
    }
}
