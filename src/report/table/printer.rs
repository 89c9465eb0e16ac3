//! Rows as lines, in one of four formats. Pure: text out, nothing printed.

use serde::Serializer as _;
use serde::ser::SerializeMap;

use super::wide_table::{csv_field, csv_field_without_formula, csv_record};
use crate::figures::{Aggregation, Cell, ColumnDefinition, Table, Unit};
use crate::report::json::{escape_unprintable, rfc3339};
use crate::report::text::printable;
use crate::sample::Instant;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people, in the kernel tools' units; `-` is unknown
    Text,
    /// For spreadsheets, in the units of the names; unknown is empty
    Csv {
        /// Text that a spreadsheet would take for a formula gets a quote before it
        safe_formulas: bool,
    },
    /// An object a line; unknown is null
    Json,
    /// For scripts: figures as in text, with colons between them
    Parseable,
}

/// When headings are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headings {
    /// Once: the output is not a terminal
    Once,
    /// On a terminal: once in so many lines, or before each time where there are several rows
    Every(usize),
}

/// The time that lines are about.
#[derive(Clone, Debug)]
pub struct RowTime {
    /// HH:MM:SS, local: when it ended
    pub clock: String,
    pub at: Instant,
    /// How long it was
    pub seconds: f64,
}

/// Prints one table, time after time.
pub struct Printer {
    table: &'static str,
    single_row: bool,
    columns: Vec<&'static ColumnDefinition>,
    format: Format,
    headings: Headings,
    /// Lines since the last heading; `None` before the first
    lines_since_heading: Option<usize>,
}

/// Whether lines are of an interval, or of a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    Interval,
    Total,
}

impl Printer {
    pub fn new(table: &dyn Table, heads: &[&'static ColumnDefinition], format: Format, headings: Headings) -> Printer {
        Printer {
            table: table.name(),
            single_row: table.is_single_row(),
            columns: heads.to_vec(),
            format,
            headings,
            lines_since_heading: None,
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The lines of one interval.
    pub fn lines(&mut self, stamp: &RowTime, rows: &[Vec<Cell>]) -> String {
        match self.format {
            Format::Text => self.text(stamp, rows),
            Format::Csv { safe_formulas } => self.csv(stamp, rows, RowKind::Interval, safe_formulas),
            Format::Json => self.json(stamp, rows, RowKind::Interval),
            Format::Parseable => self.parseable(stamp, rows, RowKind::Interval),
        }
    }

    /// The block at the end: of each figure how much it was altogether. `whole` is what a share of time is a share of.
    pub fn total_lines(&mut self, stamp: &RowTime, whole: f64, rows: &[Vec<Cell>]) -> String {
        let total = |row: &Vec<Cell>| -> Vec<Cell> {
            let cells = self.columns.iter().zip(row);
            cells.map(|(head, cell)| total_cell(head, cell, stamp.seconds, whole)).collect()
        };
        let rows: Vec<Vec<Cell>> = rows.iter().map(total).collect();
        match self.format {
            Format::Text => self.text_total(stamp, &rows),
            Format::Csv { safe_formulas } => {
                self.lines_since_heading = None;
                self.csv(stamp, &rows, RowKind::Total, safe_formulas)
            }
            Format::Json => self.json(stamp, &rows, RowKind::Total),
            Format::Parseable => self.parseable(stamp, &rows, RowKind::Total),
        }
    }

    fn text(&mut self, stamp: &RowTime, rows: &[Vec<Cell>]) -> String {
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
            write_line(&mut text, "    Time", self.columns.iter().map(|head| (*head, head.width(), head.title.to_owned())));
            self.lines_since_heading = Some(1);
        }
        for row in rows {
            let cells = self.columns.iter().zip(row);
            write_line(&mut text, &stamp.clock, cells.map(|(head, cell)| (*head, head.width(), format_cell(head, cell))));
        }
        self.lines_since_heading = self.lines_since_heading.map(|since| since.saturating_add(rows.len()));
        text
    }

    fn text_total(&self, stamp: &RowTime, rows: &[Vec<Cell>]) -> String {
        // Amounts are longer than rates.
        let width = |head: &ColumnDefinition| head.width().max(head.total_title().len()).max(9);
        let blank = if self.lines_since_heading.is_some() { "\n" } else { "" };
        let mut text = format!("{blank}Total of {:.3} s until {}\n", stamp.seconds, stamp.clock);
        write_line(&mut text, "        ", self.columns.iter().map(|head| (*head, width(head), head.total_title())));
        for row in rows {
            let cells = self.columns.iter().zip(row);
            write_line(&mut text, "  Total:", cells.map(|(head, cell)| (*head, width(head), format_total_cell(head, cell))));
        }
        text
    }

    /// One heading, then a record a row; RFC 4180.
    fn csv(&mut self, stamp: &RowTime, rows: &[Vec<Cell>], kind: RowKind, safe_formulas: bool) -> String {
        let programs = self.key_columns(kind);
        let mut text = String::new();
        if self.lines_since_heading.is_none() {
            self.lines_since_heading = Some(0);
            let names = programs.iter().map(|(_, name)| name.as_str());
            text.push_str(&csv_record(["time", "seconds"].into_iter().chain(names)));
        }
        let (time, seconds) = (rfc3339(stamp.at), shortest_decimal(stamp.seconds));
        for row in rows {
            let text_of = if safe_formulas { csv_field_without_formula } else { csv_field };
            let cells = programs.iter().map(|(at, _)| row.get(*at).map(text_of).unwrap_or_default());
            let cells: Vec<String> = cells.collect();
            let common = [time.as_str(), seconds.as_str()];
            text.push_str(&csv_record(common.into_iter().chain(cells.iter().map(String::as_str))));
        }
        text
    }

    fn json(&self, stamp: &RowTime, rows: &[Vec<Cell>], kind: RowKind) -> String {
        let programs = self.key_columns(kind);
        let object = |row: &Vec<Cell>| {
            let mut bytes = Vec::new();
            let head = [("schema", "stalltop/1"), ("table", self.table), ("time", &rfc3339(stamp.at))];
            // Into memory, and strings, numbers and nulls only: cannot fail.
            let _ =
                write_object(&mut bytes, &head, stamp.seconds, kind, programs.iter().map(|(at, name)| (name, row.get(*at))));
            escape_unprintable(&String::from_utf8_lossy(&bytes)) + "\n"
        };
        rows.iter().map(object).collect()
    }

    /// EPOCH:TABLE:figures, or EPOCH:TABLE-total:figures. A colon in a name would be one column more.
    fn parseable(&self, stamp: &RowTime, rows: &[Vec<Cell>], kind: RowKind) -> String {
        let epoch = stamp.at.realtime_ns.div_euclid(1_000_000_000);
        let total = if kind == RowKind::Total { "-total" } else { "" };
        let mut text = String::new();
        for row in rows {
            text.push_str(&format!("{epoch}:{}{total}", self.table));
            for (head, cell) in self.columns.iter().zip(row) {
                text.push(':');
                let figure = if kind == RowKind::Total { format_total_cell(head, cell) } else { format_cell(head, cell) };
                text.push_str(&figure.replace(':', "\\u{3a}"));
            }
            text.push('\n');
        }
        text
    }

    /// Each name of a figure once, with its place: two headings may be the same figure in other units.
    fn key_columns(&self, kind: RowKind) -> Vec<(usize, String)> {
        let mut programs: Vec<(usize, String)> = Vec::with_capacity(self.columns.len());
        for (at, head) in self.columns.iter().enumerate() {
            let name = if kind == RowKind::Total { head.total_key() } else { head.key.to_owned() };
            if !programs.iter().any(|(_, known)| *known == name) {
                programs.push((at, name));
            }
        }
        programs
    }
}

fn write_object<'a>(
    bytes: &mut Vec<u8>,
    head: &[(&str, &str)],
    seconds: f64,
    kind: RowKind,
    cells: impl Iterator<Item = (&'a String, Option<&'a Cell>)>,
) -> Result<(), serde_json::Error> {
    let mut serializer = serde_json::Serializer::new(bytes);
    let mut map = serializer.serialize_map(None)?;
    for (name, text) in head {
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

/// Whether it may be written without a point.
fn is_integer(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9e15
}

/// The shortest text that is read back as the same number.
pub(super) fn shortest_decimal(number: f64) -> String {
    format!("{number}")
}

/// As people read it.
fn format_cell(column: &ColumnDefinition, cell: &Cell) -> String {
    match cell {
        Cell::Unknown => "-".to_owned(),
        Cell::Number(number) => column.format(*number),
        Cell::Bound(bound, number) => format!("{}{}", bound.sign(), column.format(*number)),
        Cell::Text(text) => printable(text),
    }
}

/// The same in a total: events are whole, seconds have three decimals.
fn format_total_cell(column: &ColumnDefinition, cell: &Cell) -> String {
    match (cell, column.aggregation) {
        (Cell::Number(seconds), Aggregation::Seconds) => format!("{seconds:.3}"),
        (Cell::Bound(bound, seconds), Aggregation::Seconds) => format!("{}{seconds:.3}", bound.sign()),
        (Cell::Number(amount), Aggregation::Sum) => format!("{:.0}", column.unit.displayed(*amount)),
        _ => format_cell(column, cell),
    }
}

fn total_cell(column: &ColumnDefinition, cell: &Cell, seconds: f64, whole: f64) -> Cell {
    match (cell, column.aggregation) {
        (_, Aggregation::Unknown) => Cell::Unknown,
        (cell, Aggregation::Sum) => cell.map_number(|rate| (rate * seconds * 1000.0).round() / 1000.0),
        (cell, Aggregation::Seconds) => cell.map_number(|share| share * seconds * whole),
        (cell, Aggregation::Unchanged) => cell.clone(),
    }
}

/// Numbers end below the end of their heading, names begin below its beginning; the last name takes what it needs.
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
