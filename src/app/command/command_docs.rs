//! docs/commands.md, generated from the definition of the command line.

use std::fmt::Write;

use super::manual::{ENVIRONMENT, EXIT_CODES, FILES, OTHER_EXIT_CODES, VALUES};
use crate::cli;

const HEADING: &str = "\
# Commands

<!-- Generated from src/cli and src/app/command/manual.rs: STALLTOP_BLESS=1 cargo test --test generated_files -->

What `-h` of each command prints; `--help` also explains the possible values. `stalltop man` is the same as manual pages.

";

/// The width of the help texts, columns.
const WIDTH: usize = 100;

/// The page.
pub fn render() -> String {
    let mut text = format!("{HEADING}## stalltop\n\n```text\n{}```\n", cli::help::FIRST_SCREEN);
    let mut program = cli::clap_command().term_width(WIDTH);
    // Gives each command its full name.
    program.build();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\nOptions of the live screen, which `stalltop help options` prints:\n\n```text\n{}\n```",
        without_trailing_blanks(&cli::help::options_of(cli::clap_command().term_width(WIDTH)))
    );
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_command(command, &mut text);
    }
    text.push_str("\n## Values\n\n| value | forms |\n| --- | --- |\n");
    for (value, forms) in VALUES {
        let _ = writeln!(text, "| `{value}` | {forms} |");
    }
    text.push_str("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    for (command, meaning) in OTHER_EXIT_CODES {
        let _ = writeln!(text, "| of `stalltop {command}` | {meaning} |");
    }
    for (heading, list) in [("Environment", ENVIRONMENT.as_slice()), ("Files", FILES.as_slice())] {
        let _ = writeln!(text, "\n## {heading}\n\n| name | meaning |\n| --- | --- |");
        for (name, meaning) in list {
            let _ = writeln!(text, "| `{}` | {} |", name.replace(", ", "`, `"), meaning.replace('|', "\\|"));
        }
    }
    text
}

/// A command, and those below it.
fn add_command(command: &clap::Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let help = command.clone().term_width(WIDTH).render_help().to_string();
    let _ = writeln!(text, "\n## {name}\n\n```text\n{}\n```", without_trailing_blanks(&help));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add_command(below, text);
    }
}

fn without_trailing_blanks(help: &str) -> String {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}
