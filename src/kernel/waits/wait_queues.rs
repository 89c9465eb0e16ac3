//! Counts the threads of a group that wait at one place: at one futex address, or in a wait whose file is read (a lock of a file or of
//! the kernel).
//!
//! A queue is kept for its length, not for what it means: `interval::wait_queues` classifies it.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::sample::task::RawSyscall;
use crate::sample::waits::{MAX_WAIT_QUEUES, WaitQueue};
use crate::units::SmallSort;

/// The thread that was last seen waiting in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    pub pid: u32,
    pub syscall: Option<RawSyscall>,
    /// Its wait channel is that of a file lock: /proc/locks may name the holder.
    pub in_file_lock: bool,
}

/// Group, `ObservedWait::id`, futex address
type QueueKey = (u16, u32, Option<u64>);

/// The queues of the current interval.
#[derive(Debug, Default)]
pub struct WaitQueues {
    /// Sightings; the last waiter of a queue whose file is read
    counts: FxHashMap<QueueKey, (u32, Option<Waiter>)>,
}

impl WaitQueues {
    /// A sighting of a thread at a futex address where another thread of its group waits, too.
    pub fn add_at_shared_address(&mut self, group: u16, wait: u32, address: u64) {
        let (seen_count, _) = self.counts.entry((group, wait, Some(address))).or_default();
        *seen_count = seen_count.saturating_add(1);
    }

    /// A sighting of a thread in a wait whose file is to be read.
    pub fn add_with_file(&mut self, group: u16, wait: u32, waiter: Waiter) {
        let (seen_count, last) = self.counts.entry((group, wait, None)).or_default();
        *seen_count = seen_count.saturating_add(1);
        // The system call, which leads to the file, cannot always be read.
        if waiter.syscall.is_some() || last.is_none_or(|last| last.syscall.is_none()) {
            *last = Some(waiter);
        }
    }

    /// Ends the interval: the queues with the most sightings, sorted, and the waiter of each whose file is to be read.
    pub fn finish_interval(&mut self) -> (Vec<WaitQueue>, Vec<Option<Waiter>>) {
        let mut list: Vec<_> = self.counts.drain().collect();
        if list.len() > MAX_WAIT_QUEUES {
            list.small_sort_by_key(|&(key, (seen_count, _))| (Reverse(seen_count), key));
            list.truncate(MAX_WAIT_QUEUES);
        }
        list.small_sort_by_key(|&(key, _)| key);
        let queue = |((group, wait, futex_address), (seen_count, waiter))| {
            (WaitQueue { group, wait, futex_address, seen_count, file: None, lock_holder: None }, waiter)
        };
        list.into_iter().map(queue).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_queues_are_kept_whatever_they_are() {
        let mut queues = WaitQueues::default();
        for address in 0..100 {
            for _ in 0..address + 1 {
                queues.add_at_shared_address(0, 7, address);
            }
        }
        queues.add_with_file(1, 8, Waiter { pid: 5, syscall: None, in_file_lock: false });
        let (list, waiters) = queues.finish_interval();
        let longest: Vec<_> = list.iter().map(|queue| (queue.futex_address, queue.seen_count)).collect();
        assert_eq!(longest, (36..100).map(|address| (Some(address), address as u32 + 1)).collect::<Vec<_>>());
        assert!(waiters.iter().all(Option::is_none));
        assert!(queues.finish_interval().0.is_empty());
    }

    #[test]
    fn the_last_waiter_with_a_known_call_is_the_one_whose_file_is_read() {
        let mut queues = WaitQueues::default();
        let call = Some(RawSyscall { number: 73, arguments: [3, 0, 0] });
        for (pid, syscall) in [(1, None), (2, call), (3, call), (4, None)] {
            queues.add_with_file(0, 8, Waiter { pid, syscall, in_file_lock: true });
        }
        let (list, waiters) = queues.finish_interval();
        assert_eq!(list.iter().map(|queue| (queue.futex_address, queue.seen_count)).collect::<Vec<_>>(), [(None, 4)]);
        assert_eq!(waiters.iter().flatten().map(|waiter| waiter.pid).collect::<Vec<_>>(), [3]);
    }
}
