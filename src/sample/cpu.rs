//! CPU times of the host and of each CPU (/proc/stat), and the load average.

use crate::ids::CpuId;
use crate::units::Counter;

/// /proc/stat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpu {
    /// The line `cpu`: sums over all CPUs, offline ones included.
    pub total: CpuTimes,
    /// The lines `cpuN`, online CPUs only, sorted.
    pub cpus: Vec<(CpuId, CpuTimes)>,
    /// `ctxt`
    pub context_switches: Option<Counter>,
    /// `intr`, its first number
    pub interrupts: Option<Counter>,
    /// `processes`: forks and clones since boot
    pub forks: Option<Counter>,
    /// `procs_running`: tasks that run or wait for a CPU
    pub running: Option<u32>,
    /// `procs_blocked`: tasks that wait for I/O with iowait accounting
    pub blocked: Option<u32>,
}

/// One line of /proc/stat, in clock ticks (USER_HZ). `user` and `nice` contain `guest` and `guest_nice`. A field that this
/// kernel does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    pub user_ticks: Counter,
    pub nice_ticks: Counter,
    pub system_ticks: Counter,
    pub idle_ticks: Counter,
    pub iowait_ticks: Counter,
    pub irq_ticks: Counter,
    pub softirq_ticks: Counter,
    pub steal_ticks: Option<Counter>,
    pub guest_ticks: Option<Counter>,
    pub guest_nice_ticks: Option<Counter>,
}

/// /sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq, or `cpu MHz` of /proc/cpuinfo, as last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuFrequency {
    pub cpu: CpuId,
    pub khz: u32,
    /// cpuinfo_max_freq; 0 where it is not known
    pub max_khz: u32,
    /// CLOCK_BOOTTIME of that reading in whole seconds; 0 in recordings of earlier versions
    pub read_s: u32,
}

/// /proc/loadavg.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    pub one: f64,
    pub five: f64,
    pub fifteen: f64,
    /// Fourth field, before the slash: runnable scheduling entities now
    pub runnable: u32,
    /// Fourth field, after the slash: scheduling entities that exist
    pub entities: u32,
}
