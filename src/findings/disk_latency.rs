//! The latency of a device against its baseline: which operation is too slow, and a summary for sentences.

use crate::baseline::{DeviceLoad, LatencyStatus, MAX_UNCONTENDED_OUTSTANDING};
use crate::findings::formatting::lossy_name;
use crate::findings::rule_context::RuleContext;
use crate::findings::wait_chain::bottleneck::Bottleneck;
use crate::ids::DiskId;
use crate::interval::disk::{DiskSpan, Operation};

/// Whether some operation of a device takes a multiple of its baseline that is felt.
pub fn is_disk_slow(context: &RuleContext, span: &DiskSpan) -> bool {
    span.operations().any(|(operation, _)| SlowOperation::detect(context, span, operation).is_some())
}

/// One operation that is too slow.
pub struct SlowOperation<'a> {
    pub operation: Operation,
    pub load: DeviceLoad,
    pub standing: &'a LatencyStatus,
    pub await_ms: f64,
    pub multiple: f64,
    /// Seconds lost a second
    pub lost_seconds_per_second: f64,
}

impl<'a> SlowOperation<'a> {
    pub fn detect(context: &'a RuleContext, span: &DiskSpan, operation: Operation) -> Option<SlowOperation<'a>> {
        let thresholds = context.thresholds;
        let standing = context.latency_status(span.id, operation)?;
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

    /// What a learned baseline says comes before what a provisional one does.
    pub fn rank(&self) -> f64 {
        if self.standing.provisional { self.multiple.min(1e9) } else { 1e9 + self.multiple }
    }
}

/// How a device answers, in a line: `writes 0.5 ms = 1.0× its baseline, flushes 40.3 ms = 1.0× its baseline`.
pub fn latency_summary(context: &RuleContext, id: DiskId) -> String {
    let Some(span) = context.disk_span(id) else { return String::new() };
    let lines = span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some()).map(|(operation, op)| {
        let limit = Bottleneck { operation, span: op, standing: context.latency_status(id, operation) };
        limit.sentence()
    });
    lines.collect::<Vec<_>>().join(", ")
}

/// The name of a device for evidence of other families.
pub fn disk_names(context: &RuleContext, ids: &[DiskId]) -> String {
    ids.iter().filter_map(|id| context.disk(*id)).map(|disk| lossy_name(&disk.name)).collect::<Vec<_>>().join(", ")
}
