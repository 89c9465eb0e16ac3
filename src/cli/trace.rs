//! The options of `trace`.

use std::time::Duration;

use clap::Args;

use super::value_parsers;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Trace {
    /// The processes [default: up to 256 with 4 threads in futex calls, alone or with others of their name and parent]
    #[arg(value_name = "PID", value_parser = value_parsers::pid)]
    pub pids: Vec<u32>,
    /// Trace for this time
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = value_parsers::positive_duration)]
    pub span: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
