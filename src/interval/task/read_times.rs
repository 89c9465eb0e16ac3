//! The time between the two readings of a process. It is that between the samples, unless the sampler lost its CPU while it read
//! the tasks: what a process used meanwhile is in its counters, so that the time must be in its rates, too.

use crate::sample::task::Tasks;

/// The tasks of both samples, each with the CLOCK_BOOTTIME of its sample, ns.
pub(super) struct ReadTimes<'a> {
    pub older: (u64, &'a Tasks),
    pub newer: (u64, &'a Tasks),
}

impl ReadTimes<'_> {
    /// Seconds from the reading of this process in the older sample to that in the newer one. A process that the older sample does
    /// not have counts from the older sample on.
    pub fn seconds(&self, pid: u32, in_older: bool) -> f64 {
        let read_ns = |(sample_ns, tasks): (u64, &Tasks)| tasks.read_time_ns(pid).map_or(sample_ns, |ns| ns.max(sample_ns));
        let from_ns = if in_older { read_ns(self.older) } else { self.older.0 };
        read_ns(self.newer).saturating_sub(from_ns) as f64 / 1e9
    }
}
