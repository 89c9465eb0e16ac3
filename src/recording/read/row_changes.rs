//! Reads the table of a frame: which rows of the referenced sample are the same, changed, new or gone, and the differences.

use std::ops::Range;

use crate::recording::format::column::{MAX_FREE_ROWS, read_column, read_column_head, skip_column};
use crate::recording::format::table::{MAX_CELLS, RowChange, Rows, Table};
use crate::recording::format::wire::{ByteReader, Malformed};

/// The differences of one table, as `write::row_diff` wrote them.
pub struct RowChanges {
    table: Table,
    runs: Vec<(RowChange, usize)>,
    changed: Rows,
    new: Rows,
}

impl RowChanges {
    pub fn parse(table: Table, section: &[u8]) -> Result<RowChanges, Malformed> {
        let mut input = ByteReader::new(section);
        let runs = parse_runs(&mut input)?;
        let (changed, new) = (row_count(&runs, RowChange::Changed)?, row_count(&runs, RowChange::New)?);
        let all = changed.checked_add(new).filter(|all| all.saturating_mul(table.width) <= MAX_CELLS);
        all.ok_or(TOO_MANY)?;
        let mut changes = RowChanges { table, runs, changed: Rows::zeros(table.width, 0), new: Rows::zeros(table.width, 0) };
        changes.changed = changes.parse_rows(&mut input, changed)?;
        changes.new = changes.parse_rows(&mut input, new.min(1))?;
        changes.new.extend(changes.parse_rows(&mut input, new.saturating_sub(1))?);
        if !input.is_empty() {
            return Err(Malformed("a table is longer than its columns"));
        }
        Ok(changes)
    }

    fn parse_rows(&self, input: &mut ByteReader<'_>, count: usize) -> Result<Rows, Malformed> {
        if count == 0 {
            return Ok(Rows::new(self.table.width));
        }
        let columns = input.read_count()?;
        if count > MAX_FREE_ROWS && count.div_ceil(8) > input.remaining() {
            return Err(TOO_MANY);
        }
        let mut rows = Rows::zeros(self.table.width, count);
        let mut column = 0usize;
        for at in 0..columns {
            let (gap, encoding) = read_column_head(input)?;
            if at > 0 && gap == 0 {
                return Err(Malformed("a column comes twice"));
            }
            column = column.saturating_add(gap);
            if column >= self.table.width {
                skip_column(input, encoding, count)?;
                continue;
            }
            let mut cells = rows.column_mut(column);
            read_column(input, encoding, count, |value| cells.next().into_iter().for_each(|cell| *cell = value))?;
        }
        Ok(rows)
    }

    /// Columns of all rows that a section claims to have, without reading them.
    pub fn claimed_cells(table: Table, section: &[u8]) -> Result<usize, Malformed> {
        let runs = parse_runs(&mut ByteReader::new(section))?;
        let rows = row_count(&runs, RowChange::Changed)?.saturating_add(row_count(&runs, RowChange::New)?);
        Ok(rows.saturating_mul(table.width))
    }

    /// Number of rows that changed or are new.
    pub fn row_count(&self) -> usize {
        self.changed.len() + self.new.len()
    }

    /// Columns of all rows that are held.
    pub fn cell_count(&self) -> usize {
        (self.changed.len() + self.new.len()) * self.table.width
    }

    /// Passes the rows of the new table in order to `visit`; the reference has `len` rows. The first new row is a step from
    /// `last`.
    pub fn apply<'r>(
        &self,
        len: usize,
        reference: impl Fn(usize) -> Option<&'r [u64]>,
        last: Option<&[u64]>,
        mut visit: impl FnMut(NewRows<'_>),
    ) -> Result<(), Malformed> {
        let old = |at| reference(at).unwrap_or_default();
        let mut next = 0usize;
        let (mut changed, mut new) = (self.changed.iter(), self.new.iter());
        let width = |rows: &Rows| if rows.is_empty() { 0 } else { self.table.width };
        let mut row = vec![0u64; width(&self.changed)];
        let mut last_new = vec![0u64; width(&self.new)];
        last_new.iter_mut().zip(last.unwrap_or_default()).for_each(|(cell, last)| *cell = *last);
        for &(change, length) in &self.runs {
            if change == RowChange::New {
                for difference in new.by_ref().take(length) {
                    for (at, (cell, difference)) in last_new.iter_mut().zip(difference).enumerate() {
                        *cell = if at < self.table.steps { cell.wrapping_add(*difference) } else { *difference };
                    }
                    visit(NewRows::One { old: None, row: &last_new });
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
                RowChange::Same => visit(NewRows::Same(places)),
                RowChange::Changed => {
                    for at in places {
                        let difference = changed.next().ok_or(TOO_MANY)?;
                        for ((cell, old), difference) in row.iter_mut().zip(old(at)).zip(difference) {
                            *cell = old.wrapping_add(*difference);
                        }
                        visit(NewRows::One { old: Some(at), row: &row });
                    }
                }
            }
        }
        if next != len {
            return Err(Malformed("a table lacks rows of the one it refers to"));
        }
        Ok(())
    }

    /// The whole new table.
    pub fn to_rows(&self, reference: &Rows) -> Result<Rows, Malformed> {
        self.to_rows_after(reference, reference.last())
    }

    /// The whole new table; the first new row is a step from `last`.
    pub fn to_rows_after(&self, reference: &Rows, last: Option<&[u64]>) -> Result<Rows, Malformed> {
        let mut rows = Rows::with_capacity(self.table.width, reference.len() + self.new.len());
        let visit = |new: NewRows<'_>| match new {
            NewRows::Same(places) => rows.push(reference.range(places)),
            NewRows::One { row, .. } => rows.push(row),
        };
        self.apply(reference.len(), |at| reference.row(at), last, visit)?;
        Ok(rows)
    }
}

/// Rows of the new table.
pub enum NewRows<'r> {
    /// Those at these places of the reference, unchanged
    Same(Range<usize>),
    /// One that changed, with its place in the reference, or a new one
    One { old: Option<usize>, row: &'r [u64] },
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
