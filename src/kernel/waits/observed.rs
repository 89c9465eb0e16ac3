//! Numbers the waits in which sub-samples see threads, and counts the threads of one sub-sample by group and wait.

use rustc_hash::FxHashMap;

use super::wait_queues::WaitQueues;
use crate::kernel::scan::KnownThread;
use crate::sample::task::TaskState;
use crate::sample::waits::{GroupWait, ObservedWait};

/// With more waits the numbers begin anew at the end of an interval: that only costs bytes in a recording.
const MAX_WAITS: usize = 4096;

/// The number of each wait that was seen. A wait keeps its number, so that consecutive samples differ little.
#[derive(Debug, Default)]
pub struct ObservedWaits {
    /// By wait, with an `id` of 0: its number, and whether it was seen in this interval
    numbers: FxHashMap<ObservedWait, (u32, bool)>,
}

impl ObservedWaits {
    /// The number of the wait in which a thread was last read.
    pub fn number(&mut self, thread: &KnownThread) -> u32 {
        let sleeps = matches!(thread.state, TaskState::Sleeping | TaskState::Blocked);
        let is_futex = thread.futex_wait.is_some();
        let wait = ObservedWait {
            id: 0,
            state: thread.state,
            wchan: thread.wait.wchan.as_ref().ok().filter(|_| sleeps).cloned(),
            syscall: thread.wait.syscall().ok().filter(|_| sleeps).map(|call| ObservedWait::kept_syscall(call, is_futex)),
            has_timeout: sleeps && thread.has_timeout,
            is_behind_named_owner: sleeps && thread.java_wait.lock().is_none() && thread.waits_for_named_owner(),
            wait_event: thread.wait_event.filter(|_| sleeps && is_futex),
            java_lock: thread.java_wait.lock().filter(|_| sleeps && is_futex).map(|lock| lock.kind),
        };
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let (number, seen) = self.numbers.entry(wait).or_insert((next, false));
        *seen = true;
        *number
    }

    /// The waits that were seen in this interval, sorted by number.
    pub fn finish_interval(&mut self) -> Vec<ObservedWait> {
        let seen = self.numbers.iter_mut().filter_map(|(wait, (id, seen))| std::mem::take(seen).then_some((wait, *id)));
        let mut list: Vec<ObservedWait> = seen.map(|(wait, id)| ObservedWait { id, ..wait.clone() }).collect();
        list.sort_unstable_by_key(|wait| wait.id);
        if self.numbers.len() > MAX_WAITS {
            self.numbers.clear();
        }
        list
    }
}

/// Threads of the current sub-sample by group, wait and activity.
#[derive(Debug, Default)]
pub struct GroupWaitCounts {
    counts: FxHashMap<RowKey, (u16, u16)>,
    /// Threads at each futex address: how many, and the row of the first one until another comes
    addresses: FxHashMap<(u16, u64), (u32, RowKey)>,
}

/// Group, wait, whether the threads are active
type RowKey = (u16, u32, bool);

impl GroupWaitCounts {
    /// `address`: of the futex in which the thread waits. Threads that share one are added to `queues`.
    pub fn add(&mut self, (group, wait, active): (u16, u32, bool), address: Option<u64>, queues: &mut WaitQueues) {
        let key = (group, wait, active);
        let (threads, _) = self.counts.entry(key).or_default();
        *threads = threads.saturating_add(1);
        let Some(address) = address else { return };
        let (waiters, first) = self.addresses.entry((group, address)).or_insert((0, key));
        *waiters += 1;
        let shared = match *waiters {
            1 => return,
            2 => [Some(*first), Some(key)],
            _ => [Some(key), None],
        };
        for key in shared.into_iter().flatten() {
            queues.add_at_shared_address(group, key.1, address);
            if let Some((_, at_shared)) = self.counts.get_mut(&key) {
                *at_shared = at_shared.saturating_add(1);
            }
        }
    }

    /// Ends the sub-sample: its rows, sorted.
    pub fn take_rows(&mut self) -> Vec<GroupWait> {
        self.addresses.clear();
        let row = |((group, wait, active), (threads, at_shared_address))| GroupWait {
            group,
            wait,
            active,
            threads,
            at_shared_address,
        };
        let mut rows: Vec<GroupWait> = self.counts.drain().map(row).collect();
        rows.sort_unstable_by_key(|row| (row.group, row.wait, row.active));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_at_one_futex_address_are_counted_in_their_rows() {
        let (mut counts, mut queues) = (GroupWaitCounts::default(), WaitQueues::default());
        for (wait, active, address) in [(7, false, 16), (7, true, 16), (8, true, 16), (7, true, 32)] {
            counts.add((0, wait, active), Some(address), &mut queues);
        }
        counts.add((1, 7, true), Some(16), &mut queues);
        counts.add((1, 9, true), None, &mut queues);
        let row =
            |group, wait, active, threads, at_shared_address| GroupWait { group, wait, active, threads, at_shared_address };
        let expected = [
            row(0, 7, false, 1, 1),
            row(0, 7, true, 2, 1),
            row(0, 8, true, 1, 1),
            row(1, 7, true, 1, 0),
            row(1, 9, true, 1, 0),
        ];
        assert_eq!(counts.take_rows(), expected);
        assert!(counts.take_rows().is_empty());
        let queues = queues.finish_interval().0;
        let short: Vec<_> =
            queues.iter().map(|queue| (queue.group, queue.wait, queue.futex_address, queue.seen_count)).collect();
        assert_eq!(short, [(0, 7, Some(16), 2), (0, 8, Some(16), 1)]);
    }
}
