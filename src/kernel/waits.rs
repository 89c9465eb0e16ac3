//! Sub-samples: what the hot threads do between two samples, counted by group and wait class (`sample/waits.rs`).
//!
//! The class of a wait is in `sample/waits/class.rs`; which threads are hot, in `scan/thread.rs`.

pub mod blocked;
pub mod budget;
mod file_locks;
mod ipc_peers;
mod remote_waits;
mod wait_queues;

use rustc_hash::FxHashMap;

use self::ipc_peers::PeerWait;
use self::wait_queues::{MutexCandidate, WaitQueues, Waiter};
use super::scan::{KnownProcess, KnownThread};
use crate::ids::GroupId;
use crate::sample::cpu::CpuTimes;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::{
    BlockedThread, FutexWait, GroupWaits, SubSample, ThreadWaits, WaitClass, WaitQueueKind, Waits, class,
};

/// The sub-samples since the last sample.
#[derive(Debug, Default)]
pub struct WaitCounter {
    waits: Waits,
    group_numbers: FxHashMap<GroupId, u16>,
    /// The waits of threads that were seen blocked, by the thread's place in `waits.threads`
    blocked: FxHashMap<usize, Vec<BlockedThread>>,
    /// Counts of the current sub-sample, by group number
    group_counts: Vec<GroupWaits>,
    wait_queues: WaitQueues,
    /// Active threads seen asleep in a pipe or socket
    peer_waits: Vec<PeerWait>,
    /// Number of the interval: a record that a process or thread keeps for another one is void.
    interval_number: u32,
}

/// What is read at the same moment as the threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossChecks {
    pub boottime_ns: u64,
    pub cpu: Option<CpuTimes>,
    pub in_flight: Option<u32>,
}

impl WaitCounter {
    /// Counts what the hot threads of these processes were doing when they were last read.
    pub fn record_sub_sample<'a>(&mut self, awake: impl Iterator<Item = &'a mut KnownProcess>, witnesses: CrossChecks) {
        self.group_counts.iter_mut().for_each(|counts| *counts = GroupWaits::default());
        for known in awake.filter(|known| known.hot_threads().next().is_some()) {
            // Threads of more than 65,536 groups are not counted.
            let Some(group) = self.group_number(known) else { continue };
            known.for_each_hot_thread(|process, thread, sampled| {
                if thread.is_hot(witnesses.boottime_ns) {
                    self.count_thread(process, thread, sampled.start_ticks, group, witnesses);
                }
            });
        }
        self.wait_queues.classify_mutex_candidates(&mut self.group_counts);
        let groups = (0_u16..).zip(&self.group_counts).filter(|(_, counts)| **counts != GroupWaits::default());
        let groups = groups.map(|(group, counts)| GroupWaits { group, ..*counts }).collect();
        let CrossChecks { boottime_ns, cpu, in_flight } = witnesses;
        self.waits.sub_samples.push(SubSample { boottime_ns, cpu, in_flight, groups });
    }

    /// A sub-sample was due and was not taken, because of its budget.
    pub fn record_skipped(&mut self) {
        self.waits.skipped_sub_samples = self.waits.skipped_sub_samples.saturating_add(1);
    }

    /// Ends the interval and returns what was seen in it. `blocked::resolve_files` adds the files that threads wait for.
    pub fn finish_interval(&mut self) -> IntervalWaits {
        self.interval_number = self.interval_number.wrapping_add(1);
        self.group_numbers.clear();
        self.group_counts.clear();
        let blocked = blocked::select_threads(self.blocked.drain().map(|(_, waits)| waits).collect());
        let mut waits = std::mem::take(&mut self.waits);
        let mut held = vec![false; waits.groups.len()];
        for row in waits.sub_samples.iter().flat_map(|sub| &sub.groups).filter(|row| row.storage > 0) {
            if let Some(held) = held.get_mut(usize::from(row.group)) {
                *held = true;
            }
        }
        let (queues, waiters) = self.wait_queues.finish_interval(&held);
        waits.blocked = blocked;
        waits.wait_queues = queues;
        waits.threads.sort_unstable_by_key(|thread| thread.task);
        IntervalWaits { waits, waiters, peer_waits: std::mem::take(&mut self.peer_waits) }
    }

    fn group_number(&mut self, known: &mut KnownProcess) -> Option<u16> {
        if let Some(number) = known.group_number(self.interval_number) {
            return Some(number);
        }
        let group = known.sampled.group();
        let number = match self.group_numbers.get(&group) {
            Some(&number) => number,
            None => {
                let number = u16::try_from(self.waits.groups.len()).ok()?;
                self.waits.groups.push(group.clone());
                self.group_counts.push(GroupWaits::default());
                self.group_numbers.insert(group, number);
                number
            }
        };
        known.set_group_number(self.interval_number, number);
        Some(number)
    }

    fn count_thread(&mut self, of: &Process, thread: &mut KnownThread, start_ticks: u64, group: u16, witnesses: CrossChecks) {
        // State and wait contradict each other: not counted in this sub-sample.
        let Some(mut class) = thread.wait_class else { return };
        if class == WaitClass::Futex && thread.is_idle_wait() {
            // It waits for a timeout or for work, so it is not blocked with its group.
            class = WaitClass::Other;
        }
        let task = crate::ids::TaskId { pid: of.pid, tid: thread.tid, start_ticks };
        let place = match thread.wait_record {
            Some((interval, place)) if interval == self.interval_number => place,
            _ => {
                let place = self.waits.threads.len();
                self.waits.threads.push(ThreadWaits { task, group, class_counts: [0; WaitClass::COUNT] });
                thread.wait_record = Some((self.interval_number, place));
                place
            }
        };
        if let Some(seen) = self.waits.threads.get_mut(place).and_then(|waits| waits.class_counts.get_mut(class as usize)) {
            *seen = seen.saturating_add(1);
        }
        let Some(counts) = self.group_counts.get_mut(usize::from(group)) else { return };
        let active = thread.is_active(witnesses.boottime_ns);
        let in_file_lock = || thread.wait.wchan.as_ref().is_ok_and(|channel| class::is_file_lock(channel.as_bytes()));
        let file_lock = class == WaitClass::Lock && in_file_lock();
        let queue =
            count_in_group(counts, ObservedThread { state: thread.state, class, futex: thread.futex_wait, file_lock, active });
        if let Some(kind) = queue {
            let waiter = Waiter { task, wchan: thread.wait.wchan.clone().ok(), syscall: thread.wait.syscall().ok() };
            match (kind, thread.futex_wait) {
                (WaitQueueKind::Pipe | WaitQueueKind::Socket, _) => {
                    if self.peer_waits.len() < ipc_peers::MAX_PEER_WAITS {
                        self.peer_waits.push(PeerWait { sub_sample: self.waits.sub_samples.len(), group, task, kind });
                    }
                    self.wait_queues.add(group, kind, None, waiter);
                }
                (WaitQueueKind::Mutex, Some(FutexWait::ContendedMutex { address })) => {
                    self.wait_queues.add_mutex_candidate(MutexCandidate {
                        group,
                        address,
                        active: active && !thread.has_timeout,
                        waiter,
                    });
                }
                (_, Some(FutexWait::PiLock { address })) => self.wait_queues.add(group, kind, Some(address), waiter),
                _ => self.wait_queues.add(group, kind, None, waiter),
            }
        }
        if !is_blocked(thread.state, class) {
            return;
        }
        // An idle service waits for completions, too.
        if class == WaitClass::Aio && witnesses.in_flight == Some(0) {
            return;
        }
        let last_sub_sample = u16::try_from(self.waits.sub_samples.len()).unwrap_or(u16::MAX);
        let wait = BlockedThread {
            task,
            group,
            comm: thread.comm.clone(),
            state: thread.state,
            class,
            wchan: thread.wait.wchan.clone().ok(),
            syscall: thread.wait.syscall().ok(),
            seen_count: 1,
            last_sub_sample,
            blocked_since_ns: thread.waiting_since_ns(),
            file: None,
            disk: None,
            mount: None,
        };
        blocked::record(self.blocked.entry(place).or_default(), wait);
    }
}

/// What was seen in an interval, and the threads whose files and peers are to be read.
#[derive(Debug)]
pub struct IntervalWaits {
    pub waits: Waits,
    /// Parallel to `waits.wait_queues`
    waiters: Vec<Waiter>,
    peer_waits: Vec<PeerWait>,
}

/// Whether the thread itself is kept in `Waits::blocked`.
fn is_blocked(state: TaskState, class: WaitClass) -> bool {
    match state {
        TaskState::Blocked => !matches!(class, WaitClass::Vfork | WaitClass::Frozen),
        TaskState::Sleeping => matches!(class, WaitClass::Memory | WaitClass::Aio | WaitClass::Disk),
        _ => false,
    }
}

/// What a sub-sample saw of a thread.
#[derive(Clone, Copy, Debug)]
struct ObservedThread {
    state: TaskState,
    class: WaitClass,
    futex: Option<FutexWait>,
    /// Its wait channel is one of flock or fcntl
    file_lock: bool,
    active: bool,
}

/// Adds one thread to the counts of its group; returns the kind of queue that it waits in. A mutex that only the futex value shows is
/// counted at the end of the sub-sample, when the addresses of all waiters are known.
fn count_in_group(counts: &mut GroupWaits, seen: ObservedThread) -> Option<WaitQueueKind> {
    let (count, queue) = match (seen.state, seen.class) {
        (TaskState::Running, _) => (&mut counts.running, None),
        (TaskState::Blocked, WaitClass::Vfork | WaitClass::Frozen) => return None,
        (TaskState::Blocked | TaskState::Sleeping, WaitClass::Disk) => (&mut counts.storage, None),
        (TaskState::Blocked | TaskState::Sleeping, WaitClass::Memory) => (&mut counts.memory, None),
        (TaskState::Blocked, WaitClass::Hidden) => {
            counts.hidden_blocked = counts.hidden_blocked.saturating_add(1);
            (&mut counts.other_blocked, None)
        }
        (TaskState::Blocked | TaskState::Sleeping, WaitClass::Lock) => match seen.futex {
            Some(FutexWait::ContendedMutex { .. }) => return Some(WaitQueueKind::Mutex),
            Some(FutexWait::PiLock { .. }) => (&mut counts.lock_contended, Some(WaitQueueKind::Mutex)),
            _ if seen.file_lock => {
                counts.file_lock = counts.file_lock.saturating_add(1);
                (&mut counts.lock_contended, Some(WaitQueueKind::FileLock))
            }
            _ => (&mut counts.lock_contended, Some(WaitQueueKind::KernelLock)),
        },
        (TaskState::Blocked, _) => (&mut counts.other_blocked, None),
        (TaskState::Sleeping, WaitClass::Aio) => (&mut counts.aio, None),
        (TaskState::Sleeping, WaitClass::Futex) if seen.active => (&mut counts.lock_inferred, Some(WaitQueueKind::Futex)),
        (TaskState::Sleeping, WaitClass::Pipe) if seen.active => (&mut counts.ipc_peer, Some(WaitQueueKind::Pipe)),
        (TaskState::Sleeping, WaitClass::Net) if seen.active => (&mut counts.ipc_peer, Some(WaitQueueKind::Socket)),
        _ => return None,
    };
    *count = count.saturating_add(1);
    queue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_counts_as_what() {
        use TaskState::{Blocked, Running, Sleeping};
        let none = GroupWaits::default();
        let contended = Some(FutexWait::ContendedMutex { address: 16 });
        let pi = Some(FutexWait::PiLock { address: 16 });
        let cases = [
            (Running, WaitClass::Running, None, false, GroupWaits { running: 1, ..none }, None, false),
            (Blocked, WaitClass::Disk, None, false, GroupWaits { storage: 1, ..none }, None, true),
            (Sleeping, WaitClass::Disk, None, false, GroupWaits { storage: 1, ..none }, None, true),
            (
                Blocked,
                WaitClass::Lock,
                None,
                false,
                GroupWaits { lock_contended: 1, ..none },
                Some(WaitQueueKind::KernelLock),
                true,
            ),
            (Blocked, WaitClass::Vfork, None, true, none, None, false),
            (Blocked, WaitClass::Frozen, None, true, none, None, false),
            (Blocked, WaitClass::Hidden, None, false, GroupWaits { other_blocked: 1, hidden_blocked: 1, ..none }, None, true),
            (Blocked, WaitClass::Other, None, false, GroupWaits { other_blocked: 1, ..none }, None, true),
            (Sleeping, WaitClass::Aio, None, true, GroupWaits { aio: 1, ..none }, None, true),
            // Counted at the end of the sub-sample.
            (Sleeping, WaitClass::Lock, contended, true, none, Some(WaitQueueKind::Mutex), false),
            (Sleeping, WaitClass::Lock, pi, false, GroupWaits { lock_contended: 1, ..none }, Some(WaitQueueKind::Mutex), false),
            (
                Sleeping,
                WaitClass::Futex,
                None,
                true,
                GroupWaits { lock_inferred: 1, ..none },
                Some(WaitQueueKind::Futex),
                false,
            ),
            (Sleeping, WaitClass::Futex, None, false, none, None, false),
            (Sleeping, WaitClass::Net, None, true, GroupWaits { ipc_peer: 1, ..none }, Some(WaitQueueKind::Socket), false),
            (Sleeping, WaitClass::Net, None, false, none, None, false),
            (Sleeping, WaitClass::Poll, None, true, none, None, false),
            (Sleeping, WaitClass::Hidden, None, true, none, None, false),
        ];
        for (state, class, futex, active, expected, queue, blocked) in cases {
            let mut counts = GroupWaits::default();
            let found = count_in_group(&mut counts, ObservedThread { state, class, futex, file_lock: false, active });
            assert_eq!((counts, found), (expected, queue), "{state:?} {class:?} active {active}");
            assert_eq!(is_blocked(state, class), blocked, "{state:?} {class:?}");
        }
        let mut counts = GroupWaits::default();
        let flock = ObservedThread { state: Sleeping, class: WaitClass::Lock, futex: None, file_lock: true, active: false };
        assert_eq!(count_in_group(&mut counts, flock), Some(WaitQueueKind::FileLock));
        assert_eq!(counts, GroupWaits { lock_contended: 1, file_lock: 1, ..none }, "a held lock, however long");
    }
}
