//! Rule saturated-core: one CPU is busy while the host is not.

use crate::findings::causes::DOMINANT_SHARE;
use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::percent;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::cpu::clauses::MAX_REPORTED;
use crate::findings::rules::cpu::clauses::unlisted_clause;
use crate::findings::rules::cpu::free_cpus::{FreeCpus, used};
use crate::findings::rules::cpu::kernel_work::kernel_work;
use crate::findings::rules::cpu::low_weight::LowWeightCgroups;
use crate::findings::rules::cpu::priority::{is_low_priority, priority_clause};
use crate::findings::rules::cpu::softirq::{is_softirq_dominated, softirq_evidence, softirq_sentence};
use crate::findings::wait_chain::link::ChainLink;
use crate::interval::cpu::{CpuSpan, CpuUsage};
use crate::interval::task::ThreadSpan;
use crate::units::SmallSort;

pub const SATURATED_CORE: Rule = Rule {
    kind: Kind::SaturatedCore,
    title: "One core saturated",
    meaning: "One CPU is busy all the time while others have free time: what runs there cannot go faster, however many other \
              CPUs are idle.",
    computed: "A CPU at least 95 % busy (user, nice, system, irq, softirq) or stolen by the hypervisor while at least 0.25 of a CPU is free and the \
               host is below 90 %. From 60 % on only if one thread uses at least 95 % of that CPU: otherwise the scheduler \
               moves its threads to a free CPU in time. Not if the thread that uses most of it has moved between CPUs in the \
               last 10 s: then that thread is the limit, no CPU is. A note if threads that started `limit-seconds` ago or \
               earlier take less than half of its busy time, and fewer than 0.5 threads wait for it: short processes, one after the \
               other (a warning where threads are hidden from this user); and if a thread that is a note itself (saturated-thread) takes half of it. If interrupts and softirqs take more of it than threads, no thread is named: the packet rate of that CPU is reported instead \
               (/proc/net/softnet_stat), with the interface that receives most packets. The scheduler does not move softirq \
               work to another CPU, so this case is reported up to 90 % of the host. At most eight CPUs are listed.",
    caveats: "A batch job that is meant to use its one CPU. A process that hides from the clock tick can make a CPU appear \
              idle, or busier than it is.",
    next_steps: &[
        "the thread that runs there most: one thread cannot use two CPUs",
        "softirq: all interrupts of a NIC may go to one CPU (irqbalance, RSS, RPS)",
        "affinity: taskset -p, cpuset of the cgroup",
    ],
    reference: "CPU time",
    hysteresis: Hysteresis::Sustained,
    evaluate: saturated_core,
};

/// Share of a CPU's busy time from which its top thread is named. docs/metrics.md, "Fixed thresholds".
const MIN_NAMED_THREAD_SHARE: f64 = 0.1;

/// Share of a CPU's time from which a kind of it is listed: less rounds to 0 %.
const MIN_LISTED_SHARE: f64 = 0.005;

/// Busy share of the host from which a CPU that no single thread fills is not reported.
const MAX_BUSY_WITHOUT_TOP_THREAD: f64 = 0.6;

/// Threads that wait for a CPU, on average, from which those that share it are limited by it. docs/metrics.md, "Fixed thresholds".
const MIN_WAITING_THREADS: f64 = 0.5;

/// A short interval lowers the threshold by half a clock tick, and by at most this share.
const MAX_TICK_ROUNDING: f64 = 0.1;

fn saturated_core(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let Some(cpu) = context.interval.cpu.as_ref().filter(|cpu| cpu.cpus.len() > 1) else { return Vec::new() };
    // Half a clock tick: short intervals have few ticks.
    let rounding = 0.5 / (context.interval.seconds * context.interval.host.ticks_per_second as f64).max(1.0);
    let limit = thresholds.core_busy_ratio - rounding.min(MAX_TICK_ROUNDING);
    let mut full: Vec<&CpuUsage> = cpu.cpus.iter().filter(|core| used(core) >= limit).collect();
    if full.is_empty() {
        return Vec::new();
    }
    let free = FreeCpus::for_host(context, cpu);
    // The scheduler does not move softirqs to an idle CPU.
    full.retain(|core| match is_softirq_dominated(core) {
        true => free.is_enough(thresholds) || cpu.busy() + cpu.total.steal < thresholds.cpu_busy_ratio,
        false => free.is_enough(thresholds) && is_filled(context, cpu, core),
    });
    // Otherwise by CPU number, so that the same CPUs are listed each time.
    full.small_sort_by_key(|core| !is_softirq_dominated(core));
    let others = unlisted_clause(full.len(), "more CPU", "more CPUs");
    let low_weights = LowWeightCgroups::from_context(context);
    let mut found = Vec::new();
    for core in full.into_iter().take(MAX_REPORTED) {
        let busy = core.busy();
        let softirq = is_softirq_dominated(core);
        // The work of ksoftirqd is counted as softirq, and threads beside it are not the cause. Nor is the top thread if it
        // used little.
        let top = core
            .top_thread
            .filter(|(_, share)| !softirq && share.0 >= busy * MIN_NAMED_THREAD_SHARE)
            .map(|(task, share)| (context.task_label(task), share.0));
        let label = match &top {
            Some(((_, label), share)) => format!("; {label} ran there most: {}", percent(*share)),
            None => String::new(),
        };
        let dominant = core.top_thread.filter(|(_, share)| share.0 >= busy * DOMINANT_SHARE);
        let dominant = dominant.and_then(|(task, _)| context.interval.tasks.as_ref()?.thread(task));
        let low_weight = dominant.and_then(|thread| low_weights.clause(context, thread.id.pid));
        let kernel_work = dominant.and_then(|thread| kernel_work(context, thread));
        let may_wait = dominant.is_some_and(is_low_priority) || low_weight.is_some() || kernel_work.is_some();
        let limits_threads = softirq || limits_threads(context, core);
        let what = if softirq { softirq_sentence(context, core) } else { busy_breakdown(core) };
        let stolen = core.shares.steal;
        let by_hypervisor = match stolen >= MIN_LISTED_SHARE {
            true => format!(" and {} stolen by the hypervisor", percent(stolen)),
            false => String::new(),
        };
        let sentence = format!(
            "CPU {} is {} busy ({}){by_hypervisor} while the host is {} busy ({}){label}{}{}{}{others}",
            core.id.0,
            percent(busy),
            what,
            percent(cpu.busy()),
            context.of_all_cpus(cpu.busy() * context.cpu_count()),
            kernel_work.map_or_else(String::new, |work| format!("; {work}")),
            dominant.map_or_else(String::new, priority_clause),
            low_weight.unwrap_or_default(),
        );
        let runs_there = top.as_ref().map(|((_, label), share)| {
            ChainLink::new(
                format!("{label} uses {} of CPU {}", percent(*share), core.id.0),
                "the scheduler's run time, /proc/PID/task/TID/stat",
            )
        });
        let this_cpu =
            ChainLink::new(format!("CPU {}: {} busy ({what}){by_hypervisor}", core.id.0, percent(busy)), "/proc/stat");
        let mut evidence = vec![
            evidence_number("busy_ratio", busy),
            evidence_number("user_ratio", core.shares.user + core.shares.nice),
            evidence_number("system_ratio", core.shares.system),
            evidence_number("irq_ratio", core.shares.irq),
            evidence_number("softirq_ratio", core.shares.softirq),
            evidence_number("hidden_ratio", core.hidden),
            evidence_number("steal_ratio", stolen),
            evidence_number("host_busy_ratio", cpu.busy()),
            evidence_number("free_cpus", free.cpus),
            top.map_or(evidence_optional("top_thread", None), |((name, _), _)| evidence_text("top_thread", name)),
        ];
        evidence.extend(softirq_evidence(context, core.id));
        evidence.extend(evidence_chain(runs_there.into_iter().chain([this_cpu])));
        found.push(Candidate {
            severity: if may_wait || !limits_threads { Severity::Note } else { Severity::Warning },
            subject: Subject::Cpu(core.id),
            value: busy + stolen,
            threshold: thresholds.core_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: (busy + stolen) / context.cpu_count(),
        });
    }
    found
}

/// Whether threads that have run for long, or that wait for their turn, need this CPU, as far as threads can be seen. Otherwise processes
/// follow each other there, as those of an installation or a script do: each could be on another CPU, and none would be faster.
fn limits_threads(context: &RuleContext, core: &CpuUsage) -> bool {
    let interval = context.interval;
    let (Some(tasks), Some(_)) = (&interval.tasks, core.top_thread) else { return true };
    if interval.newer.tasks.as_ref().is_ok_and(|tasks| tasks.hidden.processes) {
        return true;
    }
    let now_seconds = interval.at().boottime_ns as f64 / 1e9;
    let age = |thread: &ThreadSpan| now_seconds - interval.host.seconds(thread.id.start_ticks as f64);
    let there = || tasks.threads.iter().filter(|thread| thread.processor == core.id);
    let old = there().filter(|thread| age(thread) >= context.thresholds.limit_seconds);
    let used_by_old: f64 = old.filter_map(|thread| thread.cpu).map(|used| used.0).sum();
    if used_by_old >= core.busy() * DOMINANT_SHARE {
        return true;
    }
    // Without schedstat it is not known.
    let waits: Option<f64> = there().map(|thread| Some(thread.run_queue_wait?.0)).sum();
    waits.is_none_or(|waits| waits >= MIN_WAITING_THREADS)
}

/// Whether its threads have to stay on it, as far as that is known. A CPU beside others with much idle time may have pinned threads;
/// beside busy CPUs only a thread that fills it alone keeps it full.
fn is_filled(context: &RuleContext, cpu: &CpuSpan, core: &CpuUsage) -> bool {
    let top = core.top_thread.filter(|(_, share)| share.0 >= core.busy() * DOMINANT_SHARE);
    if top.is_some_and(|(task, _)| context.state.moved_lately(task)) {
        return false;
    }
    cpu.busy() + cpu.total.steal < MAX_BUSY_WITHOUT_TOP_THREAD
        || top.is_some_and(|(_, share)| share.0 + core.shares.steal >= context.thresholds.thread_busy_ratio)
}

/// `user 99.1 %, system 0.70 %`, the parts that matter.
fn busy_breakdown(core: &CpuUsage) -> String {
    let shares = &core.shares;
    let parts = [
        ("user", shares.user + shares.nice),
        ("system", shares.system),
        ("irq", shares.irq),
        ("softirq", shares.softirq),
        ("hidden from the clock tick", core.hidden),
    ];
    let shown = parts.iter().filter(|(_, share)| *share >= MIN_LISTED_SHARE);
    shown.map(|(word, share)| format!("{word} {}", percent(*share))).collect::<Vec<_>>().join(", ")
}
