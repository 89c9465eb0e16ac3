//! Parses the command line, runs the command, prints an error once, and chooses the exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    stalltop::app::run(std::env::args_os())
}
