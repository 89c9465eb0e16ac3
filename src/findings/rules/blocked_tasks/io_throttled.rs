//! Rule io-throttled: threads wait for storage while the device is nearly idle.

use crate::findings::device_waiters::with_lower_devices;
use crate::findings::disk_latency::{disk_names, latency_summary};
use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::plural;
use crate::findings::hung_threads::waited_seconds;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::blocked_tasks::MIN_BUSY_REQUESTS;
use crate::findings::rules::blocked_tasks::io_limit::{applicable_limits, most_exhausted_limit};
use crate::findings::wait_chain::holder::describe_group;
use crate::findings::wait_chain::link::ChainLink;
use crate::ids::{CgroupId, DiskId};
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::cgroup_names::{CgroupName, NameKind};
use crate::interval::disk::DiskSpan;
use crate::interval::idle_blocked::BlockedGroup;
use crate::sample::cgroup::Controller;
use crate::sample::waits::class::{is_request_wait, strip_compiler_suffix};
use crate::units::reaches_threshold;

/// A limit that is used up holds the threads above the device if requests of at most this share of them are in the device.
/// docs/metrics.md, "Fixed thresholds".
const MAX_IN_DEVICE_SHARE: f64 = 0.5;

/// Without a known I/O limit, threads whose requests take longer than this on average, one after the other, are not throttled but hang.
/// docs/metrics.md, "Fixed thresholds".
const MAX_SECONDS_PER_REQUEST: f64 = 1.0;

pub const IO_THROTTLED: Rule = Rule {
    kind: Kind::IoThrottled,
    title: "I/O throttled above the device",
    meaning: "Threads wait for storage while the device below is nearly idle: a layer above it, usually an I/O limit of \
              their cgroup, delays their requests.",
    computed: "Threads of a process group are blocked on storage at least 50 % of the time while the devices they use \
               complete requests and hold on average less than a tenth of these threads' requests (Little's law); or a limit \
               of their cgroup (v2 io.max, v1 blkio.throttle) is used up to 90 % and by the device's await at most half of \
               the threads can be in the device. A limit that is used up is named; otherwise the limit is an inference, made only of threads that wait \
               for a request, for writeback or in the block layer: a file system has locks of its own. \
               Without any limit, less than one request per second is no throttling. \
              Writers in balance_dirty_pages wait for writeback: that is reported instead.",
    caveats: "A network or FUSE file system has no block device: waits that show it in their wait channel, \
              or whose file is on a mount of such a type, are left out; others cannot be distinguished. ZFS throttles its writers itself: there only a limit that is used up is \
              reported.",
    next_steps: &[
        "io.max, io.latency (v2) or blkio.throttle.* (v1) of the cgroup",
        "the device's await: it answers at its baseline",
    ],
    reference: "Control groups",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: io_throttled,
};

/// Whether the thread waits for writeback because it has dirtied too many pages.
fn waits_for_writeback(thread: &BlockedThread) -> bool {
    thread.wait.wchan.as_ref().is_some_and(|channel| strip_compiler_suffix(channel.as_bytes()) == b"balance_dirty_pages")
}

/// What else may delay requests.
const OTHER_THROTTLES: &str = "io.latency, io.cost or the file system";

/// ZFS uses one wait channel for the device, for its locks and for throttled writers.
fn is_zfs_cv_wait(thread: &BlockedThread) -> bool {
    thread.wait.wchan.as_ref().is_some_and(|channel| strip_compiler_suffix(channel.as_bytes()) == b"cv_wait_common")
}

fn io_throttled(context: &RuleContext) -> Vec<Candidate> {
    let Some(blocked) = &context.interval.idle_blocked else { return Vec::new() };
    blocked.groups.iter().filter_map(|group| throttled_candidate(context, group)).collect()
}

fn throttled_candidate(context: &RuleContext, group: &BlockedGroup) -> Option<Candidate> {
    let thresholds = context.thresholds;
    let waiting = group.storage;
    let holder = group.holder.as_ref()?;
    if !reaches_threshold(waiting, thresholds.io_throttled_threads) || holder.is_non_block_storage() {
        return None;
    }
    let below: Vec<&DiskSpan> = match holder.wait.disk {
        Some(id) => context.interval.disks.iter().filter(|span| span.id == id).collect(),
        None => context.interval.disks.iter().collect(),
    };
    // Some requests must complete, and no thread may hang: otherwise it is a failed device or a lock of the file system.
    let completed: u64 = below.iter().map(|span| span.completed()).fold(0, u64::saturating_add);
    if completed == 0 || below.iter().any(|span| span.stalled) {
        return None;
    }
    let in_device: f64 = below.iter().flat_map(|span| span.operations()).map(|(_, op)| op.concurrency).sum();
    let in_flight = context.interval.idle_blocked.as_ref().and_then(|blocked| blocked.cross_checks.in_flight);
    let limit = (waiting * thresholds.io_throttled_device_share).min(MIN_BUSY_REQUESTS);
    let idle_below =
        in_device <= limit && in_flight.unwrap_or(0.0).min(below.iter().map(|span| f64::from(span.in_flight)).sum()) <= limit;
    let process = context.process(holder.wait.task.pid);
    // A limit applies to the device that has requests of its own.
    let disks: Vec<DiskId> = below.iter().flat_map(|span| with_lower_devices(context.interval, span.id)).collect();
    let used_up = process.and_then(|process| most_exhausted_limit(context, process, &disks));
    // If cgroups cannot be read there may be a limit.
    let may_be_limited = context.interval.newer.cgroups.is_err()
        || process.is_some_and(|process| applicable_limits(context, process, &disks).next().is_some());
    // Other processes may keep the device busy: of the throttled threads only few can be in it.
    let held_above = used_up.as_ref().is_some_and(|limit| {
        let inside = context.disk_span(limit.limit.disk).and_then(|span| limit.requests_in_device(span));
        inside.is_some_and(|inside| inside <= waiting * MAX_IN_DEVICE_SHARE)
    });
    if !(idle_below && !is_zfs_cv_wait(holder) || held_above) {
        return None;
    }
    // Elsewhere in a file system the threads may wait for a lock, which no device shows.
    if used_up.is_none() && !holder.wait.wchan.as_ref().is_some_and(|channel| is_request_wait(channel.as_bytes())) {
        return None;
    }
    // A limit lets requests through. Without one, the threads may wait for a page of a server that does not answer: a hung task.
    let waited = waited_seconds(context.interval, holder.wait.blocked_since_ns);
    if used_up.is_none() && !may_be_limited && waited >= waiting * MAX_SECONDS_PER_REQUEST {
        return None;
    }
    let limited_by = match (&used_up, process.and_then(|process| process.cgroup_for(Controller::Io))) {
        (Some(limit), _) => format!(" by {}", limit.describe(context)),
        _ if waits_for_writeback(holder) => {
            ", until dirty pages are written back: by a dirty page limit (vm.dirty_ratio, the cgroup's memory, the \
             device) or an I/O limit of the writeback"
                .into()
        }
        (None, cgroup) => {
            let own = cgroup.filter(|cgroup| cgroup.path.as_bytes() != b"/").map(|cgroup| own_cgroup(context, cgroup));
            match (own, may_be_limited) {
                (Some(own), true) => format!(", most likely by an I/O limit of {own} or of one above it"),
                (None, true) => ", most likely by an I/O limit of a cgroup".into(),
                (Some(own), false) => format!("; no I/O limit of {own} is known: possibly {OTHER_THROTTLES}"),
                (None, false) => format!("; no I/O limit is known: possibly {OTHER_THROTTLES}"),
            }
        }
    };
    let ids: Vec<DiskId> = below.iter().filter(|span| span.completed() > 0).map(|span| span.id).collect();
    // The latency of a stacked device includes the time that the limit below it takes.
    let ids = used_up.as_ref().map_or(ids, |limit| vec![limit.limit.disk]);
    let answers = match ids.as_slice() {
        [only] => latency_summary(context, *only),
        _ => String::new(),
    };
    let answers = if answers.is_empty() { "is nearly idle".into() } else { format!("answers {answers}") };
    let below_words = if ids.len() == 1 { disk_names(context, &ids) } else { "every device below".into() };
    let sentence = format!(
        "{}: {} blocked on storage, throttled above the device{limited_by}; {below_words} {answers}",
        describe_group(group),
        plural(waiting, "thread is", "threads are"),
    );
    Some(Candidate {
        severity: Severity::Warning,
        subject: Subject::Group { id: group.group.clone(), name: group.name.clone() },
        value: waiting,
        threshold: thresholds.io_throttled_threads,
        unit: "threads",
        sentence,
        evidence: vec![
            evidence_number("blocked_threads", waiting),
            evidence_number("requests_in_devices", in_device),
            evidence_optional("in_flight", in_flight),
            evidence_number("completions_per_second", below.iter().map(|span| span.completed_per_second()).sum()),
            used_up.as_ref().map_or(evidence_optional("limiting_cgroup", None), |by| {
                evidence_text("limiting_cgroup", by.limit.cgroup.path.clone())
            }),
            evidence_optional("limit_per_second", used_up.as_ref().map(|by| by.usage.limit.0)),
            evidence_optional("limit_used_ratio", used_up.as_ref().map(|by| by.utilization())),
            evidence_optional("psi_io_some_ratio", context.interval.pressure.io_some.map(|share| share.0)),
        ]
        .into_iter()
        .chain(evidence_chain([
            ChainLink::new(
                format!("{}: {} on storage", describe_group(group), plural(waiting, "thread", "threads")),
                "the wait channel",
            ),
            ChainLink::new(
                format!("throttled above the device{limited_by}"),
                match used_up {
                    Some(_) => "requests in the device, and the limits of its cgroups",
                    None => "inference: threads on storage, and few requests in the device",
                },
            ),
            ChainLink::new(format!("{below_words} {answers}"), "/proc/diskstats"),
        ]))
        .collect(),
        explained_share: group.ratio,
    })
}

/// `its cgroup (/batch)`, `its container web-1 (docker)`
fn own_cgroup(context: &RuleContext, cgroup: &CgroupId) -> String {
    let name = CgroupName::from_path(&context.interval.newer, cgroup.path.as_bytes());
    match name.kind {
        NameKind::Path => format!("its cgroup ({})", name.name),
        _ => format!("its {}", name.describe()),
    }
}
