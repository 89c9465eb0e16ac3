//! The share of a thread's run time on each CPU.

use std::collections::BTreeMap;

use super::Interval;
use crate::ids::{CpuId, TaskId};
use crate::units::Ratio;

/// The parts of the run time of a thread by CPU, sorted by CPU; empty where they are not known, or if it ran on one CPU. Its run time
/// between two readings belongs to the CPU of the second one; where that is not known it is left out.
pub fn cpu_shares(interval: &Interval, task: TaskId) -> Vec<(CpuId, Ratio)> {
    let readings = interval.newer.tasks.as_ref().map(|tasks| tasks.run_times(task)).unwrap_or_default();
    let mut runs: BTreeMap<CpuId, u64> = BTreeMap::new();
    for (older, newer) in readings.iter().zip(readings.iter().skip(1)) {
        if let (Some(cpu), Some(run_ns)) = (newer.cpu, newer.run_ns.since(older.run_ns)) {
            let sum = runs.entry(cpu).or_default();
            *sum = sum.saturating_add(run_ns);
        }
    }
    let all = runs.values().fold(0, |all: u64, run_ns| all.saturating_add(*run_ns));
    runs.into_iter().filter_map(|(cpu, run_ns)| Some((cpu, Ratio::new(run_ns as f64, all as f64)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sample::task::{RunTime, Tasks};
    use crate::synthetic;
    use crate::units::Counter;

    #[test]
    fn run_time_between_two_readings_belongs_to_the_cpu_of_the_second() {
        let task = |tid| TaskId { pid: 7, tid, start_ticks: 1 };
        let reading = |tid, cpu: Option<u32>, run_ns| RunTime { task: task(tid), run_ns: Counter(run_ns), cpu: cpu.map(CpuId) };
        let (older, mut newer) = (synthetic::sample(10.0).build(), synthetic::sample(11.0).build());
        let run_times = vec![
            reading(7, None, 1000),
            reading(7, Some(3), 1100),
            // It was found asleep again: the CPU was not read.
            reading(7, None, 1500),
            reading(7, Some(0), 1700),
            reading(7, Some(3), 1800),
            // Another thread has taken the number.
            reading(7, Some(3), 9),
            reading(8, None, 0),
            reading(8, Some(1), 50),
        ];
        newer.tasks = Ok(Tasks { run_times, ..Tasks::default() });
        let host = Arc::new(synthetic::host());
        let interval = Interval::between(&host, &Arc::new(older), &Arc::new(newer)).unwrap();
        assert_eq!(cpu_shares(&interval, task(7)), [(CpuId(0), Ratio(0.5)), (CpuId(3), Ratio(0.5))]);
        assert_eq!(cpu_shares(&interval, task(8)), [(CpuId(1), Ratio(1.0))]);
        assert_eq!(cpu_shares(&interval, task(9)), []);
    }
}
