//! Rule hidden-cpu: the clock ticks of /proc/stat and the scheduler's run time disagree, so that every tool that reads /proc/stat
//! is wrong.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{cpu_time, percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::cpu::clauses::{cpu_users_clause, list_top_cpu_users};
use crate::interval::cpu::{CpuSpan, CpuUsage, MIN_REPORTED_UNACCOUNTED};
use crate::interval::cpu_accounting::{MIN_DIFFERENCE_CPUS, MIN_TICKS_PER_SECOND};
use crate::interval::task::ThreadSpan;

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
               note. Less than a quarter of a CPU is a note, too. Work that hides gives up its CPU once a tick: on a virtual machine \
               without steal since boot, time with fewer timeslices than 100 per second and hidden CPU was taken by the hypervisor \
               (VMware, Hyper-V: CPU ready time); with more, either is possible.",
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
    let switches = timeslices(context, |thread| thread.processor == core.id && !thread.migrated);
    let cause = cause(context, switches, core.hidden);
    if cause == Cause::Taken {
        let sentence = format!(
            "{} of CPU {}'s time was taken from this virtual machine, while {label} that CPU by the scheduler's count; its hypervisor \
             reports no steal",
            percent(core.hidden),
            core.id.0,
        );
        return candidate(context, cpu, Some(core), core.hidden, switches, sentence, top_name);
    }
    let elsewhere = if shares.unaccounted >= MIN_REPORTED_UNACCOUNTED {
        format!("{} of that CPU's time is in none of its fields", percent(shares.unaccounted))
    } else {
        "it counts the rest as idle".into()
    };
    let sentence = format!(
        "{label} CPU {} by the scheduler's count, but /proc/stat saw only {} busy there, and {elsewhere}: it sleeps at the clock \
         tick{}; do not trust the percentages of this CPU",
        core.id.0,
        percent(shares.busy()),
        cause.alternative(),
    );
    candidate(context, cpu, Some(core), core.hidden, switches, sentence, top_name)
}

/// Why run time has no ticks.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    /// The work sleeps at the clock tick.
    Hides,
    /// A hypervisor that reports no steal took the CPU: no tick came, and the run time went on.
    Taken,
    /// Either of both
    HidesOrTaken,
}

impl Cause {
    fn alternative(self) -> &'static str {
        if self == Cause::HidesOrTaken { ", or the hypervisor, which reports no steal, took that time" } else { "" }
    }
}

/// Work that hides gives up its CPU once a tick: with fewer timeslices, on a virtual machine without steal since boot, the hypervisor
/// took the CPU.
fn cause(context: &RuleContext, timeslices: Option<f64>, hidden_cpus: f64) -> Cause {
    let steal = context.interval.newer.cpu.as_ref().ok().and_then(|cpu| cpu.total.steal_ticks);
    if context.interval.host.has_hypervisor != Some(true) || steal.is_some_and(|ticks| ticks.0 > 0) {
        return Cause::Hides;
    }
    match timeslices {
        Some(rate) if rate < hidden_cpus * MIN_TICKS_PER_SECOND => Cause::Taken,
        _ => Cause::HidesOrTaken,
    }
}

/// Timeslices per second of the threads of which `is_meant` holds; `None` if those of one that ran are not known.
fn timeslices(context: &RuleContext, is_meant: impl Fn(&ThreadSpan) -> bool) -> Option<f64> {
    let ran = |thread: &&ThreadSpan| thread.cpu.is_none_or(|used| used.0 > 0.0);
    let threads = &context.interval.tasks.as_ref()?.threads;
    threads.iter().filter(|thread| is_meant(thread)).filter(ran).map(|thread| thread.timeslices.map(|rate| rate.0)).sum()
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
    // Those of tasks that exited are not known.
    let has_exited = context.interval.short_lived.as_ref().and_then(|short| short.cpus).is_some_and(|cpus| cpus > 0.0);
    let switches = timeslices(context, |_| true).filter(|_| !has_exited);
    let cause = cause(context, switches, gap);
    if cause == Cause::Taken {
        let sentence = format!(
            "{} was taken from this virtual machine, by the scheduler's count of its tasks{explained}; its hypervisor reports no steal{}",
            cpu_time(gap),
            cpu_users_clause(&list_top_cpu_users(context)),
        );
        return candidate(context, cpu, None, gap, switches, sentence, None);
    }
    let sentence = format!(
        "tasks used {} by the scheduler's count, but /proc/stat saw only {}: {} of work sleeps at each clock tick and migrates between \
         CPUs{}{explained}; do not trust percentages that rest on ticks{}",
        cpu_time(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
        significant_digits(cpu.tick_busy_cpus),
        cpu_time(gap),
        cause.alternative(),
        cpu_users_clause(&list_top_cpu_users(context)),
    );
    candidate(context, cpu, None, gap, switches, sentence, None)
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
    let artefact = candidate(context, cpu, core, gap, None, sentence, top);
    Candidate { severity: Severity::Note, explained_share: 0.0, ..artefact }
}

/// `value` is in CPUs, which for a single CPU is its share.
fn candidate(
    context: &RuleContext,
    cpu: &CpuSpan,
    core: Option<&CpuUsage>,
    value: f64,
    timeslices: Option<f64>,
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
            evidence_optional("timeslices_per_second", timeslices),
            evidence_optional("chance_cpus", cpu.accounting.map(|clocks| clocks.variance.sqrt())),
            evidence_optional("skew_cpus", cpu.accounting.map(|clocks| clocks.read_skew_cpus)),
            top.map_or(evidence_optional("top_thread", None), |name| evidence_text("top_thread", name)),
        ],
        explained_share: if severity == Severity::Note { 0.0 } else { value.min(context.cpu_count()) / context.cpu_count() },
    }
}
