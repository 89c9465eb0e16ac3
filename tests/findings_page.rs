//! docs/findings.md is generated from the rules: `STALLTOP_BLESS=1 cargo test --test findings_page` writes it again. Headings
//! of docs/metrics.md that the source cites, and files that the documents cite, exist; its fixed thresholds are those of the source.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::fs;
use std::path::Path;

#[test]
fn the_page_matches_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md");
    let page = stalltop::findings::findings_docs();
    if std::env::var_os("STALLTOP_BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/findings.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/findings.md is stale: STALLTOP_BLESS=1 cargo test --test findings_page");
}

#[test]
fn every_kind_has_a_rule_in_order() {
    let kinds: Vec<_> = stalltop::findings::RULES.iter().map(|rule| rule.kind).collect();
    let mut sorted = kinds.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(kinds, sorted);
    assert_eq!(kinds.len(), 36);
    for rule in stalltop::findings::RULES {
        let json = serde_json::to_string(&rule.kind).expect("a word");
        assert_eq!(json, format!("\"{}\"", rule.kind.as_str()), "JSON and screen use the same name");
        assert!(!rule.next_steps.is_empty() && rule.kind.rule().is_some_and(|found| found.kind == rule.kind));
    }
}

#[test]
fn every_cited_heading_of_the_metrics_page_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let metrics = fs::read_to_string(root.join("docs/metrics.md")).expect("docs/metrics.md");
    let headings: Vec<&str> = metrics.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut cited: Vec<String> = stalltop::findings::RULES.iter().map(|rule| rule.reference.to_owned()).collect();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of src") {
            let path = entry.expect("an entry of src").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert!(!text.contains("metrics.md section"), "{}: cite the heading", path.display());
            let citations = text.split("docs/metrics.md, \"").skip(1);
            cited.extend(citations.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
    let missing: Vec<&String> = cited.iter().filter(|heading| !headings.contains(&heading.as_str())).collect();
    assert!(cited.len() > stalltop::findings::RULES.len() && missing.is_empty(), "not in docs/metrics.md: {missing:?}");
}

/// Constants that decide nothing: a depth of recursion, a length of text, the largest number that may be configured.
const NO_THRESHOLDS: [&str; 3] = ["MAX_DEVICE_DEPTH", "MIN_PART", "LARGEST"];

/// Whether a constant must have a row: a number with a fraction, or a bound or a time of the arithmetic and the rules. A `usize`
/// `MAX_…` is the length of a list.
fn is_threshold(file: &Path, name: &str, kind: &str) -> bool {
    let judges = file.components().any(|part| part.as_os_str() == "interval" || part.as_os_str() == "findings");
    let is_bound = match kind {
        "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => {
            name.starts_with("MIN_") || name.starts_with("MAX_") || name.ends_with("_NS")
        }
        "usize" => name.starts_with("MIN_"),
        _ => false,
    };
    (kind == "f64" || judges && is_bound) && !NO_THRESHOLDS.contains(&name)
}

/// Both ways: each row is a constant with that value, and each threshold of the readers, the arithmetic and the rules has a row.
#[test]
fn the_table_of_fixed_thresholds_matches_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/metrics.md")).expect("docs/metrics.md");
    let (_, table) = page.split_once("\n## Fixed thresholds\n").expect("its heading");
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let documented: Vec<String> =
        rows.filter_map(|(name, rest)| Some(format!("{name} = {}", rest.split_once(" |")?.0))).collect();
    let mut folders =
        vec![root.join("src/sample"), root.join("src/kernel"), root.join("src/interval"), root.join("src/findings")];
    let (mut all, mut required) = (Vec::new(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of src") {
            let path = entry.expect("an entry of src").path();
            if path.file_stem().is_some_and(|name| name == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let source = text.split_once("#[cfg(test)]\nmod tests {").map_or(text.as_str(), |(source, _)| source);
            for line in source.lines().map(str::trim_start) {
                let prefixes = ["const ", "pub const ", "pub(super) const "];
                let Some(declaration) = prefixes.into_iter().find_map(|prefix| line.strip_prefix(prefix)) else { continue };
                let Some((name, (kind, value))) =
                    declaration.split_once(": ").and_then(|(name, rest)| Some((name, rest.split_once(" = ")?)))
                else {
                    continue;
                };
                let constant = format!("{name} = {}", value.trim_end_matches(';'));
                required.extend(is_threshold(&path, name, kind).then(|| constant.clone()));
                all.push(constant);
            }
        }
    }
    let missing: Vec<&String> = required.iter().filter(|constant| !documented.contains(constant)).collect();
    let stale: Vec<&String> = documented.iter().filter(|constant| !all.contains(constant)).collect();
    assert!(missing.is_empty() && stale.is_empty(), "docs/metrics.md lacks {missing:?}, and has {stale:?}");
}

/// Paths below `src`, `tests`, `benches` and `docs`, with or without the suffix `.rs`.
#[test]
fn every_file_cited_in_the_documents_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    let entries = fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry of docs").path());
    pages.extend(entries.filter(|path| path.is_file()));
    let is_path_char = |character: char| character.is_ascii_alphanumeric() || "/_-.".contains(character);
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for word in text.split(|character| !is_path_char(character)) {
            let word = word.trim_end_matches(['.', '/']);
            let is_citation = ["src/", "tests/", "benches/", "docs/"].iter().any(|folder| word.starts_with(folder));
            if is_citation && !root.join(word).exists() && !root.join(format!("{word}.rs")).exists() {
                missing.push(format!("{}: {word}", page.file_name().unwrap_or_default().to_string_lossy()));
            }
        }
    }
    assert!(missing.is_empty(), "no such file: {missing:?}");
}
