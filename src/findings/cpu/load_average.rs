//! The load average, explained: it counts tasks in D as well as tasks that run.

use crate::findings::cpu;
use crate::findings::formatting::significant_digits;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use crate::findings::{Kind, Severity, Subject};
use crate::interval::task::TaskCounts;

pub(in crate::findings) const LOAD_NOT_CPU: Rule = Rule {
    kind: Kind::LoadNotCpu,
    title: "High load, but not of the CPUs",
    meaning: "The load average is high because of tasks in uninterruptible sleep, not because the CPUs have too much to do. \
              It says what they are in: in vfork or frozen they are harmless.",
    computed: "Load of one minute at least 2 for each CPU, while busy CPUs and threads waiting for one are fewer than the CPUs, \
               and the tasks in R or D now make up at least half of it (what is left over from before explains itself).",
    caveats: "It is an explanation, never a fault by itself; what blocks the tasks has findings of its own.",
    next_steps: &["the blocked tasks and what they wait for (screen 5, c groups them)"],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: load_not_cpu,
};

fn load_not_cpu(scene: &RuleContext) -> Vec<Candidate> {
    let (Ok(load), Some(tasks), Some(cpu)) = (&scene.interval.newer.load, &scene.interval.tasks, &scene.interval.cpu) else {
        return Vec::new();
    };
    let n = scene.cpu_count();
    let counts = &tasks.counts;
    let now = f64::from(counts.running) + f64::from(counts.blocked);
    let explained = f64::from(counts.blocked) >= n && now >= load.one / 2.0;
    let wanted = || cpu.busy() * n + cpu::run_queue_waiters(scene).unwrap_or(0.0);
    if load.one < scene.thresholds.load_per_cpu * n || !explained || wanted() >= n {
        return Vec::new();
    }
    let sentence = format!(
        "load {} = {} running + {} in D ({}); the CPUs have room: {} busy",
        significant_digits(load.one),
        counts.running,
        counts.blocked,
        blocked_breakdown(counts),
        scene.of_all_cpus(cpu.busy() * n),
    );
    vec![Candidate {
        severity: Severity::Note,
        subject: Subject::Host,
        value: load.one,
        threshold: scene.thresholds.load_per_cpu * n,
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

/// `1000 in vfork: harmless, 32 on disk`, the most first.
fn blocked_breakdown(counts: &TaskCounts) -> String {
    let mut parts = [
        (counts.blocked_disk, "on disk"),
        (counts.blocked_vfork, "in vfork: harmless"),
        (counts.blocked_memory, "in memory reclaim"),
        (counts.blocked_frozen, "frozen: harmless"),
        (counts.blocked_other, "elsewhere or hidden"),
    ];
    parts.sort_by_key(|&(threads, _)| std::cmp::Reverse(threads));
    let told = parts.iter().filter(|(threads, _)| *threads > 0).map(|(threads, what)| format!("{threads} {what}"));
    told.collect::<Vec<_>>().join(", ")
}
