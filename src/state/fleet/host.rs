//! A host of the fleet: its connection, and the figures of its newest interval.

use std::sync::Arc;

use crate::findings::{Evaluation, Finding, Severity, common_cause, headline, incidents};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::Operation;
use crate::sample::disk::find_disk;
use crate::units::PerSecond;
use crate::units::format::width;

/// A host is silent after so many intervals without a sample, and not before `MIN_SILENCE_NS`.
const SILENT_INTERVALS: u64 = 3;
const MIN_SILENCE_NS: u64 = 3_000_000_000;

/// A difference of the clocks that is reported.
const MIN_CLOCK_OFFSET_SECONDS: f64 = 2.0;

/// A host and what is known of it. Texts are from outside and not escaped.
#[derive(Clone, Debug, Default)]
pub struct FleetHost {
    /// As the user has written it
    pub name: String,
    pub connection: Connection,
    /// Of the newest interval, also of a connection that has ended
    pub summary: Option<HostSummary>,
    /// When the newest sample arrived, on the clock of `FleetState::now_ns`
    pub arrived_ns: Option<u64>,
    /// Nominal time between its samples
    pub interval_ns: u64,
    /// How far its clock is ahead of ours, in seconds; negative: behind
    pub clock_offset_seconds: Option<f64>,
    /// The stalltop that records there, where it is not this version
    pub other_version: Option<String>,
    /// The last thing that was wrong with its stream or its recording
    pub note: Option<String>,
}

/// The state of the connection to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// The command runs, and no sample has come yet
    #[default]
    Connecting,
    Connected,
    /// It has ended, and is tried again at that time
    Lost {
        why: String,
        retry_at_ns: u64,
    },
    /// It has ended, and is not tried again; `None`: in order
    Ended(Option<String>),
}

/// Condition of a host, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    Critical,
    Warning,
    /// No connection, or no sample for too long
    Unknown,
    Note,
    Ok,
    /// No interval yet
    Connecting,
}

impl Condition {
    /// The word in text and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::Critical => "critical",
            Condition::Warning => "warning",
            Condition::Unknown => "unknown",
            Condition::Note => "note",
            Condition::Ok => "ok",
            Condition::Connecting => "connecting",
        }
    }

    /// The severity of its worst finding.
    pub fn severity(self) -> Option<Severity> {
        match self {
            Condition::Critical => Some(Severity::Critical),
            Condition::Warning => Some(Severity::Warning),
            Condition::Note => Some(Severity::Note),
            Condition::Unknown | Condition::Ok | Condition::Connecting => None,
        }
    }
}

impl FleetHost {
    /// A host of which nothing is known yet.
    pub fn new(name: impl Into<String>) -> FleetHost {
        FleetHost { name: name.into(), ..FleetHost::default() }
    }

    /// How the host is at that time.
    pub fn condition(&self, now_ns: u64) -> Condition {
        match (&self.connection, &self.summary) {
            (Connection::Lost { .. } | Connection::Ended(Some(_)), _) => Condition::Unknown,
            _ if self.silent_seconds(now_ns).is_some() => Condition::Unknown,
            (_, Some(summary)) => match summary.worst {
                Some(Severity::Critical) => Condition::Critical,
                Some(Severity::Warning) => Condition::Warning,
                Some(Severity::Note) => Condition::Note,
                None => Condition::Ok,
            },
            (Connection::Ended(None), None) => Condition::Unknown,
            (Connection::Connecting | Connection::Connected, None) => Condition::Connecting,
        }
    }

    /// Seconds since its newest sample, if it is connected and more than three intervals late.
    pub fn silent_seconds(&self, now_ns: u64) -> Option<f64> {
        let waited_ns = now_ns.saturating_sub(self.arrived_ns?);
        let limit_ns = (self.interval_ns.saturating_mul(SILENT_INTERVALS)).max(MIN_SILENCE_NS);
        (self.connection == Connection::Connected && waited_ns > limit_ns).then(|| waited_ns as f64 / 1e9)
    }

    /// The difference of the clocks, if it is worth a word.
    pub fn reported_clock_offset(&self) -> Option<f64> {
        self.clock_offset_seconds.filter(|offset| offset.abs() >= MIN_CLOCK_OFFSET_SECONDS)
    }
}

/// The figures of one interval that a row of the fleet shows.
#[derive(Clone, Debug, Default)]
pub struct HostSummary {
    /// Online CPUs
    pub cpus: usize,
    /// Severity of the worst active finding
    pub worst: Option<Severity>,
    /// Share of the host that the worst finding explains, 0 … 1
    pub explained_share: f64,
    /// The headline of its first finding in few, in more and in many characters; empty without findings
    pub headlines: [String; HEADLINE_WIDTHS.len()],
    /// What its root findings have in common with those of other hosts, without notes
    pub causes: Vec<HostCause>,
    /// Share of CPU time, 0 … 1
    pub busy: Option<f64>,
    /// Share of CPU time that was idle but blocked, 0 … 1
    pub blocked: Option<f64>,
    pub blocked_is_lower_bound: bool,
    /// From the threshold of idle-but-blocked on
    pub blocked_is_high: bool,
    pub worst_latency: Option<WorstLatency>,
    /// Threads that used a whole CPU
    pub saturated_threads: Option<usize>,
    /// KB of 1024 bytes per second over all interfaces but loopback, both directions
    pub network_kilobytes: Option<PerSecond>,
    /// Utilization of the interface that is nearest to its speed, 0 … 1
    pub network_utilization: Option<f64>,
    /// The active findings, root causes first
    pub active: Arc<[Finding]>,
}

/// Characters of `HostSummary::headlines`.
pub const HEADLINE_WIDTHS: [usize; 3] = [36, 72, 160];

/// A cause of a finding, without what is particular to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCause {
    pub severity: Severity,
    pub words: String,
}

/// The operation of a disk whose latency is the largest multiple of its baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstLatency {
    pub disk: String,
    pub operation: Operation,
    /// Of its baseline
    pub multiple: f64,
    /// The baseline is an estimate
    pub provisional: bool,
    /// From the threshold of a learned baseline on
    pub is_high: bool,
}

impl HostSummary {
    pub fn new(evaluation: &Evaluation) -> HostSummary {
        let interval = &*evaluation.interval;
        let roots = || incidents(&evaluation.active);
        let headlines = match evaluation.active.first() {
            Some(first) => HEADLINE_WIDTHS.map(|width| headline(evaluation, first, width)),
            None => Default::default(),
        };
        let cause = |incident: &[Finding]| {
            let severity = incident.iter().map(|finding| finding.severity).max()?;
            Some(HostCause { severity, words: common_cause(incident.first()?) }).filter(|_| severity > Severity::Note)
        };
        let thresholds = evaluation.thresholds();
        let hot = thresholds.thread_busy_ratio;
        let threads = interval.tasks.as_ref().map(|tasks| &tasks.threads);
        let blocked = interval.idle_blocked.as_ref();
        HostSummary {
            cpus: interval.online_cpus(),
            worst: evaluation.active.iter().map(|finding| finding.severity).max(),
            explained_share: roots().next().and_then(<[Finding]>::first).map_or(0.0, |finding| finding.explained_share),
            headlines,
            causes: roots().filter_map(cause).collect(),
            busy: interval.cpu.as_ref().map(|cpu| cpu.busy()),
            blocked: blocked.map(|blocked| blocked.ratio),
            blocked_is_lower_bound: blocked.is_some_and(|blocked| blocked.lower_bound),
            blocked_is_high: blocked.is_some_and(|blocked| blocked.ratio >= thresholds.blocked_ratio),
            worst_latency: worst_latency(evaluation),
            saturated_threads: threads
                .map(|threads| threads.iter().filter(|thread| thread.cpu.is_some_and(|used| used.0 >= hot)).count()),
            network_kilobytes: network_kilobytes(interval),
            network_utilization: interval.network.nics.iter().filter_map(|nic| Some(nic.utilization?.0)).max_by(f64::total_cmp),
            active: Arc::clone(&evaluation.active),
        }
    }

    /// The longest headline that fits, else the shortest.
    pub fn headline(&self, cells: usize) -> &str {
        let fits = |text: &&String| width(text) <= cells;
        self.headlines.iter().rev().find(fits).or(self.headlines.first()).map_or("", String::as_str)
    }
}

/// By what has completed enough requests; a learned baseline before an estimated one.
fn worst_latency(evaluation: &Evaluation) -> Option<WorstLatency> {
    let known = evaluation.latency_statuses.iter().filter_map(|status| Some((status, status.window_multiple()?)));
    let (status, multiple) = known
        .max_by(|(a, a_multiple), (b, b_multiple)| b.provisional.cmp(&a.provisional).then(a_multiple.total_cmp(b_multiple)))?;
    let disk = disk_name(&evaluation.interval, status.disk)?;
    let is_high = !status.provisional && multiple >= evaluation.thresholds().latency_multiple;
    Some(WorstLatency { disk, operation: status.operation, multiple, provisional: status.provisional, is_high })
}

fn disk_name(interval: &Interval, id: DiskId) -> Option<String> {
    Some(find_disk(interval.newer.disks.as_ref().ok()?, id)?.name.to_string_lossy())
}

fn network_kilobytes(interval: &Interval) -> Option<PerSecond> {
    let facts = interval.newer.nics.as_ref().ok()?;
    let is_loopback = |index: usize| facts.get(index).is_some_and(|nic| nic.facts.loopback);
    let sum =
        interval.network.nics.iter().filter(|nic| !is_loopback(nic.index)).map(|nic| nic.rx.kilobytes.0 + nic.tx.kilobytes.0);
    Some(PerSecond(sum.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::idle_blocked::IdleBlocked;
    use crate::synthetic;

    const SECOND: u64 = 1_000_000_000;

    fn connected() -> FleetHost {
        FleetHost {
            connection: Connection::Connected,
            summary: Some(HostSummary { worst: Some(Severity::Warning), ..HostSummary::default() }),
            arrived_ns: Some(10 * SECOND),
            interval_ns: SECOND,
            ..FleetHost::new("web1")
        }
    }

    /// As the rules judge it: by the thresholds of the configuration.
    #[test]
    fn blocked_time_is_high_from_the_configured_threshold() {
        let mut evaluation = synthetic::evaluation(synthetic::sample(100.0), synthetic::sample(101.0));
        Arc::make_mut(&mut evaluation.interval).idle_blocked = Some(IdleBlocked { ratio: 0.2, ..IdleBlocked::default() });
        let mut is_high = |threshold| {
            Arc::make_mut(&mut evaluation.rule_config).thresholds.blocked_ratio = threshold;
            HostSummary::new(&evaluation).blocked_is_high
        };
        assert_eq!([is_high(0.25), is_high(0.1)], [false, true]);
    }

    #[test]
    fn a_host_is_silent_after_three_intervals() {
        let host = connected();
        assert_eq!(host.condition(13 * SECOND), Condition::Warning);
        assert_eq!(host.condition(14 * SECOND), Condition::Unknown);
        assert_eq!(host.silent_seconds(22 * SECOND), Some(12.0));
        let slow = FleetHost { interval_ns: 10 * SECOND, ..connected() };
        assert_eq!((slow.silent_seconds(39 * SECOND), slow.silent_seconds(41 * SECOND)), (None, Some(31.0)));
    }

    #[test]
    fn what_was_known_of_a_lost_host_says_nothing_of_now() {
        let lost = Connection::Lost { why: "Connection refused".into(), retry_at_ns: 0 };
        assert_eq!(FleetHost { connection: lost, ..connected() }.condition(10 * SECOND), Condition::Unknown);
        let ended = FleetHost { connection: Connection::Ended(None), ..connected() };
        assert_eq!(ended.condition(60 * SECOND), Condition::Warning, "it has ended in order: what was last is the result");
        assert_eq!(FleetHost::new("web1").condition(0), Condition::Connecting);
    }
}
