//! The first screen of help, and the options of the live screen.

use clap::{Arg, ArgAction};

/// `stalltop --help`: all commands on a terminal of 80 columns and 24 rows, with the prompt below.
pub const FIRST_SCREEN: &str = "\
Says why a machine is slow although its CPUs are idle.

Usage: stalltop [OPTIONS]            the live screen (? shows the keys, q quits)
       stalltop COMMAND [OPTIONS]    --help of a command explains its options

  check       findings as sentences; exit code 0 none, 1 warning, 2 critical
  table       figures as lines, as of iostat -x, mpstat, pidstat, vmstat
  demo        seven recorded loads        nicstat     a replacement for nicstat
  record      record without a screen     replay      the screens of a recording
  report      a page for a ticket         compare     recordings: what got worse
  export      CSV, JSON lines, Parquet    info        what a recording contains
  cut, cat    copy a part, join parts     mark        a mark in all recordings
  serve       metrics for Prometheus      mcp         tools for agents
  fleet       many hosts over ssh         bug-report  an archive to send
  doctor      what cannot be read, why    baseline    learned disk latencies
  probe       files, CPU waits, queries   trace       which thread wakes which
  completions, man                        for packages

Options: -i TIME (between samples), --history TIME, --theme NAME, --ascii,
         --no-color, --slow, --version (stalltop help options: all of them)

Example: ssh db1 stalltop record - | stalltop replay -
Exit codes: 0 success, 1 failed, 2 usage; all: stalltop man | man -l -
";

/// `stalltop help options`: the options of the live screen, which are not those of a command.
pub fn all_options() -> String {
    options_of(super::clap_command())
}

/// The same for `clap_command()` of a certain width.
pub fn options_of(program: clap::Command) -> String {
    let template = "Usage: stalltop [OPTIONS]\n\n{options}{after-help}\n";
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Print the first screen of help");
    program.disable_help_flag(true).arg(help).help_template(template).render_help().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_options_says_what_help_prints() {
        let text = all_options();
        assert!(text.contains("Print the first screen of help") && !text.contains("see more with"), "{text}");
        assert!(text.contains("\n\nExample: ") && !text.contains("\n\n\n"), "{text}");
    }

    #[test]
    fn the_first_screen_fits_and_names_every_command() {
        assert!(FIRST_SCREEN.lines().count() <= 23, "{} lines", FIRST_SCREEN.lines().count());
        let widest = FIRST_SCREEN.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{widest:?} columns");
        let words: Vec<&str> = FIRST_SCREEN.split([' ', '\n', ',']).collect();
        for command in crate::cli::clap_command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(words.contains(&command.get_name()), "{} is missing", command.get_name());
        }
        for option in words.iter().filter_map(|word| word.strip_prefix("--")).filter(|&option| option != "help") {
            let known = all_options();
            assert!(known.contains(&format!("--{option}")), "--{option}: {known}");
        }
    }
}
