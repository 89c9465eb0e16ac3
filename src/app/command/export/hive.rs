//! `export --hive`: DIR/table=T/host=H/date=D/ID.parquet, where ID is that of the recording, so that exporting it again replaces its own
//! files. A file gets its name when it is complete. Dates are those of UTC.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::app::command::table::stamp;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::figures::{Cell, FigureInput, TABLES, Table};
use crate::recording::Mark;
use crate::report::formatting::rfc3339;
use crate::report::table::{
    FINDING_COLUMNS, MARK_COLUMNS, ParquetLayout, ParquetWriter, ResolvedSelection, RowTime, WideColumn, columns_of,
    finding_cells, mark_cells,
};
use crate::sample::Instant;
use jiff::tz::TimeZone;

/// The tables that are no figures.
const FINDING: &str = "finding";
const MARK: &str = "mark";

/// A recording, or those of a directory, in the order of their names.
pub fn recordings(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("cannot read {}", quoted(path)), error, "");
    let entries = fs::read_dir(path).map_err(|error| cannot(&error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "stalltop"));
    files.sort();
    if files.is_empty() { Err(cannot(&"there is no recording in it")) } else { Ok(files) }
}

/// Which rows of a recording are written.
pub struct HiveSelection {
    pub tables: Vec<&'static dyn Table>,
    /// Findings and marks, too
    pub with_events: bool,
    /// Tasks and threads that were idle in an interval, too
    pub with_idle: bool,
}

impl HiveSelection {
    /// All tables and events, without idle tasks.
    pub fn all() -> HiveSelection {
        HiveSelection { tables: TABLES.to_vec(), with_events: true, with_idle: false }
    }
}

/// Writes the selected rows.
pub fn write(recorded: &mut EvaluatedRecording, selection: &HiveSelection, directory: &Path) -> Result<(), Failure> {
    let cannot =
        |error: io::Error| Failure::new(Exit::CannotWrite, format!("cannot export to {}", quoted(directory)), error, "");
    let mut hive = Hive::new(directory, recorded);
    let busy_only = |table: &dyn Table| !selection.with_idle && table.pid_column().is_some();
    let selections: Vec<ResolvedSelection> =
        selection.tables.iter().map(|&table| ResolvedSelection::all_columns(table, busy_only(table))).collect();
    let with_events = selection.with_events;
    for evaluation in recorded.by_ref() {
        let input = FigureInput::from(&evaluation);
        let time = stamp(&input, &TimeZone::UTC);
        for selection in &selections {
            let (name, columns) = (selection.table().name(), || columns_of(selection));
            for row in selection.rows(&input) {
                hive.write_row(name, columns, &time, &row).map_err(cannot)?;
            }
        }
        for finding in evaluation.active.iter().filter(|_| with_events) {
            hive.write_row(FINDING, || FINDING_COLUMNS.to_vec(), &time, &finding_cells(finding)).map_err(cannot)?;
        }
    }
    let marks: &[Mark] = if with_events { recorded.replayer().marks() } else { &[] };
    for mark in marks {
        let at = Instant { realtime_ns: mark.at.realtime_ns, boottime_ns: mark.at.boottime_ns, ..Instant::default() };
        let time = RowTime { clock: String::new(), at, seconds: 0.0 };
        hive.write_row(MARK, || MARK_COLUMNS.to_vec(), &time, &mark_cells(&mark.text)).map_err(cannot)?;
    }
    hive.finish().map_err(cannot)
}

/// The files of one recording.
struct Hive {
    directory: PathBuf,
    host: String,
    id: String,
    /// By table
    open: BTreeMap<&'static str, Part>,
    written: BTreeSet<PathBuf>,
}

/// A file that is being written.
struct Part {
    date: String,
    path: PathBuf,
    writer: ParquetWriter<BufWriter<NamedTempFile>>,
}

impl Hive {
    fn new(directory: &Path, recorded: &EvaluatedRecording) -> Hive {
        let replayer = recorded.replayer();
        let id = replayer.header().id.iter().map(|byte| format!("{byte:02x}")).collect();
        let host = path_component(&replayer.meta().host.hostname.to_string_lossy());
        Hive { directory: directory.to_owned(), host, id, open: BTreeMap::new(), written: BTreeSet::new() }
    }

    fn write_row(
        &mut self,
        table: &'static str,
        columns: impl Fn() -> Vec<WideColumn>,
        time: &RowTime,
        cells: &[Cell],
    ) -> io::Result<()> {
        let date: String = rfc3339(time.at).chars().take("2026-11-22".len()).collect();
        if self.open.get(table).is_some_and(|part| part.date != date)
            && let Some(part) = self.open.remove(table)
        {
            part.finish()?;
        }
        if !self.open.contains_key(table) {
            let part = self.create(table, date, &columns())?;
            self.open.insert(table, part);
        }
        self.open.get_mut(table).map_or(Ok(()), |part| part.writer.write_row(time, table, cells))
    }

    fn create(&mut self, table: &str, date: String, columns: &[WideColumn]) -> io::Result<Part> {
        let directory =
            self.directory.join(format!("table={table}")).join(format!("host={}", self.host)).join(format!("date={date}"));
        fs::create_dir_all(&directory)?;
        // The clock may have been set back to a day that is written.
        let names = (0_u32..).map(|number| match number {
            0 => format!("{}.parquet", self.id),
            _ => format!("{}-{number}.parquet", self.id),
        });
        let mut paths = names.map(|name| directory.join(name)).filter(|path| !self.written.contains(path));
        let Some(path) = paths.next() else { return Err(io::ErrorKind::AlreadyExists.into()) };
        self.written.insert(path.clone());
        let file = tempfile::Builder::new().prefix(".stalltop-").tempfile_in(&directory)?;
        let writer = ParquetWriter::new(columns, ParquetLayout::OneTable, BufWriter::new(file))?;
        Ok(Part { date, path, writer })
    }

    fn finish(self) -> io::Result<()> {
        self.open.into_values().try_for_each(Part::finish)
    }
}

impl Part {
    /// Gives the complete file its name.
    fn finish(self) -> io::Result<()> {
        let mut sink = self.writer.finish()?;
        sink.flush()?;
        let file = sink.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

/// A host name as a part of a path: other characters are written as %XX, as Hive does.
fn path_component(name: &str) -> String {
    let mut component = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => component.push(char::from(byte)),
            b'.' if !component.is_empty() => component.push('.'),
            _ => component.push_str(&format!("%{byte:02X}")),
        }
    }
    if component.is_empty() { "unknown".to_owned() } else { component }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_cannot_leave_the_directory() {
        assert_eq!(path_component("web-1.example.org"), "web-1.example.org");
        assert_eq!(path_component("../../etc"), "%2E.%2F..%2Fetc");
        assert_eq!(path_component("a b=c/ü"), "a%20b%3Dc%2F%C3%BC");
        assert_eq!(path_component(""), "unknown");
    }
}
