//! Part of rule cpu-saturated: the CPUs of a cpuset or an affinity mask are saturated, while the host has idle CPUs.

use crate::findings::cgroups::limit_applies;
use crate::findings::finding::{Severity, Subject};
use crate::findings::formatting::{count, lossy_name, percent, plural, significant_digits};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_text};
use crate::findings::rules::blocked_tasks::kernel_lock_contention::kernel_lock_clause;
use crate::findings::rules::cpu::frequent_switches::switching_clause;
use crate::findings::rules::cpu::low_weight::LowWeightCgroups;
use crate::findings::rules::cpu::priority::is_low_priority;
use crate::findings::rules::cpu::run_queue::QuotaThrottling;
use crate::findings::rules::cpu::softirq::is_softirq_dominated;
use crate::findings::rules::cpu::starved_thread::starved_thread;
use crate::ids::{CgroupId, GroupId, TaskId};
use crate::interval::cgroup_names::{CgroupName, NameKind};
use crate::interval::cpu_affinity::AffinityWaiters;
use crate::sample::Name;
use crate::sample::cgroup::Controller;

/// Number of threads, or groups of threads, that a sentence names.
const MAX_NAMED: usize = 3;

/// A candidate for each set of CPUs that is saturated by the threads restricted to it.
pub fn affinity_saturated(context: &RuleContext) -> Vec<Candidate> {
    let quotas = QuotaThrottling::from_context(context);
    let weights = LowWeightCgroups::from_context(context);
    let waiters = context.interval.affinity_waiters.iter();
    waiters.filter_map(|affinity| candidate(context, (&quotas, &weights), affinity)).collect()
}

fn candidate<'a>(
    context: &RuleContext<'a>,
    (quotas, weights): (&QuotaThrottling<'a>, &LowWeightCgroups<'a>),
    affinity: &AffinityWaiters,
) -> Option<Candidate> {
    let thresholds = context.thresholds;
    if affinity.busy < thresholds.cpu_busy_ratio {
        return None;
    }
    let free = affinity.waiters.iter().map(|&(task, wait)| (task, wait - quotas.throttled_share(context, task.pid)));
    let free = free.filter(|&(_, wait)| wait > 0.0);
    let waiting: f64 = free.clone().map(|(_, wait)| wait).sum();
    let cpus = affinity.cpus.len() as f64;
    if waiting < thresholds.cpu_waiting_per_cpu * cpus {
        return None;
    }
    let (first, _) = free.clone().next()?;
    let all = context.interval.online_cpus();
    let cpuset = limiting_cpuset(context, affinity, first.pid);
    let list = lossy_name(&affinity.cpus_allowed_list);
    let whose = match &cpuset {
        Some(id) => match CgroupName::from_path(&context.interval.newer, id.path.as_bytes()) {
            path if path.kind == NameKind::Path => format!("cpuset {} allows", path.name),
            name => format!("the cpuset of {} allows", name.describe()),
        },
        None => "their CPU affinity allows".into(),
    };
    let place = match affinity.cpus.as_slice() {
        [only] => format!("CPU {}, the only one of {all} that {whose}", only.0),
        few => format!("CPUs {list}, the {} of {all} that {whose}", few.len()),
    };
    let wanted = affinity.running + waiting;
    let host_taken = context.interval.cpu.as_ref().map_or(0.0, |cpu| cpu.total.busy() + cpu.total.steal);
    let is_normal = |task: TaskId| {
        let thread = context.interval.tasks.as_ref().and_then(|tasks| tasks.thread(task));
        thread.is_none_or(|thread| !is_low_priority(thread)) && weights.clause(context, task.pid).is_none()
    };
    let normal: f64 = free.clone().filter(|&(task, _)| is_normal(task)).map(|(_, wait)| wait).sum();
    let (starved, starved_evidence) = starved_thread(context, Some(&affinity.cpus));
    let waiters = describe_waiters(context, free);
    let runnable = plural(wanted, "runnable thread", "runnable threads");
    let runnable = match count(wanted) == "1" {
        true => format!("{runnable} for {place}: it waits {} of the time", percent(waiting.min(1.0))),
        false => format!("{runnable} for {place}: {} of them wait", significant_digits(waiting)),
    };
    let sentence = format!(
        "{runnable}, while the host is {} busy; waiting: {}{}{starved}{}{}",
        percent(host_taken),
        waiters,
        softirq_clause(context, affinity),
        switching_clause(context, Some(&affinity.cpus)),
        kernel_lock_clause(context, Some(affinity)).unwrap_or_default(),
    );
    let subject = match (cpuset, affinity.cpus.as_slice()) {
        (Some(id), _) => Subject::Cgroup(id),
        (None, [only]) => Subject::Cpu(*only),
        (None, _) => {
            let process = context.process(first.pid)?;
            Subject::Group { id: process.group(), name: process.comm.clone() }
        }
    };
    Some(Candidate {
        severity: if normal < thresholds.cpu_waiting_per_cpu * cpus { Severity::Note } else { Severity::Warning },
        subject,
        value: waiting / cpus,
        threshold: thresholds.cpu_waiting_per_cpu,
        unit: "ratio",
        sentence,
        evidence: [
            evidence_text("allowed_cpus", affinity.cpus_allowed_list.clone()),
            evidence_number("busy_ratio", affinity.busy),
            evidence_number("waiting_threads", waiting),
            evidence_number("runnable_threads", wanted),
            evidence_number("host_busy_ratio", host_taken),
        ]
        .into_iter()
        .chain(starved_evidence)
        .collect(),
        explained_share: (cpus / context.cpu_count()).min(1.0),
    })
}

/// The waiting threads, those that wait most first; threads of one process or of siblings are counted: `spin (4711), 7 threads of app`.
fn describe_waiters(context: &RuleContext, waiters: impl Iterator<Item = (TaskId, f64)>) -> String {
    let mut groups: Vec<(GroupId, TaskId, &Name, usize)> = Vec::new();
    for (task, _) in waiters {
        let Some(process) = context.process(task.pid) else { continue };
        let (id, is_full) = (process.group(), groups.len() >= MAX_NAMED);
        match groups.iter_mut().find(|group| group.0 == id) {
            Some(group) => group.3 += 1,
            None if is_full => {}
            None => groups.push((id, task, &process.comm, 1)),
        }
    }
    let label = |(_, first, name, threads): &(GroupId, TaskId, &Name, usize)| match threads {
        1 => context.task_label(*first).1,
        many => format!("{many} threads of {}", lossy_name(name)),
    };
    groups.iter().map(label).collect::<Vec<_>>().join(", ")
}

/// A clause for the case that softirqs take more of these CPUs than threads do: then threads wait for softirqs.
fn softirq_clause(context: &RuleContext, affinity: &AffinityWaiters) -> String {
    let cpus = context.interval.cpu.iter().flat_map(|cpu| &cpu.cpus).filter(|core| affinity.cpus.contains(&core.id));
    let cores: Vec<_> = cpus.collect();
    if cores.is_empty() || !cores.iter().all(|core| is_softirq_dominated(core)) {
        return String::new();
    }
    let taken: f64 = cores.iter().map(|core| core.shares.irq + core.shares.softirq).sum();
    format!("; interrupts and softirqs take {} of it", percent(taken / cores.len() as f64))
}

/// The cgroup whose cpuset restricts the thread: it applies to the process and allows exactly these CPUs.
fn limiting_cpuset(context: &RuleContext, affinity: &AffinityWaiters, pid: u32) -> Option<CgroupId> {
    let process = context.process(pid)?;
    let mut groups = context.interval.cgroups.iter().filter(|group| group.cpus.as_ref() == Some(&affinity.cpus_allowed_list));
    groups.find(|group| limit_applies(Controller::Cpuset, &group.id, process)).map(|group| group.id.clone())
}
