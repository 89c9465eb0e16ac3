//! The figures of an interval that graphs over a whole recording show.

use std::net::IpAddr;

use super::IntervalSummary;
use crate::figures::FigureInput;
use crate::findings::Evaluation;
use crate::ids::{CgroupId, CpuId, DiskId, NicId};
use crate::interval::disk::Operation;

/// A figure of a graph, in the unit of `IntervalSummary`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GraphFigure {
    CpuTime(CpuTime),
    /// Busy share, 0 … 1
    CpuBusy(CpuId),
    /// The same of the busiest CPU
    BusiestCpu,
    /// Average number of threads
    Threads(ThreadState),
    /// Share of the memory or of swap, 0 … 1
    Memory(MemoryShare),
    /// Average latency in milliseconds
    DiskAwait(DiskId, Operation),
    /// Share of the requests in this one of `LATENCY_CLASSES`, 0 … 1; only of intervals near the displayed one
    DiskLatency(DiskId, Operation, u8),
    /// Requests in flight on average
    DiskQueue(DiskId),
    /// KB per second
    DiskRead(DiskId),
    DiskWritten(DiskId),
    Received(NicId),
    Sent(NicId),
    /// Share of the segments sent, 0 … 1
    Retransmitted,
    /// Share of the time in which some task of the host waited, 0 … 1
    Pressure(StalledOn),
    /// Milliseconds
    RoundTrip(IpAddr),
    /// Share of the time, 0 … 1
    Cgroup(CgroupId, CgroupShare),
}

/// States of threads, in the order of `IntervalSummary::threads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadState {
    Running,
    RunQueue,
    Disk,
    Lock,
    OtherBlocked,
    /// All of them
    NotAsleep,
}

/// What tasks wait for, in the order of `IntervalSummary::pressure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StalledOn {
    Cpu,
    Io,
    Memory,
}

/// Shares of the memory of the host, in the order of `IntervalSummary::memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryShare {
    /// What cannot be allocated without swapping: all but MemAvailable
    NotAvailable,
    /// All but MemFree: what is not available, and caches that can be reclaimed
    NotFree,
    /// Of the swap space, what is in use
    Swap,
}

/// Why a cgroup is held back, in the order of its shares in `IntervalSummary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CgroupShare {
    Throttled,
    WaitsForIo,
    WaitsForMemory,
}

impl ThreadState {
    pub const ALL: [ThreadState; 6] = [
        ThreadState::Running,
        ThreadState::RunQueue,
        ThreadState::Disk,
        ThreadState::Lock,
        ThreadState::OtherBlocked,
        ThreadState::NotAsleep,
    ];

    fn value(self, counts: [f32; 5]) -> f32 {
        counts.get(self as usize).copied().unwrap_or_else(|| counts.iter().sum())
    }
}

impl StalledOn {
    pub const ALL: [StalledOn; 3] = [StalledOn::Cpu, StalledOn::Io, StalledOn::Memory];
}

impl MemoryShare {
    const ALL: [MemoryShare; 3] = [MemoryShare::NotAvailable, MemoryShare::NotFree, MemoryShare::Swap];
}

impl CgroupShare {
    const ALL: [CgroupShare; 3] = [CgroupShare::Throttled, CgroupShare::WaitsForIo, CgroupShare::WaitsForMemory];
}

impl GraphFigure {
    /// Whether there may be any number of such figures: of remote hosts and cgroups, which come and go.
    pub(in crate::state) fn is_unbounded(&self) -> bool {
        matches!(self, GraphFigure::RoundTrip(_) | GraphFigure::Cgroup(..))
    }
}

/// Shares of the time of all CPUs, 0 … 1, in the order of `IntervalSummary::cpu_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuTime {
    User,
    System,
    Irq,
    Steal,
    Blocked,
    Free,
    /// All but `Free`
    NotFree,
    /// User, system and interrupts
    Busy,
}

impl CpuTime {
    pub const ALL: [CpuTime; 8] = [
        CpuTime::User,
        CpuTime::System,
        CpuTime::Irq,
        CpuTime::Steal,
        CpuTime::Blocked,
        CpuTime::Free,
        CpuTime::NotFree,
        CpuTime::Busy,
    ];

    fn value(self, [user, system, irq, steal, blocked, free]: [f32; 6]) -> f32 {
        match self {
            CpuTime::User => user,
            CpuTime::System => system,
            CpuTime::Irq => irq,
            CpuTime::Steal => steal,
            CpuTime::Blocked => blocked,
            CpuTime::Free => free,
            CpuTime::NotFree => user + system + irq + steal + blocked,
            CpuTime::Busy => user + system + irq,
        }
    }
}

/// The operations of `DiskSummary::awaits`, by index.
const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

impl IntervalSummary {
    /// Only the figures of graphs over a whole recording: cheaper than all.
    pub fn for_graphs(evaluation: &Evaluation) -> IntervalSummary {
        let (interval, input) = (&evaluation.interval, &FigureInput::from(evaluation));
        IntervalSummary {
            at: interval.at(),
            seconds: interval.seconds as f32,
            cpu_time: super::cpu_time(input),
            threads: super::thread_states(evaluation),
            memory: super::memory_shares(input),
            retransmitted_ratio: super::retransmitted_ratio(input),
            cpus: super::cpu_levels(input),
            disks: super::busiest_disks(input),
            nics: super::busiest_nics(input),
            round_trips: super::round_trips(evaluation),
            pressure: super::pressure_levels(input),
            cgroups: super::cgroups_held_back(input),
            ..IntervalSummary::default()
        }
    }

    /// The value of a figure; `None` if it is unknown.
    pub fn figure(&self, figure: &GraphFigure) -> Option<f32> {
        match figure {
            GraphFigure::CpuTime(time) => self.cpu_time().map(|shares| time.value(shares)),
            GraphFigure::CpuBusy(id) => self.cpu_busy(*id),
            GraphFigure::BusiestCpu => self.busiest_cpu(),
            GraphFigure::Threads(state) => self.threads.map(|counts| state.value(counts)),
            GraphFigure::Memory(share) => self.memory.get(*share as usize).copied().flatten(),
            GraphFigure::DiskAwait(id, operation) => self.disk_await(*id, *operation),
            GraphFigure::DiskLatency(id, operation, class) => self.disk_latency(*id, *operation, *class),
            GraphFigure::DiskQueue(id) => self.disk_load(*id).and_then(|load| load.queue),
            GraphFigure::DiskRead(id) => self.disk_load(*id).map(|load| load.read_kilobytes),
            GraphFigure::DiskWritten(id) => self.disk_load(*id).map(|load| load.written_kilobytes),
            GraphFigure::Received(id) => self.nic_kilobytes(id).map(|rates| rates.0),
            GraphFigure::Sent(id) => self.nic_kilobytes(id).map(|rates| rates.1),
            GraphFigure::Retransmitted => self.retransmitted_ratio,
            GraphFigure::Pressure(on) => self.pressure_share(*on),
            GraphFigure::RoundTrip(host) => self.round_trip(*host),
            GraphFigure::Cgroup(id, share) => self.cgroup_share(id, *share as usize),
        }
    }

    /// Calls `add` with each known figure and its value.
    pub(in crate::state) fn each_graph_figure(&self, mut add: impl FnMut(GraphFigure, f32)) {
        if let Some(shares) = self.cpu_time() {
            CpuTime::ALL.into_iter().for_each(|time| add(GraphFigure::CpuTime(time), time.value(shares)));
        }
        for id in (0..u32::try_from(self.cpus.len()).unwrap_or(0)).map(CpuId) {
            if let Some(busy) = self.cpu_busy(id) {
                add(GraphFigure::CpuBusy(id), busy);
            }
        }
        if let Some(busy) = self.busiest_cpu() {
            add(GraphFigure::BusiestCpu, busy);
        }
        if let Some(counts) = self.threads {
            ThreadState::ALL.into_iter().for_each(|state| add(GraphFigure::Threads(state), state.value(counts)));
        }
        for (share, value) in MemoryShare::ALL.into_iter().zip(self.memory) {
            if let Some(value) = value {
                add(GraphFigure::Memory(share), value);
            }
        }
        for disk in &self.disks {
            if disk.queue.is_finite() {
                add(GraphFigure::DiskQueue(disk.id), disk.queue);
            }
            let [read, written] = disk.kilobytes;
            add(GraphFigure::DiskRead(disk.id), read);
            add(GraphFigure::DiskWritten(disk.id), written);
            for (operation, time) in OPERATIONS.into_iter().zip(disk.awaits).filter(|(_, time)| time.is_finite()) {
                add(GraphFigure::DiskAwait(disk.id, operation), time);
            }
        }
        for (id, received, sent) in &self.nics {
            add(GraphFigure::Received(id.clone()), *received);
            add(GraphFigure::Sent(id.clone()), *sent);
        }
        if let Some(share) = self.retransmitted_ratio {
            add(GraphFigure::Retransmitted, share);
        }
        for on in StalledOn::ALL {
            if let Some(share) = self.pressure_share(on) {
                add(GraphFigure::Pressure(on), share);
            }
        }
        for (host, time) in &self.round_trips {
            add(GraphFigure::RoundTrip(*host), *time);
        }
        for (id, shares) in &self.cgroups {
            for (why, share) in CgroupShare::ALL.into_iter().zip(shares).filter(|(_, share)| share.is_finite()) {
                add(GraphFigure::Cgroup(id.clone(), why), *share);
            }
        }
    }

    fn pressure_share(&self, on: StalledOn) -> Option<f32> {
        self.pressure()?.get(on as usize).copied()
    }

    /// About as many figures as `each_graph_figure` has, without the unbounded ones.
    pub(in crate::state) fn graph_figure_count(&self) -> usize {
        let host = CpuTime::ALL.len() + ThreadState::ALL.len() + StalledOn::ALL.len() + MemoryShare::ALL.len() + 2;
        host + self.cpus.len() + 4 * self.disks.len() + 2 * self.nics.len()
    }

    /// A second that ends at this time, with one CPU of this busy share.
    #[cfg(test)]
    pub(in crate::state) fn of_second(realtime_ns: i64, busy: f32) -> IntervalSummary {
        let boottime_ns = u64::try_from(realtime_ns).unwrap_or(0);
        let at = crate::sample::Instant { boottime_ns, realtime_ns, ..Default::default() };
        IntervalSummary { at, seconds: 1.0, cpus: [(busy * 200.0) as u8].into(), ..IntervalSummary::default() }
    }
}
