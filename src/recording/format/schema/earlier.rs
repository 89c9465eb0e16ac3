//! Tables that only earlier versions wrote: what they have is read as what took their place.

use super::{List, from_rows};
use crate::ids::{CpuId, TaskId};
use crate::recording::format::columns::{Columns, columns};
use crate::recording::format::table::{Rows, Table};
use crate::sample::task::RunTime;
use crate::units::Counter;

/// How long a thread ran on a CPU since the sample before, as the reader had added it up.
struct CpuRun {
    task: TaskId,
    cpu: CpuId,
    run_ns: u64,
}

columns! { CpuRun: 6 { task, cpu, run_ns } }

/// In place of `Tasks::run_times`.
pub const CPU_RUNS: List = List {
    table: Table { section: 54, width: CpuRun::WIDTH, keys: 4, steps: 4 },
    #[cfg(test)]
    name: "run time of threads by CPU, in recordings of earlier versions",
    #[cfg(test)]
    describe: super::described::<CpuRun>,
    rows: |_, _| Rows::new(CpuRun::WIDTH),
    fill: |sample, rows, names| {
        let Ok(tasks) = &mut sample.tasks else { return Ok(()) };
        if !rows.is_empty() {
            tasks.run_times = to_run_times(&from_rows::<CpuRun>(rows, names)?);
        }
        Ok(())
    },
};

/// Readings with the same run time on each CPU: as if each thread had run on one CPU after the other. `runs` are sorted.
fn to_run_times(runs: &[CpuRun]) -> Vec<RunTime> {
    let mut readings = Vec::new();
    for of_thread in runs.chunk_by(|a, b| a.task == b.task) {
        let mut run_ns = 0_u64;
        readings.extend(of_thread.first().map(|run| RunTime { task: run.task, run_ns: Counter(run_ns), cpu: None }));
        for run in of_thread {
            run_ns = run_ns.saturating_add(run.run_ns);
            readings.push(RunTime { task: run.task, run_ns: Counter(run_ns), cpu: Some(run.cpu) });
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::super::to_rows;
    use super::*;
    use crate::recording::format::names::{Interner, Names};
    use crate::recording::format::shared_facts::SharedFacts;
    use crate::sample::Name;
    use crate::sample::task::Tasks;
    use crate::synthetic;

    #[test]
    fn the_run_time_on_each_cpu_becomes_readings_of_a_counter() {
        let task = |tid| TaskId { pid: 7, tid, start_ticks: 1 };
        let run = |tid, cpu, run_ns| CpuRun { task: task(tid), cpu: CpuId(cpu), run_ns };
        let mut sample = synthetic::sample(10.0).build();
        sample.tasks = Ok(Tasks::default());
        let mut fill = |runs: &[CpuRun]| {
            let names = Names { list: &[], empty: &Name::default(), facts: &SharedFacts::default() };
            (CPU_RUNS.fill)(&mut sample, &to_rows(runs, &mut Interner::default()), &names).unwrap();
            let readings = &sample.tasks.as_ref().unwrap().run_times;
            readings.iter().map(|row| (row.task.tid, row.cpu.map(|cpu| cpu.0), row.run_ns.0)).collect::<Vec<_>>()
        };
        let expected = [(7, None, 0), (7, Some(0), 300), (7, Some(3), 400), (8, None, 0), (8, Some(1), 50), (8, Some(2), 110)];
        assert_eq!(fill(&[run(7, 0, 300), run(7, 3, 100), run(8, 1, 50), run(8, 2, 60)]), expected);
        assert_eq!(fill(&[]), expected, "a recording of this version has no such rows");
    }
}
