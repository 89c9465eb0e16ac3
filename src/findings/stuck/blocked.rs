//! The headline: the box looks idle, but the work it has is stuck.

use super::chain::{self, BESIDE, Limit, WORTH_A_WORD};
use crate::findings::disk;
use crate::findings::rule::{Patience, Rule};
use crate::findings::scene::{Scene, Suspicion, maybe, number, text};
use crate::findings::witnesses;
use crate::findings::words::{count, percent};
use crate::findings::{Evidence, Kind, Severity, Subject, Value};
use crate::interval::idle_blocked::{BlockedGroup, DeviceEvidence, IdleBlocked};
use crate::units::reaches_threshold;

pub(in crate::findings) const IDLE_BUT_BLOCKED: Rule = Rule {
    kind: Kind::IdleButBlocked,
    title: "Idle, but blocked",
    meaning: "CPUs stand idle although there is work: the tasks that would use them are stuck on storage, in memory \
              reclaim, or behind a lock whose holder is stuck there. More CPUs will not help. It is an upper bound of what \
              is to be gained.",
    computed: "At each sub-sample (10 a second) the CPUs that were available (idle + iowait) and the threads that were \
               blocked: in D in the block or file system layer, asleep for asynchronous completions while a device has \
               requests in flight (no more of them than requests that no thread in D waits for), in memory reclaim, or, in \
               a group that has a thread on storage, in a lock that the kernel or several futex calls with one address show \
               to be held, active and in another futex or semaphore that they do not give up by the clock, or asleep in a \
               pipe or socket whose other end only processes on storage hold. The smaller of the two, averaged, is \
               idle-but-blocked. Told from 25 % of the box and 0.5 CPU: a note where one thread alone is bound by a device that \
               answers at its baseline, a warning with two or more threads or latency above baseline, critical from 50 % \
               with two blocked threads for each CPU or a chain behind one holder.",
    wrong: "A backup or a copy is as fast as its disk: that is the note. Where wait channels are hidden (other users' tasks, \
            no privilege) only D counts: the figure is a lower bound and written with ≥. Who waits for a lock by inference \
            may wait for another thread's work instead. iowait and PSI are witnesses only: both may read \
            ~100 % on an idle io_uring service (from Linux 6.15 on it can ask not to be counted).",
    next: &[
        "the holder's thread: what it waits for, and for how long (screen 5, Enter)",
        "the device's await against its baseline (screen 3)",
        "whether the holder's work can be made smaller or rarer: group commit, fewer fsyncs, a shorter critical section",
    ],
    patience: Patience::TwoOfThree,
    suspect: idle_but_blocked,
};

fn idle_but_blocked(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let Some(blocked) = &scene.interval.idle_blocked else { return Vec::new() };
    if !reaches_threshold(blocked.ratio, thresholds.blocked_ratio) || !reaches_threshold(blocked.cpus, thresholds.blocked_cpus)
    {
        return Vec::new();
    }
    let Some(top) = blocked.groups.first() else { return Vec::new() };
    let least = if blocked.lower_bound { "≥ " } else { "" };
    let mut sentence = format!(
        "idle but blocked: {least}{} of the box ({}). {}.",
        percent(blocked.ratio),
        scene.of_cpus(blocked.cpus),
        summary(scene, top)
    );
    for group in blocked.groups.iter().skip(1).take(2).filter(|group| group.ratio >= blocked.ratio * 0.2) {
        sentence.push_str(&format!(" {}.", summary(scene, group)));
    }
    if let Some(iowait) = blocked.cross_checks.iowait {
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

fn severity(scene: &Scene, blocked: &IdleBlocked, top: &BlockedGroup) -> Severity {
    let thresholds = scene.thresholds;
    let many = reaches_threshold(blocked.blocked_threads, thresholds.blocked_critical_threads_per_cpu * scene.cpus());
    let holders = top.storage + top.aio + top.hidden;
    let one_holder = reaches_threshold(top.behind_lock() + top.behind_ipc_peer, 2.0) && !reaches_threshold(holders, 2.0);
    if reaches_threshold(blocked.ratio, thresholds.blocked_critical_ratio) && (many || one_holder) {
        return Severity::Critical;
    }
    let slow = scene.interval.disks.iter().any(|span| {
        let concerned = top.holder_device.map_or(!top.is_non_block_storage(), |(device, _)| device == span.id);
        concerned && (disk::is_slow(scene, span) || scene.streaks.silent_since(span.id).is_some())
    });
    if slow || reaches_threshold(blocked.blocked_threads, thresholds.blocked_threads) {
        Severity::Warning
    } else {
        Severity::Note
    }
}

/// Who waits for what, behind whom: `postgres (64 processes): 61 wait for a lock (by inference) behind 1 in fdatasync
/// (jbd2_log_wait_commit) on sdb: flushes 40.3 ms = 1.0× its baseline`.
fn summary(scene: &Scene, group: &BlockedGroup) -> String {
    let who = chain::who(group);
    let verb = |threads: f64| if count(threads) == "1" { "waits" } else { "wait" };
    let mut waits = Vec::new();
    // Who now and then stands behind those on storage is none of the story.
    let worth = WORTH_A_WORD.max((group.storage + group.hidden) * BESIDE);
    if group.behind_lock() >= worth {
        waits.push(format!(
            "{} {} for a lock ({})",
            count(group.behind_lock()),
            verb(group.behind_lock()),
            chain::basis(group)
        ));
    }
    if group.behind_ipc_peer >= worth {
        waits.push(format!("{} {} for a peer", count(group.behind_ipc_peer), verb(group.behind_ipc_peer)));
    }
    let holders = group.storage + group.hidden;
    let mut ends = Vec::new();
    if holders >= WORTH_A_WORD {
        let place = match &group.holder {
            Some(holder) => chain::place(scene.interval, holder),
            None if group.hidden > group.storage => "in D, where is hidden from this user".into(),
            None => "on storage".into(),
        };
        // Those who wait for a lock stand behind one of them; the others may be there for something else.
        let one_of = if group.behind_lock() >= worth && holders >= 1.5 { "on storage, one of them " } else { "" };
        ends.push(format!("{} {one_of}{place}", count(holders)));
    }
    if group.aio >= WORTH_A_WORD {
        ends.push(format!("{} asleep for asynchronous completions", count(group.aio)));
    }
    if group.memory >= WORTH_A_WORD {
        ends.push(format!("{} in memory reclaim", count(group.memory)));
    }
    let limit = limit(scene, group).filter(|_| holders + group.aio >= WORTH_A_WORD);
    let limit = limit.map_or_else(String::new, |limit| format!(": {}", limit.sentence()));
    let device = match group.holder_device {
        Some((device, DeviceEvidence::File)) => format!(" on {}{limit}", scene.disk_name(device)),
        Some((device, DeviceEvidence::OnlyBusy)) if holders + group.aio >= WORTH_A_WORD => {
            format!(" on {} (the only device with requests in flight){limit}", scene.disk_name(device))
        }
        _ => String::new(),
    };
    let ends = ends.join(" and ");
    let behind = if waits.is_empty() || ends.is_empty() { "" } else { " behind " };
    format!("{who}: {}{behind}{ends}{device}", waits.join(" and "))
}

/// The operation of its device that bounds a group.
fn limit<'a>(scene: &'a Scene, group: &BlockedGroup) -> Option<Limit<'a>> {
    let (device, _) = group.holder_device?;
    chain::limit(scene.interval, scene.standings, device, group.holder.as_ref())
}

fn evidence(scene: &Scene, blocked: &IdleBlocked, top: &BlockedGroup) -> Vec<Evidence> {
    let witnesses = &blocked.cross_checks;
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
        number("group_behind_lock_threads", top.behind_lock()),
    ];
    if top.behind_lock() >= WORTH_A_WORD {
        list.push(text("lock_basis", chain::basis(top).as_str()));
    }
    if top.behind_ipc_peer >= WORTH_A_WORD {
        list.push(number("group_behind_peer_threads", top.behind_ipc_peer));
    }
    if let Some(holder) = &top.holder {
        list.push(text("holder", holder.comm.clone()));
        list.push(number("holder_tid", f64::from(holder.task.tid)));
        list.push(text("holder_place", chain::place(scene.interval, holder).as_str()));
        list.push(maybe("holder_waits_seconds", chain::waits_seconds(scene.interval, holder)));
        if let Some(file) = &holder.file {
            list.push(text("holder_file", file.clone()));
        }
        if let Some(mount) = &holder.mount {
            list.push(text("holder_mount", mount.clone()));
        }
    }
    if let Some((device, by)) = top.holder_device {
        list.push(text("device", scene.disk_name(device).as_str()));
        let by = match by {
            DeviceEvidence::File => "by the descriptor of its call",
            DeviceEvidence::OnlyBusy => "by inference: the only device with requests in flight",
        };
        list.push(text("device_basis", by));
        if let Some(limit) = limit(scene, top) {
            list.push(text("limit", limit.operation.plural()));
            list.push(maybe("limit_await_seconds", limit.op.r#await.map(|time| time.0 / 1000.0)));
            list.push(number("limit_per_second", limit.op.rate.0));
            list.push(maybe("limit_multiple", limit.multiple()));
        }
        let answers = disk::answers(scene, device);
        if !answers.is_empty() {
            list.push(text("device_answers", answers.as_str()));
        }
    }
    if let Some(sentence) = witnesses::sentence(scene.interval) {
        list.push(text("witnesses", sentence.as_str()));
    }
    let chain = chain::chain(scene.interval, scene.standings, top);
    list.push(text("chain_confidence", chain.confidence.word()));
    list.push(Evidence { name: "chain", value: Value::Chain(chain.links) });
    list
}
