//! Part of rule cpu-saturated: the thread that gets far less CPU time than the others that want it, and why.

use crate::findings::finding::Evidence;
use crate::findings::formatting::{cpu_time, lossy_name, percent, plural, singular_or_plural};
use crate::findings::rule_context::{RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::rules::cpu::cgroup_weight::{are_divided_by_weights, cgroup_weight_reason};
use crate::findings::rules::cpu::demand::{Demand, MIN_DEMAND, demands};
use crate::findings::rules::cpu::priority::{is_low_priority, nice_value, realtime_policy};
use crate::ids::CpuId;
use crate::interval::task::ThreadSpan;

/// A thread is starved if it gets less than this share of what the threads that want a CPU get on average.
const MAX_STARVED_SHARE: f64 = 0.25;

/// Nice values between a starved thread and those that run from which these are the reason: a third of their CPU time is left to it.
/// docs/metrics.md, "Fixed thresholds".
const MIN_NICE_DIFFERENCE: i8 = 5;

/// CPUs that such threads must use.
const MIN_PREFERRED_CPUS: f64 = 0.5;

/// CPUs that real-time threads use from which they are the reason.
const MIN_REALTIME_CPUS: f64 = 0.5;

/// `; web (4711) waits 98.5 % of the time and gets 1.50 % of a CPU: …`, and the evidence for it. `cpus`: only threads that last ran
/// on these are compared.
pub fn starved_thread(context: &RuleContext, cpus: Option<&[CpuId]>) -> (String, [Evidence; 2]) {
    let mut demands = demands(context);
    demands.retain(|demand| cpus.is_none_or(|cpus| cpus.contains(&demand.thread.processor)));
    let (used, wanted) =
        demands.iter().fold((0.0, 0.0), |(used, wanted), demand| (used + demand.used, wanted + demand.used + demand.waited));
    let limit = used / f64::max(wanted, MIN_DEMAND) * MAX_STARVED_SHARE;
    let is_kernel_thread = |demand: &Demand| context.process(demand.thread.id.pid).is_some_and(|process| process.kernel_thread);
    // The kernel's threads wait like others for their share of a full CPU. Only real-time threads starve them.
    let counts = |demand: &Demand| !is_kernel_thread(demand) || realtime_reason(context, demand, &demands).is_some();
    let starved = demands
        .iter()
        .filter(|demand| !is_low_priority(demand.thread) && demand.served_share() < limit)
        .filter(|demand| counts(demand));
    // A program that waits is what users notice.
    let order = |a: &Demand, b: &Demand| {
        is_kernel_thread(a).cmp(&is_kernel_thread(b)).then(a.served_share().total_cmp(&b.served_share()))
    };
    let Some(worst) = starved.min_by(|a, b| order(a, b)) else {
        return (String::new(), [evidence_optional("starved_thread", None), evidence_optional("starved_wait_ratio", None)]);
    };
    let (name, label) = context.task_label(worst.thread.id);
    let reason = reason(context, worst, &demands).map_or_else(String::new, |reason| format!(": {reason}"));
    let clause =
        format!("; {label} waits {} of the time and gets {} of a CPU{reason}", percent(worst.waited), percent(worst.used));
    (clause, [evidence_text("starved_thread", name), evidence_number("starved_wait_ratio", worst.waited)])
}

/// Why a thread gets less than others, as far as the sample shows it.
fn reason(context: &RuleContext, starved: &Demand, demands: &[Demand]) -> Option<String> {
    let first = realtime_reason(context, starved, demands).or_else(|| cgroup_weight_reason(context, starved, demands));
    first
        .or_else(|| own_nice_reason(starved))
        .or_else(|| nice_reason(context, starved, demands))
        .or_else(|| affinity_reason(context, starved))
}

/// Real-time threads that run before it.
fn realtime_reason(context: &RuleContext, starved: &Demand, demands: &[Demand]) -> Option<String> {
    let realtime = demands.iter().filter(|demand| demand.used >= MIN_REALTIME_CPUS && realtime_policy(demand.thread).is_some());
    // A thread waits on the CPU that it last ran on.
    let first = realtime.max_by(|a, b| {
        let rank = |demand: &Demand| (demand.thread.processor == starved.thread.processor, demand.used);
        let ((a_here, a_used), (b_here, b_used)) = (rank(a), rank(b));
        a_here.cmp(&b_here).then(a_used.total_cmp(&b_used))
    });
    if let Some(first) = first.filter(|_| realtime_policy(starved.thread).is_none()) {
        let (policy, (_, label)) = (realtime_policy(first.thread)?, context.task_label(first.thread.id));
        return Some(format!(
            "{label}, {policy}, runs before it and uses {} of CPU {}",
            percent(first.used),
            first.thread.processor.0
        ));
    }
    realtime_threads_reason(context, starved)
}

/// Its nice value.
fn own_nice_reason(starved: &Demand) -> Option<String> {
    let nice = nice_value(starved.thread)?;
    (nice > 0).then(|| format!("its nice value is {nice}"))
}

/// The lower nice values of the threads that run: `4 threads of nice -10 or less use 1.96 CPUs, most of all heavy (700)`.
fn nice_reason(context: &RuleContext, starved: &Demand, demands: &[Demand]) -> Option<String> {
    let own = nice_value(starved.thread)?;
    let is_preferred = |demand: &&Demand| {
        let is_lower = nice_value(demand.thread).is_some_and(|nice| nice.saturating_add(MIN_NICE_DIFFERENCE) <= own);
        is_lower && !are_divided_by_weights(context, starved, demand)
    };
    let preferred: Vec<&Demand> = demands.iter().filter(is_preferred).collect();
    let used: f64 = preferred.iter().map(|demand| demand.used).sum();
    let most = preferred.iter().max_by(|a, b| a.used.total_cmp(&b.used)).filter(|_| used >= MIN_PREFERRED_CPUS)?;
    let highest = preferred.iter().filter_map(|demand| nice_value(demand.thread)).max()?;
    let (threads, (_, label)) = (plural(preferred.len() as f64, "thread", "threads"), context.task_label(most.thread.id));
    let verb = singular_or_plural(preferred.len(), "uses", "use");
    Some(format!("{threads} of nice {highest} or less {verb} {}, most of all {label}", cpu_time(used)))
}

/// Its affinity.
fn affinity_reason(context: &RuleContext, starved: &Demand) -> Option<String> {
    let tasks = context.interval.newer.tasks.as_ref().ok()?;
    let (_, thread) = tasks.thread(starved.thread.id)?;
    let is_restricted =
        context.interval.affinity_waiters.iter().any(|set| Some(&set.cpus_allowed_list) == thread.cpus_allowed_list.as_ref());
    let list = thread.cpus_allowed_list.as_ref().filter(|_| is_restricted)?;
    Some(format!("its cpuset or affinity allows only CPU {}", lossy_name(list)))
}

/// For several real-time threads that use little each: `3 real-time threads run before it and use 90 % of CPU 1`.
fn realtime_threads_reason(context: &RuleContext, starved: &Demand) -> Option<String> {
    let threads = context.interval.tasks.iter().flat_map(|tasks| &tasks.threads);
    let here = threads.filter(|thread| thread.processor == starved.thread.processor && realtime_policy(thread).is_some());
    let used: Vec<(f64, &ThreadSpan)> = here.filter_map(|thread| Some((thread.cpu?.0, thread))).collect();
    let total: f64 = used.iter().map(|(cpu, _)| cpu).sum();
    let (_, most) = used.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    if total < MIN_REALTIME_CPUS || realtime_policy(starved.thread).is_some() {
        return None;
    }
    let (cpu, (_, label)) = (most.processor.0, context.task_label(most.id));
    Some(format!("{} real-time threads run before it and use {} of CPU {cpu}, most of all {label}", used.len(), percent(total)))
}
