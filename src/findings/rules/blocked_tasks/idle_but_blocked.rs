//! Rule idle-but-blocked: CPUs are idle although there is work, because its threads are blocked. `interval::idle_blocked`
//! computes the figure; `wait_chain` says what the threads wait for. The wait channel is in the chain and in `holder_place`; the
//! sentence has the system call.

use crate::findings::cross_checks::contradiction_sentence;
use crate::findings::disk_latency::{is_disk_slow, latency_summary};
use crate::findings::finding::{Evidence, Kind, Severity, Subject, Value};
use crate::findings::formatting::{lossy_name, more_threads_at, percent, plural, threads_at};
use crate::findings::low_priority::is_background;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::wait_chain::bottleneck::{Bottleneck, bottleneck};
use crate::findings::wait_chain::dirty_limit::dirty_limit;
use crate::findings::wait_chain::holder::describe_group_among;
use crate::findings::wait_chain::holder::{blocked_call, current_wait_seconds, wait_location};
use crate::findings::wait_chain::link::CHAIN_CONFIDENCE;
use crate::findings::wait_chain::named_holder::{describe_named_holder, known_by, other_locks_evidence, waker_evidence};
use crate::findings::wait_chain::pipelines::holder_pipeline;
use crate::findings::wait_chain::queues::lock_basis;
use crate::findings::wait_chain::reported_threads::{
    MIN_REPORTED_THREADS, MIN_SECONDARY_SHARE, MIN_SEVERAL_THREADS, ReportedWaiters,
};
use crate::findings::wait_chain::stacks;
use crate::findings::wait_chain::user_stacks::user_stack_of;
use crate::findings::wait_chain::wait_chain;
use crate::interval::idle_blocked::{BlockedGroup, DeviceEvidence, IdleBlocked};
use crate::units::reaches_threshold;

pub const IDLE_BUT_BLOCKED: Rule = Rule {
    kind: Kind::IdleButBlocked,
    title: "Idle, but blocked",
    meaning: "CPUs are idle although there is work: the tasks that would use them wait for storage, for memory reclaim, or \
              for a lock whose holder waits there, or is known. More CPUs will not help. The figure is an upper bound of \
              what can be gained.",
    computed: "At each sub-sample (10 per second): the smaller of the number of available CPUs (idle + iowait) and the number \
               of blocked threads; idle-but-blocked is the mean. Blocked threads are threads in D in the block or file \
               system layer; threads that sleep for asynchronous completions while a device has requests in flight (at most \
               as many as there are requests that no thread in D waits for, and of a process as its bytes allow); threads in memory reclaim; and, in a process \
               group that has a thread on storage or whose lock names its holder, threads that wait for a lock (shown by the \
               kernel, a common futex, PostgreSQL or the Java VM, or inferred for active threads without a timeout that take turns on storage) or for a pipe or socket whose other end \
               is held only by processes on storage. Connections that wait for a process on storage (unread or unanswered \
               requests, accept queues) decide like blocked threads whether and how severely it is reported. Reported from 25 % of \
               the host and 0.5 CPU, and from 4 CPUs where threads queue behind one holder; once reported it lasts at three quarters of both. A note if a single thread waits for a \
               device that is at its baseline or all are at low priority, a warning with two or more blocked threads or waiting connections or latency \
               above the baseline, critical from 50 % with two blocked threads per CPU or one lock holder in front of several \
               threads or connections.",
    caveats: "A backup or a copy is limited by its disk: that is only a note. Where wait channels are hidden (other users' \
              tasks, no privilege) only threads in D count: the figure is a lower bound and is written with ≥. A thread that \
              waits for a lock by inference may wait for other work instead. iowait and PSI are only cross-checks: both may \
              read ~100 % on an idle io_uring service (since Linux 6.15 it can opt out of being counted).",
    next_steps: &[
        "the thread that holds the lock: what it waits for, and for how long (screen 5, Enter)",
        "the device's await against its baseline (screen 3)",
        "whether the holder's work can be made smaller or less frequent: group commit, fewer fsyncs, a shorter critical section",
        "a lock that names no owner (Rust, a lock held by readers): stalltop trace PID says which thread holds it",
    ],
    reference: "Idle but blocked",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: idle_but_blocked,
};

fn idle_but_blocked(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let Some(blocked) = &context.interval.idle_blocked else { return Vec::new() };
    // At least one thread must be blocked all the time, whatever waits for it.
    if !is_reported(context, blocked) {
        return Vec::new();
    }
    let Some(top) = blocked.groups.first() else { return Vec::new() };
    let least = if blocked.lower_bound { "≥ " } else { "" };
    let mut sentence =
        format!("idle but blocked: {least}{} of the host ({}).", percent(blocked.ratio), context.of_all_cpus(blocked.cpus));
    let others = blocked.groups.iter().skip(1).take(2).filter(|group| group.ratio >= blocked.ratio * MIN_SECONDARY_SHARE);
    let listed: Vec<&BlockedGroup> = std::iter::once(top).chain(others).collect();
    for group in &listed {
        sentence.push_str(&format!(" {}.", group_summary(context, group, &listed)));
    }
    vec![Candidate {
        severity: severity(context, blocked),
        subject: Subject::Host,
        value: blocked.ratio,
        threshold: thresholds.blocked_ratio,
        unit: "ratio",
        sentence,
        evidence: evidence(context, blocked, top),
        explained_share: blocked.ratio_with_connections,
    }]
}

/// Whether enough of the host is idle but blocked.
pub fn is_reported(context: &RuleContext, blocked: &IdleBlocked) -> bool {
    let share = context.threshold_share(Kind::IdleButBlocked);
    let Some(top) = blocked.groups.first() else { return false };
    is_enough(context, blocked.ratio_with_connections, top, share)
        && reaches_threshold(blocked.cpus, context.thresholds.blocked_cpus * share)
}

/// `ratio`: of the host, connections included. On a host of many CPUs a whole application may queue within a small share of them.
fn is_enough(context: &RuleContext, ratio: f64, top: &BlockedGroup, share: f64) -> bool {
    let queue = reaches_threshold(ratio * context.cpu_count(), MIN_QUEUE_CPUS * share) && has_one_holder(top);
    queue || reaches_threshold(ratio, context.thresholds.blocked_ratio * share)
}

/// CPUs that are idle but blocked from which threads that queue behind one holder are reported, whatever share of the host they are.
/// docs/metrics.md, "Fixed thresholds".
const MIN_QUEUE_CPUS: f64 = 4.0;

/// Whether several threads or connections of a group wait behind one thread. Threads by inference that were not seen to take turns with it
/// may wait for work.
fn has_one_holder(group: &BlockedGroup) -> bool {
    let behind = group.behind_lock() - group.lock_unconfirmed + group.behind_ipc_peer + group.connections_behind();
    reaches_threshold(behind, 2.0) && !reaches_threshold(group.storage + group.aio + group.hidden, 2.0)
}

/// Work at low priority is meant to wait: alone it is a note, and beside other work it does not count.
fn severity(context: &RuleContext, blocked: &IdleBlocked) -> Severity {
    let thresholds = context.thresholds;
    let groups: Vec<&BlockedGroup> = blocked.groups.iter().filter(|group| !is_background(context, group)).collect();
    let Some(&top) = groups.first() else { return Severity::Note };
    let share = context.threshold_share(Kind::IdleButBlocked);
    let connections: f64 = groups.iter().map(|group| group.connections_behind()).sum();
    let all = groups.len() == blocked.groups.len();
    let threads = if all { blocked.blocked_threads } else { groups.iter().map(|group| group.blocked_threads()).sum() };
    let waiting = threads + connections;
    // What the other work alone could use: beside much work at low priority its part of the whole would be small.
    let of_others = if all { 1.0 } else { waiting / context.cpu_count() };
    let ratio = blocked.ratio_with_connections.min(of_others);
    if !all && !is_enough(context, ratio, top, share) {
        return Severity::Note;
    }
    let unconfirmed: f64 = groups.iter().map(|group| group.lock_unconfirmed).sum();
    let many = reaches_threshold(waiting - unconfirmed, thresholds.blocked_critical_threads_per_cpu * context.cpu_count());
    if reaches_threshold(ratio, thresholds.blocked_critical_ratio) && (many || has_one_holder(top)) {
        return Severity::Critical;
    }
    let slow = context.interval.disks.iter().any(|span| {
        let concerned = top.holder_device.map_or(!top.waits_for_no_block_device(), |(device, _)| device == span.id);
        concerned && (is_disk_slow(context, span) || context.state.stalled_since(span.id).is_some())
    });
    if slow || reaches_threshold(waiting, thresholds.blocked_threads) { Severity::Warning } else { Severity::Note }
}

/// What the threads of a group wait for: `postgres (64 processes): 61 threads wait for a lock (by inference) behind 1 in
/// fdatasync on sdb: flushes 40.3 ms = 1.00× its baseline`.
fn group_summary(context: &RuleContext, group: &BlockedGroup, listed: &[&BlockedGroup]) -> String {
    let label = describe_group_among(group, listed);
    let mut waits = Vec::new();
    let waiters = ReportedWaiters::new(group);
    if waiters.lock {
        let threads = plural(group.behind_lock(), "thread waits", "threads wait");
        waits.push(format!("{threads} for a lock ({})", lock_basis(group)));
    }
    if waiters.ipc_peer {
        waits.push(format!("{} for another process", plural(group.behind_ipc_peer, "thread waits", "threads wait")));
    }
    let named = group.holder_off_storage().filter(|_| waiters.lock);
    let holders = group.storage + group.hidden;
    let mut ends: Vec<(f64, String)> = Vec::new();
    if holders >= MIN_REPORTED_THREADS {
        let place = match &group.holder {
            Some(holder) if group.holder_device.is_some() => blocked_call(context.interval, holder),
            Some(holder) if let Some((mount, kind)) = holder.non_block_mount() => {
                format!("{} on {} ({})", blocked_call(context.interval, holder), lossy_name(mount), lossy_name(kind))
            }
            // Without a device the wait channel shows what the thread waits for: rpc_wait_bit_killable.
            Some(holder) => wait_location(context.interval, holder),
            None if group.hidden > group.storage => "in D (their waits are not readable)".into(),
            None => "on storage".into(),
        };
        // One of the threads on storage holds the lock; the others may be there for another reason.
        let one_of = if waiters.lock && holders >= MIN_SEVERAL_THREADS { "on storage, one of them " } else { "" };
        ends.push((holders, format!("{one_of}{place}")));
    }
    if group.aio >= MIN_REPORTED_THREADS {
        ends.push((group.aio, "waiting for asynchronous I/O".into()));
    }
    if group.memory >= MIN_REPORTED_THREADS {
        ends.push((group.memory, "in memory reclaim".into()));
    }
    let limit = group_bottleneck(context, group).filter(|_| holders + group.aio >= MIN_REPORTED_THREADS);
    let limit = limit.map_or_else(String::new, |limit| format!(": {}", limit.sentence()));
    let device = match group.holder_device {
        Some((device, DeviceEvidence::File)) => format!(" on {}{limit}", context.disk_name(device)),
        Some((device, DeviceEvidence::OnlyBusy)) if holders + group.aio >= MIN_REPORTED_THREADS => {
            format!(" on {} (the only device with requests in flight){limit}", context.disk_name(device))
        }
        _ => String::new(),
    };
    // The first number of the sentence says that it counts threads.
    let ends = ends.iter().enumerate().map(|(index, (threads, place))| match index {
        0 if waits.is_empty() => threads_at(*threads, place),
        _ => more_threads_at(*threads, place),
    });
    let named = named.map(|holder| describe_named_holder(context.interval, holder));
    let ends = named.into_iter().chain(ends).collect::<Vec<_>>().join(" and ");
    let behind = if waits.is_empty() || ends.is_empty() { "" } else { " behind " };
    // Connections that a blocked thread serves are said by it.
    let connections = match group.waiting_connections {
        Ok(many) if group.connections_behind() >= 1.0 => format!("; {many} connections wait for it"),
        _ => String::new(),
    };
    let dirty = dirty_limit(context.interval, group).map_or_else(String::new, |limit| format!("; {limit}"));
    let pipes = holder_pipeline(context.interval, group).map_or_else(String::new, |pipeline| pipeline.clause(context.interval));
    let priority = if is_background(context, group) { "; at low priority" } else { "" };
    format!("{label}: {}{behind}{ends}{device}{dirty}{connections}{pipes}{priority}", waits.join(" and "))
}

/// The operation of its device that bounds a group.
fn group_bottleneck<'a>(context: &'a RuleContext, group: &BlockedGroup) -> Option<Bottleneck<'a>> {
    let (device, _) = group.holder_device?;
    bottleneck(context.interval, context.latency_statuses, device, group.holder.as_ref())
}

fn evidence(context: &RuleContext, blocked: &IdleBlocked, top: &BlockedGroup) -> Vec<Evidence> {
    let cross_checks = &blocked.cross_checks;
    let mut list = vec![
        evidence_number("idle_but_blocked_ratio", blocked.ratio),
        evidence_number("idle_but_blocked_cpus", blocked.cpus),
        evidence_number("available_ratio", blocked.available),
        evidence_number("free_ratio", blocked.free),
        evidence_number("blocked_threads", blocked.blocked_threads),
        evidence_optional("iowait_ratio", cross_checks.iowait),
        evidence_optional("psi_io_some_ratio", cross_checks.psi_io_some),
        evidence_number("d_threads", cross_checks.d_threads),
        evidence_optional("in_flight", cross_checks.in_flight),
        evidence_optional("run_queue_wait_threads", cross_checks.run_queue_wait),
        evidence_text("group", top.name.clone()),
        evidence_number("group_processes", f64::from(top.processes)),
        evidence_number("group_on_storage_threads", top.storage + top.hidden),
        evidence_number("group_aio_threads", top.aio),
        evidence_number("group_behind_lock_threads", top.behind_lock()),
        evidence_optional("group_waiting_connections", top.waiting_connections.ok().map(f64::from)),
        evidence_number("with_connections_ratio", blocked.ratio_with_connections),
    ];
    if let Err(why) = top.waiting_connections {
        list.push(evidence_text("waiting_connections_unknown", why.to_string().as_str()));
    }
    if top.behind_lock() >= MIN_REPORTED_THREADS {
        list.push(evidence_text("lock_basis", lock_basis(top).as_str()));
    }
    if top.behind_ipc_peer >= MIN_REPORTED_THREADS {
        list.push(evidence_number("group_behind_peer_threads", top.behind_ipc_peer));
    }
    if let Some(named) = &top.lock_holder {
        list.push(evidence_text("lock_holder", describe_named_holder(context.interval, named).as_str()));
        list.push(evidence_text("lock_holder_basis", known_by(named.field)));
        list.extend(waker_evidence(named.field));
        list.push(evidence_number("lock_holders_seen", f64::from(named.holders)));
        list.extend(other_locks_evidence(context.interval, named));
    }
    let end = top.holder_off_storage().map(|named| &named.thread);
    if let Some(holder) = top.holder.as_ref().or(end) {
        list.push(evidence_text("holder", holder.wait.comm.clone()));
        list.push(evidence_number("holder_tid", f64::from(holder.wait.task.tid)));
        list.push(evidence_text("holder_place", wait_location(context.interval, holder).as_str()));
        list.push(evidence_optional("holder_waits_seconds", current_wait_seconds(context.interval, holder)));
        if let Some(file) = &holder.wait.file {
            list.push(evidence_text("holder_file", file.clone()));
        }
        if let Some(mount) = &holder.wait.mount {
            list.push(evidence_text("holder_mount", mount.clone()));
        }
    }
    if let Some(stack) = stacks::end_of_chain(top).and_then(|holder| stacks::stack_of(context.interval, holder)) {
        list.push(evidence_text("holder_stack", stack.as_str()));
    }
    if let Some(stack) = stacks::end_of_chain(top).and_then(|holder| user_stack_of(context.interval, holder)) {
        list.push(evidence_text("holder_user_stack", stack.as_str()));
    }
    if let Some(limit) = dirty_limit(context.interval, top) {
        list.push(evidence_text("dirty_limit", limit.as_str()));
        let memory = context.interval.memory.as_ref();
        let dirty = memory.and_then(|memory| memory.dirty_or_writeback);
        list.push(evidence_optional("dirty_or_writeback_bytes", dirty.map(|amount| amount.0 as f64)));
        let limit = memory.and_then(|memory| memory.dirty_limit);
        list.push(evidence_optional("dirty_limit_bytes", limit.map(|amount| amount.0 as f64)));
    }
    if let Some((device, by)) = top.holder_device {
        list.push(evidence_text("device", context.disk_name(device).as_str()));
        let by = match by {
            DeviceEvidence::File => "by the file descriptor of its system call",
            DeviceEvidence::OnlyBusy => "by inference: the only device with requests in flight",
        };
        list.push(evidence_text("device_basis", by));
        if let Some(limit) = group_bottleneck(context, top) {
            list.push(evidence_text("limit", limit.operation.plural()));
            list.push(evidence_optional("limit_await_seconds", limit.span.r#await.map(|time| time.0 / 1000.0)));
            list.push(evidence_number("limit_per_second", limit.span.rate.0));
            list.push(evidence_optional("limit_multiple", limit.multiple()));
        }
        let answers = latency_summary(context, device);
        if !answers.is_empty() {
            list.push(evidence_text("device_answers", answers.as_str()));
        }
    }
    if let Some(sentence) = contradiction_sentence(context.interval) {
        list.push(evidence_text("cross_checks", sentence.as_str()));
    }
    let chain = wait_chain(context.interval, context.latency_statuses, top);
    list.push(evidence_text(CHAIN_CONFIDENCE, chain.confidence.as_str()));
    list.push(Evidence { name: "chain", value: Value::Chain(chain.links) });
    list
}
