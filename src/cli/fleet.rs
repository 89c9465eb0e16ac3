//! The options of `fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::screen::Appearance;
use super::value_parsers;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Fleet {
    /// The hosts, as ssh takes them: web1, admin@web2, a name of ~/.ssh/config
    pub hosts: Vec<String>,
    /// Read more hosts from this file, one a line; # begins a comment, - is standard input
    #[arg(long = "hosts", value_name = "FILE")]
    pub hosts_file: Option<PathBuf>,
    /// Time between samples on the hosts: 100ms to 1h
    #[arg(short, long, default_value = "1s", value_parser = value_parsers::interval)]
    pub interval: Duration,
    /// Connect by `CMD HOST COMMAND` instead of ssh, which is run with BatchMode: it asks nothing
    #[arg(long, value_name = "CMD")]
    pub ssh: Option<String>,
    /// stalltop as the shell of the hosts finds it, such as /opt/stalltop or 'sudo -n stalltop'
    #[arg(long, value_name = "CMD", default_value = "stalltop")]
    pub remote: String,
    /// Copy this program, or FILE, to hosts that lack stalltop, after a question: into a temporary directory that is removed at the
    /// end; its SHA-256 is compared before it is run
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub copy: Option<Option<PathBuf>>,
    /// Copy without a question
    #[arg(long, requires = "copy")]
    pub yes: bool,
    /// Record each host, into a file of this directory
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Show the recordings of a directory together, in the order of time: of --record, or what the key w has saved
    #[arg(long, value_name = "DIR", conflicts_with_all = ["hosts", "hosts_file", "ssh", "copy"])]
    pub replay: Option<PathBuf>,
    /// Playback speed of --replay as a multiple of real time
    #[arg(long, default_value = "1", value_parser = value_parsers::speed)]
    pub speed: f64,
    /// Print the findings of each host and their causes once, and exit as `check` does: 0 none, 1 a warning, 2 a critical one, 3
    /// none, but a host is unknown
    #[arg(long)]
    pub once: bool,
    /// The same as one JSON object
    #[arg(long)]
    pub json: bool,
    /// How long the hosts are evaluated with --once and --json
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = value_parsers::positive_duration)]
    pub span: Duration,
    #[command(flatten)]
    pub appearance: Appearance,
}
