//! Counts the threads that wait in each queue (mutex, file lock, pipe, socket, remote host) of a group, sub-sample by sub-sample.
//!
//! At the end of the interval only the queues of groups with a thread on storage are kept: only behind such a thread may others
//! be blocked.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::sample::Name;
use crate::sample::task::RawSyscall;
use crate::sample::waits::{WaitQueue, WaitQueueKind};

/// Mutex addresses counted for one group.
const MAX_ADDRESSES: usize = 64;

/// The thread that was last seen waiting in a queue.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub task: TaskId,
    pub wchan: Option<Name>,
    pub syscall: Option<RawSyscall>,
}

/// A thread whose futex value says "held, with waiters": counted at the end of the sub-sample.
#[derive(Debug)]
pub struct MutexCandidate {
    pub group: u16,
    pub address: u64,
    pub active: bool,
    pub waiter: Waiter,
}

#[derive(Debug)]
struct QueueCount {
    seen_count: u32,
    addresses: FxHashMap<u64, u32>,
    last_waiter: Waiter,
}

/// The queues of the current interval.
#[derive(Debug, Default)]
pub struct WaitQueues {
    counts: FxHashMap<(u16, WaitQueueKind), QueueCount>,
    /// Of the current sub-sample
    mutex_candidates: Vec<MutexCandidate>,
}

impl WaitQueues {
    pub fn add(&mut self, group: u16, kind: WaitQueueKind, address: Option<u64>, waiter: Waiter) {
        let count = self.counts.entry((group, kind)).or_insert_with(|| QueueCount {
            seen_count: 0,
            addresses: FxHashMap::default(),
            last_waiter: waiter.clone(),
        });
        count.seen_count = count.seen_count.saturating_add(1);
        if let Some(address) = address
            && (count.addresses.len() < MAX_ADDRESSES || count.addresses.contains_key(&address))
        {
            let times = count.addresses.entry(address).or_default();
            *times = times.saturating_add(1);
        }
        // The system call, which leads to the file, cannot always be read.
        if waiter.syscall.is_some() || count.last_waiter.syscall.is_none() {
            count.last_waiter = waiter;
        }
    }

    pub fn add_mutex_candidate(&mut self, candidate: MutexCandidate) {
        self.mutex_candidates.push(candidate);
    }

    /// Ends a sub-sample. Value 2 is that of a contended mutex, whose waiters share one address. A single waiter at an address proves
    /// nothing: each waiter of a condition variable of musl has such a futex of its own.
    pub fn classify_mutex_candidates(&mut self) {
        let mut at_address: FxHashMap<(u16, u64), u32> = FxHashMap::default();
        for candidate in &self.mutex_candidates {
            *at_address.entry((candidate.group, candidate.address)).or_default() += 1;
        }
        for MutexCandidate { group, address, active, waiter } in std::mem::take(&mut self.mutex_candidates) {
            if at_address.get(&(group, address)).is_some_and(|&waiters| waiters > 1) {
                self.add(group, WaitQueueKind::Mutex, Some(address), waiter);
            } else if active {
                self.add(group, WaitQueueKind::Futex, None, waiter);
            }
        }
    }

    /// Ends the interval: the queues of groups for which `on_storage` is set, sorted, and the last waiter of each.
    pub fn finish_interval(&mut self, on_storage: &[bool]) -> (Vec<WaitQueue>, Vec<Waiter>) {
        let is_on_storage = |group: u16| on_storage.get(usize::from(group)).copied().unwrap_or(false);
        let mut list: Vec<_> = self.counts.drain().filter(|((group, _), _)| is_on_storage(*group)).collect();
        list.sort_unstable_by_key(|(key, _)| *key);
        let describe = |((group, kind), count): ((u16, WaitQueueKind), QueueCount)| {
            let queue = WaitQueue {
                group,
                kind,
                seen_count: count.seen_count,
                seen_at_one_address: count.addresses.into_values().max().unwrap_or(0),
                wchan: count.last_waiter.wchan.clone(),
                file: None,
                holder: None,
            };
            (queue, count.last_waiter)
        };
        list.into_iter().map(describe).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter() -> Waiter {
        Waiter { task: TaskId { pid: 1, tid: 1, start_ticks: 1 }, wchan: Some("futex_do_wait".into()), syscall: None }
    }

    fn sub_sample(queues: &mut WaitQueues, waiters: &[(u64, bool)]) {
        for &(address, active) in waiters {
            queues.add_mutex_candidate(MutexCandidate { group: 0, address, active, waiter: waiter() });
        }
        queues.classify_mutex_candidates();
    }

    #[test]
    fn one_address_for_several_is_a_mutex_and_for_one_is_a_guess() {
        let mut queues = WaitQueues::default();
        sub_sample(&mut queues, &[(16, false), (16, true), (16, false), (32, true), (48, false)]);
        let (list, _) = queues.finish_interval(&[true]);
        let short: Vec<_> = list.iter().map(|queue| (queue.kind, queue.seen_count, queue.seen_at_one_address)).collect();
        assert_eq!(short, [(WaitQueueKind::Mutex, 3, 3), (WaitQueueKind::Futex, 1, 0)]);
        assert!(queues.finish_interval(&[true]).0.is_empty());
    }

    #[test]
    fn queues_of_groups_without_a_thread_on_storage_are_not_told() {
        let mut queues = WaitQueues::default();
        queues.add(0, WaitQueueKind::Futex, None, waiter());
        assert!(queues.finish_interval(&[false]).0.is_empty());
    }
}
