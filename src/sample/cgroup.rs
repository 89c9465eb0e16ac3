//! Control groups that have a CPU quota or a memory limit, v1 or v2.

use crate::ids::CgroupId;
use crate::units::Counter;

/// One group. What its controller does not give is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroup {
    pub id: CgroupId,
    /// v1 cpu.cfs_quota_us, v2 the first word of cpu.max; `None` is no limit.
    pub quota_us: Option<u64>,
    /// v1 cpu.cfs_period_us, v2 the second word of cpu.max.
    pub period_us: Option<u64>,
    /// cpu.stat nr_periods: periods in which a task of the group wanted to run
    pub periods: Option<Counter>,
    /// cpu.stat nr_throttled
    pub throttled_periods: Option<Counter>,
    /// cpu.stat throttled_time (v1, ns) or throttled_usec (v2, here in ns), summed over CPUs
    pub throttled_ns: Option<Counter>,
    /// v1 cpuacct.usage, v2 cpu.stat usage_usec, in ns
    pub usage_ns: Option<Counter>,
    /// v1 memory.limit_in_bytes, v2 the smaller of memory.max and memory.high; `None` is no limit.
    pub memory_limit_bytes: Option<u64>,
    /// v1 memory.usage_in_bytes, v2 memory.current
    pub memory_usage_bytes: Option<u64>,
    /// memory.stat workingset_refault_anon + _file (v1: workingset_refault*), pages; read only near the limit
    pub refaulted_pages: Option<Counter>,
    /// memory.stat pgmajfault; read only near the limit
    pub major_faults: Option<Counter>,
}
