//! The options of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::table::TABLE_NAMES;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Export {
    /// The recording, or a directory of recordings
    pub file: PathBuf,
    /// The new file, `-` for standard output; .parquet needs a build with --features parquet
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["hive", "folded"])]
    pub output: Option<PathBuf>,
    /// Instead of a file: one Parquet file per table, host and day, DIR/table=T/host=H/date=D/*.parquet, as DuckDB, ClickHouse and Spark
    /// read them. Exporting a recording again replaces its files (needs a build with --features parquet)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "format", "safe_formulas"])]
    pub hive: Option<PathBuf>,
    /// Instead of figures: the kernel and user stacks of stuck threads in folded form, as flamegraph.pl and inferno read them, in
    /// milliseconds of thread time; to standard output unless --output is given
    #[arg(long, conflicts_with_all = ["hive", "format", "tables", "idle", "safe_formulas"])]
    pub folded: bool,
    /// Format [default: by the extension of the new file]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Only these tables
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_parser = TABLE_NAMES)]
    pub tables: Vec<String>,
    /// Include tasks and threads that were idle in an interval
    #[arg(long)]
    pub idle: bool,
    /// In CSV, put a quote before text that a spreadsheet would read as a formula
    #[arg(long)]
    pub safe_formulas: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One wide table; columns of other tables are empty
    Csv,
    /// One object per line, as `table --format json` prints it
    Jsonl,
    /// The wide table (needs a build with --features parquet)
    Parquet,
}
