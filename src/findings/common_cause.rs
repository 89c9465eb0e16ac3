//! What several hosts with one problem have in common: the kind of a finding and what it is about, in words that are the same on each
//! host. No figures, no pids, no numbers of CPUs.

use super::finding::{Evidence, Finding, Kind, Subject, Value};
use super::formatting::lossy_name;
use super::rules::RULES;
use crate::sample::Name;

/// `idle but blocked behind fsync on sdb`, `disk latency above baseline: sdb`. Names in it are not escaped.
pub fn common_cause(finding: &Finding) -> String {
    match finding.kind {
        Kind::IdleButBlocked => idle_but_blocked(&finding.evidence),
        kind => {
            let title = RULES.iter().find(|rule| rule.kind == kind).map_or(kind.as_str(), |rule| rule.title);
            match subject(finding) {
                Some(name) => format!("{}: {name}", in_sentence(title)),
                None => in_sentence(title),
            }
        }
    }
}

/// What the threads wait for: the call of the thread at the end of the chain, and its device; or the holder of the lock.
fn idle_but_blocked(evidence: &[Evidence]) -> String {
    let text = |name: &str| {
        evidence.iter().find(|entry| entry.name == name).and_then(|entry| match &entry.value {
            Value::Text(text) => Some(lossy_name(text)),
            Value::Number(_) | Value::Chain(_) | Value::Unknown => None,
        })
    };
    let place = text("holder_place").map(|place| call_of(&place).to_owned());
    let device = text("device").map_or_else(String::new, |device| format!(" on {device}"));
    match (place, text("group")) {
        (Some(call), _) => format!("idle but blocked behind {call}{device}"),
        (None, Some(group)) if device.is_empty() => format!("idle but blocked: {group}"),
        (None, _) => format!("idle but blocked{device}"),
    }
}

/// `in fsync (jbd2_log_wait_commit)` → `fsync`
fn call_of(place: &str) -> &str {
    let place = place.strip_prefix("in ").or(place.strip_prefix("on ")).unwrap_or(place);
    place.split_once(" (").map_or(place, |(call, _)| call)
}

/// What the finding is about, where another host may have the same.
fn subject(finding: &Finding) -> Option<String> {
    let named = |name: &Name| Some(lossy_name(name)).filter(|name| !name.is_empty());
    match &finding.subject {
        Subject::Host | Subject::Cpu(_) => None,
        Subject::Disk { name, .. } | Subject::Task { name, .. } | Subject::Group { name, .. } => named(name),
        Subject::Nic(id) => named(&id.name),
        Subject::Cgroup(id) => match &finding.cgroup_name {
            Some(cgroup) => Some(cgroup.name.clone()),
            None => named(&id.path),
        },
        Subject::Socket(address) | Subject::RemoteHost(address) | Subject::Limit(address) => named(address),
        Subject::NetworkNamespace { owner, .. } => named(owner),
    }
}

/// A title within a sentence: abbreviations stay as they are.
fn in_sentence(title: &str) -> String {
    let mut characters = title.chars();
    let first = characters.next().map(|first| first.to_lowercase().collect::<String>()).unwrap_or_default();
    let is_abbreviation = title.chars().nth(1).is_some_and(|second| !second.is_lowercase());
    if is_abbreviation { title.to_owned() } else { first + characters.as_str() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;
    use crate::ids::{CpuId, DiskId};
    use crate::synthetic;

    fn finding(kind: Kind, subject: Subject, evidence: &[(&'static str, &str)]) -> Finding {
        let text = |&(name, text): &(&'static str, &str)| Evidence { name, value: Value::Text(Name::from(text)) };
        let evidence = evidence.iter().map(text).collect();
        Finding { evidence, ..synthetic::finding(kind, Severity::Warning, subject) }
    }

    #[test]
    fn two_hosts_with_one_problem_have_one_cause() {
        let blocked = |evidence| common_cause(&finding(Kind::IdleButBlocked, Subject::Host, evidence));
        let fsync = [("group", "postgres"), ("holder_place", "in fsync (jbd2_log_wait_commit)"), ("device", "sdb")];
        assert_eq!(blocked(&fsync), "idle but blocked behind fsync on sdb");
        assert_eq!(blocked(&[("group", "java"), ("holder_place", "on storage")]), "idle but blocked behind storage");
        assert_eq!(blocked(&[("group", "java")]), "idle but blocked: java");
        let disk = Subject::Disk { id: DiskId { major: 8, minor: 16 }, name: Name::from("sdb") };
        assert_eq!(common_cause(&finding(Kind::DiskLatency, disk, &[])), "disk latency above baseline: sdb");
        assert_eq!(common_cause(&finding(Kind::SaturatedCore, Subject::Cpu(CpuId(7)), &[])), "one core saturated");
        assert_eq!(common_cause(&finding(Kind::OomKill, Subject::Host, &[])), "OOM kill");
        assert_eq!(common_cause(&finding(Kind::HungTask, Subject::Host, &[])), "hung task");
    }
}
