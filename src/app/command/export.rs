//! `export`: every figure of every interval of a recording, for another tool.

#[cfg(feature = "parquet")]
pub mod hive;

use std::io::{self, Write};
use std::path::Path;

use jiff::tz::TimeZone;

use super::output::{Output, lowercase_extension};
use super::table::stamp;
use crate::app::config::Settings;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio::print_stderr;
use crate::cli::Configuration;
use crate::cli::export::{Export, Format};
use crate::figures::{FigureInput, TABLES, Table};
use crate::findings::Evaluation;
use crate::kernel::Root;
use crate::report::folded::FoldedStacks;
use crate::report::table::{self, Headings, Printer, RowTime, WideTable};

pub fn export(configuration: &Configuration, options: &Export) -> Result<Exit, Failure> {
    if options.folded {
        return export_folded(configuration, options);
    }
    let path = match (&options.output, &options.hive) {
        (_, Some(directory)) => return export_hive(configuration, options, directory),
        (Some(path), None) => path,
        (None, None) => {
            return Err(Failure::new(Exit::Usage, "cannot export", "no file is given", "give -o FILE or --hive DIR"));
        }
    };
    let format = format(path, options.format)?;
    let settings = Settings::load_and_warn(&Root::host(), configuration)?;
    let output = Output::for_path(path)?;
    let tables = selected_tables(options);
    let mut recorded = EvaluatedRecording::open(&options.file, &settings)?.for_tables(&tables);
    if let Output::NewFile(_) = output {
        recorded = recorded.with_progress();
    }
    let wide = WideTable::new(&tables, options.idle);
    output.write_with(|sink| match format {
        Format::Csv => csv(&wide, &mut recorded, sink, options.safe_formulas),
        Format::Jsonl => jsonl(&wide, &mut recorded, sink),
        Format::Parquet => parquet(&wide, &mut recorded, sink),
    })?;
    recorded.warn_of_damage();
    Ok(if recorded.replayer().damage().is_empty() { Exit::Success } else { Exit::Damaged })
}

/// The stacks of all samples.
fn export_folded(configuration: &Configuration, options: &Export) -> Result<Exit, Failure> {
    let settings = Settings::load_and_warn(&Root::host(), configuration)?;
    let output = options.output.as_deref().map_or(Ok(Output::Stdout), Output::for_path)?;
    let mut recorded = EvaluatedRecording::open(&options.file, &settings)?;
    if let Output::NewFile(_) = output {
        recorded = recorded.with_progress();
    }
    let mut stacks = FoldedStacks::default();
    recorded.by_ref().for_each(|evaluated| stacks.add(&evaluated.interval));
    output.write_with(|sink| stacks.write(sink))?;
    if stacks.is_empty() {
        let name = quoted(&options.file);
        print_stderr(&format!("{name} has no stacks: no thread was stuck, or it was not recorded as root (CAP_SYS_ADMIN)"));
    }
    recorded.warn_of_damage();
    Ok(if recorded.replayer().damage().is_empty() { Exit::Success } else { Exit::Damaged })
}

pub const WITHOUT_PARQUET: &str = "this stalltop was built without Parquet";
pub const PARQUET_REMEDY: &str = "build it with --features parquet, or export .csv: DuckDB reads that too";

#[cfg(not(feature = "parquet"))]
fn export_hive(_: &Configuration, _: &Export, directory: &Path) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Usage, format!("cannot export to {}", quoted(directory)), WITHOUT_PARQUET, PARQUET_REMEDY))
}

/// The recording, or each one of a directory.
#[cfg(feature = "parquet")]
fn export_hive(configuration: &Configuration, options: &Export, directory: &Path) -> Result<Exit, Failure> {
    let settings = Settings::load_and_warn(&Root::host(), configuration)?;
    let files = hive::recordings(&options.file)?;
    let tables = selected_tables(options);
    let selection = hive::HiveSelection { tables, with_events: options.tables.is_empty(), with_idle: options.idle };
    let mut exit = Exit::Success;
    for file in files {
        let mut recorded = EvaluatedRecording::open_even_empty(&file, &settings)?.with_progress();
        hive::write(&mut recorded, &selection, directory)?;
        recorded.warn_of_damage();
        if !recorded.replayer().damage().is_empty() {
            exit = Exit::Damaged;
        }
    }
    Ok(exit)
}

fn selected_tables(options: &Export) -> Vec<&'static dyn Table> {
    let wanted =
        |table: &&'static dyn Table| options.tables.is_empty() || options.tables.iter().any(|name| name == table.name());
    TABLES.iter().copied().filter(wanted).collect()
}

/// As the name says, unless it is said.
fn format(path: &Path, given: Option<Format>) -> Result<Format, Failure> {
    let ending = lowercase_extension(path);
    let format = given.or(match ending.as_deref() {
        Some("csv") => Some(Format::Csv),
        Some("jsonl" | "ndjson") => Some(Format::Jsonl),
        Some("parquet") => Some(Format::Parquet),
        _ => None,
    });
    let wrong =
        |why: &str, remedy: &str| Err(Failure::new(Exit::Usage, format!("cannot export to {}", quoted(path)), why, remedy));
    match format {
        None if ending.as_deref() == Some("json") => {
            wrong("it writes one object per line, not one document", "name it .jsonl, or give --format jsonl")
        }
        None => wrong("its name ends in none of .csv, .jsonl, .parquet", "give one of these, or give --format"),
        Some(Format::Parquet) if cfg!(not(feature = "parquet")) => wrong(WITHOUT_PARQUET, PARQUET_REMEDY),
        Some(format) => Ok(format),
    }
}

/// Each interval with its time.
fn intervals(recorded: &mut EvaluatedRecording) -> impl Iterator<Item = (RowTime, Evaluation)> {
    recorded.map(|evaluated| (stamp(&FigureInput::from(&evaluated), &TimeZone::UTC), evaluated))
}

fn csv(
    wide: &WideTable,
    recorded: &mut EvaluatedRecording,
    sink: &mut (dyn Write + Send),
    safe_formulas: bool,
) -> io::Result<()> {
    wide.write_csv_header(&mut *sink)?;
    intervals(recorded)
        .try_for_each(|(stamp, evaluated)| wide.write_csv_rows(&mut *sink, &stamp, &(&evaluated).into(), safe_formulas))
}

/// The lines of `table --format json`, each with what its own table has.
fn jsonl(wide: &WideTable, recorded: &mut EvaluatedRecording, sink: &mut (dyn Write + Send)) -> io::Result<()> {
    let printer =
        |choice: &table::ResolvedSelection| Printer::new(choice.table(), &choice.columns, table::Format::Json, Headings::Once);
    let mut printers: Vec<Printer> = wide.selections().map(printer).collect();
    intervals(recorded).try_for_each(|(stamp, evaluated)| {
        let input = (&evaluated).into();
        let mut pairs = wide.selections().zip(&mut printers);
        pairs.try_for_each(|(choice, printer)| sink.write_all(printer.lines(&stamp, &choice.rows(&input))?.as_bytes()))
    })
}

#[cfg(feature = "parquet")]
fn parquet(wide: &WideTable, recorded: &mut EvaluatedRecording, sink: &mut (dyn Write + Send)) -> io::Result<()> {
    let mut file = table::ParquetWriter::new(&wide.columns, table::ParquetLayout::Wide, sink)?;
    for (stamp, evaluated) in intervals(recorded) {
        wide.for_each_row(&(&evaluated).into(), |table, cells| file.write_row(&stamp, table, cells))?;
    }
    file.finish().map(drop)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &WideTable, _: &mut EvaluatedRecording, _: &mut (dyn Write + Send)) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
