//! Context switches, for whoever asks: a file a thread, read again only of threads that ran since.

use super::task::{self, files::TaskFiles};
use crate::sample::switches::TaskSwitches;
use crate::sample::task::{Sched, Tasks};

/// Remembers what it read, and how far the thread had run then.
#[derive(Debug, Default)]
pub struct SwitchReader {
    /// In the order of the sweep
    known: Vec<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    sched: Option<Sched>,
    counted: TaskSwitches,
}

impl SwitchReader {
    /// Of each thread of a sweep that can be read, sorted by task.
    pub fn sample(&mut self, files: &mut TaskFiles, tasks: &Tasks) -> Vec<TaskSwitches> {
        let mut before = std::mem::take(&mut self.known).into_iter().peekable();
        for process in &tasks.processes {
            for thread in process.threads.iter() {
                let task = process.task_id(thread);
                while before.next_if(|old| old.counted.task < task).is_some() {}
                // One that did not run did not leave a CPU.
                let same = before.next_if(|old| old.counted.task == task);
                let same = same.filter(|old| thread.sched.is_some() && old.sched == thread.sched);
                let counted = same.map(|old| old.counted).or_else(|| {
                    let text = files.once(format_args!("{}/task/{}/status", task.pid, task.tid));
                    Some(TaskSwitches { task, switches: text.ok().and_then(task::switches)? })
                });
                self.known.extend(counted.map(|counted| Known { sched: thread.sched, counted }));
            }
        }
        self.known.iter().map(|known| known.counted).collect()
    }
}
