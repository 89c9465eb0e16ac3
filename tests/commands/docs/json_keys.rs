//! The keys of docs/json-commands.md are those that the commands print. Tests of
//! `baseline show`: tests/commands/baseline.rs; of `trace` and `probe`, which need root: src/report.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::root;
use crate::documented_keys::assert_documented;
use crate::harness::program;

/// The object that the program prints.
fn printed(arguments: &[&str]) -> Value {
    let mut run = Command::new(program());
    let output = run.args(arguments).current_dir(root().join("assets/demo")).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_keys_of_report_and_compare_are_documented() {
    const RECORDINGS: [&str; 2] = ["1-blocked-database.stalltop", "3-slow-disk.stalltop"];
    let mut report = printed(&["report", RECORDINGS[0], "--format", "json", "-o", "-"]);
    let schema: Value = serde_json::from_str(include_str!("../../../assets/schema/check.json")).unwrap();
    let keys = report.as_object_mut().unwrap();
    keys.retain(|key, _| schema["properties"].get(key).is_none());
    assert_documented("report --format json", &report);

    let compared = printed(&["compare", RECORDINGS[0], RECORDINGS[1], "--json", "--ops", "100,200"]);
    assert_documented("compare --json", &compared);
}
