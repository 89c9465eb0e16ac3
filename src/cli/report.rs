//! `report`: a recording as a page.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::time_range::TimeRange;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Report {
    /// The recording
    pub file: PathBuf,
    /// The new file, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub range: TimeRange,
    /// In which form [default: as the new file's name ends, html without an ending]
    #[arg(long)]
    pub format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One page that needs nothing else: charts, findings on a time line, commands
    Html,
    /// Text for a ticket
    Md,
    /// One JSON object
    Json,
}
