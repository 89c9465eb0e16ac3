//! Counts threads by state.

use crate::sample::task::{TaskState, Thread};
use crate::sample::waits::WaitClass;

/// Numbers of processes and of threads by state, from the newer sample alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    pub processes: u32,
    pub threads: u32,
    /// R
    pub running: u32,
    /// D, all of them
    pub blocked: u32,
    /// D, by class
    pub blocked_disk: u32,
    pub blocked_vfork: u32,
    pub blocked_memory: u32,
    pub blocked_frozen: u32,
    /// D in anything else, or hidden
    pub blocked_other: u32,
    /// Part of `blocked_other`: waiting for a lock inside the kernel
    pub blocked_lock: u32,
    /// Part of `blocked_other`: until their process has dumped core
    pub blocked_core_dump: u32,
    /// Part of `blocked_other`: with a hidden wait channel
    pub blocked_hidden: u32,
    /// S in a lock that is held, or in a futex by an active worker whose group has a thread on storage
    pub lock_wait: u32,
}

/// `futex_is_lock`: it waits behind a thread of its group that is on storage, if it waits in a futex.
pub(super) fn count_thread(thread: &Thread, class: WaitClass, futex_is_lock: bool, counts: &mut TaskCounts) {
    match thread.state {
        TaskState::Running => counts.running += 1,
        TaskState::Blocked => {
            counts.blocked += 1;
            counts.blocked_lock += u32::from(class == WaitClass::Lock);
            counts.blocked_core_dump += u32::from(class == WaitClass::CoreDump);
            counts.blocked_hidden += u32::from(class == WaitClass::Hidden);
            match class {
                WaitClass::Disk => counts.blocked_disk += 1,
                WaitClass::Vfork => counts.blocked_vfork += 1,
                WaitClass::Memory => counts.blocked_memory += 1,
                WaitClass::Frozen => counts.blocked_frozen += 1,
                _ => counts.blocked_other += 1,
            }
        }
        TaskState::Sleeping if class == WaitClass::Lock || class == WaitClass::Futex && futex_is_lock => counts.lock_wait += 1,
        _ => {}
    }
}
