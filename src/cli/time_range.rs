//! A part of a recording: `--from`, `--to`; `cut`, which makes it a recording of its own, and `cat`, the other way round.

use std::path::PathBuf;

use clap::Args;

use crate::time_spec::TimeSpec;

/// From when to when.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TimeRange {
    /// Leave out what was before: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start
    #[arg(long, value_name = "TIME", value_parser = super::parse_timestamp, allow_hyphen_values = true)]
    pub from: Option<TimeSpec>,
    /// Leave out what was after
    #[arg(long, value_name = "TIME", value_parser = super::parse_timestamp, allow_hyphen_values = true)]
    pub to: Option<TimeSpec>,
}

impl TimeRange {
    /// Nothing is left out.
    pub fn is_unbounded(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// A stream cannot be checked before it is given away, as what goes into a part is.
fn parse_output_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("a part is written into a file, not to standard output".into()),
        file => Ok(file.into()),
    }
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cut {
    /// The recording, which stays as it is
    pub file: PathBuf,
    #[command(flatten)]
    pub range: TimeRange,
    /// The new recording
    #[arg(short, long, value_name = "FILE", value_parser = parse_output_file)]
    pub output: PathBuf,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cat {
    /// Recordings of one machine since it was started, in any order; they stay as they are
    #[arg(required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// The new recording
    #[arg(short, long, value_name = "FILE", value_parser = parse_output_file)]
    pub output: PathBuf,
}
