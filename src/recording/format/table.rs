//! Tables: lists of rows of 64-bit columns, and the kinds of change of a row from one sample to the next.

use std::ops::Range;

/// Columns that all rows of one table of one frame may have together: 32 MiB, about 150,000 threads.
pub const MAX_CELLS: usize = 4 << 20;
/// Columns that all frames which are decoded for one sample may have together: the decoder holds them in memory.
pub const MAX_CHAIN_CELLS: usize = 6 * MAX_CELLS;

/// The fixed properties of a table. They are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Number of its section in the payload.
    pub section: u64,
    /// Columns of a row.
    pub width: usize,
    /// The first columns that identify the object which the row describes.
    pub keys: usize,
    /// The first columns of a new row that are stored as differences from the new row before.
    pub steps: usize,
}

/// Rows of one width in memory. A table without columns has no rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    width: usize,
    cells: Vec<u64>,
}

impl Rows {
    pub fn new(width: usize) -> Rows {
        Rows { width, cells: Vec::new() }
    }

    /// An empty table with capacity for this number of rows.
    pub fn with_capacity(width: usize, count: usize) -> Rows {
        Rows { width, cells: Vec::with_capacity(width * count) }
    }

    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub fn row(&self, at: usize) -> Option<&[u64]> {
        let from = at.checked_mul(self.width)?;
        self.cells.get(from..from.checked_add(self.width)?)
    }

    /// The values of consecutive rows; nothing where the table has fewer.
    pub fn range(&self, places: Range<usize>) -> &[u64] {
        let cells = places.start.saturating_mul(self.width)..places.end.saturating_mul(self.width);
        self.cells.get(cells).unwrap_or_default()
    }

    pub fn last(&self) -> Option<&[u64]> {
        self.cells.get(self.cells.len().checked_sub(self.width)?..)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        self.cells.chunks_exact(self.width.max(1))
    }

    /// The values of one column, from the first row on.
    pub fn column(&self, column: usize) -> impl Iterator<Item = u64> {
        let cells = if column < self.width { self.cells.get(column..) } else { None };
        cells.unwrap_or_default().iter().step_by(self.width.max(1)).copied()
    }

    /// Appends a row, or consecutive rows.
    pub fn push(&mut self, row: &[u64]) {
        self.cells.extend_from_slice(row);
    }

    /// Appends a copy of a row, to be changed; where it has another width, a row of zeros.
    pub fn append_copy(&mut self, row: &[u64]) -> &mut [u64] {
        if row.len() != self.width {
            return self.append();
        }
        let from = self.cells.len();
        self.cells.extend_from_slice(row);
        self.cells.get_mut(from..).unwrap_or_default()
    }

    /// Appends a row of zeros, to be filled.
    pub fn append(&mut self) -> &mut [u64] {
        let from = self.cells.len();
        self.cells.resize(from + self.width, 0);
        self.cells.get_mut(from..).unwrap_or_default()
    }
}

/// What became of a row since the sample that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange {
    Same,
    Changed,
    New,
    Gone,
}

impl RowChange {
    pub fn from_code(code: u64) -> RowChange {
        match code & 3 {
            0 => RowChange::Same,
            1 => RowChange::Changed,
            2 => RowChange::New,
            _ => RowChange::Gone,
        }
    }
}
