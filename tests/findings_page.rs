//! docs/findings.md is what the rules say. `STALLTOP_BLESS=1 cargo test --test findings_page` writes it anew.

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
fn the_page_is_what_the_rules_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md");
    let page = stalltop::findings::findings_docs();
    if std::env::var_os("STALLTOP_BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/findings.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/findings.md is stale: STALLTOP_BLESS=1 cargo test --test findings_page");
}

#[test]
fn rules_stand_in_the_order_of_their_kinds_and_are_complete() {
    let kinds: Vec<_> = stalltop::findings::RULES.iter().map(|rule| rule.kind).collect();
    let mut sorted = kinds.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(kinds, sorted);
    assert_eq!(kinds.len(), 23);
    for rule in stalltop::findings::RULES {
        let json = serde_json::to_string(&rule.kind).expect("a word");
        assert_eq!(json, format!("\"{}\"", rule.kind.as_str()), "the word in JSON is the word on the screen");
        assert!(!rule.next_steps.is_empty() && rule.kind.rule().is_some_and(|found| found.kind == rule.kind));
    }
}
