//! All tables as one wide one, for exports: a row a row of each table, a column a figure. A figure that means the same in two
//! tables is one column; what a table does not have is empty.

use super::column::{Head, Unit};
use super::printer::{Stamp, plain_number};
use super::{Cell, Choice, Look, Table};
use crate::report::json::moment;
use crate::report::text::printable;

/// The columns of the wide table, and how each table's go into it.
pub struct Sheet {
    /// Behind `time`, `seconds` and `table`
    pub fields: Vec<Field>,
    parts: Vec<Part>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As in JSON
    pub name: &'static str,
    pub kind: Kind,
}

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Numbers that are names
    Whole,
    Number,
}

/// One table of it.
struct Part {
    choice: Choice,
    /// Where each of its cells belongs
    places: Vec<usize>,
}

/// Columns that every row has.
pub const COMMON: [&str; 3] = ["time", "seconds", "table"];

impl Sheet {
    /// Of these tables; `idle`: with the tasks and threads that did nothing.
    pub fn of(tables: &[&'static dyn Table], idle: bool) -> Sheet {
        let mut fields: Vec<Field> = Vec::new();
        let mut part = |table: &'static dyn Table| {
            let choice = Choice::everything(table, !idle && matches!(table.name(), "task" | "thread"));
            let places = choice.heads.iter().map(|head| {
                fields.iter().position(|field| field.name == head.json).unwrap_or_else(|| {
                    fields.push(Field { name: head.json, kind: kind(head) });
                    fields.len() - 1
                })
            });
            let places = places.collect();
            Part { choice, places }
        };
        let parts = tables.iter().map(|&table| part(table)).collect();
        Sheet { fields, parts }
    }

    /// Shows each row: its table, and a cell for each of `fields`.
    pub fn each<E>(&self, look: &Look, mut show: impl FnMut(&'static str, &[Cell]) -> Result<(), E>) -> Result<(), E> {
        let mut wide = vec![Cell::Unknown; self.fields.len()];
        for part in &self.parts {
            for row in part.choice.rows(look) {
                wide.fill(Cell::Unknown);
                for (cell, &place) in row.into_iter().zip(&part.places) {
                    if let Some(field) = wide.get_mut(place) {
                        *field = cell;
                    }
                }
                show(part.choice.table().name(), &wide)?;
            }
        }
        Ok(())
    }

    /// The choice of each table, for a format that has lines of its own for each.
    pub fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.parts.iter().map(|part| &part.choice)
    }

    /// The first line of the CSV.
    pub fn csv_heading(&self) -> String {
        record(COMMON.into_iter().chain(self.fields.iter().map(|field| field.name)))
    }

    /// A line a row. `safe_formulas`: text that a spreadsheet would take for a formula gets a quote before it.
    pub fn csv(&self, stamp: &Stamp, look: &Look, safe_formulas: bool) -> String {
        let (time, seconds) = (moment(stamp.at), plain_number(stamp.seconds));
        let mut text = String::new();
        let shown = self.each(look, |table, cells| {
            let text_of = if safe_formulas { harmless } else { field };
            let cells: Vec<String> = cells.iter().map(text_of).collect();
            let common = [time.as_str(), seconds.as_str(), table];
            text.push_str(&record(common.into_iter().chain(cells.iter().map(String::as_str))));
            Ok::<(), std::convert::Infallible>(())
        });
        match shown {
            Ok(()) => text,
        }
    }
}

fn kind(head: &Head) -> Kind {
    match head.unit {
        Unit::Name => Kind::Text,
        Unit::Id => Kind::Whole,
        _ => Kind::Number,
    }
}

/// One cell of a record.
pub(super) fn field(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) | Cell::Bound(_, number) => plain_number(*number),
        Cell::Text(text) => printable(text),
        Cell::Unknown => String::new(),
    }
}

/// The same without what a spreadsheet takes for the beginning of a formula (OWASP's list). A number is none.
pub(super) fn harmless(cell: &Cell) -> String {
    let text = field(cell);
    let formula = matches!(cell, Cell::Text(_)) && text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula { format!("'{text}") } else { text }
}

/// One record, RFC 4180 but for the line's end.
pub(super) fn record<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Into memory: cannot fail.
    let _ = writer.write_record(fields);
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::TABLES;

    #[test]
    fn a_name_means_one_kind_of_thing() {
        let sheet = Sheet::of(TABLES, false);
        for head in sheet.choices().flat_map(|choice| &choice.heads) {
            let field = sheet.fields.iter().find(|field| field.name == head.json).unwrap();
            assert_eq!(field.kind, kind(head), "{}", head.json);
            assert!(!COMMON.contains(&head.json));
        }
    }
}
