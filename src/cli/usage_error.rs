//! clap's messages as one line: what is wrong, what was probably meant, and what to do.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::suggestion::{self, MeantCommand};
use super::table::TABLE_NAMES;

/// Why the command line is not a command to run.
#[derive(Debug, PartialEq, Eq)]
pub enum EarlyExit {
    /// `--help`, `--version`: text for standard output
    HelpOrVersion(String),
    /// The help of a command that needs another word, such as `probe`: for standard error
    MissingCommand(String),
    /// Wrong usage, in one line
    UsageError(String),
    /// Wrong usage of `check` or `fleet --once`: a monitoring system takes exit code 2 for a critical finding
    PluginUsageError(String),
    /// Wrong usage of nicstat, which has an exit code of its own for it
    NicstatUsageError(String),
}

impl EarlyExit {
    /// Adds the hint that a list was probably typed with a blank after a comma.
    pub(super) fn with_list_hint(self) -> EarlyExit {
        match self {
            EarlyExit::UsageError(line) => {
                let (what, remedy) = line.rsplit_once(": try ").unwrap_or((&line, ""));
                EarlyExit::UsageError(format!("{what}: a list has no blanks after its commas: try {remedy}"))
            }
            other => other,
        }
    }

    /// With the exit code of a monitoring plugin.
    pub(super) fn of_plugin(self) -> EarlyExit {
        match self {
            EarlyExit::UsageError(line) => EarlyExit::PluginUsageError(line),
            other => other,
        }
    }
}

/// Whether the value of an option ends with a comma, and another word follows: `--columns r/s, w/s`.
pub(super) fn has_split_list(arguments: &[OsString]) -> bool {
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let options = arguments.iter().take_while(|word| *word != "--").collect::<Vec<_>>();
    // Before each comma: the option, or the value that it ends, and the word after it.
    options.windows(3).any(|words| match words {
        [before, value, _] => value.as_encoded_bytes().ends_with(b",") && (is_option(before) || is_option(value)),
        _ => false,
    })
}

/// The command that the arguments name, such as `baseline set`: the help of this command is the remedy.
pub(super) fn subcommand_path(arguments: &[OsString]) -> Option<String> {
    let definition = super::clap_command();
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let (name, command) = words.find_map(|word| Some((word, definition.find_subcommand(word)?)))?;
    let below = words.next().filter(|word| command.find_subcommand(word).is_some());
    Some(std::iter::once(name).chain(below).collect::<Vec<_>>().join(" "))
}

/// The message for a word that is no command.
fn unknown_command_error(word: &str, parent: Option<&str>, help: &str) -> String {
    match suggestion::for_command(word, parent) {
        Some(MeantCommand::Command(name)) => format!("unrecognized subcommand '{word}': did you mean '{name}'?: try '{help}'"),
        Some(MeantCommand::CommandLine(line)) => format!("'{word}' is not a command: try '{line}'"),
        Some(MeantCommand::Tool(tool)) => {
            let what = format!("'{word}' is not a command: did you mean '{}'? Instead of '{}'", tool.name(), tool.typed);
            format!("{what} try '{}': {}", tool.instead, tool.note)
        }
        None => format!("unrecognized subcommand '{word}': try '{help}'"),
    }
}

/// Joins the lines of a message of clap. `command`: its name and that of the command above it; `None` without a command.
pub(super) fn one_line_error(error: &clap::Error, command: Option<&str>, help: &str) -> EarlyExit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return EarlyExit::HelpOrVersion(error.render().to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return EarlyExit::MissingCommand(error.render().to_string());
        }
        ErrorKind::MissingRequiredArgument if command == Some("table") && is_missing(error, "<WHAT>") => {
            let tables = TABLE_NAMES.join(", ");
            let what = format!("which table? There are {tables}: for example 'stalltop table disk 1'");
            return EarlyExit::UsageError(format!("{what}: try '{help}'"));
        }
        _ => {}
    }
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        return EarlyExit::UsageError(unknown_command_error(word, command, help));
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut what = lines.next().unwrap_or_default().trim_start_matches("error:").trim().trim_end_matches(':').to_owned();
    let mut last = "";
    // A value that is similar to the wrong one
    let mut similar = None;
    for line in lines {
        if line.starts_with("Usage:") || line.starts_with("For more") {
            break;
        }
        if let Some(tip) = line.strip_prefix("tip:") {
            // The other tips do not help: they suggest `--` before what begins with a minus.
            if let Some((_, meant)) = tip.split_once("exist").filter(|(similar, _)| similar.contains("similar")) {
                similar = Some(format!(": did you mean {}?", meant.trim_start_matches('s').trim_start_matches([':', ' '])));
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
    let suggestion = match unknown_option(error) {
        Some(typed) if is_negative_number(typed) => Some(": times and counts are not negative".to_owned()),
        // The tips of clap are less good.
        Some(typed) => {
            let path = command.map_or_else(|| "stalltop".to_owned(), |command| format!("stalltop {command}"));
            suggestion::for_option(typed, &path)
        }
        None => meant_table(error).map(|table| format!(": did you mean '{table}'?")).or(similar),
    };
    EarlyExit::UsageError(format!("{what}{}: try '{help}'", suggestion.unwrap_or_default()))
}

/// Whether this argument is among those that are missing.
fn is_missing(error: &clap::Error, argument: &str) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|name| name == argument),
        Some(ContextValue::String(missing)) => missing == argument,
        _ => false,
    }
}

/// The option that the command does not have, such as `--rotate` or `-x`.
fn unknown_option(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(option) if error.kind() == ErrorKind::UnknownArgument && option.starts_with('-') => Some(option),
        _ => None,
    }
}

/// The table that another tool calls by the wrong value.
fn meant_table(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidValue) else { return None };
    let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) else { return None };
    suggestion::for_table(word).filter(|table| values.iter().any(|value| value == table))
}

/// `-5`, of `--for -5s`.
fn is_negative_number(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}
