//! The end of each group's chain: where its threads stand when they are on storage.
//!
//! In a convoy each of them is there for a moment and behind the others for the rest: what the last look at a thread saw is
//! mostly the waiting, and a single look on storage may have met a moment that says little. So all looks on storage are
//! counted, and the place that most of a group's saw is told.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::sample::Name;
use crate::sample::task::SystemCall;
use crate::sample::waits::{BlockedThread, WaitClass};

/// Who has been so long in his last wait is told in that one, wherever he was before.
const LONG_NS: u64 = 1_000_000_000;

/// Where the threads of each group were seen on storage in an interval.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// By group and wait channel
    places: FxHashMap<(u16, Option<Name>), Place>,
}

#[derive(Debug, Default)]
struct Place {
    /// How often somebody was seen there
    looks: u32,
    /// Who was there last, and another one before
    who: [Option<Seen>; 2],
}

/// A thread by its place in `Waits::threads`, and what it called.
#[derive(Clone, Copy, Debug)]
struct Seen {
    thread: usize,
    call: Option<SystemCall>,
}

impl Place {
    fn has_call(&self) -> bool {
        self.who.iter().flatten().any(|seen| seen.call.is_some())
    }

    /// The call is not always to be had; of whom it was, the file is asked for.
    fn note(&mut self, new: Seen) {
        let [last, before] = &mut self.who;
        match last {
            Some(there) if there.call.is_some() && new.call.is_none() => {
                if there.thread != new.thread && before.is_none() {
                    *before = Some(new);
                }
            }
            Some(there) => {
                if there.thread != new.thread {
                    *before = Some(*there);
                }
                *there = new;
            }
            None => *last = Some(new),
        }
    }
}

impl Ends {
    /// A thread was seen on storage.
    pub(super) fn saw(&mut self, thread: usize, seen: &BlockedThread) {
        let place = self.places.entry((seen.group, seen.channel.clone())).or_default();
        place.looks = place.looks.saturating_add(1);
        place.note(Seen { thread, call: seen.call });
    }

    /// Ends the interval: who was seen where most of his group's looks on storage were is told there, although he queued again
    /// at the last one. Returns who they are, sorted.
    pub(super) fn settle(&mut self, blocked: &mut FxHashMap<usize, BlockedThread>, now_ns: u64) -> Vec<TaskId> {
        let mut most: FxHashMap<u16, (Option<Name>, Place)> = FxHashMap::default();
        for ((group, channel), place) in self.places.drain() {
            let rank = |place: &Place| (place.looks, place.has_call(), place.who[0].map(|seen| seen.thread));
            if most.get(&group).is_none_or(|(_, best)| rank(&place) > rank(best)) {
                most.insert(group, (channel, place));
            }
        }
        let mut settled = Vec::with_capacity(most.len());
        for (channel, place) in most.into_values() {
            // Who waits for memory or for completions by now, or hangs elsewhere, is no one's end of a queue.
            let tells = |seen: &Seen| {
                blocked.get(&seen.thread).is_some_and(|last| {
                    matches!(last.class, WaitClass::Disk | WaitClass::Lock)
                        && (now_ns.saturating_sub(last.since_ns) < LONG_NS || last.channel == channel)
                })
            };
            let Some(Seen { thread, call }) = place.who.into_iter().flatten().find(tells) else { continue };
            let Some(end) = blocked.get_mut(&thread) else { continue };
            (end.class, end.channel, end.call) = (WaitClass::Disk, channel, call);
            settled.push(end.task);
        }
        settled.sort_unstable();
        settled
    }
}

/// Brings the end of each group's chain to the front, as settled or else who was on storage most: who waits behind it has
/// waited longer.
pub(super) fn keep_an_end_of_each_chain(blocked: &mut [BlockedThread], settled: &[TaskId]) {
    let mut most: FxHashMap<u16, ((bool, u16), usize)> = FxHashMap::default();
    for (at, thread) in blocked.iter().enumerate().filter(|(_, thread)| thread.class == WaitClass::Disk) {
        let rank = (settled.binary_search(&thread.task).is_ok(), thread.times);
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
            channel: None,
            call: None,
            times,
            since_ns,
            file: None,
            disk: None,
            mount: None,
        }
    }

    fn on_storage(tid: u32, channel: &str, call: Option<i64>) -> BlockedThread {
        let call = call.map(|number| SystemCall { number, arguments: [3, 0, 0] });
        BlockedThread { channel: Some(Name::from(channel)), call, ..thread(tid, 0, WaitClass::Disk, 1, 5) }
    }

    #[test]
    fn the_end_of_a_chain_is_described_however_many_have_waited_longer() {
        let mut blocked: Vec<BlockedThread> = (0..40).map(|at| thread(at, 0, WaitClass::Lock, 9, u64::from(at))).collect();
        blocked.push(thread(90, 0, WaitClass::Disk, 3, 90));
        blocked.push(thread(91, 0, WaitClass::Disk, 5, 91));
        blocked.push(thread(92, 1, WaitClass::Disk, 1, 92));
        let front = |blocked: &[BlockedThread]| blocked.iter().take(4).map(|thread| thread.task.tid).collect::<Vec<u32>>();
        let mut settled = blocked.clone();
        keep_an_end_of_each_chain(&mut blocked, &[]);
        assert_eq!((front(&blocked), blocked.len()), (vec![91, 92, 0, 1], 43));
        let who = settled[40].task;
        keep_an_end_of_each_chain(&mut settled, &[who]);
        assert_eq!((front(&settled), settled.len()), (vec![90, 92, 0, 1], 43));
    }

    const NOW: u64 = 100 * LONG_NS;

    #[test]
    fn who_stands_in_the_queue_again_was_at_its_end() {
        let written = || on_storage(40, "__iomap_dio_rw", Some(18));
        // The last look found all of them behind the others, or somewhere else.
        let last =
            |tid, class, since_ns| BlockedThread { channel: Some(Name::from("last")), ..thread(tid, 0, class, 9, since_ns) };
        let cases = [
            (WaitClass::Lock, NOW - 1, BlockedThread { times: 9, since_ns: NOW - 1, ..written() }),
            (WaitClass::Disk, NOW - 1, BlockedThread { times: 9, since_ns: NOW - 1, ..written() }),
            (WaitClass::Memory, NOW - 1, last(40, WaitClass::Memory, NOW - 1)),
            (WaitClass::Aio, NOW - 1, last(40, WaitClass::Aio, NOW - 1)),
            // It hangs there.
            (WaitClass::Lock, NOW - LONG_NS, last(40, WaitClass::Lock, NOW - LONG_NS)),
        ];
        for (class, since_ns, expected) in cases {
            let mut ends = Ends::default();
            ends.saw(0, &written());
            let others = last(41, WaitClass::Lock, 5);
            let mut blocked = [last(40, class, since_ns), others.clone()].into_iter().enumerate().collect();
            let settled = ends.settle(&mut blocked, NOW);
            assert_eq!((&blocked[&0], &blocked[&1]), (&expected, &others), "{class:?} since {since_ns}");
            assert_eq!(settled.len(), usize::from(expected.class == WaitClass::Disk), "{class:?} since {since_ns}");
            assert_eq!(ends.settle(&mut blocked, NOW), [], "another interval");
        }
    }

    #[test]
    fn another_one_that_was_there_will_do() {
        let mut ends = Ends::default();
        for (at, tid, call) in [(0, 40, Some(18)), (1, 41, Some(18)), (1, 41, None), (0, 40, None)] {
            ends.saw(at, &on_storage(tid, "__iomap_dio_rw", call));
        }
        let last = |tid, class| BlockedThread { since_ns: NOW, ..thread(tid, 0, class, 9, NOW) };
        let mut blocked = [last(40, WaitClass::Lock), last(41, WaitClass::Memory)].into_iter().enumerate().collect();
        let settled = ends.settle(&mut blocked, NOW);
        assert_eq!(blocked[&0], BlockedThread { times: 9, since_ns: NOW, ..on_storage(40, "__iomap_dio_rw", Some(18)) });
        assert_eq!((blocked[&1].clone(), settled.len()), (last(41, WaitClass::Memory), 1));
    }

    #[test]
    fn the_place_of_most_looks_is_told_with_the_call_that_was_had() {
        let (sync, page, wait) = ("jbd2_log_wait_commit", "folio_wait_bit", "submit_bio_wait");
        let looks =
            [(0, sync, Some(74)), (1, page, None), (2, sync, None), (3, page, Some(17)), (2, sync, None), (4, wait, None)];
        let mut ends = Ends::default();
        let mut blocked = FxHashMap::default();
        for (at, channel, call) in looks {
            let seen = BlockedThread { since_ns: NOW, ..on_storage(40 + u32::try_from(at).unwrap(), channel, call) };
            ends.saw(at, &seen);
            blocked.insert(at, seen);
        }
        // Who was seen there with a call was met elsewhere by the last look.
        blocked.insert(0, BlockedThread { since_ns: NOW, ..on_storage(40, page, None) });
        let settled = ends.settle(&mut blocked, NOW);
        assert_eq!(blocked[&0], BlockedThread { since_ns: NOW, ..on_storage(40, sync, Some(74)) });
        assert_eq!((blocked[&4].channel.clone(), settled.len()), (Some(Name::from(wait)), 1), "one place of each group");
    }
}
