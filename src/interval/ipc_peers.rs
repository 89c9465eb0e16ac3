//! Threads that wait in a pipe or Unix socket for a process of their group that is on storage.
//!
//! A pool of idle workers sleeps in the same read, so the processes that have the other end open decide: one of them must be on
//! storage, and none may be working. A waiter whose other end is unknown does not count.

use rustc_hash::FxHashMap;

use super::wait_counts::{MIN_ON_STORAGE_SHARE, ThreadWaits, WaitCounts};
use crate::ids::TaskId;
use crate::sample::waits::{WaitClass, Waits};

/// A thread of a holder that waits for locks in this share of its sub-samples is not working.
const MIN_LOCK_SHARE: f64 = 0.5;

/// Waiters with a holder on storage.
#[derive(Clone, Debug, Default)]
pub struct IpcPeers {
    /// With their group, the counts of their classes, and the holder; sorted by task
    blocked: Vec<(u16, ThreadWaits, u32)>,
}

/// Waiters of one group in pipes, or in sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedPeers {
    /// Sightings of them there
    pub seen_count: u32,
    /// Pid of a holder on storage
    pub holder: u32,
}

impl IpcPeers {
    pub fn new(waits: &Waits, counts: &WaitCounts) -> IpcPeers {
        let waiting: FxHashMap<TaskId, (u16, u16)> =
            waits.ipc_waiters.iter().map(|waiter| (waiter.task, (waiter.group, waiter.peer))).collect();
        let blocked = waits.ipc_waiters.iter().filter_map(|waiter| {
            let end = (waiter.group, waiter.peer);
            let from = waits.ipc_holders.partition_point(|holder| (holder.group, holder.peer) < end);
            let holders = waits.ipc_holders.iter().skip(from).take_while(|holder| (holder.group, holder.peer) == end);
            let mut on_storage = None;
            for holder in holders {
                match HolderState::new(counts, &waiting, end, holder.pid) {
                    HolderState::OnStorage => on_storage = Some(holder.pid),
                    HolderState::Waiting => {}
                    HolderState::Working => return None,
                }
            }
            let at = counts.threads.binary_search_by_key(&waiter.task, |thread| thread.task).ok()?;
            Some((waiter.group, counts.threads.get(at)?.clone(), on_storage?))
        });
        IpcPeers { blocked: blocked.collect() }
    }

    /// The blocked waiters of a group in waits of this class: `Pipe`, or `Net` for sockets.
    pub fn blocked(&self, group: u16, class: WaitClass) -> Option<BlockedPeers> {
        let of_group = self.blocked.iter().filter(|(of, thread, _)| *of == group && thread.count(class) > 0);
        of_group.fold(None, |found, (_, thread, holder)| {
            let (seen_count, holder) = found.map_or((0, *holder), |found: BlockedPeers| (found.seen_count, found.holder));
            Some(BlockedPeers { seen_count: seen_count.saturating_add(thread.count(class)), holder })
        })
    }

    /// Of each group, by index into `Waits::groups`: which share of its sightings in pipes and sockets are of blocked waiters.
    pub fn blocked_shares(&self, groups: usize, counts: &WaitCounts) -> Vec<f64> {
        let in_ipc = |thread: &ThreadWaits| f64::from(thread.count(WaitClass::Pipe) + thread.count(WaitClass::Net));
        let mut shares = vec![0.0; groups];
        for (group, thread, _) in &self.blocked {
            if let Some(share) = shares.get_mut(usize::from(*group)) {
                *share += in_ipc(thread);
            }
        }
        for (group, share) in (0_u16..).zip(&mut shares).filter(|(_, share)| **share > 0.0) {
            let all: f64 = counts.threads.iter().filter(|thread| thread.group == group).map(in_ipc).sum();
            *share = (*share / all.max(1.0)).min(1.0);
        }
        shares
    }
}

/// What a process that holds an end did in this interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HolderState {
    /// One of its threads is on storage, and the others wait for locks
    OnStorage,
    /// Parked, or waiting at the same end
    Waiting,
    /// A thread of it did something else, and may be the one that writes
    Working,
}

impl HolderState {
    fn new(counts: &WaitCounts, waiting: &FxHashMap<TaskId, (u16, u16)>, end: (u16, u16), pid: u32) -> HolderState {
        let mut state = HolderState::Waiting;
        for thread in counts.process_threads(pid).iter().filter(|thread| waiting.get(&thread.task) != Some(&end)) {
            let all = f64::from(thread.sub_sample_count().max(1));
            if f64::from(thread.count(WaitClass::Disk)) / all >= MIN_ON_STORAGE_SHARE {
                state = HolderState::OnStorage;
            } else if f64::from(thread.count(WaitClass::Lock) + thread.count(WaitClass::Futex)) / all < MIN_LOCK_SHARE {
                return HolderState::Working;
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::waits::{IpcHolder, IpcWaiter};

    fn task(pid: u32, tid: u32) -> TaskId {
        TaskId { pid, tid, start_ticks: 1 }
    }

    fn thread(pid: u32, tid: u32, class: WaitClass) -> ThreadWaits {
        let mut class_counts = [0; WaitClass::COUNT];
        class_counts[class as usize] = 10;
        ThreadWaits { task: task(pid, tid), group: 0, class_counts, blocked_other: 0 }
    }

    /// The waiters of a group whose thread 10 waits for an end that these processes hold.
    fn peers(threads: Vec<ThreadWaits>, holders: &[u32]) -> (IpcPeers, WaitCounts) {
        let waits = Waits {
            ipc_waiters: vec![IpcWaiter { task: task(10, 10), group: 0, peer: 3 }],
            ipc_holders: holders.iter().map(|&pid| IpcHolder { group: 0, peer: 3, pid }).collect(),
            ..Waits::default()
        };
        let counts = WaitCounts { threads, ..WaitCounts::default() };
        (IpcPeers::new(&waits, &counts), counts)
    }

    fn holder(threads: Vec<ThreadWaits>, holders: &[u32]) -> Option<u32> {
        peers(threads, holders).0.blocked(0, WaitClass::Pipe).map(|blocked| blocked.holder)
    }

    #[test]
    fn a_waiter_is_blocked_if_one_holder_is_on_storage_and_none_works() {
        let client = || thread(10, 10, WaitClass::Pipe);
        let server = |class| thread(20, 20, class);
        assert_eq!(holder(vec![client(), server(WaitClass::Disk)], &[20]), Some(20));
        assert_eq!(holder(vec![client(), server(WaitClass::Disk)], &[10, 20]), Some(20), "it waits at its own end");
        assert_eq!(holder(vec![client(), server(WaitClass::Poll)], &[20]), None, "a dispatcher that waits for work");
        let logger = vec![client(), server(WaitClass::Disk), thread(20, 21, WaitClass::Timer)];
        assert_eq!(holder(logger, &[20]), None, "which of its threads writes is not known");
        let behind = vec![client(), server(WaitClass::Disk), thread(20, 21, WaitClass::Futex)];
        assert_eq!(holder(behind, &[20]), Some(20));
        let two = vec![client(), server(WaitClass::Disk), thread(30, 30, WaitClass::Poll)];
        assert_eq!(holder(two, &[20, 30]), None, "another process has it, too, and works");
        assert_eq!(holder(vec![client()], &[20]), None, "a parked process writes nothing, and waits for nothing");
        assert_eq!(holder(vec![client(), server(WaitClass::Disk)], &[]), None);
    }

    #[test]
    fn only_blocked_waiters_are_counted() {
        let other = thread(11, 11, WaitClass::Pipe);
        let (peers, counts) = peers(vec![thread(10, 10, WaitClass::Pipe), other, thread(20, 20, WaitClass::Disk)], &[20]);
        assert_eq!(peers.blocked(0, WaitClass::Pipe), Some(BlockedPeers { seen_count: 10, holder: 20 }));
        assert_eq!(peers.blocked(0, WaitClass::Net), None);
        assert_eq!(peers.blocked_shares(1, &counts), [0.5]);
    }
}
