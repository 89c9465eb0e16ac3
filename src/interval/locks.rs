//! Locks with a known holder: which thread holds each, the queues for them, and deadlocks. docs/metrics.md, "Lock holders".

use super::blocked_threads::BlockedThread;
use super::deadlocks::{Deadlock, lock_cycles};
use super::file_lock_queues::{FileLockQueue, file_lock_queues};
use super::lock_graph::{CycleKind, LockGraph};
use super::lock_holders::{LockHolder, event_waiter_shares, futex_lock_holders, kernel_lock_holders};
use super::mutex_queues::{MutexQueue, mutex_queues};
use super::wait_counts::WaitCounts;
use crate::sample::{Host, Sample};

/// The locks that the sub-samples of an interval saw held.
#[derive(Clone, Debug)]
pub struct LockSpans {
    /// Holders of futex locks, as the locks name them; sorted by group
    pub futex_holders: Vec<LockHolder>,
    /// By index into `Waits::groups`: share of the threads in contended futexes whose holder waits for an event
    pub event_waiter_shares: Vec<f64>,
    /// Holders of locks inside the kernel, as the locks name them; sorted by group
    pub kernel_holders: Vec<LockHolder>,
    /// Threads that wait for each other's locks
    pub deadlocks: Vec<Deadlock>,
    /// Queues for file locks whose holder is known
    pub file_lock_queues: Vec<FileLockQueue>,
    /// Queues for mutexes whose holder sleeps for a fixed time
    pub mutex_queues: Vec<MutexQueue>,
}

impl LockSpans {
    pub(super) fn new(
        host: &Host,
        (older, newer): (&Sample, &Sample),
        counts: &WaitCounts,
        blocked_threads: &[BlockedThread],
    ) -> LockSpans {
        let graph = LockGraph::new(host, newer);
        let cycles = lock_cycles(&graph, older, newer);
        let futex_holders = futex_lock_holders(&graph, &newer.waits, counts, &cycles);
        LockSpans {
            event_waiter_shares: event_waiter_shares(&graph, &newer.waits, counts, &cycles),
            kernel_holders: kernel_lock_holders(&graph, counts, &cycles),
            file_lock_queues: file_lock_queues(newer, counts, blocked_threads),
            mutex_queues: mutex_queues(newer, counts, &futex_holders),
            deadlocks: cycles.into_iter().filter(|cycle| cycle.kind == CycleKind::Deadlock).collect(),
            futex_holders,
        }
    }
}
