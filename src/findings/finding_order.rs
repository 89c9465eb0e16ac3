//! The order of findings: each root cause, then what follows from it; refusals, losses and what explains most of the lost time first.
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
/// of the worst severity among them and their consequences, then of the share of the host that they explain; lost time and calls or
/// packets that fail come before used time. Those of `previous` keep their places unless the difference is clear.
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

    /// The largest share of time that a finding loses by waiting, not by use.
    fn lost_share(&self) -> f64 {
        self.members.iter().map(lost_share).fold(0.0, f64::max)
    }

    fn loses_time(&self) -> bool {
        self.lost_share() >= MIN_LOST_SHARE
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
            Margin::Clear if class.1 != other_class.1 => class.1 && self.lost_share() > MIN_LOST_SHARE + ORDER_MARGIN_SHARE,
            Margin::Clear => share > other_share * ORDER_MARGIN_RATIO + ORDER_MARGIN_SHARE,
        }
    }
}

/// The share of time that a finding loses by waiting: of the host, or, where that says little, of what waits. What fails, is lost or
/// stands still counts as all of it: how much of the host's time that costs is not known.
fn lost_share(finding: &Finding) -> f64 {
    match finding.kind {
        Kind::SaturatedCore | Kind::SaturatedThread | Kind::HiddenCpu | Kind::ShortLivedProcesses => 0.0,
        // CPUs in use without a queue, or by work that may wait.
        Kind::CpuSaturated if finding.severity == Severity::Note => 0.0,
        // A cgroup of a large host: its share of the time counts, not that of the host.
        Kind::CpuThrottled => finding.value.min(1.0),
        kind if fails_or_stops(kind) => 1.0,
        // Where threads wait, time is lost, whatever share of a large host it is.
        kind if waits(kind) && finding.severity > Severity::Note => finding.explained_share.max(LOST_SHARE_OF_WAITS),
        _ => finding.explained_share,
    }
}

/// Clearly above the bound of lost time.
const LOST_SHARE_OF_WAITS: f64 = MIN_LOST_SHARE + 2.0 * ORDER_MARGIN_SHARE;

/// Whether a kind of finding is about threads that wait instead of using idle CPUs, or for a CPU.
fn waits(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::IdleButBlocked | Kind::KernelLockContention | Kind::MemoryPressure | Kind::IoThrottled | Kind::CpuSaturated
    )
}

/// Whether a kind of finding is about calls or packets that fail, or threads that stand still, whose share of the host is not known.
fn fails_or_stops(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::LimitReached
            | Kind::OomKill
            | Kind::Deadlock
            | Kind::HungTask
            | Kind::TracedProcess
            | Kind::NicSaturated
            | Kind::TcpRetransmits
            | Kind::ListenOverflow
            | Kind::SynQueueOverflow
            | Kind::UdpOverflow
            | Kind::SendBlocked
            | Kind::ConnectBlocked
            | Kind::LookupBlocked
    )
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
    fn what_fails_or_is_throttled_comes_before_used_time_of_the_same_severity() {
        let busy = finding(Kind::SaturatedThread, 0, Severity::Warning, 0.5, None);
        let limit = finding(Kind::LimitReached, 1, Severity::Warning, 0.0, None);
        let lost = finding(Kind::TcpRetransmits, 2, Severity::Warning, 0.0, None);
        let throttled = |value| Finding { value, ..finding(Kind::CpuThrottled, 3, Severity::Warning, value / 4.0, None) };
        let all = |value| vec![busy.clone(), limit.clone(), lost.clone(), throttled(value)];
        let before = keys(&[throttled(0.8), lost.clone(), limit.clone(), busy.clone()]);
        assert_eq!(keys(&order(all(0.8), &[])), before);
        let seldom = keys(&[lost.clone(), limit.clone(), busy.clone(), throttled(0.1)]);
        assert_eq!(keys(&order(all(0.1), &[])), seldom, "seldom throttled");
        // A thread that was there before makes room at once.
        assert_eq!(
            keys(&order(vec![busy.clone(), limit.clone()], &keys(&[busy.clone(), limit.clone()]))),
            keys(&[limit, busy])
        );
    }

    #[test]
    fn full_cpus_without_a_queue_come_after_notes_of_lost_time() {
        let used = finding(Kind::CpuSaturated, 0, Severity::Note, 1.0, None);
        let waits = finding(Kind::IdleButBlocked, 1, Severity::Note, 0.3, None);
        assert_eq!(keys(&order(vec![used.clone(), waits.clone()], &[])), keys(&[waits, used]));
        let queue = finding(Kind::CpuSaturated, 0, Severity::Warning, 1.0, None);
        let waits = finding(Kind::IdleButBlocked, 1, Severity::Warning, 0.3, None);
        assert_eq!(keys(&order(vec![waits.clone(), queue.clone()], &[])), keys(&[queue, waits]), "with one threads wait");
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
