//! Subject, evidence and explained share of findings about disks.

use crate::findings::device_waiters::{leads_to_device, with_lower_devices};
use crate::findings::disk_latency::latency_summary;
use crate::findings::finding::{Evidence, Subject};
use crate::findings::formatting::{lossy_name, plural};
use crate::findings::rule_context::{RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::wait_chain::holder::describe_group;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::ids::DiskId;
use crate::interval::disk::DiskSpan;
use crate::interval::idle_blocked::DeviceEvidence;

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

/// Groups that a chain names.
const MAX_GROUPS: usize = 2;

/// From the groups that wait for a device over the device (`what`) to those that it is stacked on.
pub fn device_chain(context: &RuleContext, id: DiskId, what: String) -> Option<Evidence> {
    let interval = context.interval;
    let groups = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
    let waits = groups.filter(|group| {
        group.blocked_threads() >= MIN_REPORTED_THREADS
            && group.holder_device.is_some_and(|(above, _)| leads_to_device(interval, above, id))
    });
    let waiting = waits.take(MAX_GROUPS).map(|group| {
        let threads = plural(group.blocked_threads(), "thread waits", "threads wait");
        let known_by = match group.holder_device {
            Some((_, DeviceEvidence::OnlyBusy)) | None => "inference: no other device has requests in flight",
            Some((_, DeviceEvidence::File)) => "the wait channels and files of its threads",
        };
        ChainLink::new(format!("{}: {threads}", describe_group(group)), known_by)
    });
    let mut links: Vec<ChainLink> = waiting.collect();
    links.push(ChainLink::new(what, "/proc/diskstats"));
    for below in with_lower_devices(interval, id).into_iter().skip(1) {
        let answers = latency_summary(context, below);
        let answers = if answers.is_empty() { "no requests".into() } else { answers };
        links.push(ChainLink::new(format!("on {}: {answers}", context.disk_name(below)), "/sys/block/DEVICE/slaves"));
    }
    if let Some(file) = context.disk(id).and_then(|disk| disk.facts.backing_file.as_ref()) {
        links.push(ChainLink::new(format!("on the file {}", lossy_name(file)), "/sys/block/DEVICE/loop/backing_file"));
    }
    evidence_chain(links)
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
