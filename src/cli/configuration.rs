//! Options that every command has: which configuration is read, and what overrides it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of all commands follow those of each command in help and manual pages.
pub const CONFIGURATION_HEADING: &str = "Configuration";
const DISPLAY_LAST: usize = 900;

/// Which configuration files are read, and settings that override them.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Read this configuration file instead of the user's and the system's
    #[arg(long, global = true, value_name = "FILE", help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub config: Option<PathBuf>,
    /// Read no configuration file
    #[arg(long, global = true, conflicts_with = "config", help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub no_config: bool,
    /// Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd
    #[arg(long, global = true, value_name = "INT=MBPS,...", value_delimiter = ',')]
    #[arg(help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub nic_speed: Vec<String>,
    /// eBPF programs that measure what /proc does not tell, such as the distribution of disk latencies
    #[arg(long, global = true, value_name = "WHEN", help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub probes: Option<ProbeMode>,
}

/// The options of all commands that change nothing in a command of this name.
pub fn options_without_effect(command: &str) -> &'static [&'static str] {
    match command {
        // They read no configuration.
        "info" | "cut" | "cat" | "mark" | "mcp" | "probe" | "completions" | "man" | "set" | "learn" | "forget" => {
            &["config", "no_config", "nic_speed", "probes"]
        }
        // They take no samples of this machine, or of its interfaces alone.
        "replay" | "demo" | "report" | "compare" | "export" | "fleet" | "nicstat" => &["probes"],
        "baseline" => &["nic_speed", "probes"],
        "trace" => &["nic_speed"],
        _ => &[],
    }
}

/// When eBPF programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProbeMode {
    /// Where the kernel and the user's privileges allow it, and while they take at most 1% of a CPU
    #[default]
    Auto,
    /// Never
    Off,
    /// Whatever they cost; why they cannot be attached is reported
    On,
}
