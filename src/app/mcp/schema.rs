//! The JSON schemas of the tools: their arguments, and what they return (assets/schema).

use serde_json::{Map, Value, json};

/// A tool as clients see it.
pub struct ToolDefinition {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// Schema of the arguments' properties
    pub arguments: fn() -> Value,
    pub required: &'static [&'static str],
    /// Schema of the answer
    pub answer: &'static str,
}

/// All tools, in the order in which they are listed.
pub const TOOLS: [ToolDefinition; 6] = [
    ToolDefinition {
        name: "diagnose",
        title: "What is wrong with a Linux machine",
        description: "The verdict on a machine or recording: which threads are blocked, on what, behind which thread; saturated \
                      CPUs, threads, disks, networks, cgroup limits; how much of the idle CPU time is really free. The causes come \
                      first; a finding with follows_from is a consequence. Call this first, without arguments for this machine.",
        arguments: || {
            let mut properties = target();
            properties.insert(
                "seconds".into(),
                json!({
                    "type": "integer", "minimum": 1, "maximum": 60, "default": 5,
                    "description": "How long a machine is watched; a finding needs at least 3"
                }),
            );
            properties.insert(
                "detail".into(),
                json!({
                    "type": "boolean", "default": false, "description": "With the evidence and all next steps of each finding"
                }),
            );
            properties.extend(times());
            properties.extend(page());
            properties.into()
        },
        required: &[],
        answer: include_str!("../../../assets/schema/diagnose.json"),
    },
    ToolDefinition {
        name: "table",
        title: "Figures of a machine or recording",
        description: "Rows of figures like those of mpstat, iostat -x, sar -n DEV, pidstat or vmstat: over some seconds of a machine, or \
                      the totals (counts, bytes) and means of a recording or a part of it.",
        arguments: || {
            let mut properties = target();
            properties.extend(table());
            properties.insert(
                "rows".into(),
                json!({
                    "type": "integer", "minimum": 1, "maximum": 500, "default": 20, "description": "The most active rows"
                }),
            );
            properties.insert(
                "seconds".into(),
                json!({
                    "type": "integer", "minimum": 1, "maximum": 60, "default": 1, "description": "Of a machine"
                }),
            );
            properties.extend(times());
            properties.extend(page());
            properties.into()
        },
        required: &["table"],
        answer: include_str!("../../../assets/schema/rows.json"),
    },
    ToolDefinition {
        name: "history",
        title: "Figures over the time of a recording",
        description: "The same rows, one set for each step of a recording. Give columns, or the answer is long.",
        arguments: || {
            let mut properties = table();
            properties.insert("recording".into(), json!({ "type": "string", "description": "From the tool recordings" }));
            properties.insert("step".into(), json!({ "type": "string", "default": "1m", "description": "10s, 1m, 1h" }));
            properties.insert("points".into(), json!({ "type": "integer", "minimum": 1, "maximum": 500, "default": 30 }));
            properties.insert(
                "rows".into(),
                json!({
                    "type": "integer", "minimum": 1, "maximum": 500, "default": 1, "description": "Rows a step"
                }),
            );
            properties.extend(times());
            properties.extend(page());
            properties.into()
        },
        required: &["table", "recording"],
        answer: include_str!("../../../assets/schema/rows.json"),
    },
    ToolDefinition {
        name: "compare",
        title: "What differs between two recordings",
        description: "Medians of the figures that differ between two recordings, such as before and after a deployment, those that \
                      became worse first, with the certainty of the difference.",
        arguments: || {
            let mut properties = page();
            properties.insert("base".into(), json!({ "type": "string", "description": "The recording before" }));
            properties.insert("new".into(), json!({ "type": "string", "description": "The recording after" }));
            properties.into()
        },
        required: &["base", "new"],
        answer: include_str!("../../../assets/schema/compare.json"),
    },
    ToolDefinition {
        name: "recordings",
        title: "The recordings that can be read",
        description: "The recordings of stalltop in the allowed directories, the newest first: host, time, number of samples.",
        arguments: || page().into(),
        required: &[],
        answer: include_str!("../../../assets/schema/recordings.json"),
    },
    ToolDefinition {
        name: "explain",
        title: "What a finding means",
        description: "What a kind of finding means, how it is computed, what it may confuse, and what to look at next. Without kind: \
                      the list of kinds.",
        arguments: || json!({ "kind": { "type": "string", "description": "Such as idle-but-blocked" } }),
        required: &[],
        answer: include_str!("../../../assets/schema/explain.json"),
    },
];

impl ToolDefinition {
    /// The schema of the arguments.
    pub fn input_schema(&self) -> Map<String, Value> {
        let schema = json!({
            "type": "object",
            "properties": (self.arguments)(),
            "required": self.required,
            "additionalProperties": false,
        });
        schema.as_object().cloned().unwrap_or_default()
    }

    /// The schema of the answer.
    pub fn output_schema(&self) -> Map<String, Value> {
        // A test reads each of them.
        serde_json::from_str(self.answer).unwrap_or_default()
    }
}

fn target() -> Map<String, Value> {
    object(json!({
        "recording": { "type": "string", "description": "A recording in place of this machine, from the tool recordings" },
        "host": { "type": "string", "description": "Another machine, by ssh; one that was allowed with --host" },
    }))
}

fn times() -> Map<String, Value> {
    object(json!({
        "at": { "type": "string", "description": "Of a recording: its start. 12:03:15, RFC 3339, -5m before the end, +90s after the start" },
        "for": { "type": "string", "description": "Of a recording: how much of it. 30s, 10m" },
    }))
}

fn page() -> Map<String, Value> {
    object(json!({ "page": { "type": "integer", "minimum": 1, "default": 1 } }))
}

fn table() -> Map<String, Value> {
    let tables: Vec<&str> = crate::figures::TABLES.iter().map(|table| table.name()).collect();
    object(json!({
        "table": { "type": "string", "enum": tables },
        "columns": { "type": "string", "description": "Headings, separated by commas; or all. Default: the usual ones" },
        "sort": { "type": "string", "description": "A column, largest first" },
    }))
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_an_object() {
        for tool in &TOOLS {
            assert_eq!(tool.output_schema().get("type"), Some(&json!("object")), "{}", tool.name);
            let input = tool.input_schema();
            let properties = input.get("properties").and_then(Value::as_object).unwrap();
            assert!(tool.required.iter().all(|name| properties.contains_key(*name)), "{}", tool.name);
        }
    }
}
