//! A table of a frame being read: what became of the rows of the frame that it refers to, and by how much.

use super::bits::BitSource;
use super::columns::{read_column, read_gap};
use super::forms::{Forms, Role};
use super::table::{FREE_ROWS, Fate, MAX_CELLS, Rows, Table};
use crate::recording::payload::layout::PayloadLayout;
use crate::recording::wire::{ByteReader, Malformed};

/// Before format 1.3 the bits of a table's packed columns stood in the section of its own number and this.
pub const BITS: u64 = 32;

pub struct Changes {
    table: Table,
    runs: Vec<(Fate, usize)>,
    changed: Rows,
    new: Rows,
    /// Columns of changed rows that are no differences.
    fresh: Vec<usize>,
}

impl Changes {
    /// As it is written since format 1.3. `changed`: the role of rows that changed.
    pub fn read(
        table: Table,
        section: &[u8],
        forms: &Forms,
        changed: Role,
        bits: &mut BitSource<'_>,
    ) -> Result<Changes, Malformed> {
        let mut input = ByteReader::new(section);
        let runs = runs(&mut input)?;
        if !input.is_empty() {
            return Err(Malformed("a table is longer than its runs"));
        }
        let (changed_rows, new_rows) = (rows_of(&runs, Fate::Changed)?, rows_of(&runs, Fate::New)?);
        let columns = |role: Role| forms.columns((table.section, role)).into_iter().flatten();
        let mut read = |role: Role, count: usize| {
            let in_all = columns(role).map(|(_, form)| u128::from(form.least_length())).sum::<u128>();
            if count > FREE_ROWS && forms.form((table.section, role), 0).least_length() == 0 {
                return Err(TOO_MANY);
            }
            if count.saturating_mul(table.width) > MAX_CELLS || !bits.has(in_all * count as u128) {
                return Err(TOO_MANY);
            }
            let mut rows = Rows::zeros(table.width, count);
            for (&column, form) in columns(role) {
                let mut cells = rows.column_mut(column);
                if form.least_length() == 0 {
                    // No bits: one number for all.
                    let value = form.take(bits)?;
                    cells.for_each(|cell| *cell = value);
                    continue;
                }
                for _ in 0..count {
                    let value = form.take(bits)?;
                    cells.next().into_iter().for_each(|cell| *cell = value);
                }
            }
            Ok(rows)
        };
        let changes = read(changed, changed_rows)?;
        let mut new = read(Role::First, new_rows.min(1))?;
        new.append_all(read(Role::Further, new_rows.saturating_sub(1))?);
        let fresh = columns(changed).filter(|(_, form)| form.fresh).map(|(&column, _)| column).chain(table.fresh).collect();
        let changes = Changes { table, runs, changed: changes, new, fresh };
        if changes.cells() > MAX_CELLS { Err(TOO_MANY) } else { Ok(changes) }
    }

    /// As it was written before. `bits`: those of its packed columns; empty where it has none.
    pub fn read_before(table: Table, layout: PayloadLayout, section: &[u8], bits: &[u8]) -> Result<Changes, Malformed> {
        let mut bits = BitSource::new(bits);
        let mut input = ByteReader::new(section);
        let runs = runs(&mut input)?;
        let rows = rows_of(&runs, Fate::Changed)?.checked_add(rows_of(&runs, Fate::New)?).ok_or(TOO_MANY)?;
        let mut all = Rows::new(table.width);
        if rows > 0 {
            let columns = input.read_count()?;
            if rows > input.remaining() + bits.left() || rows.saturating_mul(table.width) > MAX_CELLS {
                return Err(TOO_MANY);
            }
            all = Rows::zeros(table.width, rows);
            let mut column = 0usize;
            for at in 0..columns {
                let (gap, how) = read_gap(&mut input, layout)?;
                if (at == 0) != (gap == 0) {
                    return Err(Malformed("columns are out of order"));
                }
                column = column.saturating_add(gap);
                let mut cells = all.column_mut(column);
                read_column(&mut input, &mut bits, (gap, how), rows, |value| {
                    cells.next().into_iter().for_each(|cell| *cell = value);
                })?;
            }
        }
        if !input.is_empty() || !bits.is_empty() {
            return Err(Malformed("a table is longer than its columns"));
        }
        let mut changes = Changes {
            table,
            changed: Rows::new(table.width),
            new: Rows::new(table.width),
            fresh: table.fresh.filter(|_| layout != PayloadLayout::Tree).into_iter().collect(),
            runs,
        };
        let mut rows = all.iter();
        for &(fate, length) in &changes.runs {
            match fate {
                Fate::Changed => rows.by_ref().take(length).for_each(|row| changes.changed.push(row)),
                Fate::New => rows.by_ref().take(length).for_each(|row| changes.new.push(row)),
                Fate::Same | Fate::Gone => {}
            }
        }
        Ok(changes)
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        (self.changed.len() + self.new.len()) * self.table.width
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
        let mut next = 0usize;
        let (mut changed, mut new) = (self.changed.iter(), self.new.iter());
        let mut row = vec![0u64; self.table.width];
        let mut last_new = vec![0u64; self.table.width];
        for &(fate, length) in &self.runs {
            if fate == Fate::New {
                for _ in 0..length {
                    let change = new.next().ok_or(TOO_MANY)?;
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
                        let change = changed.next().ok_or(TOO_MANY)?;
                        for ((cell, old), change) in row.iter_mut().zip(old(at)).zip(change) {
                            *cell = old.wrapping_add(*change);
                        }
                        for &column in &self.fresh {
                            if let (Some(cell), Some(now)) = (row.get_mut(column), change.get(column)) {
                                *cell = *now;
                            }
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

fn runs(input: &mut ByteReader<'_>) -> Result<Vec<(Fate, usize)>, Malformed> {
    let count = input.read_count()?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let run = input.read_varint()?;
        let fate = match run & 3 {
            0 => Fate::Same,
            1 => Fate::Changed,
            2 => Fate::New,
            _ => Fate::Gone,
        };
        runs.push((fate, usize::try_from(run >> 2).map_err(|_| TOO_MANY)?));
    }
    Ok(runs)
}

fn rows_of(runs: &[(Fate, usize)], fate: Fate) -> Result<usize, Malformed> {
    let mut lengths = runs.iter().filter(|run| run.0 == fate).map(|run| run.1);
    lengths.try_fold(0, usize::checked_add).ok_or(TOO_MANY)
}

const TOO_MANY: Malformed = Malformed("there are more rows than the frame can hold");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::payload::column::bits::BitSink;
    use crate::recording::payload::column::choice::Chooser;
    use crate::recording::payload::column::forms::{Code, Form};
    use crate::recording::payload::column::table::Differences;
    use crate::recording::wire::put_varint;

    const TABLE: Table = Table { section: 3, width: 4, keys: 1, steps: 2, fresh: Some(3) };

    fn rows(rows: &[[u64; 4]]) -> Rows {
        let mut table = Rows::new(4);
        rows.iter().for_each(|row| table.push(row));
        table
    }

    fn round_trip(reference: &Rows, current: &Rows) -> usize {
        let (mut out, mut bits, mut chooser) = (Vec::new(), BitSink::default(), Chooser::default());
        let differences = Differences::between(TABLE, reference, current);
        differences.write(Role::Near, &mut out, &mut bits, &mut chooser, &mut Vec::new());
        let mut input = ByteReader::new(&out);
        assert_eq!(input.read_varint(), Ok(3));
        let section = input.read_length_prefixed().unwrap();
        let bits = bits.take();
        let mut bits = BitSource::new(&bits);
        let changes = Changes::read(TABLE, section, chooser.forms(), Role::Near, &mut bits).unwrap();
        assert!(input.is_empty() && bits.is_empty());
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
        let many: Vec<[u64; 4]> = (0..5000).map(|at| [at, 0, 0, 0]).collect();
        round_trip(&rows(&[]), &rows(&many));
        round_trip(&rows(&many), &rows(&many.iter().map(|row| [row[0], 1, 0, 0]).collect::<Vec<_>>()));
    }

    #[test]
    fn a_count_of_rows_without_bits_behind_it_is_refused() {
        let mut lie = Vec::new();
        put_varint(&mut lie, 1);
        put_varint(&mut lie, (1 << 40) << 2 | 2);
        assert!(Changes::read_before(TABLE, PayloadLayout::Tree, &[lie.as_slice(), &[1]].concat(), &[]).is_err());
        let mut forms = Forms::default();
        let read = |lie: &[u8], forms: &Forms, bits: &[u8]| {
            Changes::read(TABLE, lie, forms, Role::Near, &mut BitSource::new(bits)).map(|changes| changes.cells())
        };
        assert!(read(&lie, &forms, &[0; 9]).is_err());
        let few = [1, 4 << 2 | 2];
        assert_eq!(read(&few, &forms, &[]), Ok(16), "alike");
        // Few enough cells, and yet more rows than may take no bit at all.
        let mut many = vec![1];
        put_varint(&mut many, (FREE_ROWS as u64 + 2) << 2 | 2);
        assert!(read(&many, &forms, &[]).is_err());
        let form = Form { code: Code::Golomb { order: 7 }, ..Form::default() };
        forms.set((3, Role::Further), 0, form);
        assert!(read(&lie, &forms, &[0xff; 9]).is_err());
        assert_eq!(read(&few, &forms, &[0xff; 3]), Ok(16));
        assert!(read(&few, &forms, &[0xff; 2]).is_err());
        let mut same = Vec::new();
        put_varint(&mut same, 1);
        put_varint(&mut same, (1 << 30) << 2);
        let changes = Changes::read(TABLE, &same, &forms, Role::Near, &mut BitSource::default()).unwrap();
        assert!(changes.rows(&rows(&[])).is_err());
    }
}
