//! The layers of docs/ARCHITECTURE.md, held by a test: imports point down, outside crates stay in their layer, the pure layers
//! read no clock and no file, `unsafe` stands in two modules, every file has a header and stays readable.
//!
//! The source is searched as text, without comments and unit tests. Module privacy and the lints of Cargo.toml hold the rest.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer with the layers that it may name; `*` is every layer.
const LAYERS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("ids", &["units"]),
    ("sample", &["ids", "units"]),
    // Siblings: a recording is also read on a machine whose kernel is another.
    ("kernel", &["sample", "ids", "units"]),
    ("recording", &["sample", "ids", "units"]),
    ("interval", &["sample", "ids", "units"]),
    ("baseline", &["interval", "sample", "ids", "units"]),
    ("findings", &["baseline", "interval", "sample", "ids", "units"]),
    ("figures", &["findings", "baseline", "interval", "sample", "ids", "units"]),
    ("state", &["figures", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("view", &["state", "figures", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("report", &["state", "figures", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("cli", &["state", "figures", "findings", "units"]),
    ("app", &["*"]),
    ("main", &["app"]),
    ("lib", &[]),
];

/// Each dependency with the layers that may name it; `*` is every layer.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("procfs", &["kernel"]),
    ("aya", &["kernel"]),
    ("cpp_demangle", &["kernel"]),
    ("framehop", &["kernel"]),
    ("object", &["kernel"]),
    ("rustc_demangle", &["kernel"]),
    ("netlink_packet_core", &["kernel"]),
    ("netlink_packet_sock_diag", &["kernel"]),
    ("linux_raw_sys", &["kernel", "app"]),
    // Files, locks and signals.
    ("nix", &["kernel", "recording", "app"]),
    ("libc", &["kernel", "recording", "baseline", "app"]),
    ("crc32c", &["recording"]),
    // In report: the messages of OpenTelemetry.
    ("prost", &["recording", "report"]),
    // In kernel: the eBPF programs.
    ("zstd", &["kernel", "recording", "app"]),
    ("ratatui", &["view", "app"]),
    ("unicode_segmentation", &["view", "report"]),
    ("unicode_width", &["units", "view", "report"]),
    ("crossterm", &["app"]),
    ("tokio", &["app"]),
    ("tui_input", &["state", "view", "app"]),
    ("nucleo_matcher", &["state", "view"]),
    ("maud", &["report"]),
    ("tar", &["app"]),
    ("tempfile", &["recording", "app"]),
    ("clap", &["cli", "app"]),
    ("strsim", &["units"]),
    ("shlex", &["findings", "view"]),
    ("clap_complete", &["cli", "app"]),
    ("clap_mangen", &["cli", "app"]),
    ("jiff", &["units", "findings", "state", "view", "report", "app"]),
    ("etcetera", &["baseline", "app"]),
    ("toml", &["baseline", "app"]),
    // The state files of container runtimes.
    // in app: the messages of tools for agents
    ("serde_json", &["kernel", "figures", "report", "baseline", "app"]),
    ("rmcp", &["app"]),
    ("csv", &["report"]),
    ("regex_lite", &["report"]),
    ("libm", &["state", "view", "report"]),
    ("parquet", &["report"]),
    ("prometheus_client", &["report"]),
    ("opentelemetry_proto", &["report"]),
    ("percent_encoding", &["app"]),
    ("hyper", &["app"]),
    ("hyper_util", &["app"]),
    ("http_body_util", &["app"]),
    ("tokio_rustls", &["app"]),
    ("base64", &["app"]),
    ("subtle", &["app"]),
    ("bcrypt", &["app"]),
    ("serde_norway", &["app"]),
    ("thiserror", &["kernel", "recording", "baseline"]),
    ("serde", &["*"]),
    ("rustc_hash", &["*"]),
];

/// The files of `view` that may name ratatui's buffer, text or frame: everything else draws through a `Pane`, which takes sanitized
/// text only.
const DRAWS: &[&str] = &[
    "view.rs",
    "view/pane.rs",
    "view/safe_line.rs",
    "view/columns.rs",
    "view/theme.rs",
    "view/widgets/",
    // These read a finished frame.
    "view/screen_text.rs",
    "view/svg.rs",
];

/// Layers that depend on their arguments alone, so that a recording gives what the live machine gave.
const PURE: &[&str] = &["units", "ids", "sample", "interval", "findings", "figures", "state", "view", "report"];

/// The clocks, the disk, the environment, threads and other processes.
const IMPURE: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "TimeZone::system",
    "File::open",
    "File::create",
    "std::{",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
];

/// Where `unsafe_code`, which Cargo.toml denies, is allowed: for the modules kernel::sys and app::sys.
const ALLOW_UNSAFE: &[&str] = &["app.rs", "kernel.rs"];

const MAX_LINES: usize = 400;

#[test]
fn imports_point_down() {
    let mut wrong = Vec::new();
    for file in sources() {
        let Some((_, below)) = LAYERS.iter().find(|(layer, _)| *layer == file.layer) else {
            wrong.push(format!("{}: layer `{}` is not in LAYERS", file.name, file.layer));
            continue;
        };
        for path in file.code.split("crate::").skip(1) {
            let target = path.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap();
            let is_layer = LAYERS.iter().any(|(layer, _)| *layer == target);
            if is_layer && target != file.layer && !below.contains(&"*") && !below.contains(&target) {
                wrong.push(format!("{}: `{}` must not name `{target}`", file.name, file.layer));
            }
        }
        for group in ["crate::{", "super::super::super"].into_iter().filter(|group| file.code.contains(group)) {
            wrong.push(format!("{}: `{group}` hides what is named; write one path an import", file.name));
        }
    }
    assert!(wrong.is_empty(), "imports point down (docs/ARCHITECTURE.md):\n{}", wrong.join("\n"));
}

#[test]
fn dependencies_stay_in_their_layer() {
    let sources = sources();
    let mut wrong = Vec::new();
    for name in dependencies() {
        let Some((_, layers)) = DEPENDENCIES.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("Cargo.toml: `{name}` is not in DEPENDENCIES"));
            continue;
        };
        let users: Vec<&Source> = sources.iter().filter(|file| file.names_crate(&name)).collect();
        if users.is_empty() {
            wrong.push(format!("Cargo.toml: nothing uses `{name}`"));
        }
        for file in users.into_iter().filter(|file| !layers.contains(&"*") && !layers.contains(&file.layer.as_str())) {
            wrong.push(format!("{}: `{name}` belongs to {layers:?}, not to `{}`", file.name, file.layer));
        }
    }
    assert!(wrong.is_empty(), "outside crates stay in their layer:\n{}", wrong.join("\n"));
}

#[test]
fn screens_draw_through_a_pane() {
    let draws = |name: &str| DRAWS.iter().any(|file| name == *file || file.ends_with('/') && name.starts_with(file));
    let ratatui = ["ratatui::buffer", "ratatui::text", "ratatui::widgets", "ratatui::Frame", "ratatui::prelude"];
    let mut wrong = Vec::new();
    for file in sources().into_iter().filter(|file| file.layer == "view" && !draws(&file.name)) {
        let found = ratatui.iter().filter(|path| file.code.contains(**path));
        wrong.extend(found.map(|path| format!("{}: `{path}`", file.name)));
    }
    assert!(wrong.is_empty(), "text from outside reaches the screen through a pane:\n{}", wrong.join("\n"));
}

#[test]
fn pure_layers_read_no_clock_and_no_file() {
    let mut wrong = Vec::new();
    for file in sources().into_iter().filter(|file| PURE.contains(&file.layer.as_str())) {
        let found = IMPURE.iter().filter(|path| file.code.contains(**path));
        wrong.extend(found.map(|path| format!("{}: `{path}`", file.name)));
    }
    assert!(wrong.is_empty(), "what a pure layer needs is passed in:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_stands_in_two_modules() {
    let sources = sources();
    let users: Vec<&str> =
        sources.iter().filter(|file| file.code.contains("(unsafe_code,")).map(|file| file.name.as_str()).collect();
    assert_eq!(users, ALLOW_UNSAFE);
}

#[test]
fn every_file_has_a_header_and_stays_readable() {
    let mut wrong = Vec::new();
    for path in rust_files(&top()) {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if !text.starts_with("//! ") || lines > MAX_LINES {
            wrong.push(format!("{}: needs a `//!` header, and at most {MAX_LINES} lines (has {lines})", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// So that all suites try the program that `STALLTOP_BIN` names.
#[test]
fn tests_start_the_program_of_one_function() {
    let tests = top().with_file_name("tests");
    let mut users = rust_files(&tests);
    // Not in one piece: this file is searched too.
    users.retain(|path| fs::read_to_string(path).unwrap().contains(&["CARGO_BIN", "_EXE"].concat()));
    assert_eq!(users, [tests.join("support/program.rs")], "use support/program.rs instead");
}

/// One file of the library or the binary.
struct Source {
    /// Path below src/
    name: String,
    layer: String,
    /// Without comments, and without the unit tests at its end
    code: String,
}

impl Source {
    /// Whether a path begins with this crate.
    fn names_crate(&self, name: &str) -> bool {
        let goes_on = |before: &str| before.ends_with(|letter: char| letter.is_alphanumeric() || "_:.".contains(letter));
        let mut paths = self.code.match_indices(name).filter(|(at, _)| self.code[at + name.len()..].starts_with("::"));
        paths.any(|(at, _)| !goes_on(&self.code[..at])) || self.code.contains(&format!("use {name};"))
    }
}

fn sources() -> Vec<Source> {
    let is_test = |path: &PathBuf| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let mut list = Vec::new();
    for path in rust_files(&top()).into_iter().filter(|path| !is_test(&path.strip_prefix(top()).unwrap().to_owned())) {
        let name = path.strip_prefix(top()).unwrap().to_string_lossy().into_owned();
        let layer = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code = code.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
        list.push(Source { name, layer, code });
    }
    assert!(list.len() > 10, "no source found below {}", top().display());
    list
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            list.push(path);
        }
    }
    list.sort();
    list
}

/// The names under which the code sees the dependencies of Cargo.toml, on any target.
fn dependencies() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let targets = manifest["target"].as_table().unwrap().values().filter_map(toml::Value::as_table);
    let tables = std::iter::once(&manifest).chain(targets).filter_map(|table| table.get("dependencies")?.as_table());
    tables.flat_map(|table| table.keys()).map(|name| name.replace('-', "_")).collect()
}
