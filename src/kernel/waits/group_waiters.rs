//! Selects threads of groups that wait for data in sockets: the processes at the other ends of their sockets are searched, as for
//! owners of locks. Expensive, hence only for groups in which several wait so for most of the interval.

use std::collections::BTreeMap;

use super::holder_wait::read_holder_wait;
use super::remote_waits::MIN_EXAMINED_SHARE;
use crate::ids::TaskId;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, Waits, class};

/// Threads of a group in sockets from which some are selected.
const MIN_SOCKET_WAITERS: usize = 4;
/// Groups examined an interval, and threads of each: all of these must wait for one process.
const MAX_GROUPS: usize = 4;
const MAX_THREADS: usize = 2;

/// The selected threads' current waits.
pub(super) fn group_waiters(waits: &Waits, files: &mut TaskFiles) -> Vec<BlockedWait> {
    let mut found = Vec::new();
    for (group, threads) in
        waiting_threads(waits).into_iter().filter(|(_, threads)| threads.len() >= MIN_SOCKET_WAITERS).take(MAX_GROUPS)
    {
        let now = threads.into_iter().take(MAX_THREADS).filter_map(|task| read_holder_wait(files, task.pid, task.tid, group));
        found.extend(now);
    }
    found
}

/// By group: threads in TCP sockets in which they sent last, and threads in Unix sockets, of which that is not known.
fn waiting_threads(waits: &Waits) -> BTreeMap<u16, Vec<TaskId>> {
    let mut groups: BTreeMap<u16, Vec<TaskId>> = BTreeMap::new();
    let has_asked = waits
        .socket_waiters
        .iter()
        .filter(|waiter| !waiter.local_port_listens && waiter.last_data_sent_ms <= waiter.last_data_received_ms);
    for waiter in has_asked {
        groups.entry(waiter.group).or_default().push(waiter.task);
    }
    let least = (waits.sub_samples.len() as f64 * MIN_EXAMINED_SHARE).max(1.0);
    let mut in_unix: Vec<u32> = Vec::new();
    for wait in &waits.observed {
        let is_there = wait.wchan.as_ref().is_some_and(|wchan| class::is_empty_unix_socket(wchan.as_bytes()));
        if is_there && wait.state == TaskState::Sleeping {
            in_unix.push(wait.id);
        }
    }
    for row in waits.threads.iter().filter(|row| f64::from(row.seen_count) >= least && in_unix.contains(&row.wait)) {
        groups.entry(row.group).or_default().push(row.task);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Name;
    use crate::sample::waits::{ObservedWait, SocketWaiter, SubSample, ThreadWait};

    fn task(tid: u32) -> TaskId {
        TaskId { pid: 1, tid, start_ticks: 1 }
    }

    #[test]
    fn threads_that_asked_and_those_in_unix_sockets_wait() {
        let asked = SocketWaiter {
            task: task(1),
            group: 0,
            remote: "127.0.0.1:6432".parse().unwrap(),
            local_port_listens: false,
            last_data_sent_ms: 5,
            last_data_received_ms: 9,
        };
        let idle = SocketWaiter { task: task(2), last_data_sent_ms: 9, last_data_received_ms: 5, ..asked };
        let serves = SocketWaiter { task: task(3), local_port_listens: true, ..asked };
        let channel = |id, wchan: &str| ObservedWait {
            id,
            state: TaskState::Sleeping,
            wchan: Some(Name::from(wchan)),
            syscall: None,
            has_timeout: false,
            is_behind_named_owner: false,
            java_lock: None,
            wait_event: None,
        };
        let row = |tid, wait, seen_count| ThreadWait { task: task(tid), wait, group: 1, seen_count };
        let waits = Waits {
            socket_waiters: vec![asked, idle, serves],
            observed: vec![channel(0, "unix_stream_read_generic"), channel(1, "do_epoll_wait")],
            threads: vec![row(4, 0, 5), row(5, 0, 4), row(6, 1, 10)],
            sub_samples: vec![SubSample::default(); 10],
            ..Waits::default()
        };
        assert_eq!(waiting_threads(&waits), BTreeMap::from([(0, vec![task(1)]), (1, vec![task(4)])]));
    }
}
