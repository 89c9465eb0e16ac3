//! Columns that stay where they are: fixed widths, numbers to the right, one column that takes what is left.
//!
//! The same places serve to draw and to find out what a click met.

use crate::state::{Column, Sort};
use crate::view::canvas::{Canvas, Shown};
use crate::view::theme::Ink;

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub heading: &'static str,
    /// 0: takes what the others leave (one column a table)
    pub width: u16,
    pub right: bool,
    pub sort: Option<Column>,
    /// Only where the table is at least this wide
    pub from: u16,
}

impl Spec {
    /// A column of numbers.
    pub const fn number(heading: &'static str, width: u16) -> Spec {
        Spec { heading, width, right: true, sort: None, from: 0 }
    }

    /// A column of words.
    pub const fn words(heading: &'static str, width: u16) -> Spec {
        Spec { heading, width, right: false, sort: None, from: 0 }
    }

    pub const fn by(self, column: Column) -> Spec {
        Spec { sort: Some(column), ..self }
    }

    pub const fn from(self, width: u16) -> Spec {
        Spec { from: width, ..self }
    }
}

/// A column with its place.
#[derive(Clone, Copy, Debug)]
struct Placed {
    spec: Spec,
    x: u16,
    width: u16,
}

/// The columns that there is room for.
pub struct Table {
    placed: Vec<Placed>,
}

impl Table {
    pub fn new(specs: &[Spec], width: u16) -> Table {
        let shown: Vec<Spec> = specs.iter().copied().filter(|spec| width >= spec.from).collect();
        let gaps = u16::try_from(shown.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let fixed: u16 = shown.iter().map(|spec| spec.width).sum::<u16>().saturating_add(gaps);
        let left = width.saturating_sub(fixed);
        let mut x = 0;
        let mut placed = Vec::with_capacity(shown.len());
        for spec in shown {
            let width = if spec.width == 0 { left } else { spec.width };
            placed.push(Placed { spec, x, width });
            x += width + 1;
        }
        Table { placed }
    }

    /// The headings; the one that the rows are ordered by is marked.
    pub fn heading(&self, canvas: &mut Canvas, y: u16, sort: Option<Sort>) {
        for column in &self.placed {
            let by = sort.is_some_and(|sort| column.spec.sort == Some(sort.column));
            let ink = if by { Ink::Key } else { Ink::Heading };
            if column.spec.right {
                canvas.right(column.x, y, column.width, column.spec.heading, ink);
            } else {
                canvas.text(column.x, y, column.width, column.spec.heading, ink);
            }
        }
    }

    /// Puts something under a heading; nothing where there is no room for that column.
    pub fn put(&self, canvas: &mut Canvas, y: u16, heading: &str, text: impl Shown, ink: Ink) {
        let Some((x, width)) = self.place(heading) else { return };
        let right = self.placed.iter().any(|column| column.spec.heading == heading && column.spec.right);
        if right {
            canvas.right(x, y, width, text, ink);
        } else {
            canvas.text(x, y, width, text, ink);
        }
    }

    /// First cell and width of a column.
    pub fn place(&self, heading: &str) -> Option<(u16, u16)> {
        self.placed.iter().find(|column| column.spec.heading == heading).map(|column| (column.x, column.width))
    }

    /// What a click on the headings would sort by.
    pub fn column_at(&self, x: u16) -> Option<Column> {
        self.placed.iter().find(|column| x >= column.x && x < column.x + column.width + 1)?.spec.sort
    }
}
