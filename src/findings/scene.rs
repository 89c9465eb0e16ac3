//! What a rule sees, and what it answers.

use super::streaks::Streaks;
use super::words;
use super::{Evidence, Severity, Subject, Thresholds, Value};
use crate::baseline::{Drift, SizeClass, Standing, standing};
use crate::ids::{DiskId, TaskId};
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::sample::Name;
use crate::sample::disk::{Disk, find_disk};
use crate::sample::task::Process;

/// One interval with all that a judgement on it may rest on.
pub struct Scene<'a> {
    pub interval: &'a Interval,
    pub standings: &'a [Standing],
    /// Active devices that have become slower since they were first known
    pub drifts: &'a [(DiskId, Operation, SizeClass, Drift)],
    pub thresholds: &'a Thresholds,
    /// What earlier intervals left behind, this one included
    pub streaks: &'a Streaks,
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
        self.interval.online_cpus().max(1) as f64
    }

    /// The device with this identity, as it was last seen.
    pub fn disk(&self, id: DiskId) -> Option<&Disk> {
        find_disk(self.interval.newer.disks.as_ref().ok()?, id)
    }

    pub fn standing(&self, disk: DiskId, operation: Operation) -> Option<&Standing> {
        standing(self.standings, disk, operation)
    }

    /// How a sentence calls a device.
    pub fn disk_name(&self, id: DiskId) -> String {
        self.disk(id).map_or_else(|| format!("device {}:{}", id.major, id.minor), |disk| words::name(&disk.name))
    }

    pub fn disk_span(&self, id: DiskId) -> Option<&DiskSpan> {
        self.interval.disk(id)
    }

    /// The process of a task, as it was last seen.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.interval.process(pid).map(AsRef::as_ref)
    }

    /// How a sentence calls a thread: `spin (4711)`, `worker (thread 4712 of app 4711)`.
    pub fn who(&self, task: TaskId) -> (Name, String) {
        let Some(process) = self.process(task.pid) else { return (Name::default(), format!("task {}", task.tid)) };
        let samples = [&self.interval.newer, &self.interval.older];
        let thread = samples.iter().find_map(|sample| Some(sample.tasks.as_ref().ok()?.thread(task)?.1));
        let name = thread.map_or(&process.comm, |thread| &thread.comm);
        let sentence = if task.tid == task.pid {
            format!("{} ({})", words::name(name), task.pid)
        } else {
            format!("{} (thread {} of {} {})", words::name(name), task.tid, words::name(&process.comm), task.pid)
        };
        (name.clone(), sentence)
    }

    /// `1.00 of 256 CPUs`
    pub fn of_cpus(&self, cpus: f64) -> String {
        format!("{} of {}", words::figure(cpus), words::cpus(self.interval.online_cpus().max(1)))
    }

    /// Mean number of threads blocked on storage or behind it; `None` where nobody looked.
    pub fn blocked_threads(&self) -> Option<f64> {
        self.interval.idle_blocked.as_ref().map(|blocked| blocked.blocked_threads)
    }
}

/// A figure of evidence.
pub fn number(name: &'static str, value: f64) -> Evidence {
    // A sum of nothing is −0.0.
    Evidence { name, value: if value.is_finite() { Value::Number(value + 0.0) } else { Value::Unknown } }
}

/// A figure of evidence that may be unknown.
pub fn maybe(name: &'static str, value: Option<f64>) -> Evidence {
    value.map_or(Evidence { name, value: Value::Unknown }, |value| number(name, value))
}

/// A name or a sentence of evidence.
pub fn text(name: &'static str, value: impl Into<Name>) -> Evidence {
    Evidence { name, value: Value::Text(value.into()) }
}
