//! `man`: manual pages, made from the definition of the command line.

use std::io::{self, IsTerminal};

use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::app::config::{CONFIG_VAR, SPEED_VAR, THRESHOLD_VAR};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::print;
use crate::cli;
use crate::units::similar::did_you_mean;

/// Exit codes and their meaning. Those of `check` and `table -- COMMAND` are below.
pub const EXIT_CODES: [(u8, &str); 8] = [
    (0, "success"),
    (1, "a failure at run time; with what was read or printed until then"),
    (2, "wrong usage: an unknown option, or a value that is not allowed"),
    (3, "the recording is damaged; all that is intact was used"),
    (4, "not a recording, a recording of a newer major version, or nothing in it is intact"),
    (5, "the recording cannot be written"),
    (6, "refused, for safety or for lack of permission: a file that exists, a symbolic link"),
    (7, "/proc is not mounted"),
];

/// Exit codes of single commands.
pub const OTHER_EXIT_CODES: [(&str, &str); 4] = [
    (
        "check",
        "0 nothing to warn of, 1 a warning, 2 a critical finding, 3 not known, whatever the reason: as plugins of Nagios and \
         Icinga exit; --watch of this machine that a signal ends: 0",
    ),
    ("fleet --once, fleet --json", "those of check, of the worst host; 3 also if a host is not known"),
    ("nicstat", "1 instead of 2 for an unknown option, as nicstat exits"),
    (
        "table -- COMMAND",
        "that of the command; 128 and the number of the signal that ended it; 126 or 127 if it could not be run",
    ),
];

/// Values of options and operands, and their forms.
pub const VALUES: [(&str, &str); 4] = [
    ("TIME, INTERVAL", "a duration: a number and ms, s, m, h or d, such as 500ms, 5s, 10m, 2h, 1d; a number alone is seconds"),
    (
        "TIME of --at, --from, --to",
        "a time in a recording: 12:03, 12:03:15, RFC 3339, -5m before its end, +90s after its start, or the text of a mark",
    ),
    ("SIZE", "a number and K, M, G or T, which are powers of 1024, such as 64M, 1G; a number alone is bytes"),
    ("VALUE of baseline set", "a latency: a number and us, ms or s, such as 200us, 0.5ms"),
];

/// Environment variables that are read.
pub const ENVIRONMENT: [(&str, &str); 14] = [
    (CONFIG_VAR, "the configuration file, instead of the user's and the system's"),
    (THRESHOLD_VAR, "thresholds, as those of check --threshold: KIND=VALUE,..."),
    (SPEED_VAR, "speeds of interfaces, as those of --nic-speed: INT=MBPS[fd|hd],..."),
    (super::completions::SHELL_VARIABLE, "set by the completions of a shell to the name of that shell"),
    ("XDG_CONFIG_HOME", "the directory of stalltop/config.toml [default: ~/.config]"),
    (
        "XDG_STATE_HOME",
        "the directory of learned latencies and of what was chosen on the screens [default: ~/.local/state; root: /var/lib]",
    ),
    ("XDG_RUNTIME_DIR, RUNTIME_DIRECTORY", "the directory of the socket that stalltop mark writes to"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "headers of serve --otlp, such as passwords: NAME=VALUE,..."),
    ("HOME", "what ~ stands for; where a recording is saved if the current directory cannot be written to, before /var/tmp"),
    ("TMPDIR", "the directory of temporary files"),
    ("LC_ALL, LC_CTYPE, LANG", "the character set: ASCII only for C, POSIX, and other encodings than UTF-8"),
    (
        "TERM, COLORTERM, NO_COLOR",
        "the colors of the terminal; ASCII only for TERM linux and dumb, and for vt* unless the locale names UTF-8",
    ),
    ("TMUX, STY", "how text is copied to the clipboard inside tmux or screen"),
    ("TZ", "the time zone in which times are displayed and entered"),
];

/// Environment variables of the command of `--on-finding` (docs/armed.md).
pub const ON_FINDING_ENVIRONMENT: [(&str, &str); 8] = [
    ("STALLTOP_HOST", "of --on-finding: the name of the host"),
    ("STALLTOP_KIND", "the kind of the finding"),
    ("STALLTOP_SEVERITY", "critical, warning or note"),
    ("STALLTOP_SEVERITY_ID", "2, 1 or 0"),
    ("STALLTOP_SENTENCE", "the finding as a sentence"),
    ("STALLTOP_SUBJECT", "what it is about, such as a disk or a process; empty for the host"),
    ("STALLTOP_TIME", "when it was seen, in seconds since 1970"),
    ("STALLTOP_FILE", "the recording that shows it; empty without one"),
];

/// Files that are read or written without being named on the command line.
pub const FILES: [(&str, &str); 9] = [
    ("/etc/stalltop/config.toml, ~/.config/stalltop/config.toml", "configuration; the user's has precedence"),
    ("~/.config/stalltop/themes/*.toml", "themes of the user"),
    (
        "/var/lib/stalltop/baselines.toml, ~/.local/state/stalltop/baselines.toml",
        "learned latencies of disks: root's, a user's",
    ),
    (
        "/var/lib/stalltop/lists.toml, ~/.local/state/stalltop/lists.toml",
        "columns, panes, rows and theme that were chosen on the screens: root's, a user's",
    ),
    ("$XDG_RUNTIME_DIR/stalltop, /tmp/stalltop-UID", "sockets of recorders and live screens, to which stalltop mark writes"),
    ("/var/lib/stalltop-record", "recordings and learned latencies of disks of the service stalltop-record"),
    ("/var/lib/stalltop-armed", "captures and learned latencies of disks of the service stalltop-armed"),
    ("/var/lib/stalltop-serve", "learned latencies of disks of the service stalltop-serve"),
    (
        "HOST-YYYYMMDDTHHMMSS.stalltop",
        "recordings, in the current directory; if that cannot be written to, in the home directory or /var/tmp",
    ),
];

/// Prints the manual page of the program, or of the command that `path` names.
pub fn man_page(path: &[String]) -> Result<Exit, Failure> {
    let mut command = cli::clap_command();
    // Gives each command its full name.
    command.build();
    for word in path {
        let Some(next) = command.get_subcommands().find(|next| next.get_name() == word).cloned() else {
            let suggestion = did_you_mean(word, command.get_subcommands().map(|next| next.get_name()));
            let why = format!("there is no such command{suggestion}");
            return Err(Failure::new(Exit::Usage, format!("no manual page for '{word}'"), why, "try 'stalltop --help'"));
        };
        command = next;
    }
    if io::stdout().is_terminal() {
        let words = ["stalltop man"].into_iter().chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        let remedy = format!("try '{words} | man -l -'");
        return Err(Failure::new(Exit::Usage, "no manual page on a terminal", "it is the source of one, for man", remedy));
    }
    let mut text = Vec::new();
    render(command, path.is_empty(), &mut text)
        .map_err(|error| Failure::new(Exit::Failed, "cannot write the manual page", error, ""))?;
    print(&with_one_preamble(&String::from_utf8_lossy(&text))).map(|_| Exit::Success)
}

/// Each section is written with the definition of the apostrophe before it: one is enough.
fn with_one_preamble(text: &str) -> String {
    const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";
    match text.strip_prefix(PREAMBLE) {
        Some(rest) => PREAMBLE.to_owned() + &rest.replace(PREAMBLE, ""),
        None => text.to_owned(),
    }
}

fn render(command: clap::Command, is_whole_program: bool, text: &mut Vec<u8>) -> io::Result<()> {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    let name = command.get_name().to_owned();
    let command_operand = command.get_positionals().find(|operand| operand.is_last_set()).map(value_name);
    let page = Man::new(command).source(concat!("stalltop ", env!("CARGO_PKG_VERSION")));
    page.render_title(text)?;
    page.render_name_section(text)?;
    page.render_synopsis_section(text)?;
    // clap_mangen prints an operand after `--` like any other.
    if let Some(name) = command_operand {
        let synopsis = String::from_utf8_lossy(text);
        *text = synopsis.replace(&format!("[\\fI{name}\\fR]"), &format!("[\\-\\- \\fI{name}\\fR...]")).into_bytes();
    }
    page.render_description_section(text)?;
    page.render_options_section(text)?;
    if has_subcommands {
        page.render_subcommands_section(text)?;
    }
    if !is_whole_program {
        command_sections(&name, text)?;
        return examples_section(&examples, text);
    }
    section("VALUES", VALUES.map(|(value, forms)| (value.to_owned(), forms)).into_iter(), text)?;
    let codes = EXIT_CODES.map(|(code, meaning)| (code.to_string(), meaning));
    let others = OTHER_EXIT_CODES.map(|(command, meaning)| (format!("stalltop {command}"), meaning));
    section("EXIT STATUS", codes.into_iter().chain(others), text)?;
    section("ENVIRONMENT", ENVIRONMENT.map(|(name, meaning)| (name.to_owned(), meaning)).into_iter(), text)?;
    section("FILES", FILES.map(|(name, meaning)| (name.to_owned(), meaning)).into_iter(), text)?;
    examples_section(&examples, text)?;
    page.render_version_section(text)
}

/// What of the sections of the program's page is different for a command.
fn command_sections(name: &str, text: &mut Vec<u8>) -> io::Result<()> {
    let is_of = |words: &str| words.split(", ").any(|words| words.split(' ').next() == Some(name));
    let codes: Vec<(String, &str)> = OTHER_EXIT_CODES
        .into_iter()
        .filter(|(words, _)| is_of(words))
        .map(|(words, meaning)| (format!("stalltop {words}"), meaning))
        .collect();
    if !codes.is_empty() {
        let others = ("all others".to_owned(), "see stalltop(1)");
        section("EXIT STATUS", codes.into_iter().chain((name != "check").then_some(others)), text)?;
    }
    let variables: &[(&str, &str)] = if ["check", "record"].contains(&name) { &ON_FINDING_ENVIRONMENT } else { &[] };
    if variables.is_empty() && !["fleet", "table", "nicstat"].contains(&name) {
        return Ok(());
    }
    let read = [("STALLTOP_CONFIG, STALLTOP_THRESHOLD, STALLTOP_SPEED, ...", "are read: see stalltop(1)")];
    section("ENVIRONMENT", read.iter().chain(variables).map(|&(name, meaning)| (name.to_owned(), meaning)), text)
}

/// The name of an operand in the synopsis.
fn value_name(operand: &clap::Arg) -> String {
    operand.get_value_names().and_then(|names| names.first()).map_or_else(|| operand.get_id().to_string(), ToString::to_string)
}

/// A paragraph a line.
fn examples_section(examples: &str, text: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    for (index, line) in examples.lines().enumerate() {
        roff.control(if index == 0 { "SH" } else { "PP" }, (index == 0).then_some("EXAMPLES"));
        roff.text([roman(line.strip_prefix("Example: ").unwrap_or(line))]);
    }
    roff.to_writer(text)
}

/// A section with a list of words and their meaning.
fn section(name: &str, list: impl Iterator<Item = (String, &'static str)>, text: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [name]);
    for (word, meaning) in list {
        let lines: [Vec<Inline>; 2] = [vec![bold(word)], vec![roman(meaning)]];
        roff.control("TP", []);
        lines.into_iter().for_each(|line| {
            roff.text(line);
        });
    }
    roff.to_writer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_paragraphs_and_an_operand_after_dashes_is_shown_so() {
        let mut command = cli::clap_command();
        command.build();
        let mut text = Vec::new();
        render(command.find_subcommand("table").unwrap().clone(), false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(".SH EXAMPLES\nstalltop table disk 1 10\n.PP\nOf a recording: "), "{text}");
        assert!(text.contains("[\\-\\- \\fICOMMAND\\fR...]") && !text.contains("EXTRA"), "{text}");
    }

    #[test]
    fn the_page_of_a_command_has_its_exit_codes_and_variables() {
        let page = |name: &str| {
            let mut command = cli::clap_command();
            command.build();
            let mut text = Vec::new();
            render(command.find_subcommand(name).unwrap().clone(), false, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        for name in ["check", "fleet", "table", "nicstat"] {
            let text = page(name);
            assert!(text.contains(".SH \"EXIT STATUS\"") && text.contains(".SH ENVIRONMENT"), "{name}: {text}");
        }
        let rows = include_str!("../../../docs/armed.md").lines().filter(|line| line.starts_with("| `STALLTOP_")).count();
        assert_eq!(rows, ON_FINDING_ENVIRONMENT.len());
        for (name, _) in ON_FINDING_ENVIRONMENT {
            assert!(page("check").contains(name) && page("record").contains(name), "{name}");
            assert!(include_str!("../../../docs/armed.md").contains(&format!("| `{name}` |")), "{name}");
        }
        assert!(!page("cut").contains("EXIT STATUS"));
    }

    #[test]
    fn every_exit_code_is_in_the_manual() {
        use Exit::{CannotWrite, Damaged, Failed, NoProc, NotRecording, Refused, Success, Usage};
        let codes = [Success, Failed, Usage, Damaged, NotRecording, CannotWrite, Refused, NoProc].map(Exit::code);
        assert_eq!(EXIT_CODES.map(|(code, _)| code), codes);
    }
}
