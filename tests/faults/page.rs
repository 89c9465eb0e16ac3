//! docs/faults.md and docs/reliability.md: every case of the catalogue is there, with tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What is read, the terminal, time and security.
#[test]
fn every_case_names_tests_that_exist() {
    assert!(named("docs/faults.md", (44..=82).chain(89..=102)) > 60);
}

#[test]
fn every_case_of_recordings_names_tests_that_exist() {
    assert!(named("docs/reliability.md", 1..=43) > 40);
}

/// How many tests the page names. Each is there, and each case is on the page.
fn named(page: &str, mut cases: impl Iterator<Item = u32>) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join(page)).unwrap();
    let mut seen = BTreeSet::new();
    let mut named = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some(number) = cells.first().and_then(|cell| cell.parse::<u32>().ok()) else { continue };
        assert!(seen.insert(number), "case {number} stands there twice");
        let tests = cells.last().unwrap();
        for test in tests.split('`').skip(1).step_by(2) {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("case {number}: `{test}` is not FILE::TEST"));
            let source = fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("case {number}: there is no {file}"));
            let there = source.match_indices(&format!("fn {name}(")).any(|(at, _)| {
                let before: Vec<&str> = source[..at].lines().rev().take(4).collect();
                before.iter().any(|line| line.contains("#[test]")) || source.contains("proptest!")
            });
            assert!(there, "case {number}: no test {name} in {file}");
            named += 1;
        }
        let open = ["not yet", "not here"].iter().any(|word| tests.contains(word));
        assert!(tests.contains('`') || open, "case {number} has neither a test nor the word that it has none");
    }
    assert_eq!(cases.find(|case| !seen.contains(case)), None, "not on the page");
    named
}
