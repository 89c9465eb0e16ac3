//! Rules for every command: a closed pipe ends it without a message, a full disk and unknown arguments give an error of one
//! line. Each command needs a row in the table below.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::harness::program;

/// What a command writes to standard output.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Prints {
    /// Something, at once
    Text,
    /// Nothing without a terminal, or nothing at all: its words go elsewhere
    Nothing,
}
use Prints::{Nothing, Text};

/// Each command with arguments; FILE is a recording, NEW the name of a new file.
const COMMANDS: &[(&str, Prints)] = &[
    ("", Text),
    ("record NEW --for 300ms -i 100ms", Nothing),
    ("record - --for 300ms -i 100ms", Text),
    ("record NEW --for 300ms -i 100ms --ops nproc", Nothing),
    ("record NEW --for 300ms -i 100ms --on-finding nproc", Nothing),
    ("record --armed NEW --for 300ms -i 100ms --psi none", Nothing),
    ("replay FILE", Nothing),
    ("demo", Text),
    ("demo --list", Text),
    ("check FILE", Text),
    ("check FILE --json", Text),
    ("check FILE --format nagios", Text),
    ("check FILE --watch --threshold limit-seconds=0,host-busy-below-ratio=1,thread-busy-ratio=0.01", Text),
    ("check FILE --watch --on-finding nproc", Text),
    ("check --for 300ms", Text),
    // Standard input is empty.
    ("check -", Nothing),
    ("bug-report --yes --for 300ms -o NEW", Nothing),
    ("bug-report --yes --for 300ms -o -", Text),
    ("bug-report", Nothing),
    ("info FILE", Text),
    ("info --verify FILE", Text),
    ("doctor", Text),
    ("nicstat", Text),
    ("nicstat -l", Text),
    ("nicstat -p 0.1", Text),
    ("nicstat -v", Text),
    ("baseline show", Text),
    // --json prints nothing without baselines.
    ("baseline show --json", Nothing),
    ("baseline set none read 1ms", Nothing),
    ("baseline learn /dev/null", Nothing),
    ("baseline forget --all", Text),
    ("report FILE -o -", Text),
    ("cut FILE --from +1s -o NEW", Nothing),
    ("cat FILE -o NEW", Nothing),
    ("export FILE -o - --format csv", Text),
    // It has no stacks.
    ("export FILE --folded", Nothing),
    ("mark deploy", Nothing),
    // There is no such command to connect by.
    ("fleet web1 --ssh /nonexistent/command --once", Text),
    ("fleet web1 --ssh /nonexistent/command --json", Text),
    ("fleet", Nothing),
    ("fleet --replay FILE", Nothing),
    // It would run until it is stopped.
    ("serve --listen 0.0.0.0:9709", Nothing),
    // Without permission it prints nothing.
    ("probe fs 100ms 1", Nothing),
    ("probe runq 100ms 1", Nothing),
    // No database.
    ("probe query --pid 1 100ms 1", Nothing),
    // An address for documentation, which no machine has.
    ("serve --listen 192.0.2.1:9709 --allow-remote", Nothing),
    ("serve --listen 127.0.0.1:0 --otlp https://localhost:4318", Nothing),
    // Its input ends before the first message.
    ("mcp", Nothing),
    ("mcp --host -oProxyCommand=x", Nothing),
    ("compare FILE FILE", Text),
    ("compare FILE FILE --json", Text),
    // There is no such process.
    ("trace --for 100ms 4194305", Nothing),
    ("trace --for 100ms --json --probes off 1", Nothing),
    ("table cpu --from FILE", Text),
    ("table disk --from FILE --format csv", Text),
    ("completions bash", Text),
    ("man", Text),
    ("man check", Text),
    ("--help", Text),
    ("--version", Text),
];

/// Runs a command with this standard output.
fn run(words: &str, stdout: Stdio) -> Output {
    run_in("C.UTF-8", words, stdout)
}

/// The same in a locale.
fn run_in(locale: &str, words: &str, stdout: Stdio) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new.stalltop");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab/01-commit-serialised-db.stalltop");
    let mut command = Command::new(program());
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

/// Whether the network namespace has no interface that is up.
fn lacks_interface(text: &str) -> bool {
    text == "stalltop: no matching interface\n"
}

/// Exit code and standard error: at most one line, no panic, no signal.
fn said(words: &str, output: &Output) -> (i32, String) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let code = output.status.code().unwrap_or_else(|| panic!("stalltop {words}: {}: {text}", output.status));
    assert!(code <= 7 && !text.contains("panicked"), "stalltop {words}: {code}: {text}");
    assert!(text.lines().count() <= 1 && (text.is_empty() || text.starts_with("stalltop: ")), "stalltop {words}: {text}");
    (code, text)
}

/// Checks the commands, five at a time: most of them wait for samples, and other tests run beside them.
fn each_command(check: impl Fn(&str, Prints) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                while let Some(&(words, prints)) = COMMANDS.get(next.fetch_add(1, Relaxed)) {
                    check(words, prints);
                }
            });
        }
    });
}

#[test]
fn a_closed_pipe_ends_it_without_a_message() {
    each_command(|words, prints| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, text) = said(words, &run(words, writer.into()));
        // `check` and `fleet` keep their exit codes.
        if prints == Text && !words.starts_with("check") && !words.starts_with("fleet") && !lacks_interface(&text) {
            assert_eq!((code, text.as_str()), (0, ""), "stalltop {words}");
        }
        assert!(!text.contains("Broken pipe"), "stalltop {words}: {text}");
    });
}

/// Text for people is restricted to the locale; machine-readable output is not.
#[test]
fn text_in_an_ascii_locale_is_ascii() {
    let changed = AtomicUsize::new(0);
    // Some run until the pipe is closed; a recording is no text.
    each_command(|words, _| {
        if words.is_empty() || words.starts_with("record") || words == "nicstat -p 0.1" {
            return;
        }
        let (rich, plain) = (run(words, Stdio::piped()), run_in("C", words, Stdio::piped()));
        said(words, &plain);
        if ["json", "csv", "report", "export"].iter().any(|form| words.contains(form)) {
            assert_eq!(rich.stdout.is_ascii(), plain.stdout.is_ascii(), "stalltop {words}");
        } else {
            assert!(plain.stdout.is_ascii(), "stalltop {words}: {}", String::from_utf8_lossy(&plain.stdout));
            changed.fetch_add(usize::from(!rich.stdout.is_ascii()), Relaxed);
        }
    });
    assert!(changed.into_inner() > 0, "no command has non-ASCII output");
}

#[test]
fn a_full_disk_on_standard_output_is_one_line() {
    each_command(|words, prints| {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, text) = said(words, &run(words, full.into()));
        if prints == Text && !lacks_interface(&text) {
            // `check` and `fleet --once` use 3, since 1 and 2 are results; a recording has a code of its own.
            let expected = match words.split(' ').next() {
                Some("check") => 3,
                Some("fleet") if words.ends_with("--once") || words.ends_with("--json") => 3,
                Some("record") => 5,
                _ => 1,
            };
            assert_eq!(code, expected, "stalltop {words}: {text}");
            assert!(text.contains("No space left"), "stalltop {words}: {text}");
        }
    });
}

/// std opens /dev/null instead; output must not go to a file that the program opens.
#[test]
fn standard_output_may_be_closed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab/07-one-hot-thread-pinned.stalltop");
    for words in ["check", "info"] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" >&-", "sh", program(), words]).arg(&file);
        said(words, &command.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap());
    }
    assert!(File::open(&file).unwrap().metadata().unwrap().len() > 1000);
}

/// The arguments of each command, from the definition of the command line.
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
        assert!(COMMANDS.iter().any(|&(words, _)| row(words)), "'{command}' has no row in tests/commands/every_command.rs");
    }
}

#[test]
fn an_unknown_option_is_one_line() {
    for command in commands() {
        let words = format!("{command} --nonsense");
        let (code, text) = said(&words, &run(words.trim(), Stdio::null()));
        let expected = match command.as_str() {
            // Exits like the original.
            "nicstat" => 1,
            // A plugin's 2 is a critical finding.
            "check" => 3,
            _ => 2,
        };
        assert_eq!(code, expected, "{words}: {text}");
        assert!(text.contains("--nonsense") && text.contains("try '"), "{words}: {text}");
    }
    let (code, text) = said("chekc", &run("chekc", Stdio::null()));
    assert!(code == 2 && text.contains("check"), "{text}");
}
