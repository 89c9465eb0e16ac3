//! Rule load-not-cpu: the load average is high because of tasks in D, not because of runnable tasks.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{lossy_name, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use crate::findings::rules::cpu::run_queue::run_queue_waiters;
use crate::interval::task::{TaskCounts, visible_wait_class};
use crate::sample::Name;
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::units::SmallSort;
use std::collections::BTreeMap;

pub const LOAD_NOT_CPU: Rule = Rule {
    kind: Kind::LoadNotCpu,
    title: "High load average, but not from the CPUs",
    meaning: "The load average is high because of tasks in uninterruptible sleep, not because the CPUs are saturated. The \
              sentence says what the tasks wait in, and names the kernel functions of those that wait neither for storage nor for \
              memory: in vfork or frozen they are harmless.",
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
        "load {} (1-min average); now {} running, {} in D ({}); the CPUs are not saturated: {} busy",
        significant_digits(load.one),
        counts.running,
        counts.blocked,
        blocked_breakdown(context, counts),
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
            evidence_number("blocked_lock", f64::from(counts.blocked_lock)),
            evidence_optional("run_queue_wait_threads", tasks.run_queue_wait),
        ],
        explained_share: 0.0,
    }]
}

/// The tasks in D by class, most first: `1000 in vfork: harmless; 32 on disk`.
fn blocked_breakdown(context: &RuleContext, counts: &TaskCounts) -> String {
    let named = counts.blocked_other.saturating_sub(counts.blocked_lock).saturating_sub(counts.blocked_hidden);
    let named = named.saturating_sub(counts.blocked_core_dump);
    let functions = |class: WaitClass| functions(context, class);
    let mut parts = [
        (counts.blocked_disk, "on disk".to_owned()),
        (counts.blocked_vfork, "in vfork: harmless".into()),
        (counts.blocked_memory, "in memory reclaim".into()),
        (counts.blocked_frozen, "frozen: harmless".into()),
        (counts.blocked_lock, format!("in locks of the kernel{}", functions(WaitClass::Lock))),
        (named, format!("in other functions of the kernel{}", functions(WaitClass::Other))),
        (counts.blocked_core_dump, "until their process has dumped core".into()),
        (counts.blocked_hidden, "in waits that are not readable".into()),
    ];
    parts.small_sort_by_key(|&(threads, _)| std::cmp::Reverse(threads));
    let listed = parts.iter().filter(|(threads, _)| *threads > 0).map(|(threads, what)| format!("{threads} {what}"));
    listed.collect::<Vec<_>>().join("; ")
}

/// Functions that the sentence names of one class.
const MAX_FUNCTIONS: usize = 3;

/// The functions in which tasks in D of that class wait, most tasks first: `: 20 in __vm_munmap, 8 in vm_mmap_pgoff`.
fn functions(context: &RuleContext, class: WaitClass) -> String {
    let Ok(tasks) = &context.interval.newer.tasks else { return String::new() };
    let mut seen: BTreeMap<&Name, u32> = BTreeMap::new();
    for process in &tasks.processes {
        for thread in process.threads.iter().filter(|thread| thread.state == TaskState::Blocked) {
            if visible_wait_class(&context.interval.host, process, thread) == class
                && let Ok(wchan) = &thread.wait.wchan
            {
                *seen.entry(wchan).or_default() += 1;
            }
        }
    }
    let mut seen: Vec<(&Name, u32)> = seen.into_iter().collect();
    seen.small_sort_by_key(|&(_, threads)| std::cmp::Reverse(threads));
    let listed = seen.iter().take(MAX_FUNCTIONS).map(|(name, threads)| format!("{threads} in {}", lossy_name(name)));
    let listed = listed.collect::<Vec<_>>().join(", ");
    if listed.is_empty() { listed } else { format!(": {listed}") }
}
