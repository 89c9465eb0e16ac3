//! Which threads sub-samples read, what they wait for, and which may be in another state or wait than when they were last read.

use super::KnownThread;
use crate::kernel::task;
use crate::sample::task::TaskState;
use crate::sample::waits::syscall::is_shared_operation;
use crate::sample::waits::{ACTIVE_NS, FutexWait, WaitClass};

/// A thread that ran within this time is read before the others of its process.
const VERY_RECENT_NS: u64 = 1_000_000_000;

/// Sub-samples: of very many locks each is read in some of them only.
const MAX_UNCONFIRMED_RW_LOCK: u8 = 30;

impl KnownThread {
    /// Whether it had a timeslice within `ACTIVE_NS`.
    pub fn is_active(&self, now_ns: u64) -> bool {
        self.last_timeslice_ns.is_some_and(|at| now_ns.saturating_sub(at) <= ACTIVE_NS)
    }

    /// CLOCK_BOOTTIME since when it has been in its wait: its last timeslice, or when it was first seen.
    pub fn waiting_since_ns(&self) -> u64 {
        self.last_timeslice_ns.unwrap_or(self.first_seen_ns)
    }

    /// Whether sub-samples read it: it is active, runnable, blocked, or waits for a lock that is held.
    pub fn is_hot(&self, now_ns: u64) -> bool {
        match self.state {
            TaskState::Running => true,
            TaskState::Blocked => self.is_uninterruptible(),
            TaskState::Sleeping => {
                let is_blocked = matches!(self.wait_class, Some(WaitClass::Lock | WaitClass::Disk));
                let may_be_behind_lock = self.likely_mutex().is_some() || self.may_wait_for_rw_lock();
                is_blocked
                    || may_be_behind_lock
                    || self.waits_for_named_owner()
                    || self.waits_in_semaphore()
                    || self.is_active(now_ns)
            }
            // Between two system calls of a thread under strace.
            TaskState::Traced => self.is_active(now_ns),
            _ => false,
        }
    }

    /// Whether it is runnable or in a wait that needs no close sub-sampling.
    pub fn is_steady(&self) -> bool {
        use WaitClass::{Child, Hidden, Net, Pipe, Poll, Timer};
        match (self.state, self.wait_class) {
            (TaskState::Running, _) => true,
            (TaskState::Sleeping, Some(WaitClass::Futex)) => self.is_idle_wait() && !self.waits_for_named_owner(),
            (TaskState::Sleeping, class) => matches!(class, Some(Timer | Poll | Net | Pipe | Child | Hidden)),
            _ => false,
        }
    }

    /// Whether its futex or semaphore call has a timeout, or is that of an idle thread of a language runtime.
    pub fn is_idle_wait(&self) -> bool {
        self.has_timeout || matches!(self.futex_wait, Some(FutexWait::IdleRuntimeThread { .. }))
    }

    /// The address of the futex at which it waits, without a timeout, as for a mutex that does not name its holder.
    pub fn likely_mutex(&self) -> Option<u64> {
        match self.futex_wait {
            Some(FutexWait::LikelyMutex { address }) if !self.has_timeout => Some(address),
            _ => None,
        }
    }

    /// Whether it waits at a futex, without a timeout, as for a read-write lock of glibc, and no readings have shown that it is none: the
    /// counter of a condition variable may have the same value.
    pub fn may_wait_for_rw_lock(&self) -> bool {
        !self.has_timeout && !self.waits_for_no_rw_lock() && matches!(self.futex_wait, Some(FutexWait::LikelyRwLock { .. }))
    }

    /// Whether enough readings have shown that what looks like a wait for a read-write lock is none.
    pub fn waits_for_no_rw_lock(&self) -> bool {
        self.unconfirmed_rw_lock >= MAX_UNCONFIRMED_RW_LOCK
    }

    /// Sets whether the last reading of the lock for which it may wait named the owner.
    pub fn set_behind_named_owner(&mut self, is_named: bool) {
        self.is_behind_named_owner = is_named;
        let is_rw_lock = matches!(self.futex_wait, Some(FutexWait::LikelyRwLock { .. }));
        self.unconfirmed_rw_lock = if is_rw_lock && !is_named { self.unconfirmed_rw_lock.saturating_add(1) } else { 0 };
    }

    /// Whether it waits for a lock that names its owner though its futex call does not show that: with a timeout for a mutex or for a
    /// read-write lock, as far as is known, or for a lock of Java.
    pub fn waits_for_named_owner(&self) -> bool {
        let has_named_one = match self.futex_wait {
            Some(FutexWait::LikelyMutex { .. }) => self.has_timeout && self.is_behind_named_owner,
            Some(FutexWait::LikelyRwLock { .. }) => self.is_behind_named_owner,
            _ => false,
        };
        self.java_wait.lock().is_some() || has_named_one
    }

    /// The lock for which it waits in a futex call: threads with the same address wait for the same one. Threads that wait for one of Java
    /// each have a futex of their own.
    pub fn lock_address(&self) -> Option<u64> {
        let futex = self.futex_wait?;
        self.java_wait.lock().map(|lock| lock.address).or(Some(futex.address()))
    }

    /// Whether it is one of PostgreSQL that waits for a semaphore that processes share, as for a light-weight lock: an idle one waits for its
    /// client, in an event loop.
    pub fn waits_in_semaphore(&self) -> bool {
        self.state == TaskState::Sleeping
            && self.wait_class == Some(WaitClass::Futex)
            && !self.has_timeout
            && self.wait.syscall().is_ok_and(|call| is_shared_operation(call.arguments[1]))
            && task::is_postgres(&self.comm)
    }

    /// In D, vfork parents and frozen threads excepted.
    pub fn is_uninterruptible(&self) -> bool {
        self.state == TaskState::Blocked && !self.is_vfork_or_frozen()
    }

    /// A vfork parent or a frozen thread: in D, but waiting for nothing that is slow.
    pub fn is_vfork_or_frozen(&self) -> bool {
        matches!(self.wait_class, Some(WaitClass::Vfork | WaitClass::Frozen))
    }

    /// Whether it ran within `VERY_RECENT_NS` or may change without running. If such threads account for the process's CPU clock, no
    /// other thread ran.
    pub fn likely_ran(&self, now_ns: u64) -> bool {
        let ran_recently = self.last_timeslice_ns.is_some_and(|at| now_ns.saturating_sub(at) <= VERY_RECENT_NS);
        ran_recently || self.sample_is_stale || self.must_be_read()
    }

    /// Whether a sub-sample reads it whatever the others account for: its state may change without it running, or its wait is unknown.
    pub fn must_be_read(&self) -> bool {
        self.has_transient_state() || self.wait_class.is_none()
    }

    /// Runnable, in D, or found gone
    fn has_transient_state(&self) -> bool {
        matches!(self.state, TaskState::Running | TaskState::Dead) || self.is_uninterruptible()
    }

    /// Whether its state may change while the process's CPU clock does not advance: it is runnable or in D, or the last sample is older than
    /// the last reading. A thread found gone by a sub-sample stays in the list, since another may have started in its place.
    pub fn may_change_without_running(&self) -> bool {
        self.sample_is_stale || self.has_transient_state()
    }
}
