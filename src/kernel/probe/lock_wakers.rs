//! Which thread was woken last at a few futexes, and by which thread: by the eBPF program of assets/probe/lock_wakers.bpf.c, which writes
//! it to memory that this process shares with it. This process tells it the futexes.
//!
//! Nothing is pinned: the program is detached and unloaded when this process ends, however it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::loader_process::{Loaded, TaskAccess};
use super::probe_error::ProbeError;
use super::tracepoint_program::TracepointProgram;
use crate::kernel::sys::SharedWords;

/// Futexes that are watched at most: `LOCKS` in lock_wakers.bpf.c
pub const MAX_LOCKS: usize = 8;

/// `struct lock`, in words of 64 bits
const LOCK_WORDS: usize = 8;
const TGID: usize = 0;
const ADDRESS: usize = 1;
const WAKE_UPS: usize = 2;
const WOKEN: usize = 3;
const WAKER: usize = 4;
const FIRST_WAKER: usize = 5;
const WOKEN_NS: usize = 6;
const WOKEN_TIMESLICES: usize = 7;
/// A thread that is not known; in lock_wakers.bpf.c, too
const UNKNOWN: u32 = u32::MAX;

/// The loaded program. Dropping it detaches and unloads it.
#[derive(Debug)]
pub struct LockWakersProbe {
    program: TracepointProgram,
    access: TaskAccess,
    /// `None`: it is not attached
    link: Option<OwnedFd>,
    locks: SharedWords,
}

/// What was counted at one futex since it has been watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockWakes {
    /// Wake-ups there by futex calls of the same process, of threads that waited as for a contended mutex, after the word had
    /// changed
    pub wake_ups: u64,
    /// tid of the thread that was woken last; `None`: none was
    pub woken: Option<u32>,
    /// CLOCK_MONOTONIC of that
    pub woken_ns: u64,
    /// How often it had got a CPU until then, as the third figure of its schedstat; `None`: the kernel does not describe its types
    pub woken_timeslices: Option<u64>,
    /// tid of the thread that woke it
    pub waker: Option<u32>,
    /// tid of the first thread that woke another one since `clear_first_waker`
    pub first_waker: Option<u32>,
}

impl LockWakersProbe {
    /// Maps the memory of the program.
    pub fn new(loaded: Loaded) -> Result<LockWakersProbe, ProbeError> {
        let [program, locks] = <[OwnedFd; 2]>::try_from(loaded.descriptors).map_err(|_| ProbeError::Descriptors)?;
        let program = TracepointProgram::new(program, c"sched_waking", loaded.access);
        Ok(LockWakersProbe {
            program,
            access: loaded.access,
            link: None,
            locks: SharedWords::map(locks.as_fd(), MAX_LOCKS * LOCK_WORDS)?,
        })
    }

    /// How the program reads what the kernel has of a task.
    pub fn access(&self) -> TaskAccess {
        self.access
    }

    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// Counts from now on.
    pub fn attach(&mut self) -> io::Result<()> {
        if self.link.is_none() {
            self.link = Some(self.program.attach()?);
        }
        Ok(())
    }

    /// Stops counting: wake-ups cost nothing more then.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Watches the futex at this address of a process, at index `place`, below `MAX_LOCKS`; its counts restart at 0.
    pub fn watch(&self, place: usize, pid: u32, address: u64) {
        let first = place * LOCK_WORDS;
        // The program sees the process last.
        self.locks.set(first + TGID, 0);
        self.locks.fill(first + WAKE_UPS..first + LOCK_WORDS, 0);
        self.locks.set(first + ADDRESS, address);
        self.locks.set(first + TGID, u64::from(pid));
    }

    /// Frees this place.
    pub fn forget(&self, place: usize) {
        self.locks.set(place * LOCK_WORDS + TGID, 0);
    }

    /// What was counted in this place.
    pub fn read(&self, place: usize) -> LockWakes {
        let word = |at: usize| self.locks.get(place * LOCK_WORDS + at);
        LockWakes {
            wake_ups: word(WAKE_UPS),
            woken: tid(word(WOKEN)),
            woken_ns: word(WOKEN_NS),
            woken_timeslices: word(WOKEN_TIMESLICES).checked_sub(1),
            waker: tid(word(WAKER)),
            first_waker: tid(word(FIRST_WAKER)),
        }
    }

    /// Sets `LockWakes::first_waker` to `None`.
    pub fn clear_first_waker(&self, place: usize) {
        self.locks.set(place * LOCK_WORDS + FIRST_WAKER, 0);
    }
}

fn tid(word: u64) -> Option<u32> {
    u32::try_from(word).ok().filter(|&tid| tid > 0 && tid != UNKNOWN)
}
