//! The part of the rule disk-latency about the tail: most requests of a device are as fast as usual, and a few are not. Their mean may be
//! near its baseline then. docs/metrics.md, "Latency of single requests against its baseline".

use super::latency::{LatencyCause, SAME_LOAD_OUTSTANDING, burst, latency_cause, load_below};
use crate::baseline::{ComparedRequests, LatencyStatus};
use crate::findings::device_waiters::has_waiters;
use crate::findings::disk_latency::{TAIL, slow_p99};
use crate::findings::finding::{Evidence, Severity};
use crate::findings::formatting::{count, latency, multiple, percent, plural};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::disk::evidence::{device_chain, device_evidence, disk_subject, explained_share};
use crate::findings::wait_chain::bottleneck::MAX_USUAL_MULTIPLE;
use crate::interval::disk::DiskSpan;

/// An operation whose median is at its baseline while its p99 is a multiple of that, and whose excess matters (`latency-felt`).
pub struct SlowTail<'a> {
    status: &'a LatencyStatus,
    pub requests: ComparedRequests,
}

impl<'a> SlowTail<'a> {
    /// The operation, if its tail is too slow.
    pub fn detect(context: &RuleContext, status: &'a LatencyStatus) -> Option<SlowTail<'a>> {
        let thresholds = context.thresholds;
        let requests = slow_p99(status, thresholds)?;
        let is_slow =
            requests.p50_multiple < MAX_USUAL_MULTIPLE && requests.window.lost_seconds_per_second >= thresholds.latency_felt;
        is_slow.then_some(SlowTail { status, requests })
    }

    /// What makes a few requests slow, with the words for it; `None`: the device itself.
    fn cause(&self, context: &RuleContext, span: &DiskSpan) -> Option<(LatencyCause, String)> {
        let cause = match &self.status.window_load {
            Some(load) => latency_cause(context, self.status, load, span),
            None => burst(span),
        };
        let words = match cause? {
            LatencyCause::Burst { at_once, busy } => {
                format!("in bursts of {} at once, busy {} of the time", count(at_once), percent(busy))
            }
            // The slow requests alone make the queue longer: more load is also more requests per second.
            LatencyCause::MoreLoad { .. } => {
                let (rate, before) = (self.status.window_load?.total_rate(), self.status.baseline_load?.rate);
                if rate <= before * SAME_LOAD_OUTSTANDING {
                    return None;
                }
                let rate = plural(rate, "request/s", "requests/s");
                format!("few are slow, under more load ({rate}, at its baseline up to {})", count(before))
            }
            LatencyCause::MoreLoadBelow { lower } => {
                format!("few are slow, under more load below, {}", load_below(context, span, lower))
            }
            LatencyCause::SameLoad | LatencyCause::LowerThroughput { .. } => return None,
        };
        Some((cause?, words))
    }

    /// A warning at most: the mean, which says what the host loses, is near its baseline.
    pub fn candidate(&self, context: &RuleContext, span: &DiskSpan) -> Candidate {
        let thresholds = context.thresholds;
        let operation = self.status.operation;
        let ComparedRequests { window, baseline, p50_multiple, p99_multiple } = self.requests;
        let is_unwaited = !has_waiters(context.interval, span.id, thresholds.latency_waiting_threads);
        let (cause, words) = self.cause(context, span).unzip();
        let is_burst = matches!(cause, Some(LatencyCause::Burst { .. }));
        let severity = if is_unwaited || is_burst { Severity::Note } else { Severity::Warning };
        let load = self.status.window_load;
        let concurrency = load.map(|load| load.concurrency(operation));
        let queue = concurrency.map_or_else(|| "-".to_owned(), count);
        let words = words.unwrap_or_else(|| "few are slow, most as fast as usual".to_owned());
        let sentence = format!(
            "{}: {} {}, p50 {} = {} its {}, queue {queue}: {words}{}",
            context.disk_name(span.id),
            operation.plural(),
            p99_against_baseline(&self.requests),
            latency(window.quantiles.p50),
            multiple(p50_multiple),
            latency(baseline.p50),
            if is_unwaited { "; no thread is seen to wait for it" } else { "" },
        );
        let r#await = load.and_then(|load| load.r#await(operation));
        let mut evidence = vec![
            evidence_text("operation", operation.plural()),
            evidence_text("measure", "p99"),
            evidence_optional("await_seconds", r#await.map(|r#await| r#await.0 / 1000.0)),
            evidence_number("baseline_seconds", self.status.baseline.0 / 1000.0),
            evidence_number("baseline_intervals", f64::from(self.status.learned_intervals)),
            evidence_text("baseline", self.status.basis()),
            evidence_optional("concurrency", concurrency),
            evidence_optional("completions_per_second", load.map(|load| load.rate(operation))),
            evidence_text("cause", cause.map_or(TAIL, |cause| cause.as_str())),
            evidence_number("lost_seconds_per_second", window.lost_seconds_per_second),
        ];
        evidence.extend(request_evidence(&self.requests));
        evidence.extend(device_evidence(span));
        let what = format!("{}: {} {}", context.disk_name(span.id), operation.plural(), p99_against_baseline(&self.requests));
        evidence.extend(device_chain(context, span.id, what, "the times of single requests (eBPF)"));
        Candidate {
            severity,
            subject: disk_subject(context, span.id),
            value: p99_multiple,
            threshold: thresholds.latency_tail_multiple,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: explained_share(context, span.id),
        }
    }
}

/// `p99 41.0 ms = 9.80× its 4.20 ms`
pub fn p99_against_baseline(requests: &ComparedRequests) -> String {
    let (now, baseline) = (requests.window.quantiles.p99, requests.baseline.p99);
    format!("p99 {} = {} its {}", latency(now), multiple(requests.p99_multiple), latency(baseline))
}

/// p50 and p99 and their baselines.
pub fn request_evidence(requests: &ComparedRequests) -> [Evidence; 5] {
    let (now, baseline) = (requests.window.quantiles, requests.baseline);
    [
        evidence_number("p50_seconds", now.p50.0 / 1000.0),
        evidence_number("p50_baseline_seconds", baseline.p50.0 / 1000.0),
        evidence_number("p99_seconds", now.p99.0 / 1000.0),
        evidence_number("p99_baseline_seconds", baseline.p99.0 / 1000.0),
        evidence_number("measured_requests", requests.window.requests as f64),
    ]
}
