//! The times of options such as `--at`, the options `--from` and `--to`, and those of `cut` and `cat`.

use std::path::PathBuf;

use clap::Args;

use crate::units::time_spec::TimeSpec;

/// A time in a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordingTime {
    Time(TimeSpec),
    /// That of a mark: its text, or the beginning of it
    Mark(String),
}

pub const TIME_FORMS: &str = "12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start, or the text of a mark";

impl RecordingTime {
    /// What is no time and has a letter is the text of a mark.
    pub(super) fn parse(text: &str) -> Result<RecordingTime, String> {
        match TimeSpec::parse(text) {
            Some(time) => Ok(RecordingTime::Time(time)),
            None if RecordingTime::is_mark(text) => Ok(RecordingTime::Mark(text.to_owned())),
            None => Err(format!("a time is {TIME_FORMS}")),
        }
    }

    /// Whether a text is taken for that of a mark.
    pub fn is_mark(text: &str) -> bool {
        !text.starts_with(['-', '+']) && text.contains(char::is_alphabetic) && TimeSpec::parse(text).is_none()
    }
}

/// A part of a recording.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TimeRange {
    /// Start of the part: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start, or the text of a mark
    #[arg(long, value_name = "TIME", value_parser = RecordingTime::parse, allow_hyphen_values = true)]
    pub from: Option<RecordingTime>,
    /// End of the part, in the same forms
    #[arg(long, value_name = "TIME", value_parser = RecordingTime::parse, allow_hyphen_values = true)]
    pub to: Option<RecordingTime>,
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
        "" => Err("it is the name of a new file".into()),
        file => Ok(file.into()),
    }
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cut {
    /// The recording, or a directory of recordings; they are not changed
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
