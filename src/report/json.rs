//! JSON: schema `stalltop/1`. Names as in metrics.md, units in the name's suffix, unknown as null. Only ever grows.

use std::fmt::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::chronicle::steps::rounded;
use super::chronicle::{Chart, Chronicle, Hole};
use super::window::{Figures, Window};
use crate::findings::{Evidence, Finding, Kind, Severity, Subject, Value};
use crate::ids::{CgroupVersion, GroupId, is_unprintable};
use crate::sample::{Instant, Name};

/// `check --json`: one object, one line.
pub fn check(window: &Window) -> String {
    let report = Check::of(window);
    // Strings, numbers and lists cannot fail to become JSON.
    plain(&serde_json::to_string(&report).unwrap_or_default()) + "\n"
}

/// `report --format json`: one object, one line.
pub fn chronicle(chronicle: &Chronicle) -> String {
    let window = &chronicle.window;
    let steps: Vec<Stretch> =
        chronicle.steps().iter().map(|step| Stretch { from: moment(step.from), to: moment(step.to) }).collect();
    let commands = chronicle.commands(MOST_COMMANDS).into_iter().map(|command| Commanded {
        command: lossy(&command.name),
        processes: command.processes,
        cpu_seconds: rounded(command.cpu_seconds),
        run_queue_seconds: rounded(command.run_queue_seconds),
        disk_seconds: rounded(command.disk_seconds),
        lock_seconds: rounded(command.lock_seconds),
    });
    let report = Told {
        check: Check::of(window),
        intervals: chronicle.intervals(),
        intervals_per_step: chronicle.steps().each(),
        steps,
        charts: chronicle.charts(),
        commands: commands.collect(),
        marks: chronicle.marks.iter().map(|mark| Marked { at: moment(mark.at), text: mark.text.clone() }).collect(),
        gaps: chronicle.holes.iter().map(Missed::of).collect(),
        cut: chronicle.cut,
    };
    plain(&serde_json::to_string(&report).unwrap_or_default()) + "\n"
}

/// Rows of commands in a report.
const MOST_COMMANDS: usize = 50;

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    check: Check,
    intervals: u64,
    intervals_per_step: usize,
    steps: Vec<Stretch>,
    charts: Vec<Chart>,
    commands: Vec<Commanded>,
    marks: Vec<Marked>,
    gaps: Vec<Missed>,
    /// Why it may not reach as far as it was recorded
    cut: Option<&'static str>,
}

#[derive(Serialize)]
struct Stretch {
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Commanded {
    command: String,
    processes: u32,
    cpu_seconds: f64,
    run_queue_seconds: f64,
    disk_seconds: f64,
    lock_seconds: f64,
}

#[derive(Serialize)]
struct Marked {
    at: String,
    text: String,
}

#[derive(Serialize)]
struct Missed {
    from: String,
    to: String,
    samples: u64,
    why: String,
}

impl Missed {
    fn of(hole: &Hole) -> Missed {
        Missed { from: moment(hole.from), to: moment(hole.to), samples: hole.lost, why: hole.why.clone() }
    }
}

/// JSON escapes what lies below U+0020 only; the rest of what acts on a terminal, or hides, can stand in strings alone.
pub(super) fn plain(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Into memory: cannot fail.
                let _ = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(c);
        }
    }
    plain
}

/// How bad it is altogether. A note is nothing wrong.
pub fn verdict(worst: Option<Severity>) -> &'static str {
    match worst {
        Some(Severity::Critical) => "critical",
        Some(Severity::Warning) => "warning",
        Some(Severity::Note) | None => "ok",
    }
}

/// RFC 3339 in UTC, with milliseconds.
pub fn moment(at: Instant) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(at.realtime_ns)) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => String::new(),
    }
}

#[derive(Serialize)]
struct Check {
    schema: &'static str,
    host: Option<String>,
    from: Option<String>,
    to: Option<String>,
    verdict: &'static str,
    figures: Figures,
    witnesses: Testimony,
    findings: Vec<Reported>,
    absent: Vec<Missing>,
}

impl Check {
    fn of(window: &Window) -> Check {
        let (from, to) = window.span().map_or((None, None), |(from, to)| (Some(moment(from)), Some(moment(to))));
        Check {
            schema: "stalltop/1",
            host: window.host().map(|host| lossy(&host.hostname)),
            from,
            to,
            verdict: if window.is_empty() { "unknown" } else { verdict(window.worst()) },
            figures: window.figures(),
            witnesses: Testimony::of(window),
            findings: window.findings().into_iter().map(Reported::of).collect(),
            absent: window.absent().into_iter().map(|(what, why)| Missing { what, why }).collect(),
        }
    }
}

/// What the classic tools say of the same time; `iowait_ratio` stands among the figures.
#[derive(Serialize)]
struct Testimony {
    psi_io_some_ratio: Option<f64>,
    d_threads: Option<f64>,
    in_flight: Option<f64>,
    run_queue_wait_threads: Option<f64>,
    /// Where iowait or PSI speak of nothing
    artefact: Option<String>,
}

impl Testimony {
    fn of(window: &Window) -> Testimony {
        let seen = window.witnesses();
        Testimony {
            psi_io_some_ratio: seen.and_then(|seen| seen.psi_io_some),
            d_threads: seen.map(|seen| seen.d_threads),
            in_flight: seen.and_then(|seen| seen.in_flight),
            run_queue_wait_threads: seen.and_then(|seen| seen.run_queue_wait),
            artefact: window.artefact(),
        }
    }
}

#[derive(Serialize)]
struct Missing {
    what: &'static str,
    why: String,
}

#[derive(Serialize)]
pub(super) struct Reported {
    kind: Kind,
    severity: Severity,
    subject: About,
    value: f64,
    threshold: f64,
    unit: &'static str,
    sentence: String,
    since: String,
    until: Option<String>,
    explains_ratio: f64,
    evidence: Witnesses,
    next: Vec<String>,
}

impl Reported {
    pub(super) fn of(finding: &Finding) -> Reported {
        Reported {
            kind: finding.kind,
            severity: finding.severity,
            subject: About::of(&finding.subject),
            value: finding.value,
            threshold: finding.threshold,
            unit: finding.unit,
            sentence: finding.sentence.clone(),
            since: moment(finding.since),
            until: finding.until.map(moment),
            explains_ratio: finding.explains,
            evidence: Witnesses(finding.evidence.clone()),
            next: finding.next.clone(),
        }
    }
}

/// What a finding is about: `type` says which of the other fields there are.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum About {
    Box,
    Cpu { cpu: u32 },
    Disk { name: String, device: String },
    Nic { name: String, ifindex: u32 },
    Task { name: String, pid: u32, tid: u32 },
    Group { name: String, pid: Option<u32>, parent: Option<u32> },
    Cgroup { path: String, version: u8 },
    Socket { address: String },
    Peer { address: String },
}

impl About {
    fn of(subject: &Subject) -> About {
        match subject {
            Subject::Box => About::Box,
            Subject::Cpu(id) => About::Cpu { cpu: id.0 },
            Subject::Disk { id, name } => About::Disk { name: lossy(name), device: format!("{}:{}", id.major, id.minor) },
            Subject::Nic(id) => About::Nic { name: lossy(&id.name), ifindex: id.ifindex },
            Subject::Task { id, name } => About::Task { name: lossy(name), pid: id.pid, tid: id.tid },
            Subject::Group { id: GroupId::Process(id), name } => {
                About::Group { name: lossy(name), pid: Some(id.pid), parent: None }
            }
            Subject::Group { id: GroupId::Siblings { parent, .. }, name } => {
                About::Group { name: lossy(name), pid: None, parent: Some(*parent) }
            }
            Subject::Cgroup(id) => {
                About::Cgroup { path: lossy(&id.path), version: if id.version == CgroupVersion::V1 { 1 } else { 2 } }
            }
            Subject::Socket(address) => About::Socket { address: lossy(address) },
            Subject::Peer(address) => About::Peer { address: lossy(address) },
        }
    }
}

/// Evidence as one object, in the order in which the rule gave it.
struct Witnesses(Vec<Evidence>);

impl Serialize for Witnesses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for evidence in &self.0 {
            match &evidence.value {
                Value::Number(number) => map.serialize_entry(evidence.name, number)?,
                Value::Text(text) => map.serialize_entry(evidence.name, &lossy(text))?,
                Value::Chain(links) => map.serialize_entry(evidence.name, links)?,
                Value::Unknown => map.serialize_entry(evidence.name, &None::<f64>)?,
            }
        }
        map.end()
    }
}

/// Names are bytes; what is no UTF-8 becomes U+FFFD.
pub(super) fn lossy(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DiskId, TaskId};

    fn finding(subject: Subject, evidence: Vec<Evidence>) -> Finding {
        Finding {
            kind: Kind::DiskLatency,
            severity: Severity::Warning,
            subject,
            since: Instant { realtime_ns: 1_800_000_000_123_456_789, ..Instant::default() },
            until: None,
            value: 13.9,
            threshold: 3.0,
            unit: "ratio",
            sentence: "sdb \"writes\"\u{1b}[31m".to_owned(),
            evidence,
            next: Vec::new(),
            explains: 0.5,
        }
    }

    #[test]
    fn a_finding_is_one_object_that_a_parser_reads() {
        let subject = Subject::Disk { id: DiskId { major: 8, minor: 16 }, name: Name::from("sdb") };
        let evidence = vec![
            Evidence { name: "await_seconds", value: Value::Number(0.1087) },
            Evidence { name: "queue", value: Value::Unknown },
            Evidence { name: "nan", value: Value::Number(f64::NAN) },
        ];
        let text = serde_json::to_string(&Reported::of(&finding(subject, evidence))).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["kind"], "disk-latency");
        assert_eq!(parsed["severity"], "warning");
        assert_eq!(parsed["subject"], serde_json::json!({"type": "disk", "name": "sdb", "device": "8:16"}));
        assert_eq!(parsed["since"], "2027-01-15T08:00:00.123Z");
        assert_eq!(parsed["until"], serde_json::Value::Null);
        assert_eq!(parsed["evidence"], serde_json::json!({"await_seconds": 0.1087, "queue": null, "nan": null}));
    }

    #[test]
    fn names_that_are_no_text_stay_json() {
        let id = TaskId { pid: 1, tid: 2, start_ticks: 3 };
        let subject = Subject::Task { id, name: Name::from(&b"a\xffb\n\""[..]) };
        let text = serde_json::to_string(&Reported::of(&finding(subject, Vec::new()))).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["subject"]["name"], "a\u{fffd}b\n\"");
    }

    #[test]
    fn nothing_seen_is_unknown_not_ok() {
        let parsed: serde_json::Value = serde_json::from_str(&check(&Window::default())).unwrap();
        assert_eq!((&parsed["verdict"], &parsed["figures"]["busy_ratio"]), (&"unknown".into(), &serde_json::Value::Null));
    }
}
