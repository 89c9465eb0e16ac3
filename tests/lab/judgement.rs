//! What `stalltop check --json` says, and whether it says what is true.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::scenario::Ticks;

/// One answer of `check --json`, and what was found wrong with it.
pub struct Judgement {
    json: Value,
    wrong: Vec<String>,
}

/// CPUs that other work may take before what is said of the load is said of that other work too.
const DISTURBED_CPUS: f64 = 0.2;

/// Looks again so often while other work disturbs.
const LOOKS: u32 = 4;

/// What is said of a load that itself takes `own_cpus`, in 6 s without other work. A disturbed look is not judged, unless
/// there is no other.
pub fn check_load(state: &Path, own_cpus: f64) -> Judgement {
    for _ in 1..LOOKS {
        let before = Ticks::now();
        let judgement = check(state, "6s");
        let others = Ticks::now().busy_cpus_since(&before) - own_cpus;
        if others <= DISTURBED_CPUS {
            return judgement;
        }
        println!("disturbed: other work took {others:.2} CPUs; looking again");
    }
    check(state, "6s")
}

/// Runs `stalltop check --for SPAN --json` on the machine as it is now. `state` keeps what it learns.
pub fn check(state: &Path, span: &str) -> Judgement {
    let out = Command::new(env!("CARGO_BIN_EXE_stalltop"))
        .args(["check", "--for", span, "--json"])
        .env("XDG_STATE_HOME", state)
        .output()
        .expect("stalltop runs");
    let text = String::from_utf8(out.stdout).expect("JSON is UTF-8");
    let error = String::from_utf8_lossy(&out.stderr);
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("not JSON: {why}\n{text}\n{error}"));
    assert_eq!(json["schema"], "stalltop/1");
    let mut judgement = Judgement { wrong: Vec::new(), json };
    let expected = match judgement.json["verdict"].as_str() {
        Some("ok") => 0,
        Some("warning") => 1,
        Some("critical") => 2,
        _ => 3,
    };
    judgement.expect(out.status.code() == Some(expected), || format!("exit code {:?}, not {expected}", out.status.code()));
    judgement
}

impl Judgement {
    /// Notes a fault; `what` says it in words.
    pub fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// A figure that must lie in a range, both ends included.
    pub fn figure(&mut self, name: &str, low: f64, high: f64) {
        let value = self.json["figures"][name].as_f64();
        let holds = value.is_some_and(|value| (low..=high).contains(&value));
        self.expect(holds, || format!("{name} is {value:?}, not {low} to {high}"));
    }

    /// A finding of this kind about this subject (a part of its name or path) with at least this severity must be
    /// there; its JSON, null when it is not.
    pub fn must(&mut self, kind: &str, subject: &str, severity: &str) -> Value {
        let found = self.of_kind(kind).find(|finding| about(finding).contains(subject)).cloned();
        let enough = found.as_ref().is_some_and(|finding| rank(&finding["severity"]) >= rank(&Value::from(severity)));
        self.expect(enough, || format!("no `{kind}` about `{subject}` of at least {severity}"));
        found.unwrap_or(Value::Null)
    }

    /// No finding of this kind at all.
    pub fn must_not(&mut self, kind: &str) {
        let count = self.of_kind(kind).count();
        self.expect(count == 0, || format!("`{kind}` is not true"));
    }

    /// No finding that is more than a note about this subject.
    pub fn at_most_a_note(&mut self, kind: &str, subject: &str) {
        let worse = self.of_kind(kind).any(|finding| about(finding).contains(subject) && finding["severity"] != "note");
        self.expect(!worse, || format!("`{kind}` about `{subject}` is more than a note"));
    }

    /// A number of a finding that must lie in a range, both ends included.
    pub fn value(&mut self, finding: &Value, low: f64, high: f64) {
        if finding.is_null() {
            return; // said already
        }
        let value = finding["value"].as_f64();
        let holds = value.is_some_and(|value| (low..=high).contains(&value));
        self.expect(holds, || format!("{} has value {value:?}, not {low} to {high}", finding["kind"]));
    }

    /// A number of a finding's evidence that must lie in a range, both ends included.
    pub fn evidence(&mut self, finding: &Value, name: &str, low: f64, high: f64) {
        if finding.is_null() {
            return; // said already
        }
        let value = finding["evidence"][name].as_f64();
        let holds = value.is_some_and(|value| (low..=high).contains(&value));
        self.expect(holds, || format!("{} rests on {name} {value:?}, not {low} to {high}", finding["kind"]));
    }

    /// A word of a finding's evidence that must be this one.
    pub fn word(&mut self, finding: &Value, name: &str, word: &str) {
        let value = &finding["evidence"][name];
        self.expect(finding.is_null() || value == word, || format!("{} rests on {name} {value}, not {word}", finding["kind"]));
    }

    /// A finding's sentence must contain each of these.
    pub fn says(&mut self, finding: &Value, words: &[&str]) {
        let Some(sentence) = finding["sentence"].as_str() else { return };
        for word in words {
            self.expect(sentence.contains(word), || format!("`{word}` is not said: {sentence}"));
        }
    }

    /// Fails with all that is wrong, and with the whole answer.
    pub fn conclude(self) {
        println!("{}", self.summary());
        let pretty = serde_json::to_string_pretty(&self.json).unwrap_or_default();
        assert!(self.wrong.is_empty(), "{}\n{pretty}", self.wrong.join("\n"));
    }

    fn summary(&self) -> String {
        let sentences = self.json["findings"].as_array().into_iter().flatten();
        let mut text = format!("verdict {}", self.json["verdict"]);
        for finding in sentences {
            text.push_str(&format!("\n  {} {}: {}", finding["severity"], finding["kind"], finding["sentence"]));
        }
        text
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.json["findings"].as_array().into_iter().flatten().filter(move |finding| finding["kind"] == kind)
    }
}

/// The subject's own words.
fn about(finding: &Value) -> String {
    let subject = &finding["subject"];
    let cpu = subject["cpu"].as_u64().map(|cpu| format!("cpu{cpu}"));
    let words = ["name", "path", "address"].iter().find_map(|field| subject[*field].as_str().map(str::to_owned));
    let whole = (subject["type"] == "box").then(|| "box".to_owned());
    cpu.or(words).or(whole).unwrap_or_default()
}

fn rank(severity: &Value) -> u8 {
    match severity.as_str() {
        Some("critical") => 3,
        Some("warning") => 2,
        Some("note") => 1,
        _ => 0,
    }
}
