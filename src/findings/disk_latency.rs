//! Latency of a device against its baseline: finds operations that are too slow, and summarizes all for a sentence.

use crate::baseline::{ComparedRequests, DeviceLoad, LatencyStatus, MAX_UNCONTENDED_OUTSTANDING};
use crate::findings::formatting::lossy_name;
use crate::findings::rule_context::RuleContext;
use crate::findings::thresholds::Thresholds;
use crate::findings::wait_chain::bottleneck::Bottleneck;
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};

/// The word in the evidence of disk-latency for its cause: a few requests are slow at the same load, and most are as fast as usual.
pub const TAIL: &str = "tail";

/// The same where the device itself is slower.
pub const SLOWER_DEVICE: &str = "slower";

/// Whether some operation of the device is a `SlowOperation`.
pub fn is_disk_slow(context: &RuleContext, span: &DiskSpan) -> bool {
    context.latency_statuses_of(span.id).iter().any(|status| SlowOperation::detect(context, status).is_some())
}

/// An operation whose latency exceeds its baseline by the threshold's multiple, and whose excess matters (`latency-felt`).
pub struct SlowOperation<'a> {
    pub operation: Operation,
    pub load: DeviceLoad,
    pub status: &'a LatencyStatus,
    pub await_ms: f64,
    pub multiple: f64,
    /// (await − baseline) × completions per second
    pub lost_seconds_per_second: f64,
}

impl<'a> SlowOperation<'a> {
    /// The operation, if it is too slow.
    pub fn detect(context: &RuleContext, status: &'a LatencyStatus) -> Option<SlowOperation<'a>> {
        let (thresholds, operation) = (context.thresholds, status.operation);
        let load = status.window_load?;
        let (r#await, multiple) = (load.r#await(operation)?, status.window_multiple()?);
        let needed = match status.provisional {
            // The latency at one request at a time is the baseline.
            true if load.concurrency(operation) <= MAX_UNCONTENDED_OUTSTANDING => return None,
            provisional => thresholds.needed_multiple(provisional),
        };
        let lost = (r#await.0 - status.baseline.0) / 1000.0 * load.rate(operation);
        let slow = multiple >= needed && lost >= thresholds.latency_felt;
        slow.then_some(SlowOperation { operation, load, status, await_ms: r#await.0, multiple, lost_seconds_per_second: lost })
    }

    /// Orders by multiple; operations with a learned baseline come before those with a provisional one.
    pub fn rank(&self) -> f64 {
        if self.status.provisional { self.multiple.min(1e9) } else { 1e9 + self.multiple }
    }
}

/// The evaluated requests of an operation, if their p99 exceeds its baseline by the threshold's multiple.
pub fn slow_p99(status: &LatencyStatus, thresholds: &Thresholds) -> Option<ComparedRequests> {
    status.requests?.compared().filter(|requests| requests.p99_multiple >= thresholds.latency_tail_multiple)
}

/// The latencies of a device, for evidence: `writes 500 µs = 1.00× its baseline; flushes 40.3 ms = 1.00× its baseline`.
pub fn latency_summary(context: &RuleContext, id: DiskId) -> String {
    let Some(span) = context.disk_span(id) else { return String::new() };
    let lines = span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some()).map(|(operation, op)| {
        let limit = Bottleneck { operation, span: op, status: context.latency_status(id, operation) };
        limit.answers()
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// The name of a device for evidence of other families.
pub fn disk_names(context: &RuleContext, ids: &[DiskId]) -> String {
    ids.iter().filter_map(|id| context.disk(*id)).map(|disk| lossy_name(&disk.name)).collect::<Vec<_>>().join(", ")
}
