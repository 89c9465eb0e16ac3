//! What the pages say that a command prints: the block after `<!-- output of: COMMAND -->`.

use std::fs;
use std::process::{Command, Stdio};

use super::{name, pages_with_commands, root};
use crate::harness::program;

const BEGIN: &str = "<!-- output of: ";

/// What the program prints without a terminal. `| cat` is for readers, who have one.
fn printed(command: &str) -> String {
    let words = command.trim_end_matches("| cat").split_whitespace().skip(1);
    let mut run = Command::new(program());
    run.args(words).current_dir(root()).stdin(Stdio::null()).env("TZ", "UTC0").env("LC_ALL", "C.UTF-8");
    run.args(["--no-config"]).env_remove("STALLTOP_THRESHOLD");
    let output = run.output().unwrap();
    assert!(output.stderr.is_empty() && !output.stdout.is_empty(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The page with the outputs of the program, each line at most as long as a page is wide.
fn renewed(page: &str) -> String {
    let mut parts = page.split(BEGIN);
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (command, rest) = part.split_once(" -->\n```text\n").expect("a block of text after the comment");
        let (_, rest) = rest.split_once("```\n").expect("the end of the block");
        let lines: Vec<String> = printed(command).lines().flat_map(wrapped).collect();
        text += &format!("{BEGIN}{command} -->\n```text\n{}\n```\n{rest}", lines.join("\n"));
    }
    text
}

/// Keeps the indentation.
fn wrapped(line: &str) -> Vec<String> {
    const WIDTH: usize = 100;
    let indent = &line[..line.len() - line.trim_start().len()];
    match stalltop::view::text::wrap(line.trim_start(), WIDTH - indent.len(), usize::MAX) {
        lines if lines.is_empty() => vec![String::new()],
        lines => lines.into_iter().map(|line| format!("{indent}{}", line.trim_end())).collect(),
    }
}

#[test]
fn the_outputs_on_the_pages_are_those_of_the_program() {
    let (mut found, mut stale) = (0, Vec::new());
    for page in pages_with_commands() {
        let text = fs::read_to_string(&page).unwrap();
        found += text.matches(BEGIN).count();
        let renewed = renewed(&text);
        if std::env::var_os("STALLTOP_BLESS").is_some() {
            fs::write(&page, renewed).unwrap();
        } else if renewed != text {
            stale.push(name(&page));
        }
    }
    assert!(found >= 6, "{found} outputs");
    assert!(stale.is_empty(), "stale: {stale:?}: STALLTOP_BLESS=1 cargo test --test commands docs");
}

/// Each quotation in README.md is printed by the demo that is named after it.
#[test]
fn the_sentences_in_the_readme_are_those_of_the_demo() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut quoted = 0;
    for part in readme.split("\n\n> ").skip(1) {
        let (quotation, rest) = part.split_once("\n\n").unwrap();
        let (_, rest) = rest.split_once("\nstalltop demo ").expect("the command that shows it");
        let text = printed(&format!("stalltop demo {}", &rest[..1]));
        let quotation = quotation.replace("\n> ", " ");
        assert!(text.contains(&quotation), "{quotation}: {text}");
        quoted += 1;
    }
    assert_eq!(quoted, 3);
}
