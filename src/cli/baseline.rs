//! `baseline`: shows and corrects the learned latencies of disks.

use clap::{Args, Subcommand, ValueEnum};

use super::value_parsers;
use crate::units::Millis;

#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Baseline {
    /// Show the baselines: latency, number of intervals, dates, confidence
    #[command(after_help = "Example: stalltop baseline show sda")]
    Show(Show),
    /// Set a baseline by hand; it is used until it is forgotten
    #[command(after_help = "Example: stalltop baseline set sda read 0.5ms --size 16K")]
    Set(Set),
    /// Measure reads now: single reads past the page cache, 20 per second, for at most 10 s; writes nothing to the device
    #[command(after_help = "Example: sudo stalltop baseline learn /dev/sda")]
    Learn(Learn),
    /// Forget the baselines of a device, or of all devices
    #[command(after_help = "Example: stalltop baseline forget sda")]
    Forget(Forget),
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Show {
    /// Only this device: sda, /dev/disk/by-id/…, or an identity as shown
    pub device: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Set {
    /// sda, /dev/disk/by-id/…, or an identity as shown
    pub device: String,
    pub operation: Op,
    /// A latency with its unit, such as 0.5ms or 200us
    #[arg(value_parser = value_parsers::latency)]
    pub value: Millis,
    /// Mean size of the requests: up to 16 KiB, up to 128 KiB, or more [default: all three]
    #[arg(long)]
    pub size: Option<Size>,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Learn {
    /// A whole block device: sda, /dev/disk/by-id/…
    pub device: String,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Forget {
    /// sda, /dev/disk/by-id/…, or an identity as shown
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub device: Option<String>,
    /// All devices
    #[arg(long)]
    pub all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    #[value(name = "16K", alias = "<=16K")]
    Small,
    #[value(name = "128K", alias = "<=128K")]
    Medium,
    #[value(name = "more", alias = ">128K")]
    Large,
}
