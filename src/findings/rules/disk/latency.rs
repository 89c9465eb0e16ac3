//! Rule disk-latency: a device is slower than its baseline.

use crate::baseline::{DeviceLoad, LatencyStatus, MAX_UNCONTENDED_OUTSTANDING};
use crate::findings::device_waiters::{has_waiters, leads_to_device, with_lower_devices};
use crate::findings::disk_latency::{SLOWER_DEVICE, SlowOperation, is_disk_slow};
use crate::findings::finding::{Kind, Severity};
use crate::findings::formatting::{bytes, count, latency, lossy_name, multiple, percent, plural};
use crate::findings::low_priority::is_background;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::disk::evidence::{device_chain, device_evidence, disk_subject, explained_share};
use crate::findings::rules::disk::tail::{SlowTail, p99_against_baseline, request_evidence};
use crate::findings::wait_chain::reported_threads::MIN_SEVERAL_THREADS;
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::units::Millis;

pub const DISK_LATENCY: Rule = Rule {
    kind: Kind::DiskLatency,
    title: "Disk latency above baseline",
    meaning: "Requests take a multiple of what this device needs for one request at a time. Either more is asked of it than \
              it can serve at once (more load), or the device itself has become slower (slower at the same load): the \
              sentence says which.",
    computed: "Await of an interval with at least 5 completions (of short intervals as many as give 5, up to a second) \
               against the baseline of this device, operation and size class: a warning from 3×, critical from 10× while \
               several threads are blocked and CPUs are idle, if the excess matters: (await − baseline) × completions per second ≥ 0.5. Against a provisional baseline (~) only from \
               10×, at a concurrency above 1.2, and never more than a warning. A note if no thread is seen to wait for the device (in D, asleep for its completions, a kernel thread of a server such as nfsd, or \
               in a poll call in a process that reads), or \
               if it is busy for half of the time or less and then has 8 requests or more at once: a burst. \
               Slower at the same load: no more than one request outstanding, or no more than 1.25 times the highest load at \
               which the device answered within 2× its baseline, or fewer than 0.8 of the requests per second that it \
               completed then. Otherwise, and if a device below moves more than 1.25 times its KiB per second with more requests \
               outstanding (another load, or a check or rebuild of an array, which is named): more load. p99: of the single requests, where they are measured. A tail: p99 from 10× \
               its own baseline while p50 is below 1.5× its, of at least 100 requests (of short intervals as many as give 100, up \
               to a second), if the excess matters: Σ (latency − p99 of the baseline) of the requests above it ≥ 0.5 seconds per \
               second. A warning at most. Its cause is more load only if the requests per second are more than 1.25 times those at \
               the baseline, too. p50 and p99 are learned under light load, not beside a baseline that was set by hand.",
    caveats: "A baseline learned from other work (cached reads, another mix of sizes) may be too low: set it by hand. The \
              latency is that of the block layer: an I/O limit above it and locks of the file system are not in it.",
    next_steps: &[
        "which processes use it, and which are blocked on it (screen 3, Enter)",
        "queue against multiple: a queue of 1 with a high multiple is the device, not the load",
        "whether its neighbours (same controller, hypervisor, network) are slow too",
    ],
    reference: "Baselines",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: disk_latency,
};

fn disk_latency(context: &RuleContext) -> Vec<Candidate> {
    let mut found = Vec::new();
    for span in &context.interval.disks {
        let statuses = context.latency_statuses_of(span.id);
        if statuses.is_empty() {
            continue;
        }
        // If a device below is slow, only that device is reported.
        let below = context.disk(span.id).map(|disk| disk.facts.slaves.as_slice()).unwrap_or_default();
        if below.iter().filter_map(|&lower| context.disk_span(lower)).any(|lower| is_disk_slow(context, lower)) {
            continue;
        }
        let slow = statuses.iter().filter_map(|status| SlowOperation::detect(context, status));
        // One finding per device, about its worst operation.
        if let Some(worst) = slow.max_by(|a, b| a.rank().total_cmp(&b.rank())) {
            found.push(worst.candidate(context, span));
            continue;
        }
        let tails = statuses.iter().filter_map(|status| SlowTail::detect(context, status));
        if let Some(worst) = tails.max_by(|a, b| a.requests.p99_multiple.total_cmp(&b.requests.p99_multiple)) {
            found.push(worst.candidate(context, span));
        }
    }
    found
}

/// Whether a device is slower at the same load or has more load, compared with the highest load at which it answered near its
/// baseline; `None` if that load is unknown. Load that does not come from it, on a device below, is more load.
pub fn latency_cause(
    context: &RuleContext,
    status: &LatencyStatus,
    load: &DeviceLoad,
    span: &DiskSpan,
) -> Option<LatencyCause> {
    if let Some(burst) = burst(span) {
        return Some(burst);
    }
    if let Some(below) = more_load_below(context, span) {
        return Some(below);
    }
    let outstanding = load.outstanding();
    if status.provisional {
        return None;
    }
    if outstanding <= MAX_UNCONTENDED_OUTSTANDING {
        return Some(LatencyCause::SameLoad);
    }
    let usual = status.baseline_load?;
    // Fewer but larger requests are as much work.
    let moves_less = |usual: f64| load.kib_per_second() < usual * SAME_LOAD_RATE;
    Some(match load.total_rate() {
        _ if outstanding <= usual.outstanding * SAME_LOAD_OUTSTANDING => LatencyCause::SameLoad,
        rate if rate < usual.rate * SAME_LOAD_RATE && usual.kib_per_second.is_none_or(moves_less) => {
            LatencyCause::LowerThroughput { rate, before: usual.rate }
        }
        _ => LatencyCause::MoreLoad { before: usual.outstanding },
    })
}

impl SlowOperation<'_> {
    fn candidate(&self, context: &RuleContext, span: &DiskSpan) -> Candidate {
        let thresholds = context.thresholds;
        let unwaited = !has_waiters(context.interval, span.id, thresholds.latency_waiting_threads);
        let cause = latency_cause(context, self.status, &self.load, span);
        let severity = match self.multiple {
            _ if unwaited || matches!(cause, Some(LatencyCause::Burst { .. })) => Severity::Note,
            times if times >= thresholds.latency_critical_multiple && !self.status.provisional && costs_the_host(context) => {
                Severity::Critical
            }
            _ => Severity::Warning,
        };
        let against = match self.status.provisional {
            true => format!("a provisional baseline of {}", latency(self.status.baseline)),
            false => format!("its {}", latency(self.status.baseline)),
        };
        let queue = count(self.load.concurrency(self.operation));
        let load = match &cause {
            None => format!("queue {queue}"),
            Some(LatencyCause::SameLoad) => format!("queue {queue}: slower at the same load"),
            Some(LatencyCause::Burst { at_once, busy }) => {
                format!("queue {queue}: in bursts of {} at once, busy {} of the time", count(*at_once), percent(*busy))
            }
            Some(LatencyCause::LowerThroughput { rate, before }) => {
                let (rate, before) = (plural(*rate, "request/s", "requests/s"), count(*before));
                format!("queue {queue}: slower, not more load ({rate}, at its baseline {before})")
            }
            Some(LatencyCause::MoreLoad { before }) => {
                format!("queue {queue}: more load (at its baseline up to {})", count(before.max(1.0)))
            }
            Some(LatencyCause::MoreLoadBelow { lower }) => {
                format!("queue {queue}: more load below, {}", load_below(context, span, *lower))
            }
        };
        // Of the last interval, whatever its number of requests: no judgement rests on it.
        let p99 = span.latency(self.operation).and_then(|known| known.total.quantile(0.99));
        let requests = self.status.requests.and_then(|status| status.compared());
        let (tail, tail_multiple) = match (&requests, p99) {
            (Some(requests), _) => (String::new(), format!(" ({})", p99_against_baseline(requests))),
            (None, Some(p99)) => (format!(" (p99 {})", latency(p99)), String::new()),
            (None, None) => Default::default(),
        };
        let device = context.disk_name(span.id);
        let (took, times) = (latency(Millis(self.await_ms)), multiple(self.multiple));
        let waited = if unwaited { "; no thread is seen to wait for it" } else { "" };
        let sentence =
            format!("{device}: {} {took}{tail} = {times} {against}{tail_multiple}, {load}{waited}", self.operation.plural(),);
        let mut evidence = vec![
            evidence_text("operation", self.operation.plural()),
            evidence_number("await_seconds", self.await_ms / 1000.0),
            evidence_number("baseline_seconds", self.status.baseline.0 / 1000.0),
            evidence_number("baseline_intervals", f64::from(self.status.learned_intervals)),
            evidence_text("baseline", self.status.basis()),
            evidence_number("concurrency", self.load.concurrency(self.operation)),
            evidence_number("completions_per_second", self.load.rate(self.operation)),
            cause.map_or(evidence_optional("cause", None), |cause| evidence_text("cause", cause.as_str())),
            evidence_optional("usual_outstanding", self.status.baseline_load.map(|usual| usual.outstanding)),
            evidence_optional("usual_completions_per_second", self.status.baseline_load.map(|usual| usual.rate)),
            evidence_number("lost_seconds_per_second", self.lost_seconds_per_second),
        ];
        match &requests {
            Some(requests) => evidence.extend(request_evidence(requests)),
            None => evidence.extend(p99.map(|p99| evidence_number("p99_seconds", p99.0 / 1000.0))),
        }
        evidence.extend(device_evidence(span));
        let what = format!("{device}: {} {took} = {times} {against}, queue {queue}", self.operation.plural());
        evidence.extend(device_chain(context, span.id, what, "/proc/diskstats"));
        Candidate {
            severity,
            subject: disk_subject(context, span.id),
            value: self.multiple,
            threshold: match self.status.provisional {
                true => thresholds.latency_provisional_multiple,
                false => thresholds.latency_multiple,
            },
            unit: "ratio",
            sentence,
            evidence,
            explained_share: explained_share(context, span.id),
        }
    }
}

/// Whether several threads are blocked while CPUs are idle: not if one backup waits for its disk, work at low priority alone, nor if CPUs
/// are full anyway.
fn costs_the_host(context: &RuleContext) -> bool {
    let blocked = context.interval.idle_blocked.as_ref();
    blocked.is_none_or(|blocked| {
        let background = blocked.groups.iter().filter(|group| is_background(context, group));
        let threads = blocked.blocked_threads - background.map(|group| group.blocked_threads()).sum::<f64>();
        blocked.lower_bound || threads >= MIN_SEVERAL_THREADS && blocked.cpus.min(threads) >= MIN_CRITICAL_IDLE_CPUS
    })
}

/// Why a device is slower than its baseline.
#[derive(Clone, Copy)]
pub enum LatencyCause {
    SameLoad,
    /// More requests are outstanding because fewer complete
    LowerThroughput {
        rate: f64,
        before: f64,
    },
    MoreLoad {
        before: f64,
    },
    /// A device below has work that does not come from this one
    MoreLoadBelow {
        lower: DiskId,
    },
    /// Many requests at once, in a small part of the time
    Burst {
        at_once: f64,
        busy: f64,
    },
}

/// Each request of a burst waits for those before it. The device costs no more time than it is busy.
pub fn burst(span: &DiskSpan) -> Option<LatencyCause> {
    let (queue, busy) = (span.aqu_sz?, span.busy?.0);
    let at_once = if busy > 0.0 { queue / busy } else { 0.0 };
    (busy <= MAX_BURST_BUSY_SHARE && at_once >= MIN_BURST_REQUESTS).then_some(LatencyCause::Burst { at_once, busy })
}

/// KiB per second, and requests outstanding, of all operations that move data: what is discarded is moved nowhere.
fn span_load(span: &DiskSpan) -> (f64, f64) {
    let moving = || span.operations().filter(|(operation, _)| *operation != Operation::Discard);
    let sum = |of: fn(&OpSpan) -> f64| moving().map(|(_, op)| of(op)).sum::<f64>();
    (sum(|op| op.kilobytes.0), sum(|op| op.concurrency))
}

/// The device below with most load, if it moves more data than this one, and has more requests outstanding: each request of this one
/// is one of each device below at most, but for what a parity or a journal adds to it one after the other.
fn more_load_below(context: &RuleContext, span: &DiskSpan) -> Option<LatencyCause> {
    let (kib, outstanding) = span_load(span);
    let below = with_lower_devices(context.interval, span.id);
    let loads = below.iter().skip(1).filter_map(|&lower| Some((lower, span_load(context.disk_span(lower)?))));
    let more = loads.filter(|&(lower, load)| {
        // A device below that answers as at its baseline delays nothing, however much it moves.
        let is_delayed = synchronized_array(context, lower).is_some() || is_above_baseline(context, lower);
        load.0 > kib * MIN_MORE_BYTES_BELOW && load.1 > outstanding && is_delayed
    });
    let (lower, _) = more.max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))?;
    Some(LatencyCause::MoreLoadBelow { lower })
}

/// Whether an operation of the device takes clearly longer than its baseline, though it need not be slow.
fn is_above_baseline(context: &RuleContext, id: DiskId) -> bool {
    let statuses = context.latency_statuses.iter().filter(|status| status.disk == id);
    statuses.filter_map(|status| status.multiple).any(|multiple| multiple >= MIN_DELAYED_MULTIPLE)
}

/// `md1 is being checked (sync_action), and sda below moves 97.7 MiB/s`
pub fn load_below(context: &RuleContext, span: &DiskSpan, lower: DiskId) -> String {
    let moved = |span: &DiskSpan| format!("{}/s", bytes(span_load(span).0 * 1024.0));
    let below = context.disk_span(lower).map_or_else(String::new, &moved);
    let name = context.disk_name(lower);
    match synchronized_array(context, lower) {
        Some((array, what)) => format!("{array} is being {what} (sync_action), and {name} below moves {below} for that"),
        None => format!("on {name}, which moves {below}, {} of them for {}", moved(span), context.disk_name(span.id)),
    }
}

/// The array (md) on this device that is being synchronized, and how.
fn synchronized_array(context: &RuleContext, lower: DiskId) -> Option<(String, &'static str)> {
    let disks = context.interval.newer.disks.as_ref().ok()?;
    disks.iter().find_map(|disk| {
        let what = match disk.facts.sync_action.as_ref()?.as_bytes() {
            b"check" => "checked",
            b"repair" => "repaired",
            b"resync" => "resynchronized",
            b"recover" => "rebuilt",
            b"reshape" => "reshaped",
            _ => return None,
        };
        leads_to_device(context.interval, disk.id, lower).then(|| (lossy_name(&disk.name), what))
    })
}

impl LatencyCause {
    pub fn as_str(&self) -> &'static str {
        match self {
            LatencyCause::SameLoad | LatencyCause::LowerThroughput { .. } => SLOWER_DEVICE,
            LatencyCause::MoreLoad { .. } | LatencyCause::MoreLoadBelow { .. } => "more load",
            LatencyCause::Burst { .. } => "burst",
        }
    }
}

/// Share of the time up to which a device must be busy so that its load comes in bursts. docs/metrics.md, "Fixed thresholds".
const MAX_BURST_BUSY_SHARE: f64 = 0.5;

/// Mean number of requests outstanding while it is busy from which they are a burst.
const MIN_BURST_REQUESTS: f64 = 8.0;

/// CPUs that are idle but blocked from which a slow device is critical. docs/metrics.md, "Fixed thresholds".
const MIN_CRITICAL_IDLE_CPUS: f64 = 0.25;

/// Up to this multiple of the outstanding requests at the baseline the load counts as the same; of a tail, which raises these
/// itself, up to this multiple of the completions per second.
pub const SAME_LOAD_OUTSTANDING: f64 = 1.25;

/// Multiple of the bytes of a device from which one below it has more load.
const MIN_MORE_BYTES_BELOW: f64 = 1.25;

/// Multiple of its baseline from which an operation of a device below is delayed, though it need not be slow.
const MIN_DELAYED_MULTIPLE: f64 = 1.25;

/// Below this share of the completions, and of the bytes, per second at the baseline the device itself is slower.
const SAME_LOAD_RATE: f64 = 0.8;
