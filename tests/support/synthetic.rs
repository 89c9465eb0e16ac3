//! Synthetic samples: the one builder of made-up machines for unit tests, integration tests and benches, which include this
//! file by its path. What a machine does is described by each test; the rows of its samples are built here.
//!
//! Counters are cumulative, as in the kernel. Values that are not set are zero or absent.

#![allow(dead_code, unused_imports, clippy::must_use_candidate, reason = "each test binary uses a part of this file")]

#[path = "synthetic/disks.rs"]
mod disks;
#[path = "synthetic/evaluations.rs"]
mod evaluations;
#[path = "synthetic/findings.rs"]
mod findings;
#[path = "synthetic/network.rs"]
mod network;
#[path = "synthetic/tasks.rs"]
mod tasks;
#[path = "synthetic/waits.rs"]
pub mod waits;

use std::sync::Arc;

use stalltop::ids::CpuId;
use stalltop::sample::cpu::{Cpu, CpuTimes};
use stalltop::sample::disk::Disk;
use stalltop::sample::host::Privilege;
use stalltop::sample::network::Nic;
use stalltop::sample::task::{Process, Tasks};
use stalltop::sample::{Host, Instant, Sample};
use stalltop::units::Counter;

pub use disks::{DiskBuilder, disk, latency_bucket, operations};
pub use evaluations::{evaluation, screen};
pub use findings::finding;
pub use network::{NicBuilder, listener, nic, qdisc, remote_host, remote_hosts, round_trips, send_limits, softnet, traffic};
pub use tasks::{ProcessBuilder, ThreadBuilder, cgroup_id, docker_name, process, process_id, task_id, thread};

/// A machine of 100 ticks per second and pages of 4 KiB, sampled by root.
pub fn host() -> Host {
    Host {
        hostname: "db1".into(),
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        boot_id: "boot".into(),
        boot_time_s: None,
        page_size: 4096,
        ticks_per_second: 100,
        topology: Vec::new(),
        privilege: Privilege { effective_uid: 0, has_cap_sys_ptrace: true, delay_accounting: Ok(false), hidepid: false },
        has_hypervisor: None,
    }
}

/// An instant; `boot_time_s` is the wall clock at boot.
pub fn instant(since_boot_s: f64, boot_time_s: u64) -> Instant {
    let ns = (since_boot_s * 1e9).round() as u64;
    let realtime_ns = (boot_time_s * 1_000_000_000 + ns).cast_signed();
    Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns }
}

/// A sample without readings.
pub fn sample(since_boot_s: f64) -> SampleBuilder {
    sample_at(instant(since_boot_s, 1_700_000_000))
}

pub fn sample_at(at: Instant) -> SampleBuilder {
    SampleBuilder(Sample::empty(at))
}

/// A sample of a host whose CPU 0 has been busy since boot, while the others were idle.
pub fn one_busy_cpu(cpus: u32, since_boot_s: u64) -> SampleBuilder {
    let ticks = since_boot_s * 100;
    let times = |cpu| if cpu == 0 { cpu_times(ticks, 0, 0, 0) } else { cpu_times(0, 0, ticks, 0) };
    sample(since_boot_s as f64).cpus((0..cpus).map(times))
}

#[derive(Clone)]
pub struct SampleBuilder(Sample);

impl SampleBuilder {
    /// All CPUs, numbered from 0; the total is their sum.
    pub fn cpus(self, each: impl IntoIterator<Item = CpuTimes>) -> Self {
        self.with(|sample| sample.cpu = Ok(cpu(each)))
    }

    /// One more disk.
    pub fn disk(self, disk: impl Into<Disk>) -> Self {
        let disk = disk.into();
        self.with(|sample| match &mut sample.disks {
            Ok(disks) => disks.push(disk),
            Err(_) => sample.disks = Ok(vec![disk]),
        })
    }

    /// One more interface.
    pub fn nic(self, nic: impl Into<Nic>) -> Self {
        let nic = nic.into();
        self.with(|sample| match &mut sample.nics {
            Ok(nics) => nics.push(nic),
            Err(_) => sample.nics = Ok(vec![nic]),
        })
    }

    /// All processes, in the order of their pids.
    pub fn processes<P: Into<Arc<Process>>>(self, processes: impl IntoIterator<Item = P>) -> Self {
        let mut processes: Vec<Arc<Process>> = processes.into_iter().map(Into::into).collect();
        processes.sort_by_key(|process| process.pid);
        self.with(|sample| sample.tasks = Ok(Tasks { processes, ..Tasks::default() }))
    }

    /// Sets any field.
    pub fn with(mut self, set: impl FnOnce(&mut Sample)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Sample {
        self.0
    }

    pub fn shared(self) -> Arc<Sample> {
        Arc::new(self.0)
    }
}

/// Ticks of a CPU in user, system, idle and iowait; steal is known to be 0.
pub fn cpu_times(user: u64, system: u64, idle: u64, iowait: u64) -> CpuTimes {
    CpuTimes {
        user_ticks: Counter(user),
        system_ticks: Counter(system),
        idle_ticks: Counter(idle),
        iowait_ticks: Counter(iowait),
        steal_ticks: Some(Counter(0)),
        ..CpuTimes::default()
    }
}

/// CPUs numbered from 0; the total is their sum.
pub fn cpu(each: impl IntoIterator<Item = CpuTimes>) -> Cpu {
    let cpus: Vec<_> = (0..).map(CpuId).zip(each).collect();
    let sum = |field: fn(&CpuTimes) -> Counter| Counter(cpus.iter().map(|(_, times)| field(times).0).sum());
    let sum_of_known = |field: fn(&CpuTimes) -> Option<Counter>| {
        cpus.iter().map(|(_, times)| field(times).map(|ticks| ticks.0)).sum::<Option<u64>>().map(Counter)
    };
    let total = CpuTimes {
        user_ticks: sum(|times| times.user_ticks),
        nice_ticks: sum(|times| times.nice_ticks),
        system_ticks: sum(|times| times.system_ticks),
        idle_ticks: sum(|times| times.idle_ticks),
        iowait_ticks: sum(|times| times.iowait_ticks),
        irq_ticks: sum(|times| times.irq_ticks),
        softirq_ticks: sum(|times| times.softirq_ticks),
        steal_ticks: sum_of_known(|times| times.steal_ticks),
        guest_ticks: sum_of_known(|times| times.guest_ticks),
        guest_nice_ticks: sum_of_known(|times| times.guest_nice_ticks),
    };
    Cpu { total, cpus, ..Cpu::default() }
}
