//! Findings about memory: tasks that wait for it, swapping, kills.

pub mod cgroup_thrashing;

use super::formatting::{bytes, lossy_name, percent, plural, significant_digits};
use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use super::{Kind, Severity, Subject};
use crate::interval::cgroup::CgroupSpan;
use crate::interval::delays::DelaySpan;
use crate::sample::waits::{BlockedThread, Syscall, WaitClass};
use crate::units::Ratio;

pub(super) const MEMORY_PRESSURE: Rule = Rule {
    kind: Kind::MemoryPressure,
    title: "Tasks wait for memory",
    meaning: "Tasks spend their time getting memory back: reclaiming it themselves, or reading again what was just dropped. \
              In a cgroup at its limit the box may have plenty of free memory at the same time.",
    computed: "PSI memory some at least 10 % of the time (critical from 50 %), or refaults and major faults together at least \
               500 a second with threads waiting for them, when most of them are refaults and the kernel had to reclaim, or \
               less than a tenth of the memory is available. For a cgroup at 95 % of its limit, or that met it, by its own counters and its own \
               tasks; there also when threads spend half of their time on pages that came back, however few a slow disk \
               gives a second, or when its threads are in reclaim. PSI reads ~0 for pages that were never activated.",
    caveats: "A program that starts reads its pages by major faults for a moment. Reading more than the cache holds over and over \
            refaults by design: in a cgroup, by one thread and without page faults, it is a note.",
    next_steps: &[
        "who has grown: processes by RSS",
        "the cgroup's limit and use: memory.max (v2) or memory.limit_in_bytes (v1)",
        "major faults a second of the processes",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: memory_pressure,
};

pub(super) const SWAPPING: Rule = Rule {
    kind: Kind::Swapping,
    title: "Swapping",
    meaning: "Memory moves to and from swap. Coming back in is what tasks wait for; going out alone is only making room.",
    computed: "At least 1 MiB a second: a warning for swap-in, a note for swap-out alone.",
    caveats: "zram and zswap make it cheap. A burst after a large job has ended is its victims coming back.",
    next_steps: &["who is swapped: VmSwap of the processes", "memory available, and who has grown"],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: swapping,
};

pub(super) const OOM_KILL: Rule = Rule {
    kind: Kind::OomKill,
    title: "The kernel killed a process for memory",
    meaning: "Memory ran out, of the box or of a cgroup with a limit, and the kernel ended a process.",
    computed: "Any growth of oom_kill in /proc/vmstat. Told for as long as the interval that showed it is among the last five.",
    caveats: "A cgroup that is meant to be killed at its limit (a job with a memory request) is.",
    next_steps: &["dmesg: who was killed, in which cgroup", "the cgroup's limit, or who has grown"],
    hysteresis: Hysteresis::Immediate,
    evaluate: oom_kill,
};

fn memory_pressure(scene: &RuleContext) -> Vec<Candidate> {
    let mut found = cgroup_thrashing::cgroups_at_limit(scene);
    found.extend(host_pressure(scene, !found.is_empty()));
    found
}

/// Share of the memory that is available below which major faults alone are taken for want of memory.
const LOW_AVAILABLE_SHARE: f64 = 0.1;

/// `limited`: a cgroup is short of memory at its own limit.
fn host_pressure(scene: &RuleContext, limited: bool) -> Option<Candidate> {
    let thresholds = scene.thresholds;
    let some = scene.interval.pressure.memory_some.map(|share| share.0);
    let memory = scene.interval.memory.as_ref();
    let again = memory.map_or(0.0, |memory| memory.refaults.map_or(0.0, |r| r.0) + memory.major_faults.map_or(0.0, |f| f.0));
    let by_pressure = some.is_some_and(|some| some >= thresholds.memory_pressure_ratio);
    // Programs that start cold fault their pages in, too: only pages that come back, or little memory left, is want of it.
    let returning = memory.and_then(|memory| memory.refaults).is_none_or(|rate| rate.0 >= thresholds.refaults_per_second / 2.0);
    // Pages that were dropped although nobody needed the room (DAMON, memory.reclaim) come back too. What a cgroup reclaims
    // at its limit is not counted for the box: where cgroups cannot be read it may be that.
    let reclaimed = memory.and_then(|memory| memory.reclaimed);
    let needed = reclaimed.is_none_or(|rate| rate.0 > 0.0) || scene.interval.newer.cgroups.is_err();
    let scarce = memory
        .and_then(|memory| Some(memory.available?.0 as f64 / memory.total?.0 as f64))
        .map(|available| available < LOW_AVAILABLE_SHARE);
    let wanted = returning && needed || scarce.unwrap_or(true);
    let by_faults = again >= thresholds.refaults_per_second && wanted && page_waiters(scene) >= 0.5;
    // What a cgroup's limit explains is not told of the box again; that little is left of the box it does not explain.
    let explained = limited && scarce != Some(true);
    if explained || !(by_pressure || by_faults) {
        return None;
    }
    let available = match memory.and_then(|memory| Some((memory.available?, memory.total?))) {
        Some((available, total)) => format!("; {} of {} available", bytes(available.0 as f64), bytes(total.0 as f64)),
        None => String::new(),
    };
    let reclaiming = delayed_threads(scene, |span| span.reclaim).filter(|&threads| threads >= 0.05);
    let reclaiming =
        reclaiming.map_or_else(String::new, |threads| format!("; {} in reclaim", plural(threads, "thread", "threads")));
    let pages = format!("{} pages a second were read again or faulted in from storage", significant_digits(again));
    // A stall on a box with room is likely to be that of a group without it.
    let limited = if scarce == Some(false) { cgroup_thrashing::at_limit_clause(scene, again) } else { String::new() };
    let who = top_major_faulters(scene, memory.and_then(|memory| memory.major_faults).map_or(0.0, |rate| rate.0));
    let psi = some.map_or_else(|| "-".into(), percent);
    let sentence = match by_pressure {
        true => format!("tasks waited for memory {psi} of the time; {pages}{reclaiming}{available}{limited}{who}"),
        false => format!(
            "{pages}, and {} for them (PSI memory says {psi}){reclaiming}{available}{limited}{who}",
            plural(page_waiters(scene), "thread waits", "threads wait")
        ),
    };
    let critical = some.is_some_and(|some| some >= thresholds.memory_pressure_critical_ratio);
    let (value, threshold, unit) = match by_pressure {
        true => (some.unwrap_or(0.0), thresholds.memory_pressure_ratio, "ratio"),
        false => (again, thresholds.refaults_per_second, "per_second"),
    };
    Some(Candidate {
        severity: if critical { Severity::Critical } else { Severity::Warning },
        subject: Subject::Host,
        value,
        threshold,
        unit,
        sentence,
        evidence: vec![
            evidence_optional("psi_memory_some_ratio", some),
            evidence_optional("psi_memory_full_ratio", scene.interval.pressure.memory_full.map(|share| share.0)),
            evidence_optional("refaults_per_second", memory.and_then(|m| m.refaults).map(|r| r.0)),
            evidence_optional("major_faults_per_second", memory.and_then(|m| m.major_faults).map(|r| r.0)),
            evidence_optional("reclaiming_threads", delayed_threads(scene, |span| span.reclaim)),
            evidence_optional("thrashing_threads", delayed_threads(scene, |span| span.thrashing)),
            evidence_optional("direct_scans_per_second", memory.and_then(|m| m.scanned_direct).map(|r| r.0)),
            evidence_optional("available_bytes", memory.and_then(|m| m.available).map(|b| b.0 as f64)),
        ],
        explained_share: some.unwrap_or(0.0).min(1.0),
    })
}

/// Of all major faults, the part that makes a process worth naming.
const MIN_NAMED_SHARE: f64 = 0.1;

/// `; most major faults: python3 (4711) 180/s, …`: who waits for pages that come from storage.
fn top_major_faulters(scene: &RuleContext, faults: f64) -> String {
    let awake = scene.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.active_processes);
    let rates = awake.iter().filter_map(|span| Some((span.major_faults?.0, span.id.pid)));
    let mut rates: Vec<_> =
        rates.filter(|(rate, _)| *rate >= 1.0 && *rate >= faults * MIN_NAMED_SHARE && faults > 0.0).collect();
    rates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told = rates.iter().take(3).filter_map(|(rate, pid)| {
        let process = scene.process(*pid)?;
        Some(format!("{} ({pid}) {}/s", lossy_name(&process.comm), significant_digits(*rate)))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { String::new() } else { format!("; most major faults: {}", told.join(", ")) }
}

/// Mean number of threads kept waiting by one thing, where delay accounting counts it.
fn delayed_threads(scene: &RuleContext, part: fn(&DelaySpan) -> Option<Ratio>) -> Option<f64> {
    scene.interval.newer.delays.as_ref().ok()?;
    Some(scene.interval.delays.iter().filter_map(part).map(|share| share.0).sum())
}

/// Mean number of threads that wait for a page: in a page fault, for a page of a file, or in reclaim. Faults that nobody
/// waits for hurt nobody, and who waits in fsync does not wait for them.
fn page_waiters(scene: &RuleContext) -> f64 {
    let waits = &scene.interval.newer.waits;
    let looks = waits.sub_samples.len().max(1) as f64;
    let for_a_page = scene.interval.blocked_threads.iter().filter(|thread| waits_for_page(scene, thread));
    for_a_page.map(|thread| f64::from(thread.seen_count) / looks).sum()
}

/// Whether what it waits for is a page that is not in memory, or memory itself.
pub(super) fn waits_for_page(scene: &RuleContext, thread: &BlockedThread) -> bool {
    let page = thread
        .wchan
        .as_ref()
        .is_some_and(|channel| PAGE_WAIT_CHANNELS.iter().any(|prefix| channel.as_bytes().starts_with(prefix.as_bytes())));
    let call = thread.syscall.and_then(|call| Syscall::from_number(scene.interval.host.machine.as_bytes(), call));
    let syncing = call.is_some_and(Syscall::is_fsync_family);
    thread.class == WaitClass::Memory || thread.class == WaitClass::Disk && !syncing && (thread.is_page_fault() || page)
}

/// Where readers of the page cache wait, new kernels and old.
const PAGE_WAIT_CHANNELS: &[&str] =
    &["folio_wait", "__folio_lock", "folio_lock", "wait_on_page", "__lock_page", "filemap_", "swap_read"];

fn swapping(scene: &RuleContext) -> Vec<Candidate> {
    let limit = scene.thresholds.swapping_bytes_per_second;
    let Some(memory) = &scene.interval.memory else { return Vec::new() };
    let (into, out) = (memory.swapped_in.map_or(0.0, |rate| rate.0), memory.swapped_out.map_or(0.0, |rate| rate.0));
    if into < limit && out < limit {
        return Vec::new();
    }
    let left = match (memory.swap_free, memory.swap_total) {
        (Some(free), Some(total)) => format!("; {} of {} swap free", bytes(free.0 as f64), bytes(total.0 as f64)),
        _ => String::new(),
    };
    let coming_back = memory.major_faults.filter(|_| into >= limit).map_or(0.0, |rate| rate.0);
    let who = top_major_faulters(scene, coming_back);
    vec![Candidate {
        severity: if into >= limit { Severity::Warning } else { Severity::Note },
        subject: Subject::Host,
        value: into.max(out),
        threshold: limit,
        unit: "per_second",
        sentence: format!("swapping: {}/s in, {}/s out{left}{who}", bytes(into), bytes(out)),
        evidence: vec![
            evidence_optional("swapped_in_bytes_per_second", memory.swapped_in.map(|rate| rate.0)),
            evidence_optional("swapped_out_bytes_per_second", memory.swapped_out.map(|rate| rate.0)),
            evidence_optional("major_faults_per_second", memory.major_faults.map(|rate| rate.0)),
            evidence_optional("swap_free_bytes", memory.swap_free.map(|free| free.0 as f64)),
        ],
        explained_share: 0.0,
    }]
}

fn oom_kill(scene: &RuleContext) -> Vec<Candidate> {
    let Some(memory) = &scene.interval.memory else { return Vec::new() };
    let Some(kills) = memory.oom_kills.filter(|&kills| kills > 0) else { return Vec::new() };
    let kills = kills as f64;
    let groups = &scene.interval.cgroups;
    // v2 counts a kill in the groups above, too: the longest path is the one whose limit it was, or is nearest to it.
    let counted = groups.iter().filter(|group| group.oom_kills.is_some_and(|kills| kills > 0));
    let counted = counted.max_by_key(|group| group.id.path.as_bytes().len());
    let at_limit = groups.iter().find(|group| {
        let limit = group.memory_limit.map_or(f64::INFINITY, |limit| limit.0 as f64);
        group.memory_used.is_some_and(|used| used.0 as f64 >= limit * scene.thresholds.memory_limit_ratio)
    });
    let limit = |group: &CgroupSpan| group.memory_limit.map_or_else(|| "-".into(), |limit| bytes(limit.0 as f64));
    let whose = match (counted, at_limit) {
        (Some(group), _) => format!("; in cgroup {}, whose limit is {}", lossy_name(&group.id.path), limit(group)),
        (None, Some(group)) => format!("; cgroup {} is at its memory limit", lossy_name(&group.id.path)),
        (None, None) => String::new(),
    };
    vec![Candidate {
        severity: Severity::Critical,
        subject: Subject::Host,
        value: kills,
        threshold: 0.0,
        unit: "count",
        sentence: format!("the kernel killed {} for want of memory{whose}", plural(kills, "process", "processes")),
        evidence: vec![
            evidence_number("oom_kills", kills),
            evidence_optional("available_bytes", memory.available.map(|available| available.0 as f64)),
            evidence_optional("cgroups_at_limit", counted.or(at_limit).map(|_| 1.0)),
        ],
        explained_share: 0.0,
    }]
}
