//! Waits as sub-samples read them (stat, wchan, syscall), the counts of threads in them, and the class of a wait.

use super::class::WaitClass;
use super::java_lock::JavaLockKind;
use super::syscall::{FUTEX_WAITERS, Syscall, is_owner_word};
use super::wait_event::WaitEvent;
use crate::ids::TaskId;
use crate::sample::Name;
use crate::sample::task_state::{RawSyscall, TaskState};

/// A wait in which sub-samples saw threads: a combination of state, wait channel and system call. State R counts as a wait, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObservedWait {
    /// Number by which other rows refer to it. A sampler usually gives a wait the same number in consecutive samples.
    pub id: u32,
    /// stat field 3
    pub state: TaskState,
    /// wchan: the kernel function it sleeps in; `None` of a thread that does not sleep, or if it is hidden from this user
    pub wchan: Option<Name>,
    /// syscall, where it was read. Of its arguments only operation and value of a futex call are kept, a value above 4 as 4:
    /// other values are sequence numbers. A word that names its owner is kept as FUTEX_WAITERS and 1.
    pub syscall: Option<RawSyscall>,
    /// The futex or semtimedop call has a timeout.
    pub has_timeout: bool,
    /// Its call shows no lock, but the last reading of its futex found one of glibc that names its owner, a row of `LockOwner`: a mutex for
    /// which it waits with a timeout, or a read-write lock.
    pub is_behind_named_owner: bool,
    /// `my_wait_event_info` of a PostgreSQL process that waits in a futex
    pub wait_event: Option<WaitEvent>,
    /// It waits in a futex for a lock of Java, as its virtual machine says.
    pub java_lock: Option<JavaLockKind>,
}

/// Futex values up to this one are kept as they are.
const MAX_FUTEX_VALUE: u64 = 4;

impl ObservedWait {
    /// The arguments that are kept of a call.
    pub fn kept_syscall(call: RawSyscall, is_futex: bool) -> RawSyscall {
        let [_, operation, value] = call.arguments;
        // The upper half of an int argument may be anything.
        let value = if is_owner_word(value) { FUTEX_WAITERS | 1 } else { (value & 0xffff_ffff).min(MAX_FUTEX_VALUE) };
        let futex = [0, operation & 0xffff_ffff, value];
        RawSyscall { number: call.number, arguments: if is_futex { futex } else { [0; 3] } }
    }

    /// Its system call; `None` if classification does not use it. `machine` is `Host::machine`.
    pub fn call(&self, machine: &[u8]) -> Option<Syscall> {
        Syscall::from_number(machine, self.syscall?)
    }

    /// The class of the wait. A sampler keeps no reading whose state and wait channel contradict each other, unless the
    /// thread did not run in between.
    pub fn class(&self, machine: &[u8]) -> WaitClass {
        let call = self.call(machine);
        let wchan = self.wchan.as_ref().map(Name::as_bytes);
        match WaitClass::classify_settled(self.state, wchan, call) {
            // It waits for a timeout or for work, so it is not blocked with its group.
            WaitClass::Futex if self.has_timeout || call.is_some_and(Syscall::is_idle_runtime_thread) => WaitClass::Other,
            class => class,
        }
    }
}

/// Threads of one group that one sub-sample saw in the same wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupWait {
    /// Index into `Waits::groups`
    pub group: u16,
    /// `ObservedWait::id`
    pub wait: u32,
    /// They had a timeslice within `ACTIVE_NS`.
    pub active: bool,
    pub threads: u16,
    /// Part of `threads`: in a futex call at whose address another thread of the group waits, too, or for a lock of Java with others
    pub at_shared_address: u16,
}

/// Sub-samples since the last sample that saw a thread in one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadWait {
    pub task: TaskId,
    /// `ObservedWait::id`
    pub wait: u32,
    /// Index into `Waits::groups`
    pub group: u16,
    pub seen_count: u16,
}

/// A thread that was seen asleep in a pipe or Unix socket, and whose end of it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcWaiter {
    pub task: TaskId,
    /// Index into `Waits::groups`
    pub group: u16,
    /// Number of the other end, in this sample and group
    pub peer: u16,
}

/// A process of the same group that has the other end open; /proc/PID/fd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcHolder {
    /// Index into `Waits::groups`
    pub group: u16,
    /// `IpcWaiter::peer`
    pub peer: u16,
    pub pid: u32,
}
