//! The options of `table`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::time_range::RecordingTime;
use super::value_parsers;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Table {
    /// The table
    #[arg(value_parser = TABLE_NAMES)]
    pub what: String,
    /// Time between lines [default: one line, of one second]
    #[arg(value_parser = value_parsers::interval, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
    /// Number of lines [default: until stopped]
    #[arg(value_parser = value_parsers::count, allow_negative_numbers = true)]
    pub count: Option<u32>,
    /// Read a recording, or a directory of recordings; with INTERVAL, each line covers at least this time, the last one what is left
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub from: Option<PathBuf>,
    /// Start at this time of the recording: 12:03, RFC 3339, -5m before the end, +90s after the start, or the text of a mark
    #[arg(long, value_name = "TIME", value_parser = RecordingTime::parse, allow_hyphen_values = true, requires = "from")]
    pub at: Option<RecordingTime>,
    /// Stop after this time; of a recording without --at, this much of its end
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::positive_duration)]
    pub span: Option<Duration>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Columns by their headings, a set of columns (latency, pt, vmstat, states), or all
    #[arg(long, value_name = "COLUMN,...")]
    pub columns: Option<String>,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
    /// Only the first N rows, by --sort or by activity
    #[arg(long, value_name = "N", value_parser = value_parsers::count)]
    pub top: Option<u32>,
    /// Only these processes
    #[arg(short, long = "pid", value_name = "PID,...", value_delimiter = ',', value_parser = value_parsers::pid)]
    pub pids: Vec<u32>,
    /// Only rows whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub name: Option<String>,
    /// Leave out idle rows
    #[arg(long)]
    pub busy: bool,
    /// At the end, print exact totals of the whole run (with CSV, instead of lines)
    #[arg(long)]
    pub total: bool,
    /// First print a line of the time since boot, as vmstat and iostat do; COUNT includes it
    #[arg(long, conflicts_with = "command")]
    pub since_boot: bool,
    /// Shares of all CPUs instead of one CPU
    #[arg(long, alias = "of-box")]
    pub of_host: bool,
    /// In CSV, put a quote before text that a spreadsheet would read as a formula
    #[arg(long)]
    pub safe_formulas: bool,
    /// Run this command, and print the totals of its run to standard error; exits with its exit code
    #[arg(last = true, conflicts_with = "span")]
    pub command: Vec<OsString>,
}

/// The tables, in the order of docs/tables.md.
pub const TABLE_NAMES: [&str; 12] =
    ["cpu", "core", "disk", "nic", "tcp", "udp", "task", "thread", "load", "pressure", "memory", "cgroup"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    Text,
    /// Comma-separated values
    Csv,
    /// One object per line
    Json,
    /// Fields separated by colons
    Parseable,
}
