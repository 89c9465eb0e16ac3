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

/// What the program prints.
fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stalltop"));
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
    let set: BTreeMap<String, f64> = said.thresholds.iter().map(|set| (set.limit().name(), set.value())).collect();
    let all: BTreeMap<String, f64> = THRESHOLDS.iter().map(|limit| (limit.name(), limit.default)).collect();
    assert_eq!(set, all);
    assert_eq!((said.links.len(), said.baselines.len()), (1, 6));
    assert!(said.ignored_disks.is_some() && said.ignored_nics.is_some());
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

/// The words that bash offers after these words, the last of which is being typed.
fn offered(folder: &Path, words: &[&str]) -> Option<Vec<String>> {
    let script = r#"
        source "$1"
        shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMPREPLY=()
        _clap_complete_stalltop stalltop "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let file = folder.join("stalltop.bash");
    fs::write(&file, printed(&["completions", "bash"])).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_stalltop"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"])
        .arg(&file)
        .arg("stalltop")
        .args(words)
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder);
    let output = bash.stdin(Stdio::null()).output().ok()?;
    assert!(!String::from_utf8_lossy(&output.stderr).contains("error"), "{words:?}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).lines().map(|word| word.trim().to_owned()).collect())
}

#[test]
fn bash_completes_findings_files_marks_devices_and_interfaces() {
    let folder = tempfile::tempdir().unwrap();
    let source = place("tests/recordings/v1.0-linux-6.18-1.stalltop");
    fs::copy(source, folder.path().join("night.stalltop")).unwrap();
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    if offered(folder.path(), &[""]).is_none() {
        return println!("skipped: bash is not installed");
    }
    let first = |directory: &str| {
        fs::read_dir(directory).into_iter().flatten().flatten().find_map(|entry| entry.file_name().into_string().ok())
    };
    let mut cases = vec![
        (vec!["che"], vec!["check".to_owned()], "--"),
        (vec!["check", "--only", "disk-"], vec!["disk-latency".to_owned(), "disk-drift".to_owned()], "oom-kill"),
        (vec!["check", "--only", "oom-kill,disk-s"], vec!["oom-kill,disk-stalled".to_owned()], "oom-kill"),
        (vec!["check", "--threshold", "hung-"], vec!["hung-task=".to_owned(), "hung-seconds=".to_owned()], "disk-latency="),
        (vec!["check", "--format", "na"], vec!["nagios".to_owned()], "json"),
        (vec!["replay", ""], vec!["night.stalltop".to_owned(), "-".to_owned()], "notes.txt"),
        (vec!["table", "disk", "--columns", "r_"], vec!["r_await".to_owned()], "w_await"),
        (vec!["man", "bas"], vec!["baseline".to_owned()], "check"),
    ];
    match first("/sys/block") {
        Some(disk) => cases.push((vec!["baseline", "show", ""], vec![disk], "night.stalltop")),
        None => println!("skipped: no block device"),
    }
    match first("/sys/class/net") {
        Some(nic) => cases.push((vec!["nicstat", "-i", ""], vec![nic], "night.stalltop")),
        None => println!("skipped: no network interface"),
    }
    for (typed, wanted, unwanted) in cases {
        let words = offered(folder.path(), &typed).unwrap();
        for wanted in wanted {
            assert!(words.contains(&wanted), "{typed:?}: {wanted} is not offered: {words:?}");
        }
        assert!(!words.iter().any(|word| word == unwanted), "{typed:?}: {unwanted} is offered: {words:?}");
    }
}

/// From the user's ssh: without patterns, and without names that are hashed.
#[test]
fn bash_completes_hosts() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".ssh")).unwrap();
    fs::write(folder.path().join(".ssh/config"), "Host db1 db2 *.example.org\n  User me\n").unwrap();
    fs::write(folder.path().join(".ssh/known_hosts"), "web1,192.0.2.1 ssh-ed25519 AAAA\n|1|hash|hash ssh-ed25519 AAAA\n")
        .unwrap();
    for typed in [["fleet", ""].as_slice(), &["mcp", "--host", ""]] {
        let Some(words) = offered(folder.path(), typed) else { return println!("skipped: bash is not installed") };
        let hosts: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
        assert_eq!(hosts, ["192.0.2.1", "db1", "db2", "web1"], "{typed:?}");
    }
}

/// Marks have times that --at takes, in the order of the recording.
#[test]
fn bash_completes_marks() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("marked.stalltop");
    marked_recording(&recording);
    let Some(words) = offered(folder.path(), &["replay", "marked.stalltop", "--at", ""]) else {
        return println!("skipped: bash is not installed");
    };
    assert_eq!(words.iter().filter(|word| word.starts_with('+')).count(), 1, "{words:?}");
    // The directory of a recording, too.
    let segments = folder.path().join("segments");
    fs::create_dir(&segments).unwrap();
    fs::copy(&recording, segments.join("marked.stalltop")).unwrap();
    assert_eq!(offered(folder.path(), &["replay", "segments", "--at", ""]).unwrap(), words);
    let at = words.iter().find(|word| word.starts_with('+')).unwrap();
    let from = ["table", "cpu", "--from", recording.to_str().unwrap(), "--at", at];
    assert!(printed(&from).contains("%usr"), "{at}");
}

/// Records this machine, with a mark.
fn marked_recording(path: &Path) {
    let runtime = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_stalltop");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("XDG_RUNTIME_DIR", runtime.path()).env("XDG_STATE_HOME", runtime.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut recorder = command(&["record", "-i", "100ms", "--for", "2s", path.to_str().unwrap()]).spawn().unwrap();
    // The recorder accepts marks from its first sample on.
    while !command(&["mark", "deploy 42"]).status().unwrap().success() {
        assert!(recorder.try_wait().unwrap().is_none(), "the recorder has ended without a mark");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(recorder.wait().unwrap().success());
}
