//! Tasks that begin and end between two looks: no list of processes shows them, and what they use has no name.

use crate::findings::rule::{Patience, Rule};
use crate::findings::scene::{Scene, Suspicion, maybe, number, text};
use crate::findings::words::{figure, name, percent};
use crate::findings::{Kind, Severity, Subject};
use crate::interval::short_lived::{ShortLived, ShortLivedGroup};
use crate::sample::{Absent, Name};

pub(in crate::findings) const SHORT_LIVED_PROCESSES: Rule = Rule {
    kind: Kind::ShortLivedProcesses,
    title: "Processes too short-lived to be seen",
    meaning: "Tasks are started at a high rate and end before any look at /proc finds them. Their CPU time, and that of starting \
              them, belongs to nobody in a list of processes.",
    computed: "Forks (processes and threads) at least 50 a second, of which a sweep found less than half; or CPU time of tasks that \
               no sweep saw, at least 10 % of what is used and 0.05 CPU. A note; a warning from 25 % of the box. With CAP_NET_ADMIN \
               each end is heard (taskstats) and has a name and an ancestor; without, the CPU time is what parents got when they \
               waited for their children, less what the sweep had seen of these.",
    wrong: "A build, a test suite or a shell script is made like this. Unprivileged, the last moments of processes that were seen \
            are estimated, and those that nobody waits for are missed unless the ticks show them.",
    next: &[
        "what the parent runs again and again: its command line, its log",
        "as root their ends are heard and named; execsnoop (bcc) or perf trace -e 'sched:sched_process_exec' shows arguments",
        "a shell loop: builtins in place of programs; a server: a pool in place of a process a request",
    ],
    patience: Patience::TwoOfThree,
    suspect: short_lived,
};

fn short_lived(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let (Some(span), Some(cpu)) = (&scene.interval.short_lived, &scene.interval.cpu) else { return Vec::new() };
    let n = scene.cpus();
    let unseen = span.cpus.map(|cpus| (cpus + span.unexplained_cpus).min(n));
    let used = (cpu.busy() * n).max(unseen.unwrap_or(0.0));
    let hidden = scene.interval.newer.tasks.as_ref().is_ok_and(|tasks| tasks.hidden.processes);
    let many = span.forks.is_some_and(|forks| forks.0 >= thresholds.short_lived_forks_per_second)
        && span.seen_share.is_some_and(|seen| seen.0 < thresholds.short_lived_seen_ratio)
        && !hidden;
    let share = unseen.filter(|&cpus| cpus >= thresholds.short_lived_cpus).map_or(0.0, |cpus| cpus / used);
    let costly = share >= thresholds.short_lived_busy_ratio;
    if !many && !costly {
        return Vec::new();
    }
    let of_box = unseen.unwrap_or(0.0) / n;
    let (value, threshold, unit) = match span.forks {
        Some(forks) if !costly => (forks.0, thresholds.short_lived_forks_per_second, "per_second"),
        _ => (share, thresholds.short_lived_busy_ratio, "ratio"),
    };
    let told = told(span);
    vec![Suspicion {
        severity: if of_box >= thresholds.short_lived_warning_ratio { Severity::Warning } else { Severity::Note },
        subject: Subject::Box,
        value,
        threshold,
        unit,
        sentence: sentence(scene, span, unseen, &told),
        evidence: vec![
            maybe("forks_per_second", span.forks.map(|forks| forks.0)),
            maybe("seen_ratio", span.seen_share.map(|seen| seen.0)),
            maybe("unseen_cpus", unseen),
            maybe("unseen_of_used_ratio", unseen.map(|_| share)),
            maybe("unseen_of_box_ratio", unseen.map(|_| of_box)),
            maybe("ended_unseen_per_second", span.has_exit_events.then(|| ended(span))),
            maybe("ends_not_heard_per_second", span.lost_messages.map(|lost| lost.0)),
            number("unexplained_cpus", span.unexplained_cpus),
            if told.is_empty() { maybe("whose", None) } else { text("whose", told.as_str()) },
        ],
        explains: of_box.min(1.0),
    }]
}

/// Ends a second that were heard, of processes that nobody had seen.
fn ended(span: &ShortLived) -> f64 {
    let processes = span.groups.iter().filter(|family| !family.are_threads);
    processes.filter_map(|family| family.rate).map(|rate| rate.0).sum::<f64>() + span.unlisted.map_or(0.0, |rate| rate.0)
}

fn sentence(scene: &Scene, span: &ShortLived, unseen: Option<f64>, told: &str) -> String {
    let mut words = match span.forks {
        Some(forks) => format!("{} processes or threads a second begin", figure(forks.0)),
        None => "processes begin".into(),
    };
    if let Some(seen) = span.seen_share {
        words += &format!(", and {} of them are there at the next look", percent(seen.0));
    }
    let known = unseen.filter(|&cpus| cpus >= LEAST_TOLD);
    if known.is_none() && !span.has_exit_events {
        words += "; what they use is not known: nobody waits for them, or they are threads of processes that live on";
    }
    if let Some(unseen) = known {
        let of_box = percent(unseen / scene.cpus());
        words += &format!("; those that ended unseen used {} ({of_box} of the box)", scene.of_cpus(unseen));
    }
    if span.unexplained_cpus > 0.0 {
        words += &format!(", {} CPUs of it by inference from ticks that no task accounts for", figure(span.unexplained_cpus));
    }
    if !told.is_empty() {
        words += &format!(": {told}");
    }
    if let Some(lost) = span.lost_messages.filter(|lost| lost.0 > 0.0) {
        words += &format!("; {} ends a second came too fast to be heard", figure(lost.0));
    }
    if scene.interval.newer.exits == Err(Absent::NoPermission) {
        words += "; their names need root (CAP_NET_ADMIN)";
    }
    words
}

/// Fewer CPUs are not told.
const LEAST_TOLD: f64 = 0.005;
/// So many families are told.
const TOLD: usize = 3;

/// `make (4711) → cc1 180/s 0.90 CPU, …`
fn told(span: &ShortLived) -> String {
    // The CPU time of threads is their process's, so only their number is news.
    let costs = |family: &ShortLivedGroup| !family.are_threads && family.cpus >= LEAST_TOLD;
    let worth = |family: &&ShortLivedGroup| costs(family) || family.rate.is_some_and(|rate| rate.0 >= 5.0);
    let words: Vec<String> = span.groups.iter().filter(worth).take(TOLD).map(family).collect();
    words.join(", ")
}

fn family(family: &ShortLivedGroup) -> String {
    let of = match family.owner {
        Some(id) => format!("{} ({})", name(&family.owner_name), id.pid),
        None => "a parent that is gone".into(),
    };
    let rate = family.rate.map(|rate| format!(" {}/s", figure(rate.0))).unwrap_or_default();
    let cpus = figure(family.cpus);
    match &family.name {
        Some(own) if family.are_threads => format!("{of}: threads {}{rate}", shown(own)),
        Some(own) => format!("{of} → {}{rate} {cpus} CPU", shown(own)),
        None => format!("children of {of}: {cpus} CPU"),
    }
}

fn shown(own: &Name) -> String {
    if own.as_bytes().is_empty() { "(no name)".into() } else { name(own) }
}
