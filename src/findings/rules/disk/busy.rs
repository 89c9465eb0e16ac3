//! Rule disk-busy-not-saturated: busy% is high, but the latency is near the baseline.

use crate::baseline::{LatencyStatus, MAX_UNCONTENDED_OUTSTANDING};
use crate::findings::finding::{Kind, Severity};
use crate::findings::formatting::{latency, multiple, percent, plural, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_text};
use crate::findings::rules::disk::evidence::{device_chain, device_evidence, disk_subject};
use crate::findings::wait_chain::bottleneck::{bottleneck, only_since_start};
use crate::ids::DiskId;
use crate::interval::disk::Operation;
use crate::units::Millis;

pub const DISK_BUSY_NOT_SATURATED: Rule = Rule {
    kind: Kind::DiskBusyNotSaturated,
    title: "Disk busy, not saturated",
    meaning: "%util near 100 only says that a request was outstanding most of the time. This device still answers near its \
              baseline: requests do not wait for each other, or there is only one at a time.",
    computed: "busy% ≥ 90 while every operation with at least 5 completions answers below 2× its baseline. A device with one \
               request at a time is at its baseline by definition. A baseline that was not learned under light load does not \
               show that a device is fast: the sentence then says since when it has been so.",
    caveats: "Without a learned baseline its capacity is not known: the sentence says what it compares with.",
    next_steps: &["await against the baseline, not %util, when the load grows"],
    reference: "Disks",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: disk_busy_not_saturated,
};

fn disk_busy_not_saturated(context: &RuleContext) -> Vec<Candidate> {
    let mut found = Vec::new();
    for span in &context.interval.disks {
        let Some(busy) = span.busy.filter(|busy| busy.0 >= context.thresholds.disk_busy_ratio && !span.stalled) else {
            continue;
        };
        let evaluated =
            span.operations().filter_map(|(operation, _)| OperationLatency::for_operation(context, span.id, operation));
        let answers: Vec<OperationLatency> = evaluated.collect();
        if !answers.iter().all(|answer| answer.is_near_baseline(context)) {
            continue;
        }
        // The operation that blocked threads wait for; otherwise the one with most requests outstanding.
        let limit = bottleneck_operation(context, span.id);
        let is_limit = |answer: &OperationLatency| Some(answer.status.operation) == limit;
        let most = |a: &OperationLatency, b: &OperationLatency| {
            is_limit(a).cmp(&is_limit(b)).then(a.concurrency.total_cmp(&b.concurrency))
        };
        let Some(answer) = answers.into_iter().max_by(most) else { continue };
        let device = context.disk_name(span.id);
        let (baseline, operation) = (latency(answer.status.baseline), answer.status.operation);
        // Requests of that operation at a time; requests of others may be in flight beside them.
        let at_once = if answer.concurrency <= MAX_UNCONTENDED_OUTSTANDING {
            format!("it has one {} at a time", operation.as_str())
        } else {
            format!("it serves {} in parallel", plural(answer.concurrency, operation.as_str(), operation.plural()))
        };
        let answers = format!("answers {} in {}", operation.plural(), latency(Millis(answer.await_ms)));
        let busy_words = percent(busy.0);
        // Requests of other operations may wait beside it.
        let no_queue = if span.aqu_sz.is_some_and(|queue| queue > MAX_UNCONTENDED_OUTSTANDING) { "" } else { ", no queue" };
        let since_start = only_since_start(answer.status, answer.multiple);
        let at_most = significant_digits(1000.0 / answer.await_ms);
        let one_at_a_time = answer.concurrency <= MAX_UNCONTENDED_OUTSTANDING;
        let sentence = match (answer.status.provisional, answer.is_below_multiple(context)) {
            (false, _) => match since_start {
                // Nothing shows whether the device is slow: it was busy all the time.
                Some(since_start) if one_at_a_time => format!(
                    "{device}: busy {busy_words}{no_queue}: {at_once} and {answers}, {since_start}, so at most {at_most}/s; \
                     whether that is slow for this device is not known"
                ),
                Some(since_start) => {
                    format!("{device}: busy {busy_words}, not saturated: {at_once} and {answers}, {since_start}")
                }
                None => format!(
                    "{device}: busy {busy_words}, not saturated: {at_once} and {answers}, {} its baseline",
                    multiple(answer.multiple)
                ),
            },
            (true, true) => format!(
                "{device}: busy {busy_words}, not saturated: {at_once} and {answers}, near {baseline}, which is assumed: no baseline \
                 has been learned"
            ),
            // One at a time: no queue shows whether the device is slow.
            (true, false) => format!(
                "{device}: busy {busy_words}{no_queue}: {at_once} and {answers}, so at most {at_most}/s; whether that is slow for \
                 this device is not known: no baseline has been learned"
            ),
        };
        let mut evidence = vec![
            evidence_text("operation", operation.plural()),
            evidence_number("await_seconds", answer.await_ms / 1000.0),
            evidence_number("multiple", answer.multiple),
            evidence_text("baseline", answer.status.basis()),
            evidence_number("concurrency", answer.concurrency),
        ];
        evidence.extend(device_evidence(span));
        let what = format!("{device}: busy {busy_words}, {answers}");
        evidence.extend(device_chain(context, span.id, what, "/proc/diskstats"));
        found.push(Candidate {
            severity: Severity::Note,
            subject: disk_subject(context, span.id),
            value: busy.0,
            threshold: context.thresholds.disk_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: 0.0,
        });
    }
    found
}

/// Latency of one operation of a busy device.
struct OperationLatency<'a> {
    status: &'a LatencyStatus,
    await_ms: f64,
    multiple: f64,
    concurrency: f64,
}

impl<'a> OperationLatency<'a> {
    fn for_operation(context: &'a RuleContext, id: DiskId, operation: Operation) -> Option<OperationLatency<'a>> {
        let status = context.latency_status(id, operation)?;
        let load = status.window_load?;
        let (await_ms, multiple) = (load.r#await(operation)?.0, status.window_multiple()?);
        Some(OperationLatency { status, await_ms, multiple, concurrency: load.concurrency(operation) })
    }

    /// Whether the latency is near the baseline. With a provisional baseline also if there is one request at a time, since then
    /// the latency is the baseline by definition.
    fn is_near_baseline(&self, context: &RuleContext) -> bool {
        self.is_below_multiple(context) || self.status.provisional && self.concurrency <= MAX_UNCONTENDED_OUTSTANDING
    }

    fn is_below_multiple(&self, context: &RuleContext) -> bool {
        self.multiple < context.thresholds.disk_well_multiple
    }
}

/// The operation that the most blocked group on this device waits for.
fn bottleneck_operation(context: &RuleContext, id: DiskId) -> Option<Operation> {
    let groups = &context.interval.idle_blocked.as_ref()?.groups;
    let group = groups.iter().find(|group| group.holder_device.is_some_and(|(device, _)| device == id))?;
    let holder = group.holder.as_ref()?;
    Some(bottleneck(context.interval, context.latency_statuses, id, Some(holder))?.operation)
}
