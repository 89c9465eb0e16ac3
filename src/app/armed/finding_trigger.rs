//! Selects findings that start a capture or command: when they begin, and the same one at most once an hour.

use std::collections::BTreeSet;
use std::time::Duration;

use super::recent_triggers::RecentTriggers;
use crate::cli::finding_options::FindingSelector;
use crate::findings::{Finding, FindingKey, Kind};
use crate::report::formatting::subject_name;
use crate::sample::Instant;

/// A finding counts once it has lasted this long: during an event, intervals of 100 ms show what a second would not.
const MIN_AGE: Duration = Duration::from_millis(500);

/// Follows evaluated intervals.
#[derive(Debug)]
pub struct FindingTriggers {
    selectors: Vec<FindingSelector>,
    /// Active findings that were decided on, with CLOCK_BOOTTIME of their beginning
    decided: BTreeSet<(FindingKey, u64)>,
    /// By kind, and by what the subject is called: a program that restarts has another pid
    recent: RecentTriggers<(Kind, String)>,
}

impl FindingTriggers {
    pub fn new(selectors: Vec<FindingSelector>) -> FindingTriggers {
        FindingTriggers { selectors, decided: BTreeSet::new(), recent: RecentTriggers::default() }
    }

    /// Which of the active findings count at this time: selected ones, each once, and not within an hour of another one of the same
    /// kind and subject.
    pub fn update<'a>(&mut self, at: Instant, active: &'a [Finding]) -> Vec<&'a Finding> {
        let identity = |finding: &Finding| (finding.key(), finding.since.boottime_ns);
        let identities: BTreeSet<_> = active.iter().map(identity).collect();
        self.decided.retain(|decided| identities.contains(decided));
        let is_due = |finding: &&Finding| {
            let age_ns = at.boottime_ns.saturating_sub(finding.since.boottime_ns);
            u128::from(age_ns) >= MIN_AGE.as_nanos() && self.selectors.iter().any(|selector| selector.selects(finding))
        };
        let mut counted: Vec<&Finding> = active.iter().filter(is_due).collect();
        counted.retain(|finding| {
            // One that was not counted when it began does not count later, while it lasts.
            self.decided.insert(identity(finding))
                && self.recent.accept((finding.kind, subject_name(&finding.subject)), at.boottime_ns)
        });
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Severity, Subject};
    use crate::ids::TaskId;
    use crate::sample::Name;
    use crate::synthetic;

    fn at(seconds: f64) -> Instant {
        let ns = (seconds * 1e9) as u64;
        Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: 0 }
    }

    /// A thread at its limit, of the process with that pid.
    fn finding(pid: u32, severity: Severity, since: f64) -> Finding {
        let id = TaskId { pid, tid: pid, start_ticks: 1 };
        let subject = Subject::Task { id, name: Name::from("worker") };
        let sentence = format!("worker ({pid}) uses a CPU");
        Finding { since: at(since), sentence, ..synthetic::finding(Kind::SaturatedThread, severity, subject) }
    }

    fn counts(triggers: &mut FindingTriggers, seconds: f64, active: &[Finding]) -> usize {
        triggers.update(at(seconds), active).len()
    }

    #[test]
    fn a_finding_counts_when_it_begins_and_once_an_hour() {
        let mut triggers = FindingTriggers::new(vec![FindingSelector::Severity(Severity::Critical)]);
        let mut counts = |seconds: f64, active: &[Finding]| counts(&mut triggers, seconds, active);
        let critical = |pid: u32, since: f64| finding(pid, Severity::Critical, since);
        assert_eq!(counts(1.0, &[finding(7, Severity::Warning, 0.0)]), 0, "less severe");
        assert_eq!(
            [counts(2.0, &[critical(7, 0.0)]), counts(3.0, &[critical(7, 0.0)])],
            [1, 0],
            "it has become critical, and lasts"
        );
        assert_eq!([counts(4.0, &[]), counts(6.0, &[critical(7, 5.0)])], [0, 0], "it comes again");
        assert_eq!(counts(20.0, &[critical(8, 15.0)]), 0, "the program was started again");
        assert_eq!(counts(3000.0, &[critical(8, 2990.0)]), 0);
        assert_eq!(counts(9000.0, &[critical(8, 2990.0)]), 0, "it lasts for hours");
        assert_eq!(counts(9001.0, &[]), 0);
        assert_eq!(counts(9010.0, &[critical(8, 9005.0)]), 1);
        assert_eq!(counts(20_000.0, &[critical(8, 9005.0)]), 0);
    }

    #[test]
    fn kinds_are_selected_and_what_lasts_an_instant_is_not() {
        let mut triggers = FindingTriggers::new(vec![FindingSelector::Kind(Kind::SaturatedThread)]);
        let mut other = finding(7, Severity::Critical, 0.0);
        other.kind = Kind::DiskLatency;
        assert_eq!(counts(&mut triggers, 2.0, &[other]), 0);
        let note = finding(7, Severity::Note, 2.0);
        assert_eq!(counts(&mut triggers, 2.4, std::slice::from_ref(&note)), 0, "for 400 ms, in an event");
        assert_eq!(counts(&mut triggers, 2.5, std::slice::from_ref(&note)), 1, "kinds count with any severity");
    }
}
