//! The findings that were met, those that ended too: what happened before, and when.

use crate::findings::{Finding, Judged};
use crate::sample::Instant;

/// Findings in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    findings: Vec<Finding>,
}

/// A screen on a box that flaps for days must not eat its memory.
const KEPT: usize = 500;

impl Timeline {
    /// Takes in what an interval says; a finding that goes on replaces what was known of it.
    pub fn observe(&mut self, judged: &Judged) {
        for finding in judged.verdict.iter().chain(&judged.ended) {
            self.put(finding.clone());
        }
        if self.findings.len() > KEPT {
            let over = self.findings.len() - KEPT;
            self.findings.drain(..over);
        }
    }

    /// Takes in what a whole recording is known to hold.
    pub fn replace(&mut self, mut findings: Vec<Finding>) {
        findings.sort_by_key(|finding| finding.since);
        self.findings = findings;
    }

    fn put(&mut self, finding: Finding) {
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
