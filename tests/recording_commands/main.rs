//! The commands that read whole recordings: `report`, `compare`, `cut` and `cat`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

mod compare;
#[path = "../recording/generator.rs"]
mod generator;
mod info;
mod markdown;
mod parts;
#[path = "../support/program.rs"]
mod program;
mod report;
#[path = "../recording/support.rs"]
mod support;
#[path = "../support/synthetic.rs"]
mod synthetic;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use program::program;

/// Runs the program until it ends.
fn stalltop(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).envs([("TZ", "UTC"), ("LC_ALL", "C.UTF-8")]).output().unwrap()
}

/// A recording of the lab, whose figures are known.
fn lab(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{name}.stalltop"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
