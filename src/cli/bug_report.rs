//! The options of `bug-report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value_parsers;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct BugReport {
    /// The new archive, `-` for standard output [default: stalltop-bug-report-YYYYMMDDTHHMMSS.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How much is recorded
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = value_parsers::positive_duration)]
    pub span: Duration,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}
