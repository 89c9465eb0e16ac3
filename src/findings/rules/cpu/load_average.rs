//! Rule load-not-cpu: the load average is high because of tasks in D, not because of runnable tasks.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::significant_digits;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use crate::findings::rules::cpu::run_queue::run_queue_waiters;
use crate::interval::task::TaskCounts;

pub const LOAD_NOT_CPU: Rule = Rule {
    kind: Kind::LoadNotCpu,
    title: "High load average, but not from the CPUs",
    meaning: "The load average is high because of tasks in uninterruptible sleep, not because the CPUs are saturated. The \
              sentence says what the tasks wait in: in vfork or frozen they are harmless.",
    computed: "1-minute load at least 2 per CPU, while busy CPUs and threads that wait for one are fewer than the CPUs, and \
               the tasks now in R or D are at least half of the load (the rest is history).",
    caveats: "It is an explanation, never a fault by itself; what blocks the tasks has findings of its own.",
    next_steps: &["the blocked tasks and their wait channels (screen 5, c groups them)"],
    reference: "Load average",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: load_not_cpu,
};

/// Share of the load average that the tasks now in R or D must be: the rest is history. docs/metrics.md, "Fixed thresholds".
const MIN_PRESENT_SHARE: f64 = 0.5;

fn load_not_cpu(context: &RuleContext) -> Vec<Candidate> {
    let (Ok(load), Some(tasks), Some(cpu)) = (&context.interval.newer.load, &context.interval.tasks, &context.interval.cpu)
    else {
        return Vec::new();
    };
    let n = context.cpu_count();
    let counts = &tasks.counts;
    let now = f64::from(counts.running) + f64::from(counts.blocked);
    let explained = f64::from(counts.blocked) >= n && now >= load.one * MIN_PRESENT_SHARE;
    let wanted = || cpu.busy() * n + run_queue_waiters(context).unwrap_or(0.0);
    if load.one < context.thresholds.load_per_cpu * n || !explained || wanted() >= n {
        return Vec::new();
    }
    let sentence = format!(
        "load {} = {} running + {} in D ({}); the CPUs are not saturated: {} busy",
        significant_digits(load.one),
        counts.running,
        counts.blocked,
        blocked_breakdown(counts),
        context.of_all_cpus(cpu.busy() * n),
    );
    vec![Candidate {
        severity: Severity::Note,
        subject: Subject::Host,
        value: load.one,
        threshold: context.thresholds.load_per_cpu * n,
        unit: "threads",
        sentence,
        evidence: vec![
            evidence_number("load1", load.one),
            evidence_number("running", f64::from(counts.running)),
            evidence_number("blocked", f64::from(counts.blocked)),
            evidence_number("blocked_disk", f64::from(counts.blocked_disk)),
            evidence_number("blocked_vfork", f64::from(counts.blocked_vfork)),
            evidence_number("blocked_memory", f64::from(counts.blocked_memory)),
            evidence_number("blocked_frozen", f64::from(counts.blocked_frozen)),
            evidence_number("blocked_other", f64::from(counts.blocked_other)),
            evidence_optional("run_queue_wait_threads", tasks.run_queue_wait),
        ],
        explained_share: 0.0,
    }]
}

/// The tasks in D by class, most first: `1000 in vfork: harmless, 32 on disk`.
fn blocked_breakdown(counts: &TaskCounts) -> String {
    let mut parts = [
        (counts.blocked_disk, "on disk"),
        (counts.blocked_vfork, "in vfork: harmless"),
        (counts.blocked_memory, "in memory reclaim"),
        (counts.blocked_frozen, "frozen: harmless"),
        (counts.blocked_other, "in another wait or hidden"),
    ];
    parts.sort_by_key(|&(threads, _)| std::cmp::Reverse(threads));
    let listed = parts.iter().filter(|(threads, _)| *threads > 0).map(|(threads, what)| format!("{threads} {what}"));
    listed.collect::<Vec<_>>().join(", ")
}
