//! Rule hidden-cpu: the clock ticks of /proc/stat and the scheduler's run time disagree, so that every tool that reads /proc/stat
//! is wrong.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{cpu_time, percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::cpu::clauses::{cpu_users_clause, list_top_cpu_users};
use crate::interval::cpu::{CpuSpan, CpuUsage};
use crate::interval::cpu_accounting::MIN_DIFFERENCE_CPUS;

pub const HIDDEN_CPU: Rule = Rule {
    kind: Kind::HiddenCpu,
    title: "CPU time that the clock tick does not see",
    meaning: "/proc/stat samples each CPU at the clock tick; the scheduler counts every context switch. They disagree: a \
              task sleeps at each tick, or runs only then, by design or because a timer is in step with the tick. The \
              percentages of top, mpstat, sar and vmstat are wrong on this machine; run times of tasks (schedstat, utime and \
              stime) are right.",
    computed: "Run time of all tasks (including exited ones, from their parents' cutime and cstime) against the ticks of \
               /proc/stat: a difference of more than 5 % of a CPU in one direction for 3 intervals, that neither the time \
               between the two readings nor chance (4 standard deviations of sampling at 100 ticks per second) explains. A CPU \
               is named if the threads that stayed on it ran more than its ticks show. Ticks above run time count only if \
               the fields of /proc/stat add up to more than the elapsed time: that is how the tick samples, and at most a \
               note. Less than a quarter of a CPU is a note, too.",
    caveats: "Work that is woken by a timer of the tick itself is hidden like this without intent. On a virtual machine \
              whose hypervisor does not report steal, run time includes stolen time.",
    next_steps: &[
        "the thread's timers: strace -c -p PID, /proc/PID/timers",
        "measure CPU use by run time: pidstat, /proc/PID/task/TID/schedstat",
    ],
    reference: "Hidden CPU time",
    hysteresis: Hysteresis::Immediate,
    evaluate: hidden_cpu,
};

/// Hidden CPU time is a warning from this amount, otherwise a note.
/// docs/metrics.md, "Fixed thresholds".
const MIN_WARNING_CPUS: f64 = 0.25;

/// Share of a CPU's time that is in no field of /proc/stat, from which the sentence says it.
const MIN_REPORTED_UNACCOUNTED: f64 = 0.02;

/// Share of a CPU's run time from which its top thread is named as the only one.
const MIN_SOLE_USER_SHARE: f64 = 0.9;

/// Share of the time counted twice from which one CPU is named.
const MIN_NAMED_CPU_SHARE: f64 = 0.5;

fn hidden_cpu(context: &RuleContext) -> Vec<Candidate> {
    let Some(cpu) = &context.interval.cpu else { return Vec::new() };
    let Some(gap) = context.state.accounting_difference(context.thresholds) else { return Vec::new() };
    if gap < 0.0 {
        return vec![double_counted(context, cpu, -gap)];
    }
    let hiding: Vec<Candidate> = cpu
        .cpus
        .iter()
        .filter(|core| core.hidden >= MIN_DIFFERENCE_CPUS)
        .map(|core| hidden_on_cpu(context, cpu, core))
        .collect();
    // What no named CPU explains.
    let rest = gap - hiding.iter().map(|found| found.value).sum::<f64>();
    let elsewhere = (hiding.is_empty() || rest >= MIN_WARNING_CPUS).then(|| hidden_across_cpus(context, cpu, rest));
    hiding.into_iter().chain(elsewhere).collect()
}

fn hidden_on_cpu(context: &RuleContext, cpu: &CpuSpan, core: &CpuUsage) -> Candidate {
    let shares = &core.shares;
    let (top_name, label) = top_thread_label(context, core);
    let elsewhere = if shares.unaccounted >= MIN_REPORTED_UNACCOUNTED {
        format!("{} of that CPU's time is in none of its fields", percent(shares.unaccounted))
    } else {
        "it counts the rest as idle".into()
    };
    let sentence = format!(
        "{label} CPU {} by the scheduler's count, but /proc/stat saw only {} busy there, and {elsewhere}: it sleeps at the clock \
         tick; do not trust the percentages of this CPU",
        core.id.0,
        percent(shares.busy()),
    );
    candidate(context, cpu, Some(core), core.hidden, sentence, top_name)
}

/// The thread that ran there most and its share, as the start of the sentence: `cheat (4711) used 77.0 % of`.
fn top_thread_label(context: &RuleContext, core: &CpuUsage) -> (Option<crate::sample::Name>, String) {
    let used = core.scheduler_busy.min(1.0);
    // A thread that came from another CPU did not use all its time here.
    let stayed = core.top_thread.filter(|(_, share)| share.0 <= core.scheduler_busy + f64::EPSILON);
    match stayed.map(|(task, share)| (context.task_label(task), share.0.min(1.0))) {
        // What /proc/stat has counted may be all that this thread used, and what others used is missing.
        Some(((name, label), share)) if share >= used * MIN_SOLE_USER_SHARE && share > core.shares.busy() => {
            (Some(name), format!("{label} used {} of", percent(share)))
        }
        Some(((name, label), share)) => {
            (Some(name), format!("tasks ({label} most: {}) used {} of", percent(share), percent(used)))
        }
        None => (None, format!("tasks used {} of", percent(used))),
    }
}

fn hidden_across_cpus(context: &RuleContext, cpu: &CpuSpan, gap: f64) -> Candidate {
    let interrupting = cpu.accounting.map_or(0.0, |clocks| clocks.interrupting_cpus);
    let explained = if interrupting >= MIN_DIFFERENCE_CPUS {
        format!(", up to {} of the rest is stolen or interrupt time", cpu_time(interrupting))
    } else {
        String::new()
    };
    let sentence = format!(
        "tasks used {} by the scheduler's count, but /proc/stat saw only {}: {} of work sleeps at each clock tick and migrates between \
         CPUs{explained}; do not trust percentages that rest on ticks{}",
        cpu_time(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
        significant_digits(cpu.tick_busy_cpus),
        cpu_time(gap),
        cpu_users_clause(&list_top_cpu_users(context)),
    );
    candidate(context, cpu, None, gap, sentence, None)
}

fn double_counted(context: &RuleContext, cpu: &CpuSpan, gap: f64) -> Candidate {
    let core = cpu.cpus.iter().max_by(|a, b| a.shares.excess.total_cmp(&b.shares.excess));
    let core = core.filter(|core| core.shares.excess >= gap * MIN_NAMED_CPU_SHARE);
    let ((place, named), top) = match core {
        Some(core) => {
            let top = core.top_thread.map(|(task, _)| context.task_label(task));
            let named = top.as_ref().map_or_else(String::new, |(_, label)| format!(", most often {label},"));
            let place = format!(
                "the times of CPU {} in /proc/stat add up to {} of the elapsed time",
                core.id.0,
                percent(1.0 + core.shares.excess)
            );
            ((place, named), top.map(|(name, _)| name))
        }
        None => (("the times in /proc/stat add up to more than the elapsed time".to_owned(), String::new()), None),
    };
    let sentence = format!(
        "{place}: the kernel counts a whole tick as busy if a task{named} runs at its end, and idle time exactly; mpstat and top \
         show {} busy, the scheduler measured {}, which is right",
        cpu_time(cpu.tick_busy_cpus.max(cpu.accounting.map_or(0.0, |clocks| clocks.tick_cpus))),
        significant_digits(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
    );
    let artefact = candidate(context, cpu, core, gap, sentence, top);
    Candidate { severity: Severity::Note, explained_share: 0.0, ..artefact }
}

/// `value` is in CPUs, which for a single CPU is its share.
fn candidate(
    context: &RuleContext,
    cpu: &CpuSpan,
    core: Option<&CpuUsage>,
    value: f64,
    sentence: String,
    top: Option<crate::sample::Name>,
) -> Candidate {
    // Throttled I/O and paced packets are woken by timers of the tick: every machine has a little of that.
    let severity = if value < MIN_WARNING_CPUS { Severity::Note } else { Severity::Warning };
    Candidate {
        severity,
        subject: core.map_or(Subject::Host, |core| Subject::Cpu(core.id)),
        value,
        threshold: context.thresholds.hidden_cpus,
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
        explained_share: if severity == Severity::Note { 0.0 } else { value.min(context.cpu_count()) / context.cpu_count() },
    }
}
