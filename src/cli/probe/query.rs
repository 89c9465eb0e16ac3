//! The options of `probe query`.

use std::time::Duration;

use clap::Args;

use crate::cli::value_parsers;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Query {
    /// Time between tables [default: one table, of one second]
    #[arg(value_parser = value_parsers::interval, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
    /// Number of tables [default: until stopped]
    #[arg(value_parser = value_parsers::count, allow_negative_numbers = true)]
    pub count: Option<u32>,
    /// The server: mysqld, mariadbd, or PostgreSQL's first process (the head of postmaster.pid) or one of its children
    #[arg(short, long, value_name = "PID", value_parser = value_parsers::pid)]
    pub pid: u32,
    /// One JSON object per interval
    #[arg(long)]
    pub json: bool,
}
