//! The candidates of a rule that become findings: one a subject.

use super::rule_context::Candidate;

/// One candidate a subject. A rule may find several in a group, as one for each process: then the worst is named, and the others are
/// counted.
pub fn worst_by_subject(candidates: Vec<Candidate>) -> Vec<Candidate> {
    if candidates.len() < 2 {
        return candidates;
    }
    let mut worst: Vec<(Candidate, usize)> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let rank = |candidate: &Candidate| (candidate.severity, candidate.value);
        match worst.iter_mut().find(|(other, _)| other.subject == candidate.subject) {
            Some((other, others)) => {
                if rank(&candidate) > rank(other) {
                    *other = candidate;
                }
                *others += 1;
            }
            None => worst.push((candidate, 0)),
        }
    }
    let with_number = |(candidate, others): (Candidate, usize)| match others {
        0 => candidate,
        others => Candidate { sentence: format!("{}; {others} more like it", candidate.sentence), ..candidate },
    };
    worst.into_iter().map(with_number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Severity, Subject};
    use crate::ids::{GroupId, ProcessId};
    use crate::sample::Name;

    #[test]
    fn of_several_processes_of_a_group_the_worst_is_named_and_the_others_are_counted() {
        let group =
            |pid| Subject::Group { id: GroupId::Process(ProcessId { pid, start_ticks: 1 }), name: Name::from(&b"web"[..]) };
        let candidate = |subject, value: f64, severity| Candidate {
            severity,
            subject,
            value,
            threshold: 0.5,
            unit: "ratio",
            sentence: format!("stopped {value}"),
            evidence: Vec::new(),
            explained_share: 0.0,
        };
        let (note, warning) = (Severity::Note, Severity::Warning);
        let same = [candidate(group(1), 0.6, warning), candidate(group(1), 0.9, warning), candidate(group(1), 1.0, note)];
        let other = candidate(group(2), 0.7, note);
        let kept = worst_by_subject(same.into_iter().chain([other]).collect());
        let sentences: Vec<_> = kept.iter().map(|candidate| candidate.sentence.as_str()).collect();
        assert_eq!(sentences, ["stopped 0.9; 2 more like it", "stopped 0.7"]);
    }
}
