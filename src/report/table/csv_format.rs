//! Fields and records of CSV, as `table` and `export` write them.

use std::io;

use crate::figures::Cell;
use crate::report::formatting::printable;

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
pub(super) fn csv_record<'a>(fields: impl Iterator<Item = &'a str>) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields)?;
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// The shortest decimal that parses to the same number.
pub(super) fn shortest_decimal(number: f64) -> String {
    format!("{number}")
}
