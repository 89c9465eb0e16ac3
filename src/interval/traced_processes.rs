//! Processes that run under a tracer (ptrace: strace, gdb, a sandbox): how much of the time it keeps their threads stopped. Of a process
//! that does not run at all `stuck_servers` speaks.

use crate::ids::ProcessId;
use crate::sample::Sample;
use crate::sample::task::{Process, TaskState};

/// A process that runs, and is stopped by its tracer again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedSpan {
    pub process: ProcessId,
    /// Pid
    pub tracer: u32,
    /// Share of the sub-samples in which its most stopped thread was in state t
    pub stopped_share: f64,
}

/// Sorted by pid.
pub fn traced_processes(older: &Sample, newer: &Sample) -> Vec<TracedSpan> {
    let Ok(tasks) = &newer.tasks else { return Vec::new() };
    let span = |traced: &crate::sample::waits::TracedProcess| {
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
        let is_stopped = |wait| newer.waits.observed_wait(wait).is_some_and(|wait| wait.state == TaskState::Traced);
        let count = |rows: &mut dyn Iterator<Item = u16>| rows.map(f64::from).sum::<f64>();
        let stopped = count(&mut rows.iter().filter(|row| is_stopped(row.wait)).map(|row| row.seen_count));
        stopped / count(&mut rows.iter().map(|row| row.seen_count)).max(1.0)
    });
    of_thread.fold(0.0, f64::max)
}
