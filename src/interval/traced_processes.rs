//! Processes that run under a tracer (ptrace: strace, gdb, a sandbox): how much of the time it keeps their threads stopped. A process
//! that does not run at all is in `stuck_servers`.

use crate::ids::ProcessId;
use crate::sample::Sample;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::{ThreadWait, TracedProcess};

/// Fewer sub-samples in state t say nothing about the rest of the time. docs/metrics.md, "Fixed thresholds".
const MIN_STOPPED_SUB_SAMPLES: u32 = 3;

/// A process that runs, and is stopped by its tracer again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedSpan {
    pub process: ProcessId,
    /// Pid
    pub tracer: u32,
    /// Share of the sub-samples that saw its most stopped thread in which that was in state t
    pub stopped_share: f64,
}

/// Sorted by pid.
pub fn traced_processes(older: &Sample, newer: &Sample) -> Vec<TracedSpan> {
    let Ok(tasks) = &newer.tasks else { return Vec::new() };
    let span = |traced: &TracedProcess| {
        let process = tasks.process(traced.pid).filter(|process| has_run(process, older.at.boottime_ns))?;
        let stopped_share = stopped_share(newer, traced.pid);
        Some(TracedSpan { process: process.id(), tracer: traced.tracer, stopped_share })
    };
    newer.waits.traced.iter().filter_map(span).collect()
}

/// Whether a thread got a timeslice since then; also if that is not known.
fn has_run(process: &Process, since_ns: u64) -> bool {
    process.threads.iter().any(|thread| thread.last_timeslice_ns.is_none_or(|last_ns| last_ns >= since_ns))
}

fn stopped_share(newer: &Sample, pid: u32) -> f64 {
    let rows = &newer.waits.threads;
    let first = rows.partition_point(|row| row.task.pid < pid);
    let own = rows.get(first..).unwrap_or_default();
    let own = own.get(..own.partition_point(|row| row.task.pid == pid)).unwrap_or_default();
    let of_thread = own.chunk_by(|one, next| one.task == next.task).map(|rows| {
        let is_stopped =
            |row: &&ThreadWait| newer.waits.observed_wait(row.wait).is_some_and(|wait| wait.state == TaskState::Traced);
        let stopped: u32 = rows.iter().filter(is_stopped).map(|row| u32::from(row.seen_count)).sum();
        let seen: u32 = rows.iter().map(|row| u32::from(row.seen_count)).sum();
        if stopped < MIN_STOPPED_SUB_SAMPLES { 0.0 } else { f64::from(stopped) / f64::from(seen) }
    });
    of_thread.fold(0.0, f64::max)
}
