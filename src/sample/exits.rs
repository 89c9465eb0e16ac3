//! Tasks that started and exited between two scans, so that no sample contains them. The kernel reports each exit (taskstats);
//! here they are summed by owner and name.
//!
//! The reader sums them, since tens of thousands of tasks may exit between two samples. So single exits are not in a recording,
//! and cannot be evaluated again. Both CPU clocks are kept as the kernel gave them.

use super::Name;
use crate::ids::ProcessId;
use crate::units::Counter;

/// Exits since the previous sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// Most CPU time first, then most tasks; at most `MAX_ROWS`.
    pub rows: Vec<ExitedTasks>,
    /// The sum of all that have no row
    pub unlisted: UnlistedExits,
    /// Processes that exited and that an earlier sample contains
    pub previously_sampled: u32,
    /// Exit messages that the kernel dropped because the socket's buffer was full
    pub lost_messages: Counter,
}

/// Rows kept in one sample.
pub const MAX_ROWS: usize = 32;

/// Tasks of one name that belong to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitedTasks {
    /// For processes: the nearest ancestor that the previous sample contains. For threads: their process. `None` if no such
    /// ancestor is known.
    pub owner: Option<ProcessId>,
    /// comm of the owner; empty if unknown
    pub owner_name: Name,
    /// comm of the tasks when they exited
    pub name: Name,
    /// Threads of a process that still runs, whose CPU clock contains their CPU time; otherwise whole processes
    pub are_threads: bool,
    pub count: u32,
    pub cpu: ExitCpuTime,
}

/// CPU time of tasks from start to exit, by two clocks. The scheduler's clock lacks the time since the last tick or context
/// switch, which may be the whole run time of a very short task; the tick clock is right on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCpuTime {
    /// taskstats cpu_run_virtual_total
    pub run_ns: u64,
    /// taskstats ac_utime + ac_stime
    pub tick_ns: u64,
}

impl ExitCpuTime {
    /// Adds the CPU time of another task.
    pub fn add(&mut self, other: ExitCpuTime) {
        self.run_ns = self.run_ns.saturating_add(other.run_ns);
        self.tick_ns = self.tick_ns.saturating_add(other.tick_ns);
    }

    /// For a sum over many tasks: the larger of both, since neither clock counts too much.
    pub fn estimated_ns(self) -> u64 {
        self.run_ns.max(self.tick_ns)
    }
}

/// Exited tasks without a row of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnlistedExits {
    pub processes: u32,
    /// Of `processes`; that of the threads is in the clocks of their processes
    pub cpu: ExitCpuTime,
    /// Threads of processes that still run
    pub threads: u32,
}
