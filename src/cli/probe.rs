//! The options of `probe`.

pub mod query;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::value_parsers;

#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Probe {
    /// Operations of each mounted file system: sequential and random reads and writes, pages of mapped files, names and attributes
    #[command(after_help = "Example: stalltop probe fs --mount /data 10 6\n\
                            Of one process: stalltop probe fs --pid 4711 1")]
    Fs(FileSystems),
    /// How long threads wait for a CPU, by CPU and by process: mean, p50, p95, p99, p99.9 and maximum
    #[command(after_help = "Example: stalltop probe runq 10 6\n\
                            Of one process: stalltop probe runq --pid 4711 1")]
    Runq(RunQueue),
    /// Queries of a database server: latencies, time on CPU, in the run queue, on storage and behind locks, which processes preempt them
    #[command(after_help = "Example: stalltop probe query --pid $(pidof mariadbd) 10 6\n\
                            PostgreSQL: stalltop probe query --pid $(head -1 /var/lib/postgresql/15/main/postmaster.pid) 1")]
    Query(query::Query),
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct RunQueue {
    /// Time between tables [default: one table, of one second]
    #[arg(value_parser = value_parsers::interval, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
    /// Number of tables [default: until stopped]
    #[arg(value_parser = value_parsers::count, allow_negative_numbers = true)]
    pub count: Option<u32>,
    /// Only threads of this process
    #[arg(short, long, value_name = "PID", value_parser = value_parsers::pid)]
    pub pid: Option<u32>,
    /// One JSON object per CPU and process
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct FileSystems {
    /// Time between tables [default: one table, of one second]
    #[arg(value_parser = value_parsers::interval, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
    /// Number of tables [default: until stopped]
    #[arg(value_parser = value_parsers::count, allow_negative_numbers = true)]
    pub count: Option<u32>,
    /// Only the file system that this directory is in
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Only operations of this process
    #[arg(short, long, value_name = "PID", value_parser = value_parsers::pid)]
    pub pid: Option<u32>,
    /// Only operations of this user: a name or a uid
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// One JSON object per file system and interval
    #[arg(long)]
    pub json: bool,
}
