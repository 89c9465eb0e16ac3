//! Findings about threads that are stuck where the devices below are not to blame, or stuck without an end.

pub mod idle_but_blocked;
pub mod kernel_thread_tracker;
pub mod kernel_threads;
pub mod remote_waits;
pub mod wait_chain;

use super::disk;
use super::disk::io_limit;
use super::formatting::{count, lossy_name, plural, seconds, significant_digits};
use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use super::{Kind, Severity, Subject, Thresholds};
use crate::ids::{DiskId, GroupId};
use crate::interval::Interval;
use crate::interval::disk::DiskSpan;
use crate::interval::idle_blocked::BlockedGroup;
use crate::sample::cgroup::Controller;
use crate::sample::task::TaskState;
use crate::sample::waits::class::is_fuse_request;
use crate::sample::waits::{BlockedThread, MAX_BLOCKED_THREADS, WaitClass};
use crate::units::{PerSecond, reaches_threshold};

pub(super) const IO_THROTTLED: Rule = Rule {
    kind: Kind::IoThrottled,
    title: "Held back above the device",
    meaning: "Threads wait for storage while the device below has next to nothing to do: something above it, usually an I/O \
              limit of their cgroup, lets their requests through one by one.",
    computed: "Threads of a group blocked on storage at least 50 % of the time, while the devices they use complete requests \
               and hold on average less than a tenth of these threads' requests (Little's law: who waits in the device is \
               counted there); or while a limit of their cgroup (v2 io.max, v1 blkio.throttle) is used up to 90 % and by the \
               device's await at most half of them can be in it. A limit that is used up is named; else it is inference. \
               Writers in balance_dirty_pages wait until others have written pages out: that is said instead.",
    caveats: "A network or FUSE file system has no block device: waits that show one in their wait channel are left out, those \
            that do not cannot be told apart. ZFS holds its writers back itself: there only a limit that is used up is told.",
    next_steps: &[
        "io.max, io.latency (v2) or blkio.throttle.* (v1) of the cgroup",
        "the device's await: it answers at its baseline",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: io_throttled,
};

pub(super) const HUNG_TASK: Rule = Rule {
    kind: Kind::HungTask,
    title: "Stuck without a break",
    meaning: "A thread has been in uninterruptible sleep (D) in one single wait for seconds: it cannot be killed, and who \
              waits for it waits too. One that waits for a file system in user space does so in S, and can be.",
    computed: "In D, or asleep for the answer of a file system in user space (FUSE), for at least 5 s in which it was given no \
               CPU once. vfork parents and frozen tasks are left out. Critical from \
               120 s. Kernel threads that come into D and hang there beside it are named; alone they are told from 120 s, as a \
               note; where a device completes nothing, that finding names them. Names that sit in D from the start are learned \
               (10 s in which nothing else hangs) and left out.",
    caveats: "One very large request (a discard of a device, a sync of gigabytes to a slow disk) is honest work.",
    next_steps: &[
        "its wait channel and file: a frozen file system, a server that does not answer, a stalled device",
        "disk-stalled beside it",
        "/proc/PID/stack as root",
        "FUSE: whether its server lives; /sys/fs/fuse/connections/N/waiting, and abort beside it ends the wait",
    ],
    hysteresis: Hysteresis::Immediate,
    evaluate: hung_task,
};

/// It has dirtied more pages than it may: not its own request is waited for, but whoever writes pages out.
fn waits_for_writeback(thread: &BlockedThread) -> bool {
    thread.wchan.as_ref().is_some_and(|channel| channel.as_bytes() == b"balance_dirty_pages")
}

/// What may hold requests back beside limits.
const OTHER_THROTTLES: &str = "io.latency, io.cost or the file system";

/// ZFS waits in one place for the device, for its own locks and where it holds writers back itself.
fn is_zfs_cv_wait(thread: &BlockedThread) -> bool {
    thread.wchan.as_ref().is_some_and(|channel| channel.as_bytes() == b"cv_wait_common")
}

fn io_throttled(scene: &RuleContext) -> Vec<Candidate> {
    let Some(blocked) = &scene.interval.idle_blocked else { return Vec::new() };
    blocked.groups.iter().filter_map(|group| throttled_candidate(scene, group)).collect()
}

fn throttled_candidate(scene: &RuleContext, group: &BlockedGroup) -> Option<Candidate> {
    let thresholds = scene.thresholds;
    let waiting = group.storage;
    let holder = group.holder.as_ref()?;
    if !reaches_threshold(waiting, thresholds.io_throttled_threads) || holder.is_non_block_storage() {
        return None;
    }
    let below: Vec<&DiskSpan> = match holder.disk {
        Some(id) => scene.interval.disks.iter().filter(|span| span.id == id).collect(),
        None => scene.interval.disks.iter().collect(),
    };
    // Something must get through, and nothing may hang: else it is a dead device or a lock of the file system.
    let completed: u64 = below.iter().map(|span| span.completed()).fold(0, u64::saturating_add);
    if completed == 0 || below.iter().any(|span| span.stalled) {
        return None;
    }
    let in_device: f64 = below.iter().flat_map(|span| span.operations()).map(|(_, op)| op.concurrency).sum();
    let in_flight = scene.interval.idle_blocked.as_ref().and_then(|blocked| blocked.cross_checks.in_flight);
    let limit = (waiting * thresholds.io_throttled_device_share).min(0.5);
    let idle_below =
        in_device <= limit && in_flight.unwrap_or(0.0).min(below.iter().map(|span| f64::from(span.in_flight)).sum()) <= limit;
    let process = scene.process(holder.task.pid);
    let disks = with_lower_devices(scene, &below);
    let used_up = process.and_then(|process| io_limit::most_exhausted_limit(scene, process, &disks));
    // Where groups cannot be read there may be one.
    let may_be_limited = scene.interval.newer.cgroups.is_err()
        || process.is_some_and(|process| io_limit::applicable_limits(scene, process, &disks).next().is_some());
    // Others may keep the device busy: of those who are held to a limit few can be in it.
    let held_above = used_up.as_ref().is_some_and(|limit| {
        let inside = scene.disk_span(limit.limit.disk).and_then(|span| limit.requests_in_device(span));
        inside.is_some_and(|inside| inside <= waiting / 2.0)
    });
    if !(idle_below && !is_zfs_cv_wait(holder) || held_above) {
        return None;
    }
    let limited_by = match (&used_up, process.and_then(|process| process.cgroup_for(Controller::Io))) {
        (Some(limit), _) => format!(" by {}", limit.describe()),
        _ if waits_for_writeback(holder) => {
            ", until dirty pages are written out: by a limit of dirty pages (vm.dirty_ratio, of the cgroup's memory, of the \
             device), or of the I/O of those who write them"
                .into()
        }
        (None, cgroup) => {
            let own = cgroup.filter(|cgroup| cgroup.path.as_bytes() != b"/").map(|cgroup| lossy_name(&cgroup.path));
            match (own, may_be_limited) {
                (Some(own), true) => format!(", most likely by an I/O limit of its cgroup ({own}) or of one above it"),
                (None, true) => ", most likely by an I/O limit of a cgroup".into(),
                (Some(own), false) => format!("; no I/O limit of its cgroup ({own}) is known: perhaps {OTHER_THROTTLES}"),
                (None, false) => format!("; no I/O limit is known: perhaps {OTHER_THROTTLES}"),
            }
        }
    };
    let ids: Vec<DiskId> = below.iter().filter(|span| span.completed() > 0).map(|span| span.id).collect();
    let answers = match ids.as_slice() {
        [only] => disk::latency_summary(scene, *only),
        _ => String::new(),
    };
    let answers = if answers.is_empty() { "has next to nothing to do".into() } else { format!("answers {answers}") };
    let sentence = format!(
        "{}: {} blocked on storage, held back above the device{limited_by}; {} {answers}",
        wait_chain::describe_group(group),
        plural(waiting, "thread is", "threads are"),
        if ids.len() == 1 { disk::disk_names(scene, &ids) } else { "every device below".into() },
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
            evidence_number("completions_per_second", completed as f64 / scene.interval.seconds),
            used_up.as_ref().map_or(evidence_optional("limiting_cgroup", None), |by| {
                evidence_text("limiting_cgroup", by.limit.cgroup.path.clone())
            }),
            evidence_optional("limit_per_second", used_up.as_ref().map(|by| by.usage.limit.0)),
            evidence_optional("limit_used_ratio", used_up.as_ref().map(|by| by.utilization())),
            evidence_optional("psi_io_some_ratio", scene.interval.pressure.io_some.map(|share| share.0)),
        ],
        explained_share: group.ratio,
    })
}

/// The devices, and those they stand on: a limit is of the one that has requests of its own.
fn with_lower_devices(scene: &RuleContext, spans: &[&DiskSpan]) -> Vec<DiskId> {
    let slaves = spans.iter().filter_map(|span| scene.disk(span.id)).flat_map(|disk| disk.facts.slaves.iter().copied());
    spans.iter().map(|span| span.id).chain(slaves).collect()
}

/// Threads of programs that have been in D for so long without a break.
pub(super) fn hung_threads<'a>(interval: &'a Interval, thresholds: &Thresholds) -> impl Iterator<Item = &'a BlockedThread> {
    let least = thresholds.hung_seconds;
    let blocked = interval.blocked_threads.iter();
    blocked
        .filter(|thread| !matches!(thread.class, WaitClass::Vfork | WaitClass::Frozen | WaitClass::Aio))
        .filter(move |thread| waited_seconds(interval, thread.blocked_since_ns) >= least && is_still_blocked(interval, thread))
}

fn waited_seconds(interval: &Interval, since_ns: u64) -> f64 {
    interval.at().boottime_ns.saturating_sub(since_ns) as f64 / 1e9
}

fn hung_task(scene: &RuleContext) -> Vec<Candidate> {
    let newer = &scene.interval.newer;
    let waited = |thread: &BlockedThread| waited_seconds(scene.interval, thread.blocked_since_ns);
    let hung: Vec<&BlockedThread> = hung_threads(scene.interval, scene.thresholds).collect();
    let of_kernel = kernel_threads::hung_kernel_threads(scene);
    let mut found: Vec<Candidate> = Vec::new();
    for (index, id) in newer.waits.groups.iter().enumerate() {
        let of_group = hung.iter().filter(|thread| usize::from(thread.group) == index);
        let Some(longest) = of_group.clone().max_by(|a, b| waited(a).total_cmp(&waited(b))) else { continue };
        let threads = of_group.count();
        let longest_s = waited(longest);
        let (thread_name, who) = scene.task_label(longest.task);
        let place = longest.wchan.as_ref().map_or_else(|| "a place hidden from this user".into(), lossy_name);
        let on = match (&longest.file, &longest.mount) {
            (Some(file), _) => format!(" on {}", lossy_name(file)),
            (None, Some(mount)) => format!(" on {}", lossy_name(mount)),
            (None, None) => String::new(),
        };
        let others = match threads {
            1 => String::new(),
            many if scene.interval.blocked_threads.len() < MAX_BLOCKED_THREADS => {
                format!(" and {} more of its group", many - 1)
            }
            many => format!(" and at least {} more of its group", many - 1),
        };
        let of_kernel = match stalled_device(scene, longest) {
            // Who hangs with the device is told there.
            Some(_) => [].as_slice(),
            None => of_kernel.as_slice(),
        };
        let beside = match of_kernel {
            [] => String::new(),
            threads => format!("; kernel threads hang beside it: {}", kernel_threads::names(threads)),
        };
        let sentence = format!(
            "{who}{others} stuck{} for {} without a break, in {place}{on}: {}{beside}",
            if waits_for_fuse(longest) { "" } else { " in D" },
            seconds(longest_s),
            hang_cause(scene, longest)
        );
        let subject = match has_one_thread(scene, id) {
            true => Subject::Task { id: longest.task, name: thread_name },
            false => Subject::Group {
                id: id.clone(),
                name: scene.process(longest.task.pid).map(|p| p.comm.clone()).unwrap_or_default(),
            },
        };
        found.push(Candidate {
            severity: if longest_s >= scene.thresholds.hung_critical_seconds { Severity::Critical } else { Severity::Warning },
            subject,
            value: longest_s,
            threshold: scene.thresholds.hung_seconds,
            unit: "seconds",
            sentence,
            evidence: vec![
                evidence_number("stuck_seconds", longest_s),
                evidence_number("stuck_threads", threads as f64),
                evidence_text("wait_channel", place.as_str()),
                evidence_text("wait_class", longest.class.as_str()),
                longest.file.clone().map_or(evidence_optional("file", None), |file| evidence_text("file", file)),
                longest.mount.clone().map_or(evidence_optional("mount", None), |mount| evidence_text("mount", mount)),
                longest
                    .disk
                    .map_or(evidence_optional("device", None), |disk| evidence_text("device", scene.disk_name(disk).as_str())),
                evidence_optional("in_flight", in_flight(scene, longest.disk)),
                kernel_threads::evidence(of_kernel),
            ],
            explained_share: 0.0,
        });
    }
    found.extend(kernel_threads::standalone_candidate(scene, &of_kernel));
    found
}

/// Whether the group has but one. Of others the finding is the group's, however many of its threads hang at the moment.
fn has_one_thread(scene: &RuleContext, group: &GroupId) -> bool {
    let Ok(tasks) = &scene.interval.newer.tasks else { return true };
    tasks.members(group).map(|process| process.threads.len()).sum::<usize>() <= 1
}

/// Whether it still is in D now, and no kernel thread. Where tasks could not be read, what the sub-samples saw stands.
fn is_still_blocked(interval: &Interval, blocked: &BlockedThread) -> bool {
    let Ok(tasks) = &interval.newer.tasks else { return true };
    let still = |state: TaskState| state == TaskState::Blocked || state == TaskState::Sleeping && waits_for_fuse(blocked);
    tasks.thread(blocked.task).is_some_and(|(process, thread)| !process.kernel_thread && still(thread.state))
}

/// It waits for a file system in user space: in S, since a signal may end it.
fn waits_for_fuse(thread: &BlockedThread) -> bool {
    thread.wchan.as_ref().is_some_and(|channel| is_fuse_request(channel.as_bytes()))
}

/// Requests in flight on the device that is waited for; on all where it is not known which.
fn in_flight(scene: &RuleContext, device: Option<DiskId>) -> Option<f64> {
    let disks = scene.interval.newer.disks.as_ref().ok()?;
    let concerned = disks.iter().filter(|disk| device.is_none_or(|device| device == disk.id));
    Some(concerned.map(|disk| f64::from(disk.in_flight)).sum())
}

/// Requests that the device that is waited for completes a second; all of them where it is not known which.
fn completions_per_second(scene: &RuleContext, device: Option<DiskId>) -> Option<f64> {
    let concerned = scene.interval.disks.iter().filter(|span| device.is_none_or(|device| device == span.id));
    PerSecond::over(concerned.map(DiskSpan::completed).fold(0, u64::saturating_add), scene.interval.seconds).map(|rate| rate.0)
}

/// The device that is waited for, where it completes nothing.
fn stalled_device<'a>(scene: &'a RuleContext, thread: &BlockedThread) -> Option<&'a DiskSpan> {
    scene.interval.disks.iter().find(|span| span.stalled && thread.disk.is_none_or(|disk| disk == span.id))
}

fn hang_cause(scene: &RuleContext, thread: &BlockedThread) -> String {
    let stalled = stalled_device(scene, thread);
    let requests = in_flight(scene, thread.disk);
    let idle = requests.is_some_and(|requests| requests < 0.5);
    let frozen = thread.wchan.as_ref().is_some_and(|channel| channel.as_bytes().starts_with(b"percpu_rwsem"));
    match thread.class {
        _ if thread.is_non_block_storage() => "a server (or a user-space file system) that does not answer".into(),
        WaitClass::Disk if stalled.is_some() => {
            let device = stalled.map(|span| scene.disk_name(span.id)).unwrap_or_default();
            format!("{device} completes nothing")
        }
        WaitClass::Lock if idle && frozen => match &thread.mount {
            Some(mount) => format!("no I/O is in flight: the file system on {} is frozen, not slow", lossy_name(mount)),
            None => "no I/O is in flight: a frozen file system, not a slow device".into(),
        },
        WaitClass::Lock | WaitClass::Other | WaitClass::Hidden if idle => {
            "no I/O is in flight: a frozen file system or a lock inside the kernel, not a slow device".into()
        }
        WaitClass::Disk if idle => "no I/O is in flight: held back above the device, or lost".into(),
        WaitClass::Memory => "memory reclaim".into(),
        WaitClass::Lock => "a lock inside the kernel".into(),
        WaitClass::Disk => {
            let requests = requests.map_or_else(|| "-".into(), count);
            // A sync waits for all that was written before it, not for a request of its own.
            match completions_per_second(scene, thread.disk) {
                Some(rate) if rate > 0.0 => format!(
                    "{} meanwhile ({} requests a second, {requests} in flight): it waits for many of them, or for one that takes \
                     that long",
                    if thread.disk.is_some() { "the device works" } else { "devices work" },
                    significant_digits(rate)
                ),
                _ => format!("one request that takes that long ({requests} in flight)"),
            }
        }
        _ => format!("{} in flight", requests.map_or_else(|| "-".into(), |requests| plural(requests, "request", "requests"))),
    }
}
