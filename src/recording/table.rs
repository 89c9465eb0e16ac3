//! Tables of cells against the same table in an earlier frame: only rows that changed, came or went, one array a column.
//!
//! ```text
//! runs       count, then each run: length << 2 | (0 same, 1 changed, 2 new, 3 gone), in the order of the new table
//! columns    count, then each column: its number less the one before, and one difference a changed or new row
//! ```
//! A changed cell is a difference from the earlier frame's; a new row's differs from 0, or in the first `steps` columns
//! from the new row before. Column 0 is always there, so that no count of rows is larger than the bytes that follow.

use rustc_hash::FxHashMap;

use super::columns::{BitSink, BitSource, put_column, read_column, read_gap};
use super::layout::Layout;
use super::wire::{Input, Malformed, put_varint};

/// Cells that one table of one frame may decode to: 32 MiB, about 150,000 threads.
pub const MAX_CELLS: usize = 4 << 20;

/// What is fixed about a table. Its numbers are part of the format.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub section: u64,
    pub width: usize,
    /// The first cells say which thing the row is about.
    pub keys: usize,
    /// The first cells of a new row are likely to resemble those of the new row before.
    pub steps: usize,
    /// The cell whose new value has nothing to do with its last one: since `Layout::Eights` it is written as it is.
    pub fresh: Option<usize>,
}

/// A table in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    width: usize,
    cells: Vec<u64>,
}

impl Rows {
    pub fn new(width: usize) -> Rows {
        Rows { width, cells: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or_default()
    }

    pub fn row(&self, at: usize) -> Option<&[u64]> {
        let from = at.checked_mul(self.width)?;
        self.cells.get(from..from.checked_add(self.width)?)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        self.cells.chunks_exact(self.width.max(1))
    }

    pub fn push(&mut self, row: &[u64]) {
        self.cells.extend_from_slice(row);
    }

    pub fn last_mut(&mut self) -> &mut [u64] {
        let from = self.cells.len().saturating_sub(self.width);
        self.cells.get_mut(from..).unwrap_or_default()
    }

    /// A new row of zeros to fill.
    pub fn append(&mut self) -> &mut [u64] {
        let from = self.cells.len();
        self.cells.resize(from + self.width, 0);
        self.cells.get_mut(from..).unwrap_or_default()
    }
}

/// What happened to a row since the frame that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Same,
    Changed,
    New,
    Gone,
}

/// A table being written.
pub struct Differences {
    table: Table,
    runs: Vec<(Fate, u64)>,
    changes: Rows,
    last_new: Vec<u64>,
}

impl Differences {
    pub fn new(table: Table) -> Differences {
        Differences { table, runs: Vec::new(), changes: Rows::new(table.width), last_new: vec![0; table.width] }
    }

    /// All of `current` against `reference`, rows paired by their keys. Any order is kept; the usual one is cheap.
    pub fn between(table: Table, reference: &Rows, current: &Rows) -> Differences {
        let mut differences = Differences::new(table);
        let mut places: Option<FxHashMap<&[u64], usize>> = None;
        let key = |row: &[u64]| row.get(..table.keys).map(<[u64]>::to_vec);
        let mut next = 0;
        for row in current.iter() {
            let straight = reference.row(next).filter(|old| old.get(..table.keys) == row.get(..table.keys));
            let found = match straight {
                Some(old) => Some((next, old)),
                None => {
                    let places = places.get_or_insert_with(|| {
                        reference.iter().enumerate().filter_map(|(at, old)| Some((old.get(..table.keys)?, at))).collect()
                    });
                    key(row)
                        .and_then(|key| places.get(key.as_slice()).copied())
                        .filter(|&at| at >= next)
                        .and_then(|at| Some((at, reference.row(at)?)))
                }
            };
            match found {
                Some((at, old)) => {
                    differences.run(Fate::Gone, (at - next) as u64);
                    next = at + 1;
                    if old == row { differences.same() } else { differences.changed(old, row) }
                }
                None => differences.new_row(row),
            }
        }
        differences.run(Fate::Gone, reference.len().saturating_sub(next) as u64);
        differences
    }

    fn run(&mut self, fate: Fate, count: u64) {
        match self.runs.last_mut() {
            _ if count == 0 => {}
            Some((last, length)) if *last == fate => *length += count,
            _ => self.runs.push((fate, count)),
        }
    }

    pub fn same(&mut self) {
        self.run(Fate::Same, 1);
    }

    pub fn gone(&mut self) {
        self.run(Fate::Gone, 1);
    }

    pub fn changed(&mut self, old: &[u64], new: &[u64]) {
        self.run(Fate::Changed, 1);
        let change = self.changes.append();
        for ((change, new), old) in change.iter_mut().zip(new).zip(old) {
            *change = new.wrapping_sub(*old);
        }
        if let Some((at, change)) = self.table.fresh.and_then(|at| Some((at, change.get_mut(at)?))) {
            *change = new.get(at).copied().unwrap_or_default();
        }
    }

    pub fn new_row(&mut self, row: &[u64]) {
        self.run(Fate::New, 1);
        let change = self.changes.append();
        for (at, ((change, new), last)) in change.iter_mut().zip(row).zip(&mut self.last_new).enumerate() {
            *change = if at < self.table.steps { new.wrapping_sub(*last) } else { *new };
            *last = *new;
        }
    }

    pub fn is_too_large(&self) -> bool {
        self.cells() > MAX_CELLS
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        self.changes.cells.len()
    }

    /// Whether nothing at all happened, so that the section may be left out.
    pub fn is_all_same(&self) -> bool {
        self.runs.iter().all(|(fate, _)| *fate == Fate::Same)
    }

    /// Appends the section: its number, its length, its bytes; and to `packed` the one that holds the bits of its packed
    /// columns, if it has any.
    pub fn write(&self, out: &mut Vec<u8>, packed: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        let mut bits = BitSink::default();
        scratch.clear();
        put_varint(scratch, self.runs.len() as u64);
        for &(fate, length) in &self.runs {
            put_varint(scratch, length << 2 | fate as u64);
        }
        let rows = self.changes.len();
        if rows > 0 {
            let mut used = vec![false; self.table.width];
            for row in self.changes.iter() {
                for (used, &cell) in used.iter_mut().zip(row) {
                    *used |= cell != 0;
                }
            }
            if let Some(first) = used.first_mut() {
                *first = true;
            }
            put_varint(scratch, used.iter().filter(|&&used| used).count() as u64);
            let mut before = 0;
            let mut values = Vec::with_capacity(rows);
            for (column, _) in used.iter().enumerate().filter(|(_, used)| **used) {
                values.clear();
                values.extend(self.changes.iter().map(|row| row.get(column).copied().unwrap_or_default()));
                put_column(scratch, &mut bits, column - before, &values);
                before = column;
            }
        }
        put_section(out, self.table.section, scratch);
        let bits = bits.take();
        if !bits.is_empty() {
            put_section(packed, self.table.section + BITS, &bits);
        }
    }
}

/// The bits of a table's packed columns stand in the section of its own number and this.
pub const BITS: u64 = 32;

/// Appends a section: its number, its length, its bytes.
pub fn put_section(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A table being read.
pub struct Changes {
    table: Table,
    layout: Layout,
    pub runs: Vec<(Fate, usize)>,
    changes: Rows,
}

impl Changes {
    /// `bits`: those of its packed columns; empty where it has none.
    pub fn read(table: Table, layout: Layout, section: &[u8], bits: &[u8]) -> Result<Changes, Malformed> {
        let mut bits = BitSource::new(bits);
        let mut input = Input::new(section);
        let run_count = input.count()?;
        let mut runs = Vec::with_capacity(run_count);
        let mut rows = 0usize;
        for _ in 0..run_count {
            let run = input.varint()?;
            let length = usize::try_from(run >> 2).map_err(|_| TOO_MANY)?;
            let fate = match run & 3 {
                0 => Fate::Same,
                1 => Fate::Changed,
                2 => Fate::New,
                _ => Fate::Gone,
            };
            if matches!(fate, Fate::Changed | Fate::New) {
                rows = rows.checked_add(length).ok_or(TOO_MANY)?;
            }
            runs.push((fate, length));
        }
        let mut changes = Rows::new(table.width);
        if rows > 0 {
            let columns = input.count()?;
            if rows > input.left() + bits.left() || rows.saturating_mul(table.width) > MAX_CELLS {
                return Err(TOO_MANY);
            }
            changes.cells.resize(rows * table.width, 0);
            let mut column = 0usize;
            for at in 0..columns {
                let (gap, how) = read_gap(&mut input, layout)?;
                if (at == 0) != (gap == 0) {
                    return Err(Malformed("columns are out of order"));
                }
                column = column.saturating_add(gap);
                // Of a column that only a later version knows there are no cells.
                let cells = if column < table.width { changes.cells.get_mut(column..) } else { None };
                let mut cells = cells.unwrap_or_default().iter_mut().step_by(table.width.max(1));
                read_column(&mut input, &mut bits, (gap, how), rows, |value| {
                    if let Some(cell) = cells.next() {
                        *cell = value;
                    }
                })?;
            }
        }
        if !input.is_empty() || !bits.is_empty() {
            return Err(Malformed("a table is longer than its columns"));
        }
        Ok(Changes { table, layout, runs, changes })
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        self.changes.cells.len()
    }

    /// Each row of the new table in order, with its fate and its place among the `len` rows of the reference.
    /// `visit` gets the finished row, or for `Same` the reference's.
    pub fn apply<'r>(
        &self,
        len: usize,
        reference: impl Fn(usize) -> Option<&'r [u64]>,
        mut visit: impl FnMut(Fate, Option<usize>, &[u64]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let old = |at| reference(at).unwrap_or_default();
        let fresh = self.table.fresh.filter(|_| self.layout == Layout::Eights);
        let mut next = 0usize;
        let mut change = self.changes.iter();
        let mut row = vec![0u64; self.table.width];
        let mut last_new = vec![0u64; self.table.width];
        for &(fate, length) in &self.runs {
            if fate == Fate::New {
                for _ in 0..length {
                    let change = change.next().ok_or(TOO_MANY)?;
                    for (at, (cell, change)) in last_new.iter_mut().zip(change).enumerate() {
                        *cell = if at < self.table.steps { cell.wrapping_add(*change) } else { *change };
                    }
                    visit(fate, None, &last_new)?;
                }
                continue;
            }
            if length > len.saturating_sub(next) {
                return Err(Malformed("a run is longer than the table it refers to"));
            }
            for at in next..next + length {
                match fate {
                    Fate::Gone | Fate::New => break,
                    Fate::Same => visit(fate, Some(at), old(at))?,
                    Fate::Changed => {
                        let change = change.next().ok_or(TOO_MANY)?;
                        for ((cell, old), change) in row.iter_mut().zip(old(at)).zip(change) {
                            *cell = old.wrapping_add(*change);
                        }
                        if let Some((at, cell)) = fresh.and_then(|at| Some((at, row.get_mut(at)?))) {
                            *cell = change.get(at).copied().unwrap_or_default();
                        }
                        visit(fate, Some(at), &row)?;
                    }
                }
            }
            next += length;
        }
        if next != len {
            return Err(Malformed("a table forgets rows of the one it refers to"));
        }
        Ok(())
    }

    /// The whole new table.
    pub fn rows(&self, reference: &Rows) -> Result<Rows, Malformed> {
        let mut rows = Rows::new(self.table.width);
        let visit = |_, _, row: &[u64]| {
            rows.push(row);
            Ok(())
        };
        self.apply(reference.len(), |at| reference.row(at), visit)?;
        Ok(rows)
    }
}

const TOO_MANY: Malformed = Malformed("there are more rows than the frame can hold");

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table { section: 3, width: 4, keys: 1, steps: 2, fresh: Some(3) };

    fn rows(rows: &[[u64; 4]]) -> Rows {
        let mut table = Rows::new(4);
        rows.iter().for_each(|row| table.push(row));
        table
    }

    fn round_trip(reference: &Rows, current: &Rows) -> usize {
        let (mut out, mut packed) = (Vec::new(), Vec::new());
        Differences::between(TABLE, reference, current).write(&mut out, &mut packed, &mut Vec::new());
        let mut input = Input::new(&out);
        assert_eq!(input.varint(), Ok(3));
        let section = input.block().unwrap();
        let mut packed = Input::new(&packed);
        let bits = if packed.is_empty() { &[] } else { packed.varint().and_then(|_| packed.block()).unwrap() };
        let changes = Changes::read(TABLE, Layout::NEW, section, bits).unwrap();
        assert_eq!(&changes.rows(reference).unwrap(), current);
        section.len()
    }

    #[test]
    fn rows_change_come_go_and_swap() {
        let reference = rows(&[[1, 5, 9, 9], [2, 6, 9, 9], [3, 7, 0, u64::MAX]]);
        let current = rows(&[[2, 6, 9, 9], [3, 7, 0, 0], [9, 1, 1, 1], [10, 2, 0, 0]]);
        round_trip(&reference, &current);
        round_trip(&current, &reference);
        round_trip(&reference, &rows(&[[3, 0, 0, 0], [1, 5, 9, 9], [1, 5, 9, 9]]));
        round_trip(&rows(&[]), &reference);
        round_trip(&reference, &rows(&[]));
        assert_eq!(round_trip(&reference, &reference), 2);
    }

    #[test]
    fn a_count_of_rows_without_bytes_behind_it_is_refused() {
        let mut lie = Vec::new();
        put_varint(&mut lie, 1);
        put_varint(&mut lie, (1 << 40) << 2 | 2);
        put_varint(&mut lie, 1);
        assert!(Changes::read(TABLE, Layout::Tree, &lie, &[]).is_err());
        let mut same = Vec::new();
        put_varint(&mut same, 1);
        put_varint(&mut same, (1 << 40) << 2);
        assert!(Changes::read(TABLE, Layout::NEW, &same, &[]).unwrap().rows(&rows(&[])).is_err());
    }
}
