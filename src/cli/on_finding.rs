//! `--on` and `--on-finding`: which findings count, and the command that is told of them.

use std::ffi::OsString;

use clap::Args;

use super::finding_options::{FindingSelector, SuggestingParser};
use crate::findings::Severity;

#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct OnFinding {
    /// The findings that start a capture (--armed) or the command (--on-finding): kinds, or all of a severity and worse: note,
    /// warning, critical [default: critical]. The same one counts once an hour
    #[arg(long, value_name = "KIND|SEVERITY,...", value_delimiter = ',', value_parser = selector_parser(), hide_possible_values = true)]
    pub on: Vec<FindingSelector>,
    /// Run this program when such a finding begins, with the finding as JSON on standard input and as environment variables
    /// STALLTOP_*. Words are separated by spaces; there is no shell. One at a time; killed after 30 s
    #[arg(long, value_name = "CMD")]
    pub on_finding: Option<OsString>,
}

impl OnFinding {
    /// Whether `--on` is given without a command, which only captures may use.
    pub fn lacks_command(&self) -> bool {
        self.on_finding.is_none() && !self.on.is_empty()
    }

    /// The findings that count, with the default.
    pub fn selectors(&self) -> Vec<FindingSelector> {
        if self.on.is_empty() { vec![FindingSelector::Severity(Severity::Critical)] } else { self.on.clone() }
    }
}

fn selector_parser() -> SuggestingParser<FindingSelector> {
    SuggestingParser {
        parse: FindingSelector::parse,
        possible_values: || FindingSelector::names().map(str::to_owned).collect(),
    }
}
