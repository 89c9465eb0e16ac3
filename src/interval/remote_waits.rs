//! Threads that wait for an answer of a remote host, by inference: this host opened their TCP connection (no socket listens at its
//! local port) and has received nothing since it last sent. Threads of servers and subscribers wait for requests, and do not count.

use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::wait_counts::WaitCounts;
use crate::sample::waits::{SocketWaiter, WaitClass, Waits};
use crate::units::SmallSort;

/// The threads of one group that wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteQueue {
    /// Index into `Waits::groups`
    pub group: u16,
    /// Mean number of them
    pub threads: f64,
    /// The host and port that most of them wait for
    pub remote: SocketAddr,
    /// All of them wait for it
    pub is_only_remote: bool,
}

/// One entry a group, sorted by group.
pub fn remote_queues(waits: &Waits, counts: &WaitCounts) -> Vec<RemoteQueue> {
    let mut groups: FxHashMap<u16, FxHashMap<SocketAddr, u32>> = FxHashMap::default();
    for waiter in waits.socket_waiters.iter().filter(|waiter| awaits_answer(waiter)) {
        let Ok(at) = counts.threads.binary_search_by_key(&waiter.task, |thread| thread.task) else { continue };
        // The owner of a lock may sleep in poll.
        let Some(thread) = counts.threads.get(at).filter(|thread| thread.count(WaitClass::Net) > 0) else { continue };
        let seen_count = thread.count(WaitClass::Net);
        // That of an owner's row is the group of the threads that wait for its lock.
        let sum = groups.entry(thread.group).or_default().entry(waiter.remote).or_default();
        *sum = sum.saturating_add(seen_count);
    }
    let queue = |(group, remotes): (u16, FxHashMap<SocketAddr, u32>)| {
        let all = remotes.values().fold(0_u32, |sum, &seen_count| sum.saturating_add(seen_count));
        let (remote, most) = remotes.into_iter().max_by_key(|&(remote, seen_count)| (seen_count, remote))?;
        let threads = f64::from(all) / waits.sub_samples.len().max(1) as f64;
        Some(RemoteQueue { group, threads, remote, is_only_remote: most == all })
    };
    let mut list: Vec<RemoteQueue> = groups.into_iter().filter_map(queue).collect();
    list.small_sort_by_key(|queue| queue.group);
    list
}

/// Whether the thread waits, as a client, for an answer: it received nothing since it last sent. The same tick counts as waiting:
/// a client may ask again at once; one that was answered within a tick and asks no more is not active, and so was not read.
pub fn awaits_answer(waiter: &SocketWaiter) -> bool {
    !waiter.local_port_listens && waiter.last_data_sent_ms <= waiter.last_data_received_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TaskId;
    use crate::interval::wait_counts::ThreadWaits;
    use crate::sample::waits::SubSample;

    fn waiter(tid: u32, remote: &str, local_port_listens: bool, (sent, received): (u32, u32)) -> SocketWaiter {
        SocketWaiter {
            task: TaskId { pid: 1, tid, start_ticks: 1 },
            group: 0,
            remote: remote.parse().unwrap(),
            local_port_listens,
            last_data_sent_ms: sent,
            last_data_received_ms: received,
        }
    }

    fn queues(socket_waiters: Vec<SocketWaiter>) -> Vec<RemoteQueue> {
        let thread = |waiter: &SocketWaiter| {
            let mut class_counts = [0; WaitClass::COUNT];
            class_counts[WaitClass::Net as usize] = 8;
            ThreadWaits { task: waiter.task, group: 0, class_counts, blocked_other: 0 }
        };
        let counts = WaitCounts { threads: socket_waiters.iter().map(thread).collect(), ..WaitCounts::default() };
        remote_queues(&Waits { socket_waiters, sub_samples: vec![SubSample::default(); 10], ..Waits::default() }, &counts)
    }

    #[test]
    fn a_client_that_sent_last_waits_and_a_server_or_subscriber_does_not() {
        let remote = "10.0.0.5:5432";
        assert_eq!(queues(vec![waiter(1, remote, true, (5, 9)), waiter(2, remote, false, (9, 5))]), []);
        let expected = RemoteQueue { group: 0, threads: 0.8, remote: remote.parse().unwrap(), is_only_remote: true };
        assert_eq!(queues(vec![waiter(1, remote, false, (5, 9))]), [expected]);
        assert_eq!(queues(vec![waiter(1, remote, false, (5, 5))]), [expected], "both in one tick");
    }

    #[test]
    fn a_thread_counts_in_its_own_group_and_not_while_it_polls() {
        let remote = "10.0.0.5:5432";
        let holder = SocketWaiter { group: 3, ..waiter(1, remote, false, (5, 9)) };
        let queue = queues(vec![holder]).first().map(|queue| queue.group);
        assert_eq!(queue, Some(0), "the row of a lock's owner has the group of those that wait for the lock");
        let polls = WaitCounts {
            threads: vec![ThreadWaits { task: holder.task, group: 0, class_counts: [0; WaitClass::COUNT], blocked_other: 0 }],
            ..WaitCounts::default()
        };
        let waits = Waits { socket_waiters: vec![holder], ..Waits::default() };
        assert_eq!(remote_queues(&waits, &polls), []);
    }

    #[test]
    fn a_group_has_one_entry_with_the_host_that_most_wait_for() {
        let (one, other) = ("10.0.0.5:5432", "10.0.0.6:80");
        let asked = (5, 9);
        let found = queues(vec![waiter(1, one, false, asked), waiter(2, one, false, asked), waiter(3, other, false, asked)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].remote, found[0].is_only_remote), (one.parse().unwrap(), false));
        assert!((found[0].threads - 2.4).abs() < 1e-9);
    }
}
