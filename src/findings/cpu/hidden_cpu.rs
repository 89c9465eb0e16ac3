//! CPU time that the clock tick does not see, or sees twice: /proc/stat, and every tool that reads it, is wrong then.

use crate::findings::cpu::top_cpu_users;
use crate::findings::formatting::{percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::{Kind, Severity, Subject};
use crate::interval::cpu::{CpuSpan, CpuUsage};

pub(in crate::findings) const HIDDEN_CPU: Rule = Rule {
    kind: Kind::HiddenCpu,
    title: "Work that the clock tick does not see",
    meaning: "/proc/stat looks at each CPU only when the clock ticks; the scheduler counts every switch. They disagree: something \
              sleeps whenever the tick comes, or runs only then, by design or because a timer is in step with it. The percentages \
              of top, mpstat, sar and vmstat are wrong for this machine; run times of tasks (schedstat, utime and stime) are right.",
    computed: "Run time of all tasks (those that ended too, by what their parents got) against the ticks of /proc/stat: more than 5 % \
               of a CPU apart in one direction for 3 intervals, and apart by more than reading one after the other (skew) and chance \
               (4 standard deviations of what 100 ticks a second see, over these intervals) explain. A CPU is named where threads that \
               stayed on it ran more than its ticks; ticks above run time count only where the fields of /proc/stat add up to more \
               than the time that passed. Less than a quarter of a CPU that no one CPU hides is a note.",
    caveats: "Work that is woken by a timer of the tick itself hides like that without meaning to. On a virtual machine whose steal \
            time the hypervisor does not tell, run time contains stolen time.",
    next_steps: &[
        "the thread's timers: strace -c -p PID, /proc/PID/timers",
        "judge CPU use by run time: pidstat reads it, /proc/PID/task/TID/schedstat has it",
    ],
    hysteresis: Hysteresis::Immediate,
    evaluate: hidden_cpu,
};

/// So much of one CPU, hidden by tasks that move between CPUs, is a warning.
const MIN_WARNING_CPUS: f64 = 0.25;

fn hidden_cpu(scene: &RuleContext) -> Vec<Candidate> {
    let Some(cpu) = &scene.interval.cpu else { return Vec::new() };
    let Some(gap) = scene.state.accounting_difference(scene.thresholds) else { return Vec::new() };
    if gap < 0.0 {
        return vec![double_counted(scene, cpu, -gap)];
    }
    let hiding: Vec<Candidate> =
        cpu.cpus.iter().filter(|core| core.hidden > 0.0).map(|core| hidden_on_cpu(scene, cpu, core)).collect();
    if hiding.is_empty() { vec![hidden_across_cpus(scene, cpu, gap)] } else { hiding }
}

fn hidden_on_cpu(scene: &RuleContext, cpu: &CpuSpan, core: &CpuUsage) -> Candidate {
    let shares = &core.shares;
    let (top_name, who) = top_thread_label(scene, core);
    let elsewhere = if shares.unaccounted >= 0.02 {
        format!("{} of that CPU's time is in none of its fields", percent(shares.unaccounted))
    } else {
        "it takes the rest for idle".into()
    };
    let sentence = format!(
        "{who} CPU {} by the scheduler's count, but /proc/stat saw only {} busy there, and {elsewhere}: it sleeps when the clock \
         ticks; do not trust the percentages of this CPU",
        core.id.0,
        percent(shares.busy()),
    );
    candidate(scene, cpu, Some(core), core.hidden, sentence, top_name)
}

/// The thread that ran there most, and how much: `cheat (4711) used 77.0 % of`.
fn top_thread_label(scene: &RuleContext, core: &CpuUsage) -> (Option<crate::sample::Name>, String) {
    let used = core.scheduler_busy.min(1.0);
    match core.top_thread.map(|(task, share)| (scene.task_label(task), share.0.min(1.0))) {
        Some(((name, who), share)) if share >= used * 0.9 => (Some(name), format!("{who} used {} of", percent(share))),
        Some(((name, who), share)) => (Some(name), format!("tasks ({who} most: {}) used {} of", percent(share), percent(used))),
        None => (None, format!("tasks used {} of", percent(used))),
    }
}

fn hidden_across_cpus(scene: &RuleContext, cpu: &CpuSpan, gap: f64) -> Candidate {
    let sentence = format!(
        "tasks used {} CPUs by the scheduler's count, but /proc/stat saw only {}: {} CPUs of work sleep when the clock ticks, and \
         move between CPUs; do not trust percentages that rest on ticks{}",
        significant_digits(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
        significant_digits(cpu.tick_busy_cpus),
        significant_digits(gap),
        top_cpu_users(scene),
    );
    // Throttled I/O and paced packets are woken by timers of the tick: a little of that is on every box.
    let severity = if gap < MIN_WARNING_CPUS { Severity::Note } else { Severity::Warning };
    Candidate { severity, ..candidate(scene, cpu, None, gap, sentence, None) }
}

fn double_counted(scene: &RuleContext, cpu: &CpuSpan, gap: f64) -> Candidate {
    let core = cpu.cpus.iter().max_by(|a, b| a.shares.excess.total_cmp(&b.shares.excess));
    let core = core.filter(|core| core.shares.excess >= gap / 2.0);
    let (place, top) = match core {
        Some(core) => {
            let top = core.top_thread.map(|(task, _)| scene.task_label(task));
            let named = top.as_ref().map_or_else(String::new, |(_, who)| format!(", most of it {who}"));
            let place = format!(
                "/proc/stat counts {} of CPU {}'s time, as its tasks{named} run whenever the clock ticks",
                percent(1.0 + core.shares.excess),
                core.id.0,
            );
            (place, top.map(|(name, _)| name))
        }
        None => ("/proc/stat counts more time than passed, as tasks run whenever the clock ticks".to_owned(), None),
    };
    let sentence = format!(
        "{place}: {} CPUs busy by ticks, {} by the scheduler's count; do not trust percentages that rest on ticks",
        significant_digits(cpu.tick_busy_cpus.max(cpu.accounting.map_or(0.0, |clocks| clocks.tick_cpus))),
        significant_digits(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
    );
    candidate(scene, cpu, core, gap, sentence, top)
}

/// `value` is in CPUs; on one CPU that is its share.
fn candidate(
    scene: &RuleContext,
    cpu: &CpuSpan,
    core: Option<&CpuUsage>,
    value: f64,
    sentence: String,
    top: Option<crate::sample::Name>,
) -> Candidate {
    Candidate {
        severity: Severity::Warning,
        subject: core.map_or(Subject::Host, |core| Subject::Cpu(core.id)),
        value,
        threshold: scene.thresholds.hidden_cpus,
        unit: if core.is_some() { "ratio" } else { "count" },
        sentence,
        evidence: vec![
            evidence_optional("scheduler_busy_cpus", cpu.scheduler_busy_cpus),
            evidence_number("tick_busy_cpus", cpu.tick_busy_cpus),
            evidence_optional("core_scheduler_ratio", core.map(|core| core.scheduler_busy)),
            evidence_optional("core_tick_ratio", core.map(|core| core.shares.busy())),
            evidence_optional("core_unaccounted_ratio", core.map(|core| core.shares.unaccounted)),
            evidence_optional("core_counted_twice_ratio", core.map(|core| core.shares.excess)),
            evidence_optional("chance_cpus", cpu.accounting.map(|clocks| clocks.variance.sqrt())),
            evidence_optional("skew_cpus", cpu.accounting.map(|clocks| clocks.read_skew_cpus)),
            top.map_or(evidence_optional("top_thread", None), |name| evidence_text("top_thread", name)),
        ],
        explained_share: value.min(scene.cpu_count()) / scene.cpu_count(),
    }
}
