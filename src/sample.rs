//! A sample: raw, cumulative counters at one instant, as the kernel reported them, without rates and judgements. One exception:
//! TCP connections are too many to keep; it has their sums by remote host, and single ones that threads wait on (docs/metrics.md,
//! "Connections").
//!
//! `waits/class`, `waits/syscall` and `cgroup/owner` have names of the kernel and of container runtimes that `kernel` and `interval`
//! both need; no field of a sample is computed from them.
//!
//! No field has a type of an outside crate, because recordings keep these fields. What does not change between two samples is
//! behind an `Arc` that both share, so that an unchanged process is neither copied nor compared.

pub mod block_latencies;
pub mod cgroup;
pub mod context_switches;
pub mod cpu;
pub mod delays;
pub mod disk;
pub mod exits;
pub mod file_systems;
pub mod histogram_bucket;
pub mod host;
pub mod limits;
pub mod memory;
pub mod network;
pub mod operations;
pub mod pressure;
pub mod query;
pub mod run_queue;
pub mod stacks;
pub mod task;
pub mod task_state;
pub mod waits;
pub mod wakes;

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

pub use crate::ids::Name;
pub use host::Host;

/// All that was read at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub at: Instant,
    pub cpu: Reading<cpu::Cpu>,
    pub load: Reading<cpu::Load>,
    pub memory: Reading<memory::Memory>,
    /// NUMA nodes, sorted by number; read only while tasks wait for memory
    pub memory_nodes: Vec<memory::MemoryNode>,
    pub pressure: pressure::Pressure,
    /// Whole block devices that have done I/O since boot, sorted by id.
    pub disks: Reading<Vec<disk::Disk>>,
    /// Latency histograms of their requests; `Absent` without the eBPF program that counts them.
    pub block_latencies: Reading<block_latencies::BlockLatencies>,
    /// In the order of /proc/net/dev.
    pub nics: Reading<Vec<network::Nic>>,
    pub protocols: network::Protocols,
    /// Network namespaces other than that of stalltop
    pub network_namespaces: Reading<network::namespaces::NetworkNamespaces>,
    /// Cgroups with a CPU quota, a cpuset, or a limit of memory or I/O, sorted by id. Of more than 512, those near their limit,
    /// and some of the others in turn.
    pub cgroups: Reading<Vec<cgroup::Cgroup>>,
    /// Their I/O limits, one per device, sorted by group and device.
    pub io_limits: Vec<cgroup::IoLimit>,
    pub tasks: Reading<task::Tasks>,
    /// Delay accounting of active threads, sorted by task; `Absent::Unsupported` if kernel.task_delayacct is off.
    pub delays: Reading<Vec<delays::TaskDelays>>,
    /// Context switches, sorted by task; read only if they are requested, and not recorded.
    pub context_switches: Reading<Vec<context_switches::TaskContextSwitches>>,
    pub waits: waits::Waits,
    /// Exits of short-lived tasks (taskstats)
    pub exits: Reading<exits::Exits>,
    /// Operations counted by `record --ops`; `Absent::NotRead` without that option.
    pub operations: Reading<operations::Operations>,
    pub cost: SamplingCost,
    /// CPU weights of the cgroups with runnable tasks, sorted by id; empty while only the task that takes the sample is runnable
    pub cgroup_weights: Vec<cgroup::CgroupWeight>,
    pub read_delays: ReadDelays,
    /// Names of the containers that processes or limited cgroups are in, as far as the runtimes' state files can be read, sorted
    /// by id. Not recorded with `--redact`.
    pub container_names: Vec<cgroup::ContainerName>,
    /// Limits of the kernel that are nearly used up
    pub limits: Reading<limits::Limits>,
    /// Sorted by CPU; empty where the kernel does not report them
    pub cpu_frequencies: Vec<cpu::CpuFrequency>,
    /// Kernel stacks of stuck threads, sorted by task: at most `stacks::MAX_STACKS`; empty while none is stuck
    pub stacks: Reading<Vec<stacks::ThreadStack>>,
    /// User stacks of stuck threads, sorted by task: at most `stacks::MAX_STACKS`. `Unsupported`: built without them
    pub user_stacks: Reading<Vec<stacks::UserStack>>,
}

impl Sample {
    /// A sample in which nothing has been read yet.
    pub fn empty(at: Instant) -> Sample {
        Sample {
            at,
            cpu: Err(Absent::NotRead),
            load: Err(Absent::NotRead),
            memory: Err(Absent::NotRead),
            memory_nodes: Vec::new(),
            pressure: pressure::Pressure::absent(Absent::NotRead),
            disks: Err(Absent::NotRead),
            block_latencies: Err(Absent::NotRead),
            nics: Err(Absent::NotRead),
            protocols: network::Protocols::absent(Absent::NotRead),
            network_namespaces: Err(Absent::NotRead),
            cgroups: Err(Absent::NotRead),
            io_limits: Vec::new(),
            tasks: Err(Absent::NotRead),
            delays: Err(Absent::NotRead),
            context_switches: Err(Absent::NotRead),
            waits: waits::Waits::default(),
            exits: Err(Absent::NotRead),
            operations: Err(Absent::NotRead),
            cost: SamplingCost::default(),
            cgroup_weights: Vec::new(),
            read_delays: ReadDelays::default(),
            container_names: Vec::new(),
            limits: Err(Absent::NotRead),
            cpu_frequencies: Vec::new(),
            stacks: Err(Absent::NotRead),
            user_stacks: Err(Absent::NotRead),
        }
    }
}

impl Sample {
    /// The name of the container with this id.
    pub fn container_name(&self, id: &[u8]) -> Option<&cgroup::ContainerName> {
        let place = self.container_names.binary_search_by(|known| known.id.as_bytes().cmp(id)).ok()?;
        self.container_names.get(place)
    }
}

/// The result of a reading: the value, or why it is missing.
pub type Reading<T> = Result<T, Absent>;

/// Why a reading is missing. Shown as `-` with a legend, never as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absent {
    /// Not read in this sample.
    NotRead,
    /// This kernel has no such file or field.
    NoSuchFile,
    /// EACCES or EPERM.
    NoPermission,
    /// The kernel returns an empty answer: a task of another user, hidepid, a container.
    Hidden,
    /// It disappeared between discovery and reading (ENOENT, ESRCH).
    Vanished,
    /// Switched off in this kernel (EOPNOTSUPP).
    Unsupported,
    /// It was read and cannot be parsed.
    Malformed,
    /// Reading it took too much CPU time; it is tried again later.
    TooExpensive,
    /// Any other error, by its errno.
    Os(i32),
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absent::NotRead => f.write_str("not read"),
            Absent::NoSuchFile => f.write_str("not on this kernel"),
            Absent::NoPermission => f.write_str("no permission"),
            Absent::Hidden => f.write_str("hidden from this user"),
            Absent::Vanished => f.write_str("vanished while it was read"),
            Absent::Unsupported => f.write_str("switched off in this kernel"),
            Absent::Malformed => f.write_str("not understood"),
            Absent::TooExpensive => f.write_str("took too much CPU time"),
            Absent::Os(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

/// One instant on three clocks. Rates use BOOTTIME, which continues during suspend; REALTIME, which may jump, is displayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instant {
    /// CLOCK_BOOTTIME, nanoseconds.
    pub boottime_ns: u64,
    /// CLOCK_MONOTONIC, nanoseconds: BOOTTIME without the time in suspend.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, nanoseconds after 1970 in UTC.
    pub realtime_ns: i64,
}

impl Instant {
    /// Seconds of CLOCK_BOOTTIME after `older`; 0 when it is not later.
    pub fn seconds_since(self, older: Instant) -> f64 {
        self.boottime_ns.saturating_sub(older.boottime_ns) as f64 / 1e9
    }
}

/// How long after `Sample::at` counters were read, µs by CLOCK_BOOTTIME; 0 below 4 ms. On a machine without a free CPU the sampler
/// may lose its CPU between two files for seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDelays {
    pub disks_us: u32,
    /// Network interfaces, and the protocols after them
    pub nics_us: u32,
    pub cgroups_us: u32,
    /// Other network namespaces, read after the tasks
    pub network_namespaces_us: u32,
}

/// The cost of taking a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingCost {
    /// CPU time of the monitor since its start, nanoseconds (CLOCK_PROCESS_CPUTIME_ID).
    pub process_cpu_ns: crate::units::Counter,
    /// CPU time of the full scan of all tasks, nanoseconds.
    pub scan_cpu_ns: u64,
    /// CPU time of the sub-samples since the last sample, nanoseconds.
    pub sub_samples_cpu_ns: u64,
    /// Delay between the time at which this sample was due and its start, nanoseconds.
    pub start_delay_ns: u64,
    /// Tasks whose files were read in the full scan.
    pub tasks_read: u32,
    /// Samples that were due before this one and were omitted because they cost too much; see `app/sampling/throttle.rs`.
    pub skipped_samples: u32,
}
