//! `completions`, and what the printed script calls for each word: the shell sets `STALLTOP_COMPLETE` to its name, and the
//! program prints the words that may follow. Files, devices and marks are those of this moment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, PathCompleter};
use clap_complete::env::Shells;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{print, print_bytes};
use crate::cli;
use crate::figures::TABLES;
use crate::recording::Replayer;
use crate::report::formatting::printable;

/// The environment variable with the name of the shell that asks for words.
pub const SHELL_VARIABLE: &str = "STALLTOP_COMPLETE";

/// Prints the script that registers the program with a shell.
pub fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let (name, shells) = (shell.to_string(), Shells::builtins());
    let completer = shells.completer(&name).ok_or_else(|| unknown_shell(&name))?;
    let mut text = Vec::new();
    let written = completer.write_registration(SHELL_VARIABLE, "stalltop", "stalltop", "stalltop", &mut text);
    written.map_err(|error| Failure::new(Exit::Failed, "cannot write the completions", error, ""))?;
    print(&String::from_utf8_lossy(&text)).map(|_| Exit::Success)
}

/// Prints the words that may stand at the cursor. `arguments`: the program, `--`, and the words of the command line.
pub fn complete(shell: &str, arguments: &[OsString]) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| unknown_shell(shell))?;
    let words: Vec<OsString> = arguments.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let mut command = with_candidates(cli::clap_command(), &words);
    let (directory, mut text) = (std::env::current_dir().ok(), Vec::new());
    let written = completer.write_complete(&mut command, words, directory.as_deref(), &mut text);
    // What is not a command line of this program has no completions.
    print_bytes(written.map_or(&[], |()| text.as_slice())).map(|_| Exit::Success)
}

fn unknown_shell(name: &str) -> Failure {
    let why = format!("'{}' is not a known shell", printable(name));
    Failure::new(Exit::Usage, "no completions", why, "bash, elvish, fish, powershell, zsh")
}

/// Adds to each argument the values that it may have. `words`: the command line, in which the recording may be named.
fn with_candidates(command: clap::Command, words: &[OsString]) -> clap::Command {
    let name = command.get_name().to_owned();
    command.mut_subcommands(|below| with_candidates(below, words)).mut_args(|argument| {
        match completer(&name, argument.get_id().as_str(), words) {
            Some(Completer::Words(find)) => argument.add(ArgValueCandidates::new(find)),
            Some(Completer::Files(path)) => argument.add(ArgValueCompleter::new(path)),
            None => argument,
        }
    })
}

enum Completer {
    Words(Box<dyn Fn() -> Vec<CompletionCandidate> + Send + Sync>),
    Files(PathCompleter),
}

/// The values of an argument of a command, by its name in `cli`.
fn completer(command: &str, argument: &str, words: &[OsString]) -> Option<Completer> {
    let words_of = |find: fn() -> Vec<String>| {
        Some(Completer::Words(Box::new(move || find().into_iter().map(CompletionCandidate::new).collect())))
    };
    match (command, argument) {
        ("show" | "set" | "learn" | "forget", "device") | ("compare", "disks") => words_of(disks),
        ("nicstat", "interfaces") => words_of(interfaces),
        ("nicstat", "speeds") => words_of(|| with_end(interfaces(), ":")),
        (_, "nic_speed") => words_of(|| with_end(interfaces(), "=")),
        ("fleet" | "mcp", "hosts") => words_of(ssh_hosts),
        ("man", "command") => {
            words_of(|| cli::clap_command().get_subcommands().map(|below| below.get_name().to_owned()).collect())
        }
        ("table", "columns" | "sort") => {
            let table = words.iter().filter_map(|word| word.to_str()).find_map(|word| {
                let table = TABLES.iter().find(|table| table.name() == word)?;
                Some(table.columns())
            })?;
            Some(Completer::Words(Box::new(move || {
                table.iter().map(|column| CompletionCandidate::new(column.title)).collect()
            })))
        }
        ("replay" | "check", "file") => Some(Completer::Files(recordings().stdio())),
        ("fleet", "hosts_file") => Some(Completer::Files(PathCompleter::file())),
        ("fleet", "record" | "replay") => Some(Completer::Files(PathCompleter::dir())),
        ("info" | "report" | "cut" | "export", "file") | ("cat", "files") | ("compare", "base" | "new") | ("table", "from") => {
            Some(Completer::Files(recordings()))
        }
        (_, "at" | "from" | "to") => {
            let recording = recording_in(words)?;
            Some(Completer::Words(Box::new(move || marks(&recording))))
        }
        _ => None,
    }
}

/// The file, or the directory of a recording, that a command line names: after the program and the command.
fn recording_in(words: &[OsString]) -> Option<PathBuf> {
    let paths = || words.iter().skip(2).map(PathBuf::from);
    paths().find(|path| is_recording(path)).or_else(|| paths().find(|path| path.is_dir()))
}

fn recordings() -> PathCompleter {
    PathCompleter::any().filter(|path| path.is_dir() || is_recording(path))
}

fn is_recording(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "stalltop")
}

/// The hosts of the user's ssh configuration, without patterns, and those that were connected to.
fn ssh_hosts() -> Vec<String> {
    let read = |file: &str| {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        home.and_then(|home| fs::read_to_string(home.join(".ssh").join(file)).ok()).unwrap_or_default()
    };
    let (config, known) = (read("config"), read("known_hosts"));
    let of_config = config.lines().filter_map(|line| {
        let (word, names) = line.trim().split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case("host").then(|| names.split_whitespace())
    });
    // Hashed names begin with |, marked lines with @, and a name with a port with [.
    let of_known = known.lines().filter_map(|line| line.split_whitespace().next()).flat_map(|names| names.split(','));
    let is_name = |name: &&str| !name.contains(['*', '?', '!', '|', '@', '[', '#']);
    let mut hosts: Vec<String> = of_config.flatten().chain(of_known).filter(is_name).map(str::to_owned).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn disks() -> Vec<String> {
    names_in("/sys/block")
}

fn interfaces() -> Vec<String> {
    names_in("/sys/class/net")
}

fn names_in(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn with_end(names: Vec<String>, end: &str) -> Vec<String> {
    names.into_iter().map(|name| name + end).collect()
}

/// The times of the marks of a recording, with their texts: `+90s`, rounded down, so that the mark is included.
fn marks(recording: &Path) -> Vec<CompletionCandidate> {
    let Ok(replayer) = Replayer::open(recording) else { return Vec::new() };
    let Some(first) = replayer.timestamp(0) else { return Vec::new() };
    let candidate = |mark: &crate::recording::Mark| {
        let seconds = mark.at.realtime_ns.saturating_sub(first.realtime_ns).max(0) / 1_000_000_000;
        CompletionCandidate::new(format!("+{seconds}s")).help(Some(printable(&mark.text).into()))
    };
    replayer.marks().iter().map(candidate).collect()
}
