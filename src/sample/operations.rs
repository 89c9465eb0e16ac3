//! What the machine works for: a running total that a command of the user's prints while it is recorded.

use crate::units::Counter;

/// A running total, and when it was printed. Samples that are taken before the next one repeat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Operations done so far; falls where what counts them was started anew.
    pub total: Counter,
    /// CLOCK_BOOTTIME when the command had printed it, nanoseconds. Never after the sample.
    pub printed_boottime_ns: u64,
}
