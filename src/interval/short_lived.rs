//! Tasks that no sample has because they began and ended between two of them.
//!
//! How many: the kernel's count of forks, less those that the sweep found. How much CPU: as heard when they ended
//! (taskstats), else what their parents got when they waited for them. Whose: the same.

use crate::ids::ProcessId;
use crate::interval::clocks::{Clocks, LEAST};
use crate::interval::ended::EndedSpan;
use crate::sample::exits::Used;
use crate::sample::{Name, Sample};
use crate::units::{PerSecond, Ratio};

/// Short-lived tasks, over an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShortLived {
    /// Forks and clones: processes and threads that began
    pub forks: Option<PerSecond>,
    /// Which share of them the newer sample has
    pub seen: Option<Ratio>,
    /// CPU time of tasks that no sample has, in CPUs
    pub cpus: Option<f64>,
    /// Whether their ends were heard: then `families` has their names
    pub heard: bool,
    /// Ends that could not be heard, as a rate
    pub lost: Option<PerSecond>,
    /// Ticks that no task accounts for, in CPUs, beyond what chance explains: tasks that nobody waited for
    pub unexplained: f64,
    /// Processes heard of that are in none of `families`
    pub others: Option<PerSecond>,
    /// Most CPU first, processes before threads
    pub families: Vec<Family>,
}

/// Short-lived tasks that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Of processes: who waited for them, or the nearest ancestor that lasts. Of threads: their process.
    pub of: Option<ProcessId>,
    pub of_name: Name,
    /// What they were called; `None` where only the parent is known
    pub name: Option<Name>,
    /// Threads of a process that lives on: their CPU time is in that process's
    pub threads: bool,
    /// How many ended
    pub rate: Option<PerSecond>,
    /// In CPUs
    pub cpus: f64,
}

/// So many tasks a second must have begun unseen before ticks without a task are taken to be theirs.
const LEAST_UNSEEN: f64 = 5.0;
/// Families that are kept where only the parents are known.
const MOST_PARENTS: usize = 16;

impl ShortLived {
    pub(super) fn between(
        older: &Sample,
        newer: &Sample,
        seconds: f64,
        ended: &EndedSpan,
        clocks: Option<&Clocks>,
    ) -> ShortLived {
        let forks = newer.cpu.as_ref().ok().and_then(|cpu| cpu.forks);
        let forks = PerSecond::between(forks, older.cpu.as_ref().ok().and_then(|cpu| cpu.forks), seconds);
        let seen = forks.and_then(|forks| Ratio::of(f64::from(ended.born), forks.0 * seconds));
        let mut span = ShortLived { forks, seen: seen.map(|seen| Ratio(seen.0.min(1.0))), ..ShortLived::default() };
        let lost = |sample: &Sample| sample.exits.as_ref().ok().map(|exits| exits.lost);
        span.lost = PerSecond::between(lost(newer), lost(older), seconds);
        match newer.exits.as_ref() {
            // Where the older sample has heard nothing there was nobody to hear all of this interval.
            Ok(exits) if span.lost.is_some() => {
                let rate = |count: u32| PerSecond::over(u64::from(count), seconds);
                span.heard = true;
                span.others = rate(exits.others.count);
                let cpus = |cpu: Used| cpu.likely_ns() as f64 / 1e9 / seconds;
                span.families = (exits.rows.iter())
                    .map(|row| Family {
                        of: row.of,
                        of_name: row.of_name.clone(),
                        name: Some(row.name.clone()),
                        threads: row.threads,
                        rate: rate(row.count),
                        cpus: cpus(row.cpu),
                    })
                    .collect();
                let processes = || span.families.iter().filter(|family| !family.threads);
                let heard = processes().map(|family| family.cpus).sum::<f64>() + cpus(exits.others.cpu);
                let total = reconcile(heard, ended.unseen, f64::from(exits.known) / seconds);
                for family in span.families.iter_mut().filter(|family| !family.threads && heard > 0.0) {
                    family.cpus *= total / heard;
                }
                span.cpus = Some(total);
            }
            _ => {
                span.cpus = ended.unseen;
                span.families = (ended.parents.iter().take(MOST_PARENTS))
                    .map(|&(id, cpus)| {
                        let name = newer.tasks.as_ref().ok().and_then(|tasks| tasks.process(id.pid));
                        let of_name = name.map_or_else(Name::default, |process| process.comm.clone());
                        Family { of: Some(id), of_name, name: None, threads: false, rate: None, cpus }
                    })
                    .collect();
                let unseen = forks.map_or(0.0, |forks| forks.0 - f64::from(ended.born) / seconds);
                span.unexplained = clocks.filter(|_| unseen >= LEAST_UNSEEN).map_or(0.0, unexplained);
            }
        }
        span
    }
}

/// What ended tasks used: as heard, which is right on average only and lacks what was lost, held against what their parents
/// got, which is exact but for the last moments of `known` tasks a second that were seen before.
fn reconcile(heard: f64, waited: Option<f64>, known: f64) -> f64 {
    let Some(waited) = waited else { return heard };
    // Well above: nobody waited for some of them.
    if heard > waited * 1.25 + LEAST {
        return heard;
    }
    // Each of those had half the interval left on average, on one CPU.
    heard.clamp((waited - known * 0.5).max(0.0), waited)
}

/// Ticks without a task, where they do not come from time that was counted twice.
fn unexplained(clocks: &Clocks) -> f64 {
    let missing = -clocks.gap() - clocks.excess.max(0.0);
    if missing > clocks.tolerance() { missing } else { 0.0 }
}
