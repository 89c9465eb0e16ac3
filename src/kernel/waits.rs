//! Sub-samples: what the hot threads are seen doing between two samples, kept as counts per group and class.
//!
//! Which class a wait belongs to is said in `sample/waits`; which threads are hot, in `sweep/thread.rs`.

pub mod blocked;
pub mod budget;
mod ends;
mod locks;
mod peers;
mod queues;
mod remote;

use rustc_hash::FxHashMap;

use self::ends::{Ends, keep_an_end_of_each_chain};
use self::peers::PeerLook;
use self::queues::{Queues, Suspect, Waiter};
use super::sweep::{KnownProcess, KnownThread, Watched};
use crate::ids::GroupId;
use crate::sample::cpu::CpuTimes;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::{
    BLOCKED_KEPT, BlockedThread, Futex, GroupWaits, QueueKind, SubSample, ThreadWaits, WaitClass, Waits, class,
};

/// The sub-samples of the interval that is running.
#[derive(Debug, Default)]
pub struct Watch {
    waits: Waits,
    numbers: FxHashMap<GroupId, u16>,
    /// Threads that were seen blocked, by their place in `waits.threads`.
    blocked: FxHashMap<usize, BlockedThread>,
    ends: Ends,
    /// Counts of one look, by group number.
    counts: Vec<GroupWaits>,
    queues: Queues,
    /// Active threads asleep in a pipe or socket.
    peers: Vec<PeerLook>,
    /// Which interval this is; what processes and threads have noted for another one is void.
    interval: u32,
}

/// The witnesses that are read at the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Witnesses {
    pub boottime_ns: u64,
    pub cpu: Option<CpuTimes>,
    pub in_flight: Option<u32>,
}

impl Watch {
    /// Counts what the hot threads of these processes do, as they were last looked at.
    pub fn count<'a>(&mut self, awake: impl Iterator<Item = &'a mut KnownProcess>, witnesses: Witnesses) {
        self.counts.iter_mut().for_each(|counts| *counts = GroupWaits::default());
        for known in awake.filter(|known| !known.up.hot.is_empty()) {
            // More groups than that are not told apart.
            let Some(group) = self.number(known) else { continue };
            let KnownProcess { up, shared, .. } = known;
            let Watched { hot, threads, .. } = &mut **up;
            for &index in hot.iter() {
                let (Some(thread), Some(of_sample)) = (threads.get_mut(index), shared.threads.get(index)) else { continue };
                if thread.is_hot(witnesses.boottime_ns) {
                    self.count_thread(shared, thread, of_sample.start_ticks, group, witnesses);
                }
            }
        }
        self.queues.judge_suspects(&mut self.counts);
        let groups = (0_u16..).zip(&self.counts).filter(|(_, counts)| **counts != GroupWaits::default());
        let groups = groups.map(|(group, counts)| GroupWaits { group, ..*counts }).collect();
        let Witnesses { boottime_ns, cpu, in_flight } = witnesses;
        self.waits.sub_samples.push(SubSample { boottime_ns, cpu, in_flight, groups });
    }

    /// A sub-sample was due and was not taken.
    pub fn skip(&mut self) {
        self.waits.skipped = self.waits.skipped.saturating_add(1);
    }

    /// Ends the interval: all that was seen in it. The files that the threads wait for are not found out yet.
    pub fn drain(&mut self) -> Drained {
        self.interval = self.interval.wrapping_add(1);
        self.numbers.clear();
        self.counts.clear();
        let now_ns = self.waits.sub_samples.last().map_or(0, |last| last.boottime_ns);
        let ends = self.ends.settle(&mut self.blocked, now_ns);
        let mut blocked: Vec<BlockedThread> = self.blocked.drain().map(|(_, thread)| thread).collect();
        if blocked.len() > BLOCKED_KEPT {
            blocked.sort_unstable_by_key(|thread| (thread.since_ns, thread.task));
            keep_an_end_of_each_chain(&mut blocked, &ends);
            blocked.truncate(BLOCKED_KEPT);
        }
        blocked.sort_unstable_by_key(|thread| thread.task);
        let mut waits = std::mem::take(&mut self.waits);
        let mut held = vec![false; waits.groups.len()];
        for row in waits.sub_samples.iter().flat_map(|sub| &sub.groups).filter(|row| row.storage > 0) {
            if let Some(held) = held.get_mut(usize::from(row.group)) {
                *held = true;
            }
        }
        let (queues, waiters) = self.queues.drain(&held);
        waits.blocked = blocked;
        waits.queues = queues;
        waits.threads.sort_unstable_by_key(|thread| thread.task);
        Drained { waits, waiters, peers: std::mem::take(&mut self.peers) }
    }

    fn number(&mut self, known: &mut KnownProcess) -> Option<u16> {
        if let Some((interval, number)) = known.up.group
            && interval == self.interval
        {
            return Some(number);
        }
        let group = known.shared.group();
        let number = match self.numbers.get(&group) {
            Some(&number) => number,
            None => {
                let number = u16::try_from(self.waits.groups.len()).ok()?;
                self.waits.groups.push(group.clone());
                self.counts.push(GroupWaits::default());
                self.numbers.insert(group, number);
                number
            }
        };
        known.up.group = Some((self.interval, number));
        Some(number)
    }

    fn count_thread(&mut self, of: &Process, thread: &mut KnownThread, start_ticks: u64, group: u16, witnesses: Witnesses) {
        // State and wait did not fit together: not counted at this look.
        let Some(mut class) = thread.class else { return };
        if class == WaitClass::Futex && thread.idles() {
            // It waits for the clock, or to be given something to do: whatever its group is stuck in, it is not.
            class = WaitClass::Other;
        }
        let task = crate::ids::TaskId { pid: of.pid, tid: thread.tid, start_ticks };
        let place = match thread.record {
            Some((interval, place)) if interval == self.interval => place,
            _ => {
                let place = self.waits.threads.len();
                self.waits.threads.push(ThreadWaits { task, group, seen: [0; WaitClass::COUNT] });
                thread.record = Some((self.interval, place));
                place
            }
        };
        if let Some(seen) = self.waits.threads.get_mut(place).and_then(|waits| waits.seen.get_mut(class as usize)) {
            *seen = seen.saturating_add(1);
        }
        let Some(counts) = self.counts.get_mut(usize::from(group)) else { return };
        let active = thread.is_active(witnesses.boottime_ns);
        let in_file_lock = || thread.wait.channel.as_ref().is_ok_and(|channel| class::is_file_lock(channel.as_bytes()));
        let file_lock = class == WaitClass::Lock && in_file_lock();
        let queue = add(counts, Seen { state: thread.state, class, futex: thread.futex, file_lock, active });
        if let Some(kind) = queue {
            let waiter = Waiter { task, channel: thread.wait.channel.clone().ok(), call: thread.wait.call().ok() };
            match (kind, thread.futex) {
                (QueueKind::Pipe | QueueKind::Socket, _) => {
                    if self.peers.len() < peers::MOST_LOOKS {
                        self.peers.push(PeerLook { look: self.waits.sub_samples.len(), group, task, kind });
                    }
                    self.queues.add(group, kind, None, waiter);
                }
                (QueueKind::Mutex, Some(Futex::Contended { address })) => {
                    self.queues.suspect(Suspect { group, address, active: active && !thread.timed, waiter });
                }
                (_, Some(Futex::Held { address })) => self.queues.add(group, kind, Some(address), waiter),
                _ => self.queues.add(group, kind, None, waiter),
            }
        }
        if !is_blocked(thread.state, class) {
            return;
        }
        // Completions are waited for by idle services, too.
        if class == WaitClass::Aio && witnesses.in_flight == Some(0) {
            return;
        }
        let times = self.blocked.get(&place).map_or(0, |blocked| blocked.times).saturating_add(1);
        let blocked = BlockedThread {
            task,
            group,
            comm: thread.comm.clone(),
            class,
            channel: thread.wait.channel.clone().ok(),
            call: thread.wait.call().ok(),
            times,
            since_ns: thread.waits_since_ns(),
            file: None,
            disk: None,
            mount: None,
        };
        if class == WaitClass::Disk {
            self.ends.saw(place, &blocked);
        }
        self.blocked.insert(place, blocked);
    }
}

/// What an interval has seen, and of whom to ask what it is that they wait for.
#[derive(Debug)]
pub struct Drained {
    pub waits: Waits,
    /// One for each of `waits.queues`.
    waiters: Vec<Waiter>,
    peers: Vec<PeerLook>,
}

/// Whether the thread is stuck by itself, to be described one by one.
fn is_blocked(state: TaskState, class: WaitClass) -> bool {
    match state {
        TaskState::Blocked => !matches!(class, WaitClass::Vfork | WaitClass::Frozen),
        TaskState::Sleeping => matches!(class, WaitClass::Memory | WaitClass::Aio | WaitClass::Disk),
        _ => false,
    }
}

/// What one look saw of a thread.
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: TaskState,
    class: WaitClass,
    futex: Option<Futex>,
    /// Its wait channel is one of flock and fcntl
    file_lock: bool,
    active: bool,
}

/// Adds one thread to its group's counts; says in which kind of queue it stands. A mutex that only its word shows is not
/// counted yet: that takes a look at the others' addresses.
fn add(counts: &mut GroupWaits, seen: Seen) -> Option<QueueKind> {
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
            Some(Futex::Contended { .. }) => return Some(QueueKind::Mutex),
            Some(Futex::Held { .. }) => (&mut counts.lock_contended, Some(QueueKind::Mutex)),
            _ if seen.file_lock => {
                counts.file_lock = counts.file_lock.saturating_add(1);
                (&mut counts.lock_contended, Some(QueueKind::FileLock))
            }
            _ => (&mut counts.lock_contended, Some(QueueKind::KernelLock)),
        },
        (TaskState::Blocked, _) => (&mut counts.other_blocked, None),
        (TaskState::Sleeping, WaitClass::Aio) => (&mut counts.aio, None),
        (TaskState::Sleeping, WaitClass::Futex) if seen.active => (&mut counts.lock_inferred, Some(QueueKind::Futex)),
        (TaskState::Sleeping, WaitClass::Pipe) if seen.active => (&mut counts.peer, Some(QueueKind::Pipe)),
        (TaskState::Sleeping, WaitClass::Net) if seen.active => (&mut counts.peer, Some(QueueKind::Socket)),
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
        let contended = Some(Futex::Contended { address: 16 });
        let pi = Some(Futex::Held { address: 16 });
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
                Some(QueueKind::KernelLock),
                true,
            ),
            (Blocked, WaitClass::Vfork, None, true, none, None, false),
            (Blocked, WaitClass::Frozen, None, true, none, None, false),
            (Blocked, WaitClass::Hidden, None, false, GroupWaits { other_blocked: 1, hidden_blocked: 1, ..none }, None, true),
            (Blocked, WaitClass::Other, None, false, GroupWaits { other_blocked: 1, ..none }, None, true),
            (Sleeping, WaitClass::Aio, None, true, GroupWaits { aio: 1, ..none }, None, true),
            // Judged when the look is over.
            (Sleeping, WaitClass::Lock, contended, true, none, Some(QueueKind::Mutex), false),
            (Sleeping, WaitClass::Lock, pi, false, GroupWaits { lock_contended: 1, ..none }, Some(QueueKind::Mutex), false),
            (Sleeping, WaitClass::Futex, None, true, GroupWaits { lock_inferred: 1, ..none }, Some(QueueKind::Futex), false),
            (Sleeping, WaitClass::Futex, None, false, none, None, false),
            (Sleeping, WaitClass::Net, None, true, GroupWaits { peer: 1, ..none }, Some(QueueKind::Socket), false),
            (Sleeping, WaitClass::Net, None, false, none, None, false),
            (Sleeping, WaitClass::Poll, None, true, none, None, false),
            (Sleeping, WaitClass::Hidden, None, true, none, None, false),
        ];
        for (state, class, futex, active, expected, queue, blocked) in cases {
            let mut counts = GroupWaits::default();
            let found = add(&mut counts, Seen { state, class, futex, file_lock: false, active });
            assert_eq!((counts, found), (expected, queue), "{state:?} {class:?} active {active}");
            assert_eq!(is_blocked(state, class), blocked, "{state:?} {class:?}");
        }
        let mut counts = GroupWaits::default();
        let flock = Seen { state: Sleeping, class: WaitClass::Lock, futex: None, file_lock: true, active: false };
        assert_eq!(add(&mut counts, flock), Some(QueueKind::FileLock));
        assert_eq!(counts, GroupWaits { lock_contended: 1, file_lock: 1, ..none }, "a held lock, however long");
    }
}
