//! Sub-samples: what the hot threads are seen doing between two samples, kept as counts per group and class.
//!
//! Which class a wait belongs to is said in `sample/waits`; which threads are hot, in `sweep/thread.rs`.

pub mod blocked;
pub mod budget;

use rustc_hash::FxHashMap;

use super::sweep::{KnownProcess, KnownThread};
use crate::ids::GroupId;
use crate::sample::cpu::CpuTimes;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::{BLOCKED_KEPT, BlockedThread, GroupWaits, SubSample, ThreadWaits, WaitClass, Waits};

/// The sub-samples of the interval that is running.
#[derive(Debug, Default)]
pub struct Watch {
    waits: Waits,
    numbers: FxHashMap<GroupId, u16>,
    /// Threads that were seen blocked, by their place in `waits.threads`.
    blocked: FxHashMap<usize, BlockedThread>,
    /// Counts of one look, by group number.
    counts: Vec<GroupWaits>,
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
    /// Counts what the hot threads do, as `known` was last looked at. `own_pid` is not part of the box's work.
    pub fn count(&mut self, known: &mut [KnownProcess], own_pid: u32, witnesses: Witnesses) {
        self.counts.iter_mut().for_each(|counts| *counts = GroupWaits::default());
        let hot = |known: &&mut KnownProcess| !known.hot.is_empty() && !known.shared.kernel_thread && known.pid() != own_pid;
        for known in known.iter_mut().filter(hot) {
            // More groups than that are not told apart.
            let Some(group) = self.number(known) else { continue };
            let KnownProcess { hot, threads, shared, .. } = known;
            for &index in hot.iter() {
                let (Some(thread), Some(of_sample)) = (threads.get_mut(index), shared.threads.get(index)) else { continue };
                if thread.is_hot(witnesses.boottime_ns) {
                    self.count_thread(shared, thread, of_sample.start_ticks, group, witnesses);
                }
            }
        }
        let groups = (0_u16..).zip(&self.counts).filter(|(_, counts)| **counts != GroupWaits::default());
        let groups = groups.map(|(group, counts)| GroupWaits { group, ..*counts }).collect();
        let Witnesses { boottime_ns, cpu, in_flight } = witnesses;
        self.waits.sub_samples.push(SubSample { boottime_ns, cpu, in_flight, groups });
    }

    /// A sub-sample was due and was not taken.
    pub fn skip(&mut self) {
        self.waits.skipped = self.waits.skipped.saturating_add(1);
    }

    /// Ends the interval: all that was seen in it. The files of the blocked threads are not found out yet.
    pub fn drain(&mut self) -> Waits {
        self.interval = self.interval.wrapping_add(1);
        self.numbers.clear();
        self.counts.clear();
        let mut blocked: Vec<BlockedThread> = self.blocked.drain().map(|(_, thread)| thread).collect();
        if blocked.len() > BLOCKED_KEPT {
            blocked.sort_unstable_by_key(|thread| (thread.since_ns, thread.task));
            blocked.truncate(BLOCKED_KEPT);
        }
        blocked.sort_unstable_by_key(|thread| thread.task);
        let mut waits = std::mem::take(&mut self.waits);
        waits.blocked = blocked;
        waits.threads.sort_unstable_by_key(|thread| thread.task);
        waits
    }

    fn number(&mut self, known: &mut KnownProcess) -> Option<u16> {
        if let Some((interval, number)) = known.group
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
        known.group = Some((self.interval, number));
        Some(number)
    }

    fn count_thread(&mut self, of: &Process, thread: &mut KnownThread, start_ticks: u64, group: u16, witnesses: Witnesses) {
        // State and wait did not fit together: not counted at this look.
        let Some(class) = thread.class else { return };
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
        if !add(counts, thread.state, class, thread.contended, active) {
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
            call: thread.wait.call.ok(),
            times,
            since_ns: thread.waits_since_ns(),
            file: None,
            disk: None,
        };
        self.blocked.insert(place, blocked);
    }
}

/// Adds one thread to its group's counts; says whether it is blocked, to be described by itself.
fn add(counts: &mut GroupWaits, state: TaskState, class: WaitClass, contended: bool, active: bool) -> bool {
    let (count, blocked) = match (state, class) {
        (TaskState::Running, _) => (&mut counts.running, false),
        (TaskState::Blocked, WaitClass::Vfork | WaitClass::Frozen) => return false,
        (TaskState::Blocked, WaitClass::Disk) => (&mut counts.storage, true),
        (TaskState::Blocked | TaskState::Sleeping, WaitClass::Memory) => (&mut counts.memory, true),
        // A lock of the kernel: somebody holds it.
        (TaskState::Blocked, WaitClass::Lock) => (&mut counts.lock_contended, true),
        (TaskState::Blocked, WaitClass::Hidden) => {
            counts.hidden_blocked = counts.hidden_blocked.saturating_add(1);
            (&mut counts.other_blocked, true)
        }
        (TaskState::Blocked, _) => (&mut counts.other_blocked, true),
        (TaskState::Sleeping, WaitClass::Aio) => (&mut counts.aio, true),
        (TaskState::Sleeping, WaitClass::Lock) if contended => (&mut counts.lock_contended, false),
        (TaskState::Sleeping, WaitClass::Lock | WaitClass::Futex) if active => (&mut counts.lock_inferred, false),
        (TaskState::Sleeping, WaitClass::Pipe | WaitClass::Net) if active => (&mut counts.peer, false),
        _ => return false,
    };
    *count = count.saturating_add(1);
    blocked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(state: TaskState, class: WaitClass, contended: bool, active: bool) -> (GroupWaits, bool) {
        let mut counts = GroupWaits::default();
        let blocked = add(&mut counts, state, class, contended, active);
        (counts, blocked)
    }

    #[test]
    fn who_counts_as_what() {
        use TaskState::{Blocked, Running, Sleeping};
        let none = GroupWaits::default();
        let cases = [
            (Running, WaitClass::Running, false, GroupWaits { running: 1, ..none }, false),
            (Blocked, WaitClass::Disk, false, GroupWaits { storage: 1, ..none }, true),
            (Blocked, WaitClass::Lock, false, GroupWaits { lock_contended: 1, ..none }, true),
            (Blocked, WaitClass::Vfork, true, none, false),
            (Blocked, WaitClass::Frozen, true, none, false),
            (Blocked, WaitClass::Hidden, false, GroupWaits { other_blocked: 1, hidden_blocked: 1, ..none }, true),
            (Blocked, WaitClass::Other, false, GroupWaits { other_blocked: 1, ..none }, true),
            (Sleeping, WaitClass::Aio, true, GroupWaits { aio: 1, ..none }, true),
            (Sleeping, WaitClass::Lock, true, GroupWaits { lock_inferred: 1, ..none }, false),
            (Sleeping, WaitClass::Lock, false, none, false),
            (Sleeping, WaitClass::Futex, true, GroupWaits { lock_inferred: 1, ..none }, false),
            (Sleeping, WaitClass::Futex, false, none, false),
            (Sleeping, WaitClass::Net, true, GroupWaits { peer: 1, ..none }, false),
            (Sleeping, WaitClass::Net, false, none, false),
            (Sleeping, WaitClass::Poll, true, none, false),
            (Sleeping, WaitClass::Hidden, true, none, false),
        ];
        for (state, class, active, counts, blocked) in cases {
            assert_eq!(counted(state, class, false, active), (counts, blocked), "{state:?} {class:?} active {active}");
        }
        let held = GroupWaits { lock_contended: 1, ..none };
        assert_eq!(counted(Sleeping, WaitClass::Lock, true, false), (held, false), "a held lock, however long");
    }
}
