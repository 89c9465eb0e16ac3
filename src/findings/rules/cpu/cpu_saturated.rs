//! Rule cpu-saturated: more runnable threads than CPUs, on the host or on the CPUs of an affinity mask; a note where all CPUs are used
//! without a queue.

use crate::findings::causes::DOMINANT_SHARE;
use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{cpus, percent, plural, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::rules::blocked_tasks::kernel_lock_contention::{MIN_SYSTEM_SHARE, kernel_lock_clause};
use crate::findings::rules::cpu::affinity::affinity_saturated;
use crate::findings::rules::cpu::clauses::{cpu_users_clause, list_top_cpu_users};
use crate::findings::rules::cpu::clock_rate::clock_rate_clause;
use crate::findings::rules::cpu::free_cpus::FreeCpus;
use crate::findings::rules::cpu::frequent_switches::switching_clause;
use crate::findings::rules::cpu::low_weight::LowWeightCgroups;
use crate::findings::rules::cpu::priority::is_low_priority;
use crate::findings::rules::cpu::run_queue::{
    low_priority_run_queue_waiters, normal_run_queue_waiters, run_queue_waits_beyond_quota,
};
use crate::findings::rules::cpu::starved_thread::starved_thread;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::interval::cpu::CpuSpan;
use crate::interval::task::ThreadSpan;

/// Stolen share of CPU time from which the sentence says it. docs/metrics.md, "Fixed thresholds".
const MIN_REPORTED_STEAL: f64 = 0.01;

/// Share of the busy time that threads at low priority must use so that they fill the CPUs.
const MIN_LOW_PRIORITY_SHARE: f64 = 0.5;

pub const CPU_SATURATED: Rule = Rule {
    kind: Kind::CpuSaturated,
    title: "CPUs saturated",
    meaning: "Nearly all CPUs are in use, and threads wait for a CPU: everything takes longer than its CPU time. It is a note where \
              hardly any thread waits: no time is lost, but further work would have to wait.",
    computed: "CPUs at least 90 % busy, steal included, and threads wait for a CPU for at least 0.25 seconds per second and \
               CPU, not counting threads at low priority (nice 10 or more, SCHED_BATCH, SCHED_IDLE) and not counting the time in which \
               their own quota may have throttled them. Where a cpuset or an affinity mask restricts threads to some CPUs, \
               the same for those CPUs and those threads, even if the host has idle CPUs; a note if those not at low priority, nor of cgroups of \
               low CPU weight, wait for less than that. If only threads at low \
               priority wait, and they use most of the busy time, it is a note; and so it is if only these and threads of cgroups of \
               low CPU weight do (cpu.weight up to 11, cpu.shares up to 112, cpu.idle; of pods, whose weights are their CPU requests, \
               only cpu.idle). A thread that gets less than a quarter of what \
               the others get on average is named, with the reason if it is real-time threads, the CPU weights of cgroups, its nice \
               value, nice values of the threads that run that are lower by 5 or more, or its affinity. A process that wakes up by timers at least 10,000 times per second, or calls sched_yield in \
               a loop, is named, and so is a lock of the kernel for which more threads than CPUs wait while the CPUs are full of system time. \
               A note also without a queue: CPUs at least 90 % busy, neither steal nor work at low priority, with any nice value above 0 or of cgroups of \
               low CPU weight counted, and no CPU free for another thread (saturated-thread); a warning if at least half of the busy time is system time. \
               System time is said from a quarter of the busy time on, the clock rate of the busy CPUs where it is below half of the highest one (cpuinfo_max_freq). \
               Run-queue waits of tasks that no scan found are not known: the number of threads is a lower bound then. PSI cpu and run delay alone do not raise it: a task throttled by its quota shows both on an idle host.",
    caveats: "A compile or another batch job that is meant to use the whole host. With as many threads as CPUs it waits for none: that is a note.",
    next_steps: &[
        "which processes use the CPUs: %CPU (screen 5, s)",
        "which threads wait: runq (screen 5, t and s); how long: stalltop probe runq",
        "whether batch work can be niced or given a quota",
        "if only some CPUs are saturated: taskset -p PID, cpuset.cpus of the cgroup",
    ],
    reference: "Tasks",
    hysteresis: Hysteresis::Sustained,
    evaluate: cpu_saturated,
};

/// CPUs that the threads of which `is_low` holds use.
fn used_by(context: &RuleContext, is_low: impl Fn(&ThreadSpan) -> bool) -> f64 {
    let threads = context.interval.tasks.iter().flat_map(|tasks| &tasks.threads);
    threads.filter(|thread| is_low(thread)).filter_map(|thread| thread.cpu).map(|used| used.0).sum()
}

/// Whether the threads of which `is_low` holds use most of the busy time.
fn uses_most(context: &RuleContext, cpu: &CpuSpan, is_low: impl Fn(&ThreadSpan) -> bool) -> bool {
    used_by(context, is_low) >= cpu.busy() * context.cpu_count() * MIN_LOW_PRIORITY_SHARE
}

/// The cgroup of low CPU weight that uses most, if threads of such cgroups, and those at low priority, use most of the busy time, and
/// fewer than `limit` of the `normal` waiting threads are others.
fn low_weight_work(context: &RuleContext, cpu: &CpuSpan, normal: f64, limit: f64) -> Option<String> {
    let groups = LowWeightCgroups::from_context(context);
    if groups.is_empty() {
        return None;
    }
    let is_inside = |thread: &ThreadSpan| groups.of_process(context, thread.id.pid).is_some();
    let inside = run_queue_waits_beyond_quota(context, |thread| !is_low_priority(thread) && is_inside(thread));
    let is_alone = normal - inside < limit && uses_most(context, cpu, |thread| is_low_priority(thread) || is_inside(thread));
    if is_alone { groups.describe_top(context) } else { None }
}

/// System time, as a share of the busy time.
fn system_share(cpu: &CpuSpan) -> f64 {
    if cpu.busy() > 0.0 { cpu.total.system / cpu.busy() } else { 0.0 }
}

/// `; 95.0 % of the used time is system time`; empty where little of it is.
fn system_clause(cpu: &CpuSpan) -> String {
    match system_share(cpu) {
        share if share >= MIN_SYSTEM_SHARE => format!("; {} of the used time is system time", percent(share)),
        _ => String::new(),
    }
}

/// Whether tasks that no scan found, whose run-queue waits are not known, used a significant part of the CPUs.
fn has_unseen_tasks(context: &RuleContext) -> bool {
    let unseen = context.interval.short_lived.as_ref().and_then(|short| short.cpus);
    unseen.is_some_and(|cpus| cpus >= context.cpu_count() * context.thresholds.short_lived_busy_ratio)
}

/// The host, otherwise the CPUs to which some threads are restricted; a note if all CPUs are used and there is a queue for none.
fn cpu_saturated(context: &RuleContext) -> Vec<Candidate> {
    if let Some(whole) = host_saturated(context) {
        return vec![whole];
    }
    let restricted = affinity_saturated(context);
    if restricted.is_empty() { used_without_queue(context).into_iter().collect() } else { restricted }
}

fn host_saturated(context: &RuleContext) -> Option<Candidate> {
    let thresholds = context.thresholds;
    let cpu = context.interval.cpu.as_ref()?;
    let taken = cpu.busy() + cpu.total.steal;
    if taken < thresholds.cpu_busy_ratio {
        return None;
    }
    let low_priority = low_priority_run_queue_waiters(context);
    let normal = normal_run_queue_waiters(context)?;
    let limit = thresholds.cpu_waiting_per_cpu * context.cpu_count();
    let only_low_priority = normal < limit;
    if only_low_priority && (low_priority.unwrap_or(0.0) < limit || !uses_most(context, cpu, is_low_priority)) {
        return None;
    }
    let waiting = if only_low_priority { low_priority.unwrap_or(0.0) } else { normal };
    let wanted = taken * context.cpu_count() + waiting;
    let low_weight = if only_low_priority { None } else { low_weight_work(context, cpu, normal, limit) };
    let may_wait = only_low_priority || low_weight.is_some();
    let critical = !may_wait && waiting >= thresholds.cpu_waiting_critical_per_cpu * context.cpu_count();
    let users = list_top_cpu_users(context);
    let most = cpu_users_clause(&users);
    let (starved, starved_evidence) = starved_thread(context, None);
    let work = match &low_weight {
        Some(group) => format!(" by work of low CPU weight ({group})"),
        None if only_low_priority => " by work at low priority (nice 10 or more, SCHED_BATCH or SCHED_IDLE)".into(),
        None => String::new(),
    };
    let stolen = match cpu.total.steal >= MIN_REPORTED_STEAL {
        true => format!(" ({} stolen by the hypervisor)", percent(cpu.total.steal)),
        false => String::new(),
    };
    let locks = kernel_lock_clause(context, None).unwrap_or_default();
    let sentence = format!(
        "CPUs {} used{work}{stolen}: {}{} runnable threads for {}, {} of them wait{}{most}{starved}{}{locks}{}",
        percent(taken),
        if has_unseen_tasks(context) { "at least " } else { "" },
        significant_digits(wanted),
        cpus(context.interval.online_cpus()),
        significant_digits(waiting),
        system_clause(cpu),
        switching_clause(context, None),
        clock_rate_clause(context, cpu, |_| true),
    );
    let chain = evidence_chain(
        [
            ChainLink::new(
                format!(
                    "{}{} runnable threads wait for a CPU",
                    if has_unseen_tasks(context) { "at least " } else { "" },
                    significant_digits(waiting)
                ),
                "/proc/PID/task/TID/schedstat (run delay)",
            ),
            ChainLink::new(format!("{}: {} used{stolen}", cpus(context.interval.online_cpus()), percent(taken)), "/proc/stat"),
        ]
        .into_iter()
        .chain((!users.is_empty()).then(|| ChainLink::new(format!("most CPU time: {users}"), "the scheduler's run time"))),
    );
    Some(Candidate {
        severity: match critical {
            true => Severity::Critical,
            false if may_wait => Severity::Note,
            false => Severity::Warning,
        },
        subject: Subject::Host,
        value: waiting / context.cpu_count(),
        threshold: thresholds.cpu_waiting_per_cpu,
        unit: "ratio",
        sentence,
        evidence: [
            evidence_number("busy_ratio", cpu.busy()),
            evidence_number("system_ratio", cpu.total.system),
            evidence_number("steal_ratio", cpu.total.steal),
            evidence_number("waiting_threads", waiting),
            evidence_number("runnable_threads", wanted),
            evidence_optional("background_waiting_threads", low_priority),
            evidence_optional("psi_cpu_some_ratio", context.interval.pressure.cpu_some.map(|share| share.0)),
        ]
        .into_iter()
        .chain(chain)
        .chain(starved_evidence)
        .collect(),
        explained_share: taken.min(1.0),
    })
}

/// All CPUs are used, and hardly any thread waits for one: no fault, but no idle host either.
fn used_without_queue(context: &RuleContext) -> Option<Candidate> {
    let thresholds = context.thresholds;
    let cpu = context.interval.cpu.as_ref()?;
    let busy = cpu.busy();
    if busy < thresholds.cpu_busy_ratio || FreeCpus::for_host(context, cpu).is_enough(thresholds) {
        return None;
    }
    let waiting = normal_run_queue_waiters(context)?;
    let low_weights = LowWeightCgroups::from_context(context);
    let is_low = |thread: &ThreadSpan| is_low_priority(thread) || low_weights.of_process(context, thread.id.pid).is_some();
    // Work that may wait leaves its CPUs to other work. The kernel counts it of tasks that no scan found, too.
    let low = (used_by(context, is_low) / context.cpu_count()).max(cpu.total.nice);
    if busy - low < thresholds.cpu_busy_ratio {
        return None;
    }
    let low_priority = low_priority_run_queue_waiters(context);
    let used = match context.interval.online_cpus() {
        1 => format!("the CPU is {} used", percent(busy)),
        _ => format!("CPUs {} used", percent(busy)),
    };
    let least = if has_unseen_tasks(context) { "at least " } else { "" };
    let queue = match waiting {
        few if few < MIN_REPORTED_THREADS && least.is_empty() => "without a queue".to_owned(),
        few if few < MIN_REPORTED_THREADS => "without a known queue".to_owned(),
        few if context.cpu_count() > 1.0 => {
            let each = significant_digits(few / context.cpu_count());
            format!("with a short queue: {least}{} waiting on average, {each} per CPU", plural(few, "thread", "threads"))
        }
        few => format!("with a short queue: {least}{} waiting on average", plural(few, "thread", "threads")),
    };
    let low_queue = match low_priority.filter(|&low| low >= MIN_REPORTED_THREADS) {
        Some(low) => format!("; {} at low priority waiting", plural(low, "thread", "threads")),
        None => String::new(),
    };
    let sentence = format!(
        "{used}, {queue}{}{}{low_queue}{}",
        system_clause(cpu),
        cpu_users_clause(&list_top_cpu_users(context)),
        clock_rate_clause(context, cpu, |_| true),
    );
    Some(Candidate {
        // The kernel works in place of the programs.
        severity: if system_share(cpu) >= DOMINANT_SHARE { Severity::Warning } else { Severity::Note },
        subject: Subject::Host,
        value: busy,
        threshold: thresholds.cpu_busy_ratio,
        unit: "ratio",
        sentence,
        evidence: vec![
            evidence_number("busy_ratio", busy),
            evidence_number("system_ratio", cpu.total.system),
            evidence_number("steal_ratio", cpu.total.steal),
            evidence_number("waiting_threads", waiting),
            evidence_optional("background_waiting_threads", low_priority),
            evidence_optional("psi_cpu_some_ratio", context.interval.pressure.cpu_some.map(|share| share.0)),
        ],
        explained_share: busy.min(1.0),
    })
}
