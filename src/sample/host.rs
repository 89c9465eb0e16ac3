//! What stays the same while the machine is up.

use serde::{Deserialize, Serialize};

use super::{Name, Reading};
use crate::ids::CpuId;

/// The machine that was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// /proc/sys/kernel/hostname
    pub hostname: Name,
    /// /proc/sys/kernel/osrelease
    pub kernel: Name,
    /// uname machine, e.g. x86_64
    pub machine: Name,
    /// /proc/sys/kernel/random/boot_id; counters of another boot are never subtracted.
    pub boot_id: Name,
    /// Wall-clock second of boot; /proc/stat btime.
    pub boot_time_s: Option<u64>,
    /// Bytes; sysconf(_SC_PAGESIZE).
    pub page_size: u64,
    /// Clock ticks a second of /proc figures (USER_HZ); sysconf(_SC_CLK_TCK).
    pub ticks_per_second: u64,
    /// Every possible CPU with where it sits; /sys/devices/system/cpu.
    pub topology: Vec<CpuTopology>,
    /// What this user may do, as far as the figures depend on it.
    pub privilege: Privilege,
}

impl Host {
    /// Seconds of a number of clock ticks (USER_HZ).
    pub fn seconds(&self, ticks: f64) -> f64 {
        ticks / self.ticks_per_second.max(1) as f64
    }

    /// Whether both are one run of one machine: else no counter of the one is subtracted from one of the other.
    pub fn is_same_boot(&self, other: &Host) -> bool {
        (&self.boot_id, &self.hostname, &self.machine) == (&other.boot_id, &other.hostname, &other.machine)
    }
}

/// Where a CPU sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTopology {
    pub cpu: CpuId,
    /// /sys/devices/system/node/nodeN/cpulist; 0 where there is no NUMA.
    pub node: u32,
    /// topology/physical_package_id
    pub package: u32,
    /// topology/core_id
    pub core: u32,
}

/// What the user that samples may see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Privilege {
    pub effective_uid: u32,
    /// CAP_SYS_PTRACE: wait channels, system calls, io and files of other users' tasks.
    pub has_cap_sys_ptrace: bool,
    /// kernel.task_delayacct; without it block-I/O delays read 0 although there are some.
    pub delay_accounting: Reading<bool>,
    /// Whether /proc is mounted with hidepid ≥ 1.
    pub hidepid: bool,
}

impl Privilege {
    /// Whether what the threads of that user's processes wait for could be seen.
    pub fn can_inspect_tasks_of(&self, uid: u32) -> bool {
        self.has_cap_sys_ptrace || uid == self.effective_uid
    }
}
