//! Rule disk-stalled: a device has requests and completes none.

use crate::findings::device_waiters::has_waiters;
use crate::findings::finding::{Kind, Severity};
use crate::findings::formatting::{duration, plural};
use crate::findings::hung_kernel_threads::{hung_with_device, kernel_thread_evidence, kernel_thread_names};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use crate::findings::rules::disk::evidence::{device_chain, disk_subject, explained_share};
use crate::ids::DiskId;

pub const DISK_STALLED: Rule = Rule {
    kind: Kind::DiskStalled,
    title: "Disk completes no requests",
    meaning: "The device has requests in flight and completes none: a dead disk, path or server. await and queue would read \
              0.00, since the kernel counts at completion, and are shown as -.",
    computed: "Requests in flight and no completion of any kind for at least 3 s. A device on top of another stalled one is \
               left out. Critical if threads are blocked; but a warning before the timeout of its requests (device/timeout, at most 30 s) \
               if it rotates, had completed nothing for a minute, and this is no virtual machine: it may spin up.",
    caveats: "A discard of a whole device or a tape-like operation may take that long; some old drivers never return the \
              in-flight gauge to 0. A disk that spins up is told from a dead one only by the time that it takes.",
    next_steps: &[
        "dmesg: resets and timeouts of the device",
        "the paths and servers behind it",
        "which threads are blocked on it (screen 3, Enter)",
    ],
    reference: "Disks",
    hysteresis: Hysteresis::Immediate,
    evaluate: disk_stalled,
};

fn disk_stalled(context: &RuleContext) -> Vec<Candidate> {
    let now = context.interval.at().boottime_ns;
    let for_seconds = |id: DiskId| Some(now.saturating_sub(context.state.stalled_since(id)?) as f64 / 1e9);
    let mut found = Vec::new();
    for span in &context.interval.disks {
        let below = context.disk(span.id).map(|disk| disk.facts.slaves.as_slice()).unwrap_or_default();
        if below.iter().any(|lower| context.state.stalled_since(*lower).is_some()) {
            continue;
        }
        let Some(silent) = for_seconds(span.id).filter(|&silent| silent >= context.thresholds.stalled_seconds) else {
            continue;
        };
        let waiting = has_waiters(context.interval, span.id, context.thresholds.latency_waiting_threads);
        let requests = plural(f64::from(span.in_flight), "request", "requests");
        let of_kernel = hung_with_device(context, span.id);
        let spins_up = may_spin_up(context, span.id, silent);
        let idle = match spins_up {
            Some(idle) => format!(": it hangs, or it spins up, since it was idle for {} before", duration(idle)),
            None => String::new(),
        };
        let with_it = match of_kernel.as_slice() {
            [] => String::new(),
            threads => format!("; kernel threads hang with it: {}", kernel_thread_names(threads)),
        };
        found.push(Candidate {
            severity: if waiting && spins_up.is_none() { Severity::Critical } else { Severity::Warning },
            subject: disk_subject(context, span.id),
            value: silent,
            threshold: context.thresholds.stalled_seconds,
            unit: "seconds",
            sentence: format!(
                "{} has {requests} in flight and has completed none for {}{idle}{with_it}",
                context.disk_name(span.id),
                duration(silent)
            ),
            evidence: vec![
                evidence_number("in_flight", f64::from(span.in_flight)),
                evidence_number("silent_seconds", silent),
                evidence_optional("idle_seconds_before", context.state.idle_seconds_before_stall(span.id)),
                evidence_optional("blocked_threads", context.blocked_threads()),
                kernel_thread_evidence(&of_kernel),
            ]
            .into_iter()
            .chain(device_chain(
                context,
                span.id,
                format!("{}: {requests} in flight, none completed for {}", context.disk_name(span.id), duration(silent)),
                "/proc/diskstats",
            ))
            .collect(),
            explained_share: explained_share(context, span.id),
        });
    }
    found
}

/// A rotating disk that completed nothing for so long before it stalled may have been in standby. docs/metrics.md, "Fixed thresholds".
const MIN_STANDBY_SECONDS: f64 = 60.0;

/// Timeout of requests where the device has none of its own: that of the SCSI layer (SD_TIMEOUT of the kernel).
const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;

/// For how long the disk was idle before, if it may have been in standby and its requests have not timed out yet.
fn may_spin_up(context: &RuleContext, id: DiskId, silent: f64) -> Option<f64> {
    let facts = &context.disk(id)?.facts;
    let timeout = facts.timeout_s.map_or(DEFAULT_TIMEOUT_SECONDS, |seconds| seconds as f64);
    // A device of the mapper stalls while it is suspended; disks of virtual machines say that they rotate, and have long timeouts.
    if !facts.slaves.is_empty() || context.interval.host.has_hypervisor == Some(true) {
        return None;
    }
    context
        .state
        .idle_seconds_before_stall(id)
        .filter(|&idle| idle >= MIN_STANDBY_SECONDS && silent < timeout.min(DEFAULT_TIMEOUT_SECONDS))
}
