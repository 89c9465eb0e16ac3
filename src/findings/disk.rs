//! Findings about a device's latency: against its own baseline, never against busy%.

pub mod drift;
pub mod io_limit;

use super::blocked_tasks;
use super::blocked_tasks::wait_chain;
use super::formatting::{count, lossy_name, millis, multiple, percent, plural, seconds};
use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use super::{Evidence, Kind, Severity, Subject};
use crate::baseline::{DeviceLoad, LatencyStatus, MAX_UNCONTENDED_OUTSTANDING};
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};

pub(super) const DISK_LATENCY: Rule = Rule {
    kind: Kind::DiskLatency,
    title: "Disk slower than it can be",
    meaning: "Requests take a multiple of what this device needs when it has one at a time. Either more is asked of it than \
              it serves at once (more load), or the device itself has become slow (slower at the same load): the sentence says \
              which.",
    computed: "Await of an interval with at least 5 completions (of short intervals as many as give 5, up to a second) against \
               the baseline of this device, operation and size class: a warning from 3×, critical from 10×, where the excess \
               is felt: (await − baseline) × completions a second ≥ 0.5. Against a provisional baseline (~) only from 10×, at \
               concurrency above 1.2, and never more than a warning. A note where no thread waits for it. Slower at the same \
               load: no more requests are outstanding than one, or than a quarter above the most with which the device was \
               seen to answer within 2× its baseline, or it completes less than 0.8 of the requests a second that it did \
               then. More load: neither.",
    caveats: "A baseline learned from other work (cached reads, another size mix) may be too low: set it by hand. Latency is \
            what the block layer sees: a limit above it or a file system's own lock is not in it.",
    next_steps: &[
        "who asks for it, and who is blocked on it (screen 3, Enter)",
        "queue against multiple: a queue of 1 with a high multiple is the device, not the load",
        "whether the device's neighbours (same controller, same hypervisor, same network) are slow too",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: disk_latency,
};

pub(super) const DISK_BUSY_NOT_SATURATED: Rule = Rule {
    kind: Kind::DiskBusyNotSaturated,
    title: "Disk busy, not saturated",
    meaning: "%util near 100 says only that a request was outstanding most of the time. This device still answers near its \
              baseline: requests do not wait for each other, or there is only one at a time.",
    computed: "busy% ≥ 90 while every operation with at least 5 completions answers below 2× its baseline. A device that has \
               one request at a time is at its baseline by definition.",
    caveats: "Without a learned baseline nobody knows yet what it can do: the sentence says against what it compares.",
    next_steps: &["await against baseline, not %util, when the load grows"],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: disk_busy_not_saturated,
};

pub(super) const DISK_STALLED: Rule = Rule {
    kind: Kind::DiskStalled,
    title: "Disk answers nothing",
    meaning: "The device has requests and completes none: a dead disk, path or server. await and queue read 0.00 then, since \
              the kernel counts at completion, and are shown as -.",
    computed: "Requests in flight and no completion of any kind for at least 3 s. A device that stands on another stalled one \
               is left out. Critical where threads are blocked.",
    caveats: "A discard of a whole device or a tape-like operation may honestly take that long; some old drivers leave the \
            in-flight gauge above 0 for ever.",
    next_steps: &[
        "dmesg for resets and timeouts of the device",
        "the paths and servers behind it",
        "who is blocked on it (screen 3, Enter)",
    ],
    hysteresis: Hysteresis::Immediate,
    evaluate: disk_stalled,
};

fn disk_latency(scene: &RuleContext) -> Vec<Candidate> {
    let mut found = Vec::new();
    for span in &scene.interval.disks {
        // The latency of a device that stands on a slow one is that one's.
        let below = scene.disk(span.id).map(|disk| disk.facts.slaves.as_slice()).unwrap_or_default();
        if below.iter().filter_map(|&lower| scene.disk_span(lower)).any(|lower| is_slow(scene, lower)) {
            continue;
        }
        let slow = span.operations().filter_map(|(operation, _)| SlowOperation::detect(scene, span, operation));
        // One finding a device: its worst operation speaks, the others are evidence.
        if let Some(worst) = slow.max_by(|a, b| a.rank().total_cmp(&b.rank())) {
            found.push(worst.candidate(scene, span));
        }
    }
    found
}

/// Whether some operation of a device takes a multiple of its baseline that is felt.
pub(super) fn is_slow(scene: &RuleContext, span: &DiskSpan) -> bool {
    span.operations().any(|(operation, _)| SlowOperation::detect(scene, span, operation).is_some())
}

/// One operation that is too slow.
struct SlowOperation<'a> {
    operation: Operation,
    load: DeviceLoad,
    standing: &'a LatencyStatus,
    await_ms: f64,
    multiple: f64,
    /// Seconds lost a second
    lost_seconds_per_second: f64,
}

impl<'a> SlowOperation<'a> {
    fn detect(scene: &'a RuleContext, span: &DiskSpan, operation: Operation) -> Option<SlowOperation<'a>> {
        let thresholds = scene.thresholds;
        let standing = scene.latency_status(span.id, operation)?;
        let load = standing.window_load?;
        let (r#await, multiple) = (load.r#await(operation)?, standing.window_multiple()?);
        let needed = match standing.provisional {
            // What a device does with one request at a time is its baseline.
            true if load.concurrency(operation) <= MAX_UNCONTENDED_OUTSTANDING => return None,
            true => thresholds.latency_provisional_multiple.max(thresholds.latency_multiple),
            false => thresholds.latency_multiple,
        };
        let felt = (r#await.0 - standing.baseline.0) / 1000.0 * load.rate(operation);
        let slow = multiple >= needed && felt >= thresholds.latency_felt;
        slow.then_some(SlowOperation {
            operation,
            load,
            standing,
            await_ms: r#await.0,
            multiple,
            lost_seconds_per_second: felt,
        })
    }

    /// Whether the device has become slower or is asked for more, by the load at which it was seen to be well; `None`
    /// where that is not known.
    fn cause(&self) -> Option<LatencyCause> {
        let outstanding = self.load.outstanding();
        if self.standing.provisional {
            return None;
        }
        if outstanding <= MAX_UNCONTENDED_OUTSTANDING {
            return Some(LatencyCause::SameLoad);
        }
        let usual = self.standing.baseline_load?;
        Some(match self.load.total_rate() {
            _ if outstanding <= usual.outstanding * SAME_LOAD_OUTSTANDING => LatencyCause::SameLoad,
            rate if rate < usual.rate * SAME_LOAD_RATE => LatencyCause::LowerThroughput { rate, before: usual.rate },
            _ => LatencyCause::MoreLoad { before: usual.outstanding },
        })
    }

    /// What a learned baseline says comes before what a provisional one does.
    fn rank(&self) -> f64 {
        if self.standing.provisional { self.multiple.min(1e9) } else { 1e9 + self.multiple }
    }

    fn candidate(&self, scene: &RuleContext, span: &DiskSpan) -> Candidate {
        let thresholds = scene.thresholds;
        let unwaited = !wait_chain::has_waiters(scene.interval, span.id, thresholds.latency_waiting_threads);
        let severity = match self.multiple {
            _ if unwaited => Severity::Note,
            times if times >= thresholds.latency_critical_multiple && !self.standing.provisional => Severity::Critical,
            _ => Severity::Warning,
        };
        let against = match self.standing.provisional {
            true => format!("~{} (provisional: not learned yet)", millis(self.standing.baseline.0)),
            false => format!("its {}", millis(self.standing.baseline.0)),
        };
        let queue = count(self.load.concurrency(self.operation));
        let cause = self.cause();
        let load = match &cause {
            None => format!("queue {queue}"),
            Some(LatencyCause::SameLoad) => format!("queue {queue}: slower at the same load"),
            Some(LatencyCause::LowerThroughput { rate, before }) => {
                let (rate, before) = (plural(*rate, "request/s", "requests/s"), count(*before));
                format!("queue {queue}: slower, not more load ({rate}, at its baseline {before})")
            }
            Some(LatencyCause::MoreLoad { before }) => {
                format!("queue {queue}: more load (at its baseline up to {})", count(before.max(1.0)))
            }
        };
        let device = scene.disk_name(span.id);
        let waited = if unwaited { "; no thread waits for it" } else { "" };
        let sentence = format!(
            "{device}: {} {} = {} {against}, {load}{waited}",
            self.operation.plural(),
            millis(self.await_ms),
            multiple(self.multiple)
        );
        let mut evidence = vec![
            evidence_text("operation", self.operation.plural()),
            evidence_number("await_seconds", self.await_ms / 1000.0),
            evidence_number("baseline_seconds", self.standing.baseline.0 / 1000.0),
            evidence_number("baseline_intervals", f64::from(self.standing.learned_intervals)),
            evidence_text("baseline", if self.standing.provisional { "provisional" } else { "learned" }),
            evidence_number("concurrency", self.load.concurrency(self.operation)),
            evidence_number("completions_per_second", self.load.rate(self.operation)),
            cause.map_or(evidence_optional("cause", None), |cause| evidence_text("cause", cause.as_str())),
            evidence_optional("usual_outstanding", self.standing.baseline_load.map(|usual| usual.outstanding)),
            evidence_optional("usual_completions_per_second", self.standing.baseline_load.map(|usual| usual.rate)),
            evidence_number("lost_seconds_per_second", self.lost_seconds_per_second),
        ];
        evidence.extend(device_evidence(span));
        Candidate {
            severity,
            subject: disk_subject(scene, span.id),
            value: self.multiple,
            threshold: match self.standing.provisional {
                true => thresholds.latency_provisional_multiple,
                false => thresholds.latency_multiple,
            },
            unit: "ratio",
            sentence,
            evidence,
            explained_share: explained_share(scene, span.id),
        }
    }
}

/// Why a device is slower than its baseline.
enum LatencyCause {
    SameLoad,
    /// More are outstanding since fewer are done
    LowerThroughput {
        rate: f64,
        before: f64,
    },
    MoreLoad {
        before: f64,
    },
}

impl LatencyCause {
    fn as_str(&self) -> &'static str {
        match self {
            LatencyCause::SameLoad | LatencyCause::LowerThroughput { .. } => "slower",
            LatencyCause::MoreLoad { .. } => "more load",
        }
    }
}

/// So many times the requests outstanding at its baseline are the same load.
const SAME_LOAD_OUTSTANDING: f64 = 1.25;

/// Below this share of the requests a second that it completed at its baseline it is the device that is slower.
const SAME_LOAD_RATE: f64 = 0.8;

fn disk_busy_not_saturated(scene: &RuleContext) -> Vec<Candidate> {
    let mut found = Vec::new();
    for span in &scene.interval.disks {
        let Some(busy) = span.busy.filter(|busy| busy.0 >= scene.thresholds.disk_busy_ratio && !span.stalled) else { continue };
        let judged = span.operations().filter_map(|(operation, _)| OperationLatency::for_operation(scene, span.id, operation));
        let answers: Vec<OperationLatency> = judged.collect();
        if !answers.iter().all(|answer| answer.is_near_baseline(scene)) {
            continue;
        }
        // What those who are stuck on it wait for; else what it has most to do with.
        let limit = bottleneck_operation(scene, span.id);
        let is_limit = |answer: &OperationLatency| Some(answer.standing.operation) == limit;
        let most = |a: &OperationLatency, b: &OperationLatency| {
            is_limit(a).cmp(&is_limit(b)).then(a.concurrency.total_cmp(&b.concurrency))
        };
        let Some(answer) = answers.into_iter().max_by(most) else { continue };
        let device = scene.disk_name(span.id);
        let (baseline, operation) = (millis(answer.standing.baseline.0), answer.standing.operation);
        // Of that operation: others may go on beside it.
        let at_once = if answer.concurrency <= MAX_UNCONTENDED_OUTSTANDING {
            format!("it has one {} at a time", operation.as_str())
        } else {
            format!("it serves {} in parallel", plural(answer.concurrency, operation.as_str(), operation.plural()))
        };
        let against = match answer.standing.provisional {
            true => format!(" = {} ~{baseline} (provisional: not learned yet)", multiple(answer.multiple)),
            false => format!(", {} baseline", multiple(answer.multiple)),
        };
        let sentence = format!(
            "{device}: busy {}, not saturated: {at_once} and answers {} in {}{against}",
            percent(busy.0),
            operation.plural(),
            millis(answer.await_ms),
        );
        let mut evidence = vec![
            evidence_text("operation", operation.plural()),
            evidence_number("await_seconds", answer.await_ms / 1000.0),
            evidence_number("multiple", answer.multiple),
            evidence_text("baseline", if answer.standing.provisional { "provisional" } else { "learned" }),
            evidence_number("concurrency", answer.concurrency),
        ];
        evidence.extend(device_evidence(span));
        found.push(Candidate {
            severity: Severity::Note,
            subject: disk_subject(scene, span.id),
            value: busy.0,
            threshold: scene.thresholds.disk_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: 0.0,
        });
    }
    found
}

/// How a busy device answers one kind of operation.
struct OperationLatency<'a> {
    standing: &'a LatencyStatus,
    await_ms: f64,
    multiple: f64,
    concurrency: f64,
}

impl<'a> OperationLatency<'a> {
    fn for_operation(scene: &'a RuleContext, id: DiskId, operation: Operation) -> Option<OperationLatency<'a>> {
        let standing = scene.latency_status(id, operation)?;
        let load = standing.window_load?;
        let (await_ms, multiple) = (load.r#await(operation)?.0, standing.window_multiple()?);
        Some(OperationLatency { standing, await_ms, multiple, concurrency: load.concurrency(operation) })
    }

    /// Near its baseline; not learned yet, with one request at a time: that is what it does alone, whatever its kind does.
    fn is_near_baseline(&self, scene: &RuleContext) -> bool {
        self.multiple < scene.thresholds.disk_well_multiple
            || self.standing.provisional && self.concurrency <= MAX_UNCONTENDED_OUTSTANDING
    }
}

fn disk_stalled(scene: &RuleContext) -> Vec<Candidate> {
    let now = scene.interval.at().boottime_ns;
    let for_seconds = |id: DiskId| Some(now.saturating_sub(scene.state.stalled_since(id)?) as f64 / 1e9);
    let mut found = Vec::new();
    for span in &scene.interval.disks {
        let below = scene.disk(span.id).map(|disk| disk.facts.slaves.as_slice()).unwrap_or_default();
        if below.iter().any(|lower| scene.state.stalled_since(*lower).is_some()) {
            continue;
        }
        let Some(silent) = for_seconds(span.id).filter(|&silent| silent >= scene.thresholds.stalled_seconds) else { continue };
        let waiting = wait_chain::has_waiters(scene.interval, span.id, scene.thresholds.latency_waiting_threads);
        let requests = plural(f64::from(span.in_flight), "request", "requests");
        let of_kernel = blocked_tasks::kernel_threads::hung_with_device(scene, span.id);
        let with_it = match of_kernel.as_slice() {
            [] => String::new(),
            threads => format!("; kernel threads hang with it: {}", blocked_tasks::kernel_threads::names(threads)),
        };
        found.push(Candidate {
            severity: if waiting { Severity::Critical } else { Severity::Warning },
            subject: disk_subject(scene, span.id),
            value: silent,
            threshold: scene.thresholds.stalled_seconds,
            unit: "seconds",
            sentence: format!(
                "{} has {requests} in flight and has completed none for {}{with_it}",
                scene.disk_name(span.id),
                seconds(silent)
            ),
            evidence: vec![
                evidence_number("in_flight", f64::from(span.in_flight)),
                evidence_number("silent_seconds", silent),
                evidence_optional("blocked_threads", scene.blocked_threads()),
                blocked_tasks::kernel_threads::evidence(&of_kernel),
            ],
            explained_share: explained_share(scene, span.id),
        });
    }
    found
}

/// How a device answers, in a line: `writes 0.5 ms = 1.0× its baseline, flushes 40.3 ms = 1.0× its baseline`.
pub(super) fn latency_summary(scene: &RuleContext, id: DiskId) -> String {
    let Some(span) = scene.disk_span(id) else { return String::new() };
    let lines = span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some()).map(|(operation, op)| {
        let limit = wait_chain::Bottleneck { operation, span: op, standing: scene.latency_status(id, operation) };
        limit.sentence()
    });
    lines.collect::<Vec<_>>().join(", ")
}

fn disk_subject(scene: &RuleContext, id: DiskId) -> Subject {
    Subject::Disk { id, name: scene.disk(id).map(|disk| disk.name.clone()).unwrap_or_default() }
}

/// The operation that the group which is stuck on this device most waits for.
fn bottleneck_operation(scene: &RuleContext, id: DiskId) -> Option<Operation> {
    let groups = &scene.interval.idle_blocked.as_ref()?.groups;
    let group = groups.iter().find(|group| group.holder_device.is_some_and(|(device, _)| device == id))?;
    let holder = group.holder.as_ref()?;
    Some(wait_chain::bottleneck(scene.interval, scene.latency_statuses, id, Some(holder))?.operation)
}

/// The share of the box that is blocked on this device.
fn explained_share(scene: &RuleContext, id: DiskId) -> f64 {
    let Some(blocked) = &scene.interval.idle_blocked else { return 0.0 };
    let on_it = blocked.groups.iter().filter(|group| group.holder_device.is_some_and(|(device, _)| device == id));
    on_it.map(|group| group.ratio).sum()
}

fn device_evidence(span: &DiskSpan) -> Vec<Evidence> {
    vec![
        evidence_optional("queue", span.aqu_sz),
        evidence_optional("busy_ratio", span.busy.map(|busy| busy.0)),
        evidence_number("in_flight", f64::from(span.in_flight)),
        evidence_number("reads_per_second", span.reads.rate.0),
        evidence_number("writes_per_second", span.writes.rate.0),
        evidence_optional("flushes_per_second", span.flushes.map(|op| op.rate.0)),
    ]
}

/// The name of a device for evidence of other families.
pub(super) fn disk_names(scene: &RuleContext, ids: &[DiskId]) -> String {
    ids.iter().filter_map(|id| scene.disk(*id)).map(|disk| lossy_name(&disk.name)).collect::<Vec<_>>().join(", ")
}
