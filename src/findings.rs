//! A finding is a judgement on intervals: what is wrong, with whom, since when, against what.
//!
//! Each rule is a small item (id, title, meaning, when it is wrong, what to look at next) with one pure function from an
//! interval to suspicions; help, docs/findings.md and the findings screen are generated from the list `RULES`.
//! `Judge` keeps what must be remembered between intervals: a suspicion becomes a finding after 2 of the last 3
//! intervals and ends after 5 clean ones.

mod blocked_tasks;
mod cgroups;
mod cpu;
pub mod cross_checks;
mod disk;
mod evaluator;
mod formatting;
mod generated_docs;
mod memory;
mod network;
mod rule;
mod rule_config;
mod rule_context;
mod rule_state;
#[cfg(test)]
mod tests;
mod threshold;
mod thresholds;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{CgroupId, CpuId, DiskId, GroupId, NicId, TaskId};
use crate::sample::{Instant, Name};

pub use blocked_tasks::wait_chain::{ChainConfidence, ChainLink, WaitChain, wait_chains};
pub use evaluator::Evaluator;
pub use generated_docs::findings_docs;
pub use network::remote_hosts::{LimitedBy, evaluated_rtt, is_slow, limited_by};
pub use rule::{Hysteresis, RULES, Rule};
pub use rule_config::{BaselineOverride, IgnoredDevices, RuleConfig};
pub use threshold::{Threshold, ThresholdSetting, ThresholdUnit};
pub use thresholds::{THRESHOLDS, Thresholds};

/// What kind of thing is wrong. The words are never renamed once released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    IdleButBlocked,
    SaturatedCore,
    SaturatedThread,
    CpuSaturated,
    CpuThrottled,
    CpuStolen,
    HiddenCpu,
    ShortLivedProcesses,
    DiskLatency,
    DiskBusyNotSaturated,
    DiskStalled,
    DiskDrift,
    IoThrottled,
    HungTask,
    NicSaturated,
    TcpRetransmits,
    ListenOverflow,
    UdpOverflow,
    NetworkLatency,
    LoadNotCpu,
    MemoryPressure,
    Swapping,
    OomKill,
}

impl Kind {
    /// The word on screens, in JSON and in metric names.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::IdleButBlocked => "idle-but-blocked",
            Kind::SaturatedCore => "saturated-core",
            Kind::SaturatedThread => "saturated-thread",
            Kind::CpuSaturated => "cpu-saturated",
            Kind::CpuThrottled => "cpu-throttled",
            Kind::CpuStolen => "cpu-stolen",
            Kind::HiddenCpu => "hidden-cpu",
            Kind::ShortLivedProcesses => "short-lived-processes",
            Kind::DiskLatency => "disk-latency",
            Kind::DiskBusyNotSaturated => "disk-busy-not-saturated",
            Kind::DiskStalled => "disk-stalled",
            Kind::DiskDrift => "disk-drift",
            Kind::IoThrottled => "io-throttled",
            Kind::HungTask => "hung-task",
            Kind::NicSaturated => "nic-saturated",
            Kind::TcpRetransmits => "tcp-retransmits",
            Kind::ListenOverflow => "listen-overflow",
            Kind::UdpOverflow => "udp-overflow",
            Kind::NetworkLatency => "network-latency",
            Kind::LoadNotCpu => "load-not-cpu",
            Kind::MemoryPressure => "memory-pressure",
            Kind::Swapping => "swapping",
            Kind::OomKill => "oom-kill",
        }
    }

    /// The kind of that word.
    pub fn from_name(word: &str) -> Option<Kind> {
        RULES.iter().map(|rule| rule.kind).find(|kind| kind.as_str() == word)
    }

    /// What it means, how it is found and what to look at next.
    pub fn rule(self) -> Option<&'static Rule> {
        RULES.iter().find(|rule| rule.kind == self)
    }
}

/// How bad it is. Ordered: note < warning < critical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing, nothing to do
    Note,
    Warning,
    Critical,
}

impl Severity {
    /// The word on screens and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// What a finding is about. Two findings of one kind and one subject are the same finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The whole machine
    Host,
    Cpu(CpuId),
    Disk {
        id: DiskId,
        name: Name,
    },
    Nic(NicId),
    Task {
        id: TaskId,
        name: Name,
    },
    Group {
        id: GroupId,
        name: Name,
    },
    Cgroup(CgroupId),
    /// A listening address, written `address:port`
    Socket(Name),
    /// The address of a remote host
    RemoteHost(Name),
}

/// A figure that a judgement rests on, under its name in metrics.md.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// With the unit as suffix, as in JSON: `iowait_ratio`, `await_seconds`, `queue`
    pub name: &'static str,
    pub value: Value,
}

/// A value of evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    Text(Name),
    /// Who waits for whom, from those that wait to what they wait for
    Chain(Vec<ChainLink>),
    /// Not known: null in JSON, `-` on a screen
    Unknown,
}

/// Something that is wrong (or worth knowing), now or before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    pub severity: Severity,
    pub subject: Subject,
    /// Since when it has been so: the beginning of the first interval that showed it
    pub since: Instant,
    /// When it ended; `None` while it lasts
    pub until: Option<Instant>,
    /// The figure that is judged, in `unit`
    pub value: f64,
    /// What it was judged against
    pub threshold: f64,
    /// ratio, seconds, per_second, threads, count
    pub unit: &'static str,
    /// One plain sentence: who, how much, where, against what. Names in it are raw bytes of the kernel shown lossily;
    /// whoever draws or prints it escapes it.
    pub sentence: String,
    pub evidence: Vec<Evidence>,
    /// What to look at next, one line each
    pub next: Vec<String>,
    /// How much of the box it explains, 0 … 1: the order among equals
    pub explained_share: f64,
}

/// The findings that hold at one moment, worst first. Shared: a frame, a report and a history keep the same list.
pub type ActiveFindings = Arc<[Finding]>;

/// An interval with what was concluded from it: all that a frame, a report or a check needs of one moment.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub interval: Arc<crate::interval::Interval>,
    /// The thresholds and settings of the rules
    pub rule_config: Arc<RuleConfig>,
    /// What holds now, worst first
    pub active: ActiveFindings,
    /// What ended with this interval
    pub ended: Vec<Finding>,
    /// Each device's latency beside its baseline
    pub latency_statuses: Arc<[crate::baseline::LatencyStatus]>,
    /// Remote hosts at the last look at the connections: this interval's, or an earlier one's where looking is dear
    pub remote_hosts: Option<Arc<crate::interval::network::remote_hosts::RemoteHostsSpan>>,
    /// All baselines, as they were before this interval
    pub baselines: crate::baseline::Baselines,
    /// What this interval taught
    pub observations: Arc<[crate::baseline::Observation]>,
}

impl Evaluation {
    /// The thresholds of the rules.
    pub fn thresholds(&self) -> &Thresholds {
        &self.rule_config.thresholds
    }
}
