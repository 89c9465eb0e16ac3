//! A table against the same table of the sample that is referred to: only rows that changed, are new or are gone.
//!
//! docs/recording-format.md, "Tables", has the bytes.

use rustc_hash::FxHashMap;

use crate::recording::format::column::{MAX_FREE_ROWS, write_column};
use crate::recording::format::table::{MAX_CELLS, RowChange, Rows, Table};
use crate::recording::format::wire::put_varint;

/// The differences of one table, ready to be written.
pub struct RowDiff {
    table: Table,
    runs: Vec<(RowChange, u64)>,
    /// The differences of rows that changed.
    changed: Rows,
    /// The first new row is separate: its steps are larger than those of the others.
    first_new: Rows,
    other_new: Rows,
    /// What the next new row is a step from.
    last_new: Vec<u64>,
}

impl RowDiff {
    /// A table to be filled row by row, in the order of the new table.
    pub fn new(table: Table) -> RowDiff {
        let rows = || Rows::new(table.width);
        let last_new = vec![0; table.width];
        RowDiff { table, runs: Vec::new(), changed: rows(), first_new: rows(), other_new: rows(), last_new }
    }

    /// All rows of `current` against `reference`, paired by their keys. Any order is kept; an unchanged order is cheap. The
    /// first new row is a step from the last row of `reference`.
    pub fn between(table: Table, reference: &Rows, current: &Rows) -> RowDiff {
        let mut diff = RowDiff::new(table);
        if let Some(last) = reference.last() {
            diff.last_new.copy_from_slice(last);
        }
        let mut places: Option<FxHashMap<&[u64], usize>> = None;
        let mut next = 0;
        for row in current.iter() {
            let key = row.get(..table.keys).unwrap_or_default();
            let straight = reference.row(next).filter(|old| old.starts_with(key));
            let found = match straight {
                Some(old) => Some((next, old)),
                None => {
                    let places = places.get_or_insert_with(|| {
                        reference.iter().enumerate().filter_map(|(at, old)| Some((old.get(..table.keys)?, at))).collect()
                    });
                    let at = places.get(key).copied().filter(|&at| at >= next);
                    at.and_then(|at| Some((at, reference.row(at)?)))
                }
            };
            match found {
                Some((at, old)) => {
                    diff.append_run(RowChange::Gone, (at - next) as u64);
                    next = at + 1;
                    if old == row { diff.append_same() } else { diff.append_changed(old, row) }
                }
                None => diff.append_new(row),
            }
        }
        diff.append_run(RowChange::Gone, reference.len().saturating_sub(next) as u64);
        diff
    }

    fn append_run(&mut self, change: RowChange, count: u64) {
        match self.runs.last_mut() {
            _ if count == 0 => {}
            Some((last, length)) if *last == change => *length += count,
            _ => self.runs.push((change, count)),
        }
    }

    pub fn append_same(&mut self) {
        self.append_run(RowChange::Same, 1);
    }

    pub fn append_gone(&mut self) {
        self.append_run(RowChange::Gone, 1);
    }

    pub fn append_changed(&mut self, old: &[u64], new: &[u64]) {
        self.append_run(RowChange::Changed, 1);
        let row = self.changed.append();
        row.iter_mut().zip(new.iter().zip(old)).for_each(|(cell, (new, old))| *cell = new.wrapping_sub(*old));
    }

    pub fn append_new(&mut self, new: &[u64]) {
        self.append_run(RowChange::New, 1);
        let rows = if self.first_new.is_empty() { &mut self.first_new } else { &mut self.other_new };
        let cells = rows.append().iter_mut().zip(self.last_new.iter_mut().zip(new)).enumerate();
        for (at, (cell, (last, new))) in cells {
            *cell = if at < self.table.steps { new.wrapping_sub(*last) } else { *new };
            *last = *new;
        }
    }

    pub fn is_too_large(&self) -> bool {
        self.cell_count() > MAX_CELLS
    }

    /// Columns of all rows that are written.
    pub fn cell_count(&self) -> usize {
        (self.changed.len() + self.first_new.len() + self.other_new.len()) * self.table.width
    }

    /// Whether nothing changed, so that the section may be left out.
    pub fn is_all_same(&self) -> bool {
        self.runs.iter().all(|(change, _)| *change == RowChange::Same)
    }

    /// Appends the section, with its number and length. `scratch` is a buffer that is used again.
    pub fn write(&self, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        scratch.clear();
        put_varint(scratch, self.runs.len() as u64);
        for &(change, length) in &self.runs {
            put_varint(scratch, length << 2 | change as u64);
        }
        let mut values = Vec::new();
        for rows in [&self.changed, &self.first_new, &self.other_new].into_iter().filter(|rows| !rows.is_empty()) {
            write_rows(rows, self.table.width, scratch, &mut values);
        }
        put_section(out, self.table.section, scratch);
    }
}

/// Appends the columns of `rows` that are not 0 in all of them.
fn write_rows(rows: &Rows, width: usize, out: &mut Vec<u8>, values: &mut Vec<u64>) {
    let needs_bits = rows.len() > MAX_FREE_ROWS;
    let mut used = vec![false; width];
    for row in rows.iter() {
        used.iter_mut().zip(row).for_each(|(used, &cell)| *used |= cell != 0);
    }
    if let Some(first) = used.first_mut() {
        *first |= needs_bits;
    }
    put_varint(out, used.iter().filter(|used| **used).count() as u64);
    let mut before = 0;
    for (column, _) in used.into_iter().enumerate().filter(|(_, used)| *used) {
        values.clear();
        values.extend(rows.column(column));
        write_column(out, column - before, values, needs_bits && column == 0);
        before = column;
    }
}

/// Bytes that a section's number and length take at most.
pub const MAX_SECTION_HEAD: usize = 20;

/// Appends a section: its number, its length, its bytes.
pub fn put_section(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_section_head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the number and the length of a section, which precede its bytes.
pub fn put_section_head(out: &mut Vec<u8>, number: u64, length: usize) {
    put_varint(out, number);
    put_varint(out, length as u64);
}
