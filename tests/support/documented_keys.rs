//! Compares JSON that a command prints with its table on docs/json-commands.md.

use std::collections::BTreeSet;

use serde_json::Value;

const PAGE: &str = include_str!("../../docs/json-commands.md");

/// Fails unless the table below that heading has each key of the JSON, and each object of the JSON has all keys of the table.
pub fn assert_documented(heading: &str, printed: &Value) {
    let section = PAGE.split("\n## ").find(|section| section.lines().next() == Some(heading));
    let section = section.unwrap_or_else(|| panic!("no heading '{heading}'"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let documented: BTreeSet<String> = rows.flat_map(|(keys, _)| expanded(keys)).collect();
    let (mut keys, mut objects) = (BTreeSet::new(), BTreeSet::new());
    collect(String::new(), printed, &mut keys, &mut objects);
    let missing: Vec<&String> = keys.difference(&documented).collect();
    let is_of_an_object = |key: &&String| objects.contains(key.rsplit_once('.').map_or("", |(object, _)| object));
    let not_printed: Vec<&String> = documented.difference(&keys).filter(is_of_an_object).collect();
    assert!(
        missing.is_empty() && not_printed.is_empty(),
        "docs/json-commands.md, {heading}: missing {missing:?}, not printed {not_printed:?}"
    );
}

/// The paths of all keys, and those of all objects.
fn collect(path: String, value: &Value, keys: &mut BTreeSet<String>, objects: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                keys.insert(key.clone());
                collect(key, value, keys, objects);
            }
            objects.insert(path);
        }
        Value::Array(items) => items.iter().for_each(|item| collect(format!("{path}[]"), item, keys, objects)),
        _ => {}
    }
}

/// `{a,b}.c` stands for `a.c` and `b.c`.
fn expanded(keys: &str) -> Vec<String> {
    let Some((before, rest)) = keys.split_once('{') else { return vec![keys.to_owned()] };
    let (choices, after) = rest.split_once('}').unwrap_or_else(|| panic!("no brace ends {keys}"));
    choices.split(',').flat_map(|choice| expanded(&format!("{before}{choice}{after}"))).collect()
}
