//! The threads that want a CPU: how much of the time each had one, and how much it waited for one.

use crate::findings::rule_context::RuleContext;
use crate::findings::rules::cpu::run_queue::QuotaThrottling;
use crate::interval::Interval;
use crate::interval::task::ThreadSpan;

/// Share of the time in which a thread must run or wait for a CPU. docs/metrics.md, "Fixed thresholds".
pub const MIN_DEMAND: f64 = 0.5;

/// A thread that wants a CPU, and how much of the time it had one.
pub struct Demand<'a> {
    pub thread: &'a ThreadSpan,
    /// CPUs
    pub used: f64,
    /// Share of the time in a run queue, without the time in which the quota of its cgroup throttled it
    pub waited: f64,
}

impl Demand<'_> {
    /// Its CPU time ÷ the time in which it ran or waited for a CPU.
    pub fn served_share(&self) -> f64 {
        self.used / (self.used + self.waited)
    }
}

/// The threads that want a CPU for at least `MIN_DEMAND` of the time.
pub fn demands<'a>(context: &RuleContext<'a>) -> Vec<Demand<'a>> {
    let interval: &'a Interval = context.interval;
    let quotas = QuotaThrottling::from_context(context);
    let threads = interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
    let demand = |thread: &'a ThreadSpan| {
        let waited = thread.run_queue_wait?.0;
        let waited = if waited > 0.0 { (waited - quotas.throttled_share(context, thread.id.pid)).max(0.0) } else { 0.0 };
        Some(Demand { thread, used: thread.cpu?.0, waited })
    };
    threads.iter().filter_map(demand).filter(|demand| demand.used + demand.waited >= MIN_DEMAND).collect()
}
