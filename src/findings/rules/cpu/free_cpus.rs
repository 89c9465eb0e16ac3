//! The CPU time that stays free beside a thread at its limit: a thread is the limit only if other CPUs could do more.

use crate::findings::Thresholds;
use crate::findings::cgroups::limit_applies;
use crate::findings::formatting::{lossy_name, percent, significant_digits};
use crate::findings::rule_context::RuleContext;
use crate::ids::TaskId;
use crate::ids::cpu_list::parse_cpu_list;
use crate::interval::cpu::{CpuSpan, CpuUsage};
use crate::sample::Name;
use crate::sample::cgroup::Controller;

/// Idle share from which a CPU is mostly idle. docs/metrics.md, "Fixed thresholds".
const MIN_MOSTLY_IDLE: f64 = 0.5;

/// Idle time of the mostly idle CPUs, in CPUs, from which it does not matter how busy the others are.
const MIN_WHOLE_CPUS: f64 = 1.0;

/// Free time of the CPUs that a thread may use.
pub struct FreeCpus {
    /// Idle time of the CPUs that are not full, in CPUs
    pub cpus: f64,
    /// Idle time of the CPUs that are mostly idle, in CPUs
    mostly_idle: f64,
    /// Share of their time that was busy or stolen by the hypervisor, 0 … 1
    used: f64,
    /// Their list (`0-3,8`) if they are not all CPUs of the host
    allowed: Option<Name>,
}

/// Share of a CPU's time that its threads cannot use any more: busy, or stolen by the hypervisor.
pub fn used(core: &CpuUsage) -> f64 {
    core.busy() + core.shares.steal
}

impl FreeCpus {
    /// Of the CPUs of the host.
    pub fn for_host(context: &RuleContext, cpu: &CpuSpan) -> FreeCpus {
        FreeCpus {
            used: cpu.busy() + cpu.total.steal,
            ..FreeCpus::new(context.thresholds, &cpu.cpus.iter().collect::<Vec<_>>())
        }
    }

    /// Of the CPUs that the affinity of the thread or the cpuset of its process allows, if that was read; otherwise of the host.
    pub fn for_thread(context: &RuleContext, cpu: &CpuSpan, task: TaskId) -> FreeCpus {
        let Some(allowed) = allowed_cpus(context, task) else { return FreeCpus::for_host(context, cpu) };
        let ranges: Vec<_> = parse_cpu_list(allowed.as_bytes()).collect();
        let is_allowed = |core: &&CpuUsage| ranges.iter().any(|range| range.contains(&core.id.0));
        let cores: Vec<&CpuUsage> = cpu.cpus.iter().filter(is_allowed).collect();
        // A thread pinned to one CPU leaves the others to the rest of its process.
        if cores.len() <= 1 || cores.len() == cpu.cpus.len() {
            return FreeCpus::for_host(context, cpu);
        }
        FreeCpus { allowed: Some(allowed.clone()), ..FreeCpus::new(context.thresholds, &cores) }
    }

    fn new(thresholds: &Thresholds, cores: &[&CpuUsage]) -> FreeCpus {
        // The rests of many full CPUs are not a free CPU.
        let free = cores.iter().filter(|core| used(core) < thresholds.core_busy_ratio).map(|core| core.available());
        let mostly_idle = cores.iter().map(|core| core.available()).filter(|&available| available >= MIN_MOSTLY_IDLE);
        let all_used: f64 = cores.iter().map(|core| used(core)).sum();
        FreeCpus { cpus: free.sum(), mostly_idle: mostly_idle.sum(), used: all_used / cores.len().max(1) as f64, allowed: None }
    }

    /// Whether another thread could use it: of a large host that is nearly full a whole CPU may be free.
    pub fn is_enough(&self, thresholds: &Thresholds) -> bool {
        let is_free = self.used < thresholds.host_busy_below_ratio || self.mostly_idle >= MIN_WHOLE_CPUS;
        self.cpus >= thresholds.free_cpus && is_free
    }

    /// `the host is 70.0 % busy (1.40 of 2 CPUs), 0.60 CPU is idle`
    pub fn describe(&self, context: &RuleContext, cpu: &CpuSpan) -> String {
        let place =
            self.allowed.as_ref().map_or_else(String::new, |list| format!(" on CPUs {}, which it may use", lossy_name(list)));
        let free = significant_digits(self.cpus);
        let verb = if self.cpus < 1.005 { "CPU is" } else { "CPUs are" };
        let used = context.of_all_cpus(cpu.busy() * context.cpu_count());
        format!("the host is {} busy ({used}), {free} {verb} idle{place}", percent(cpu.busy()))
    }
}

/// The CPUs that a thread may use, in the format of the kernel; `None` if neither its affinity nor a cpuset was read.
fn allowed_cpus<'a>(context: &RuleContext<'a>, task: TaskId) -> Option<&'a Name> {
    let interval: &'a crate::interval::Interval = context.interval;
    let tasks = interval.newer.tasks.as_ref().ok()?;
    let (process, thread) = tasks.thread(task)?;
    let limit = || {
        let limited = interval.cgroups.iter().filter(|group| group.cpus.is_some());
        // Parents come before their children, which may allow fewer.
        let innermost = limited.rev().find(|group| limit_applies(Controller::Cpuset, &group.id, process));
        innermost.and_then(|group| group.cpus.as_ref())
    };
    thread.cpus_allowed_list.as_ref().or_else(limit)
}
