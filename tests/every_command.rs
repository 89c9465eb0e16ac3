//! What holds for every command: a reader that went away ends it quietly, a full disk behind standard output is one line, and
//! so are words that it does not know. A command without a row here fails the test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a command does with standard output.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Prints {
    /// Something, at once
    Text,
    /// Nothing without a terminal, or nothing at all: its words go elsewhere
    Nothing,
}
use Prints::{Nothing, Text};

/// Each command with words that have it print; FILE is a recording, NEW the name of a new file.
const COMMANDS: &[(&str, Prints)] = &[
    ("", Text),
    ("record NEW --for 300ms -i 100ms", Nothing),
    ("record - --for 300ms -i 100ms", Text),
    ("record NEW --for 300ms -i 100ms --ops nproc", Nothing),
    ("replay FILE", Nothing),
    ("check FILE", Text),
    ("check FILE --json", Text),
    ("check FILE --format nagios", Text),
    ("check FILE --watch --threshold limit-seconds=0,box-idle-below-ratio=1,thread-busy-ratio=0.01", Text),
    ("check --for 300ms", Text),
    ("info FILE", Text),
    ("info --verify FILE", Text),
    ("doctor", Text),
    ("nicstat", Text),
    ("nicstat -l", Text),
    ("nicstat -p 0.1", Text),
    ("nicstat -v", Text),
    ("baseline show", Text),
    // With --json nothing is printed where nothing is known.
    ("baseline show --json", Nothing),
    ("baseline set none read 1ms", Nothing),
    ("baseline learn /dev/null", Nothing),
    ("baseline forget --all", Text),
    ("report FILE -o -", Text),
    ("cut FILE --from +1s -o NEW", Nothing),
    ("cat FILE -o NEW", Nothing),
    ("export FILE -o - --format csv", Text),
    ("mark deploy", Nothing),
    ("compare FILE FILE", Text),
    ("compare FILE FILE --json", Text),
    ("table cpu --from FILE", Text),
    ("table disk --from FILE --format csv", Text),
    ("completions bash", Text),
    ("man", Text),
    ("man check", Text),
    ("--help", Text),
    ("--version", Text),
];

/// Runs it with something of ours for standard output.
fn run(words: &str, stdout: Stdio) -> Output {
    run_in("C.UTF-8", words, stdout)
}

/// The same in another locale.
fn run_in(locale: &str, words: &str, stdout: Stdio) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new.stalltop");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab/01-commit-serialised-db.stalltop");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stalltop"));
    for word in words.split_whitespace() {
        match word {
            "FILE" => command.arg(&file),
            "NEW" => command.arg(&new),
            word => command.arg(word),
        };
    }
    for home in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
        command.env(home, folder.path());
    }
    command.env("LC_ALL", locale);
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
}

/// Whether it had nothing to print: a network namespace may have no interface that is up.
fn lacks_interface(text: &str) -> bool {
    text == "stalltop: no matching interface\n"
}

/// At most a line of ours; never a panic, never a death by a signal.
fn said(words: &str, output: &Output) -> (i32, String) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let code = output.status.code().unwrap_or_else(|| panic!("stalltop {words}: {}: {text}", output.status));
    assert!(code <= 7 && !text.contains("panicked"), "stalltop {words}: {code}: {text}");
    assert!(text.lines().count() <= 1 && (text.is_empty() || text.starts_with("stalltop: ")), "stalltop {words}: {text}");
    (code, text)
}

#[test]
fn a_reader_that_went_away_ends_it_quietly() {
    for &(words, prints) in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, text) = said(words, &run(words, writer.into()));
        // What `check` found it has found, whoever reads it.
        if prints == Text && !words.starts_with("check") && !lacks_interface(&text) {
            assert_eq!((code, text.as_str()), (0, ""), "stalltop {words}");
        }
        assert!(!text.contains("Broken pipe"), "stalltop {words}: {text}");
    }
}

/// Lines for people have no other characters than their locale. What programs read has all of them.
#[test]
fn what_is_said_in_a_locale_of_ascii_is_ascii() {
    let mut changed = 0;
    // Some go on until nobody reads any more; a recording is no text.
    let speaks = |words: &&str| !words.is_empty() && !words.starts_with("record") && *words != "nicstat -p 0.1";
    for words in COMMANDS.iter().map(|(words, _)| *words).filter(speaks) {
        let (rich, plain) = (run(words, Stdio::piped()), run_in("C", words, Stdio::piped()));
        said(words, &plain);
        if ["json", "csv", "report", "export"].iter().any(|form| words.contains(form)) {
            assert_eq!(rich.stdout.is_ascii(), plain.stdout.is_ascii(), "stalltop {words}");
        } else {
            assert!(plain.stdout.is_ascii(), "stalltop {words}: {}", String::from_utf8_lossy(&plain.stdout));
            changed += usize::from(!rich.stdout.is_ascii());
        }
    }
    assert!(changed > 0, "nothing was said that is not ASCII");
}

#[test]
fn a_full_disk_behind_standard_output_is_one_line() {
    for &(words, prints) in COMMANDS {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, text) = said(words, &run(words, full.into()));
        if prints == Text && !lacks_interface(&text) {
            // A monitoring system takes any other code of `check` for a verdict; a recording has one of its own.
            let expected = match words.split(' ').next() {
                Some("check") => 3,
                Some("record") => 5,
                _ => 1,
            };
            assert_eq!(code, expected, "stalltop {words}: {text}");
            assert!(text.contains("No space left"), "stalltop {words}: {text}");
        }
    }
}

/// Not even a place to write to: std opens /dev/null in its stead, and nothing else may land in a file of ours.
#[test]
fn standard_output_that_is_closed_is_survived() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab/07-one-hot-thread-pinned.stalltop");
    for words in ["check", "info"] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_stalltop"), words]).arg(&file);
        said(words, &command.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap());
    }
    assert!(File::open(&file).unwrap().metadata().unwrap().len() > 1000);
}

/// The words of each command that can be run, from the definition.
fn commands() -> BTreeSet<String> {
    fn below(command: &clap::Command, words: &str, all: &mut BTreeSet<String>) {
        let next: Vec<&clap::Command> = command.get_subcommands().collect();
        if !command.is_subcommand_required_set() {
            all.insert(words.to_owned());
        }
        for next in next {
            below(next, format!("{words} {}", next.get_name()).trim(), all);
        }
    }
    let mut all = BTreeSet::new();
    below(&stalltop::cli::clap_command(), "", &mut all);
    all
}

#[test]
fn every_command_has_a_row() {
    for command in commands() {
        let row = |row: &str| row == command || row.starts_with(&format!("{command} "));
        assert!(COMMANDS.iter().any(|&(words, _)| row(words)), "'{command}' has no row in tests/every_command.rs");
    }
}

#[test]
fn a_word_that_no_command_knows_is_one_line() {
    for command in commands() {
        let words = format!("{command} --nonsense");
        let (code, text) = said(&words, &run(words.trim(), Stdio::null()));
        // nicstat ends as its original does.
        assert_eq!(code, if command == "nicstat" { 1 } else { 2 }, "{words}: {text}");
        assert!(text.contains("--nonsense") && text.contains("try '"), "{words}: {text}");
    }
    let (code, text) = said("chekc", &run("chekc", Stdio::null()));
    assert!(code == 2 && text.contains("check"), "{text}");
}
