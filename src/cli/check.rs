//! `check`: how long, where, which findings count, and in whose words it is said.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::finding_options::{self, SuggestingParser};
use super::value_parsers;
use crate::findings::{Kind, Severity, ThresholdSetting};
use crate::time_spec::TimeSpec;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Check {
    /// Judge this recording instead of the running machine
    #[arg(conflicts_with_all = ["interval", "save"])]
    pub file: Option<PathBuf>,
    /// Judge the recording from here on: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start
    #[arg(long, value_name = "TIME", value_parser = super::parse_timestamp, allow_hyphen_values = true, requires = "file")]
    pub at: Option<TimeSpec>,
    /// Watch the machine for this time [default: 5s, with --watch for ever]; of a recording, judge so much of its end
    /// [default: all], or with --at so much from there on [default: 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::positive_duration)]
    pub span: Option<Duration>,
    /// Time between samples [default: 1s, less for a short look]
    #[arg(short, long, value_parser = value_parsers::interval)]
    pub interval: Option<Duration>,
    /// Findings of these kinds alone
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = kind_parser(), hide_possible_values = true)]
    pub only: Vec<Kind>,
    /// No findings of these kinds
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = kind_parser(), hide_possible_values = true)]
    pub ignore: Vec<Kind>,
    /// Judge by another limit: of a kind (disk-latency=5), or one by its name (latency-critical-multiple=20)
    #[arg(long, value_name = "KIND=VALUE,...", value_delimiter = ',', value_parser = setting_parser(), hide_possible_values = true)]
    pub threshold: Vec<ThresholdSetting>,
    /// Exit with 0 unless something is at least so bad
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = FailOn::Warning)]
    pub fail_on: FailOn,
    /// Sentences, one JSON object, or one line with figures for Nagios and Icinga
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Go on, and say in a line each when a finding begins, gets worse or better, and ends
    #[arg(long)]
    pub watch: bool,
    /// Keep the samples that were judged in this new file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

impl Check {
    /// In whose words.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Nagios,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    Warning,
    Critical,
}

impl FailOn {
    pub fn severity(self) -> Severity {
        match self {
            FailOn::Warning => Severity::Warning,
            FailOn::Critical => Severity::Critical,
        }
    }
}

fn kind_parser() -> SuggestingParser<Kind> {
    SuggestingParser {
        parse: finding_options::parse_kind,
        possible_values: || finding_options::kind_names().map(str::to_owned).collect(),
    }
}

fn setting_parser() -> SuggestingParser<ThresholdSetting> {
    SuggestingParser {
        parse: finding_options::parse_setting,
        possible_values: || finding_options::setting_names().map(|word| format!("{word}=")).collect(),
    }
}
