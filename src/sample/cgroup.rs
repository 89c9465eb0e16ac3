//! Control groups that have a limit (CPU quota, cpuset, memory, I/O), of cgroup v1 or v2. Read by `kernel/cgroup`.

pub mod owner;

use self::owner::ContainerRuntime;
use super::Name;
use crate::ids::{CgroupId, DiskId};
use crate::units::Counter;

/// One group. A field that its controllers do not have is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroup {
    pub id: CgroupId,
    /// v1 cpu.cfs_quota_us, v2 the first word of cpu.max; `None` is no limit.
    pub quota_us: Option<u64>,
    /// v1 cpu.cfs_period_us, v2 the second word of cpu.max.
    pub period_us: Option<u64>,
    /// cpu.stat nr_periods: periods in which a task of the group was runnable
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
    /// v1 memory.failcnt, v2 `max` and `high` of memory.events.local (before 5.2 memory.events): how often an allocation
    /// met this group's own limit; read only near the limit
    pub memory_limit_hits: Option<Counter>,
    /// `oom_kill` of v1 memory.oom_control, v2 memory.events; read again only after `Memory::oom_kills` of the host has grown
    pub oom_kills: Option<Counter>,
    /// `oom` of v2 memory.events: how often its limit, or that of a group below it, was met and nothing could be reclaimed. A kill for
    /// lack of memory on the host does not count here. Read with `oom_kills`
    pub limit_ooms: Option<Counter>,
    /// The CPUs that its tasks may use, as the kernel lists them (`0-3,8`), where they are fewer than those of the group
    /// above: v1 cpuset.effective_cpus, v2 cpuset.cpus.effective. `None` is no limit of its own.
    pub cpus: Option<Name>,
    pub pressure: CgroupPressure,
    pub pressure_averages: CgroupPressureAverages,
}

impl Cgroup {
    /// A group of which nothing has been read yet.
    pub fn new(id: CgroupId) -> Cgroup {
        Cgroup {
            id,
            quota_us: None,
            period_us: None,
            periods: None,
            throttled_periods: None,
            throttled_ns: None,
            usage_ns: None,
            memory_limit_bytes: None,
            memory_usage_bytes: None,
            refaulted_pages: None,
            major_faults: None,
            memory_limit_hits: None,
            oom_kills: None,
            limit_ooms: None,
            cpus: None,
            pressure: CgroupPressure::default(),
            pressure_averages: CgroupPressureAverages::default(),
        }
    }
}

/// How long tasks of the group were stalled, microseconds: `total` of cpu.pressure, io.pressure and memory.pressure; v2 only.
/// A file is read only if the group limits that resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupPressure {
    pub cpu_some_us: Option<Counter>,
    pub io_some_us: Option<Counter>,
    pub io_full_us: Option<Counter>,
    pub memory_some_us: Option<Counter>,
    pub memory_full_us: Option<Counter>,
}

/// The averages in the lines of the files that `CgroupPressure` is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupPressureAverages {
    pub cpu_some: Option<StallAverages>,
    pub io_some: Option<StallAverages>,
    pub io_full: Option<StallAverages>,
    pub memory_some: Option<StallAverages>,
    pub memory_full: Option<StallAverages>,
}

/// `avg10`, `avg60` and `avg300` of a line: hundredths of a per cent of the last 10, 60 and 300 s, the kernel's precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallAverages {
    pub avg10: u16,
    pub avg60: u16,
    pub avg300: u16,
}

/// The CPU weight of a group with runnable tasks, or of one above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupWeight {
    pub id: CgroupId,
    /// v1 cpu.shares (2 … 262,144, by default 1024), v2 cpu.weight (1 … 10,000, by default 100; 0: cpu.idle is 1)
    pub weight: u64,
}

/// The name of a container that some process is in, from the state files of its runtime (`kernel/containers`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    /// As in the path of its cgroup: 64 hexadecimal digits.
    pub id: Name,
    pub runtime: ContainerRuntime,
    pub name: Name,
    /// The UID of its pod, as in the path of the cgroup.
    pub pod_uid: Option<Name>,
    pub pod: Option<Name>,
    /// The Kubernetes namespace of the pod.
    pub namespace: Option<Name>,
}

/// The I/O limits of a group on one device, and its I/O there.
#[derive(Clone, Debug, PartialEq)]
pub struct IoLimit {
    pub cgroup: CgroupId,
    pub disk: DiskId,
    /// v2 io.max, v1 blkio.throttle.{read,write}_{bps,iops}_device; per second
    pub max: IoMax,
    /// v2 io.stat, which includes child groups; v1 blkio.throttle.io_service_bytes and io_serviced, which, like the v1 limits,
    /// do not
    pub stat: IoStat,
}

/// Limits on one device, per second; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoMax {
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    pub reads: Option<u64>,
    pub writes: Option<u64>,
}

/// I/O on one device; `None` if it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStat {
    pub read_bytes: Option<Counter>,
    pub write_bytes: Option<Counter>,
    pub reads: Option<Counter>,
    pub writes: Option<Counter>,
}

/// A controller with limits. In v1 each may have a hierarchy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Cpu,
    Memory,
    Io,
    Cpuset,
    Pids,
}

/// The groups of a process in v1 hierarchies other than that of the CPU controller. `None` if the controller is not in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memberships {
    pub memory: Option<CgroupId>,
    pub io: Option<CgroupId>,
    pub cpuset: Option<CgroupId>,
    pub pids: Option<CgroupId>,
}

impl Memberships {
    /// The group for this controller; `None` for the CPU controller, which is not kept here.
    pub fn for_controller(&self, controller: Controller) -> Option<&CgroupId> {
        match controller {
            Controller::Cpu => None,
            Controller::Memory => self.memory.as_ref(),
            Controller::Io => self.io.as_ref(),
            Controller::Cpuset => self.cpuset.as_ref(),
            Controller::Pids => self.pids.as_ref(),
        }
    }
}
