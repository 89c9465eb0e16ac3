//! The options of `check`: source and time, which findings count, and the output format.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::finding_options::{self, SuggestingParser};
use super::on_finding::OnFinding;
use super::time_range::RecordingTime;
use super::value_parsers;
use crate::findings::{Kind, Severity, ThresholdSetting};

/// There is no --armed here.
const ON_HELP: &str = "With --watch: the findings that start the command of --on-finding: kinds, or all of a severity and worse: note, \
                       warning, critical [default: critical]. The same one counts once an hour";

#[derive(Args, Clone, Debug, PartialEq)]
#[command(mut_arg("on", |option| option.help(ON_HELP)))]
pub struct Check {
    /// Evaluate this recording, or directory of recordings, instead of the running machine; - reads it from standard input
    #[arg(conflicts_with_all = ["interval", "save"])]
    pub file: Option<PathBuf>,
    /// Evaluate the recording from this time on: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start, or the text of a mark
    #[arg(long, value_name = "TIME", value_parser = RecordingTime::parse, allow_hyphen_values = true, requires = "file")]
    pub at: Option<RecordingTime>,
    /// Evaluate the machine for this time [default: 5s, with --watch no limit]; of a recording, this much of its end
    /// [default: all], or with --at this much from there on [default: 5s]; of standard input, this much of its beginning
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::positive_duration)]
    pub span: Option<Duration>,
    /// Time between samples [default: 1s, or a quarter of --for if that is less]
    #[arg(short, long, value_parser = value_parsers::interval)]
    pub interval: Option<Duration>,
    /// Only findings of these kinds
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = kind_parser(), hide_possible_values = true)]
    pub only: Vec<Kind>,
    /// Ignore findings of these kinds
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = kind_parser(), hide_possible_values = true)]
    pub ignore: Vec<Kind>,
    /// Use another threshold: the main one of a kind (disk-latency=5), or one by its name (latency-critical-multiple=20)
    #[arg(long, value_name = "KIND=VALUE,...", value_delimiter = ',', value_parser = setting_parser(), hide_possible_values = true)]
    pub threshold: Vec<ThresholdSetting>,
    /// Exit with 0 if all findings are less severe
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = FailOn::Warning)]
    pub fail_on: FailOn,
    /// Output: sentences, one JSON object, or one line with performance data for Nagios and Icinga
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Run until stopped, and print a line when a finding begins, changes its severity, or ends
    #[arg(long)]
    pub watch: bool,
    /// Save the evaluated samples to this new file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    pub on_finding: OnFinding,
}

impl Check {
    /// The output format, with the alias `--json`.
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
