//! Delay accounting of active threads: how long the kernel says that they waited, by cause (taskstats).

use crate::ids::TaskId;
use crate::units::Counter;

/// The delays of one thread, from struct taskstats. The kernel counts them only for threads that started while
/// kernel.task_delayacct was on, and reports 0 for others; those have no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskDelays {
    pub task: TaskId,
    /// blkio_delay: asleep in io_schedule(), also for refaulted pages and pages from swap
    pub block_io: Delay,
    /// swapin_delay: for pages from swap
    pub swap_in: Delay,
    /// freepages_delay: in direct reclaim
    pub reclaim: Option<Delay>,
    /// thrashing_delay: for file pages that were evicted recently; since 4.20
    pub thrashing: Option<Delay>,
    /// compact_delay: in memory compaction; since 5.17
    pub compaction: Option<Delay>,
    /// wpcopy_delay: copying write-protected pages; since 6.0
    pub write_protect_copy: Option<Delay>,
    /// irq_delay: interrupt handlers that ran on its CPU; since 6.5
    pub irq: Option<Delay>,
}

/// Number and total length of the waits for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    pub count: Counter,
    pub total_ns: Counter,
}
