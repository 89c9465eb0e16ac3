//! The layers hold: imports point down, outside crates keep to their layer, the pure layers read no clock and no file, every
//! file has a header and at most 500 lines. docs/ARCHITECTURE.md has the picture.
//!
//! It reads the source as text and imports nothing from the library.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

/// Each layer with the layers that it may name; `*` is every layer.
const LAYERS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("ids", &["units"]),
    ("sample", &["ids", "units"]),
    // Siblings that do not know each other: a recording can be read on a machine whose kernel cannot.
    ("kernel", &["sample", "ids", "units"]),
    ("recording", &["sample", "ids", "units"]),
    ("interval", &["sample", "ids", "units"]),
    ("baseline", &["interval", "sample", "ids", "units"]),
    ("findings", &["baseline", "interval", "sample", "ids", "units"]),
    ("state", &["findings", "baseline", "interval", "sample", "ids", "units"]),
    ("view", &["state", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("report", &["state", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("cli", &["state", "findings", "units"]),
    ("app", &["*"]),
    ("main", &["app", "cli"]),
    ("lib", &[]),
];

/// Each outside crate with the layers in which its name may appear; `*` is every layer.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("procfs", &["kernel"]),
    ("aya", &["kernel"]),
    ("netlink_packet_core", &["kernel"]),
    ("netlink_packet_route", &["kernel"]),
    ("netlink_packet_sock_diag", &["kernel"]),
    // Files, locks and signals have no other way in.
    ("nix", &["kernel", "recording", "app"]),
    ("libc", &["kernel", "recording", "baseline", "app"]),
    ("crc32c", &["recording"]),
    ("prost", &["recording"]),
    ("zstd", &["recording"]),
    ("ratatui", &["view", "app"]),
    ("unicode_segmentation", &["view", "report"]),
    ("unicode_width", &["view", "report"]),
    ("crossterm", &["app"]),
    ("tokio", &["app"]),
    ("tui_input", &["state", "view", "app"]),
    ("nucleo_matcher", &["state", "view"]),
    ("maud", &["report"]),
    ("tempfile", &["recording", "app"]),
    ("clap", &["cli"]),
    ("strsim", &["cli"]),
    ("clap_complete", &["cli", "app"]),
    ("clap_mangen", &["cli", "app"]),
    ("jiff", &["cli", "findings", "state", "view", "report", "app"]),
    ("etcetera", &["baseline", "app"]),
    ("toml", &["baseline", "app"]),
    ("serde_json", &["report", "baseline"]),
    ("csv", &["report"]),
    ("regex_lite", &["report"]),
    ("libm", &["state", "view", "report"]),
    ("parquet", &["report"]),
    ("thiserror", &["kernel", "recording", "baseline"]),
    ("serde", &["*"]),
    ("rustc_hash", &["*"]),
];

/// Layers that depend on nothing but their arguments, so that a recording gives what live gave.
const PURE: &[&str] = &["units", "ids", "sample", "interval", "findings", "state", "view", "report"];

/// What a pure layer may not name: the clocks, the disk, the environment, other processes.
const IMPURE: &[&[&str]] = &[
    &["SystemTime", "now"],
    &["Instant", "now"],
    &["Timestamp", "now"],
    &["Zoned", "now"],
    &["TimeZone", "system"],
    &["std", "fs"],
    &["std", "env"],
    &["std", "process"],
    &["std", "thread"],
    &["File", "open"],
    &["File", "create"],
];

/// A file longer than this is two ideas.
const MOST_LINES: usize = 500;

#[test]
fn imports_point_down() {
    let mut wrong = Vec::new();
    for file in sources() {
        let Some((_, below)) = LAYERS.iter().find(|(layer, _)| *layer == file.layer) else {
            wrong.push(format!("{}: layer `{}` has no place in the picture: add it to LAYERS", file.name, file.layer));
            continue;
        };
        for target in file.layers_named() {
            if target != file.layer && !below.contains(&"*") && !below.contains(&target.as_str()) {
                wrong.push(format!("{}: `{}` must not know `{target}`", file.name, file.layer));
            }
        }
    }
    assert!(wrong.is_empty(), "imports point down (docs/ARCHITECTURE.md):\n{}", wrong.join("\n"));
}

#[test]
fn outside_crates_keep_to_their_layer() {
    let dependencies = dependencies();
    let mut wrong = Vec::new();
    let sources = sources();
    for name in &dependencies {
        if !sources.iter().any(|file| file.names_crate(name)) {
            wrong.push(format!("Cargo.toml: nothing uses `{name}`"));
        }
        if !OUTSIDE.iter().any(|(known, _)| known == name) {
            wrong.push(format!("Cargo.toml: `{name}` has no layer: add it to OUTSIDE"));
        }
    }
    for file in &sources {
        for (name, layers) in OUTSIDE {
            if file.names_crate(name) && !layers.contains(&"*") && !layers.contains(&file.layer.as_str()) {
                wrong.push(format!("{}: `{name}` belongs to {layers:?}, not to `{}`", file.name, file.layer));
            }
        }
    }
    assert!(wrong.is_empty(), "outside crates keep to their layer:\n{}", wrong.join("\n"));
}

#[test]
fn pure_layers_read_no_clock_and_no_file() {
    let mut wrong = Vec::new();
    for file in sources().into_iter().filter(|file| PURE.contains(&file.layer.as_str())) {
        for path in IMPURE {
            if file.names_path(path) {
                wrong.push(format!("{}: `{}` in the pure layer `{}`", file.name, path.join("::"), file.layer));
            }
        }
    }
    assert!(wrong.is_empty(), "what a pure layer needs is passed in:\n{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_and_stays_readable() {
    let mut wrong = Vec::new();
    for path in rust_files(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path()) {
        let text = fs::read_to_string(&path).expect("a source file");
        if !text.starts_with("//! ") {
            wrong.push(format!("{}: does not begin with a `//!` line", path.display()));
        }
        let lines = text.lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{}: {lines} lines, more than {MOST_LINES}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The checks above must be able to fail.
#[test]
fn the_checks_see_what_is_there() {
    let text = "//! crate::app in a comment\nuse std::{fs, io};\nuse crate::view::{self, theme};\nuse stalltop::state;\n\
                fn f() { tokio::spawn(x); std::time::Instant::now(); self.clap::y; }\n\
                #[cfg(test)]\nmod tests {\n    use crate::cli;\n    use tempfile::tempdir;\n}\nfn after() { crate::report::text(); }\n";
    let file = Source { name: "src/x.rs".into(), layer: "x".into(), text: without_comments_and_tests(text) };
    assert_eq!(file.layers_named().into_iter().collect::<Vec<_>>(), ["report", "state", "view"]);
    assert!(file.names_crate("tokio") && !file.names_crate("tempfile") && !file.names_crate("clap"));
    assert!(file.names_path(&["std", "fs"]) && file.names_path(&["Instant", "now"]) && !file.names_path(&["std", "env"]));
}

/// One source file, without its comments and test modules.
struct Source {
    name: String,
    /// The module of the crate's root in which it is
    layer: String,
    text: String,
}

impl Source {
    /// The layers that it names by a path from the crate's root. Privacy keeps `super` within a layer.
    fn layers_named(&self) -> BTreeSet<String> {
        assert!(!self.text.contains("use crate::{"), "{}: one `use` for each layer", self.name);
        let paths = regex(r"\b(?:crate|stalltop)::(\w+)");
        let named = paths.captures_iter(&self.text).map(|found| found[1].to_owned());
        // What is not a module is an item of lib.rs, or a macro.
        named.filter(|name| LAYERS.iter().any(|(layer, _)| layer == name)).collect()
    }

    /// Whether a path begins with this outside crate.
    fn names_crate(&self, name: &str) -> bool {
        regex(&format!(r"(^|[^:.\w]){name}::|\buse {name}\b")).is_match(&self.text)
    }

    /// Whether `first::second` is there, in a group too.
    fn names_path(&self, path: &[&str]) -> bool {
        let [first, second] = path else { return false };
        regex(&format!(r"\b{first}::({second}\b|\{{[^}}]*\b{second}\b)")).is_match(&self.text)
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(&format!("(?m){pattern}")).expect("a regular expression")
}

/// Every file of the library and the binary that is not a test.
fn sources() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut list = Vec::new();
    for path in rust_files(&top) {
        let within = path.strip_prefix(&top).expect("a path below src");
        if within.iter().any(|part| part == "tests" || part == "tests.rs") {
            continue;
        }
        let layer = within.iter().next().expect("a file name").to_string_lossy().trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&path).expect("a source file");
        let name = format!("src/{}", within.display());
        list.push(Source { name, layer, text: without_comments_and_tests(&text) });
    }
    assert!(list.len() > 10, "no source found below {}", top.display());
    list
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            list.push(path);
        }
    }
    list.sort();
    list
}

/// The names under which the code sees what Cargo.toml depends on, on whatever machine.
fn dependencies() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("Cargo.toml");
    let table: toml::Table = text.parse().expect("Cargo.toml is TOML");
    let of = |table: &toml::Table| -> Vec<String> {
        let named = table.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(|listed| listed.keys());
        named.map(|name| name.replace('-', "_")).collect()
    };
    let targets = table["target"].as_table().expect("[target]").values().filter_map(toml::Value::as_table);
    std::iter::once(&table).chain(targets).flat_map(of).collect()
}

/// The lines without comments and without the items under `#[cfg(test)]`, as rustfmt lays them out.
fn without_comments_and_tests(text: &str) -> String {
    let (mut kept, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line.split("//").next().unwrap_or_default());
            kept.push('\n');
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let mut item = lines.next().unwrap_or_default();
        while item.trim_start().starts_with("#[") {
            item = lines.next().unwrap_or_default();
        }
        if !item.trim_end().ends_with([';', '}']) {
            let _ = lines.by_ref().find(|line| line.trim_end() == format!("{}}}", " ".repeat(indent)));
        }
    }
    kept
}
