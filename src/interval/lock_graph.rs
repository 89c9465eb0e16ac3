//! Locks that name their owner, what the owners do, and the locks and processes for which they wait themselves: futex locks and locks
//! inside the kernel. docs/metrics.md, "Lock holders".

use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::holder_activity::HolderActivity;
use super::owner_peers::{Peer, asked_hosts, may_await_answer, owner_peers};
use crate::ids::TaskId;
use crate::sample::waits::{JavaLockKind, KernelLockOwner, LockOwner, OwnerField, Syscall, WaitClass, Waits, WakerChecks};
use crate::sample::{Host, Sample};
use crate::units::reaches_threshold;

/// A lock, within one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockId {
    /// At an address of a process
    Futex { pid: u32, address: u64 },
    /// At an address of the processes of a group, which share that memory: index into `Waits::groups`
    SharedFutex { group: u16, address: u64 },
    /// `KernelLockOwner::lock`
    Kernel(u32),
}

/// The owner of a lock in one of its waits, and the threads of one group that wait for the lock.
pub struct Owner {
    pub lock: LockId,
    pub field: OwnerField,
    /// Index into `Waits::groups`: the group of the threads that wait
    pub group: u16,
    /// Mean number of threads that wait
    pub waiters: f64,
    /// Share of the readings of such locks that saw it so, 0 to 1
    pub seen_share: f64,
    pub activity: HolderActivity,
    pub thread: BlockedThread,
    /// The lock for which it waits itself
    pub wanted: Option<LockId>,
    /// It waits for that lock with a timeout.
    pub has_timeout: bool,
    /// Part of `waiters`: without a timeout
    pub untimed_waiters: f64,
}

impl Owner {
    fn of_futex(host: &Host, waits: &Waits, awaited: &Awaited, row: &LockOwner) -> Owner {
        let machine = host.machine.as_bytes();
        let mut thread = BlockedThread::new(machine, &row.owner);
        // HotSpot lets one of the threads behind a monitor wait again and again, with a timeout.
        thread.wait.has_timeout &= row.awaited_java_lock.is_none_or(|lock| lock.kind != JavaLockKind::Monitor);
        let call = row.owner.syscall.and_then(|call| Syscall::from_number(machine, call));
        let lock_call = call.filter(|call| call.is_contended_futex() || call.is_likely_mutex());
        let java_lock = row.awaited_java_lock.map(|lock| futex_lock(row, lock.address, false));
        // With the C library musl the call looks like that on a mutex.
        let in_timed_futex = thread.wait.has_timeout && matches!(thread.class, WaitClass::Futex | WaitClass::Lock);
        let is_no_lock = row.field.is_of_java() && in_timed_futex;
        let by_call = lock_call
            .filter(|_| !is_no_lock)
            .and_then(|call| Some(futex_lock(row, call.futex_wait()?.address(), call.is_shared_futex())));
        let rw_lock = call.filter(|call| call.is_likely_rw_lock()).and_then(|call| awaited_rw_lock(waits, row, call));
        let by_call = by_call.or(rw_lock);
        let sub_samples = waits.sub_samples.len().max(1) as f64;
        Owner {
            lock: futex_lock(row, row.futex_address, row.is_shared),
            field: row.field,
            group: row.group,
            waiters: f64::from(row.waiters) / sub_samples,
            seen_share: f64::from(row.owner.seen_count) / sub_samples,
            activity: match row.field {
                field if field.is_of_java() && java_lock.is_some() => HolderActivity::Lock,
                // Thread.sleep is no system call of its own.
                field if field.is_of_java() && in_timed_futex => HolderActivity::TimedWait,
                _ if rw_lock.is_some() => HolderActivity::Lock,
                _ => awaited.owner_activity(&thread, call),
            },
            has_timeout: thread.wait.has_timeout && (java_lock.is_some() || by_call.is_some()),
            untimed_waiters: f64::from(row.waiters.saturating_sub(row.timed_waiters)) / sub_samples,
            thread,
            wanted: java_lock.or(by_call).or(row.kernel_lock.map(LockId::Kernel)),
        }
    }

    fn of_kernel_lock(host: &Host, waits: &Waits, awaited: &Awaited, row: &KernelLockOwner) -> Owner {
        let thread = BlockedThread::new(host.machine.as_bytes(), &row.owner);
        let readings = f64::from(waits.kernel_lock_readings.max(1));
        let waiters = f64::from(row.waiters) / readings;
        Owner {
            lock: LockId::Kernel(row.lock),
            field: row.field,
            group: row.group,
            waiters,
            untimed_waiters: waiters,
            has_timeout: false,
            seen_share: f64::from(row.owner.seen_count) / readings,
            activity: awaited.owner_activity(&thread, None),
            thread,
            wanted: row.waits_for.map(LockId::Kernel),
        }
    }
}

/// The read-write lock for which an owner waits in this call, if that names its writer: the call alone may be that of a condition variable.
fn awaited_rw_lock(waits: &Waits, row: &LockOwner, call: Syscall) -> Option<LockId> {
    let lock = futex_lock(row, call.futex_wait()?.address(), call.is_shared_futex());
    let mut named = waits.lock_owners.iter().filter(|row| row.field == OwnerField::GlibcWriter);
    named.any(|row| futex_lock(row, row.futex_address, row.is_shared) == lock).then_some(lock)
}

/// For what owners of locks wait in sockets and pipes, by owner.
struct Awaited {
    hosts: FxHashMap<TaskId, Option<SocketAddr>>,
    peers: FxHashMap<TaskId, Peer>,
}

impl Awaited {
    /// What the owner of a lock does; where that leads is decided by `LockGraph::chain_end`.
    fn owner_activity(&self, owner: &BlockedThread, call: Option<Syscall>) -> HolderActivity {
        let activity = HolderActivity::from_wait(owner, call);
        if activity != HolderActivity::Event || !may_await_answer(owner) {
            return activity;
        }
        match self.hosts.get(&owner.wait.task) {
            Some(Some(remote)) => HolderActivity::RemoteHost(*remote),
            None if self.peers.get(&owner.wait.task).is_some_and(|peer| peer.may_answer) => HolderActivity::LocalProcess,
            _ => HolderActivity::Event,
        }
    }
}

/// The lock at an address of the owner's process, or of the processes with which it shares memory.
fn futex_lock(row: &LockOwner, address: u64, is_shared: bool) -> LockId {
    match is_shared {
        true => LockId::SharedFutex { group: row.group, address },
        false => LockId::Futex { pid: row.owner.task.pid, address },
    }
}

/// Checks of the holder of a lock that does not name it from which it is believed. docs/metrics.md, "Fixed thresholds".
const MIN_CHECKS: u32 = 4;
/// Share of the checks that must have confirmed it.
const MIN_CONFIRMED: f64 = 0.9;

/// Whether the lock names its owner, or checks confirmed those that were taken for it.
pub fn is_believed(field: OwnerField) -> bool {
    let OwnerField::Waker(WakerChecks { made, confirmed }) = field else { return true };
    made >= MIN_CHECKS && reaches_threshold(f64::from(confirmed) / f64::from(made), MIN_CONFIRMED)
}

/// Why a thread is the next one of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainStep {
    /// It holds the lock for which the thread before it waits.
    Lock(OwnerField),
    /// Its process is at the other end of the pipe or socket in which the thread before it waits.
    Peer { is_pipe: bool },
}

/// A thread for which another one waits.
#[derive(Clone, Copy)]
pub struct ChainedThread<'a> {
    pub thread: &'a BlockedThread,
    pub activity: HolderActivity,
    pub step: ChainStep,
    /// The lock that it holds
    pub lock: Option<LockId>,
    wanted: Option<LockId>,
}

/// Threads each of which waits for a lock of the next one, and the last for one of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleKind {
    /// None of them ever proceeds.
    Deadlock,
    /// One of them waits with a timeout: then the others proceed.
    Timed,
}

impl<'a> ChainedThread<'a> {
    fn of_lock(owner: &'a Owner) -> ChainedThread<'a> {
        let Owner { thread, activity, field, lock, wanted, .. } = owner;
        let step = ChainStep::Lock(*field);
        ChainedThread { thread, activity: *activity, step, lock: Some(*lock), wanted: *wanted }
    }

    fn of_peer(peer: &'a Peer) -> ChainedThread<'a> {
        let Peer { is_pipe, thread, activity, wanted_futex, .. } = peer;
        let step = ChainStep::Peer { is_pipe: *is_pipe };
        let wanted = wanted_futex.map(|address| LockId::Futex { pid: thread.wait.task.pid, address });
        ChainedThread { thread, activity: *activity, step, lock: None, wanted }
    }
}

/// Where a chain of locks, pipes and sockets leads.
pub enum ChainEnd<'a> {
    /// To a thread that waits neither for such a lock nor for a process: the threads after the first holder, up to it
    Holder(Vec<ChainedThread<'a>>),
    /// To a thread of a cycle
    Cycle(CycleKind),
    /// To a lock without a known holder, to no end (too many threads), or in a loop of locks held at different times
    Unknown,
}

/// Threads that are followed from one to the next.
const MAX_CHAIN: usize = 8;

/// All owners of one sample.
pub struct LockGraph {
    pub owners: Vec<Owner>,
    awaited: Awaited,
}

impl LockGraph {
    pub fn new(host: &Host, newer: &Sample) -> LockGraph {
        let waits = &newer.waits;
        let awaited = Awaited { hosts: asked_hosts(waits), peers: owner_peers(host, newer) };
        let believed = waits.lock_owners.iter().filter(|row| is_believed(row.field));
        let futexes = believed.map(|row| Owner::of_futex(host, waits, &awaited, row));
        let known = waits.kernel_lock_owners.iter().filter(|row| row.field.is_of_kernel());
        let kernel_locks = known.map(|row| Owner::of_kernel_lock(host, waits, &awaited, row));
        LockGraph { owners: futexes.chain(kernel_locks).collect(), awaited }
    }

    /// Follows the locks from a holder to the holder of the lock for which it waits, or to the process for which it waits, and so on.
    /// `in_cycles`: threads of cycles.
    pub fn chain_end<'a>(&'a self, first: &'a Owner, in_cycles: &[(TaskId, CycleKind)]) -> ChainEnd<'a> {
        let (mut last, mut path) = (ChainedThread::of_lock(first), Vec::new());
        for _ in 0..MAX_CHAIN {
            let next = match last.wanted {
                Some(wanted) => self.holder_of(wanted).map(ChainedThread::of_lock),
                None => match self.awaited.peers.get(&last.thread.wait.task).filter(|_| last.activity.awaits_peer()) {
                    Some(peer) => Some(ChainedThread::of_peer(peer)),
                    None => return ChainEnd::Holder(path),
                },
            };
            let Some(next) = next else {
                // The process at the other end of a pipe or socket waits for a lock all the same.
                let is_peer = matches!(last.step, ChainStep::Peer { .. });
                return if is_peer { ChainEnd::Holder(path) } else { ChainEnd::Unknown };
            };
            if let Some(&(_, kind)) = in_cycles.iter().find(|(task, _)| *task == next.thread.wait.task) {
                return ChainEnd::Cycle(kind);
            }
            last = next;
            path.push(next);
        }
        ChainEnd::Unknown
    }

    fn holder_of(&self, lock: LockId) -> Option<&Owner> {
        self.owners.iter().filter(|owner| owner.lock == lock).max_by_key(|owner| owner.thread.wait.seen_count)
    }
}
