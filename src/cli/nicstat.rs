//! The options of `nicstat`, with the letters of the original, also for the program run through a link of that name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser};

use super::{Command, Configuration, EarlyExit, Invocation};

#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Nicstat {
    /// Seconds between samples [default: one sample, since boot]
    #[arg(allow_negative_numbers = true)]
    pub interval: Option<String>,
    /// Number of samples [default: until stopped]
    #[arg(allow_negative_numbers = true)]
    pub count: Option<String>,
    /// Print the version
    #[arg(short)]
    pub version: bool,
    /// Only these interfaces
    #[arg(short, value_name = "INT,...", value_delimiter = ',')]
    pub interfaces: Vec<String>,
    /// Leave out the loopback interface
    #[arg(short)]
    pub non_local: bool,
    /// Summary: KB read and written only
    #[arg(short)]
    pub summary: bool,
    /// Extended: errors, collisions, drops
    #[arg(short = 'x')]
    pub extended: bool,
    /// Parseable: fields separated by colons
    #[arg(short)]
    pub parseable: bool,
    /// Leave out interfaces with only zeros
    #[arg(short = 'z')]
    pub skip_zero: bool,
    /// TCP statistics
    #[arg(short)]
    pub tcp: bool,
    /// UDP statistics
    #[arg(short)]
    pub udp: bool,
    /// All: the same as -tux
    #[arg(short)]
    pub all: bool,
    /// List the interfaces with their speed, duplex and state
    #[arg(short)]
    pub list: bool,
    /// Mbit/s (of 2^20 bits) instead of KB/s
    #[arg(short = 'M', short_alias = 'm')]
    pub megabits: bool,
    /// Separate columns %rUtil and %wUtil
    #[arg(short = 'U')]
    pub both_utilizations: bool,
    /// The speed of an interface: eth0:1000, eth0:100hd
    #[arg(short = 'S', value_name = "INT:MBPS,...", value_delimiter = ',')]
    pub speeds: Vec<String>,
    /// The arithmetic of nicstat 1.95, bit for bit
    #[arg(long)]
    pub compat: bool,
}

/// The command line of the program under the name `nicstat`.
#[derive(Debug, Parser)]
#[command(name = "nicstat", about = "A replacement for nicstat, part of stalltop", disable_version_flag = true)]
#[command(after_help = "Example: nicstat -z 1 10")]
struct NicstatCli {
    /// Read /proc and /sys below this directory
    #[arg(long, hide = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(flatten)]
    configuration: Configuration,
    #[command(flatten)]
    options: Nicstat,
}

/// Whether the program was run through a link of that name.
pub(super) fn is_invoked_as_nicstat(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|name| Path::new(name).file_name() == Some("nicstat".as_ref()))
}

pub(super) fn parse(arguments: Vec<OsString>) -> Result<Invocation, EarlyExit> {
    let parsed = NicstatCli::try_parse_from(arguments).map_err(|error| self::nicstat_error(&error, "nicstat -h"))?;
    let NicstatCli { root, configuration, options } = parsed;
    Ok(Invocation { root, configuration, command: Command::Nicstat(options) })
}

pub(super) fn nicstat_error(error: &clap::Error, help: &str) -> EarlyExit {
    match super::one_line_error(error, Some("nicstat"), help) {
        EarlyExit::UsageError(line) => EarlyExit::NicstatUsageError(line),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words: &str) -> Result<Invocation, EarlyExit> {
        super::super::parse(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_link_named_nicstat_has_its_options_and_name() {
        let Err(EarlyExit::HelpOrVersion(help)) = called("/usr/bin/nicstat -h") else { panic!() };
        assert!(help.contains("Usage: nicstat [OPTIONS] [INTERVAL] [COUNT]") && !help.contains("nicstat nicstat"), "{help}");
        let Err(EarlyExit::NicstatUsageError(why)) = called("nicstat --nonsense") else { panic!() };
        assert!(why.ends_with("try 'nicstat -h'"), "{why}");
        let Err(EarlyExit::NicstatUsageError(why)) = called("stalltop nicstat -Q") else { panic!() };
        assert!(why.ends_with("try 'stalltop nicstat -h'"), "{why}");
        assert_eq!(called("./nicstat -xz 1 10"), called("stalltop nicstat -xz 1 10"));
    }
}
