//! docs/json.md, generated from the JSON schema of `check --json` (assets/schema/check.json).

use std::fmt::Write;

use serde_json::{Map, Value};

const HEADING: &str = "\
# JSON of `check`

<!-- Generated from assets/schema/check.json: STALLTOP_BLESS=1 cargo test --test generated_files -->

`stalltop check --json` prints one object, the one below. With `--watch` it prints an object a line when a finding changes: `schema`, `at`
(RFC 3339), `host`, `change` (`begins`, `worse`, `better`, `ends`), `finding` (below). Names have their unit as a suffix, as in
[the tables](tables.md); what is unknown is null. Keys are added, never renamed or removed. The packages have the schema itself in
/usr/share/doc/stalltop/schema/check.json, which refuses keys that a later version adds.

`table --format json` prints the keys of [the tables](tables.md), other commands those of [this page](json-commands.md).

```sh
stalltop check --json --for 5s | jq -r '.findings[] | [.severity, .sentence] | @tsv'
```
";

/// The page.
pub fn render(schema: &Value) -> String {
    let mut text = HEADING.to_owned();
    add_table("The object", schema, &mut text);
    let definitions = schema["$defs"].as_object();
    for (title, name) in [("A finding", "finding"), ("The subject of a finding", "subject")] {
        if let Some(definition) = definitions.and_then(|definitions| definitions.get(name)) {
            add_table(title, definition, &mut text);
        }
    }
    text
}

/// A heading, and a table of all keys of an object.
fn add_table(title: &str, object: &Value, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n## {title}\n\n| key | type | meaning |\n| --- | --- | --- |");
    add_rows("", object, text);
}

/// A row for each property of an object, and below it those that it has itself.
fn add_rows(path: &str, object: &Value, text: &mut String) {
    for (key, property) in object["properties"].as_object().unwrap_or(&Map::new()) {
        let description = property["description"].as_str().unwrap_or_default().replace('|', "\\|");
        let _ = writeln!(text, "| `{path}{key}` | {} | {description} |", type_of(property));
        add_rows(&format!("{path}{key}."), property, text);
        add_rows(&format!("{path}{key}[]."), &property["items"], text);
        for choice in property["anyOf"].as_array().unwrap_or(&Vec::new()) {
            add_rows(&format!("{path}{key}."), choice, text);
        }
    }
}

/// The type in words.
fn type_of(property: &Value) -> String {
    let quoted = |values: &[Value]| values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    if let Some(name) = property["$ref"].as_str() {
        return name.trim_start_matches("#/$defs/").to_owned();
    }
    if let Some(values) = property["enum"].as_array() {
        return quoted(values);
    }
    if let Some(value) = property.get("const") {
        return quoted(std::slice::from_ref(value));
    }
    if let Some(choices) = property["anyOf"].as_array() {
        return choices.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    let of_items = if property["items"].is_object() { format!(" of {}", type_of(&property["items"])) } else { String::new() };
    match &property["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Value::String(one) => format!("{one}{of_items}"),
        _ => String::new(),
    }
}
