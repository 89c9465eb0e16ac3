//! JSON: schema `stalltop/1`. Names as in docs/metrics.md, units in the name's suffix, unknown as null. Keys are only added.

use std::fmt::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::formatting::{overall_status, rfc3339};
use super::mean_figures::MeanFigures;
use super::report_data::steps::round_to_five_digits;
use super::report_data::{Chart, Gap, ReportData};
use super::window::Window;
use crate::findings::{Evidence, Finding, Kind, Severity, Subject, Value};
use crate::ids::{CgroupVersion, GroupId, is_unprintable};
use crate::interval::cgroup_names::{CgroupName, NameKind};

/// `check --json`: one object, one line.
pub fn check(window: &Window) -> String {
    to_line(&CheckJson::new(window))
}

/// One object, one line.
pub(super) fn to_line(object: &impl Serialize) -> String {
    // Strings, numbers and lists cannot fail to become JSON.
    escape_unprintable(&serde_json::to_string(object).unwrap_or_default()) + "\n"
}

/// `report --format json`: one object, one line.
pub fn report(data: &ReportData) -> String {
    let window = &data.window;
    let steps: Vec<StepJson> =
        data.steps().iter().map(|step| StepJson { from: rfc3339(step.from), to: rfc3339(step.to) }).collect();
    let commands = data.top_commands(MAX_COMMANDS).into_iter().map(|command| CommandJson {
        command: command.name.to_string_lossy(),
        processes: command.processes,
        cpu_seconds: round_to_five_digits(command.cpu_seconds),
        run_queue_seconds: round_to_five_digits(command.run_queue_seconds),
        disk_seconds: round_to_five_digits(command.disk_seconds),
        lock_seconds: round_to_five_digits(command.lock_seconds),
    });
    let report = ReportJson {
        check: CheckJson::new(window),
        intervals: data.intervals(),
        intervals_per_step: data.steps().intervals_per_step(),
        steps,
        charts: data.charts(),
        commands: commands.collect(),
        marks: data.marks.iter().map(|mark| MarkJson { at: rfc3339(mark.at), text: mark.text.clone() }).collect(),
        gaps: data.gaps.iter().map(GapJson::new).collect(),
        cut: data.truncation,
    };
    to_line(&report)
}

/// Rows of commands in a report.
const MAX_COMMANDS: usize = 50;

#[derive(Serialize)]
struct ReportJson {
    #[serde(flatten)]
    check: CheckJson,
    intervals: u64,
    intervals_per_step: usize,
    steps: Vec<StepJson>,
    charts: Vec<Chart>,
    commands: Vec<CommandJson>,
    marks: Vec<MarkJson>,
    gaps: Vec<GapJson>,
    /// Why the end of the recording may be missing
    cut: Option<&'static str>,
}

#[derive(Serialize)]
struct StepJson {
    from: String,
    to: String,
}

#[derive(Serialize)]
struct CommandJson {
    command: String,
    processes: u32,
    cpu_seconds: f64,
    run_queue_seconds: f64,
    disk_seconds: f64,
    lock_seconds: f64,
}

#[derive(Serialize)]
struct MarkJson {
    at: String,
    text: String,
}

#[derive(Serialize)]
struct GapJson {
    from: String,
    to: String,
    samples: u64,
    why: String,
}

impl GapJson {
    fn new(gap: &Gap) -> GapJson {
        GapJson { from: rfc3339(gap.from), to: rfc3339(gap.to), samples: gap.missing_samples, why: gap.reason.clone() }
    }
}

/// JSON escapes only characters below U+0020; this escapes the other unprintable ones in strings.
pub fn escape_unprintable(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(c);
        }
    }
    plain
}

#[derive(Serialize)]
pub(super) struct CheckJson {
    schema: &'static str,
    host: Option<String>,
    from: Option<String>,
    to: Option<String>,
    verdict: &'static str,
    figures: MeanFigures,
    cross_checks: CrossChecksJson,
    findings: Vec<FindingJson>,
    absent: Vec<AbsentJson>,
}

impl CheckJson {
    pub(super) fn new(window: &Window) -> CheckJson {
        let (from, to) = window.time_range().map_or((None, None), |(from, to)| (Some(rfc3339(from)), Some(rfc3339(to))));
        CheckJson {
            schema: "stalltop/1",
            host: window.host().map(|host| host.hostname.to_string_lossy()),
            from,
            to,
            verdict: if window.is_empty() { "unknown" } else { overall_status(window.worst_severity()) },
            figures: window.figures(),
            cross_checks: CrossChecksJson::new(window),
            findings: window.findings().into_iter().map(FindingJson::new).collect(),
            absent: window.absent().into_iter().map(|(what, why)| AbsentJson { what, why }).collect(),
        }
    }
}

/// Other measures of the same time; `iowait_ratio` is among the figures.
#[derive(Serialize)]
struct CrossChecksJson {
    psi_io_some_ratio: Option<f64>,
    d_threads: Option<f64>,
    in_flight: Option<f64>,
    run_queue_wait_threads: Option<f64>,
    /// A sentence if iowait or PSI are an artefact
    artefact: Option<String>,
}

impl CrossChecksJson {
    fn new(window: &Window) -> CrossChecksJson {
        let seen = window.cross_checks();
        CrossChecksJson {
            psi_io_some_ratio: seen.and_then(|seen| seen.psi_io_some),
            d_threads: seen.map(|seen| seen.d_threads),
            in_flight: seen.and_then(|seen| seen.in_flight),
            run_queue_wait_threads: seen.and_then(|seen| seen.run_queue_wait),
            artefact: window.artefact(),
        }
    }
}

#[derive(Serialize)]
struct AbsentJson {
    what: &'static str,
    why: String,
}

#[derive(Serialize)]
pub(super) struct FindingJson {
    kind: Kind,
    severity: Severity,
    subject: SubjectJson,
    value: f64,
    threshold: f64,
    unit: &'static str,
    sentence: String,
    since: String,
    until: Option<String>,
    explains_ratio: f64,
    evidence: EvidenceJson,
    next: Vec<String>,
    /// The active finding that is its cause
    follows_from: Option<FindingKeyJson>,
}

/// The kind and the subject of a finding.
#[derive(Serialize)]
struct FindingKeyJson {
    kind: Kind,
    subject: SubjectJson,
}

impl FindingJson {
    pub(super) fn new(finding: &Finding) -> FindingJson {
        FindingJson {
            kind: finding.kind,
            severity: finding.severity,
            subject: SubjectJson::new(&finding.subject, finding.cgroup_name.as_deref()),
            value: finding.value,
            threshold: finding.threshold,
            unit: finding.unit,
            sentence: finding.sentence.clone(),
            since: rfc3339(finding.since),
            until: finding.until.map(rfc3339),
            explains_ratio: finding.explained_share,
            evidence: EvidenceJson(finding.evidence.clone()),
            next: finding.next.clone(),
            follows_from: finding
                .follows_from
                .as_ref()
                .map(|cause| FindingKeyJson { kind: cause.kind, subject: SubjectJson::new(&cause.subject, None) }),
        }
    }
}

/// The subject of a finding; `type` determines the other fields.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum SubjectJson {
    /// The whole host
    Host,
    Cpu {
        cpu: u32,
    },
    Disk {
        name: String,
        device: String,
    },
    Nic {
        name: String,
        ifindex: u32,
    },
    Task {
        name: String,
        pid: u32,
        tid: u32,
    },
    Group {
        name: String,
        pid: Option<u32>,
        parent: Option<u32>,
    },
    Cgroup {
        path: String,
        version: u8,
        #[serde(flatten)]
        owner: CgroupOwnerJson,
    },
    Socket {
        address: String,
    },
    Peer {
        address: String,
    },
    Limit {
        limit: String,
    },
    NetworkNamespace {
        owner: String,
        inode: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
}

/// The container, pod or unit of a cgroup, where it is known.
#[derive(Default, Serialize)]
struct CgroupOwnerJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}

impl CgroupOwnerJson {
    fn new(name: &CgroupName) -> CgroupOwnerJson {
        let own = Some(name.name.clone());
        match name.kind {
            NameKind::Container => CgroupOwnerJson {
                container: own,
                runtime: name.detail.clone(),
                pod: name.pod.clone(),
                ..CgroupOwnerJson::default()
            },
            NameKind::Pod => CgroupOwnerJson { pod: own, ..CgroupOwnerJson::default() },
            NameKind::Unit => CgroupOwnerJson { unit: own, ..CgroupOwnerJson::default() },
            NameKind::Path => CgroupOwnerJson::default(),
        }
    }
}

impl SubjectJson {
    /// `name`: what a cgroup is named after.
    fn new(subject: &Subject, name: Option<&CgroupName>) -> SubjectJson {
        match subject {
            Subject::Host => SubjectJson::Host,
            Subject::Cpu(id) => SubjectJson::Cpu { cpu: id.0 },
            Subject::Disk { id, name } => {
                SubjectJson::Disk { name: name.to_string_lossy(), device: format!("{}:{}", id.major, id.minor) }
            }
            Subject::Nic(id) => SubjectJson::Nic { name: id.name.to_string_lossy(), ifindex: id.ifindex },
            Subject::Task { id, name } => SubjectJson::Task { name: name.to_string_lossy(), pid: id.pid, tid: id.tid },
            Subject::Group { id: GroupId::Process(id), name } => {
                SubjectJson::Group { name: name.to_string_lossy(), pid: Some(id.pid), parent: None }
            }
            Subject::Group { id: GroupId::Siblings { parent, .. }, name } => {
                SubjectJson::Group { name: name.to_string_lossy(), pid: None, parent: Some(*parent) }
            }
            Subject::Cgroup(id) => SubjectJson::Cgroup {
                path: id.path.to_string_lossy(),
                version: if id.version == CgroupVersion::V1 { 1 } else { 2 },
                owner: name.map(CgroupOwnerJson::new).unwrap_or_default(),
            },
            Subject::Socket(address) => SubjectJson::Socket { address: address.to_string_lossy() },
            Subject::RemoteHost(address) => SubjectJson::Peer { address: address.to_string_lossy() },
            Subject::Limit(limit) => SubjectJson::Limit { limit: limit.to_string_lossy() },
            Subject::NetworkNamespace { inode, owner, nic } => SubjectJson::NetworkNamespace {
                owner: owner.to_string_lossy(),
                inode: *inode,
                interface: nic.as_ref().map(|nic| nic.name.to_string_lossy()),
            },
        }
    }
}

/// Evidence as one object, in the order in which the rule gave it.
struct EvidenceJson(Vec<Evidence>);

impl Serialize for EvidenceJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for evidence in &self.0 {
            match &evidence.value {
                Value::Number(number) => map.serialize_entry(evidence.name, number)?,
                Value::Text(text) => map.serialize_entry(evidence.name, &text.to_string_lossy())?,
                Value::Chain(links) => map.serialize_entry(evidence.name, links)?,
                Value::Unknown => map.serialize_entry(evidence.name, &None::<f64>)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CgroupId, DiskId, TaskId};
    use crate::sample::{Instant, Name};

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
            explained_share: 0.5,
            cgroup_name: None,
            follows_from: None,
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
        let text = serde_json::to_string(&FindingJson::new(&finding(subject, evidence))).unwrap();
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
    fn a_cgroup_has_its_container_or_unit() {
        let id = CgroupId { version: CgroupVersion::V2, path: Name::from("/some/path") };
        let mut found = finding(Subject::Cgroup(id), Vec::new());
        let mut subject = |name: Option<CgroupName>| {
            found.cgroup_name = name.map(Box::new);
            serde_json::to_value(FindingJson::new(&found)).unwrap()["subject"].clone()
        };
        let named = |kind, name: &str| CgroupName { kind, name: name.into(), detail: None, pod: None, below: String::new() };
        let web = CgroupName { detail: Some("docker".into()), ..named(NameKind::Container, "web-1") };
        let plain = serde_json::json!({"type": "cgroup", "path": "/some/path", "version": 2});
        let with = |key: &str, value: &str| {
            let mut with = plain.clone();
            with[key] = value.into();
            with
        };
        assert_eq!((subject(None), subject(Some(named(NameKind::Path, "/some/path")))), (plain.clone(), plain.clone()));
        assert_eq!(subject(Some(named(NameKind::Unit, "nginx.service"))), with("unit", "nginx.service"));
        let mut expected = with("container", "web-1");
        expected["runtime"] = "docker".into();
        assert_eq!(subject(Some(web)), expected);
    }

    #[test]
    fn names_that_are_no_text_stay_json() {
        let id = TaskId { pid: 1, tid: 2, start_ticks: 3 };
        let subject = Subject::Task { id, name: Name::from(&b"a\xffb\n\""[..]) };
        let text = serde_json::to_string(&FindingJson::new(&finding(subject, Vec::new()))).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["subject"]["name"], "a\u{fffd}b\n\"");
    }

    #[test]
    fn nothing_seen_is_unknown_not_ok() {
        let parsed: serde_json::Value = serde_json::from_str(&check(&Window::default())).unwrap();
        assert_eq!((&parsed["verdict"], &parsed["figures"]["busy_ratio"]), (&"unknown".into(), &serde_json::Value::Null));
    }
}
