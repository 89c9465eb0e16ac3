//! The options of `report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::time_range::TimeRange;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Report {
    /// The recording, or a directory of recordings
    pub file: PathBuf,
    /// The new file, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub range: TimeRange,
    /// Format [default: by the extension of the new file, html without one]
    #[arg(long)]
    pub format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One self-contained page: charts, findings on a timeline, top tasks
    Html,
    /// Text for a ticket
    Md,
    /// One JSON object
    Json,
}
