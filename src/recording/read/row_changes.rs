//! Reads the table of a frame: which rows of the referenced sample are the same, changed, new or gone, and the differences.

use std::ops::Range;

use crate::recording::format::column::{MAX_FREE_ROWS, read_column, read_column_head, skip_column};
use crate::recording::format::table::{MAX_CELLS, RowChange, Rows, Table};
use crate::recording::format::wire::{ByteReader, Malformed};

/// The differences of one table, as `write::row_diff` wrote them.
pub struct RowChanges {
    table: Table,
    runs: Vec<(RowChange, usize)>,
    changed: Differences,
    first_new: Differences,
    other_new: Differences,
}

/// Differences of some rows, column by column as they were written; that of a column which is not listed is 0.
struct Differences {
    rows: usize,
    /// Sorted
    columns: Vec<usize>,
    /// Those of all rows for the first column, then those for the second
    values: Vec<u64>,
}

impl Differences {
    /// Passes each column and the difference of one row to `set`.
    fn for_each_in_row(&self, row: usize, mut set: impl FnMut(usize, u64)) {
        let values = self.values.get(row..).unwrap_or_default().iter().step_by(self.rows.max(1));
        self.columns.iter().zip(values).for_each(|(&column, &value)| set(column, value));
    }
}

impl RowChanges {
    pub fn parse(table: Table, section: &[u8]) -> Result<RowChanges, Malformed> {
        let mut input = ByteReader::new(section);
        let runs = parse_runs(&mut input)?;
        let (changed, new) = (row_count(&runs, RowChange::Changed)?, row_count(&runs, RowChange::New)?);
        let all = changed.checked_add(new).filter(|all| all.saturating_mul(table.width) <= MAX_CELLS);
        all.ok_or(TOO_MANY)?;
        let changed = parse_differences(table, &mut input, changed)?;
        let first_new = parse_differences(table, &mut input, new.min(1))?;
        let other_new = parse_differences(table, &mut input, new.saturating_sub(1))?;
        if !input.is_empty() {
            return Err(Malformed("a table is longer than its columns"));
        }
        Ok(RowChanges { table, runs, changed, first_new, other_new })
    }

    /// Columns of all rows that a section claims to have, without reading them.
    pub fn claimed_cells(table: Table, section: &[u8]) -> Result<usize, Malformed> {
        let runs = parse_runs(&mut ByteReader::new(section))?;
        let rows = row_count(&runs, RowChange::Changed)?.saturating_add(row_count(&runs, RowChange::New)?);
        Ok(rows.saturating_mul(table.width))
    }

    /// Number of rows that changed or are new.
    pub fn row_count(&self) -> usize {
        self.changed.rows + self.first_new.rows + self.other_new.rows
    }

    /// Columns of all rows that changed or are new.
    pub fn cell_count(&self) -> usize {
        self.row_count() * self.table.width
    }

    /// Appends the rows that changed or are new to `rows`, and passes what became of each row to `visit` in the order of the new
    /// table; the reference has `len` rows. The first new row is a step from `last`.
    pub fn apply<'r>(
        &self,
        len: usize,
        reference: impl Fn(usize) -> Option<&'r [u64]>,
        last: Option<&[u64]>,
        rows: &mut Rows,
        mut visit: impl FnMut(&mut Rows, NewRows),
    ) -> Result<(), Malformed> {
        let mut next = 0usize;
        let (mut changed, mut new) = (0..self.changed.rows, 0..self.first_new.rows + self.other_new.rows);
        let mut last_new = vec![0u64; if self.first_new.rows > 0 { self.table.width } else { 0 }];
        last_new.iter_mut().zip(last.unwrap_or_default()).for_each(|(cell, last)| *cell = *last);
        for &(change, length) in &self.runs {
            if change == RowChange::New {
                for at in new.by_ref().take(length) {
                    self.step(&mut last_new, at);
                    rows.push(&last_new);
                    visit(rows, NewRows::Appended { old: None });
                }
                continue;
            }
            if length > len.saturating_sub(next) {
                return Err(Malformed("a run is longer than the table it refers to"));
            }
            let places = next..next + length;
            next += length;
            match change {
                RowChange::Gone | RowChange::New => {}
                RowChange::Same => visit(rows, NewRows::Same(places)),
                RowChange::Changed => {
                    for at in places {
                        let difference = changed.next().ok_or(TOO_MANY)?;
                        let row = rows.append_copy(reference(at).unwrap_or_default());
                        self.changed.for_each_in_row(difference, |column, value| {
                            row.get_mut(column).into_iter().for_each(|cell| *cell = cell.wrapping_add(value));
                        });
                        visit(rows, NewRows::Appended { old: Some(at) });
                    }
                }
            }
        }
        if next != len {
            return Err(Malformed("a table lacks rows of the one it refers to"));
        }
        Ok(())
    }

    /// Makes a new row of the new row before it.
    fn step(&self, row: &mut [u64], at: usize) {
        let steps = self.table.steps;
        row.iter_mut().skip(steps).for_each(|cell| *cell = 0);
        let set = |column: usize, value: u64| {
            let step = |cell: &mut u64| *cell = if column < steps { cell.wrapping_add(value) } else { value };
            row.get_mut(column).into_iter().for_each(step);
        };
        match at.checked_sub(1) {
            None => self.first_new.for_each_in_row(0, set),
            Some(other) => self.other_new.for_each_in_row(other, set),
        }
    }

    /// The whole new table.
    pub fn to_rows(&self, reference: &Rows) -> Result<Rows, Malformed> {
        self.to_rows_after(reference, reference.last())
    }

    /// The whole new table; the first new row is a step from `last`.
    pub fn to_rows_after(&self, reference: &Rows, last: Option<&[u64]>) -> Result<Rows, Malformed> {
        let mut rows = Rows::with_capacity(self.table.width, reference.len() + self.first_new.rows + self.other_new.rows);
        let visit = |rows: &mut Rows, new: NewRows| {
            if let NewRows::Same(places) = new {
                rows.push(reference.range(places));
            }
        };
        self.apply(reference.len(), |at| reference.row(at), last, &mut rows, visit)?;
        Ok(rows)
    }
}

/// Rows of the new table.
pub enum NewRows {
    /// Those at these places of the reference, unchanged
    Same(Range<usize>),
    /// One that was appended: it changed, with its place in the reference, or is new
    Appended { old: Option<usize> },
}

fn parse_differences(table: Table, input: &mut ByteReader<'_>, rows: usize) -> Result<Differences, Malformed> {
    let mut differences = Differences { rows, columns: Vec::new(), values: Vec::new() };
    if rows == 0 {
        return Ok(differences);
    }
    let columns = input.read_count()?;
    if rows > MAX_FREE_ROWS && rows.div_ceil(8) > input.remaining() {
        return Err(TOO_MANY);
    }
    differences.columns.reserve(columns.min(table.width));
    differences.values.reserve(columns.min(table.width) * rows);
    let mut column = 0usize;
    for at in 0..columns {
        let (gap, encoding) = read_column_head(input)?;
        if at > 0 && gap == 0 {
            return Err(Malformed("a column comes twice"));
        }
        column = column.saturating_add(gap);
        if column < table.width {
            differences.columns.push(column);
            read_column(input, encoding, rows, &mut differences.values)?;
        } else {
            skip_column(input, encoding, rows)?;
        }
    }
    Ok(differences)
}

fn parse_runs(input: &mut ByteReader<'_>) -> Result<Vec<(RowChange, usize)>, Malformed> {
    let count = input.read_count()?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let run = input.read_varint()?;
        runs.push((RowChange::from_code(run), usize::try_from(run >> 2).map_err(|_| TOO_MANY)?));
    }
    Ok(runs)
}

fn row_count(runs: &[(RowChange, usize)], change: RowChange) -> Result<usize, Malformed> {
    let mut lengths = runs.iter().filter(|run| run.0 == change).map(|run| run.1);
    lengths.try_fold(0, usize::checked_add).ok_or(TOO_MANY)
}

const TOO_MANY: Malformed = Malformed("there are more rows than the frame can hold");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::format::wire::put_varint;
    use crate::recording::write::row_diff::RowDiff;

    const TABLE: Table = Table { section: 3, width: 4, keys: 1, steps: 2 };

    fn rows(rows: &[[u64; 4]]) -> Rows {
        let mut table = Rows::new(4);
        rows.iter().for_each(|row| table.push(row));
        table
    }

    fn written(table: Table, reference: &Rows, current: &Rows) -> Vec<u8> {
        let mut out = Vec::new();
        RowDiff::between(table, reference, current).write(&mut out, &mut Vec::new());
        let mut input = ByteReader::new(&out);
        assert_eq!(input.read_varint(), Ok(3));
        let section = input.read_length_prefixed().unwrap().to_vec();
        assert!(input.is_empty());
        section
    }

    fn round_trip(reference: &Rows, current: &Rows) -> usize {
        let section = written(TABLE, reference, current);
        assert_eq!(&RowChanges::parse(TABLE, &section).unwrap().to_rows(reference).unwrap(), current);
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
        let many: Vec<[u64; 4]> = (0..5000).map(|at| [at, 0, 0, 0]).collect();
        round_trip(&rows(&[]), &rows(&many));
        round_trip(&rows(&many), &rows(&many.iter().map(|row| [row[0], 1, 0, 0]).collect::<Vec<_>>()));
    }

    #[test]
    fn a_column_of_a_later_version_is_ignored_and_one_of_an_earlier_version_is_zero() {
        let later = Table { width: 6, ..TABLE };
        let mut wide = Rows::new(6);
        wide.push(&[1, 2, 3, 4, 5, 6]);
        wide.push(&[2, 3, 4, 5, 6, 7]);
        let section = written(later, &Rows::new(6), &wide);
        let read = RowChanges::parse(TABLE, &section).unwrap().to_rows(&Rows::new(4)).unwrap();
        assert_eq!(read, rows(&[[1, 2, 3, 4], [2, 3, 4, 5]]));
        let section = written(TABLE, &Rows::new(4), &read);
        let read = RowChanges::parse(later, &section).unwrap().to_rows(&Rows::new(6)).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), [[1, 2, 3, 4, 0, 0], [2, 3, 4, 5, 0, 0]]);
    }

    #[test]
    fn a_count_of_rows_without_bytes_for_them_is_refused() {
        let parse = |rows: u64, columns: &[u8]| {
            let mut section = vec![1];
            put_varint(&mut section, rows << 2 | RowChange::New as u64);
            RowChanges::parse(TABLE, &[section.as_slice(), columns].concat()).map(|changes| changes.cell_count())
        };
        assert!(parse(1 << 40, &[1]).is_err());
        assert_eq!(parse(4, &[0, 0]), Ok(16), "rows of zeros");
        assert!(parse(MAX_FREE_ROWS as u64 + 2, &[0, 0]).is_err());
        let mut same = vec![1];
        put_varint(&mut same, (1 << 30) << 2);
        assert!(RowChanges::parse(TABLE, &same).unwrap().to_rows(&rows(&[])).is_err());
    }
}
