//! Locks that name their owner, what the owners do, and the locks for which they wait themselves: futex locks and locks inside the
//! kernel. docs/metrics.md, "Lock holders".

use std::net::SocketAddr;

use super::blocked_threads::BlockedThread;
use super::remote_waits::awaits_answer;
use crate::ids::TaskId;
use crate::sample::Host;
use crate::sample::task::TaskState;
use crate::sample::waits::{KernelLockOwner, LockOwner, OwnerField, Syscall, WaitClass, Waits, WakerChecks, class};
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

/// What the holder of a lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderActivity {
    /// On storage
    Storage,
    /// In memory reclaim
    Memory,
    /// In D for another reason: a lock or an operation of the kernel
    Uninterruptible,
    /// Asleep for a fixed time
    Timer,
    /// Asleep until this host answers its request
    RemoteHost(SocketAddr),
    /// Asleep until a child process ends
    Child,
    /// Asleep until another lock is released, whose holder does not wait for an event
    Lock,
    /// Asleep for a lock of a deadlock
    Deadlock,
    /// Asleep until there is room in a pipe, which its reader does not read
    FullPipe,
    /// Asleep until there is room in the send buffer of a socket, whose other end does not read
    FullSocket,
    /// Stopped, traced or frozen
    Stopped,
    /// Runnable, on a CPU or not
    Running,
    /// Asleep until an event or data comes: a thread that waits for work under the lock, while the others have none (leader and
    /// followers), looks the same
    Event,
}

impl HolderActivity {
    /// Of one thread; that of `Lock` is decided by `LockGraph::chain_end`.
    fn new(owner: &BlockedThread, call: Option<Syscall>, waits: &Waits) -> HolderActivity {
        let is_in = |of_channel: fn(&[u8]) -> bool| owner.wchan.as_ref().is_some_and(|wchan| of_channel(wchan.as_bytes()));
        match (owner.state, owner.class) {
            (TaskState::Running, _) => HolderActivity::Running,
            (TaskState::Stopped | TaskState::Traced, _) | (_, WaitClass::Frozen) => HolderActivity::Stopped,
            (_, WaitClass::Disk) => HolderActivity::Storage,
            (_, WaitClass::Memory) => HolderActivity::Memory,
            (_, WaitClass::Child | WaitClass::Vfork) => HolderActivity::Child,
            (TaskState::Blocked, _) => HolderActivity::Uninterruptible,
            (_, WaitClass::Timer) => HolderActivity::Timer,
            (_, WaitClass::Lock) => HolderActivity::Lock,
            (_, WaitClass::Futex) if call.is_some_and(Syscall::is_likely_mutex) => HolderActivity::Lock,
            (_, WaitClass::Pipe) if is_in(class::is_full_pipe) => HolderActivity::FullPipe,
            (_, WaitClass::Net) if is_in(class::is_full_socket) => HolderActivity::FullSocket,
            (_, WaitClass::Net | WaitClass::Poll) => {
                let asked = waits.socket_waiters.iter().find(|waiter| waiter.task == owner.task && awaits_answer(waiter));
                asked.map_or(HolderActivity::Event, |waiter| HolderActivity::RemoteHost(waiter.remote))
            }
            _ => HolderActivity::Event,
        }
    }
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
}

impl Owner {
    fn of_futex(host: &Host, waits: &Waits, row: &LockOwner) -> Owner {
        let machine = host.machine.as_bytes();
        let thread = BlockedThread::new(machine, &row.owner);
        let call = row.owner.syscall.and_then(|call| Syscall::from_number(machine, call));
        let lock_call = call.filter(|call| call.is_contended_futex() || call.is_likely_mutex());
        let wanted = lock_call.and_then(|call| Some(futex_lock(row, call.futex_wait()?.address(), call.is_shared_futex())));
        let sub_samples = waits.sub_samples.len().max(1) as f64;
        Owner {
            lock: futex_lock(row, row.futex_address, row.is_shared),
            field: row.field,
            group: row.group,
            waiters: f64::from(row.waiters) / sub_samples,
            seen_share: f64::from(row.owner.seen_count) / sub_samples,
            activity: HolderActivity::new(&thread, call, waits),
            thread,
            wanted: wanted.or(row.kernel_lock.map(LockId::Kernel)),
        }
    }

    fn of_kernel_lock(host: &Host, waits: &Waits, row: &KernelLockOwner) -> Owner {
        let thread = BlockedThread::new(host.machine.as_bytes(), &row.owner);
        let readings = f64::from(waits.kernel_lock_readings.max(1));
        Owner {
            lock: LockId::Kernel(row.lock),
            field: row.field,
            group: row.group,
            waiters: f64::from(row.waiters) / readings,
            seen_share: f64::from(row.owner.seen_count) / readings,
            activity: HolderActivity::new(&thread, None, waits),
            thread,
            wanted: row.waits_for.map(LockId::Kernel),
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

/// Whether the lock names its owner, or checks of those that were taken for it have confirmed them.
pub fn is_believed(field: OwnerField) -> bool {
    let OwnerField::Waker(WakerChecks { made, confirmed }) = field else { return true };
    made >= MIN_CHECKS && reaches_threshold(f64::from(confirmed) / f64::from(made), MIN_CONFIRMED)
}

/// Where a chain of locks leads.
pub enum ChainEnd<'a> {
    /// To a holder that does not wait for such a lock: the holders after the first one, up to it
    Holder(Vec<&'a Owner>),
    /// To a thread of a deadlock
    Deadlock,
    /// To a lock whose holder is not known, over too many locks, or back to a thread of the chain, which then took its locks one after the
    /// other
    Unknown,
}

/// Locks that are followed from one holder to the next.
const MAX_CHAIN: usize = 8;

/// All owners of one sample.
pub struct LockGraph {
    pub owners: Vec<Owner>,
}

impl LockGraph {
    pub fn new(host: &Host, waits: &Waits) -> LockGraph {
        let futexes =
            waits.lock_owners.iter().filter(|row| is_believed(row.field)).map(|row| Owner::of_futex(host, waits, row));
        let known = waits.kernel_lock_owners.iter().filter(|row| row.field.is_of_kernel());
        let kernel_locks = known.map(|row| Owner::of_kernel_lock(host, waits, row));
        LockGraph { owners: futexes.chain(kernel_locks).collect() }
    }

    /// Follows the locks from a holder to the holder of the lock for which it waits, and so on. `deadlocked`: threads of deadlocks.
    pub fn chain_end<'a>(&'a self, first: &'a Owner, deadlocked: &[TaskId]) -> ChainEnd<'a> {
        let (mut last, mut path) = (first, Vec::new());
        for _ in 0..MAX_CHAIN {
            let Some(wanted) = last.wanted else { return ChainEnd::Holder(path) };
            let next = self.owners.iter().filter(|owner| owner.lock == wanted).max_by_key(|owner| owner.thread.seen_count);
            let Some(next) = next else { return ChainEnd::Unknown };
            if deadlocked.contains(&next.thread.task) {
                return ChainEnd::Deadlock;
            }
            last = next;
            path.push(next);
        }
        ChainEnd::Unknown
    }
}
