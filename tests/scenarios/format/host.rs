//! CPUs, disks, memory, cgroups and limits of a scenario file.

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Shares {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
    pub iowait: f64,
    /// The rest of 100 if it is not given
    pub idle: Option<f64>,
    /// In no field; below 0: counted twice
    pub unaccounted: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Core {
    pub cpu: u32,
    pub shares: Shares,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Disk {
    pub name: String,
    pub rotational: Option<bool>,
    pub serial: Option<String>,
    /// Whether a device of the device mapper is suspended
    pub suspended: Option<bool>,
    /// Seconds after which a request is aborted
    pub timeout: Option<u64>,
    /// What md does beside the requests: check, recover
    pub sync_action: Option<String>,
    #[serde(default)]
    pub stands_on: Vec<String>,
    pub reads: Option<Operation>,
    pub writes: Option<Operation>,
    pub flushes: Option<Operation>,
    #[serde(default)]
    pub busy: f64,
    #[serde(default)]
    pub in_flight: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Operation {
    pub per_second: f64,
    pub await_ms: f64,
    /// What eBPF measures of single requests: requests per second, and the latency of each of them in milliseconds
    #[serde(default)]
    pub measured: Vec<(f64, f64)>,
    #[serde(default = "four")]
    pub kib: f64,
}

fn four() -> f64 {
    4.0
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Memory {
    pub total_mib: u64,
    pub available_mib: u64,
    pub swap_in_mib: f64,
    pub swap_out_mib: f64,
    pub refaults: f64,
    /// Dirty and Writeback together, and the limit of dirty pages; the background limit is half of it
    pub dirty_mib: u64,
    pub dirty_limit_mib: Option<u64>,
    /// Pages reclaimed by kswapd and by tasks
    pub reclaimed: Option<f64>,
    /// Pages scanned by tasks themselves, and their stalls
    pub direct: Option<f64>,
    /// Stalls for compaction; as many as `direct` if not given
    pub compaction_stalls: Option<f64>,
    pub major_faults: f64,
    /// In the first interval of the phase only
    pub oom_kills: u64,
    /// Total and free memory of each NUMA node, where they are read
    pub nodes_mib: Vec<(u64, u64)>,
}

/// The clock rate of all CPUs
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Frequency {
    pub mhz: u32,
    pub max_mhz: u32,
    /// Age of the reading at each sample
    #[serde(default)]
    pub age_seconds: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Pressure {
    pub cpu: f64,
    pub io: f64,
    pub memory: f64,
    /// The kernel has no PSI
    pub absent: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cgroup {
    pub path: String,
    pub quota_cpus: Option<f64>,
    #[serde(default)]
    pub used_cpus: f64,
    /// Seconds per second, of all CPUs
    #[serde(default)]
    pub throttled: f64,
    /// Share of its periods in which it is throttled; without it of all
    pub throttled_periods: Option<f64>,
    pub memory_limit_mib: Option<u64>,
    #[serde(default)]
    pub memory_used_mib: u64,
    #[serde(default)]
    pub refaults: f64,
    #[serde(default)]
    pub major_faults: f64,
    /// Allocations per second that met the limit
    pub limit_hits: Option<f64>,
    /// In the first interval only
    pub oom_kills: Option<u64>,
    /// `oom` of its memory.events, in the first interval only
    pub limit_ooms: Option<u64>,
    /// Its own PSI memory some, per cent
    pub memory_stall: Option<f64>,
    /// The CPUs that its cpuset allows, `0-3,8`
    pub cpus: Option<String>,
    #[serde(default)]
    pub io: Vec<IoLimit>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IoLimit {
    pub disk: String,
    /// A second, as the rest
    pub most_reads: Option<u64>,
    pub most_writes: Option<u64>,
    #[serde(default)]
    pub reads: f64,
    #[serde(default)]
    pub writes: f64,
}

/// The CPU weight of a cgroup
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Weight {
    pub path: String,
    pub weight: u64,
}

/// A container whose name the state of its runtime has
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Container {
    /// 64 hexadecimal digits
    pub id: String,
    pub name: String,
    pub pod: Option<String>,
    pub namespace: Option<String>,
}

/// A limit of the kernel that is nearly used up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limit {
    /// cgroup-tasks, open-files, host-files, tracked-connections, local-ports, host-tasks, task-ids, neighbours, committed-memory, tcp-memory,
    /// file-system-space (KB), file-system-inodes
    pub kind: String,
    pub used: u64,
    pub max: u64,
    /// Per second; not counted if it is left out
    pub refused: Option<f64>,
    /// Name of the process, with pid 900
    pub owner: Option<String>,
    pub cgroup: Option<String>,
    pub remote: Option<String>,
    #[serde(default)]
    pub time_wait: u64,
    pub mount_point: Option<String>,
}
