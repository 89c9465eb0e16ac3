//! `table`, `export`: figures as lines and files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value_parsers;
use crate::state::time_spec::TimeSpec;

/// Figures as lines.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Table {
    /// Of what
    #[arg(value_parser = TABLE_NAMES)]
    pub what: String,
    /// Time between lines [default: one line, of a second]
    #[arg(value_parser = value_parsers::interval, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
    /// How many times [default: until stopped]
    #[arg(value_parser = value_parsers::count, allow_negative_numbers = true)]
    pub count: Option<u32>,
    /// Of a recording; with INTERVAL in steps of at least so long
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub from: Option<PathBuf>,
    /// Of the recording, begin here: 12:03, RFC 3339, -5m before the end, +90s after the start
    #[arg(long, value_name = "TIME", value_parser = super::parse_timestamp, allow_hyphen_values = true, requires = "from")]
    pub at: Option<TimeSpec>,
    /// Stop after this time; of a recording without --at, so much of its end
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::positive_duration)]
    pub span: Option<Duration>,
    /// How lines are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Columns by their headings, with commas; a set of them (pt, vmstat, states), or all
    #[arg(long, value_name = "COLUMN,...")]
    pub columns: Option<String>,
    /// The largest of this column first
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
    /// The first so many rows, by --sort or by what matters most
    #[arg(long, value_name = "N", value_parser = value_parsers::count)]
    pub top: Option<u32>,
    /// These processes only
    #[arg(short, long = "pid", value_name = "PID,...", value_delimiter = ',', value_parser = value_parsers::pid)]
    pub pids: Vec<u32>,
    /// Rows whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub name: Option<String>,
    /// Without idle rows
    #[arg(long)]
    pub busy: bool,
    /// At the end, exact totals of the whole run (as CSV, instead of lines)
    #[arg(long)]
    pub total: bool,
    /// First a line of the time since boot, as vmstat and iostat have it; it counts as one
    #[arg(long, conflicts_with = "command")]
    pub since_boot: bool,
    /// Shares of all CPUs instead of one CPU
    #[arg(long)]
    pub of_box: bool,
    /// In CSV, a quote before text that a spreadsheet would take for a formula
    #[arg(long)]
    pub safe_formulas: bool,
    /// Run this and total it, on standard error; its exit code is passed on
    #[arg(last = true, conflicts_with = "span")]
    pub command: Vec<OsString>,
}

/// The tables, in the order of the manual.
pub const TABLE_NAMES: [&str; 12] =
    ["cpu", "core", "disk", "nic", "tcp", "udp", "task", "thread", "load", "pressure", "memory", "cgroup"];

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For spreadsheets
    Csv,
    /// An object a line
    Json,
    /// Figures with colons between them
    Parseable,
}
