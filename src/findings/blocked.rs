//! The headline: the box looks idle, but the work it has is stuck.

use super::rule::{Patience, Rule};
use super::scene::{Scene, Suspicion, maybe, number, text};
use super::words::{count, millis, multiple, name, percent, plural};
use super::{Evidence, Kind, Severity, Subject, disk};
use crate::interval::Interval;
use crate::interval::blocked::{DeviceBy, GroupBlocked, IdleBlocked};
use crate::sample::waits::{BlockedThread, Call};

pub(super) const IDLE_BUT_BLOCKED: Rule = Rule {
    kind: Kind::IdleButBlocked,
    title: "Idle, but blocked",
    meaning: "CPUs stand idle although there is work: the tasks that would use them are stuck on storage, in memory \
              reclaim, or behind a lock whose holder is stuck there. More CPUs will not help. It is an upper bound of what \
              is to be gained.",
    computed: "At each sub-sample (10 a second) the CPUs that were available (idle + iowait) and the threads that were \
               blocked: in D in the block or file system layer, asleep for asynchronous completions while a device has \
               requests in flight, in memory reclaim, or active and in a lock wait in a group that has a thread on storage. \
               The smaller of the two, averaged, is idle-but-blocked. Told from 25 % of the box and 0.5 CPU: a note where \
               one thread alone is bound by a device that answers at its baseline, a warning with two or more threads or \
               latency above baseline, critical from 50 % with two blocked threads for each CPU or a chain behind one holder.",
    wrong: "A backup or a copy is as fast as its disk: that is the note. Where wait channels are hidden (other users' tasks, \
            no privilege) only D counts: the figure is a lower bound and written with ≥. Who waits for a lock by inference \
            may wait for another thread's work instead. iowait and PSI are witnesses only: before Linux 6.15 both read \
            ~100 % on an idle io_uring service.",
    next: &[
        "the holder's thread: what it waits for, and for how long (screen blocked)",
        "the device's await against its baseline (screen disks)",
        "whether the holder's work can be made smaller or rarer: group commit, fewer fsyncs, a shorter critical section",
    ],
    patience: Patience::TwoOfThree,
    suspect: idle_but_blocked,
};

fn idle_but_blocked(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let Some(blocked) = &scene.interval.blocked else { return Vec::new() };
    if blocked.ratio < thresholds.blocked_ratio || blocked.cpus < thresholds.blocked_cpus {
        return Vec::new();
    }
    let Some(top) = blocked.groups.first() else { return Vec::new() };
    let least = if blocked.lower_bound { "≥ " } else { "" };
    let mut sentence = format!(
        "idle but blocked: {least}{} of the box ({}). {}.",
        percent(blocked.ratio),
        scene.of_cpus(blocked.cpus),
        chain(scene, top)
    );
    for group in blocked.groups.iter().skip(1).take(2).filter(|group| group.ratio >= blocked.ratio * 0.2) {
        sentence.push_str(&format!(" {}.", chain(scene, group)));
    }
    if let Some(iowait) = blocked.witnesses.iowait {
        sentence.push_str(&format!(" iowait says {}.", percent(iowait)));
    }
    vec![Suspicion {
        severity: severity(scene, blocked, top),
        subject: Subject::Box,
        value: blocked.ratio,
        threshold: thresholds.blocked_ratio,
        unit: "ratio",
        sentence,
        evidence: evidence(scene, blocked, top),
        explains: blocked.ratio,
    }]
}

fn severity(scene: &Scene, blocked: &IdleBlocked, top: &GroupBlocked) -> Severity {
    let thresholds = scene.thresholds;
    let many = blocked.blocked_threads >= thresholds.blocked_critical_threads_per_cpu * scene.cpus();
    let holders = top.storage + top.aio + top.hidden;
    let one_holder = top.behind() >= 2.0 && holders < 2.0;
    if blocked.ratio >= thresholds.blocked_critical_ratio && (many || one_holder) {
        return Severity::Critical;
    }
    let slow = scene.interval.disks.iter().any(|span| {
        let concerned = top.device.is_none_or(|(device, _)| device == span.id);
        concerned && (disk::is_slow(scene, span) || scene.streaks.silent_since(span.id).is_some())
    });
    if slow || blocked.blocked_threads >= thresholds.blocked_threads { Severity::Warning } else { Severity::Note }
}

/// Who waits for what, behind whom: `postgres (64 processes): 61 wait for a lock (by inference) behind 1 in fdatasync
/// (jbd2_log_wait_commit) on sdb`.
fn chain(scene: &Scene, group: &GroupBlocked) -> String {
    let who = match group.processes {
        0 | 1 => match group.holder.as_ref() {
            Some(holder) => format!("{} ({})", name(&group.name), holder.task.pid),
            None => name(&group.name),
        },
        many => format!("{} ({many} processes)", name(&group.name)),
    };
    let mut waits = Vec::new();
    if group.behind() >= 0.05 {
        let waiters = group.behind();
        let verb = if count(waiters) == "1" { "waits" } else { "wait" };
        waits.push(format!("{} {verb} for a lock ({})", count(waiters), basis(group)));
    }
    let holders = group.storage + group.hidden;
    let mut ends = Vec::new();
    if holders >= 0.05 {
        ends.push(format!("{} {}", count(holders), place(scene, group.holder.as_ref(), group.hidden > group.storage)));
    }
    if group.aio >= 0.05 {
        ends.push(format!("{} asleep for asynchronous completions", count(group.aio)));
    }
    if group.memory >= 0.05 {
        ends.push(format!("{} in memory reclaim", count(group.memory)));
    }
    let device = match group.device {
        Some((device, DeviceBy::File)) => format!(" on {}", scene.disk_name(device)),
        Some((device, DeviceBy::OnlyBusy)) if holders + group.aio >= 0.05 => {
            format!(" on {} (the only device with requests in flight)", scene.disk_name(device))
        }
        _ => String::new(),
    };
    let ends = ends.join(" and ");
    let behind = if waits.is_empty() || ends.is_empty() { "" } else { " behind " };
    format!("{who}: {}{behind}{ends}{device}", waits.join(" and "))
}

/// What the judgement that threads wait for a lock rests on.
fn basis(group: &GroupBlocked) -> String {
    match (group.lock_by_call >= 0.05, group.lock_by_inference >= 0.05) {
        (true, false) => "by the futex call".into(),
        (true, true) => format!("{} by the futex call, the others by inference", count(group.lock_by_call)),
        _ => "by inference".into(),
    }
}

/// `in fdatasync (jbd2_log_wait_commit)`
fn place(scene: &Scene, holder: Option<&BlockedThread>, hidden: bool) -> String {
    let Some(holder) = holder else {
        return if hidden { "in D, where is hidden from this user".into() } else { "on storage".into() };
    };
    let machine = scene.interval.host.machine.as_bytes();
    let call = holder.call.and_then(|call| match call.number {
        -1 => Some("a page fault"),
        _ => Call::from_number(machine, call).map(|call| call.name),
    });
    match (call, &holder.channel) {
        (Some(call), Some(channel)) => format!("in {call} ({})", name(channel)),
        (Some(call), None) => format!("in {call}"),
        (None, Some(channel)) => format!("in {}", name(channel)),
        (None, None) => "on storage".into(),
    }
}

fn evidence(scene: &Scene, blocked: &IdleBlocked, top: &GroupBlocked) -> Vec<Evidence> {
    let witnesses = &blocked.witnesses;
    let mut list = vec![
        number("idle_but_blocked_ratio", blocked.ratio),
        number("idle_but_blocked_cpus", blocked.cpus),
        number("available_ratio", blocked.available),
        number("free_ratio", blocked.free),
        number("blocked_threads", blocked.blocked_threads),
        maybe("iowait_ratio", witnesses.iowait),
        maybe("psi_io_some_ratio", witnesses.psi_io_some),
        number("d_threads", witnesses.d_threads),
        maybe("in_flight", witnesses.in_flight),
        maybe("run_queue_wait_threads", witnesses.run_queue_wait),
        text("group", top.name.clone()),
        number("group_processes", f64::from(top.processes)),
        number("group_on_storage_threads", top.storage + top.hidden),
        number("group_aio_threads", top.aio),
        number("group_behind_lock_threads", top.behind()),
    ];
    if top.behind() >= 0.05 {
        list.push(text("lock_basis", basis(top).as_str()));
    }
    if let Some(holder) = &top.holder {
        list.push(text("holder", holder.comm.clone()));
        list.push(number("holder_tid", f64::from(holder.task.tid)));
        list.push(text("holder_place", place(scene, Some(holder), false).as_str()));
        let waited = scene.interval.at().boottime_ns.saturating_sub(holder.since_ns);
        list.push(number("holder_waits_seconds", waited as f64 / 1e9));
        if let Some(file) = &holder.file {
            list.push(text("holder_file", file.clone()));
        }
    }
    if let Some((device, by)) = top.device {
        list.push(text("device", scene.disk_name(device).as_str()));
        let by = match by {
            DeviceBy::File => "by the descriptor of its call",
            DeviceBy::OnlyBusy => "by inference: the only device with requests in flight",
        };
        list.push(text("device_basis", by));
        let answers = disk::answers(scene, device);
        if !answers.is_empty() {
            list.push(text("device_answers", answers.as_str()));
        }
    }
    if let Some(sentence) = super::witness_sentence(scene.interval) {
        list.push(text("witnesses", sentence.as_str()));
    }
    list
}

/// iowait or PSI from which they are worth a word when they contradict the verdict.
const LOUD: f64 = 0.3;

/// What the classic witnesses say beside the verdict, where they mislead; `None` where they agree with it.
pub(super) fn contradiction(interval: &Interval) -> Option<String> {
    let blocked = interval.blocked.as_ref()?;
    let witnesses = &blocked.witnesses;
    let (iowait, psi) = (witnesses.iowait.unwrap_or(0.0), witnesses.psi_io_some.unwrap_or(0.0));
    let idle = blocked.blocked_threads < 0.05 && witnesses.in_flight.is_some_and(|requests| requests < 0.05);
    if idle && !blocked.lower_bound && (iowait >= LOUD || psi >= LOUD) {
        return Some(format!(
            "iowait {}, PSI io {}, but no blocked thread and nothing in flight: an io_uring artefact (kernels before 6.15), ignore it",
            percent(iowait),
            witnesses.psi_io_some.map_or_else(|| "-".into(), percent)
        ));
    }
    if blocked.ratio >= 0.1 && iowait < blocked.ratio / 2.0 {
        return Some(format!(
            "iowait says {} where {} of the box is blocked: {} behind a lock or asleep for completions, which iowait does not count",
            percent(iowait),
            percent(blocked.ratio),
            plural(blocked.groups.iter().map(|group| group.behind() + group.aio).sum(), "thread is", "threads are")
        ));
    }
    None
}

/// `f_await 40.3 ms = 1.0× its baseline`: kept here for the chain's last link.
pub(super) fn answer(word: &str, r#await: f64, against: Option<(f64, bool)>) -> String {
    let baseline = against.map(|(times, provisional)| {
        format!(" = {} its {}baseline", multiple(times), if provisional { "provisional " } else { "" })
    });
    format!("{word} {}{}", millis(r#await), baseline.unwrap_or_default())
}
