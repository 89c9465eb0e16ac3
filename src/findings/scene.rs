//! What a rule sees, and what it answers.

use super::memory::Memory;
use super::{Evidence, Severity, Subject, Thresholds, Value};
use crate::baseline::Standing;
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::Operation;
use crate::sample::Name;
use crate::sample::disk::Disk;

/// One interval with all that a judgement on it may rest on.
pub struct Scene<'a> {
    pub interval: &'a Interval,
    pub standings: &'a [Standing],
    pub thresholds: &'a Thresholds,
    /// What earlier intervals left behind, this one included
    pub memory: &'a Memory,
}

/// What one interval shows. It becomes a finding when enough intervals do.
#[derive(Clone, Debug)]
pub struct Suspicion {
    pub severity: Severity,
    pub subject: Subject,
    pub value: f64,
    pub threshold: f64,
    pub unit: &'static str,
    pub sentence: String,
    pub evidence: Vec<Evidence>,
    pub explains: f64,
}

impl Scene<'_> {
    /// Online CPUs, as a number to divide by.
    pub fn cpus(&self) -> f64 {
        self.interval.cpus().max(1) as f64
    }

    /// The device with this identity, as it was last seen.
    pub fn disk(&self, id: DiskId) -> Option<&Disk> {
        let disks = self.interval.newer.disks.as_ref().ok()?;
        disks.iter().find(|disk| disk.id == id)
    }

    pub fn standing(&self, disk: DiskId, operation: Operation) -> Option<&Standing> {
        self.standings.iter().find(|standing| standing.disk == disk && standing.operation == operation)
    }

    /// Mean number of threads blocked on storage or behind it; `None` where nobody looked.
    pub fn blocked_threads(&self) -> Option<f64> {
        self.interval.blocked.as_ref().map(|blocked| blocked.blocked_threads)
    }
}

/// A figure of evidence.
pub fn number(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value: if value.is_finite() { Value::Number(value) } else { Value::Unknown } }
}

/// A figure of evidence that may be unknown.
pub fn maybe(name: &'static str, value: Option<f64>) -> Evidence {
    value.map_or(Evidence { name, value: Value::Unknown }, |value| number(name, value))
}

/// A name or a sentence of evidence.
pub fn text(name: &'static str, value: impl Into<Name>) -> Evidence {
    Evidence { name, value: Value::Text(value.into()) }
}
