//! Metrics of findings, and of the wait chains of blocked processes.

use std::collections::{BTreeMap, BTreeSet};

use super::family::{FamilyList, label};
use super::names;
use super::process_names::ProcessNames;
use crate::findings::{Evaluation, FindingKey, Kind, Severity, Subject, syscall_name};
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::idle_blocked::BlockedGroup;
use crate::report::formatting::subject_name;
use crate::sample::disk::find_disk;

/// Findings whose subjects are named.
const MAX_SUBJECTS: usize = 16;

/// Wait chains that are named.
const MAX_CHAINS: usize = 5;

/// Findings since the start.
#[derive(Clone, Debug, Default)]
pub struct FindingMetrics {
    /// Kinds and severities that were active since the start, with their number now
    active: BTreeMap<(Kind, Severity), u32>,
    began: BTreeMap<Kind, u64>,
    /// The findings of the last interval
    last: BTreeSet<FindingKey>,
    names: ProcessNames,
}

impl FindingMetrics {
    /// Returns how many active findings are not named.
    pub fn add(&mut self, evaluation: &Evaluation, families: &mut FamilyList) -> usize {
        let now: BTreeSet<FindingKey> = evaluation.active.iter().map(|finding| finding.key()).collect();
        for key in now.difference(&self.last) {
            *self.began.entry(key.kind).or_default() += 1;
        }
        self.last = now;
        self.active.values_mut().for_each(|number| *number = 0);
        for finding in evaluation.active.iter() {
            *self.active.entry((finding.kind, finding.severity)).or_default() += 1;
        }
        for ((kind, severity), number) in &self.active {
            let labels = vec![("kind", kind.as_str().to_owned()), ("severity", severity.as_str().to_owned())];
            families.add(&names::FINDING_ACTIVE, labels, f64::from(*number));
        }
        for (kind, number) in &self.began {
            families.add(&names::FINDINGS, vec![("kind", kind.as_str().to_owned())], *number as f64);
        }
        let at = evaluation.interval.at().boottime_ns;
        for finding in evaluation.active.iter().take(MAX_SUBJECTS) {
            let labels = vec![
                ("kind", finding.kind.as_str().to_owned()),
                ("severity", finding.severity.as_str().to_owned()),
                label("subject", &self.subject(&finding.subject, at)),
            ];
            families.add(&names::FINDING_INFO, labels, 1.0);
        }
        self.add_chains(&evaluation.interval, families);
        evaluation.active.len().saturating_sub(MAX_SUBJECTS)
    }

    /// Names that a user or another machine chooses are limited in number.
    fn subject(&mut self, subject: &Subject, now_ns: u64) -> String {
        let name = subject_name(subject);
        match subject {
            Subject::Host => "host".to_owned(),
            Subject::Cpu(_) => name,
            _ => self.names.limited(&name, now_ns),
        }
    }

    fn add_chains(&mut self, interval: &Interval, families: &mut FamilyList) {
        let groups = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
        for group in groups.take(MAX_CHAINS) {
            let at = interval.at().boottime_ns;
            let call = end_of_chain(group).and_then(|thread| syscall_name(interval, thread));
            let behind = end_of_chain(group).map_or_else(String::new, |thread| thread.wait.comm.to_string_lossy());
            let device = group.holder_device.and_then(|(device, _)| find_disk(interval.newer.disks.as_ref().ok()?, device));
            let labels = vec![
                label("group", &self.names.limited(&group.name.to_string_lossy(), at)),
                ("call", call.unwrap_or_default().to_owned()),
                label("behind", &self.names.limited(&behind, at)),
                label("device", &device.map_or_else(String::new, |disk| disk.name.to_string_lossy())),
            ];
            families.add(&names::WAIT_CHAIN_INFO, labels, 1.0);
        }
    }
}

/// The holder of the lock where the lock names it, else the thread seen on storage most often.
fn end_of_chain(group: &BlockedGroup) -> Option<&BlockedThread> {
    group.holder_off_storage().map(|holder| &holder.thread).or(group.holder.as_ref())
}
