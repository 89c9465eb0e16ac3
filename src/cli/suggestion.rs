//! What was probably meant by an option, a command or a table that does not exist: a misspelt name, or the name that other tools use.

use super::other_tools::{self, OtherTool};
use crate::units::similar::nearest;

/// Options of other tools, and the options that do the same here. Each is suggested only to commands that have it.
const OPTION_SYNONYMS: [(&[&str], &[&str]); 9] = [
    (&["duration", "time", "timeout", "length"], &["--for"]),
    (&["start", "since", "begin", "after"], &["--from", "--at"]),
    (&["end", "until", "stop", "before"], &["--to"]),
    (&["exclude", "skip"], &["--ignore"]),
    (&["port", "bind", "address", "addr"], &["--listen"]),
    (&["delay", "refresh", "period"], &["-i"]),
    (&["critical", "severity", "warn", "warning"], &["--fail-on"]),
    (&["csv", "jsonl", "parquet", "text", "html"], &["--format"]),
    (&["out", "output-file"], &["-o"]),
];

/// Words that are typed as a command, and the command line that does the same.
const COMMAND_SYNONYMS: [(&[&str], &str); 7] = [
    (&["dstat"], "stalltop table load 1"),
    (&["free"], "stalltop table memory"),
    (&["ps"], "stalltop table task"),
    (&["version"], "stalltop --version"),
    (&["live", "start", "run"], "stalltop"),
    (&["complete", "completion"], "stalltop completions"),
    (&["verify"], "stalltop info --verify"),
];

/// Words that are typed as a table, and the table.
const TABLE_SYNONYMS: [(&[&str], &str); 5] = [
    (&["net", "network", "interface", "interfaces", "if"], "nic"),
    (&["io", "block", "blk"], "disk"),
    (&["process", "processes", "proc", "ps", "pid"], "task"),
    (&["mem", "ram", "swap", "vm"], "memory"),
    (&["psi"], "pressure"),
];

/// What to say of a word that is not a command.
pub(super) enum MeantCommand {
    /// Another spelling of a command
    Command(String),
    /// Another tool
    Tool(&'static OtherTool),
    /// The command line that does the same
    CommandLine(&'static str),
}

/// The command, or the tool that a command replaces, that was probably meant by `word` below `parent`, such as `stalltop baseline`.
pub(super) fn for_command(word: &str, parent: Option<&str>) -> Option<MeantCommand> {
    let program = super::clap_command();
    let parent = parent.and_then(|name| program.find_subcommand(name)).filter(|command| command.has_subcommands());
    let visible = parent.unwrap_or(&program).get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<&str> = visible.map(clap::Command::get_name).collect();
    let command = |max_edits| nearest(word, names.iter().copied(), max_edits).map(str::to_owned).map(MeantCommand::Command);
    let beginning = || {
        let name = names.iter().find(|name| word.len() > 2 && name.starts_with(word))?;
        Some(MeantCommand::Command((*name).to_owned()))
    };
    if parent.is_some() {
        return command(max_edits(word)).or_else(beginning);
    }
    let line = || synonym(&COMMAND_SYNONYMS, word).map(MeantCommand::CommandLine);
    let tool = || other_tools::one_edit_from(word).map(MeantCommand::Tool);
    line().or_else(|| command(1)).or_else(tool).or_else(|| command(max_edits(word))).or_else(beginning)
}

/// The table that was meant by a word that other tools use.
pub(super) fn for_table(word: &str) -> Option<&'static str> {
    synonym(&TABLE_SYNONYMS, word)
}

fn synonym<T: Copy>(synonyms: &[(&[&str], T)], word: &str) -> Option<T> {
    synonyms.iter().find(|(words, _)| words.contains(&word)).map(|&(_, meant)| meant)
}

/// How many letters may be wrong: in a short word more would make it any other.
fn max_edits(word: &str) -> usize {
    if word.trim_start_matches('-').len() < 6 { 1 } else { 2 }
}

/// A command, such as `stalltop record`, and one of its options, as both are typed.
struct CommandOption {
    command: String,
    option: String,
}

/// The end of the message for an option that `command` does not have.
pub(super) fn for_option(typed: &str, command: &str) -> Option<String> {
    let options = all_options();
    let (own, others): (Vec<&CommandOption>, Vec<&CommandOption>) = options.iter().partition(|known| known.command == command);
    let own: Vec<&str> = own.iter().map(|known| known.option.as_str()).collect();
    // `fleet --host` means its --hosts, although another command has --host.
    let longer = own.iter().find(|known| known.starts_with(typed) && known.len() == typed.len() + 1 && typed.len() > 2);
    if let Some(meant) = longer {
        return Some(did_you_mean(meant));
    }
    let commands: Vec<&str> = others.iter().filter(|known| known.option == typed).map(|known| known.command.as_str()).collect();
    if !commands.is_empty() {
        return Some(is_option_of(&commands));
    }
    let long = |options: &[&'_ str]| -> Vec<String> {
        options.iter().filter(|option| option.starts_with("--")).map(|option| (*option).to_owned()).collect()
    };
    let own_long = long(&own);
    let own_nearest = |max_edits| nearest(typed, own_long.iter().map(String::as_str), max_edits).map(did_you_mean);
    let synonyms = typed.strip_prefix("--").and_then(|word| synonym(&OPTION_SYNONYMS, word));
    if let Some(meant) = synonyms.and_then(|meant| meant.iter().find(|meant| own.contains(meant))) {
        return Some(did_you_mean(meant));
    }
    let of_other = || {
        let others = others.iter().filter(|known| known.option.starts_with("--") && typed.len() > "--abc".len());
        let meant = nearest(typed, others.clone().map(|known| known.option.as_str()), 1)?;
        let known = others.clone().find(|known| known.option == meant)?;
        Some(format!(": did you mean '{meant}' of '{}'?", known.command))
    };
    own_nearest(1).or_else(|| own_nearest(max_edits(typed))).or_else(|| synonyms.is_none().then(of_other)?)
}

fn did_you_mean(meant: &str) -> String {
    format!(": did you mean '{meant}'?")
}

fn is_option_of(commands: &[&str]) -> String {
    const MAX_NAMED: usize = 3;
    let named: Vec<String> = commands.iter().take(MAX_NAMED).map(|command| format!("'{command}'")).collect();
    let more = if commands.len() > MAX_NAMED { ", …" } else { "" };
    format!(": it is an option of {}{more}", named.join(", "))
}

/// The options of all commands, with their other names, `--help` and `--version`.
fn all_options() -> Vec<CommandOption> {
    fn add(command: &clap::Command, path: &str, options: &mut Vec<CommandOption>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let longs = argument.get_long_and_visible_aliases().unwrap_or_default();
            let long = longs.into_iter().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            options.extend(long.chain(short).map(|option| CommandOption { command: path.to_owned(), option }));
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            add(below, &format!("{path} {}", below.get_name()), options);
        }
    }
    let mut options = Vec::new();
    let mut program = super::clap_command();
    // Adds --help, --version, and the global options to each command.
    program.build();
    add(&program, "stalltop", &mut options);
    options
}

#[cfg(test)]
mod tests {
    use crate::cli::{EarlyExit, parse};

    fn message(words: &str) -> String {
        let arguments = std::iter::once("stalltop").chain(words.split_whitespace()).map(std::ffi::OsString::from);
        match parse(arguments) {
            Err(EarlyExit::UsageError(text) | EarlyExit::PluginUsageError(text) | EarlyExit::NicstatUsageError(text)) => text,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn a_misspelt_or_foreign_option_is_answered_with_the_right_one() {
        for (words, meant) in [
            ("--verison", "did you mean '--version'?"),
            ("--hlep", "did you mean '--help'?"),
            ("check --hlep", "did you mean '--help'?"),
            ("check --verison", "did you mean '--version' of 'stalltop'?"),
            ("--moon", "did you mean '--mono'?"),
            ("replay x --moon", "did you mean '--mono'?"),
            ("record --duration 5s", "did you mean '--for'?"),
            ("record --time 5s", "did you mean '--for'?"),
            ("replay x --start 12:00", "did you mean '--from'?"),
            ("replay x --end 12:00", "did you mean '--to'?"),
            ("check x --start 12:00", "did you mean '--at'?"),
            ("check --critical 5", "did you mean '--fail-on'?"),
            ("check --exclude swapping", "did you mean '--ignore'?"),
            ("--refresh 2", "did you mean '-i'?"),
            ("--delay 2", "did you mean '-i'?"),
            ("report x --html", "did you mean '--format'?"),
            ("export x --csv", "did you mean '--format'?"),
            ("table cpu --csv", "did you mean '--format'?"),
            ("serve --port 1", "did you mean '--listen'?"),
            ("serve --bind 1", "did you mean '--listen'?"),
            ("fleet --host x", "did you mean '--hosts'?"),
            ("--no-colour", "did you mean '--no-color'?"),
            ("--rotat 1d", "did you mean '--rotate' of 'stalltop record'?"),
        ] {
            assert!(message(words).contains(&format!("found: {meant}: try")), "{words}: {}", message(words));
        }
    }

    #[test]
    fn without_a_similar_option_nothing_is_suggested() {
        for words in ["compare a b --base x", "record --port 1", "check --xyz", "--abcdefgh"] {
            assert!(message(words).contains("found: try '"), "{words}: {}", message(words));
        }
    }

    #[test]
    fn a_misspelt_or_foreign_command_is_answered_with_the_right_one() {
        for (words, meant) in [
            ("tabel disk", "did you mean 'table'?"),
            ("reply x", "did you mean 'replay'?"),
            ("bugreport", "did you mean 'bug-report'?"),
            ("rec", "did you mean 'record'?"),
            ("baseline shwo", "did you mean 'show'?"),
            ("complete bash", "try 'stalltop completions'"),
            ("start", "try 'stalltop'"),
            ("live", "try 'stalltop'"),
            ("version", "try 'stalltop --version'"),
            ("dstat", "try 'stalltop table load 1'"),
            ("free -m", "try 'stalltop table memory'"),
            ("ps aux", "try 'stalltop table task'"),
            ("iosta", "did you mean 'iostat'? Instead of 'iostat -x 1' try 'stalltop table disk 1'"),
            ("table net", "did you mean 'nic'?"),
            ("table network", "did you mean 'nic'?"),
            ("table interface", "did you mean 'nic'?"),
            ("table io", "did you mean 'disk'?"),
            ("table process", "did you mean 'task'?"),
            ("table proc", "did you mean 'task'?"),
            ("table mem", "did you mean 'memory'?"),
            ("table disc", "did you mean 'disk'?"),
        ] {
            assert!(message(words).contains(meant), "{words}: {}", message(words));
        }
    }
}
