//! Tasks that exited since the previous sample and that no sample has: they lived between two scans. Reported by the kernel
//! at each exit (taskstats), summed up by owner and name.

use super::Name;
use crate::ids::ProcessId;
use crate::units::Counter;

/// Exits since the previous sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// Most CPU time first, then most tasks; at most `MOST_ROWS`.
    pub rows: Vec<ExitedTasks>,
    /// Those for which there was no row, all together.
    pub unlisted: UnlistedExits,
    /// Processes that ended and that an earlier sample has
    pub previously_sampled: u32,
    /// Exit messages that the kernel dropped because they came too fast
    pub lost_messages: Counter,
}

/// Rows of one sample.
pub const MAX_ROWS: usize = 32;

/// Tasks of one name that belong to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitedTasks {
    /// Of processes: the nearest ancestor that the sample before has, be it parent or grandparent. Of threads: their
    /// process. `None` where the line of descent is lost.
    pub owner: Option<ProcessId>,
    /// What that one is called; empty where it is not known
    pub owner_name: Name,
    /// As the tasks were named when they ended
    pub name: Name,
    /// Threads of a process that lives on, whose CPU time is in that process's clock; else whole processes
    pub are_threads: bool,
    pub count: u32,
    pub cpu: ExitCpuTime,
}

/// CPU time over whole lives, as two clocks have it when a task ends. The scheduler's lacks what ran since the last tick or
/// switch, which is all of a very short life; the tick's is right on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCpuTime {
    /// taskstats cpu_run_virtual_total
    pub run_ns: u64,
    /// taskstats ac_utime + ac_stime
    pub tick_ns: u64,
}

impl ExitCpuTime {
    pub fn add(&mut self, other: ExitCpuTime) {
        self.run_ns = self.run_ns.saturating_add(other.run_ns);
        self.tick_ns = self.tick_ns.saturating_add(other.tick_ns);
    }

    /// Of many: the larger one, as neither clock has too much.
    pub fn estimated_ns(self) -> u64 {
        self.run_ns.max(self.tick_ns)
    }
}

/// Tasks without a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnlistedExits {
    /// Processes
    pub processes: u32,
    pub cpu: ExitCpuTime,
    /// Threads of processes that live on
    pub threads: u32,
}
