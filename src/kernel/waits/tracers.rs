//! Finds the tracers (ptrace: strace, gdb) of processes of which sub-samples saw a thread in state t: `TracerPid` of
//! /proc/PID/task/TID/status.

use crate::kernel::fields::{lines, parse_u32};
use crate::kernel::task::files::TaskFiles;
use crate::sample::task_state::TaskState;
use crate::sample::waits::{TracedProcess, Waits};

/// Processes whose tracer is read in one sample.
const MAX_PROCESSES: usize = 16;

/// Adds the tracer of each such process, by the first of its threads that has one.
pub(super) fn read_tracers(waits: &mut Waits, files: &mut TaskFiles) {
    let mut traced: Vec<TracedProcess> = Vec::new();
    for row in &waits.threads {
        let is_stopped = waits.observed_wait(row.wait).is_some_and(|wait| wait.state == TaskState::Traced);
        if !is_stopped || traced.iter().any(|known| known.pid == row.task.pid) || traced.len() >= MAX_PROCESSES {
            continue;
        }
        if let Some(tracer) = read_tracer(row.task.pid, row.task.tid, files) {
            traced.push(TracedProcess { pid: row.task.pid, tracer });
        }
    }
    traced.sort_unstable();
    waits.traced = traced;
}

/// `None` if the thread has ended, or is no longer traced.
fn read_tracer(pid: u32, tid: u32, files: &mut TaskFiles) -> Option<u32> {
    let status = files.read_once(format_args!("{pid}/task/{tid}/status")).ok()?;
    let tracer = lines(status).find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    parse_u32(tracer.trim_ascii()).filter(|&tracer| tracer != 0)
}
