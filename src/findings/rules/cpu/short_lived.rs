//! Rule short-lived-processes: tasks start and exit between two scans, so that no list of processes contains them.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{cpu_time, lossy_name, percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::cpu::run_queue::normal_run_queue_waiters;
use crate::interval::cpu::CpuSpan;
use crate::interval::short_lived::{ShortLived, ShortLivedGroup};
use crate::sample::{Absent, Name};
use crate::units::SmallSort;

pub const SHORT_LIVED_PROCESSES: Rule = Rule {
    kind: Kind::ShortLivedProcesses,
    title: "Processes too short-lived to be sampled",
    meaning: "Tasks start at a high rate and end before a scan of /proc finds them. Their CPU time, and that of starting \
              them, is missing from every list of processes.",
    computed: "At least 50 forks (processes and threads) per second of which a scan found less than half; or CPU time of tasks \
               that no scan found, at least 10 % of what is used and 0.05 CPU. A note; a warning if they use at least half \
               of the host while the CPUs are saturated (90 % busy, and tasks wait for a CPU by run-queue wait or PSI). With \
               CAP_NET_ADMIN each exit is reported by the kernel (taskstats) with a name and an ancestor; without it, the \
               CPU time is what parents were credited with for their children (cutime, cstime), minus what the scan had seen \
               of these.",
    caveats: "An installation of packages, a build, a test suite or a shell script works like this. Without privilege, the last part of the life of \
              sampled processes is estimated, and processes that no parent waits for are missed unless the ticks show them.",
    next_steps: &[
        "what the parent runs repeatedly: its command line, its log",
        "as root the exits are reported by name; execsnoop (bcc) or perf trace -e 'sched:sched_process_exec' shows arguments",
        "a shell loop: builtins instead of programs; a server: a worker pool instead of a process per request",
    ],
    reference: "Short-lived processes",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: short_lived,
};

fn short_lived(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let (Some(span), Some(cpu)) = (&context.interval.short_lived, &context.interval.cpu) else { return Vec::new() };
    let n = context.cpu_count();
    let unseen = span.cpus.map(|cpus| (cpus + span.unexplained_cpus).min(n));
    let used = (cpu.busy() * n).max(unseen.unwrap_or(0.0));
    let hidden = context.interval.newer.tasks.as_ref().is_ok_and(|tasks| tasks.hidden.processes);
    let many = span.forks.is_some_and(|forks| forks.0 >= thresholds.short_lived_forks_per_second)
        && span.seen_share.is_some_and(|seen| seen.0 < thresholds.short_lived_seen_ratio)
        && !hidden;
    let share = unseen.filter(|&cpus| cpus >= thresholds.short_lived_cpus).map_or(0.0, |cpus| cpus / used);
    let costly = share >= thresholds.short_lived_busy_ratio;
    if !many && !costly {
        return Vec::new();
    }
    let of_host = unseen.unwrap_or(0.0) / n;
    let (value, threshold, unit) = match span.forks {
        Some(forks) if !costly => (forks.0, thresholds.short_lived_forks_per_second, "per_second"),
        _ => (share, thresholds.short_lived_busy_ratio, "ratio"),
    };
    let listed = top_groups(span);
    vec![Candidate {
        severity: match of_host >= thresholds.short_lived_warning_ratio && is_cpu_short(context, cpu) {
            true => Severity::Warning,
            false => Severity::Note,
        },
        subject: Subject::Host,
        value,
        threshold,
        unit,
        sentence: sentence(context, span, unseen, &listed),
        evidence: vec![
            evidence_optional("forks_per_second", span.forks.map(|forks| forks.0)),
            evidence_optional("seen_ratio", span.seen_share.map(|seen| seen.0)),
            evidence_optional("unseen_cpus", unseen),
            evidence_optional("unseen_of_used_ratio", unseen.map(|_| share)),
            evidence_optional("unseen_of_host_ratio", unseen.map(|_| of_host)),
            evidence_optional("ended_unseen_per_second", span.has_exit_events.then(|| ended_unseen_per_second(span))),
            evidence_optional("lost_exit_reports_per_second", span.lost_messages.map(|lost| lost.0)),
            evidence_number("unexplained_cpus", span.unexplained_cpus),
            if listed.is_empty() { evidence_optional("parents", None) } else { evidence_text("parents", listed.as_str()) },
        ],
        explained_share: of_host.min(1.0),
    }]
}

/// Whether other tasks wait for the CPU time that short-lived ones use. The run-queue waits of tasks that no scan found are only in PSI.
fn is_cpu_short(context: &RuleContext, cpu: &CpuSpan) -> bool {
    let thresholds = context.thresholds;
    let waiting = normal_run_queue_waiters(context)
        .is_some_and(|waiting| waiting >= thresholds.cpu_waiting_per_cpu * context.cpu_count());
    let stalled = context.interval.pressure.cpu_some.is_some_and(|some| some.0 >= thresholds.cpu_waiting_per_cpu);
    cpu.busy() + cpu.total.steal >= thresholds.cpu_busy_ratio && (waiting || stalled)
}

/// Exits per second of processes that no scan found.
fn ended_unseen_per_second(span: &ShortLived) -> f64 {
    let processes = span.groups.iter().filter(|family| !family.are_threads);
    processes.filter_map(|family| family.rate).map(|rate| rate.0).sum::<f64>() + span.unlisted.map_or(0.0, |rate| rate.0)
}

fn sentence(context: &RuleContext, span: &ShortLived, unseen: Option<f64>, listed: &str) -> String {
    let mut words = match span.forks {
        Some(forks) => format!("{} processes or threads start per second", significant_digits(forks.0)),
        None => "processes start".into(),
    };
    if let Some(seen) = span.seen_share {
        words += &match seen.0 {
            none if none <= 0.0 => ", none of them is still there at the next scan".to_owned(),
            some => format!(", {} of them are still there at the next scan", percent(some)),
        };
    }
    let known = unseen.filter(|&cpus| cpus >= MIN_REPORTED_CPUS);
    if known.is_none() && !span.has_exit_events {
        words += "; their CPU use is not known: no process waits for them, or they are threads of processes that still run";
    }
    if let Some(unseen) = known {
        let of_host = percent(unseen / context.cpu_count());
        words += &format!("; those that no scan found used {} ({of_host} of the host)", context.of_all_cpus(unseen));
    }
    if span.unexplained_cpus > 0.0 {
        words += &format!(", {} of it by inference from ticks that no task accounts for", cpu_time(span.unexplained_cpus));
    }
    if !listed.is_empty() {
        words += &format!(": {listed}");
    }
    if let Some(lost) = span.lost_messages.filter(|lost| lost.0 > 0.0) {
        words += &format!("; {} exit messages per second were lost", significant_digits(lost.0));
    }
    if context.interval.newer.exits == Err(Absent::NoPermission) {
        words += "; their names need root (CAP_NET_ADMIN)";
    }
    words
}

/// CPU use below this is not reported. docs/metrics.md, "Fixed thresholds".
const MIN_REPORTED_CPUS: f64 = 0.005;

/// Exits per second from which a group is listed even if it used less CPU time.
const MIN_REPORTED_RATE: f64 = 5.0;

/// Groups that are listed.
const MAX_REPORTED: usize = 3;

/// Short-lived tasks of one name, of all parents of one name.
struct ListedGroup<'a> {
    first: &'a ShortLivedGroup,
    parents: u32,
    rate: Option<f64>,
    cpus: f64,
}

/// `make (4711) → cc1 180/s 0.90 CPU, bash (16 processes) → ip 1480/s 1.50 CPUs, …`
fn top_groups(span: &ShortLived) -> String {
    let mut groups: Vec<ListedGroup> = Vec::new();
    for group in &span.groups {
        let is_same = |first: &ShortLivedGroup| {
            (first.are_threads, first.owner.is_some(), &first.owner_name, &first.name)
                == (group.are_threads, group.owner.is_some(), &group.owner_name, &group.name)
        };
        let rate = group.rate.map(|rate| rate.0);
        match groups.iter_mut().find(|known| is_same(known.first)) {
            Some(known) => {
                known.parents = known.parents.saturating_add(1);
                known.rate = known.rate.zip(rate).map(|(one, other)| one + other);
                known.cpus += group.cpus;
            }
            None => groups.push(ListedGroup { first: group, parents: 1, rate, cpus: group.cpus }),
        }
    }
    groups.small_sort_by(|a, b| a.first.are_threads.cmp(&b.first.are_threads).then(b.cpus.total_cmp(&a.cpus)));
    // The CPU time of threads is part of their process: only their number is reported.
    let costs = |group: &ListedGroup| !group.first.are_threads && group.cpus >= MIN_REPORTED_CPUS;
    let worth = |group: &&ListedGroup| costs(group) || group.rate.is_some_and(|rate| rate >= MIN_REPORTED_RATE);
    let words: Vec<String> = groups.iter().filter(worth).take(MAX_REPORTED).map(describe_group).collect();
    words.join(", ")
}

fn describe_group(group: &ListedGroup) -> String {
    let parent = lossy_name(&group.first.owner_name);
    let of = match group.first.owner {
        Some(_) if group.parents > 1 => format!("{parent} ({} processes)", group.parents),
        Some(id) => format!("{parent} ({})", id.pid),
        None => "a parent that has exited".into(),
    };
    let rate = group.rate.map(|rate| format!(" {}/s", significant_digits(rate))).unwrap_or_default();
    let cpus = cpu_time(group.cpus);
    match &group.first.name {
        Some(own) if group.first.are_threads => format!("{of}: threads {}{rate}", name_or_placeholder(own)),
        Some(own) => format!("{of} → {}{rate} {cpus}", name_or_placeholder(own)),
        None => format!("children of {of}: {cpus}"),
    }
}

fn name_or_placeholder(own: &Name) -> String {
    if own.as_bytes().is_empty() { "(no name)".into() } else { lossy_name(own) }
}
