//! A part of a recording: `--from`, `--to`; `cut`, which makes it a recording of its own, and `cat`, the other way round.

use std::path::PathBuf;

use clap::Args;

use crate::state::moment::Moment;

/// From when to when.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Leave out what was before: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start
    #[arg(long, value_name = "TIME", value_parser = super::moment, allow_hyphen_values = true)]
    pub from: Option<Moment>,
    /// Leave out what was after
    #[arg(long, value_name = "TIME", value_parser = super::moment, allow_hyphen_values = true)]
    pub to: Option<Moment>,
}

impl Part {
    /// Nothing is left out.
    pub fn is_all(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cut {
    /// The recording, which stays as it is
    pub file: PathBuf,
    #[command(flatten)]
    pub part: Part,
    /// The new recording
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Cat {
    /// Recordings of one machine since it was started, in any order; they stay as they are
    #[arg(required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// The new recording
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
