//! The number of threads that wait for a CPU, without the time in which their quota throttled them: a throttled thread waits in
//! a run queue too.

use crate::findings::cgroups::CgroupAncestors;
use crate::findings::rule_context::RuleContext;
use crate::findings::rules::cpu::priority::is_low_priority;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::task::{TaskSpan, ThreadSpan};

/// Mean number of threads that wait for a CPU, without the time in which their quota throttled them. Without schedstat, and
/// if tasks are hidden from this user: a lower bound, the runnable threads beyond one per CPU.
pub fn run_queue_waiters(context: &RuleContext) -> Option<f64> {
    let tasks = context.interval.tasks.as_ref()?;
    let privilege = &context.interval.host.privilege;
    match tasks.run_queue_wait {
        Some(_) if privilege.hidepid && !privilege.has_cap_sys_ptrace => {
            Some(run_queue_waits_beyond_quota(context, |_| true).max(runnable_excess(context, tasks)))
        }
        Some(_) => Some(run_queue_waits_beyond_quota(context, |_| true)),
        None => Some(runnable_excess(context, tasks)),
    }
}

/// The part of them at low priority. `None` without schedstat.
pub fn low_priority_run_queue_waiters(context: &RuleContext) -> Option<f64> {
    context.interval.tasks.as_ref()?.run_queue_wait.map(|_| run_queue_waits_beyond_quota(context, is_low_priority))
}

/// The part of them that is not at low priority.
pub fn normal_run_queue_waiters(context: &RuleContext) -> Option<f64> {
    Some((run_queue_waiters(context)? - low_priority_run_queue_waiters(context).unwrap_or(0.0)).max(0.0))
}

/// Run-queue wait of these threads beyond the time in which their quota throttled them.
pub fn run_queue_waits_beyond_quota(context: &RuleContext, which: impl Fn(&ThreadSpan) -> bool) -> f64 {
    let threads = context.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
    let quotas = QuotaThrottling::from_context(context);
    let waits = threads.iter().filter(|thread| which(thread)).filter_map(|thread| {
        let wait = thread.run_queue_wait.filter(|wait| wait.0 > 0.0)?;
        Some((wait.0 - quotas.throttled_share(context, thread.id.pid)).max(0.0))
    });
    waits.sum()
}

/// Runnable tasks, stalltop excluded, beyond one per CPU. procs_running does not include throttled tasks.
fn runnable_excess(context: &RuleContext, tasks: &TaskSpan) -> f64 {
    let runnable = context.interval.newer.cpu.as_ref().ok().and_then(|cpu| cpu.running);
    let runnable = runnable.map_or(tasks.counts.running, |running| running.saturating_sub(1));
    (f64::from(runnable) - context.cpu_count()).max(0.0)
}

/// For each cgroup with a quota, the share of the time in which it may have throttled tasks.
pub struct QuotaThrottling<'a>(CgroupAncestors<'a, f64>);

impl<'a> QuotaThrottling<'a> {
    pub fn from_context(context: &RuleContext<'a>) -> QuotaThrottling<'a> {
        let held = |group: &CgroupSpan| group.throttled_share().map_or(1.0, |share| share.0);
        QuotaThrottling(CgroupAncestors::from_cgroups(throttled_cgroups(context).map(|group| (&group.id, held(group)))))
    }

    /// Share of the time in which its quota, or that of a parent cgroup, may have throttled a process.
    pub fn throttled_share(&self, context: &RuleContext, pid: u32) -> f64 {
        // Usually no quota throttles: then no process is looked up.
        let cgroup = Some(pid).filter(|_| !self.0.is_empty()).and_then(|pid| context.process(pid)?.facts.cgroup.as_ref().ok());
        cgroup.map_or(0.0, |cgroup| self.0.ancestors_of(cgroup).sum())
    }
}

/// The cgroups with a quota that were throttled in this interval.
pub fn throttled_cgroups<'a>(context: &RuleContext<'a>) -> impl Iterator<Item = &'a CgroupSpan> + Clone + use<'a> {
    let interval: &'a crate::interval::Interval = context.interval;
    interval.cgroups.iter().filter(|group| group.throttled.is_some_and(|share| share.0 > 0.0))
}
