//! Operations of the user's workload: a running total that the command of `record --ops` prints.

use crate::units::Counter;

/// The last total that the command printed, and when. Samples repeat it until the next one is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Operations completed so far; it decreases if the workload restarts its count.
    pub total: Counter,
    /// CLOCK_BOOTTIME when the command printed it, nanoseconds. Never later than the sample.
    pub printed_boottime_ns: u64,
}
