//! All tables as one wide one, for exports: a row a row of each table, a column a figure. A figure that means the same in two
//! tables is one column; what a table does not have is empty.

use super::ResolvedSelection;
use super::printer::{RowTime, shortest_decimal};
use crate::figures::{Cell, ColumnDefinition, FigureInput, Table, Unit};
use crate::report::json::rfc3339;
use crate::report::text::printable;

/// The columns of the wide table, and how each table's go into it.
pub struct WideTable {
    /// Behind `time`, `seconds` and `table`
    pub columns: Vec<WideColumn>,
    tables: Vec<TableMapping>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideColumn {
    /// As in JSON
    pub name: &'static str,
    pub kind: ColumnType,
}

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    /// Numbers that are names
    Integer,
    Float,
}

/// One table of it.
struct TableMapping {
    selection: ResolvedSelection,
    /// Where each of its cells belongs
    column_indices: Vec<usize>,
}

/// Columns that every row has.
pub const COMMON_COLUMNS: [&str; 3] = ["time", "seconds", "table"];

impl WideTable {
    /// Of these tables; `idle`: with the tasks and threads that did nothing.
    pub fn new(tables: &[&'static dyn Table], idle: bool) -> WideTable {
        let mut fields: Vec<WideColumn> = Vec::new();
        let mut part = |table: &'static dyn Table| {
            let choice = ResolvedSelection::all_columns(table, !idle && matches!(table.name(), "task" | "thread"));
            let places = choice.columns.iter().map(|head| {
                fields.iter().position(|field| field.name == head.key).unwrap_or_else(|| {
                    fields.push(WideColumn { name: head.key, kind: column_type(head) });
                    fields.len() - 1
                })
            });
            let places = places.collect();
            TableMapping { selection: choice, column_indices: places }
        };
        let parts = tables.iter().map(|&table| part(table)).collect();
        WideTable { columns: fields, tables: parts }
    }

    /// Shows each row: its table, and a cell for each of `fields`.
    pub fn for_each_row<E>(
        &self,
        look: &FigureInput,
        mut show: impl FnMut(&'static str, &[Cell]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut wide = vec![Cell::Unknown; self.columns.len()];
        for part in &self.tables {
            for row in part.selection.rows(look) {
                wide.fill(Cell::Unknown);
                for (cell, &place) in row.into_iter().zip(&part.column_indices) {
                    if let Some(field) = wide.get_mut(place) {
                        *field = cell;
                    }
                }
                show(part.selection.table().name(), &wide)?;
            }
        }
        Ok(())
    }

    /// The choice of each table, for a format that has lines of its own for each.
    pub fn selections(&self) -> impl Iterator<Item = &ResolvedSelection> {
        self.tables.iter().map(|part| &part.selection)
    }

    /// The first line of the CSV.
    pub fn csv_header(&self) -> String {
        csv_record(COMMON_COLUMNS.into_iter().chain(self.columns.iter().map(|field| field.name)))
    }

    /// A line a row. `safe_formulas`: text that a spreadsheet would take for a formula gets a quote before it.
    pub fn csv_rows(&self, stamp: &RowTime, look: &FigureInput, safe_formulas: bool) -> String {
        let (time, seconds) = (rfc3339(stamp.at), shortest_decimal(stamp.seconds));
        let mut text = String::new();
        let shown = self.for_each_row(look, |table, cells| {
            let text_of = if safe_formulas { csv_field_without_formula } else { csv_field };
            let cells: Vec<String> = cells.iter().map(text_of).collect();
            let common = [time.as_str(), seconds.as_str(), table];
            text.push_str(&csv_record(common.into_iter().chain(cells.iter().map(String::as_str))));
            Ok::<(), std::convert::Infallible>(())
        });
        match shown {
            Ok(()) => text,
        }
    }
}

fn column_type(head: &ColumnDefinition) -> ColumnType {
    match head.unit {
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

/// The same without what a spreadsheet takes for the beginning of a formula (OWASP's list). A number is none.
pub(super) fn csv_field_without_formula(cell: &Cell) -> String {
    let text = csv_field(cell);
    let formula = matches!(cell, Cell::Text(_)) && text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula { format!("'{text}") } else { text }
}

/// One record, RFC 4180 but for the line's end.
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
    fn a_name_means_one_kind_of_thing() {
        let sheet = WideTable::new(TABLES, false);
        for head in sheet.selections().flat_map(|choice| &choice.columns) {
            let field = sheet.columns.iter().find(|field| field.name == head.key).unwrap();
            assert_eq!(field.kind, column_type(head), "{}", head.key);
            assert!(!COMMON_COLUMNS.contains(&head.key));
        }
    }
}
