//! A finding as JSON: its subject, its evidence, its cause.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::findings::{Evidence, Finding, Kind, Severity, Subject, Value};
use crate::ids::{CgroupVersion, GroupId};
use crate::interval::cgroup_names::{CgroupName, NameKind};
use crate::report::formatting::rfc3339;

#[derive(Serialize)]
pub struct FindingJson {
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
    pub fn new(finding: &Finding) -> FindingJson {
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
    use crate::synthetic;

    fn finding(subject: Subject, evidence: Vec<Evidence>) -> Finding {
        Finding {
            since: Instant { realtime_ns: 1_800_000_000_123_456_789, ..Instant::default() },
            value: 13.9,
            threshold: 3.0,
            sentence: "sdb \"writes\"\u{1b}[31m".to_owned(),
            evidence,
            explained_share: 0.5,
            ..synthetic::finding(Kind::DiskLatency, Severity::Warning, subject)
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
}
