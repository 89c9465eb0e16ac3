//! Formats rows as lines: text, CSV, JSON or colon-separated.

use std::io;

use serde::Serializer as _;
use serde::ser::SerializeMap;

use super::csv_format::{csv_field, csv_field_without_formula, csv_record, shortest_decimal};
use crate::figures::{Aggregation, Cell, ColumnDefinition, Table, Unit};
use crate::report::formatting::printable;
use crate::report::formatting::rfc3339;
use crate::report::json::escape_unprintable;
use crate::sample::Instant;

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people, in the units of the kernel's tools; `-` is unknown
    Text,
    /// For spreadsheets, in the units of the keys; unknown is empty
    Csv {
        /// A quote before text that a spreadsheet would read as a formula
        safe_formulas: bool,
    },
    /// One object per line; unknown is null
    Json,
    /// For scripts: the cells of the text with colons between them
    Parseable,
}

/// When headings are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headings {
    /// Once: the output is not a terminal
    Once,
    /// On a terminal: once in that many lines; before each time in a table of several rows
    Every(usize),
}

/// The interval of a line.
#[derive(Clone, Debug)]
pub struct RowTime {
    /// The local time of its end, HH:MM:SS
    pub clock: String,
    pub at: Instant,
    /// Its length
    pub seconds: f64,
}

/// Formats one table, interval after interval.
pub struct Printer {
    table: &'static str,
    single_row: bool,
    columns: Vec<&'static ColumnDefinition>,
    format: Format,
    headings: Headings,
    /// Lines since the last heading; `None` before the first
    lines_since_heading: Option<usize>,
}

/// The time that a row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    Interval,
    Total,
}

impl Printer {
    pub fn new(table: &dyn Table, columns: &[&'static ColumnDefinition], format: Format, headings: Headings) -> Printer {
        Printer {
            table: table.name(),
            single_row: table.is_single_row(),
            columns: columns.to_vec(),
            format,
            headings,
            lines_since_heading: None,
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The lines of one interval.
    pub fn lines(&mut self, time: &RowTime, rows: &[Vec<Cell>]) -> io::Result<String> {
        Ok(match self.format {
            Format::Text => self.text(time, rows),
            Format::Csv { safe_formulas } => self.csv(time, rows, RowKind::Interval, safe_formulas)?,
            Format::Json => self.json(time, rows, RowKind::Interval)?,
            Format::Parseable => self.parseable(time, rows, RowKind::Interval),
        })
    }

    /// The totals of a whole run. `capacity`: what a share of time is a share of, in CPUs or devices.
    pub fn total_lines(&mut self, time: &RowTime, capacity: f64, rows: &[Vec<Cell>]) -> io::Result<String> {
        let total = |row: &Vec<Cell>| -> Vec<Cell> {
            let cells = self.columns.iter().zip(row);
            cells.map(|(column, cell)| total_cell(column, cell, time.seconds, capacity)).collect()
        };
        let rows: Vec<Vec<Cell>> = rows.iter().map(total).collect();
        Ok(match self.format {
            Format::Text => self.text_total(time, &rows),
            Format::Csv { safe_formulas } => {
                self.lines_since_heading = None;
                self.csv(time, &rows, RowKind::Total, safe_formulas)?
            }
            Format::Json => self.json(time, &rows, RowKind::Total)?,
            Format::Parseable => self.parseable(time, &rows, RowKind::Total),
        })
    }

    fn text(&mut self, time: &RowTime, rows: &[Vec<Cell>]) -> String {
        let mut text = String::new();
        if rows.is_empty() && self.lines_since_heading.is_some() {
            return text;
        }
        let due = match (self.headings, self.lines_since_heading) {
            (_, None) => true,
            (Headings::Once, _) => false,
            (Headings::Every(lines), Some(since)) => !self.single_row || since + rows.len() >= lines,
        };
        if due {
            if self.lines_since_heading.is_some() && !self.single_row {
                text.push('\n');
            }
            write_line(
                &mut text,
                "    Time",
                self.columns.iter().map(|column| (*column, column.width(), column.title.to_owned())),
            );
            self.lines_since_heading = Some(1);
        }
        for row in rows {
            let cells = self.columns.iter().zip(row);
            write_line(
                &mut text,
                &time.clock,
                cells.map(|(column, cell)| (*column, column.width(), format_cell(column, cell))),
            );
        }
        self.lines_since_heading = self.lines_since_heading.map(|since| since.saturating_add(rows.len()));
        text
    }

    fn text_total(&self, time: &RowTime, rows: &[Vec<Cell>]) -> String {
        // Amounts are longer than rates.
        let width = |column: &ColumnDefinition| column.width().max(column.total_title().len()).max(9);
        let blank = if self.lines_since_heading.is_some() { "\n" } else { "" };
        let mut text = format!("{blank}Total of {:.3} s until {}\n", time.seconds, time.clock);
        write_line(&mut text, "        ", self.columns.iter().map(|column| (*column, width(column), column.total_title())));
        for row in rows {
            let cells = self.columns.iter().zip(row);
            write_line(
                &mut text,
                "  Total:",
                cells.map(|(column, cell)| (*column, width(column), format_total_cell(column, cell))),
            );
        }
        text
    }

    /// RFC 4180: one heading, then one record per row.
    fn csv(&mut self, time: &RowTime, rows: &[Vec<Cell>], kind: RowKind, safe_formulas: bool) -> io::Result<String> {
        let keys = self.key_columns(kind);
        let mut text = String::new();
        if self.lines_since_heading.is_none() {
            self.lines_since_heading = Some(0);
            let names = keys.iter().map(|(_, name)| name.as_str());
            text.push_str(&csv_record(["time", "seconds"].into_iter().chain(names))?);
        }
        let (end, seconds) = (rfc3339(time.at), shortest_decimal(time.seconds));
        for row in rows {
            let text_of = if safe_formulas { csv_field_without_formula } else { csv_field };
            let cells = keys.iter().map(|(index, _)| row.get(*index).map(text_of).unwrap_or_default());
            let cells: Vec<String> = cells.collect();
            let common = [end.as_str(), seconds.as_str()];
            text.push_str(&csv_record(common.into_iter().chain(cells.iter().map(String::as_str)))?);
        }
        Ok(text)
    }

    fn json(&self, time: &RowTime, rows: &[Vec<Cell>], kind: RowKind) -> io::Result<String> {
        let keys = self.key_columns(kind);
        let object = |row: &Vec<Cell>| -> io::Result<String> {
            let mut bytes = Vec::new();
            let common = [("schema", "stalltop/1"), ("table", self.table), ("time", &rfc3339(time.at))];
            write_object(&mut bytes, &common, time.seconds, kind, keys.iter().map(|(index, name)| (name, row.get(*index))))?;
            Ok(escape_unprintable(&String::from_utf8_lossy(&bytes)) + "\n")
        };
        rows.iter().map(object).collect()
    }

    /// EPOCH:TABLE:cells or EPOCH:TABLE-total:cells; colons in names are escaped.
    fn parseable(&self, time: &RowTime, rows: &[Vec<Cell>], kind: RowKind) -> String {
        let epoch = time.at.realtime_ns.div_euclid(1_000_000_000);
        let total = if kind == RowKind::Total { "-total" } else { "" };
        let mut text = String::new();
        for row in rows {
            text.push_str(&format!("{epoch}:{}{total}", self.table));
            for (column, cell) in self.columns.iter().zip(row) {
                text.push(':');
                let figure = if kind == RowKind::Total { format_total_cell(column, cell) } else { format_cell(column, cell) };
                text.push_str(&figure.replace(':', "\\u{3a}"));
            }
            text.push('\n');
        }
        text
    }

    /// Each key once, with the index of its column: two columns may be the same figure in other units.
    fn key_columns(&self, kind: RowKind) -> Vec<(usize, String)> {
        let mut keys: Vec<(usize, String)> = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let name = if kind == RowKind::Total { column.total_key() } else { column.key.to_owned() };
            if !keys.iter().any(|(_, known)| *known == name) {
                keys.push((index, name));
            }
        }
        keys
    }
}

fn write_object<'a>(
    bytes: &mut Vec<u8>,
    common: &[(&str, &str)],
    seconds: f64,
    kind: RowKind,
    cells: impl Iterator<Item = (&'a String, Option<&'a Cell>)>,
) -> Result<(), serde_json::Error> {
    let mut serializer = serde_json::Serializer::new(bytes);
    let mut map = serializer.serialize_map(None)?;
    for (name, text) in common {
        map.serialize_entry(name, text)?;
    }
    map.serialize_entry("seconds", &seconds)?;
    if kind == RowKind::Total {
        map.serialize_entry("total", &true)?;
    }
    for (name, cell) in cells {
        match cell {
            Some(Cell::Number(number) | Cell::Bound(_, number)) => match is_integer(*number) {
                true => map.serialize_entry(name, &(*number as i64))?,
                false => map.serialize_entry(name, number)?,
            },
            Some(Cell::Text(text)) => map.serialize_entry(name, text)?,
            Some(Cell::Unknown) | None => map.serialize_entry(name, &None::<f64>)?,
        }
    }
    map.end()
}

/// Whether it is printed without a decimal point.
fn is_integer(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9e15
}

/// The text of a cell for people.
fn format_cell(column: &ColumnDefinition, cell: &Cell) -> String {
    match cell {
        Cell::Unknown => "-".to_owned(),
        Cell::Number(number) => column.format(*number),
        Cell::Bound(bound, number) => format!("{}{}", bound.sign(), column.format(*number)),
        Cell::Text(text) => printable(text),
    }
}

/// The same of a total: events are whole, seconds have three decimals.
fn format_total_cell(column: &ColumnDefinition, cell: &Cell) -> String {
    match (cell, column.aggregation) {
        (Cell::Number(seconds), Aggregation::Seconds) => format!("{seconds:.3}"),
        (Cell::Bound(bound, seconds), Aggregation::Seconds) => format!("{}{seconds:.3}", bound.sign()),
        (Cell::Number(amount), Aggregation::Sum) => format!("{:.0}", column.unit.displayed(*amount)),
        _ => format_cell(column, cell),
    }
}

fn total_cell(column: &ColumnDefinition, cell: &Cell, seconds: f64, capacity: f64) -> Cell {
    match (cell, column.aggregation) {
        (_, Aggregation::Unknown) => Cell::Unknown,
        (cell, Aggregation::Sum) => cell.map_number(|rate| (rate * seconds * 1000.0).round() / 1000.0),
        (cell, Aggregation::Seconds) => cell.map_number(|share| share * seconds * capacity),
        (cell, Aggregation::Unchanged) => cell.clone(),
    }
}

/// Numbers are right-aligned below their headings, names are left-aligned; a name may use the space after it.
fn write_line<'a>(text: &mut String, first: &str, cells: impl Iterator<Item = (&'a ColumnDefinition, usize, String)>) {
    text.push_str(first);
    let mut gap = 0;
    for (column, width, cell) in cells {
        let used = unicode_width::UnicodeWidthStr::width(cell.as_str());
        let room = " ".repeat(width.saturating_sub(used));
        text.push_str(&" ".repeat(gap + 1));
        match column.unit == Unit::Name {
            true => {
                text.push_str(&cell);
                gap = room.len();
            }
            false => {
                text.push_str(&room);
                text.push_str(&cell);
                gap = 0;
            }
        }
    }
    text.push('\n');
}
