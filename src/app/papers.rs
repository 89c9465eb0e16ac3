//! Completions and the manual page, for packages.

use super::exit::{Exit, Failure};
use super::stdout::print;
use crate::cli;

pub fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::definition(), "stalltop", &mut text);
    print(&String::from_utf8_lossy(&text)).map(|_| Exit::Fine)
}

pub fn manual() -> Result<Exit, Failure> {
    let mut text = Vec::new();
    let written = clap_mangen::Man::new(cli::definition()).render(&mut text);
    written.map_err(|error| Failure::new(Exit::Failed, "cannot write the manual page", error, ""))?;
    print(&String::from_utf8_lossy(&text)).map(|_| Exit::Fine)
}
