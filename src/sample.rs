//! A sample: raw and cumulative counters at one instant, as the kernel gave them. The facts.
//!
//! Nothing here is a rate, a difference or a judgement, and no type of an outside crate appears in a field:
//! these names are what a recording keeps. Everything that does not change from one sample to the next is behind
//! an `Arc` which both samples share, so that an unchanged process costs neither a copy nor a comparison.

pub mod cgroup;
pub mod context_switches;
pub mod cpu;
pub mod delays;
pub mod disk;
pub mod exits;
pub mod host;
pub mod memory;
pub mod network;
pub mod operations;
pub mod pressure;
pub mod task;
pub mod waits;

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
    pub pressure: pressure::Pressure,
    /// Whole block devices that did I/O since boot, sorted by id.
    pub disks: Reading<Vec<disk::Disk>>,
    /// In the order of /proc/net/dev.
    pub nics: Reading<Vec<network::Nic>>,
    pub protocols: network::Protocols,
    /// Cgroups with a CPU quota, a CPU set, or a limit of memory or I/O, sorted by id. Where there are very many, those that
    /// were near their limit, and some of the others each time.
    pub cgroups: Reading<Vec<cgroup::Cgroup>>,
    /// Their limits of I/O, one a device, sorted by group and device.
    pub io_limits: Vec<cgroup::IoLimit>,
    pub tasks: Reading<task::Tasks>,
    /// Delay accounting of active threads, sorted by task. Where kernel.task_delayacct is off `Absent::Unsupported`.
    pub delays: Reading<Vec<delays::TaskDelays>>,
    /// Context switches, sorted by task, where they were requested. Not recorded
    pub context_switches: Reading<Vec<context_switches::TaskContextSwitches>>,
    pub waits: waits::Waits,
    /// Exits of short-lived tasks (taskstats)
    pub exits: Reading<exits::Exits>,
    /// What `record --ops` counts; `Absent::NotRead` where nothing is counted.
    pub operations: Reading<operations::Operations>,
    pub cost: SamplingCost,
}

impl Sample {
    /// A sample in which nothing could be read yet: what a reader fills, and what tests start from.
    pub fn empty(at: Instant) -> Sample {
        Sample {
            at,
            cpu: Err(Absent::NotRead),
            load: Err(Absent::NotRead),
            memory: Err(Absent::NotRead),
            pressure: pressure::Pressure::absent(Absent::NotRead),
            disks: Err(Absent::NotRead),
            nics: Err(Absent::NotRead),
            protocols: network::Protocols::absent(Absent::NotRead),
            cgroups: Err(Absent::NotRead),
            io_limits: Vec::new(),
            tasks: Err(Absent::NotRead),
            delays: Err(Absent::NotRead),
            context_switches: Err(Absent::NotRead),
            waits: waits::Waits::default(),
            exits: Err(Absent::NotRead),
            operations: Err(Absent::NotRead),
            cost: SamplingCost::default(),
        }
    }
}

/// What a reader brings back: the reading, or why there is none.
pub type Reading<T> = Result<T, Absent>;

/// Why a reading is missing. Shown as `-` with a legend, never as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absent {
    /// Not asked for yet, or in a recording from a version that did not keep it.
    NotRead,
    /// No such file or field on this kernel.
    NoSuchFile,
    /// EACCES or EPERM.
    NoPermission,
    /// The kernel answers, but with nothing: another user's task, hidepid, a container.
    Hidden,
    /// Gone between finding and reading it (ENOENT, ESRCH).
    Vanished,
    /// The kernel knows it but has it switched off (EOPNOTSUPP).
    Unsupported,
    /// Read, and not understood.
    Malformed,
    /// Any other error of the operating system, by its errno.
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
            Absent::Os(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

/// One instant on three clocks. Rates use BOOTTIME, which goes on during suspend; people read REALTIME, which may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instant {
    /// CLOCK_BOOTTIME, nanoseconds.
    pub boottime_ns: u64,
    /// CLOCK_MONOTONIC, nanoseconds: BOOTTIME without the time asleep.
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

/// What taking this sample cost the machine: the monitor measures itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingCost {
    /// CPU time of this whole process since its start, nanoseconds (CLOCK_PROCESS_CPUTIME_ID).
    pub process_cpu_ns: crate::units::Counter,
    /// CPU time of the full scan of all tasks, nanoseconds.
    pub scan_cpu_ns: u64,
    /// CPU time of the sub-samples since the last sample, nanoseconds.
    pub sub_samples_cpu_ns: u64,
    /// How long after its due time this sample was begun, nanoseconds.
    pub start_delay_ns: u64,
    /// Tasks whose files were read in the full scan.
    pub tasks_read: u32,
    /// Samples that were due before this one and were left out because they cost too much; see `app/sampling/pace.rs`.
    pub skipped_samples: u32,
}
