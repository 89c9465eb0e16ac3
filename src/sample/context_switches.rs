//! Context switches of threads. They cost a file a thread that ran, so they are counted for whoever asks; no recording has
//! them.

use crate::ids::TaskId;
use crate::units::Counter;

/// One thread's; /proc/PID/task/TID/status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskContextSwitches {
    pub task: TaskId,
    pub counts: ContextSwitches,
}

/// How often it left a CPU, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSwitches {
    /// voluntary_ctxt_switches: it had to wait for something
    pub voluntary: Counter,
    /// nonvoluntary_ctxt_switches: another task was to run
    pub involuntary: Counter,
}
