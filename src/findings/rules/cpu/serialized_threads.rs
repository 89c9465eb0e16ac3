//! Part of rule saturated-thread: threads that together use one whole CPU, one at a time.

use crate::findings::finding::{Severity, Subject};
use crate::findings::formatting::{lossy_name, percent};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_text};
use crate::findings::rules::cpu::free_cpus::FreeCpus;
use crate::findings::rules::cpu::low_weight::LowWeightCgroups;
use crate::findings::rules::cpu::priority::is_low_priority;
use crate::findings::wait_chain::named_holder::{known_by, lock_words};
use crate::interval::lock_holders::{HolderActivity, LockHolder, holder_of_group};
use crate::interval::task::ThreadSpan;
use crate::interval::wait_counts::GroupWaits;
use crate::sample::task::Process;
use crate::sample::waits::WaitClass;
use crate::units::reaches_threshold;

/// Threads that use less CPU than this are ignored.
const MIN_THREAD_SHARE: f64 = 0.02;

/// A thread that uses more of the time of the process than this needs no lock: it computes, and others help it. docs/metrics.md,
/// "Fixed thresholds".
const MAX_SHARE_OF_ONE_THREAD: f64 = 0.9;

/// Share of the sub-samples at which exactly one of them runs. Independent threads reach at most half.
const MIN_ONE_RUNNING_SHARE: f64 = 0.8;

/// … and in this share where siblings run for a part of the time beside it, so that two numbers count.
const MIN_RANGE_SHARE: f64 = 0.9;

/// Mean numbers of running siblings so near to a whole number count as that.
const MAX_MEAN_ERROR: f64 = 0.1;

/// Share of the other threads that must wait for a lock, on average, from which that lock serializes them. docs/metrics.md,
/// "Fixed thresholds".
const MIN_WAITING_SHARE: f64 = 0.5;

/// Fewer sub-samples prove nothing.
const MIN_SUB_SAMPLES: usize = 5;

/// Processes that use one whole CPU without a saturated thread.
pub fn serialized_threads(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let (Some(cpu), Some(tasks)) = (&context.interval.cpu, &context.interval.tasks) else { return Vec::new() };
    // While one thread releases the lock and the next starts, both run (CPython: 1.04 CPU).
    let one = thresholds.thread_busy_ratio..=3.0 - 2.0 * thresholds.thread_busy_ratio;
    let low_weights = LowWeightCgroups::from_context(context);
    let mut found = Vec::new();
    for (span, used) in
        tasks.active_processes.iter().filter_map(|span| Some((span, span.cpu?.0))).filter(|(_, used)| one.contains(used))
    {
        let from = tasks.threads.partition_point(|thread| thread.id.pid < span.id.pid);
        let own = tasks.threads.iter().skip(from).take_while(|thread| thread.id.pid == span.id.pid);
        let used_by = |thread: &ThreadSpan| thread.cpu.map_or(0.0, |used| used.0);
        let parts: Vec<&ThreadSpan> = own.filter(|thread| used_by(thread) >= MIN_THREAD_SHARE).collect();
        let most = parts.iter().map(|thread| used_by(thread)).fold(0.0, f64::max);
        if parts.len() < 2 || most >= thresholds.thread_busy_ratio || most > used * MAX_SHARE_OF_ONE_THREAD {
            continue;
        }
        let Some(process) = context.process(span.id.pid) else { continue };
        let Some(first) = parts.first() else { continue };
        let free = FreeCpus::for_thread(context, cpu, first.id);
        if !free.is_enough(thresholds) {
            continue;
        }
        let Some(alone) = one_running_share(context, process).filter(|alone| *alone >= MIN_ONE_RUNNING_SHARE) else { continue };
        let lock = computing_holder(context, process)
            .filter(|holder| reaches_threshold(holder.waiters_of_lock, (parts.len() as f64 - 1.0) * MIN_WAITING_SHARE));
        let low_weight = low_weights.clause(context, span.id.pid);
        let may_wait = parts.iter().all(|thread| is_low_priority(thread)) || low_weight.is_some();
        found.push(Candidate {
            severity: if may_wait { Severity::Note } else { Severity::Warning },
            subject: Subject::Group { id: process.group(), name: process.comm.clone() },
            value: used,
            threshold: thresholds.thread_busy_ratio,
            unit: "ratio",
            sentence: format!(
                "{} ({}): {} threads together use {} of one CPU, one at a time, {}: at its limit, more CPUs won't help{}; {}",
                lossy_name(&process.comm),
                process.pid,
                parts.len(),
                percent(used),
                lock.map_or_else(
                    || "as if serialized by one lock (a global interpreter lock, for example)".to_owned(),
                    |holder| format!("serialized by {}, which they hold while they compute", lock_words(holder.field)),
                ),
                low_weight.unwrap_or_default(),
                free.describe(context, cpu),
            ),
            evidence: vec![
                evidence_number("cpu_ratio", used),
                evidence_number("threads", parts.len() as f64),
                evidence_number("most_of_one_thread_ratio", most),
                evidence_number("one_running_ratio", alone),
                evidence_number("host_busy_ratio", cpu.busy()),
                evidence_number("free_cpus", free.cpus),
            ]
            .into_iter()
            .chain(lock.map(|holder| evidence_text("lock_holder_basis", known_by(holder.field))))
            .collect(),
            explained_share: used / context.cpu_count(),
        });
    }
    found
}

/// The holder of the one lock for which threads of the process wait, where it computes.
fn computing_holder<'a>(context: &RuleContext<'a>, process: &Process) -> Option<&'a LockHolder> {
    let group = context.interval.newer.waits.groups.iter().position(|group| *group == process.group())?;
    let holder = holder_of_group(&context.interval.locks.futex_holders, group)?;
    let computes = holder.activity == HolderActivity::Running && holder.has_one_lock();
    (computes && holder.thread.wait.task.pid == process.pid).then_some(holder)
}

/// Share of the sub-samples at which exactly one thread of it ran, as far as they show it; `None` if they do not, or with few sub-samples.
///
/// They count the running threads of its sibling processes with it. Beside these exactly one thread of it ran if there were as many as
/// that one and the mean of the siblings, rounded down or up.
fn one_running_share(context: &RuleContext, process: &Process) -> Option<f64> {
    let counts = &context.interval.wait_counts;
    let group = process.group();
    let index = context.interval.newer.waits.groups.iter().position(|other| *other == group)?;
    let sub_samples = counts.sub_samples.len();
    if sub_samples < MIN_SUB_SAMPLES {
        return None;
    }
    let of_siblings =
        counts.threads.iter().filter(|thread| usize::from(thread.group) == index && thread.task.pid != process.pid);
    let siblings = f64::from(of_siblings.map(|thread| thread.count(WaitClass::Running)).sum::<u32>()) / sub_samples as f64;
    let least = 1.0 + (siblings + MAX_MEAN_ERROR).floor();
    let most = 1.0 + (siblings - MAX_MEAN_ERROR).ceil().max(0.0);
    let is_one = |rows: &&Vec<GroupWaits>| {
        let running = rows.iter().find(|row| usize::from(row.group) == index).map_or(0, |row| row.running);
        (least..=most).contains(&f64::from(running))
    };
    let share = counts.sub_samples.iter().filter(is_one).count() as f64 / sub_samples as f64;
    // Independent threads reach more than half where two numbers count.
    (most - least < 0.5 || share >= MIN_RANGE_SHARE).then_some(share)
}
