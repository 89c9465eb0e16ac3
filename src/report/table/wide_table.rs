//! All tables as one wide table, for `export`: one column per key, which tables share; one row per row of each table. A cell is
//! empty where the row's table does not have the column.

use super::ResolvedSelection;
use super::printer::{RowTime, shortest_decimal};
use crate::figures::{Cell, ColumnDefinition, FigureInput, Table, Unit};
use crate::report::json::rfc3339;
use crate::report::text::printable;

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

    /// The first line of the CSV.
    pub fn csv_header(&self) -> String {
        csv_record(COMMON_COLUMNS.into_iter().chain(self.columns.iter().map(|column| column.name)))
    }

    /// One line per row. `safe_formulas`: a quote before text that a spreadsheet would read as a formula.
    pub fn csv_rows(&self, time: &RowTime, input: &FigureInput, safe_formulas: bool) -> String {
        let (end, seconds) = (rfc3339(time.at), shortest_decimal(time.seconds));
        let mut text = String::new();
        let shown = self.for_each_row(input, |table, cells| {
            let text_of = if safe_formulas { csv_field_without_formula } else { csv_field };
            let cells: Vec<String> = cells.iter().map(text_of).collect();
            let common = [end.as_str(), seconds.as_str(), table];
            text.push_str(&csv_record(common.into_iter().chain(cells.iter().map(String::as_str))));
            Ok::<(), std::convert::Infallible>(())
        });
        match shown {
            Ok(()) => text,
        }
    }
}

fn column_type(column: &ColumnDefinition) -> ColumnType {
    match column.unit {
        Unit::Name => ColumnType::Text,
        Unit::Id => ColumnType::Integer,
        _ => ColumnType::Float,
    }
}

/// One cell of a record.
pub(super) fn csv_field(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) | Cell::Bound(_, number) => shortest_decimal(*number),
        Cell::Text(text) => printable(text),
        Cell::Unknown => String::new(),
    }
}

/// The same; text that begins like a formula (OWASP's list) gets a quote before it.
pub(super) fn csv_field_without_formula(cell: &Cell) -> String {
    let text = csv_field(cell);
    let formula = matches!(cell, Cell::Text(_)) && text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula { format!("'{text}") } else { text }
}

/// One record of RFC 4180, but with `\n` at its end.
pub(super) fn csv_record<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to a String cannot fail.
    let _ = writer.write_record(fields);
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::TABLES;

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
