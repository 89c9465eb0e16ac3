//! Subject, evidence and explained share of findings about disks.

use crate::findings::finding::{Evidence, Subject};
use crate::findings::rule_context::{RuleContext, evidence_number, evidence_optional};
use crate::ids::DiskId;
use crate::interval::disk::DiskSpan;

/// The device as the subject of a finding.
pub fn disk_subject(context: &RuleContext, id: DiskId) -> Subject {
    Subject::Disk { id, name: context.disk(id).map(|disk| disk.name.clone()).unwrap_or_default() }
}

/// Share of the host that is idle but blocked on this device.
pub fn explained_share(context: &RuleContext, id: DiskId) -> f64 {
    let Some(blocked) = &context.interval.idle_blocked else { return 0.0 };
    let on_it = blocked.groups.iter().filter(|group| group.holder_device.is_some_and(|(device, _)| device == id));
    on_it.map(|group| group.ratio).sum()
}

/// The figures that all findings about a disk have as evidence.
pub fn device_evidence(span: &DiskSpan) -> Vec<Evidence> {
    vec![
        evidence_optional("queue", span.aqu_sz),
        evidence_optional("busy_ratio", span.busy.map(|busy| busy.0)),
        evidence_number("in_flight", f64::from(span.in_flight)),
        evidence_number("reads_per_second", span.reads.rate.0),
        evidence_number("writes_per_second", span.writes.rate.0),
        evidence_optional("flushes_per_second", span.flushes.map(|op| op.rate.0)),
    ]
}
