//! The samples at which findings start: the targets of the keys `n` and `N`.

use std::sync::Arc;

use crate::findings::{ActiveFindings, Finding};

/// Indices of samples that end an interval with a finding that the interval before did not have; ascending.
#[derive(Debug)]
pub struct FindingStarts {
    indices: Vec<u64>,
    /// The findings of the last interval
    active: ActiveFindings,
}

impl Default for FindingStarts {
    fn default() -> FindingStarts {
        FindingStarts { indices: Vec::new(), active: Arc::from([]) }
    }
}

impl FindingStarts {
    /// Adds the next interval, which ends with the sample of that index.
    pub fn observe(&mut self, index: u64, findings: &ActiveFindings) {
        let before = std::mem::replace(&mut self.active, Arc::clone(findings));
        if has_new_finding(findings, &before) {
            self.indices.push(index);
        }
    }

    /// Moves the starts that `later` has collected behind these.
    pub fn append(&mut self, mut later: Vec<u64>) {
        self.indices.append(&mut later);
    }

    /// The starts since the last call.
    pub fn drain(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.indices)
    }

    /// The findings of the last interval.
    pub fn active(&self) -> &ActiveFindings {
        &self.active
    }

    pub fn next_after(&self, index: u64) -> Option<u64> {
        self.indices.get(self.indices.partition_point(|&start| start <= index)).copied()
    }

    pub fn last_before(&self, index: u64) -> Option<u64> {
        let earlier = self.indices.partition_point(|&start| start < index).checked_sub(1)?;
        self.indices.get(earlier).copied()
    }

    /// Discards the starts before that sample.
    pub fn discard_before(&mut self, index: u64) {
        self.indices.drain(..self.indices.partition_point(|&start| start < index));
    }
}

fn has_new_finding(now: &[Finding], before: &[Finding]) -> bool {
    let same = |a: &Finding, b: &Finding| (a.kind, a.since, &a.subject) == (b.kind, b.since, &b.subject);
    now.iter().any(|now| !before.iter().any(|before| same(now, before)))
}
