//! Reads context switches of each thread from /proc/PID/task/TID/status, only for threads that ran since the last reading.

use super::task::{self, files::TaskFiles};
use crate::sample::context_switches::TaskContextSwitches;
use crate::sample::task::{Schedstat, Tasks};

/// Keeps the last reading of each thread, with the schedstat at that time, so that threads that did not run are not read.
#[derive(Debug, Default)]
pub struct ContextSwitchReader {
    /// In the order of the scan
    last_read: Vec<LastRead>,
}

#[derive(Clone, Copy, Debug)]
struct LastRead {
    schedstat: Option<Schedstat>,
    switches: TaskContextSwitches,
}

impl ContextSwitchReader {
    /// The counts of each readable thread of a scan, sorted by task.
    pub fn sample(&mut self, files: &mut TaskFiles, tasks: &Tasks) -> Vec<TaskContextSwitches> {
        let mut before = std::mem::take(&mut self.last_read).into_iter().peekable();
        for process in &tasks.processes {
            for thread in process.threads.iter() {
                let task = process.task_id(thread);
                while before.next_if(|old| old.switches.task < task).is_some() {}
                // A thread that did not run had no context switch.
                let same = before.next_if(|old| old.switches.task == task);
                let same = same.filter(|old| thread.schedstat.is_some() && old.schedstat == thread.schedstat);
                let counted = same.map(|old| old.switches).or_else(|| {
                    let text = files.read_once(format_args!("{}/task/{}/status", task.pid, task.tid));
                    Some(TaskContextSwitches { task, counts: text.ok().and_then(task::parse_context_switches)? })
                });
                self.last_read.extend(counted.map(|counted| LastRead { schedstat: thread.schedstat, switches: counted }));
            }
        }
        self.last_read.iter().map(|known| known.switches).collect()
    }
}
