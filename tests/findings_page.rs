//! docs/findings.md is generated from the rules. `STALLTOP_BLESS=1 cargo test --test findings_page` regenerates it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

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
    assert_eq!(kinds.len(), 23);
    for rule in stalltop::findings::RULES {
        let json = serde_json::to_string(&rule.kind).expect("a word");
        assert_eq!(json, format!("\"{}\"", rule.kind.as_str()), "JSON and screen use the same name");
        assert!(!rule.next_steps.is_empty() && rule.kind.rule().is_some_and(|found| found.kind == rule.kind));
    }
}
