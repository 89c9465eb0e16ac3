//! Facts about a machine that do not change until the next boot.

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
    /// /proc/sys/kernel/random/boot_id; counters of different boots are never subtracted.
    pub boot_id: Name,
    /// Wall-clock second of boot; /proc/stat btime.
    pub boot_time_s: Option<u64>,
    /// Bytes; sysconf(_SC_PAGESIZE).
    pub page_size: u64,
    /// Clock ticks per second in /proc (USER_HZ); sysconf(_SC_CLK_TCK).
    pub ticks_per_second: u64,
    /// Node, package and core of every possible CPU; /sys/devices/system/cpu.
    pub topology: Vec<CpuTopology>,
    /// What the user that takes samples may read.
    pub privilege: Privilege,
    /// Whether the first CPU of /proc/cpuinfo has the flag `hypervisor`; `None` where it has no flags (not x86), and in recordings of
    /// earlier versions.
    #[serde(default)]
    pub has_hypervisor: Option<bool>,
}

impl Host {
    /// Converts clock ticks (USER_HZ) to seconds.
    pub fn seconds(&self, ticks: f64) -> f64 {
        ticks / self.ticks_per_second.max(1) as f64
    }

    /// Whether both are the same boot of the same machine. Counters of different boots are never subtracted.
    pub fn is_same_boot(&self, other: &Host) -> bool {
        (&self.boot_id, &self.hostname, &self.machine) == (&other.boot_id, &other.hostname, &other.machine)
    }
}

/// Position of a CPU in the machine.
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

/// What the user that takes samples may read, as far as figures depend on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Privilege {
    pub effective_uid: u32,
    /// CAP_SYS_PTRACE: wait channels, system calls, io and files of other users' tasks.
    pub has_cap_sys_ptrace: bool,
    /// kernel.task_delayacct; if it is off the kernel reports 0 for all block I/O delays.
    pub delay_accounting: Reading<bool>,
    /// Whether /proc is mounted with hidepid ≥ 1.
    pub hidepid: bool,
}

impl Privilege {
    /// Whether wait channels and system calls of that user's threads are readable.
    pub fn can_inspect_tasks_of(&self, uid: u32) -> bool {
        self.has_cap_sys_ptrace || uid == self.effective_uid
    }
}
