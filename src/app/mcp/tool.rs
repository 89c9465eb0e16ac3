//! What a tool gets and returns.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

/// The arguments of a call.
pub type Arguments = Map<String, Value>;

/// What the user allowed on the command line.
#[derive(Clone, Debug)]
pub struct AllowedTargets {
    /// Directories of recordings
    pub directories: Vec<PathBuf>,
    /// Hosts to which ssh may connect
    pub hosts: Vec<String>,
}

/// Why a tool has no answer: one line for the caller.
#[derive(Debug)]
pub enum ToolError {
    Argument(String),
    /// The command failed; its line on standard error
    Command(String),
    /// After so many seconds
    TimedOut(u64),
    /// The command printed more than so many MiB
    TooLong(u64),
    Os(std::io::Error),
    /// The command printed something else than JSON
    Malformed(serde_json::Error),
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::Argument(line) | ToolError::Command(line) => f.write_str(line),
            ToolError::TimedOut(seconds) => write!(f, "no answer within {seconds} s"),
            ToolError::TooLong(mib) => {
                write!(f, "the command printed more than {mib} MiB: ask for less (fewer columns or rows, a shorter time)")
            }
            ToolError::Os(error) => write!(f, "cannot run the command: {error}"),
            ToolError::Malformed(error) => write!(f, "the command printed no JSON: {error}"),
        }
    }
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> ToolError {
        ToolError::Os(error)
    }
}

/// The answer of a tool.
pub type ToolResult = Result<Value, ToolError>;
