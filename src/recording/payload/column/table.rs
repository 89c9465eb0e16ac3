//! Tables of cells against the same table in an earlier frame: only rows that changed, came or went, one array a column.
//!
//! The section is its runs: count, then each: length << 2 | (0 same, 1 changed, 2 new, 3 gone), in the order of the new table.
//! A changed cell is a difference from the earlier frame's; a new row's differs from 0, or in the first `steps` columns
//! from the new row before. What they are stands among the frame's bits, column by column: the changed rows, the first new
//! one, the others.

use rustc_hash::FxHashMap;

use super::bits::BitSink;
use super::choice::Chooser;
use super::forms::Role;
use super::gathered::Gathered;
use crate::recording::wire::put_varint;

/// Cells that one table of one frame may decode to: 32 MiB, about 150,000 threads.
pub const MAX_CELLS: usize = 4 << 20;
/// Rows that may take no bits at all, if they are alike: of more rows, column 0 takes at least a bit each.
pub const FREE_ROWS: usize = 4096;

/// What is fixed about a table. Its numbers are part of the format.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub section: u64,
    pub width: usize,
    /// The first cells say which thing the row is about.
    pub keys: usize,
    /// The first cells of a new row are likely to resemble those of the new row before.
    pub steps: usize,
    /// The cell whose new value has nothing to do with its last one: since format 1.1 it is written as it is.
    pub fresh: Option<usize>,
}

/// A table in memory. One without columns has no rows.
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

    /// So many rows of zeros.
    pub fn zeros(width: usize, count: usize) -> Rows {
        Rows { width, cells: vec![0; width * count] }
    }

    /// All cells of one column, to be filled.
    pub fn column_mut(&mut self, column: usize) -> impl Iterator<Item = &mut u64> {
        // Of a column that only a later version knows there are no cells.
        let cells = if column < self.width { self.cells.get_mut(column..) } else { None };
        cells.unwrap_or_default().iter_mut().step_by(self.width.max(1))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u64]> {
        self.cells.chunks_exact_mut(self.width.max(1))
    }

    pub fn push(&mut self, row: &[u64]) {
        self.cells.extend_from_slice(row);
    }

    /// Puts the rows of a table of the same width behind these.
    pub fn append_all(&mut self, mut others: Rows) {
        self.cells.append(&mut others.cells);
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
    /// Of rows that changed: what they are more than they were, and what they are.
    changes: Gathered,
    now: Gathered,
    /// New rows: the first one resembles none before it.
    first: Gathered,
    further: Gathered,
    last_new: Vec<u64>,
}

impl Differences {
    pub fn new(table: Table) -> Differences {
        let rows = || Gathered::new(table.width);
        let last_new = vec![0; table.width];
        Differences { table, runs: Vec::new(), changes: rows(), now: rows(), first: rows(), further: rows(), last_new }
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
        let fresh = self.table.fresh;
        let change = |(at, (new, old)): (usize, (&u64, &u64))| if fresh == Some(at) { *new } else { new.wrapping_sub(*old) };
        self.changes.push(new.iter().zip(old).enumerate().map(change));
        self.now.push(new.iter().copied());
    }

    pub fn new_row(&mut self, row: &[u64]) {
        self.run(Fate::New, 1);
        let steps = self.table.steps;
        let cells = self.last_new.iter_mut().zip(row).enumerate().map(|(at, (last, new))| {
            let change = if at < steps { new.wrapping_sub(*last) } else { *new };
            *last = *new;
            change
        });
        let rows = if self.first.is_empty() { &mut self.first } else { &mut self.further };
        rows.push(cells);
    }

    pub fn is_too_large(&self) -> bool {
        self.cells() > MAX_CELLS
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        (self.changes.len() + self.first.len() + self.further.len()) * self.table.width
    }

    /// Whether nothing at all happened, so that the section may be left out.
    pub fn is_all_same(&self) -> bool {
        self.runs.iter().all(|(fate, _)| *fate == Fate::Same)
    }

    /// Appends the section, and the numbers to the frame's bits. `changed`: the role of rows that changed.
    pub fn write(&self, changed: Role, out: &mut Vec<u8>, bits: &mut BitSink, chooser: &mut Chooser, scratch: &mut Vec<u8>) {
        scratch.clear();
        put_varint(scratch, self.runs.len() as u64);
        for &(fate, length) in &self.runs {
            put_varint(scratch, length << 2 | fate as u64);
        }
        let section = self.table.section;
        put_section(out, section, scratch);
        chooser.write((section, changed), &self.changes, Some(&self.now), bits);
        chooser.write((section, Role::First), &self.first, None, bits);
        chooser.write((section, Role::Further), &self.further, None, bits);
    }
}

/// Bytes that a section's number and length take at most.
pub const SECTION_HEAD: usize = 20;

/// Appends a section: its number, its length, its bytes.
pub fn put_section(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_section_head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// What stands before the bytes of a section.
pub fn put_section_head(out: &mut Vec<u8>, number: u64, length: usize) {
    put_varint(out, number);
    put_varint(out, length as u64);
}
