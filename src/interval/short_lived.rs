//! Tasks that no sample has because they started and exited between two of them. docs/metrics.md, "Short-lived processes".
//! Their number is the kernel's count of forks minus the new tasks that the scan found. Their CPU time is that of the exit
//! messages, otherwise what their parents were credited with.

use crate::ids::ProcessId;
use crate::interval::cpu_accounting::{CpuAccounting, MIN_DIFFERENCE_CPUS};
use crate::interval::exited::ExitedSpan;
use crate::sample::exits::ExitCpuTime;
use crate::sample::{Name, Sample};
use crate::units::{PerSecond, Ratio};

/// Short-lived tasks, over an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShortLived {
    /// Forks and clones: processes and threads that began
    pub forks: Option<PerSecond>,
    /// Which share of them the newer sample has
    pub seen_share: Option<Ratio>,
    /// CPU time of tasks that no sample has, in CPUs
    pub cpus: Option<f64>,
    /// Whether their ends were heard: then `families` has their names
    pub has_exit_events: bool,
    /// Ends that could not be heard, as a rate
    pub lost_messages: Option<PerSecond>,
    /// Ticks that no task accounts for, in CPUs, beyond chance: tasks that no process waited for
    pub unexplained_cpus: f64,
    /// Processes heard of that are in none of `families`
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
    /// What they were called; `None` where only the parent is known
    pub name: Option<Name>,
    /// Threads of a process that lives on: their CPU time is in that process's
    pub are_threads: bool,
    /// How many ended
    pub rate: Option<PerSecond>,
    /// In CPUs
    pub cpus: f64,
}

/// So many tasks a second must have begun unseen before ticks without a task are taken to be theirs.
const MIN_UNSEEN_PER_SECOND: f64 = 5.0;
/// Families that are kept where only the parents are known.
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
                let processes = || span.groups.iter().filter(|family| !family.are_threads);
                let heard = processes().map(|family| family.cpus).sum::<f64>() + cpus(exits.unlisted.cpu);
                let total = reconcile(heard, ended.unseen_cpus, f64::from(exits.previously_sampled) / seconds);
                for family in span.groups.iter_mut().filter(|family| !family.are_threads && heard > 0.0) {
                    family.cpus *= total / heard;
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

/// What ended tasks used: as heard, which is right on average only and lacks what was lost, held against what their parents
/// got, which is exact but for the last moments of `known` tasks a second that were seen before.
fn reconcile(heard: f64, waited: Option<f64>, known: f64) -> f64 {
    let Some(waited) = waited else { return heard };
    // Well above: no process waited for some of them.
    if heard > waited * 1.25 + MIN_DIFFERENCE_CPUS {
        return heard;
    }
    // Each of those had half the interval left on average, on one CPU.
    heard.clamp((waited - known * 0.5).max(0.0), waited)
}

/// Ticks without a task, where they do not come from time that was counted twice.
fn unexplained_ticks(clocks: &CpuAccounting) -> f64 {
    let missing = -clocks.difference() - clocks.excess_cpus.max(0.0);
    if missing > clocks.tolerance() { missing } else { 0.0 }
}
