//! Recordings of the lab's scenarios, evaluated again: findings are tested where there is no root and no lab.
//!
//! tests/recordings/lab.toml lists for each recording the findings that must and must not appear, and quotes the truth that other
//! tools measured; tests/recordings/make.sh makes the recordings.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

#[path = "support/program.rs"]
mod program;

use program::program;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    recording: Vec<Recording>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Recording {
    /// Of the file, without its ending
    name: String,
    /// What was so, as other tools measured it
    truth: String,
    /// The finding that is told first
    first: Option<First>,
    #[serde(default)]
    must: Vec<Must>,
    /// Kinds that must not be told of anything, not as a note either
    #[serde(default)]
    must_not: Vec<String>,
    /// Kinds that may be told beside those that must; any other may be a note at most
    #[serde(default)]
    may: Vec<String>,
    /// Mean figures: least and most
    #[serde(default)]
    figures: BTreeMap<String, (f64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    kind: String,
    /// A part of its name, path or address; `host` for the whole
    subject: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Must {
    kind: String,
    /// A part of its name, path or address; `host` for the whole
    subject: String,
    /// At least so bad
    severity: String,
    value: Option<(f64, f64)>,
    /// Kind of the finding that it follows from; `none`: it is a root cause
    follows: Option<String>,
    /// Parts of the sentence
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    never_says: Vec<String>,
    #[serde(default)]
    evidence: BTreeMap<String, Expected>,
    /// Parts of the links of its chain, from the tasks to what limits them; the chain has as many links
    #[serde(default)]
    chain: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expected {
    Range((f64, f64)),
    Word(String),
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

#[test]
fn recordings_of_the_lab_have_the_expected_findings() {
    let text = fs::read_to_string(folder().join("lab.toml")).expect("lab.toml");
    let table: Table = toml::from_str(&text).unwrap_or_else(|why| panic!("lab.toml: {why}"));
    assert!(!table.recording.is_empty());
    let mut wrong = Vec::new();
    for recording in &table.recording {
        let json = check(&recording.name);
        let faults = compare_findings(recording, &json);
        if !faults.is_empty() {
            let pretty = serde_json::to_string_pretty(&json["findings"]).unwrap_or_default();
            wrong.push(format!("{} ({}):\n  {}\n{pretty}", recording.name, recording.truth, faults.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn each_recording_is_in_the_table_and_small() {
    let text = fs::read_to_string(folder().join("lab.toml")).expect("lab.toml");
    let table: Table = toml::from_str(&text).unwrap_or_else(|why| panic!("lab.toml: {why}"));
    for entry in fs::read_dir(folder().join("lab")).expect("its folder").flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        assert!(table.recording.iter().any(|recording| recording.name == name), "nothing is expected of {name}");
        let bytes = entry.metadata().expect("its size").len();
        assert!(bytes <= 200 * 1024, "{name} has {bytes} bytes");
    }
}

fn check(name: &str) -> Value {
    let file = folder().join("lab").join(format!("{name}.stalltop"));
    let out = Command::new(program()).args(["check", "--json"]).arg(&file).output().expect("stalltop runs");
    let text = String::from_utf8(out.stdout).expect("JSON is UTF-8");
    let error = String::from_utf8_lossy(&out.stderr);
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: not JSON: {why}\n{text}\n{error}"))
}

fn compare_findings(recording: &Recording, json: &Value) -> Vec<String> {
    let findings: Vec<&Value> = json["findings"].as_array().into_iter().flatten().collect();
    let mut faults = Vec::new();
    if let Some(First { kind, subject }) = &recording.first {
        let told = findings.first().map(|finding| (finding["kind"].as_str().unwrap_or_default(), about(finding)));
        let is_it = told.as_ref().is_some_and(|(told, about)| told == kind && about.contains(subject));
        faults.extend((!is_it).then(|| format!("`{kind}` about `{subject}` is not told first, but {told:?}")));
    }
    for must in &recording.must {
        match findings.iter().find(|finding| finding["kind"] == must.kind && about(finding).contains(&must.subject)) {
            Some(finding) => faults.extend(compare(must, finding)),
            None => faults.push(format!("no `{}` about `{}`", must.kind, must.subject)),
        }
    }
    for finding in findings {
        let kind = finding["kind"].as_str().unwrap_or_default();
        let told = |kinds: &[String]| kinds.iter().any(|known| known == kind);
        let expected = recording.must.iter().any(|must| must.kind == kind) || told(&recording.may);
        if told(&recording.must_not) || finding["severity"] != "note" && !expected {
            faults.push(format!("not true: {} {}", finding["severity"], finding["sentence"]));
        }
    }
    for (name, range) in &recording.figures {
        faults.extend(outside(name, &json["figures"][name], *range));
    }
    faults
}

fn compare(must: &Must, finding: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let rank = |severity: &str| ["note", "warning", "critical"].iter().position(|known| *known == severity);
    let severity = finding["severity"].as_str().unwrap_or_default();
    assert!(rank(&must.severity).is_some(), "no severity `{}`", must.severity);
    if rank(severity) < rank(&must.severity) {
        faults.push(format!("`{}` is a {severity}, not {}", must.kind, must.severity));
    }
    let sentence = finding["sentence"].as_str().unwrap_or_default();
    faults.extend(must.says.iter().filter(|word| !sentence.contains(*word)).map(|word| format!("no `{word}`: {sentence}")));
    faults.extend(must.never_says.iter().filter(|word| sentence.contains(*word)).map(|word| format!("`{word}`: {sentence}")));
    if let Some(range) = must.value {
        faults.extend(outside(&format!("the value of `{}`", must.kind), &finding["value"], range));
    }
    if let Some(expected) = &must.follows {
        let cause = finding["follows_from"]["kind"].as_str().unwrap_or("none");
        faults.extend((cause != expected).then(|| format!("`{}` follows from `{cause}`, not `{expected}`", must.kind)));
    }
    if !must.chain.is_empty() {
        faults.extend(compare_chain(must, &finding["evidence"]["chain"]));
    }
    for (name, expected) in &must.evidence {
        let value = &finding["evidence"][name];
        match expected {
            Expected::Range(range) => faults.extend(outside(&format!("{name} of `{}`", must.kind), value, *range)),
            Expected::Word(word) if value != word => faults.push(format!("{name} of `{}` is {value}, not {word}", must.kind)),
            Expected::Word(_) => {}
        }
    }
    faults
}

/// Whether each link has its expected words and says how it is known.
fn compare_chain(must: &Must, chain: &Value) -> Option<String> {
    let links: Vec<&Value> = chain.as_array().into_iter().flatten().collect();
    let holds = |link: &Value, expected: &String| {
        let known = link["known_by"].as_str().is_some_and(|words| !words.is_empty());
        known && link["what"].as_str().is_some_and(|what| what.contains(expected))
    };
    let all = links.len() == must.chain.len() && links.iter().zip(&must.chain).all(|(link, expected)| holds(link, expected));
    (!all).then(|| format!("the chain of `{}` is {chain}, not {:?}", must.kind, must.chain))
}

fn outside(what: &str, value: &Value, (low, high): (f64, f64)) -> Option<String> {
    let holds = value.as_f64().is_some_and(|value| (low..=high).contains(&value));
    (!holds).then(|| format!("{what} is {value}, not {low} to {high}"))
}

/// The subject's own words.
fn about(finding: &Value) -> String {
    let subject = &finding["subject"];
    let cpu = subject["cpu"].as_u64().map(|cpu| format!("cpu{cpu}"));
    let words = ["name", "path", "address"].iter().find_map(|field| subject[*field].as_str().map(str::to_owned));
    let whole = (subject["type"] == "host").then(|| "host".to_owned());
    cpu.or(words).or(whole).unwrap_or_default()
}
