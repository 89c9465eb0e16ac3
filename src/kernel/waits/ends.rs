//! The end of each group's chain: where its threads stand when they are on storage.
//!
//! In a convoy each of them is there for a moment and behind the others for the rest: what the last look at a thread saw is
//! mostly the waiting, and a single look on storage may have met a moment that says little. So a group's looks on storage
//! vote for a place.

use rustc_hash::FxHashMap;

use crate::sample::Name;
use crate::sample::task::SystemCall;
use crate::sample::waits::{BlockedThread, WaitClass};

/// The place where most looks of an interval found the threads of each group on storage.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// By group
    leading: FxHashMap<u16, Leading>,
}

/// By Boyer and Moore's vote: a place that more than half of the looks saw is there at the end.
#[derive(Debug)]
struct Leading {
    votes: u32,
    /// The thread that was seen there last, by its place in `Waits::threads`
    thread: usize,
    channel: Option<Name>,
    call: Option<SystemCall>,
}

impl Ends {
    /// A thread was seen on storage.
    pub(super) fn saw(&mut self, thread: usize, seen: &BlockedThread) {
        let new = || Leading { votes: 0, thread, channel: seen.channel.clone(), call: seen.call };
        let leading = self.leading.entry(seen.group).or_insert_with(new);
        if leading.channel == seen.channel {
            leading.votes = leading.votes.saturating_add(1);
            // The call is not always to be had; of whom it was, the file is asked for.
            if seen.call.is_some() || leading.call.is_none() {
                (leading.thread, leading.call) = (thread, seen.call);
            }
        } else if leading.votes <= 1 {
            *leading = Leading { votes: 1, ..new() };
        } else {
            leading.votes -= 1;
        }
    }

    /// Ends the interval: describes who was seen in each group's place as being there, wherever the last look found him.
    /// Since when he waits stays what it was: no end is older than the wait that he is in.
    pub(super) fn settle(&mut self, blocked: &mut FxHashMap<usize, BlockedThread>) {
        for (_, Leading { thread, channel, call, .. }) in self.leading.drain() {
            if let Some(seen) = blocked.get_mut(&thread) {
                (seen.class, seen.channel, seen.call) = (WaitClass::Disk, channel, call);
            }
        }
    }
}

/// Brings the thread that was on storage most in each group to the front: who waits behind it has waited longer.
pub(super) fn keep_an_end_of_each_chain(blocked: &mut [BlockedThread]) {
    let mut most: FxHashMap<u16, (u16, usize)> = FxHashMap::default();
    for (at, thread) in blocked.iter().enumerate().filter(|(_, thread)| thread.class == WaitClass::Disk) {
        let best = most.entry(thread.group).or_insert((thread.times, at));
        if thread.times > best.0 {
            *best = (thread.times, at);
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
    use crate::ids::TaskId;

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
        keep_an_end_of_each_chain(&mut blocked);
        let front: Vec<u32> = blocked.iter().take(4).map(|thread| thread.task.tid).collect();
        assert_eq!((front, blocked.len()), (vec![91, 92, 0, 1], 43));
    }

    #[test]
    fn who_stands_in_the_queue_again_was_at_its_end() {
        let mut ends = Ends::default();
        ends.saw(0, &on_storage(40, "__iomap_dio_rw", Some(18)));
        // The last look found all of them behind the others.
        let queued = |tid| BlockedThread { channel: Some(Name::from("rwsem")), ..thread(tid, 0, WaitClass::Lock, 9, 70) };
        let mut blocked: FxHashMap<usize, BlockedThread> = [(0, queued(40)), (1, queued(41))].into_iter().collect();
        ends.settle(&mut blocked);
        let expected = BlockedThread { times: 9, since_ns: 70, ..on_storage(40, "__iomap_dio_rw", Some(18)) };
        assert_eq!((&blocked[&0], &blocked[&1]), (&expected, &queued(41)));
        let mut next: FxHashMap<usize, BlockedThread> = [(0, queued(40))].into_iter().collect();
        ends.settle(&mut next);
        assert_eq!(next[&0], queued(40), "another interval");
    }

    #[test]
    fn the_place_of_most_looks_wins_with_the_call_that_was_had() {
        let (sync, page) = ("jbd2_log_wait_commit", "folio_wait_bit");
        let looks =
            [(0, sync, Some(74)), (1, page, None), (2, sync, None), (3, page, Some(17)), (2, sync, None), (1, page, None)];
        let mut ends = Ends::default();
        let mut blocked = FxHashMap::default();
        for (at, channel, call) in looks.into_iter().chain([(0, sync, Some(74)), (4, sync, None)]) {
            let seen = on_storage(40 + u32::try_from(at).unwrap(), channel, call);
            ends.saw(at, &seen);
            blocked.insert(at, seen);
        }
        // Whoever was seen there with a call is looked at again where a page was written.
        blocked.insert(0, on_storage(40, page, None));
        ends.settle(&mut blocked);
        assert_eq!(blocked[&0], on_storage(40, sync, Some(74)));
        assert_eq!(blocked[&1], on_storage(41, page, None), "one place of each group");
    }
}
