//! The house keeps its shape: imports point down, outside crates keep to their layer, the pure layers read no clock and
//! no file, every file says what it is and stays readable. The picture is in docs/ARCHITECTURE.md.
//!
//! It reads the source as text (comments, strings and test modules left out). It must not need anything from the library.

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
    ("figures", &["findings", "baseline", "interval", "sample", "ids", "units"]),
    ("state", &["figures", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("view", &["state", "figures", "findings", "baseline", "interval", "sample", "ids", "units"]),
    ("report", &["state", "figures", "findings", "baseline", "interval", "sample", "ids", "units"]),
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
const PURE: &[&str] = &["units", "ids", "sample", "interval", "findings", "figures", "state", "view", "report"];

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

/// The checks above must be able to fail: what the reading finds in a text that breaks every rule.
#[test]
fn the_reading_sees_what_is_there() {
    let text = r##"
        //! crate::app in a comment
        use std::{fs, io};
        use crate::{app::run, view::{self, theme}};
        fn f() { let s = "crate::kernel::x"; let c = '"'; let r = r#"crate::recording"#; std::time::Instant::now(); }
        fn g<'a>(x: &'a str) { super::state::update(); tokio::spawn(x); crate::units::Counter(1); }
        #[cfg(test)]
        mod tests { use crate::cli; use tempfile::tempdir; }
        fn after() { crate::report::text(); }
    "##;
    let file = Source { name: "src/x.rs".into(), layer: "x".into(), depth: 0, tokens: tokens(text) };
    let named: Vec<String> = file.layers_named().into_iter().collect();
    assert_eq!(named, ["app", "report", "state", "units", "view"]);
    assert!(file.names_crate("tokio") && !file.names_crate("tempfile"));
    assert!(file.names_path(&["std", "fs"]) && file.names_path(&["Instant", "now"]) && !file.names_path(&["std", "env"]));
}

/// One source file, without its comments, strings and tests.
struct Source {
    name: String,
    /// The name after `crate::` under which it lies
    layer: String,
    /// Folders between src/ and the file: how many `super` lead to the crate's root, less one
    depth: usize,
    tokens: Vec<Token>,
}

impl Source {
    /// The first name of every path that starts at the crate's root.
    fn layers_named(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let starts = at == 0 || self.tokens[at - 1] != Token::Sep;
            let root = match token {
                Token::Word(word) if word == "crate" || word == "stalltop" => starts.then_some(at),
                // `super` once more than there are folders is the crate's root.
                Token::Word(word) if word == "super" && starts => self.supers(at),
                _ => None,
            };
            if let Some(root) = root {
                found.extend(self.heads(root + 1));
            }
        }
        // What is not a module is an item of lib.rs, or a macro.
        found.retain(|name| LAYERS.iter().any(|(layer, _)| layer == name));
        found
    }

    /// The index of the last `super` of a chain that leads to the crate's root.
    fn supers(&self, at: usize) -> Option<usize> {
        let mut last = at;
        for _ in 0..self.depth {
            (self.tokens.get(last + 1)? == &Token::Sep && self.is_word(last + 2, "super")).then_some(())?;
            last += 2;
        }
        Some(last)
    }

    /// The names that follow a path's root at `at`: one, or the heads of a group in braces.
    fn heads(&self, at: usize) -> Vec<String> {
        if self.tokens.get(at) != Some(&Token::Sep) {
            return Vec::new();
        }
        match self.tokens.get(at + 1) {
            Some(Token::Word(word)) => vec![word.clone()],
            Some(Token::Other('{')) => {
                let (mut depth, mut heads, mut fresh) = (0, Vec::new(), false);
                for token in &self.tokens[at + 1..] {
                    match token {
                        Token::Other('{') => (depth, fresh) = (depth + 1, depth == 0),
                        Token::Other('}') if depth == 1 => break,
                        Token::Other('}') => depth -= 1,
                        Token::Other(',') => fresh = depth == 1,
                        Token::Word(word) if fresh => {
                            heads.push(word.clone());
                            fresh = false;
                        }
                        _ => {}
                    }
                }
                heads
            }
            _ => Vec::new(),
        }
    }

    /// Whether a path begins with this outside crate, in a `use` or in the code.
    fn names_crate(&self, name: &str) -> bool {
        (0..self.tokens.len()).any(|at| {
            self.is_word(at, name)
                && (at == 0 || !matches!(self.tokens[at - 1], Token::Sep | Token::Other('.')))
                && (self.tokens.get(at + 1) == Some(&Token::Sep) || (at > 0 && self.is_word(at - 1, "use")))
        })
    }

    /// Whether `first::second` stands somewhere, in a group too.
    fn names_path(&self, path: &[&str]) -> bool {
        let [first, second] = path else { return false };
        (0..self.tokens.len()).any(|at| self.is_word(at, first) && self.heads(at + 1).iter().any(|head| head == second))
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Word(found)) if found == word)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// `::`
    Sep,
    Other(char),
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
        list.push(Source {
            name: format!("src/{}", within.display()),
            layer,
            depth: within.iter().count() - 1,
            tokens: tokens(&text),
        });
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

/// Words and signs, without comments, strings and whatever stands under `#[cfg(test)]`.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = string_length(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned()));
            end
        } else if rest.starts_with("::") {
            found.push(Token::Sep);
            2
        } else {
            if !first.is_whitespace() {
                found.push(Token::Other(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    without_tests(found)
}

/// The length of the string or character literal that `rest` begins with, if it does.
fn string_length(rest: &str) -> Option<usize> {
    let quoted = |from: usize| {
        let mut escaped = false;
        for (at, letter) in rest[from..].char_indices() {
            match letter {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return from + at + 1,
                _ => {}
            }
        }
        rest.len()
    };
    if rest.starts_with('"') {
        return Some(quoted(1));
    }
    if rest.starts_with("b\"") {
        return Some(quoted(2));
    }
    if let Some(raw) = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')) {
        let prefix = rest.len() - raw.len();
        let hashes = raw.bytes().take_while(|byte| *byte == b'#').count();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let from = prefix + hashes + 1;
            return Some(rest[from..].find(&close).map_or(rest.len(), |end| from + end + close.len()));
        }
    }
    // A character, not a lifetime: 'x' or '\…'.
    let inner = rest.strip_prefix('\'').or_else(|| rest.strip_prefix("b'"))?;
    let prefix = rest.len() - inner.len();
    if let Some(escape) = inner.strip_prefix('\\') {
        let skip = escape.chars().next()?.len_utf8();
        return escape[skip..].find('\'').map(|end| prefix + 1 + skip + end + 1);
    }
    let letter = inner.chars().next()?.len_utf8();
    inner[letter..].starts_with('\'').then_some(prefix + letter + 1)
}

/// Cuts every item that stands under `#[cfg(test)]`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mark: Vec<Token> = {
        let word = |word: &str| Token::Word(word.to_owned());
        let sign = Token::Other;
        vec![sign('#'), sign('['), word("cfg"), sign('('), word("test"), sign(')'), sign(']')]
    };
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].starts_with(&mark) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += mark.len();
        let mut depth = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            at += 1;
            match token {
                Token::Other('{') => depth += 1,
                Token::Other('}') => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                Token::Other(';') if depth == 0 => break,
                _ => {}
            }
        }
    }
    kept
}
