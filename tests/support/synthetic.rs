//! Synthetic samples: the one builder of made-up machines for unit tests, integration tests and benches, which include this
//! file by its path.
//!
//! Counters are cumulative, as in the kernel. Values that are not set are zero or absent.

#![allow(dead_code, unused_imports, clippy::must_use_candidate, reason = "each test binary uses a part of this file")]

#[path = "synthetic_tasks.rs"]
mod tasks;

#[path = "synthetic_waits.rs"]
pub mod waits;

use std::sync::Arc;

use stalltop::ids::{CpuId, DiskId, NicId};
use stalltop::sample::cpu::{Cpu, CpuTimes};
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters};
use stalltop::sample::host::Privilege;
use stalltop::sample::network::{Direction, Duplex, Nic, NicFacts, Qdisc};
use stalltop::sample::task::{Process, Tasks};
use stalltop::sample::{Absent, Host, Instant, Name, Sample};
use stalltop::units::Counter;
pub use tasks::{ProcessBuilder, ThreadBuilder, process, thread};

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
        self.with(|sample| sample.cpu = Ok(Cpu { total, cpus, ..Cpu::default() }))
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

/// Completed requests of `kib_each` KiB; `time_ms` is the sum of their times.
pub fn operations(completed: u64, kib_each: u64, time_ms: u64) -> OpCounters {
    OpCounters {
        completed: Counter(completed),
        merged: Counter(0),
        sectors: Counter(completed * kib_each * 2),
        time_ms: Counter(time_ms),
    }
}

/// Disk 8:0 of a kernel that counts neither discards nor flushes.
pub fn disk(name: impl Into<Name>) -> DiskBuilder {
    DiskBuilder(Disk {
        id: DiskId { major: 8, minor: 0 },
        name: name.into(),
        facts: Arc::default(),
        reads: OpCounters::default(),
        writes: OpCounters::default(),
        discards: None,
        flushes: None,
        flush_time_ms: None,
        in_flight: 0,
        io_ticks_ms: Counter(0),
        time_in_queue_ms: Counter(0),
    })
}

#[derive(Clone)]
pub struct DiskBuilder(Disk);

impl DiskBuilder {
    pub fn id(self, major: u32, minor: u32) -> Self {
        self.with(|disk| disk.id = DiskId { major, minor })
    }

    pub fn facts(self, facts: DiskFacts) -> Self {
        self.with(|disk| disk.facts = Arc::new(facts))
    }

    pub fn reads(self, reads: OpCounters) -> Self {
        self.with(|disk| disk.reads = reads)
    }

    pub fn writes(self, writes: OpCounters) -> Self {
        self.with(|disk| disk.writes = writes)
    }

    pub fn flushes(self, completed: u64, time_ms: u64) -> Self {
        self.with(|disk| (disk.flushes, disk.flush_time_ms) = (Some(Counter(completed)), Some(Counter(time_ms))))
    }

    pub fn in_flight(self, requests: u32) -> Self {
        self.with(|disk| disk.in_flight = requests)
    }

    /// Time with at least one request in flight, and the sum of the times of all requests.
    pub fn busy_ms(self, io_ticks: u64, time_in_queue: u64) -> Self {
        self.with(|disk| (disk.io_ticks_ms, disk.time_in_queue_ms) = (Counter(io_ticks), Counter(time_in_queue)))
    }

    pub fn with(mut self, set: impl FnOnce(&mut Disk)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Disk {
        self.0
    }
}

impl From<DiskBuilder> for Disk {
    fn from(builder: DiskBuilder) -> Disk {
        builder.0
    }
}

pub fn traffic(bytes: u64, packets: u64) -> Direction {
    Direction { bytes: Counter(bytes), packets: Counter(packets), ..Direction::default() }
}

/// A full-duplex interface that is up, of unknown speed.
pub fn nic(ifindex: u32, name: impl Into<Name>) -> NicBuilder {
    NicBuilder(Nic {
        id: NicId { ifindex, name: name.into() },
        facts: Arc::new(NicFacts {
            speed_mbps: Err(Absent::Unsupported),
            duplex: Ok(Duplex::Full),
            up: Some(true),
            loopback: false,
            virtual_device: false,
        }),
        rx: Direction::default(),
        tx: Direction::default(),
        multicast: Counter(0),
        collisions: Counter(0),
        carrier_losses: Counter(0),
        rx_missed: None,
        rx_nohandler: None,
        qdisc: None,
    })
}

#[derive(Clone)]
pub struct NicBuilder(Nic);

impl NicBuilder {
    pub fn facts(self, set: impl FnOnce(&mut NicFacts)) -> Self {
        self.with(|nic| set(Arc::make_mut(&mut nic.facts)))
    }

    pub fn speed_mbps(self, speed: u32) -> Self {
        self.facts(|facts| facts.speed_mbps = Ok(speed))
    }

    pub fn rx(self, direction: Direction) -> Self {
        self.with(|nic| nic.rx = direction)
    }

    pub fn tx(self, direction: Direction) -> Self {
        self.with(|nic| nic.tx = direction)
    }

    pub fn qdisc(self, qdisc: Option<Qdisc>) -> Self {
        self.with(|nic| nic.qdisc = qdisc)
    }

    pub fn with(mut self, set: impl FnOnce(&mut Nic)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Nic {
        self.0
    }
}

impl From<NicBuilder> for Nic {
    fn from(builder: NicBuilder) -> Nic {
        builder.0
    }
}
