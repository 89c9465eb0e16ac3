//! `export`: a recording's figures in a file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::table::TABLE_NAMES;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Export {
    /// The recording
    pub file: PathBuf,
    /// The new file, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// In which form [default: as the new file's name ends]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// These tables only
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_parser = TABLE_NAMES)]
    pub tables: Vec<String>,
    /// With the tasks and threads that did nothing in an interval
    #[arg(long)]
    pub idle: bool,
    /// In CSV, a quote before text that a spreadsheet would take for a formula
    #[arg(long)]
    pub safe_formulas: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One wide table; what a row does not have is empty
    Csv,
    /// An object a line, as `table --format json` has it
    Jsonl,
    /// The wide table in columns; where it was built with it
    Parquet,
}
