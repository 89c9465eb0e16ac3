//! Files that the program generates and the repository contains are up to date: pages of docs, the configuration file of the
//! packages, completions, manual pages. `STALLTOP_BLESS=1 cargo test --test generated_files` writes them again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "support/program.rs"]
mod program;

use program::program;

/// What the program prints.
fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares, or writes where that is asked for.
fn same(what: &[(PathBuf, String)]) {
    let bless = std::env::var_os("STALLTOP_BLESS").is_some();
    let mut stale = Vec::new();
    for (path, text) in what {
        if bless {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        if fs::read_to_string(path).unwrap_or_default() != *text {
            stale.push(path.display().to_string());
        }
    }
    assert!(
        stale.is_empty(),
        "stale: {}\nSTALLTOP_BLESS=1 cargo test --test generated_files writes them anew",
        stale.join(", ")
    );
}

#[test]
fn the_configuration_page_is_up_to_date() {
    use stalltop::app::config::docs;
    same(&[(place("docs/configuration.md"), docs::render()), (place("assets/package/config.toml"), docs::packaged())]);
}

#[test]
fn the_pages_of_keys_and_commands_are_up_to_date() {
    same(&[
        (place("docs/keys.md"), stalltop::state::key_docs::render()),
        (place("docs/commands.md"), stalltop::app::command::command_docs::render()),
    ]);
}

#[test]
fn the_page_of_json_is_that_of_the_schema() {
    let schema = fs::read_to_string(place("assets/schema/check.json")).unwrap();
    let page = stalltop::app::command::json_docs::render(&serde_json::from_str(&schema).unwrap());
    assert!(!page.contains("|  |"), "each key has a type and a meaning:\n{page}");
    same(&[(place("docs/json.md"), page)]);
}

/// All of it in effect at once is what there is by default, but for the devices.
#[test]
fn the_example_configuration_is_valid_and_has_the_defaults() {
    use stalltop::app::config::parse::ParsedConfig;
    use stalltop::findings::THRESHOLDS;
    let example = stalltop::app::config::docs::example();
    let commented = ParsedConfig::parse(&example).unwrap();
    assert_eq!(commented, ParsedConfig::default(), "the example as it stands sets nothing");
    let in_effect: String = example
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned() + "\n")
        .collect();
    let said = ParsedConfig::parse(&in_effect).unwrap_or_else(|wrong| panic!("{wrong:?} in\n{in_effect}"));
    let set: BTreeMap<String, f64> = said.thresholds.iter().map(|set| (set.threshold().name(), set.value())).collect();
    let all: BTreeMap<String, f64> = THRESHOLDS.iter().map(|limit| (limit.name(), limit.default)).collect();
    assert_eq!(set, all);
    assert_eq!((said.links.len(), said.baselines.len()), (1, 6));
    assert!(said.ignored_disks.is_some() && said.ignored_nics.is_some() && said.ignored_file_systems.is_some());
}

#[test]
fn completions_are_up_to_date() {
    let shells = [("bash", "stalltop.bash"), ("zsh", "_stalltop"), ("fish", "stalltop.fish")];
    let made = shells.map(|(shell, name)| (place("assets/completions").join(name), printed(&["completions", shell])));
    same(&made);
}

/// The words that lead to each command, and the name of its page.
fn pages() -> Vec<(Vec<String>, String)> {
    fn below(command: &clap::Command, words: &[String], pages: &mut Vec<(Vec<String>, String)>) {
        pages.push((words.to_vec(), [&["stalltop".to_owned()], words].concat().join("-") + ".1"));
        for next in command.get_subcommands().filter(|next| !next.is_hide_set()) {
            below(next, &[words, &[next.get_name().to_owned()]].concat(), pages);
        }
    }
    let mut pages = Vec::new();
    below(&stalltop::cli::clap_command(), &[], &mut pages);
    pages
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = place("assets/man");
    let mut made = Vec::new();
    for (words, name) in pages() {
        let arguments: Vec<&str> = std::iter::once("man").chain(words.iter().map(String::as_str)).collect();
        made.push((folder.join(name), printed(&arguments)));
    }
    same(&made);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if made.iter().any(|(known, _)| *known == path) {
            continue;
        }
        assert!(
            std::env::var_os("STALLTOP_BLESS").is_some(),
            "{} is of no command: STALLTOP_BLESS=1 cargo test --test generated_files",
            path.display()
        );
        fs::remove_file(path).unwrap();
    }
}

/// What a tool says of files of ours; `None` where it is not installed.
fn said(tool: &str, arguments: &[&str], files: &[PathBuf]) -> Option<String> {
    let output = Command::new(tool).args(arguments).args(files).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Some(if output.status.success() { text } else { format!("{}: {text}", output.status) })
}

#[test]
fn shells_and_groff_accept_the_generated_files() {
    // Not those in assets: another test may be writing them.
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let page =
        |words: Vec<String>| printed(&[&["man"], words.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat());
    let pages: Vec<PathBuf> = pages().into_iter().map(|(words, name)| file(&name, page(words))).collect();
    let completion = |shell: &str| vec![file(shell, printed(&["completions", shell]))];
    let all: [(&str, &[&str], Vec<PathBuf>); 4] = [
        ("bash", &["-n"], completion("bash")),
        ("zsh", &["-n"], completion("zsh")),
        ("fish", &["-n"], completion("fish")),
        ("groff", &["-man", "-ww", "-z", "-k"], pages),
    ];
    for (tool, arguments, files) in all {
        match said(tool, arguments, &files) {
            None => println!("skipped: {tool} is not installed"),
            Some(said) => assert_eq!(said, "", "{tool}"),
        }
    }
}
