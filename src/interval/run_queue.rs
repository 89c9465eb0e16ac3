//! Distributions of the time for which threads waited for a CPU, from the counts of `sample/run_queue`.

use super::latency_histogram::LatencyHistogram;
use crate::ids::CpuId;
use crate::sample::run_queue::{RunQueues, WaitHistogram};
use crate::sample::{Instant, Name};
use crate::units::{Counter, SmallSort};

/// The waits that ended between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQueueInterval {
    /// Its end
    pub at: Instant,
    /// Its length
    pub seconds: f64,
    /// Of all CPUs
    pub all: LatencyHistogram,
    /// Sorted by CPU
    pub cpus: Vec<(CpuId, LatencyHistogram)>,
    /// Those with waits, the longest total first
    pub processes: Vec<ProcessRunQueueWaits>,
}

/// The waits of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRunQueueWaits {
    pub pid: u32,
    /// `None` if it ended before it could be read
    pub name: Option<Name>,
    pub waits: LatencyHistogram,
}

impl RunQueueInterval {
    /// A process that appeared in between has waited all that was counted of it. `None` if no time passed.
    pub fn between(older: &RunQueues, newer: &RunQueues) -> Option<RunQueueInterval> {
        let seconds = newer.at.seconds_since(older.at);
        let cpus = newer.cpus.iter().map(|(cpu, now)| {
            let before = older.cpus.iter().find(|(known, _)| known == cpu);
            (*cpu, grown(before.map(|(_, waits)| waits), now))
        });
        let cpus: Vec<(CpuId, LatencyHistogram)> = cpus.collect();
        let processes = newer.processes.iter().map(|now| {
            let before = older.processes.binary_search_by_key(&now.pid, |known| known.pid).ok();
            let before = before.and_then(|place| older.processes.get(place));
            ProcessRunQueueWaits {
                pid: now.pid,
                name: now.name.clone(),
                waits: grown(before.map(|known| &known.waits), &now.waits),
            }
        });
        let mut processes: Vec<ProcessRunQueueWaits> = processes.filter(|process| process.waits.requests() > 0).collect();
        processes.small_sort_by(|a, b| b.waits.total().0.total_cmp(&a.waits.total().0));
        let all = LatencyHistogram::sum(cpus.iter().map(|(_, waits)| waits));
        (seconds > 0.0).then_some(RunQueueInterval { at: newer.at, seconds, all, cpus, processes })
    }
}

fn grown(before: Option<&WaitHistogram>, now: &WaitHistogram) -> LatencyHistogram {
    let was = |bucket: u8| {
        let found = before.and_then(|waits| waits.iter().find(|(known, _)| *known == bucket));
        found.map_or(Counter(0), |(_, count)| *count)
    };
    // A count that is lower is that of another process with the pid.
    LatencyHistogram::new(now.iter().map(|&(bucket, count)| (bucket, count.since(was(bucket)).unwrap_or(count.0))))
}
