//! Rows as lines, in one of four formats. Pure: text out, nothing printed.

use serde::Serializer as _;
use serde::ser::SerializeMap;

use super::sheet::{field, harmless, record};
use super::{Cell, Head, Total, Unit};
use crate::report::json::{moment, plain};
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
    /// Once: nobody looks, or a program reads
    Once,
    /// On a terminal: once in so many lines, or before each time where there are several rows
    Every(usize),
}

/// The time that lines are about.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// HH:MM:SS, local: when it ended
    pub clock: String,
    pub at: Instant,
    /// How long it was
    pub seconds: f64,
}

/// Prints one table, time after time.
pub struct Printer {
    table: &'static str,
    single: bool,
    heads: Vec<&'static Head>,
    format: Format,
    headings: Headings,
    /// Lines since the last heading; `None` before the first
    since: Option<usize>,
}

/// Whether lines are of an interval, or of a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Interval,
    Total,
}

impl Printer {
    pub fn new(table: &dyn super::Table, heads: &[&'static Head], format: Format, headings: Headings) -> Printer {
        Printer { table: table.name(), single: table.is_single(), heads: heads.to_vec(), format, headings, since: None }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The lines of one interval.
    pub fn lines(&mut self, stamp: &Stamp, rows: &[Vec<Cell>]) -> String {
        match self.format {
            Format::Text => self.text(stamp, rows),
            Format::Csv { safe_formulas } => self.csv(stamp, rows, Kind::Interval, safe_formulas),
            Format::Json => self.json(stamp, rows, Kind::Interval),
            Format::Parseable => self.parseable(stamp, rows, Kind::Interval),
        }
    }

    /// The block at the end: of each figure how much it was altogether. `whole` is what a share of time is a share of.
    pub fn total(&mut self, stamp: &Stamp, whole: f64, rows: &[Vec<Cell>]) -> String {
        let total = |row: &Vec<Cell>| -> Vec<Cell> {
            let cells = self.heads.iter().zip(row);
            cells.map(|(head, cell)| totalled(head, cell, stamp.seconds, whole)).collect()
        };
        let rows: Vec<Vec<Cell>> = rows.iter().map(total).collect();
        match self.format {
            Format::Text => self.text_total(stamp, &rows),
            Format::Csv { safe_formulas } => {
                self.since = None;
                self.csv(stamp, &rows, Kind::Total, safe_formulas)
            }
            Format::Json => self.json(stamp, &rows, Kind::Total),
            Format::Parseable => self.parseable(stamp, &rows, Kind::Total),
        }
    }

    fn text(&mut self, stamp: &Stamp, rows: &[Vec<Cell>]) -> String {
        let mut text = String::new();
        if rows.is_empty() && self.since.is_some() {
            return text;
        }
        let due = match (self.headings, self.since) {
            (_, None) => true,
            (Headings::Once, _) => false,
            (Headings::Every(lines), Some(since)) => !self.single || since + rows.len() >= lines,
        };
        if due {
            if self.since.is_some() && !self.single {
                text.push('\n');
            }
            line(&mut text, "    Time", self.heads.iter().map(|head| (*head, head.width(), head.name.to_owned())));
            self.since = Some(1);
        }
        for row in rows {
            let cells = self.heads.iter().zip(row);
            line(&mut text, &stamp.clock, cells.map(|(head, cell)| (*head, head.width(), shown(head, cell))));
        }
        self.since = self.since.map(|since| since.saturating_add(rows.len()));
        text
    }

    fn text_total(&self, stamp: &Stamp, rows: &[Vec<Cell>]) -> String {
        // Amounts are longer than rates.
        let width = |head: &Head| head.width().max(head.total_name().len()).max(9);
        let blank = if self.since.is_some() { "\n" } else { "" };
        let mut text = format!("{blank}Total of {:.3} s until {}\n", stamp.seconds, stamp.clock);
        line(&mut text, "        ", self.heads.iter().map(|head| (*head, width(head), head.total_name())));
        for row in rows {
            let cells = self.heads.iter().zip(row);
            line(&mut text, "  Total:", cells.map(|(head, cell)| (*head, width(head), shown_total(head, cell))));
        }
        text
    }

    /// One heading, then a record a row; RFC 4180.
    fn csv(&mut self, stamp: &Stamp, rows: &[Vec<Cell>], kind: Kind, safe_formulas: bool) -> String {
        let programs = self.programs(kind);
        let mut text = String::new();
        if self.since.is_none() {
            self.since = Some(0);
            let names = programs.iter().map(|(_, name)| name.as_str());
            text.push_str(&record(["time", "seconds"].into_iter().chain(names)));
        }
        let (time, seconds) = (moment(stamp.at), plain_number(stamp.seconds));
        for row in rows {
            let text_of = if safe_formulas { harmless } else { field };
            let cells = programs.iter().map(|(at, _)| row.get(*at).map(text_of).unwrap_or_default());
            let cells: Vec<String> = cells.collect();
            let common = [time.as_str(), seconds.as_str()];
            text.push_str(&record(common.into_iter().chain(cells.iter().map(String::as_str))));
        }
        text
    }

    fn json(&self, stamp: &Stamp, rows: &[Vec<Cell>], kind: Kind) -> String {
        let programs = self.programs(kind);
        let object = |row: &Vec<Cell>| {
            let mut bytes = Vec::new();
            let head = [("schema", "stalltop/1"), ("table", self.table), ("time", &moment(stamp.at))];
            // Into memory, and strings, numbers and nulls only: cannot fail.
            let _ = object(&mut bytes, &head, stamp.seconds, kind, programs.iter().map(|(at, name)| (name, row.get(*at))));
            plain(&String::from_utf8_lossy(&bytes)) + "\n"
        };
        rows.iter().map(object).collect()
    }

    /// EPOCH:TABLE:figures, or EPOCH:TABLE-total:figures. A colon in a name would be one column more.
    fn parseable(&self, stamp: &Stamp, rows: &[Vec<Cell>], kind: Kind) -> String {
        let epoch = stamp.at.realtime_ns.div_euclid(1_000_000_000);
        let total = if kind == Kind::Total { "-total" } else { "" };
        let mut text = String::new();
        for row in rows {
            text.push_str(&format!("{epoch}:{}{total}", self.table));
            for (head, cell) in self.heads.iter().zip(row) {
                text.push(':');
                let figure = if kind == Kind::Total { shown_total(head, cell) } else { shown(head, cell) };
                text.push_str(&figure.replace(':', "\\u{3a}"));
            }
            text.push('\n');
        }
        text
    }

    /// Each name of a figure once, with its place: two headings may be the same figure in other units.
    fn programs(&self, kind: Kind) -> Vec<(usize, String)> {
        let mut programs: Vec<(usize, String)> = Vec::with_capacity(self.heads.len());
        for (at, head) in self.heads.iter().enumerate() {
            let name = if kind == Kind::Total { head.total_json() } else { head.json.to_owned() };
            if !programs.iter().any(|(_, known)| *known == name) {
                programs.push((at, name));
            }
        }
        programs
    }
}

fn object<'a>(
    bytes: &mut Vec<u8>,
    head: &[(&str, &str)],
    seconds: f64,
    kind: Kind,
    cells: impl Iterator<Item = (&'a String, Option<&'a Cell>)>,
) -> Result<(), serde_json::Error> {
    let mut serializer = serde_json::Serializer::new(bytes);
    let mut map = serializer.serialize_map(None)?;
    for (name, text) in head {
        map.serialize_entry(name, text)?;
    }
    map.serialize_entry("seconds", &seconds)?;
    if kind == Kind::Total {
        map.serialize_entry("total", &true)?;
    }
    for (name, cell) in cells {
        match cell {
            Some(Cell::Number(number) | Cell::Bound(_, number)) => match is_whole(*number) {
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
fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9e15
}

/// The shortest text that is read back as the same number.
pub(super) fn plain_number(number: f64) -> String {
    format!("{number}")
}

/// As people read it.
fn shown(head: &Head, cell: &Cell) -> String {
    match cell {
        Cell::Unknown => "-".to_owned(),
        Cell::Number(number) => head.digits.text(number / head.unit.divisor()),
        Cell::Bound(bound, number) => format!("{}{}", bound.sign(), head.digits.text(number / head.unit.divisor())),
        Cell::Text(text) => printable(text),
    }
}

/// The same in a total: events are whole, seconds have three decimals.
fn shown_total(head: &Head, cell: &Cell) -> String {
    match (cell, head.total) {
        (Cell::Number(seconds), Total::Seconds) => format!("{seconds:.3}"),
        (Cell::Bound(bound, seconds), Total::Seconds) => format!("{}{seconds:.3}", bound.sign()),
        (Cell::Number(amount), Total::Amount) => format!("{:.0}", amount / head.unit.divisor()),
        _ => shown(head, cell),
    }
}

fn totalled(head: &Head, cell: &Cell, seconds: f64, whole: f64) -> Cell {
    match (cell, head.total) {
        (_, Total::Unknown) => Cell::Unknown,
        (cell, Total::Amount) => cell.map(|rate| (rate * seconds * 1000.0).round() / 1000.0),
        (cell, Total::Seconds) => cell.map(|share| share * seconds * whole),
        (cell, Total::Same) => cell.clone(),
    }
}

/// Numbers end below the end of their heading, names begin below its beginning; the last name takes what it needs.
fn line<'a>(text: &mut String, first: &str, cells: impl Iterator<Item = (&'a Head, usize, String)>) {
    text.push_str(first);
    let mut gap = 0;
    for (head, width, cell) in cells {
        let used = unicode_width::UnicodeWidthStr::width(cell.as_str());
        let room = " ".repeat(width.saturating_sub(used));
        text.push_str(&" ".repeat(gap + 1));
        match head.unit == Unit::Name {
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
