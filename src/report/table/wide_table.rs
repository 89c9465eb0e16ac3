//! All tables as one wide table, for `export`: one column per key, which tables share; one row per row of each table. A cell is
//! empty where the row's table does not have the column.

use std::io::{self, Write};

use super::ResolvedSelection;
use super::csv_format::{csv_field, csv_field_without_formula, shortest_decimal};
use super::printer::RowTime;
use crate::figures::{Cell, ColumnDefinition, FigureInput, Table, Unit};
use crate::report::formatting::rfc3339;

/// The columns of the wide table, and the tables that it is made of.
pub struct WideTable {
    /// The columns after `COMMON_COLUMNS`
    pub columns: Vec<WideColumn>,
    tables: Vec<TableMapping>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideColumn {
    /// The key in JSON
    pub name: &'static str,
    pub kind: ColumnType,
}

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    /// Identifiers: of a CPU, of a process
    Integer,
    Float,
}

/// One table.
struct TableMapping {
    selection: ResolvedSelection,
    /// For each of its columns the index in the wide table
    column_indices: Vec<usize>,
}

/// Columns that every row has.
pub const COMMON_COLUMNS: [&str; 3] = ["time", "seconds", "table"];

impl WideTable {
    /// Without `idle`, processes and threads that had no activity have no rows.
    pub fn new(tables: &[&'static dyn Table], idle: bool) -> WideTable {
        let mut columns: Vec<WideColumn> = Vec::new();
        let mut mapping = |table: &'static dyn Table| {
            let selection = ResolvedSelection::all_columns(table, !idle && table.pid_column().is_some());
            let indices = selection.columns.iter().map(|column| {
                columns.iter().position(|known| known.name == column.key).unwrap_or_else(|| {
                    columns.push(WideColumn { name: column.key, kind: column_type(column) });
                    columns.len() - 1
                })
            });
            let column_indices = indices.collect();
            TableMapping { selection, column_indices }
        };
        let tables = tables.iter().map(|&table| mapping(table)).collect();
        WideTable { columns, tables }
    }

    /// Calls `show` with each row: the name of its table, and a cell for each of `columns`.
    pub fn for_each_row<E>(
        &self,
        input: &FigureInput,
        mut show: impl FnMut(&'static str, &[Cell]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut wide = vec![Cell::Unknown; self.columns.len()];
        for mapping in &self.tables {
            for row in mapping.selection.rows(input) {
                wide.fill(Cell::Unknown);
                for (cell, &index) in row.into_iter().zip(&mapping.column_indices) {
                    if let Some(wide) = wide.get_mut(index) {
                        *wide = cell;
                    }
                }
                show(mapping.selection.table().name(), &wide)?;
            }
        }
        Ok(())
    }

    /// The selection of each table, for a format without empty cells.
    pub fn selections(&self) -> impl Iterator<Item = &ResolvedSelection> {
        self.tables.iter().map(|mapping| &mapping.selection)
    }

    /// Writes the first line of the CSV.
    pub fn write_csv_header(&self, sink: impl Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(sink);
        let names = COMMON_COLUMNS.into_iter().chain(self.columns.iter().map(|column| column.name));
        writer.write_record(names).map_err(io_error)?;
        writer.flush()
    }

    /// Writes one line per row. `safe_formulas`: a quote before text that a spreadsheet would read as a formula.
    pub fn write_csv_rows(&self, sink: impl Write, time: &RowTime, input: &FigureInput, safe_formulas: bool) -> io::Result<()> {
        let (end, seconds) = (rfc3339(time.at), shortest_decimal(time.seconds));
        let text_of = if safe_formulas { csv_field_without_formula } else { csv_field };
        let mut writer = csv::Writer::from_writer(sink);
        self.for_each_row(input, |table, cells| {
            [end.as_str(), seconds.as_str(), table].into_iter().try_for_each(|field| writer.write_field(field))?;
            cells.iter().try_for_each(|cell| writer.write_field(text_of(cell)))?;
            writer.write_record(None::<&[u8]>)
        })
        .map_err(io_error)?;
        writer.flush()
    }
}

/// The error of the sink. `io::Error::from(csv::Error)` makes one of kind `Other`: a closed pipe would be a failure.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// The columns of one table, and whether each is text or a number.
pub fn columns_of(selection: &ResolvedSelection) -> Vec<WideColumn> {
    selection.columns.iter().map(|column| WideColumn { name: column.key, kind: column_type(column) }).collect()
}

fn column_type(column: &ColumnDefinition) -> ColumnType {
    match column.unit {
        Unit::Name => ColumnType::Text,
        Unit::Id => ColumnType::Integer,
        _ => ColumnType::Float,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::TABLES;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failed_write_of_csv_is_returned() {
        let failure = WideTable::new(TABLES, false).write_csv_header(Full).unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_key_has_one_type_in_all_tables() {
        let table = WideTable::new(TABLES, false);
        for column in table.selections().flat_map(|selection| &selection.columns) {
            let wide = table.columns.iter().find(|wide| wide.name == column.key).unwrap();
            assert_eq!(wide.kind, column_type(column), "{}", column.key);
            assert!(!COMMON_COLUMNS.contains(&column.key));
        }
    }
}
