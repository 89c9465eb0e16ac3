//! clap's messages as one line: what is wrong, and what to do.

use std::ffi::OsString;

/// Why the command line is not a command to run.
#[derive(Debug, PartialEq, Eq)]
pub enum EarlyExit {
    /// `--help`, `--version`: text for standard output
    HelpOrVersion(String),
    /// Wrong usage, in one line
    UsageError(String),
    /// Wrong usage of nicstat, which has an exit code of its own for it
    NicstatUsageError(String),
}

/// The command that the arguments name, such as `baseline set`: the help of this command is the remedy.
pub(super) fn subcommand_path(arguments: &[OsString]) -> Option<String> {
    let definition = super::clap_command();
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let (name, command) = words.find_map(|word| Some((word, definition.find_subcommand(word)?)))?;
    let below = words.next().filter(|word| command.find_subcommand(word).is_some());
    Some(std::iter::once(name).chain(below).collect::<Vec<_>>().join(" "))
}

/// Joins the lines of a message of clap.
pub(super) fn one_line_error(error: &clap::Error, help: &str) -> EarlyExit {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand) {
        return EarlyExit::HelpOrVersion(error.render().to_string());
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut what = lines.next().unwrap_or_default().trim_start_matches("error:").trim().trim_end_matches(':').to_owned();
    let mut last = "";
    for line in lines {
        if line.starts_with("Usage:") || line.starts_with("For more") {
            break;
        }
        if let Some(tip) = line.strip_prefix("tip:") {
            // The other tips do not help: they suggest `--` before what begins with a minus.
            if let Some((_, meant)) = tip.split_once("exist").filter(|(similar, _)| similar.contains("similar")) {
                what.push_str(&format!(": did you mean {}?", meant.trim_start_matches('s').trim_start_matches([':', ' '])));
            }
            continue;
        }
        // Missing arguments are listed one per line.
        let is_argument = |it: &str| it.starts_with(['<', '-']);
        what.push_str(match line {
            _ if line.starts_with('[') => " ",
            _ if is_argument(last) && is_argument(line) => ", ",
            _ => ": ",
        });
        what.push_str(line);
        last = line;
    }
    EarlyExit::UsageError(format!("{what}: try '{help}'"))
}
