//! All findings of the session or recording, including ended ones.

use crate::findings::{Evaluation, Finding, FindingKey};
use crate::sample::Instant;
use crate::units::SmallSort;

/// Findings sorted by their start.
#[derive(Clone, Debug, Default)]
pub struct FindingHistory {
    findings: Vec<Finding>,
}

/// Bounds the memory when findings come and go for days.
const MAX_FINDINGS: usize = 500;

impl FindingHistory {
    /// Adds the active and ended findings of an interval; a known finding is replaced.
    pub fn add_evaluation(&mut self, evaluation: &Evaluation) {
        for finding in evaluation.active.iter().chain(&evaluation.ended) {
            self.insert_or_update(finding.clone());
        }
        if self.findings.len() > MAX_FINDINGS {
            let over = self.findings.len() - MAX_FINDINGS;
            self.findings.drain(..over);
        }
    }

    /// Replaces all findings by those of a whole recording.
    pub fn replace(&mut self, mut findings: Vec<Finding>) {
        findings.small_sort_by_key(|finding| finding.since);
        self.findings = findings;
    }

    fn insert_or_update(&mut self, finding: Finding) {
        let same = |known: &&mut Finding| known.kind == finding.kind && known.subject == finding.subject;
        let overlaps = |known: &&mut Finding| known.until.is_none_or(|until| until >= finding.since);
        match self.findings.iter_mut().rev().filter(same).find(overlaps) {
            // The end is known already: the interval is displayed for a second time.
            Some(known) if known.until.is_some() && finding.until.is_none() => {}
            Some(known) => *known = finding,
            None => {
                let place = self.findings.partition_point(|known| known.since <= finding.since);
                self.findings.insert(place, finding);
            }
        }
    }

    /// Those that held at some time from `from` to `to`: root causes first, the worst of them first, each followed by its
    /// consequences.
    pub fn during(&self, from: Instant, to: Instant) -> Vec<Finding> {
        let held = |finding: &&Finding| finding.since < to && finding.until.is_none_or(|until| until > from);
        let held: Vec<&Finding> = self.findings.iter().filter(held).collect();
        let is_cause = |key: &FindingKey| held.iter().any(|cause| cause.key() == *key);
        let mut roots: Vec<Finding> = Vec::new();
        for &finding in &held {
            if !finding.follows_from.as_ref().is_some_and(is_cause) {
                roots.push(Finding { follows_from: None, ..finding.clone() });
            }
        }
        roots.small_sort_by_key(|root| std::cmp::Reverse(root.severity));
        let mut ordered = Vec::with_capacity(held.len());
        for root in roots {
            let key = root.key();
            let is_first = !ordered.iter().any(|known: &Finding| known.key() == key);
            ordered.push(root);
            if is_first {
                let consequences = held.iter().filter(|finding| finding.follows_from.as_ref() == Some(&key));
                ordered.extend(consequences.map(|&finding| finding.clone()));
            }
        }
        ordered
    }

    /// Findings that had ended at this time, latest first.
    pub fn ended_before(&self, at: Instant) -> impl Iterator<Item = &Finding> {
        self.findings.iter().rev().filter(move |finding| finding.until.is_some_and(|until| until <= at))
    }
}
