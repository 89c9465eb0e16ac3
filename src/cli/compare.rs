//! The options of `compare`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Compare {
    /// The recording, or a directory of recordings, that the others are compared with
    pub base: PathBuf,
    /// One or more recordings, or directories of recordings, to compare with it
    #[arg(required = true)]
    pub new: Vec<PathBuf>,
    /// Number of operations during each recording: BASE=N,NEW=N, or one number per recording in their order [default: from
    /// marks of the form 'ops N', or from record --ops]
    #[arg(long, value_name = "[NAME=]N,...", value_delimiter = ',', value_parser = parse_operation_count)]
    pub ops: Vec<OperationCount>,
    /// Count the requests of these devices per operation [default: all that are not stacked on others]
    #[arg(long = "disk", value_name = "NAME,...", value_delimiter = ',')]
    pub disks: Vec<String>,
    /// Also show figures that did not change
    #[arg(long)]
    pub all: bool,
    /// One JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// A number of operations, and the name of its recording if it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationCount {
    pub name: Option<String>,
    pub operations: f64,
}

fn parse_operation_count(text: &str) -> Result<OperationCount, String> {
    let (name, number) = match text.rsplit_once('=') {
        Some((name, number)) => (Some(name.to_owned()), number),
        None => (None, text),
    };
    let operations = number.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    let operations = operations.ok_or("a count of operations is a number above 0, or NAME= and that number")?;
    Ok(OperationCount { name, operations })
}
