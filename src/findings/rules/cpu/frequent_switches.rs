//! Part of rule cpu-saturated: the process that keeps the scheduler busy, with timers that end too often, sched_yield in a loop, or
//! other wake-ups.

use rustc_hash::FxHashMap;

use crate::findings::formatting::{lossy_name, significant_digits};
use crate::findings::rule_context::RuleContext;
use crate::ids::CpuId;
use crate::interval::task::ThreadSpan;
use crate::sample::Name;
use crate::sample::task::TaskState;

/// Timeslices per second of a process from which the sentence says them. docs/metrics.md, "Fixed thresholds".
const MIN_SWITCHES_PER_SECOND: f64 = 100_000.0;

/// The same where the process sleeps on timers.
const MIN_TIMER_WAKEUPS_PER_SECOND: f64 = 10_000.0;

/// Share of the time asleep below which the timeslices of a thread are not wake-ups.
const MIN_ASLEEP_SHARE: f64 = 0.02;

/// sched_yield is the reason if other processes wake up less often than this share of the timeslices: a wake-up preempts.
const MAX_PREEMPTION_SHARE: f64 = 0.5;

/// Timeslices per second of the threads of one process.
#[derive(Clone, Copy, Default)]
struct Switches {
    /// Of threads that sleep in between
    woken: f64,
    /// Of threads that are runnable all the time
    runnable: f64,
}

/// `; timers (4711) wakes up 280000 times per second by timers (hrtimer_nanosleep)`, for the process with most timeslices.
/// `cpus`: only threads that last ran on these are counted.
pub fn switching_clause(context: &RuleContext, cpus: Option<&[CpuId]>) -> String {
    let mut processes: FxHashMap<u32, Switches> = FxHashMap::default();
    for thread in context.interval.tasks.iter().flat_map(|tasks| &tasks.threads) {
        let is_counted = cpus.is_none_or(|cpus| cpus.contains(&thread.processor));
        let Some(rate) = thread.timeslices.map(|rate| rate.0).filter(|_| is_counted) else { continue };
        let process = processes.entry(thread.id.pid).or_default();
        if sleeps(context, thread) { process.woken += rate } else { process.runnable += rate }
    }
    let all_woken: f64 = processes.values().map(|switches| switches.woken).sum();
    let most = processes.iter().max_by(|a, b| {
        let total = |switches: &Switches| switches.woken + switches.runnable;
        total(a.1).total_cmp(&total(b.1)).then(b.0.cmp(a.0))
    });
    let Some((&pid, &Switches { woken, runnable })) = most else { return String::new() };
    let Some(process) = context.process(pid) else { return String::new() };
    let label = format!("{} ({pid})", lossy_name(&process.comm));
    if runnable > woken {
        if runnable < MIN_SWITCHES_PER_SECOND {
            return String::new();
        }
        let how = match all_woken <= runnable * MAX_PREEMPTION_SHARE {
            true => "gives up its CPU with sched_yield",
            false => "is preempted by threads that wake up",
        };
        return format!("; {label} {how} {} times per second", significant_digits(runnable));
    }
    let channel = top_sleep(context, pid);
    let rate = significant_digits(woken);
    match channel {
        Some((channel, true)) if woken >= MIN_TIMER_WAKEUPS_PER_SECOND => {
            format!("; {label} wakes up {rate} times per second by timers ({})", lossy_name(&channel))
        }
        Some((channel, false)) if woken >= MIN_SWITCHES_PER_SECOND => {
            format!("; {label} wakes up {rate} times per second from {}", lossy_name(&channel))
        }
        None if woken >= MIN_SWITCHES_PER_SECOND => format!("; {label} wakes up {rate} times per second"),
        _ => String::new(),
    }
}

/// Whether the thread sleeps between its timeslices, as run-queue wait and sub-samples show.
fn sleeps(context: &RuleContext, thread: &ThreadSpan) -> bool {
    let rows = &context.interval.newer.waits.threads;
    let first = rows.partition_point(|row| row.task < thread.id);
    let own = rows.iter().skip(first).take_while(|row| row.task == thread.id);
    let asleep = |id: u32| context.interval.newer.waits.observed_wait(id).is_some_and(|wait| wait.state != TaskState::Running);
    thread.states.sleep >= MIN_ASLEEP_SHARE || own.into_iter().any(|row| asleep(row.wait))
}

/// The wait channel in which sub-samples saw threads of a process asleep most often, those of threads with few timeslices left
/// out; and whether it is one of timers.
fn top_sleep(context: &RuleContext, pid: u32) -> Option<(Name, bool)> {
    use crate::sample::waits::WaitClass;
    let interval = context.interval;
    let mut seen: FxHashMap<&Name, (f64, bool)> = FxHashMap::default();
    let rows = &interval.newer.waits.threads;
    let first = rows.partition_point(|row| row.task.pid < pid);
    for row in rows.iter().skip(first).take_while(|row| row.task.pid == pid) {
        let rate = interval.tasks.as_ref().and_then(|tasks| tasks.thread(row.task)?.timeslices).map_or(0.0, |rate| rate.0);
        let wait = interval.newer.waits.observed_wait(row.wait).filter(|wait| wait.state == TaskState::Sleeping);
        let Some(channel) = wait.and_then(|wait| wait.wchan.as_ref()) else { continue };
        let is_timer = interval.wait_counts.classified.get(&row.wait).is_some_and(|wait| wait.class == WaitClass::Timer);
        let entry = seen.entry(channel).or_insert((0.0, is_timer));
        entry.0 += rate * f64::from(row.seen_count);
    }
    let (channel, (_, is_timer)) = seen
        .into_iter()
        .filter(|(_, (weight, _))| *weight > 0.0)
        .max_by(|a, b| a.1.0.total_cmp(&b.1.0).then_with(|| b.0.cmp(a.0)))?;
    Some((channel.clone(), is_timer))
}
