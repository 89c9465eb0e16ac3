//! The part of the rule disk-latency about the tail: most requests of a device are as fast as usual, and a few are not. Their mean may be
//! near its baseline then. docs/metrics.md, "Latency of single requests against its baseline".

use super::latency::{LatencyCause, burst};
use crate::baseline::{DeviceLoad, LatencyStatus, Quantiles, RequestStatus, RequestWindow};
use crate::findings::device_waiters::has_waiters;
use crate::findings::disk_latency::TAIL;
use crate::findings::finding::{Evidence, Severity};
use crate::findings::formatting::{count, latency, multiple, percent};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::disk::evidence::{device_evidence, disk_subject, explained_share};
use crate::findings::wait_chain::bottleneck::MAX_USUAL_MULTIPLE;
use crate::interval::disk::{DiskSpan, Operation};

/// An operation whose median is at its baseline while its p99 is a multiple of that, and whose excess matters (`latency-felt`).
pub struct SlowTail<'a> {
    operation: Operation,
    status: &'a LatencyStatus,
    load: Option<DeviceLoad>,
    window: RequestWindow,
    baseline: Quantiles,
    p50_multiple: f64,
    pub p99_multiple: f64,
}

impl<'a> SlowTail<'a> {
    /// The operation of this device, if its tail is too slow.
    pub fn detect(context: &'a RuleContext, span: &DiskSpan, operation: Operation) -> Option<SlowTail<'a>> {
        let thresholds = context.thresholds;
        let status = context.latency_status(span.id, operation)?;
        let RequestStatus { baseline, window } = status.requests?;
        let window = window?;
        let (p50_multiple, p99_multiple) = window.quantiles.multiples(&baseline)?;
        let is_slow = p50_multiple < MAX_USUAL_MULTIPLE
            && p99_multiple >= thresholds.latency_tail_multiple
            && window.lost_seconds_per_second >= thresholds.latency_felt;
        let load = status.window_load;
        is_slow.then_some(SlowTail { operation, status, load, window, baseline, p50_multiple, p99_multiple })
    }

    /// A warning at most: the mean, which says what the host loses, is near its baseline.
    pub fn candidate(&self, context: &RuleContext, span: &DiskSpan) -> Candidate {
        let thresholds = context.thresholds;
        let is_unwaited = !has_waiters(context.interval, span.id, thresholds.latency_waiting_threads);
        let burst = burst(span);
        let severity = if is_unwaited || burst.is_some() { Severity::Note } else { Severity::Warning };
        let concurrency = self.load.map(|load| load.concurrency(self.operation));
        let queue = concurrency.map_or_else(|| "-".to_owned(), count);
        let load = match &burst {
            Some(LatencyCause::Burst { at_once, busy }) => {
                format!("in bursts of {} at once, busy {} of the time", count(*at_once), percent(*busy))
            }
            _ => "few are slow, most as fast as usual".to_owned(),
        };
        let sentence = format!(
            "{}: {} {}, p50 {} = {} its {}, queue {queue}: {load}{}",
            context.disk_name(span.id),
            self.operation.plural(),
            p99_against_baseline(&self.window, &self.baseline, self.p99_multiple),
            latency(self.window.quantiles.p50),
            multiple(self.p50_multiple),
            latency(self.baseline.p50),
            if is_unwaited { "; no thread waits for it" } else { "" },
        );
        let r#await = self.load.and_then(|load| load.r#await(self.operation));
        let mut evidence = vec![
            evidence_text("operation", self.operation.plural()),
            evidence_text("measure", "p99"),
            evidence_optional("await_seconds", r#await.map(|r#await| r#await.0 / 1000.0)),
            evidence_number("baseline_seconds", self.status.baseline.0 / 1000.0),
            evidence_number("baseline_intervals", f64::from(self.status.learned_intervals)),
            evidence_text("baseline", self.status.basis()),
            evidence_optional("concurrency", concurrency),
            evidence_optional("completions_per_second", self.load.map(|load| load.rate(self.operation))),
            evidence_text("cause", burst.as_ref().map_or(TAIL, LatencyCause::as_str)),
            evidence_number("lost_seconds_per_second", self.window.lost_seconds_per_second),
        ];
        evidence.extend(request_evidence(&self.window, &self.baseline));
        evidence.extend(device_evidence(span));
        Candidate {
            severity,
            subject: disk_subject(context, span.id),
            value: self.p99_multiple,
            threshold: thresholds.latency_tail_multiple,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: explained_share(context, span.id),
        }
    }
}

/// `p99 41.0 ms = 9.80× its 4.20 ms`
pub fn p99_against_baseline(window: &RequestWindow, baseline: &Quantiles, p99_multiple: f64) -> String {
    format!("p99 {} = {} its {}", latency(window.quantiles.p99), multiple(p99_multiple), latency(baseline.p99))
}

/// p50 and p99 and their baselines.
pub fn request_evidence(window: &RequestWindow, baseline: &Quantiles) -> [Evidence; 5] {
    [
        evidence_number("p50_seconds", window.quantiles.p50.0 / 1000.0),
        evidence_number("p50_baseline_seconds", baseline.p50.0 / 1000.0),
        evidence_number("p99_seconds", window.quantiles.p99.0 / 1000.0),
        evidence_number("p99_baseline_seconds", baseline.p99.0 / 1000.0),
        evidence_number("measured_requests", window.requests as f64),
    ]
}
