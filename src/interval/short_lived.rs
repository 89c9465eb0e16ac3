//! Short-lived tasks: they started and exited between two samples. docs/metrics.md, "Short-lived processes".
//!
//! Their number is the kernel's count of forks minus the new tasks that the scan found. Their CPU time is from the exit messages
//! of taskstats (`sample/exits`), otherwise from cutime and cstime of their parents (`exited`).

use crate::ids::ProcessId;
use crate::interval::cpu_accounting::{CpuAccounting, MIN_DIFFERENCE_CPUS};
use crate::interval::exited::{ExitedSpan, MEAN_LIFETIME_SHARE};
use crate::sample::exits::ExitCpuTime;
use crate::sample::{Name, Sample};
use crate::units::{PerSecond, Ratio};

/// Short-lived tasks, over an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShortLived {
    /// Forks and clones: processes and threads that started
    pub forks: Option<PerSecond>,
    /// Share of them that the newer sample contains
    pub seen_share: Option<Ratio>,
    /// CPU time of tasks that no sample contains, in CPUs
    pub cpus: Option<f64>,
    /// Whether exit messages were received: then `groups` has the names of the tasks
    pub has_exit_events: bool,
    /// Exit messages that were lost
    pub lost_messages: Option<PerSecond>,
    /// Ticks that no task accounts for, in CPUs, if they are significant: tasks that no process waited for
    pub unexplained_cpus: f64,
    /// Exited processes that are in none of `groups`
    pub unlisted: Option<PerSecond>,
    /// Most CPU first, processes before threads
    pub groups: Vec<ShortLivedGroup>,
}

/// Short-lived tasks that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct ShortLivedGroup {
    /// Of processes: the parent that waited for them, or the nearest ancestor that still runs. Of threads: their process.
    pub owner: Option<ProcessId>,
    pub owner_name: Name,
    /// Their comm; `None` if only the parent is known
    pub name: Option<Name>,
    /// Threads of a process that still runs, whose CPU time contains theirs
    pub are_threads: bool,
    /// Exits
    pub rate: Option<PerSecond>,
    /// In CPUs
    pub cpus: f64,
}

/// Ticks that no task accounts for are attributed to short-lived tasks only above this rate of tasks that no scan found.
const MIN_UNSEEN_PER_SECOND: f64 = 5.0;
/// CPUs used by exited tasks from which the CPU screen shows them.
pub const MIN_SHOWN_CPUS: f64 = 0.05;
/// Groups that are kept if only the parents are known.
const MAX_PARENTS: usize = 16;

impl ShortLived {
    pub(super) fn between(
        older: &Sample,
        newer: &Sample,
        seconds: f64,
        ended: &ExitedSpan,
        clocks: Option<&CpuAccounting>,
    ) -> ShortLived {
        let forks = newer.cpu.as_ref().ok().and_then(|cpu| cpu.forks);
        let forks = PerSecond::between(forks, older.cpu.as_ref().ok().and_then(|cpu| cpu.forks), seconds);
        let seen = forks.and_then(|forks| Ratio::new(f64::from(ended.new_threads), forks.0 * seconds));
        let mut span = ShortLived { forks, seen_share: seen.map(|seen| Ratio(seen.0.min(1.0))), ..ShortLived::default() };
        let lost = |sample: &Sample| sample.exits.as_ref().ok().map(|exits| exits.lost_messages);
        span.lost_messages = PerSecond::between(lost(newer), lost(older), seconds);
        match newer.exits.as_ref() {
            // Without exit messages at the older sample the interval is not covered.
            Ok(exits) if span.lost_messages.is_some() => {
                let rate = |count: u32| PerSecond::over(u64::from(count), seconds);
                span.has_exit_events = true;
                span.unlisted = rate(exits.unlisted.processes);
                let cpus = |cpu: ExitCpuTime| cpu.estimated_ns() as f64 / 1e9 / seconds;
                span.groups = (exits.rows.iter())
                    .map(|row| ShortLivedGroup {
                        owner: row.owner,
                        owner_name: row.owner_name.clone(),
                        name: Some(row.name.clone()),
                        are_threads: row.are_threads,
                        rate: rate(row.count),
                        cpus: cpus(row.cpu),
                    })
                    .collect();
                let processes = || span.groups.iter().filter(|group| !group.are_threads);
                let from_messages = processes().map(|group| group.cpus).sum::<f64>() + cpus(exits.unlisted.cpu);
                let total = reconcile(from_messages, ended.unseen_cpus, f64::from(exits.previously_sampled) / seconds);
                for group in span.groups.iter_mut().filter(|group| !group.are_threads && from_messages > 0.0) {
                    group.cpus *= total / from_messages;
                }
                span.cpus = Some(total);
            }
            _ => {
                span.cpus = ended.unseen_cpus;
                span.groups = (ended.parents.iter().take(MAX_PARENTS))
                    .map(|&(id, cpus)| {
                        let name = newer.tasks.as_ref().ok().and_then(|tasks| tasks.process(id.pid));
                        let of_name = name.map_or_else(Name::default, |process| process.comm.clone());
                        ShortLivedGroup {
                            owner: Some(id),
                            owner_name: of_name,
                            name: None,
                            are_threads: false,
                            rate: None,
                            cpus,
                        }
                    })
                    .collect();
                let unseen = forks.map_or(0.0, |forks| forks.0 - f64::from(ended.new_threads) / seconds);
                span.unexplained_cpus = clocks.filter(|_| unseen >= MIN_UNSEEN_PER_SECOND).map_or(0.0, unexplained_ticks);
            }
        }
        span
    }
}

/// Above this multiple of the time that parents were credited with, no process waited for some of the exited tasks.
/// docs/metrics.md, "Fixed thresholds".
const MAX_MESSAGE_RATIO: f64 = 1.25;

/// CPU time of exited tasks, in CPUs, from two sources. `from_messages` is right on average and lacks lost messages.
/// `from_parents` (cutime, cstime) is exact, but includes `previously_sampled` tasks per second that the older sample contains.
fn reconcile(from_messages: f64, from_parents: Option<f64>, previously_sampled: f64) -> f64 {
    let Some(from_parents) = from_parents else { return from_messages };
    if from_messages > from_parents * MAX_MESSAGE_RATIO + MIN_DIFFERENCE_CPUS {
        return from_messages;
    }
    from_messages.clamp((from_parents - previously_sampled * MEAN_LIFETIME_SHARE).max(0.0), from_parents)
}

/// Ticks that no task accounts for, unless time was counted twice.
fn unexplained_ticks(clocks: &CpuAccounting) -> f64 {
    let missing = -clocks.difference() - clocks.excess_cpus.max(0.0);
    if missing > clocks.tolerance() { missing } else { 0.0 }
}
