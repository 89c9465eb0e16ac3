//! The end of each group's chain: where its threads stand when they are on storage.
//!
//! In a convoy each of them is there for a moment and behind the others for the rest: what the last look at a thread saw is
//! mostly the waiting, and a single look on storage may have met a moment that says little. So all looks on storage are
//! counted, and the place that most of a group's saw is told.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::sample::Name;
use crate::sample::task::RawSyscall;
use crate::sample::waits::{BlockedThread, WaitClass};

/// Who has been so long in his last wait is told in that one, wherever he was before.
const LONG_WAIT_NS: u64 = 1_000_000_000;

/// Where the threads of each group were seen on storage in an interval.
#[derive(Debug, Default)]
pub(super) struct ChainEnds {
    /// By group and wait channel
    locations: FxHashMap<(u16, Option<Name>), WaitLocation>,
}

#[derive(Debug, Default)]
struct WaitLocation {
    /// How often somebody was seen there
    seen_count: u32,
    /// Who was there last, and another one before
    last_threads: [Option<LastThread>; 2],
}

/// A thread by its place in `Waits::threads`, and what it called.
#[derive(Clone, Copy, Debug)]
struct LastThread {
    thread_index: usize,
    syscall: Option<RawSyscall>,
}

impl WaitLocation {
    fn has_syscall(&self) -> bool {
        self.last_threads.iter().flatten().any(|seen| seen.syscall.is_some())
    }

    /// The call is not always to be had; of whom it was, the file is asked for.
    fn record(&mut self, new: LastThread) {
        let [last, before] = &mut self.last_threads;
        match last {
            Some(there) if there.syscall.is_some() && new.syscall.is_none() => {
                if there.thread_index != new.thread_index && before.is_none() {
                    *before = Some(new);
                }
            }
            Some(there) => {
                if there.thread_index != new.thread_index {
                    *before = Some(*there);
                }
                *there = new;
            }
            None => *last = Some(new),
        }
    }
}

impl ChainEnds {
    /// A thread was seen on storage.
    pub(super) fn record(&mut self, thread: usize, seen: &BlockedThread) {
        let place = self.locations.entry((seen.group, seen.wchan.clone())).or_default();
        place.seen_count = place.seen_count.saturating_add(1);
        place.record(LastThread { thread_index: thread, syscall: seen.syscall });
    }

    /// Ends the interval: who was seen where most of his group's looks on storage were is told there, although he queued again
    /// at the last one. Returns who they are, sorted.
    pub(super) fn assign(&mut self, blocked: &mut FxHashMap<usize, BlockedThread>, now_ns: u64) -> Vec<TaskId> {
        let mut most: FxHashMap<u16, (Option<Name>, WaitLocation)> = FxHashMap::default();
        for ((group, channel), place) in self.locations.drain() {
            let rank = |place: &WaitLocation| {
                (place.seen_count, place.has_syscall(), place.last_threads[0].map(|seen| seen.thread_index))
            };
            if most.get(&group).is_none_or(|(_, best)| rank(&place) > rank(best)) {
                most.insert(group, (channel, place));
            }
        }
        let mut settled = Vec::with_capacity(most.len());
        for (channel, place) in most.into_values() {
            // Who waits for memory or for completions by now, or hangs elsewhere, is no one's end of a queue.
            let tells = |seen: &LastThread| {
                blocked.get(&seen.thread_index).is_some_and(|last| {
                    matches!(last.class, WaitClass::Disk | WaitClass::Lock)
                        && (now_ns.saturating_sub(last.blocked_since_ns) < LONG_WAIT_NS || last.wchan == channel)
                })
            };
            let Some(LastThread { thread_index: thread, syscall: call }) = place.last_threads.into_iter().flatten().find(tells)
            else {
                continue;
            };
            let Some(end) = blocked.get_mut(&thread) else { continue };
            (end.class, end.wchan, end.syscall) = (WaitClass::Disk, channel, call);
            settled.push(end.task);
        }
        settled.sort_unstable();
        settled
    }
}

/// Brings the end of each group's chain to the front, as settled or else who was on storage most: who waits behind it has
/// waited longer.
pub(super) fn move_chain_ends_to_front(blocked: &mut [BlockedThread], settled: &[TaskId]) {
    let mut most: FxHashMap<u16, ((bool, u16), usize)> = FxHashMap::default();
    for (at, thread) in blocked.iter().enumerate().filter(|(_, thread)| thread.class == WaitClass::Disk) {
        let rank = (settled.binary_search(&thread.task).is_ok(), thread.seen_count);
        let best = most.entry(thread.group).or_insert((rank, at));
        if rank > best.0 {
            *best = (rank, at);
        }
    }
    let mut ends: Vec<usize> = most.into_values().map(|(_, at)| at).collect();
    ends.sort_unstable();
    for (front, at) in ends.into_iter().enumerate() {
        if let Some(part) = blocked.get_mut(front..=at) {
            part.rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, group: u16, class: WaitClass, times: u16, since_ns: u64) -> BlockedThread {
        BlockedThread {
            task: TaskId { pid: 1, tid, start_ticks: 1 },
            group,
            comm: Name::default(),
            class,
            wchan: None,
            syscall: None,
            seen_count: times,
            blocked_since_ns: since_ns,
            file: None,
            disk: None,
            mount: None,
        }
    }

    fn on_storage(tid: u32, channel: &str, call: Option<i64>) -> BlockedThread {
        let call = call.map(|number| RawSyscall { number, arguments: [3, 0, 0] });
        BlockedThread { wchan: Some(Name::from(channel)), syscall: call, ..thread(tid, 0, WaitClass::Disk, 1, 5) }
    }

    #[test]
    fn the_end_of_a_chain_is_described_however_many_have_waited_longer() {
        let mut blocked: Vec<BlockedThread> = (0..40).map(|at| thread(at, 0, WaitClass::Lock, 9, u64::from(at))).collect();
        blocked.push(thread(90, 0, WaitClass::Disk, 3, 90));
        blocked.push(thread(91, 0, WaitClass::Disk, 5, 91));
        blocked.push(thread(92, 1, WaitClass::Disk, 1, 92));
        let front = |blocked: &[BlockedThread]| blocked.iter().take(4).map(|thread| thread.task.tid).collect::<Vec<u32>>();
        let mut settled = blocked.clone();
        move_chain_ends_to_front(&mut blocked, &[]);
        assert_eq!((front(&blocked), blocked.len()), (vec![91, 92, 0, 1], 43));
        let who = settled[40].task;
        move_chain_ends_to_front(&mut settled, &[who]);
        assert_eq!((front(&settled), settled.len()), (vec![90, 92, 0, 1], 43));
    }

    const NOW: u64 = 100 * LONG_WAIT_NS;

    #[test]
    fn who_stands_in_the_queue_again_was_at_its_end() {
        let written = || on_storage(40, "__iomap_dio_rw", Some(18));
        // The last look found all of them behind the others, or somewhere else.
        let last =
            |tid, class, since_ns| BlockedThread { wchan: Some(Name::from("last")), ..thread(tid, 0, class, 9, since_ns) };
        let cases = [
            (WaitClass::Lock, NOW - 1, BlockedThread { seen_count: 9, blocked_since_ns: NOW - 1, ..written() }),
            (WaitClass::Disk, NOW - 1, BlockedThread { seen_count: 9, blocked_since_ns: NOW - 1, ..written() }),
            (WaitClass::Memory, NOW - 1, last(40, WaitClass::Memory, NOW - 1)),
            (WaitClass::Aio, NOW - 1, last(40, WaitClass::Aio, NOW - 1)),
            // It hangs there.
            (WaitClass::Lock, NOW - LONG_WAIT_NS, last(40, WaitClass::Lock, NOW - LONG_WAIT_NS)),
        ];
        for (class, since_ns, expected) in cases {
            let mut ends = ChainEnds::default();
            ends.record(0, &written());
            let others = last(41, WaitClass::Lock, 5);
            let mut blocked = [last(40, class, since_ns), others.clone()].into_iter().enumerate().collect();
            let settled = ends.assign(&mut blocked, NOW);
            assert_eq!((&blocked[&0], &blocked[&1]), (&expected, &others), "{class:?} since {since_ns}");
            assert_eq!(settled.len(), usize::from(expected.class == WaitClass::Disk), "{class:?} since {since_ns}");
            assert_eq!(ends.assign(&mut blocked, NOW), [], "another interval");
        }
    }

    #[test]
    fn another_one_that_was_there_will_do() {
        let mut ends = ChainEnds::default();
        for (at, tid, call) in [(0, 40, Some(18)), (1, 41, Some(18)), (1, 41, None), (0, 40, None)] {
            ends.record(at, &on_storage(tid, "__iomap_dio_rw", call));
        }
        let last = |tid, class| BlockedThread { blocked_since_ns: NOW, ..thread(tid, 0, class, 9, NOW) };
        let mut blocked = [last(40, WaitClass::Lock), last(41, WaitClass::Memory)].into_iter().enumerate().collect();
        let settled = ends.assign(&mut blocked, NOW);
        assert_eq!(
            blocked[&0],
            BlockedThread { seen_count: 9, blocked_since_ns: NOW, ..on_storage(40, "__iomap_dio_rw", Some(18)) }
        );
        assert_eq!((blocked[&1].clone(), settled.len()), (last(41, WaitClass::Memory), 1));
    }

    #[test]
    fn the_place_of_most_looks_is_told_with_the_call_that_was_had() {
        let (sync, page, wait) = ("jbd2_log_wait_commit", "folio_wait_bit", "submit_bio_wait");
        let looks =
            [(0, sync, Some(74)), (1, page, None), (2, sync, None), (3, page, Some(17)), (2, sync, None), (4, wait, None)];
        let mut ends = ChainEnds::default();
        let mut blocked = FxHashMap::default();
        for (at, channel, call) in looks {
            let seen = BlockedThread { blocked_since_ns: NOW, ..on_storage(40 + u32::try_from(at).unwrap(), channel, call) };
            ends.record(at, &seen);
            blocked.insert(at, seen);
        }
        // Who was seen there with a call was met elsewhere by the last look.
        blocked.insert(0, BlockedThread { blocked_since_ns: NOW, ..on_storage(40, page, None) });
        let settled = ends.assign(&mut blocked, NOW);
        assert_eq!(blocked[&0], BlockedThread { blocked_since_ns: NOW, ..on_storage(40, sync, Some(74)) });
        assert_eq!((blocked[&4].wchan.clone(), settled.len()), (Some(Name::from(wait)), 1), "one place of each group");
    }
}
