//! Subject, evidence and explained share of findings about disks.

use std::collections::BTreeSet;

use crate::findings::device_waiters::{leads_to_device, with_lower_devices};
use crate::findings::disk_latency::latency_summary;
use crate::findings::finding::{Evidence, Subject};
use crate::findings::formatting::{count, lossy_name, plural};
use crate::findings::rule_context::{RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::wait_chain::holder::describe_group;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::ids::DiskId;
use crate::interval::disk::DiskSpan;
use crate::interval::idle_blocked::{BlockedGroup, DeviceEvidence};

/// The device as the subject of a finding.
pub fn disk_subject(context: &RuleContext, id: DiskId) -> Subject {
    Subject::Disk { id, name: context.disk(id).map(|disk| disk.name.clone()).unwrap_or_default() }
}

/// Share of the host that is idle but blocked on this device, or on one above it.
pub fn explained_share(context: &RuleContext, id: DiskId) -> f64 {
    let Some(blocked) = &context.interval.idle_blocked else { return 0.0 };
    let is_on_it = |(device, _)| leads_to_device(context.interval, device, id);
    let on_it = blocked.groups.iter().filter(|group| group.holder_device.is_some_and(is_on_it));
    on_it.map(|group| group.ratio).sum()
}

/// Groups that a chain names.
const MAX_GROUPS: usize = 2;

/// From the groups that wait for a device over the device (`what`, and how that is known) to those that it is stacked on.
pub fn device_chain(context: &RuleContext, id: DiskId, what: String, known_by: &'static str) -> Option<Evidence> {
    let interval = context.interval;
    let groups = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
    let waits = groups.filter(|group| {
        group.blocked_threads() >= MIN_REPORTED_THREADS
            && group.holder_device.is_some_and(|(above, _)| leads_to_device(interval, above, id))
    });
    let waits: Vec<&BlockedGroup> = waits.take(MAX_GROUPS).collect();
    let mut links = Vec::new();
    if !waits.is_empty() {
        let is_known = |group: &&BlockedGroup| matches!(group.holder_device, Some((_, DeviceEvidence::File)));
        let basis = match waits.iter().all(is_known) {
            true => "the wait channels and files of its threads",
            false => "inference: no other device has requests in flight",
        };
        let device = context.disk_name(id);
        let waiting: Vec<String> = waits.into_iter().map(|group| describe_waiting(group, &device)).collect();
        links.push(ChainLink::new(waiting.join("; "), basis));
    }
    links.push(ChainLink::new(what, known_by));
    // Several of its devices may be stacked on the same one.
    let below: BTreeSet<DiskId> = with_lower_devices(interval, id).into_iter().skip(1).collect();
    let below: Vec<String> = below.into_iter().map(|below| describe_lower_device(context, below)).collect();
    if !below.is_empty() {
        links.push(ChainLink::new(
            format!("on {}", below.join("; ")),
            "/sys/block/DEVICE/slaves, or mountinfo of the loop file; /proc/diskstats",
        ));
    }
    if let Some(file) = context.disk(id).and_then(|disk| disk.facts.backing_file.as_ref()) {
        links.push(ChainLink::new(format!("on the file {}", lossy_name(file)), "/sys/block/DEVICE/loop/backing_file"));
    }
    evidence_chain(links)
}

/// `postgres (64 processes): 3.8 threads wait for sdb, 58.4 more behind`
fn describe_waiting(group: &BlockedGroup, device: &str) -> String {
    let on_it = group.storage + group.aio + group.hidden;
    let threads = plural(on_it, "thread waits", "threads wait");
    let behind = group.blocked_threads() - on_it;
    let behind = if behind >= MIN_REPORTED_THREADS { format!(", {} more behind", count(behind)) } else { String::new() };
    format!("{}: {threads} for {device}{behind}", describe_group(group))
}

/// `sda: writes 12.0 ms`
fn describe_lower_device(context: &RuleContext, id: DiskId) -> String {
    let answers = match (latency_summary(context, id), context.disk_span(id)) {
        (answers, _) if !answers.is_empty() => answers,
        (_, Some(span)) if span.in_flight > 0 => {
            format!("{}, none completed", plural(f64::from(span.in_flight), "request in flight", "requests in flight"))
        }
        (_, Some(_)) => "no requests".into(),
        (_, None) => "-".into(),
    };
    format!("{}: {answers}", context.disk_name(id))
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
