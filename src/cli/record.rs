//! The options of `record` and `info`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::armed::Armed;
use super::on_finding::OnFinding;
use super::value_parsers;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Record {
    /// The new file, `-` for standard output [default: HOST-YYYYMMDDTHHMMSS.stalltop]
    pub file: Option<PathBuf>,
    /// Time between samples: 100ms to 1h
    #[arg(short, long, default_value = "1s", value_parser = value_parsers::interval)]
    pub interval: Duration,
    /// Stop after this time, such as 10m
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::positive_duration)]
    pub span: Option<Duration>,
    /// Record command names without their arguments, and no names of containers
    #[arg(long)]
    pub redact: bool,
    /// Stop before the file grows larger, such as 1G; with --rotate, begin the next file; with --armed, of all captures together
    /// [default with --armed: 1G]
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::size)]
    pub max_size: Option<u64>,
    /// FILE is a directory: begin a new recording in it after this time, such as 1d. `replay` reads the directory as one
    #[arg(long, value_name = "TIME", value_parser = value_parsers::positive_duration, requires = "file")]
    pub rotate: Option<Duration>,
    /// Delete closed, intact recordings of this machine and user in the directory that ended longer ago, such as 7d; those of a killed
    /// recorder stay
    #[arg(long, value_name = "TIME", value_parser = value_parsers::positive_duration, requires = "rotate")]
    pub keep: Option<Duration>,
    /// With --rotate, also write each ended recording into this directory as Parquet files for SQL, as `export --hive` does
    /// (needs a build with --features parquet)
    #[arg(long, value_name = "DIR", requires = "rotate")]
    pub export: Option<PathBuf>,
    /// Run `sh -c CMD` at most once a second, as the user who records, and record the running total that it prints as its
    /// first word: `compare` then shows the cost of an operation. It must exit with 0. Killed after 5 s; the recording does not wait for it
    #[arg(long, value_name = "CMD")]
    pub ops: Option<OsString>,
    #[command(flatten)]
    pub on_finding: OnFinding,
    #[command(flatten)]
    pub armed: Armed,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Info {
    /// The recording, or a directory of recordings
    pub file: PathBuf,
    /// Check every frame
    #[arg(long)]
    pub verify: bool,
    /// Check every frame, and copy the intact ones to this new file
    #[arg(long, value_name = "OUT")]
    pub repair: Option<PathBuf>,
}
