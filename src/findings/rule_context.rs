//! The input of a rule (`RuleContext`) and its output (`Candidate`).

use super::formatting;
use super::rule_state::RuleState;
use super::{Evidence, FindingKey, Kind, Severity, Subject, Thresholds, Value};
use crate::baseline::{Drift, LatencyStatus, SizeClass, find_status, statuses_of};
use crate::findings::wait_chain::link::{CHAIN_CONFIDENCE, ChainConfidence, ChainLink};
use crate::ids::{CgroupId, DiskId, TaskId};
use crate::interval::Interval;
use crate::interval::cgroup_names::describe_cgroup;
use crate::interval::disk::{DiskSpan, Operation};
use crate::sample::Name;
use crate::sample::disk::{Disk, find_disk};
use crate::sample::task::Process;

/// An active finding lasts while its value is at least this share of the threshold. docs/metrics.md, "Fixed thresholds".
pub const MIN_LASTING_SHARE: f64 = 0.75;

/// One interval, with the other inputs of a rule.
pub struct RuleContext<'a> {
    pub interval: &'a Interval,
    pub latency_statuses: &'a [LatencyStatus],
    /// Active devices that have become slower since they were first measured
    pub drifts: &'a [(DiskId, Operation, SizeClass, Drift)],
    pub thresholds: &'a Thresholds,
    /// State of earlier intervals, this one included
    pub state: &'a RuleState,
    /// The findings that were active before this interval
    pub active: &'a [FindingKey],
}

/// A possible finding of one interval. It becomes a finding when enough intervals show it.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub severity: Severity,
    pub subject: Subject,
    pub value: f64,
    pub threshold: f64,
    pub unit: &'static str,
    pub sentence: String,
    pub evidence: Vec<Evidence>,
    pub explained_share: f64,
}

impl RuleContext<'_> {
    /// Online CPUs, as a number to divide by.
    pub fn cpu_count(&self) -> f64 {
        self.interval.online_cpus().max(1) as f64
    }

    /// The share of a threshold that is enough for a finding about the host: a value that varies around the threshold neither
    /// ends an active finding nor begins it again and again.
    pub fn threshold_share(&self, kind: Kind) -> f64 {
        let is_active = self.active.iter().any(|key| key.kind == kind && key.subject == Subject::Host);
        if is_active { MIN_LASTING_SHARE } else { 1.0 }
    }

    /// The device with this identity, as it was last seen.
    pub fn disk(&self, id: DiskId) -> Option<&Disk> {
        find_disk(self.interval.newer.disks.as_ref().ok()?, id)
    }

    /// The latency statuses of a device, of each operation with completions.
    pub fn latency_statuses_of(&self, disk: DiskId) -> &[LatencyStatus] {
        statuses_of(self.latency_statuses, disk)
    }

    /// The latency status of one operation of a device; `None` without completions.
    pub fn latency_status(&self, disk: DiskId, operation: Operation) -> Option<&LatencyStatus> {
        find_status(self.latency_statuses, disk, operation)
    }

    /// The name of a device for a sentence.
    pub fn disk_name(&self, id: DiskId) -> String {
        self.disk(id).map_or_else(|| format!("device {}:{}", id.major, id.minor), |disk| formatting::lossy_name(&disk.name))
    }

    /// The words for a cgroup in a sentence: `container web-1 (docker)`, `unit nginx.service`, `cgroup /batch`.
    pub fn cgroup_name(&self, id: &CgroupId) -> String {
        describe_cgroup(&self.interval.newer, id.path.as_bytes())
    }

    /// The figures of a device in this interval.
    pub fn disk_span(&self, id: DiskId) -> Option<&DiskSpan> {
        self.interval.disk(id)
    }

    /// The process of a task, as it was last seen.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.interval.process(pid).map(AsRef::as_ref)
    }

    /// The name of a thread for a sentence: `spin (4711)`, `worker (thread 4712 of app 4711)`.
    pub fn task_label(&self, task: TaskId) -> (Name, String) {
        let Some(process) = self.process(task.pid) else { return (Name::default(), format!("task {}", task.tid)) };
        let samples = [&self.interval.newer, &self.interval.older];
        let thread = samples.iter().find_map(|sample| Some(sample.tasks.as_ref().ok()?.thread(task)?.1));
        let name = thread.map_or(&process.comm, |thread| &thread.comm);
        let sentence = if task.tid == task.pid {
            format!("{} ({})", formatting::lossy_name(name), task.pid)
        } else {
            format!(
                "{} (thread {} of {} {})",
                formatting::lossy_name(name),
                task.tid,
                formatting::lossy_name(&process.comm),
                task.pid
            )
        };
        (name.clone(), sentence)
    }

    /// `1.00 of 256 CPUs`
    pub fn of_all_cpus(&self, cpus: f64) -> String {
        format!("{} of {}", formatting::significant_digits(cpus), formatting::cpus(self.interval.online_cpus().max(1)))
    }

    /// Mean number of threads blocked on storage or behind it; `None` without sub-samples.
    pub fn blocked_threads(&self) -> Option<f64> {
        self.interval.idle_blocked.as_ref().map(|blocked| blocked.blocked_threads)
    }
}

/// A figure of evidence.
pub fn evidence_number(name: &'static str, value: f64) -> Evidence {
    // A sum of nothing is −0.0.
    Evidence { name, value: if value.is_finite() { Value::Number(value + 0.0) } else { Value::Unknown } }
}

/// A figure of evidence that may be unknown.
pub fn evidence_optional(name: &'static str, value: Option<f64>) -> Evidence {
    value.map_or(Evidence { name, value: Value::Unknown }, |value| evidence_number(name, value))
}

/// From the tasks that a finding is about to what limits them: the evidence that screens and reports draw as a chain. `None` for a
/// single link, which the sentence says.
pub fn evidence_chain(links: impl IntoIterator<Item = ChainLink>) -> Option<Evidence> {
    let links: Vec<ChainLink> = links.into_iter().collect();
    (links.len() > 1).then_some(Evidence { name: "chain", value: Value::Chain(links) })
}

/// `evidence_chain`, and how sure it is: evidence of a lock, its waiters and its holder.
pub fn evidence_lock_chain(links: impl IntoIterator<Item = ChainLink>, confidence: ChainConfidence) -> Vec<Evidence> {
    let chain = evidence_chain(links);
    let confidence = chain.is_some().then(|| evidence_text(CHAIN_CONFIDENCE, confidence.as_str()));
    confidence.into_iter().chain(chain).collect()
}

/// A name or a sentence of evidence.
pub fn evidence_text(name: &'static str, value: impl Into<Name>) -> Evidence {
    Evidence { name, value: Value::Text(value.into()) }
}
