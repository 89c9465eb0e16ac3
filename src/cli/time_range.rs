//! The options `--from` and `--to`, and those of `cut` and `cat`.

use std::path::PathBuf;

use clap::Args;

use crate::units::time_spec::TimeSpec;

/// A part of a recording.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TimeRange {
    /// Start of the part: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start
    #[arg(long, value_name = "TIME", value_parser = super::parse_timestamp, allow_hyphen_values = true)]
    pub from: Option<TimeSpec>,
    /// End of the part, in the same forms
    #[arg(long, value_name = "TIME", value_parser = super::parse_timestamp, allow_hyphen_values = true)]
    pub to: Option<TimeSpec>,
}

impl TimeRange {
    /// Whether it is the whole recording.
    pub fn is_unbounded(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// The copy is verified before it gets its name, which a stream does not allow.
fn parse_output_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("a recording is copied to a file, not to standard output".into()),
        file => Ok(file.into()),
    }
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cut {
    /// The recording, which is not changed
    pub file: PathBuf,
    #[command(flatten)]
    pub range: TimeRange,
    /// The new recording
    #[arg(short, long, value_name = "FILE", value_parser = parse_output_file)]
    pub output: PathBuf,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cat {
    /// Recordings of one boot of one machine, in any order; they are not changed
    #[arg(required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// The new recording
    #[arg(short, long, value_name = "FILE", value_parser = parse_output_file)]
    pub output: PathBuf,
}
