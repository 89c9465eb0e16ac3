//! Rule cpu-saturated: more runnable threads than CPUs, on the host or on the CPUs of an affinity mask.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{cpus, percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use crate::findings::rules::cpu::affinity::affinity_saturated;
use crate::findings::rules::cpu::clauses::top_cpu_users;
use crate::findings::rules::cpu::run_queue::{background_run_queue_waiters, run_queue_waiters};

/// Stolen share of CPU time from which the sentence says it. docs/metrics.md, "Fixed thresholds".
const MIN_REPORTED_STEAL: f64 = 0.01;

pub const CPU_SATURATED: Rule = Rule {
    kind: Kind::CpuSaturated,
    title: "CPUs saturated",
    meaning: "Nearly all CPUs are in use, and threads wait for a CPU: everything takes longer than its CPU time.",
    computed: "CPUs at least 90 % busy, steal included, and threads wait for a CPU for at least 0.25 seconds per second and \
               CPU, not counting threads at background priority (SCHED_IDLE, nice 19) and not counting the time in which \
               their own quota may have throttled them. Where a cpuset or an affinity mask restricts threads to some CPUs, \
               the same for those CPUs and those threads, even if the host has idle CPUs. PSI cpu and run delay alone do not \
               raise it: a task throttled by its quota shows both on an idle host.",
    caveats: "A compile or another batch job that is meant to use the whole host.",
    next_steps: &[
        "which processes use the CPUs: %CPU (screen 5, s)",
        "which threads wait: runq (screen 5, t and s)",
        "whether batch work can be niced or given a quota",
        "if only some CPUs are saturated: taskset -p PID, cpuset.cpus of the cgroup",
    ],
    reference: "Tasks",
    hysteresis: Hysteresis::Sustained,
    evaluate: cpu_saturated,
};

/// The host, otherwise the CPUs to which some threads are restricted.
fn cpu_saturated(context: &RuleContext) -> Vec<Candidate> {
    host_saturated(context).map_or_else(|| affinity_saturated(context), |whole| vec![whole])
}

fn host_saturated(context: &RuleContext) -> Option<Candidate> {
    let thresholds = context.thresholds;
    let cpu = context.interval.cpu.as_ref()?;
    let taken = cpu.busy() + cpu.total.steal;
    if taken < thresholds.cpu_busy_ratio {
        return None;
    }
    let background = background_run_queue_waiters(context);
    let waiting = (run_queue_waiters(context)? - background.unwrap_or(0.0)).max(0.0);
    if waiting < thresholds.cpu_waiting_per_cpu * context.cpu_count() {
        return None;
    }
    let wanted = cpu.busy() * context.cpu_count() + waiting;
    let critical = waiting >= thresholds.cpu_waiting_critical_per_cpu * context.cpu_count();
    let most = top_cpu_users(context);
    let stolen = match cpu.total.steal >= MIN_REPORTED_STEAL {
        true => format!(" ({} of it stolen by the hypervisor)", percent(cpu.total.steal)),
        false => String::new(),
    };
    let sentence = format!(
        "CPUs {} used{stolen}: {} runnable threads for {}, {} of them wait{most}",
        percent(taken),
        significant_digits(wanted),
        cpus(context.interval.online_cpus()),
        significant_digits(waiting),
    );
    Some(Candidate {
        severity: if critical { Severity::Critical } else { Severity::Warning },
        subject: Subject::Host,
        value: waiting / context.cpu_count(),
        threshold: thresholds.cpu_waiting_per_cpu,
        unit: "ratio",
        sentence,
        evidence: vec![
            evidence_number("busy_ratio", cpu.busy()),
            evidence_number("steal_ratio", cpu.total.steal),
            evidence_number("waiting_threads", waiting),
            evidence_number("wanting_threads", wanted),
            evidence_optional("background_waiting_threads", background),
            evidence_optional("psi_cpu_some_ratio", context.interval.pressure.cpu_some.map(|share| share.0)),
        ],
        explained_share: taken.min(1.0),
    })
}
