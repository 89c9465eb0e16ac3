//! A finding and its parts: kind, severity, subject, evidence.

use std::net::{IpAddr, SocketAddr};

use super::formatting::{bytes, latency, multiple, percent, significant_digits};
use crate::findings::wait_chain::link::ChainLink;
use crate::ids::{CgroupId, CpuId, DiskId, GroupId, NicId, TaskId};
use crate::interval::cgroup_names::CgroupName;
use crate::sample::{Instant, Name};
use crate::units::Millis;
use serde::{Deserialize, Serialize};

/// Kinds of findings. Users script against their names, so these do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    IdleButBlocked,
    KernelLockContention,
    Deadlock,
    StuckServer,
    TracedProcess,
    FileLockQueue,
    MutexQueue,
    DatabaseLockQueue,
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
    SynQueueOverflow,
    UdpOverflow,
    NetworkLatency,
    SendBlocked,
    ConnectBlocked,
    LookupBlocked,
    AnswerBlocked,
    LoadNotCpu,
    MemoryPressure,
    Swapping,
    OomKill,
    LimitReached,
}

impl Kind {
    /// The name on screens, in JSON and in metric names.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::IdleButBlocked => "idle-but-blocked",
            Kind::KernelLockContention => "kernel-lock-contention",
            Kind::Deadlock => "deadlock",
            Kind::StuckServer => "stuck-server",
            Kind::TracedProcess => "traced-process",
            Kind::FileLockQueue => "file-lock-queue",
            Kind::MutexQueue => "mutex-queue",
            Kind::DatabaseLockQueue => "database-lock-queue",
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
            Kind::SynQueueOverflow => "syn-queue-overflow",
            Kind::UdpOverflow => "udp-overflow",
            Kind::NetworkLatency => "network-latency",
            Kind::SendBlocked => "send-blocked",
            Kind::ConnectBlocked => "connect-blocked",
            Kind::LookupBlocked => "lookup-blocked",
            Kind::AnswerBlocked => "answer-blocked",
            Kind::LoadNotCpu => "load-not-cpu",
            Kind::MemoryPressure => "memory-pressure",
            Kind::Swapping => "swapping",
            Kind::OomKill => "oom-kill",
            Kind::LimitReached => "limit-reached",
        }
    }
}

/// Severity of a finding: note < warning < critical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing, nothing to do
    Note,
    Warning,
    Critical,
}

impl Severity {
    /// The name on screens and in JSON.
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
    /// The address of a remote host; `address:port` where one program at it is meant
    RemoteHost(Name),
    /// A limit that no process or cgroup has for itself, by its sysctl; `space of /var`, `inodes of /var`, `local ports to ADDRESS:PORT`
    Limit(Name),
    /// A network namespace other than that of stalltop, or one of its interfaces
    NetworkNamespace {
        inode: u64,
        /// Its container, or the process through which it is read
        owner: Name,
        nic: Option<NicId>,
    },
}

impl Subject {
    /// The remote host that it is, or that the receiver is at.
    pub fn remote_host(&self) -> Option<IpAddr> {
        let Subject::RemoteHost(address) = self else { return None };
        let address = address.to_string_lossy();
        address.parse().ok().or_else(|| Some(address.parse::<SocketAddr>().ok()?.ip()))
    }

    /// The mount point of the file system whose space or inodes it is.
    pub fn mount_point(&self) -> Option<&[u8]> {
        let Subject::Limit(name) = self else { return None };
        FILE_SYSTEM_LIMITS.iter().find_map(|limit| name.as_bytes().strip_prefix(limit.as_bytes()))
    }
}

/// What a `Subject::Limit` of a file system begins with: of its space, of its inodes.
pub const FILE_SYSTEM_LIMITS: [&str; 2] = ["space of ", "inodes of "];

/// A figure that a finding is based on; docs/metrics.md defines it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// With the unit as suffix, as in JSON: `iowait_ratio`, `await_seconds`, `queue`
    pub name: &'static str,
    pub value: Value,
}

/// The unit of a number of evidence, or of a finding's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceUnit {
    /// A share of 1, or a multiple
    Ratio,
    Seconds,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Count,
}

impl EvidenceUnit {
    /// The words of names and of `Finding::unit`; the longer ones first.
    const WORDS: [(&'static str, EvidenceUnit); 5] = [
        ("bytes_per_second", EvidenceUnit::BytesPerSecond),
        ("per_second", EvidenceUnit::PerSecond),
        ("bytes", EvidenceUnit::Bytes),
        ("seconds", EvidenceUnit::Seconds),
        ("ratio", EvidenceUnit::Ratio),
    ];

    /// The number as text: shares in per cent, from 1.5 as multiples.
    pub fn format(self, value: f64) -> String {
        match self {
            EvidenceUnit::Ratio if value.abs() <= 1.5 => percent(value),
            EvidenceUnit::Ratio => multiple(value),
            EvidenceUnit::Seconds => latency(Millis(value * 1000.0)),
            EvidenceUnit::Bytes => bytes(value),
            EvidenceUnit::BytesPerSecond => format!("{}/s", bytes(value)),
            EvidenceUnit::PerSecond => format!("{}/s", significant_digits(value)),
            EvidenceUnit::Count if value.fract() == 0.0 => format!("{value:.0}"),
            EvidenceUnit::Count => significant_digits(value),
        }
    }
}

impl Evidence {
    /// By the suffix of its name.
    pub fn unit(&self) -> EvidenceUnit {
        self.stem_and_unit().1
    }

    /// Its name in words, without the unit.
    pub fn label(&self) -> String {
        self.stem_and_unit().0.replace('_', " ")
    }

    fn stem_and_unit(&self) -> (&'static str, EvidenceUnit) {
        let mut units = EvidenceUnit::WORDS.into_iter();
        let known = units.find_map(|(word, unit)| Some((self.name.strip_suffix(word)?.strip_suffix('_')?, unit)));
        known.unwrap_or((self.name, EvidenceUnit::Count))
    }
}

/// A value of evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    Text(Name),
    /// A wait chain, from the waiting threads to what they wait for
    Chain(Vec<ChainLink>),
    /// Not known: null in JSON, `-` on a screen
    Unknown,
}

/// A problem, or a fact worth knowing, that is active or has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub kind: Kind,
    pub severity: Severity,
    pub subject: Subject,
    /// Start of the first interval that showed it
    pub since: Instant,
    /// End of the interval that its sentence, value and evidence are those of: an active finding outlasts intervals that do not show it at its severity
    pub figures_at: Instant,
    /// End time; `None` while it is active
    pub until: Option<Instant>,
    /// The evaluated figure, in `unit`
    pub value: f64,
    /// The threshold that it reached; 0 where any occurrence counts
    pub threshold: f64,
    /// ratio, seconds, per_second, threads, count
    pub unit: &'static str,
    /// One sentence. Names in it are not escaped: the code that draws or prints it does that.
    pub sentence: String,
    pub evidence: Vec<Evidence>,
    /// What to check next, one line each
    pub next: Vec<String>,
    /// Share of the host that it explains, 0 … 1: orders findings of equal severity
    pub explained_share: f64,
    /// What the cgroup that it is about is named after; `None` for other subjects
    pub cgroup_name: Option<Box<CgroupName>>,
    /// The active finding that is its cause; `None`: it is a root cause, as far as is known
    pub follows_from: Option<FindingKey>,
}

/// What identifies a finding among the active ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingKey {
    pub kind: Kind,
    pub subject: Subject,
}

impl Finding {
    pub fn key(&self) -> FindingKey {
        FindingKey { kind: self.kind, subject: self.subject.clone() }
    }

    /// The sentence without the kind's name, with which one rule's begins: for text that has named the kind.
    pub fn sentence_without_kind(&self) -> &str {
        let words = format!("{}: ", self.kind.as_str().replace('-', " "));
        self.sentence.strip_prefix(&words).unwrap_or(&self.sentence)
    }

    /// The finding that this one follows from, if it is among `findings` and was active at the same time.
    pub fn cause_among<'a>(&self, findings: &[&'a Finding]) -> Option<&'a Finding> {
        let cause = self.follows_from.as_ref()?;
        let is_cause = |other: &Finding| other.kind == cause.kind && other.subject == cause.subject && other.overlaps(self);
        findings.iter().copied().find(|other| is_cause(other))
    }

    fn overlaps(&self, other: &Finding) -> bool {
        let begins_before_end_of =
            |this: &Finding, other: &Finding| other.until.is_none_or(|until| this.since.boottime_ns <= until.boottime_ns);
        begins_before_end_of(self, other) && begins_before_end_of(other, self)
    }

    /// The unit of `value` and `threshold`; threads are a count.
    pub fn value_unit(&self) -> EvidenceUnit {
        let known = EvidenceUnit::WORDS.into_iter().find(|(word, _)| *word == self.unit);
        known.map_or(EvidenceUnit::Count, |(_, unit)| unit)
    }
}
