//! The order of findings: each root cause, then what follows from it; what explains most of the lost time first.
//! docs/metrics.md, "Causes and order".

use std::collections::BTreeMap;

use super::finding::{Finding, FindingKey, Kind, Severity};
use crate::units::SmallSort;

/// A finding of lost time comes before one of used time if it explains at least this share of the host.
const MIN_LOST_SHARE: f64 = 0.25;

/// By how much the share that a finding explains must exceed that of the one before it, to change places with it.
const ORDER_MARGIN_RATIO: f64 = 1.25;
const ORDER_MARGIN_SHARE: f64 = 0.05;

/// Findings in the order in which to read them: each root cause, followed by what follows from it. Root causes are in the order
/// of the worst severity among them and their consequences, then of the share of the host that they explain; lost time comes
/// before used time. Those of `previous` keep their places unless the difference is clear.
pub fn order(findings: Vec<Finding>, previous: &[FindingKey]) -> Vec<Finding> {
    let mut incidents: Vec<Incident> = Vec::new();
    let (roots, consequences): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| finding.follows_from.is_none());
    let mut root_of: BTreeMap<FindingKey, usize> = BTreeMap::new();
    for (at, root) in roots.into_iter().enumerate() {
        root_of.insert(root.key(), at);
        incidents.push(Incident { place: None, members: vec![root] });
    }
    let mut left = consequences;
    left.small_sort_by(by_weight);
    while !left.is_empty() {
        let before = left.len();
        let mut later = Vec::new();
        for finding in left {
            let root = finding.follows_from.as_ref().and_then(|cause| root_of.get(cause).copied());
            match root.and_then(|at| Some((at, incidents.get_mut(at)?))) {
                Some((at, incident)) => {
                    root_of.insert(finding.key(), at);
                    incident.members.push(finding);
                }
                None => later.push(finding),
            }
        }
        // Two findings that name each other, or a cause that ended: they are root causes.
        if later.len() == before {
            let alone = |finding| Incident { place: None, members: vec![Finding { follows_from: None, ..finding }] };
            incidents.extend(later.drain(..).map(alone));
        }
        left = later;
    }
    let places: BTreeMap<&FindingKey, usize> = previous.iter().enumerate().map(|(at, key)| (key, at)).collect();
    for incident in &mut incidents {
        incident.place = incident.members.first().and_then(|root| places.get(&root.key()).copied());
    }
    incidents.small_sort_by_key(|incident| incident.place.unwrap_or(usize::MAX));
    // Insertion: an incident passes those before it only where it clearly outweighs them.
    for end in 1..incidents.len() {
        let mut at = end;
        while at > 0
            && incidents.get(at).zip(incidents.get(at - 1)).is_some_and(|(this, before)| {
                let margin = if this.place.is_some() && before.place.is_some() { Margin::Clear } else { Margin::Any };
                this.outweighs(before, margin)
            })
        {
            incidents.swap(at, at - 1);
            at -= 1;
        }
    }
    incidents.into_iter().flat_map(|incident| incident.members).collect()
}

/// A root cause and what follows from it.
struct Incident {
    /// Place of its root cause after the last interval
    place: Option<usize>,
    /// The root cause first
    members: Vec<Finding>,
}

/// By how much one incident must outweigh another to come before it.
#[derive(Clone, Copy)]
enum Margin {
    Any,
    Clear,
}

impl Incident {
    fn severity(&self) -> Option<Severity> {
        self.members.iter().map(|finding| finding.severity).max()
    }

    /// The share of the host that it explains
    fn share(&self) -> f64 {
        self.members.iter().map(|finding| finding.explained_share).fold(0.0, f64::max)
    }

    /// Whether much of the host's time is lost by waiting, not used.
    fn loses_time(&self) -> bool {
        let lost = |finding: &Finding| !is_used_time(finding.kind) && finding.explained_share >= MIN_LOST_SHARE;
        self.members.iter().any(lost)
    }

    fn outweighs(&self, other: &Incident, margin: Margin) -> bool {
        let (class, other_class) = ((self.severity(), self.loses_time()), (other.severity(), other.loses_time()));
        let (share, other_share) = (self.share(), other.share());
        match margin {
            _ if class.0 != other_class.0 => class.0 > other_class.0,
            Margin::Any if class.1 != other_class.1 => class.1,
            Margin::Any if share == other_share => match (self.members.first(), other.members.first()) {
                (Some(this), Some(other)) => this.key() < other.key(),
                _ => false,
            },
            Margin::Any => share > other_share,
            // A share near the bound of lost time must not change the order either.
            Margin::Clear if class.1 != other_class.1 => class.1 && share > MIN_LOST_SHARE + ORDER_MARGIN_SHARE,
            Margin::Clear => share > other_share * ORDER_MARGIN_RATIO + ORDER_MARGIN_SHARE,
        }
    }
}

/// Whether a kind of finding is about CPU time that is used.
fn is_used_time(kind: Kind) -> bool {
    matches!(kind, Kind::SaturatedCore | Kind::SaturatedThread | Kind::HiddenCpu | Kind::ShortLivedProcesses)
}

fn by_weight(a: &Finding, b: &Finding) -> std::cmp::Ordering {
    let worst = b.severity.cmp(&a.severity).then(b.explained_share.total_cmp(&a.explained_share));
    worst.then_with(|| a.key().cmp(&b.key()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::findings::finding::Subject;
    use crate::ids::CpuId;
    use crate::synthetic;

    /// About CPU `cpu`; `cause` is the CPU of its cause.
    fn finding(kind: Kind, cpu: u32, severity: Severity, share: f64, cause: Option<u32>) -> Finding {
        let subject = |cpu: u32| Subject::Cpu(CpuId(cpu));
        Finding {
            explained_share: share,
            follows_from: cause.map(|cause| FindingKey { kind, subject: subject(cause) }),
            ..synthetic::finding(kind, severity, subject(cpu))
        }
    }

    fn keys(findings: &[Finding]) -> Vec<FindingKey> {
        findings.iter().map(Finding::key).collect()
    }

    #[test]
    fn lost_time_comes_before_used_time_and_the_worst_incident_first() {
        let convoy = finding(Kind::IdleButBlocked, 0, Severity::Warning, 0.47, None);
        let busy = finding(Kind::SaturatedThread, 1, Severity::Warning, 0.5, None);
        let small = finding(Kind::DiskLatency, 2, Severity::Warning, 0.1, None);
        let full = finding(Kind::NicSaturated, 3, Severity::Critical, 0.0, None);
        let order = order(vec![busy.clone(), small.clone(), convoy.clone(), full.clone()], &[]);
        assert_eq!(keys(&order), keys(&[full, convoy, busy, small]));
    }

    #[test]
    fn a_consequence_raises_the_place_of_its_cause() {
        let memory = finding(Kind::IdleButBlocked, 0, Severity::Warning, 0.1, None);
        let blocked = finding(Kind::IdleButBlocked, 1, Severity::Critical, 0.8, Some(0));
        let disk = finding(Kind::IdleButBlocked, 2, Severity::Note, 0.0, Some(1));
        let busy = finding(Kind::SaturatedThread, 3, Severity::Warning, 0.5, None);
        let order = order(vec![busy.clone(), disk.clone(), blocked.clone(), memory.clone()], &[]);
        assert_eq!(keys(&order), keys(&[memory, blocked, disk, busy]));
    }

    #[test]
    fn two_causes_change_places_only_where_the_difference_is_clear() {
        let pair = |first: f64, second: f64| {
            let disk = |cpu, share| finding(Kind::DiskLatency, cpu, Severity::Warning, share, None);
            vec![disk(0, first), disk(1, second)]
        };
        let first = |order: Vec<Finding>| order[0].subject.clone();
        let order_now = keys(&order(pair(0.5, 0.45), &[]));
        assert_eq!(first(order(pair(0.45, 0.5), &order_now)), Subject::Cpu(CpuId(0)), "as before");
        assert_eq!(first(order(pair(0.2, 0.6), &order_now)), Subject::Cpu(CpuId(1)), "clearly more");
        assert_eq!(first(order(pair(0.2, 0.6), &[])), Subject::Cpu(CpuId(1)));
    }

    const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Critical];

    proptest! {
        #[test]
        fn nothing_is_lost_and_causes_come_first(
            list in prop::collection::vec((0_usize..3, 0.0..1.0_f64, prop::option::of(0_u32..12)), 0..12),
        ) {
            let findings: Vec<Finding> = list
                .iter()
                .zip(0..)
                .map(|(&(severity, share, cause), cpu)| finding(Kind::DiskLatency, cpu, SEVERITIES[severity], share, cause))
                .collect();
            let ordered = order(findings.clone(), &[]);
            let (mut before, mut after) = (keys(&findings), keys(&ordered));
            for (at, finding) in ordered.iter().enumerate() {
                let Some(cause) = &finding.follows_from else { continue };
                let place = ordered[..at].iter().rposition(|other| other.key() == *cause);
                prop_assert!(place.is_some(), "{:?} stands before its cause", finding.subject);
                let between = &ordered[place.unwrap_or(at)..at];
                prop_assert!(between.iter().skip(1).all(|other| other.follows_from.is_some()), "another incident between");
            }
            prop_assert_eq!(keys(&order(findings, &after)), after.clone(), "the order is not steady");
            before.sort();
            after.sort();
            prop_assert_eq!(before, after);
        }
    }
}
