//! Processes that run under a tracer (ptrace: strace, gdb, a sandbox): how much of the time it keeps their threads stopped. A process
//! that does not run at all is in `stuck_servers`.

use crate::ids::{ProcessId, TaskId};
use crate::interval::task::TaskSpan;
use crate::sample::Sample;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::{ThreadWait, TracedProcess};

/// Without schedstat, fewer sub-samples in state t say nothing about the rest of the time. docs/metrics.md, "Fixed thresholds".
const MIN_STOPPED_SUB_SAMPLES: u32 = 3;

/// A process that runs, and is stopped by its tracer again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedSpan {
    pub process: ProcessId,
    /// Pid
    pub tracer: u32,
    /// Share of the time in which its most stopped thread was in state t: the time in which it neither ran nor waited for a CPU
    /// (schedstat), times the share of state t in the sub-samples that saw its stopped threads so
    pub stopped_share: f64,
    /// The same as if one more sub-sample had seen it in another state: few sub-samples prove little
    pub least_stopped_share: f64,
}

/// Sorted by pid.
pub fn traced_processes(older: &Sample, newer: &Sample, spans: Option<&TaskSpan>) -> Vec<TracedSpan> {
    let Ok(tasks) = &newer.tasks else { return Vec::new() };
    let span = |traced: &TracedProcess| {
        let process = tasks.process(traced.pid).filter(|process| has_run(process, older.at.boottime_ns))?;
        let (stopped_share, least_stopped_share) = stopped_share(newer, traced.pid, spans);
        Some(TracedSpan { process: process.id(), tracer: traced.tracer, stopped_share, least_stopped_share })
    };
    newer.waits.traced.iter().filter_map(span).collect()
}

/// Whether a thread got a timeslice since then; also if that is not known.
fn has_run(process: &Process, since_ns: u64) -> bool {
    process.threads.iter().any(|thread| thread.last_timeslice_ns.is_none_or(|last_ns| last_ns >= since_ns))
}

/// `TracedSpan::stopped_share` and `least_stopped_share`.
fn stopped_share(newer: &Sample, pid: u32, spans: Option<&TaskSpan>) -> (f64, f64) {
    let rows = &newer.waits.threads;
    let first = rows.partition_point(|row| row.task.pid < pid);
    let own = rows.get(first..).unwrap_or_default();
    let own = own.get(..own.partition_point(|row| row.task.pid == pid)).unwrap_or_default();
    let count = |rows: &[ThreadWait], is_counted: fn(TaskState) -> bool| -> u32 {
        let counted = rows.iter().filter(|row| newer.waits.observed_wait(row.wait).is_some_and(|wait| is_counted(wait.state)));
        counted.map(|row| u32::from(row.seen_count)).sum()
    };
    let stopped_count = |rows| count(rows, |state| state == TaskState::Traced);
    // Others sleep, whatever the tracer does.
    let threads = || own.chunk_by(|one, next| one.task == next.task).filter(|rows| stopped_count(rows) > 0);
    let stopped: f64 = threads().map(|rows| f64::from(stopped_count(rows))).sum();
    let off_cpu: f64 = threads().map(|rows| f64::from(count(rows, |state| state != TaskState::Running))).sum();
    let of_threads = threads().map(|rows| match rows.first().and_then(|row| off_cpu_share(spans?, row.task)) {
        Some(share) => (share * stopped / off_cpu, share * stopped / (off_cpu + 1.0)),
        None if stopped_count(rows) < MIN_STOPPED_SUB_SAMPLES => (0.0, 0.0),
        None => {
            let share = f64::from(stopped_count(rows)) / f64::from(count(rows, |_| true));
            (share, share)
        }
    });
    of_threads.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// The part of the time in which the thread neither ran nor waited for a CPU. `None` without schedstat.
fn off_cpu_share(spans: &TaskSpan, task: TaskId) -> Option<f64> {
    let thread = spans.thread(task)?;
    Some((1.0 - thread.cpu?.0 - thread.run_queue_wait?.0).max(0.0))
}
