//! Findings about a device's latency: against its own baseline, never against busy%.

pub mod drift;
pub mod io_limit;

use super::rule::{Patience, Rule};
use super::scene::{Scene, Suspicion, maybe, number, text};
use super::stuck;
use super::stuck::chain;
use super::words::{count, millis, multiple, name, percent, plural, seconds};
use super::{Evidence, Kind, Severity, Subject};
use crate::baseline::{ALONE, Load, Standing};
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
    wrong: "A baseline learned from other work (cached reads, another size mix) may be too low: set it by hand. Latency is \
            what the block layer sees: a limit above it or a file system's own lock is not in it.",
    next: &[
        "who asks for it, and who is blocked on it (screen 3, Enter)",
        "queue against multiple: a queue of 1 with a high multiple is the device, not the load",
        "whether the device's neighbours (same controller, same hypervisor, same network) are slow too",
    ],
    patience: Patience::TwoOfThree,
    suspect: disk_latency,
};

pub(super) const DISK_BUSY_NOT_SATURATED: Rule = Rule {
    kind: Kind::DiskBusyNotSaturated,
    title: "Disk busy, not saturated",
    meaning: "%util near 100 says only that a request was outstanding most of the time. This device still answers near its \
              baseline: requests do not wait for each other, or there is only one at a time.",
    computed: "busy% ≥ 90 while every operation with at least 5 completions answers below 2× its baseline. A device that has \
               one request at a time is at its baseline by definition.",
    wrong: "Without a learned baseline nobody knows yet what it can do: the sentence says against what it compares.",
    next: &["await against baseline, not %util, when the load grows"],
    patience: Patience::TwoOfThree,
    suspect: disk_busy_not_saturated,
};

pub(super) const DISK_STALLED: Rule = Rule {
    kind: Kind::DiskStalled,
    title: "Disk answers nothing",
    meaning: "The device has requests and completes none: a dead disk, path or server. await and queue read 0.00 then, since \
              the kernel counts at completion, and are shown as -.",
    computed: "Requests in flight and no completion of any kind for at least 3 s. A device that stands on another stalled one \
               is left out. Critical where threads are blocked.",
    wrong: "A discard of a whole device or a tape-like operation may honestly take that long; some old drivers leave the \
            in-flight gauge above 0 for ever.",
    next: &[
        "dmesg for resets and timeouts of the device",
        "the paths and servers behind it",
        "who is blocked on it (screen 3, Enter)",
    ],
    patience: Patience::AtOnce,
    suspect: disk_stalled,
};

fn disk_latency(scene: &Scene) -> Vec<Suspicion> {
    let mut found = Vec::new();
    for span in &scene.interval.disks {
        // The latency of a device that stands on a slow one is that one's.
        let below = scene.disk(span.id).map(|disk| disk.facts.slaves.as_slice()).unwrap_or_default();
        if below.iter().filter_map(|&lower| scene.disk_span(lower)).any(|lower| is_slow(scene, lower)) {
            continue;
        }
        let slow = span.operations().filter_map(|(operation, _)| Slow::of(scene, span, operation));
        // One finding a device: its worst operation speaks, the others are evidence.
        if let Some(worst) = slow.max_by(|a, b| a.weight().total_cmp(&b.weight())) {
            found.push(worst.suspicion(scene, span));
        }
    }
    found
}

/// Whether some operation of a device takes a multiple of its baseline that is felt.
pub(super) fn is_slow(scene: &Scene, span: &DiskSpan) -> bool {
    span.operations().any(|(operation, _)| Slow::of(scene, span, operation).is_some())
}

/// One operation that is too slow.
struct Slow<'a> {
    operation: Operation,
    load: Load,
    standing: &'a Standing,
    await_ms: f64,
    multiple: f64,
    /// Seconds lost a second
    felt: f64,
}

impl<'a> Slow<'a> {
    fn of(scene: &'a Scene, span: &DiskSpan, operation: Operation) -> Option<Slow<'a>> {
        let thresholds = scene.thresholds;
        let standing = scene.standing(span.id, operation)?;
        let load = standing.judged?;
        let (r#await, multiple) = (load.r#await(operation)?, standing.judged_multiple()?);
        let needed = match standing.provisional {
            // What a device does with one request at a time is its baseline.
            true if load.concurrency(operation) <= ALONE => return None,
            true => thresholds.latency_provisional_multiple.max(thresholds.latency_multiple),
            false => thresholds.latency_multiple,
        };
        let felt = (r#await.0 - standing.baseline.0) / 1000.0 * load.rate(operation);
        let slow = multiple >= needed && felt >= thresholds.latency_felt;
        slow.then_some(Slow { operation, load, standing, await_ms: r#await.0, multiple, felt })
    }

    /// Whether the device has become slower or is asked for more, by the load at which it was seen to be well; `None`
    /// where that is not known.
    fn cause(&self) -> Option<Cause> {
        let outstanding = self.load.outstanding();
        if self.standing.provisional {
            return None;
        }
        if outstanding <= ALONE {
            return Some(Cause::SameLoad);
        }
        let usual = self.standing.usual?;
        Some(match self.load.rate_of_all() {
            _ if outstanding <= usual.outstanding * SAME_OUTSTANDING => Cause::SameLoad,
            rate if rate < usual.rate * SAME_RATE => Cause::FewerDone { rate, before: usual.rate },
            _ => Cause::MoreLoad { before: usual.outstanding },
        })
    }

    /// What a learned baseline says comes before what a provisional one does.
    fn weight(&self) -> f64 {
        if self.standing.provisional { self.multiple.min(1e9) } else { 1e9 + self.multiple }
    }

    fn suspicion(&self, scene: &Scene, span: &DiskSpan) -> Suspicion {
        let thresholds = scene.thresholds;
        let unwaited = !chain::is_waited_for(scene.interval, span.id, thresholds.latency_waiting_threads);
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
            Some(Cause::SameLoad) => format!("queue {queue}: slower at the same load"),
            Some(Cause::FewerDone { rate, before }) => {
                let (rate, before) = (plural(*rate, "request/s", "requests/s"), count(*before));
                format!("queue {queue}: slower, not more load ({rate}, at its baseline {before})")
            }
            Some(Cause::MoreLoad { before }) => {
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
            text("operation", self.operation.plural()),
            number("await_seconds", self.await_ms / 1000.0),
            number("baseline_seconds", self.standing.baseline.0 / 1000.0),
            number("baseline_intervals", f64::from(self.standing.intervals)),
            text("baseline", if self.standing.provisional { "provisional" } else { "learned" }),
            number("concurrency", self.load.concurrency(self.operation)),
            number("completions_per_second", self.load.rate(self.operation)),
            cause.map_or(maybe("cause", None), |cause| text("cause", cause.word())),
            maybe("usual_outstanding", self.standing.usual.map(|usual| usual.outstanding)),
            maybe("usual_completions_per_second", self.standing.usual.map(|usual| usual.rate)),
            number("lost_seconds_per_second", self.felt),
        ];
        evidence.extend(device_evidence(span));
        Suspicion {
            severity,
            subject: subject(scene, span.id),
            value: self.multiple,
            threshold: match self.standing.provisional {
                true => thresholds.latency_provisional_multiple,
                false => thresholds.latency_multiple,
            },
            unit: "ratio",
            sentence,
            evidence,
            explains: explained(scene, span.id),
        }
    }
}

/// Why a device is slower than its baseline.
enum Cause {
    SameLoad,
    /// More are outstanding since fewer are done
    FewerDone {
        rate: f64,
        before: f64,
    },
    MoreLoad {
        before: f64,
    },
}

impl Cause {
    fn word(&self) -> &'static str {
        match self {
            Cause::SameLoad | Cause::FewerDone { .. } => "slower",
            Cause::MoreLoad { .. } => "more load",
        }
    }
}

/// So many times the requests outstanding at its baseline are the same load.
const SAME_OUTSTANDING: f64 = 1.25;

/// Below this share of the requests a second that it completed at its baseline it is the device that is slower.
const SAME_RATE: f64 = 0.8;

fn disk_busy_not_saturated(scene: &Scene) -> Vec<Suspicion> {
    let mut found = Vec::new();
    for span in &scene.interval.disks {
        let Some(busy) = span.busy.filter(|busy| busy.0 >= scene.thresholds.disk_busy_ratio && !span.stalled) else { continue };
        let judged = span.operations().filter_map(|(operation, _)| Answer::of(scene, span.id, operation));
        let answers: Vec<Answer> = judged.collect();
        if !answers.iter().all(|answer| answer.is_well(scene)) {
            continue;
        }
        // What those who are stuck on it wait for; else what it has most to do with.
        let limit = bounds(scene, span.id);
        let is_limit = |answer: &Answer| Some(answer.standing.operation) == limit;
        let most = |a: &Answer, b: &Answer| is_limit(a).cmp(&is_limit(b)).then(a.concurrency.total_cmp(&b.concurrency));
        let Some(answer) = answers.into_iter().max_by(most) else { continue };
        let device = scene.disk_name(span.id);
        let (baseline, operation) = (millis(answer.standing.baseline.0), answer.standing.operation);
        // Of that operation: others may go on beside it.
        let at_once = if answer.concurrency <= ALONE {
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
            text("operation", operation.plural()),
            number("await_seconds", answer.await_ms / 1000.0),
            number("multiple", answer.multiple),
            text("baseline", if answer.standing.provisional { "provisional" } else { "learned" }),
            number("concurrency", answer.concurrency),
        ];
        evidence.extend(device_evidence(span));
        found.push(Suspicion {
            severity: Severity::Note,
            subject: subject(scene, span.id),
            value: busy.0,
            threshold: scene.thresholds.disk_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explains: 0.0,
        });
    }
    found
}

/// How a busy device answers one kind of operation.
struct Answer<'a> {
    standing: &'a Standing,
    await_ms: f64,
    multiple: f64,
    concurrency: f64,
}

impl<'a> Answer<'a> {
    fn of(scene: &'a Scene, id: DiskId, operation: Operation) -> Option<Answer<'a>> {
        let standing = scene.standing(id, operation)?;
        let load = standing.judged?;
        let (await_ms, multiple) = (load.r#await(operation)?.0, standing.judged_multiple()?);
        Some(Answer { standing, await_ms, multiple, concurrency: load.concurrency(operation) })
    }

    /// Near its baseline; not learned yet, with one request at a time: that is what it does alone, whatever its kind does.
    fn is_well(&self, scene: &Scene) -> bool {
        self.multiple < scene.thresholds.disk_well_multiple || self.standing.provisional && self.concurrency <= ALONE
    }
}

fn disk_stalled(scene: &Scene) -> Vec<Suspicion> {
    let now = scene.interval.at().boottime_ns;
    let for_seconds = |id: DiskId| Some(now.saturating_sub(scene.streaks.silent_since(id)?) as f64 / 1e9);
    let mut found = Vec::new();
    for span in &scene.interval.disks {
        let below = scene.disk(span.id).map(|disk| disk.facts.slaves.as_slice()).unwrap_or_default();
        if below.iter().any(|lower| scene.streaks.silent_since(*lower).is_some()) {
            continue;
        }
        let Some(silent) = for_seconds(span.id).filter(|&silent| silent >= scene.thresholds.stalled_seconds) else { continue };
        let waiting = chain::is_waited_for(scene.interval, span.id, scene.thresholds.latency_waiting_threads);
        let requests = plural(f64::from(span.in_flight), "request", "requests");
        let of_kernel = stuck::kernel::hang_with(scene, span.id);
        let with_it = match of_kernel.as_slice() {
            [] => String::new(),
            threads => format!("; kernel threads hang with it: {}", stuck::kernel::names(threads)),
        };
        found.push(Suspicion {
            severity: if waiting { Severity::Critical } else { Severity::Warning },
            subject: subject(scene, span.id),
            value: silent,
            threshold: scene.thresholds.stalled_seconds,
            unit: "seconds",
            sentence: format!(
                "{} has {requests} in flight and has completed none for {}{with_it}",
                scene.disk_name(span.id),
                seconds(silent)
            ),
            evidence: vec![
                number("in_flight", f64::from(span.in_flight)),
                number("silent_seconds", silent),
                maybe("blocked_threads", scene.blocked_threads()),
                stuck::kernel::evidence(&of_kernel),
            ],
            explains: explained(scene, span.id),
        });
    }
    found
}

/// How a device answers, in a line: `writes 0.5 ms = 1.0× its baseline, flushes 40.3 ms = 1.0× its baseline`.
pub(super) fn answers(scene: &Scene, id: DiskId) -> String {
    let Some(span) = scene.disk_span(id) else { return String::new() };
    let lines = span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some()).map(|(operation, op)| {
        let limit = chain::Limit { operation, op, standing: scene.standing(id, operation) };
        limit.sentence()
    });
    lines.collect::<Vec<_>>().join(", ")
}

fn subject(scene: &Scene, id: DiskId) -> Subject {
    Subject::Disk { id, name: scene.disk(id).map(|disk| disk.name.clone()).unwrap_or_default() }
}

/// The operation that the group which is stuck on this device most waits for.
fn bounds(scene: &Scene, id: DiskId) -> Option<Operation> {
    let groups = &scene.interval.idle_blocked.as_ref()?.groups;
    let group = groups.iter().find(|group| group.holder_device.is_some_and(|(device, _)| device == id))?;
    let holder = group.holder.as_ref()?;
    Some(chain::limit(scene.interval, scene.standings, id, Some(holder))?.operation)
}

/// The share of the box that is blocked on this device.
fn explained(scene: &Scene, id: DiskId) -> f64 {
    let Some(blocked) = &scene.interval.idle_blocked else { return 0.0 };
    let on_it = blocked.groups.iter().filter(|group| group.holder_device.is_some_and(|(device, _)| device == id));
    on_it.map(|group| group.ratio).sum()
}

fn device_evidence(span: &DiskSpan) -> Vec<Evidence> {
    vec![
        maybe("queue", span.aqu_sz),
        maybe("busy_ratio", span.busy.map(|busy| busy.0)),
        number("in_flight", f64::from(span.in_flight)),
        number("reads_per_second", span.reads.rate.0),
        number("writes_per_second", span.writes.rate.0),
        maybe("flushes_per_second", span.flushes.map(|op| op.rate.0)),
    ]
}

/// The name of a device for evidence of other families.
pub(super) fn names(scene: &Scene, ids: &[DiskId]) -> String {
    ids.iter().filter_map(|id| scene.disk(*id)).map(|disk| name(&disk.name)).collect::<Vec<_>>().join(", ")
}
