//! The result of `stalltop check --json`, and the assertions on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stalltop::recording::Replayer;

use crate::attempt::Range;
use crate::harness::program;

/// One output of `check --json`, and its errors.
pub struct CheckResult {
    json: Value,
    wrong: Vec<String>,
    /// The samples that it is based on
    recording: PathBuf,
}

/// Runs `stalltop check` on the machine as it is now. `state` is its state directory.
pub fn check(name: &str, state: &Path, seconds: u32, interval: &str) -> CheckResult {
    check_by(Command::new(program()), name, state, seconds, interval)
}

/// The same by a command that runs stalltop with the arguments that are added.
pub fn check_by(mut stalltop: Command, name: &str, state: &Path, seconds: u32, interval: &str) -> CheckResult {
    let recording = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}.stalltop"));
    let _ = fs::remove_file(&recording);
    let out = stalltop
        .args(["check", "--for", &format!("{seconds}s"), "--interval", interval, "--json", "--save"])
        .arg(&recording)
        .env("XDG_STATE_HOME", state)
        .output()
        .expect("stalltop runs");
    let text = String::from_utf8(out.stdout).expect("JSON is UTF-8");
    let error = String::from_utf8_lossy(&out.stderr);
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("not JSON: {why}\n{text}\n{error}"));
    assert_eq!(json["schema"], "stalltop/1");
    let expected = match json["verdict"].as_str() {
        Some("ok") => 0,
        Some("warning") => 1,
        Some("critical") => 2,
        _ => 3,
    };
    assert_eq!(out.status.code(), Some(expected), "the exit code is the verdict\n{text}\n{error}");
    CheckResult { wrong: Vec::new(), json, recording }
}

impl CheckResult {
    /// The kernel stacks of a thread in its samples.
    pub fn kernel_stacks(&self, tid: u32) -> Vec<String> {
        let mut replayer = Replayer::open(&self.recording).expect("its recording");
        let samples = (0..replayer.len()).filter_map(|index| replayer.sample(index).ok()).collect::<Vec<_>>();
        let rows = samples.iter().flat_map(|sample| sample.stacks.as_deref().unwrap_or_default());
        rows.filter(|row| row.task.tid == tid).filter_map(|row| Some(row.kernel.as_ref().ok()?.to_string_lossy())).collect()
    }

    /// The sentences of all findings.
    pub fn sentences(&self) -> Vec<String> {
        let findings = self.json["findings"].as_array().into_iter().flatten();
        findings.filter_map(|finding| finding["sentence"].as_str()).map(str::to_owned).collect()
    }

    /// The file with its samples.
    pub fn recording(&self) -> &Path {
        &self.recording
    }

    /// Notes an error; `what` describes it.
    pub fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// A figure that must lie in a range, both ends included.
    pub fn figure(&mut self, name: &str, low: f64, high: f64) {
        let value = self.json["figures"][name].as_f64();
        self.within(name, value, low, high);
    }

    /// A figure that must equal what was measured beside it, with a tolerance.
    pub fn figure_is(&mut self, name: &str, truth: f64, tolerance: f64) {
        self.figure(name, truth - tolerance, truth + tolerance);
    }

    /// A finding of this kind about this subject (a part of its name or path) with at least this severity must be
    /// there; its JSON, null when it is not.
    pub fn must(&mut self, kind: &str, subject: &str, severity: &str) -> Value {
        let found = self.of_kind(kind).find(|finding| about(finding).contains(subject)).cloned();
        let enough = found.as_ref().is_some_and(|finding| rank(&finding["severity"]) >= rank(&Value::from(severity)));
        self.expect(enough, || format!("no `{kind}` about `{subject}` of at least {severity}"));
        found.unwrap_or(Value::Null)
    }

    /// The finding that is told first must be of this kind, and about this subject.
    pub fn first(&mut self, kind: &str, subject: &str) {
        let told = self.json["findings"].get(0).map(|finding| (finding["kind"].clone(), about(finding)));
        let is_it = told.as_ref().is_some_and(|(told, about)| told == kind && about.contains(subject));
        self.expect(is_it, || format!("`{kind}` about `{subject}` is not told first, but {told:?}"));
    }

    /// The finding must follow from one of this kind; `none`: it must be a root cause.
    pub fn follows(&mut self, finding: &Value, kind: &str) {
        let cause = finding["follows_from"]["kind"].as_str().unwrap_or("none");
        self.expect(finding.is_null() || cause == kind, || format!("{} follows from `{cause}`, not `{kind}`", finding["kind"]));
    }

    /// Each finding of this kind, if there is one, must follow from one of that kind.
    pub fn only_follows(&mut self, kind: &str, cause: &str) {
        let found: Vec<Value> = self.of_kind(kind).cloned().collect();
        found.iter().for_each(|finding| self.follows(finding, cause));
    }

    /// The findings about this subject.
    pub fn about_subject(&self, subject: &str) -> Vec<Value> {
        let findings = self.json["findings"].as_array().into_iter().flatten();
        findings.filter(|finding| about(finding).contains(subject)).cloned().collect()
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

    /// No finding but those of these kinds.
    pub fn nothing_wrong_but(&mut self, kinds: &[&str]) {
        let others = self.json["findings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|finding| finding["severity"] != "note" && !kinds.iter().any(|kind| finding["kind"] == *kind));
        let others: Vec<String> =
            others.map(|finding| format!("{} about `{}` is not true", finding["kind"], about(finding))).collect();
        self.wrong.extend(others);
    }

    /// A number of a finding that must lie in a range, both ends included.
    pub fn value(&mut self, finding: &Value, low: f64, high: f64) {
        if !finding.is_null() {
            self.within(&format!("the value of {}", finding["kind"]), finding["value"].as_f64(), low, high);
        }
    }

    /// A number of a finding's evidence that must lie in a range, both ends included.
    pub fn evidence(&mut self, finding: &Value, name: &str, low: f64, high: f64) {
        if !finding.is_null() {
            self.within(&format!("{name} of {}", finding["kind"]), finding["evidence"][name].as_f64(), low, high);
        }
    }

    /// The same of the seconds or readings that were measured beside it.
    pub fn evidence_in(&mut self, finding: &Value, name: &str, range: Range) {
        self.evidence(finding, name, range.least, range.most);
    }

    /// A number of a finding that must lie among the seconds that were measured beside it.
    pub fn value_in(&mut self, finding: &Value, range: Range) {
        self.value(finding, range.least, range.most);
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

    /// The sentence must contain one of these.
    pub fn says_one_of(&mut self, finding: &Value, words: &[&str]) {
        let Some(sentence) = finding["sentence"].as_str() else { return };
        self.expect(words.iter().any(|word| sentence.contains(word)), || format!("none of {words:?} is said: {sentence}"));
    }

    /// The sentence that says where iowait and PSI mislead must contain each of these.
    pub fn cross_check_says(&mut self, words: &[&str]) {
        let sentence = self.json["cross_checks"]["artefact"].as_str().unwrap_or_default().to_owned();
        for word in words {
            self.expect(sentence.contains(word), || format!("`{word}` is not in the cross-check: {sentence}"));
        }
    }

    fn within(&mut self, what: &str, value: Option<f64>, low: f64, high: f64) {
        let holds = value.is_some_and(|value| (low..=high).contains(&value));
        self.expect(holds, || format!("{what} is {value:?}, not {low:.4} to {high:.4}"));
    }

    pub fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }

    pub fn faults(&self) -> String {
        self.wrong.join("\n  ")
    }

    /// Fails with all that is wrong, and with the whole answer.
    pub fn fail(&self) -> ! {
        let pretty = serde_json::to_string_pretty(&self.json).unwrap_or_default();
        panic!("{}\n{pretty}\nrecorded in {}", self.faults(), self.recording.display());
    }

    pub fn summary(&self) -> String {
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
    let words =
        ["name", "path", "address", "interface", "owner"].iter().find_map(|field| subject[*field].as_str().map(str::to_owned));
    let whole = (subject["type"] == "host").then(|| "host".to_owned());
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
