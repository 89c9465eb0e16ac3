//! clap's messages as one line: what is wrong, what was probably meant, and what to do.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::other_tools::similar_to;
use crate::units::similar::{did_you_mean, one_edit_away};

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

/// The usage error for a misspelt name of another tool: `iosta`.
pub(super) fn misspelt_tool_error(error: &clap::Error) -> Option<EarlyExit> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let definition = super::clap_command();
    let tool = similar_to(word, definition.get_subcommands().map(clap::Command::get_name))?;
    let what = format!("'{word}' is not a command: did you mean '{}'? Instead of '{}'", tool.name(), tool.typed);
    Some(EarlyExit::UsageError(format!("{what} try '{}': {}", tool.instead, tool.note)))
}

/// Joins the lines of a message of clap.
pub(super) fn one_line_error(error: &clap::Error, help: &str) -> EarlyExit {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand) {
        return EarlyExit::HelpOrVersion(error.render().to_string());
    }
    let option = unknown_option(error);
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut what = lines.next().unwrap_or_default().trim_start_matches("error:").trim().trim_end_matches(':').to_owned();
    let mut last = "";
    // A similar option of this command
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
    let options = all_options();
    // clap also suggests hidden options.
    let similar =
        similar.filter(|text: &String| option.is_none() || options.iter().any(|known| text.contains(&known.quoted())));
    // `fleet --host` means --hosts, although another command has --host.
    let lacks_a_letter = |text: &String, typed: &str| {
        text.split('\'').nth(1).is_some_and(|meant| meant.starts_with(typed) && meant.len() == typed.len() + 1)
    };
    let suggestion = match (option.as_deref(), similar) {
        (Some(typed), _) if is_negative_number(typed) => Some(": times and counts are not negative".to_owned()),
        (Some(typed), Some(similar)) if lacks_a_letter(&similar, typed) => Some(similar),
        (Some(typed), similar) => {
            option_of_other_command(&options, typed).or_else(|| one_edit_from_own_option(&options, help, typed)).or(similar)
        }
        (None, similar) => similar,
    };
    let suggestion = suggestion.or_else(|| Some(similar_option_of_other_command(&options, option.as_deref()?)));
    EarlyExit::UsageError(format!("{what}{}: try '{help}'", suggestion.unwrap_or_default()))
}

/// The option that the command does not have, such as `--rotate` or `-x`.
fn unknown_option(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(option) if error.kind() == ErrorKind::UnknownArgument && option.starts_with('-') => {
            Some(option.clone())
        }
        _ => None,
    }
}

/// `-5`, of `--for -5s`.
fn is_negative_number(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}

/// A command and one of its options, as both are typed.
struct CommandOption {
    command: String,
    option: String,
}

impl CommandOption {
    fn quoted(&self) -> String {
        format!("'{}'", self.option)
    }
}

/// The options of all commands.
fn all_options() -> Vec<CommandOption> {
    fn add(command: &clap::Command, path: &str, options: &mut Vec<CommandOption>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            options.extend(long.into_iter().chain(short).map(|option| CommandOption { command: format!("'{path}'"), option }));
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            add(below, &format!("{path} {}", below.get_name()), options);
        }
    }
    let mut options = Vec::new();
    add(&super::clap_command(), "stalltop", &mut options);
    options
}

/// `: did you mean …?` if an option of this command, whose help is named, is spelt like it but for one letter: `check --fro` means
/// its --for, not the --from of others.
fn one_edit_from_own_option(options: &[CommandOption], help: &str, typed: &str) -> Option<String> {
    let command = format!("'{}'", help.strip_suffix(" --help")?);
    let own = options.iter().filter(|known| known.command == command && known.option.starts_with("--"));
    one_edit_away(typed, own.map(|known| known.option.as_str())).map(|meant| format!(": did you mean '{meant}'?"))
}

/// Names the commands that have the option.
fn option_of_other_command(options: &[CommandOption], option: &str) -> Option<String> {
    const MAX_NAMED: usize = 3;
    let mut commands: Vec<&str> =
        options.iter().filter(|known| known.option == option).map(|known| known.command.as_str()).collect();
    let more = if commands.len() > MAX_NAMED { ", …" } else { "" };
    commands.truncate(MAX_NAMED);
    (!commands.is_empty()).then(|| format!(": it is an option of {}{more}", commands.join(", ")))
}

/// `: did you mean …?` if an option of another command is similar, else empty.
fn similar_option_of_other_command(options: &[CommandOption], option: &str) -> String {
    let long = options.iter().filter(|known| known.option.starts_with("--"));
    let meant = did_you_mean(option, long.map(|known| known.option.as_str()));
    let known = options.iter().find(|known| meant.contains(&known.quoted()));
    known.map_or_else(String::new, |known| format!("{} of {}?", meant.trim_end_matches('?'), known.command))
}
