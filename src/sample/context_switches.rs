//! Context switches of threads. Reading them takes one file for each thread that ran: they are read only on request, and are
//! not recorded.

use crate::ids::TaskId;
use crate::units::Counter;

/// The context switches of one thread; /proc/PID/task/TID/status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskContextSwitches {
    pub task: TaskId,
    pub counts: ContextSwitches,
}

/// How often a thread left a CPU, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSwitches {
    /// voluntary_ctxt_switches: it had to wait for something
    pub voluntary: Counter,
    /// nonvoluntary_ctxt_switches: another task was to run
    pub involuntary: Counter,
}
