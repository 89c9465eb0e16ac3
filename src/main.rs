//! Reads the command line, runs it, says once what went wrong, and chooses the exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    stalltop::app::run(std::env::args_os())
}
