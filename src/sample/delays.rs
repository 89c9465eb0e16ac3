//! Delay accounting: what kept tasks waiting, by the kernel's own count. Of active threads only.

use crate::ids::TaskId;
use crate::units::Counter;

/// One thread's account in taskstats. It is there only where kernel.task_delayacct was on when the thread was started: of
/// any other the kernel says 0 for everything, and it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskDelays {
    pub task: TaskId,
    /// blkio_delay: asleep in io_schedule(), for whatever it is: pages that came back and pages from swap, too
    pub block_io: Delay,
    /// swapin_delay: for pages from swap
    pub swap_in: Delay,
    /// freepages_delay: in direct reclaim
    pub reclaim: Option<Delay>,
    /// thrashing_delay: for pages of files that were dropped not long before; since 4.20
    pub thrashing: Option<Delay>,
    /// compact_delay: in memory compaction; since 5.17
    pub compaction: Option<Delay>,
    /// wpcopy_delay: copying write-protected pages; since 6.0
    pub write_protect_copy: Option<Delay>,
    /// irq_delay: interrupted by interrupts; since 6.5
    pub irq: Option<Delay>,
}

/// How often and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    pub count: Counter,
    pub total_ns: Counter,
}
