//! The words that an argument may be, by the command and the argument's name in `cli`. What clap knows (subcommands, options, the
//! values of enumerations, kinds of findings, paths) is not here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCompleter, PathCompleter};

use super::ssh_hosts::SshHosts;
use crate::app::command::demo;
use crate::app::config::themes::all_themes;
use crate::cli;
use crate::figures::TABLES;
use crate::recording::{Mark, Replayer};
use crate::report::formatting::printable;

/// Adds to each argument the values that it may have. `words`: the command line, in which the recording may be named.
pub fn with_candidates(command: clap::Command, words: &[OsString]) -> clap::Command {
    let name = command.get_name().to_owned();
    command.mut_subcommands(|below| with_candidates(below, words)).mut_args(|argument| {
        match completer(&name, argument.get_id().as_str(), words) {
            Some(completer) => argument.add(completer),
            None => argument,
        }
    })
}

fn completer(command: &str, argument: &str, words: &[OsString]) -> Option<ArgValueCompleter> {
    let completer = match (command, argument) {
        ("show" | "set" | "learn" | "forget", "device") | ("compare", "disks") => of_words(|_| disks()),
        ("nicstat", "interfaces") => of_words(|_| interfaces()),
        ("nicstat", "speeds") => of_words(|_| with_end(interfaces(), ":")),
        (_, "nic_speed") => of_words(|_| with_end(interfaces(), "=")),
        ("fleet", "hosts") => of_words(|typed| SshHosts::for_user().completing(typed, true)),
        ("mcp", "hosts") => of_words(|typed| SshHosts::for_user().completing(typed, false)),
        (_, "theme") => of_words(|_| all_themes().0.into_iter().map(|theme| theme.name().to_owned()).collect()),
        ("demo", "number") => of_candidates(|_| {
            demo::titles()
                .map(|(number, title)| CompletionCandidate::new(number.to_string()).help(Some(title.into())))
                .collect()
        }),
        ("man", "command") => {
            let above = words.iter().rev().nth(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
            of_words(move |_| commands_below(&above))
        }
        ("table", "columns") => {
            let columns = columns(words, true)?;
            of_candidates(move |typed| last_of_list(typed, &columns))
        }
        ("table", "sort") => {
            let columns = columns(words, false)?;
            of_words(move |_| columns.clone())
        }
        ("replay" | "check", "file") => ArgValueCompleter::new(recordings().stdio()),
        ("fleet", "hosts_file") => ArgValueCompleter::new(PathCompleter::file().stdio()),
        ("fleet", "record" | "replay") | ("record", "directory" | "export") | ("export", "hive") | ("mcp", "directories") => {
            ArgValueCompleter::new(PathCompleter::dir())
        }
        ("fs", "mount") => ArgValueCompleter::new(PathCompleter::dir()),
        ("info" | "report" | "cut" | "export", "file") | ("cat", "files") | ("compare", "base" | "new") | ("table", "from") => {
            ArgValueCompleter::new(recordings())
        }
        (_, "at" | "from" | "to") => {
            let recording = recording_in(words)?;
            of_candidates(move |typed| marks(&recording, typed))
        }
        _ => return None,
    };
    Some(completer)
}

/// Offers the candidates that begin with what is typed, which `find` is given.
fn of_candidates(find: impl Fn(&str) -> Vec<CompletionCandidate> + Send + Sync + 'static) -> ArgValueCompleter {
    let completer = move |typed: &OsStr| {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        let begins = |candidate: &CompletionCandidate| candidate.get_value().as_encoded_bytes().starts_with(typed.as_bytes());
        find(typed).into_iter().filter(begins).collect()
    };
    ArgValueCompleter::new(completer)
}

fn of_words(find: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> ArgValueCompleter {
    of_candidates(move |typed| find(typed).into_iter().map(CompletionCandidate::new).collect())
}

/// The words for the last place of a list with commas.
fn last_of_list(typed: &str, words: &[String]) -> Vec<CompletionCandidate> {
    let before = typed.rfind(',').and_then(|comma| typed.get(..=comma)).unwrap_or_default();
    words.iter().map(|word| CompletionCandidate::new(format!("{before}{word}"))).collect()
}

/// The headings of the columns of the table that a command line names; with the names of sets of them.
fn columns(words: &[OsString], with_sets: bool) -> Option<Vec<String>> {
    let table = words.iter().filter_map(|word| word.to_str()).find_map(|word| TABLES.iter().find(|it| it.name() == word))?;
    let sets = table.column_sets().into_iter().map(|(name, _)| name).chain(["all"]).filter(|_| with_sets);
    Some(table.columns().iter().map(|column| column.title).chain(sets).map(str::to_owned).collect())
}

/// The commands, or those below one of them.
fn commands_below(above: &str) -> Vec<String> {
    let program = cli::clap_command();
    let parent = program.find_subcommand(above).unwrap_or(&program);
    parent.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// The file, or the directory of a recording, that a command line names: after the program and the command.
fn recording_in(words: &[OsString]) -> Option<PathBuf> {
    let paths = || words.iter().skip(2).map(|word| path_in(word));
    paths().find(|path| is_recording(path)).or_else(|| paths().find(|path| path.is_dir()))
}

/// The path in `FILE` or `--from=FILE`; `~` is the user's directory, which the shell has not put in yet.
fn path_in(word: &OsStr) -> PathBuf {
    let text = word.to_string_lossy();
    let value = text.strip_prefix("--").and_then(|option| Some(option.split_once('=')?.1)).unwrap_or(&text);
    let home = || std::env::home_dir().unwrap_or_default();
    value.strip_prefix("~/").map_or_else(|| PathBuf::from(value), |below| home().join(below))
}

fn recordings() -> PathCompleter {
    PathCompleter::any().filter(|path| path.is_dir() || is_recording(path))
}

fn is_recording(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "stalltop")
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

/// The texts of the marks of a recording, with their times; after `+` their times, with their texts.
fn marks(recording: &Path, typed: &str) -> Vec<CompletionCandidate> {
    let Ok(replayer) = Replayer::open(recording) else { return Vec::new() };
    let Some(first) = replayer.timestamp(0) else { return Vec::new() };
    // Rounded down, so that the mark is included.
    let time = |mark: &Mark| {
        let seconds = mark.at.realtime_ns.saturating_sub(first.realtime_ns).max(0) / 1_000_000_000;
        format!("+{seconds}s")
    };
    if typed.starts_with('+') {
        let candidate = |mark| CompletionCandidate::new(time(mark)).help(Some(printable(&mark.text).into()));
        return replayer.marks().iter().map(candidate).collect();
    }
    let mut texts: Vec<CompletionCandidate> = Vec::new();
    for mark in replayer.marks() {
        // A text is offered if it is the time of this mark, and no other one that is offered already.
        let is_text = cli::time_range::RecordingTime::is_mark(&mark.text) && printable(&mark.text) == mark.text;
        if is_text && !texts.iter().any(|known| known.get_value() == mark.text.as_str()) {
            texts.push(CompletionCandidate::new(&mark.text).help(Some(time(mark).into())));
        }
    }
    texts
}
