//! Finds the processes that dump core among those of which sub-samples saw a thread in D in a function in which threads wait for that, or
//! for a lock: `CoreDumping` of /proc/PID/status.

use crate::kernel::fields::lines;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task_state::TaskState;
use crate::sample::waits::{CoreDump, Waits, class};

/// Processes whose status is read in one sample.
const MAX_PROCESSES: usize = 16;

/// Adds those processes.
pub(super) fn read_core_dumps(waits: &mut Waits, files: &mut TaskFiles) {
    let mut read: Vec<u32> = Vec::new();
    for row in &waits.threads {
        let may_wait_for_dump = waits.observed_wait(row.wait).is_some_and(|wait| {
            wait.state == TaskState::Blocked
                && wait.wchan.as_ref().is_some_and(|wchan| class::may_be_core_dump(wchan.as_bytes()))
        });
        // Rows are sorted by task.
        if may_wait_for_dump && read.last() != Some(&row.task.pid) && read.len() < MAX_PROCESSES {
            read.push(row.task.pid);
        }
    }
    read.retain(|&pid| dumps_core(pid, files));
    waits.core_dumps = read.into_iter().map(|pid| CoreDump { pid }).collect();
}

/// False if the process has ended, or before Linux 4.15.
fn dumps_core(pid: u32, files: &mut TaskFiles) -> bool {
    let Ok(status) = files.read_once(format_args!("{pid}/status")) else { return false };
    lines(status).find_map(|line| line.strip_prefix(b"CoreDumping:")).is_some_and(|value| value.trim_ascii() == b"1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;
    use crate::sample::waits::{ObservedWait, ThreadWait};
    use crate::synthetic;

    #[test]
    fn processes_whose_status_says_so_dump_core() {
        let status = |(pid, flag)| (format!("proc/{pid}/status"), format!("Name:\tapp\nCoreDumping:\t{flag}\nThreads:\t3\n"));
        let tree = ProcTree::with([(40, "1"), (50, "0"), (60, "1")].map(status));
        let mut files = TaskFiles::open(&tree.root()).unwrap();
        let observed = |id, wchan: &str| ObservedWait {
            id,
            state: TaskState::Blocked,
            wchan: Some(wchan.into()),
            syscall: None,
            has_timeout: false,
            is_behind_named_owner: false,
            java_lock: None,
            wait_event: None,
        };
        let row = |pid, tid, wait| ThreadWait { task: synthetic::task_id(pid, tid), wait, group: 0, seen_count: 10 };
        let mut waits = Waits {
            observed: vec![observed(1, "exit_mm"), observed(2, "submit_bio_wait")],
            threads: vec![row(40, 41, 1), row(40, 42, 1), row(50, 50, 1), row(60, 60, 2), row(70, 70, 1)],
            ..Waits::default()
        };
        read_core_dumps(&mut waits, &mut files);
        assert_eq!(waits.core_dumps, [CoreDump { pid: 40 }], "60 waits elsewhere, 70 has ended");
    }
}
