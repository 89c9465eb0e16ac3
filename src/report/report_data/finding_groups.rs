//! Repeated findings as one group each.

use std::collections::BTreeMap;

use crate::findings::{Finding, Severity};
use crate::report::formatting::{subject_label, subject_name};
use crate::sample::Instant;
use crate::units::SmallSort;

/// Findings of one kind about subjects of one name, in the order of time.
#[derive(Clone, Debug)]
pub struct FindingGroup<'a> {
    /// The worst one; of equals the one that explains most, then the longest
    pub representative: &'a Finding,
    /// All of them
    pub findings: Vec<&'a Finding>,
}

impl<'a> FindingGroup<'a> {
    /// Worst first. A finding that lasts ends with the recording, at `end`.
    pub fn group_by_subject(findings: &[&'a Finding], end: Instant) -> Vec<FindingGroup<'a>> {
        let mut by_name: BTreeMap<(&str, String), Vec<&'a Finding>> = BTreeMap::new();
        for finding in findings {
            by_name.entry((finding.kind.as_str(), subject_name(&finding.subject))).or_default().push(finding);
        }
        let foremost = |all: &[&'a Finding]| {
            let length = |finding: &Finding| finding.until.unwrap_or(end).seconds_since(finding.since);
            let more = |a: &&Finding, b: &&Finding| {
                a.severity
                    .cmp(&b.severity)
                    .then(a.explained_share.total_cmp(&b.explained_share))
                    .then(length(a).total_cmp(&length(b)))
            };
            all.iter().copied().max_by(|a, b| more(a, b))
        };
        let mut groups: Vec<FindingGroup> = by_name
            .into_values()
            .filter_map(|mut all| {
                all.small_sort_by_key(|finding| finding.since.boottime_ns);
                Some(FindingGroup { representative: foremost(&all)?, findings: all })
            })
            .collect();
        groups.small_sort_by(|a, b| {
            let (a, b) = (a.representative, b.representative);
            b.severity
                .cmp(&a.severity)
                .then(b.explained_share.total_cmp(&a.explained_share))
                .then(a.since.boottime_ns.cmp(&b.since.boottime_ns))
        });
        groups
    }

    pub fn severity(&self) -> Severity {
        self.representative.severity
    }

    /// The subject; with its number only if it is the same each time.
    pub fn subject(&self) -> String {
        let own = subject_label(&self.representative.subject);
        let same = self.findings.iter().all(|finding| subject_label(&finding.subject) == own);
        if same { own } else { subject_name(&self.representative.subject) }
    }

    /// The total duration.
    pub fn total_seconds(&self, end: Instant) -> f64 {
        self.findings.iter().map(|finding| finding.until.unwrap_or(end).seconds_since(finding.since)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Kind, Subject};
    use crate::ids::TaskId;
    use crate::sample::Name;
    use crate::synthetic;

    fn at(second: u64) -> Instant {
        let ns = second * 1_000_000_000;
        Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: i64::try_from(ns).unwrap() }
    }

    fn finding(name: &str, pid: u32, severity: Severity, explains: f64, since: u64, until: Option<u64>) -> Finding {
        let subject = Subject::Task { id: TaskId { pid, tid: pid, start_ticks: 0 }, name: Name::from(name) };
        Finding {
            since: at(since),
            until: until.map(at),
            sentence: format!("{name} {since}"),
            explained_share: explains,
            ..synthetic::finding(Kind::SaturatedCore, severity, subject)
        }
    }

    #[test]
    fn what_came_again_is_one_and_the_worst_of_it_stands_for_all() {
        let all = [
            finding("make", 1, Severity::Note, 0.9, 50, Some(60)),
            finding("cc1", 3, Severity::Warning, 0.5, 40, None),
            finding("cc1", 2, Severity::Note, 0.7, 10, Some(15)),
            finding("cc1", 4, Severity::Warning, 0.6, 20, Some(30)),
        ];
        let groups = FindingGroup::group_by_subject(&all.iter().collect::<Vec<_>>(), at(100));
        let labels: Vec<_> = groups
            .iter()
            .map(|group| (group.subject(), group.representative.sentence.as_str(), group.findings.len()))
            .collect();
        assert_eq!(labels, [("cc1".to_owned(), "cc1 20", 3), ("make (1)".to_owned(), "make 50", 1)]);
        let begins: Vec<u64> = groups[0].findings.iter().map(|finding| finding.since.boottime_ns / 1_000_000_000).collect();
        assert_eq!((begins, groups[0].total_seconds(at(100))), (vec![10, 20, 40], 5.0 + 10.0 + 60.0));
    }
}
