//! The options of `mcp`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Mcp {
    /// A directory of recordings that the tools may list and read [default: the current directory, and /var/lib/stalltop-record]
    #[arg(long = "dir", value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// A host on which the tools may run `ssh HOST stalltop record -` [default: none]
    #[arg(long = "host", value_name = "HOST", value_parser = host_name)]
    pub hosts: Vec<String>,
}

/// A host as ssh takes it: HOST or USER@HOST. Never an option of ssh.
fn host_name(word: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@:[]%".contains(c);
    match !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        true => Ok(word.to_owned()),
        false => Err("a host is HOST or USER@HOST".to_owned()),
    }
}
