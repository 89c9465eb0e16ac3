//! The findings that were met, those that ended too: what happened before, and when.

use crate::findings::{Evaluation, Finding};
use crate::sample::Instant;

/// Findings in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct FindingHistory {
    findings: Vec<Finding>,
}

/// A screen on a box that flaps for days must not eat its memory.
const MAX_FINDINGS: usize = 500;

impl FindingHistory {
    /// Takes in what an interval says; a finding that goes on replaces what was known of it.
    pub fn add_evaluation(&mut self, judged: &Evaluation) {
        for finding in judged.active.iter().chain(&judged.ended) {
            self.insert_or_update(finding.clone());
        }
        if self.findings.len() > MAX_FINDINGS {
            let over = self.findings.len() - MAX_FINDINGS;
            self.findings.drain(..over);
        }
    }

    /// Takes in what a whole recording is known to hold.
    pub fn replace(&mut self, mut findings: Vec<Finding>) {
        findings.sort_by_key(|finding| finding.since);
        self.findings = findings;
    }

    fn insert_or_update(&mut self, finding: Finding) {
        let same = |known: &&mut Finding| known.kind == finding.kind && known.subject == finding.subject;
        let overlaps = |known: &&mut Finding| known.until.is_none_or(|until| until >= finding.since);
        match self.findings.iter_mut().rev().filter(same).find(overlaps) {
            // An interval looked at again says less than is known already.
            Some(known) if known.until.is_some() && finding.until.is_none() => {}
            Some(known) => *known = finding,
            None => {
                let place = self.findings.partition_point(|known| known.since <= finding.since);
                self.findings.insert(place, finding);
            }
        }
    }

    /// Findings that had ended at that moment, the latest first.
    pub fn ended_before(&self, at: Instant) -> impl Iterator<Item = &Finding> {
        self.findings.iter().rev().filter(move |finding| finding.until.is_some_and(|until| until <= at))
    }
}
