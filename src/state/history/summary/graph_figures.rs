//! The figures of an interval that graphs over a whole recording show.

use super::IntervalSummary;
use crate::figures::FigureInput;
use crate::findings::Evaluation;
use crate::ids::{CpuId, DiskId, NicId};
use crate::interval::disk::Operation;

/// A figure of a graph, in the unit of `IntervalSummary`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GraphFigure {
    CpuTime(CpuTime),
    /// Busy share, 0 … 1
    CpuBusy(CpuId),
    /// Average latency in milliseconds
    DiskAwait(DiskId, Operation),
    /// KB per second
    Received(NicId),
    Sent(NicId),
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

    fn of(self, [user, system, irq, steal, blocked, free]: [f32; 6]) -> f32 {
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
            cpus: super::cpu_levels(input),
            disks: super::busiest_disks(input),
            nics: super::busiest_nics(input),
            ..IntervalSummary::default()
        }
    }

    /// The value of a figure; `None` if it is unknown.
    pub fn figure(&self, figure: &GraphFigure) -> Option<f32> {
        match figure {
            GraphFigure::CpuTime(time) => self.cpu_time().map(|shares| time.of(shares)),
            GraphFigure::CpuBusy(id) => self.cpu_busy(*id),
            GraphFigure::DiskAwait(id, operation) => self.disk_await(*id, *operation),
            GraphFigure::Received(id) => self.nic_kilobytes(id).map(|rates| rates.0),
            GraphFigure::Sent(id) => self.nic_kilobytes(id).map(|rates| rates.1),
        }
    }

    /// Calls `add` with each known figure and its value.
    pub(in crate::state) fn each_graph_figure(&self, mut add: impl FnMut(GraphFigure, f32)) {
        if let Some(shares) = self.cpu_time() {
            CpuTime::ALL.into_iter().for_each(|time| add(GraphFigure::CpuTime(time), time.of(shares)));
        }
        for id in (0..u32::try_from(self.cpus.len()).unwrap_or(0)).map(CpuId) {
            if let Some(busy) = self.cpu_busy(id) {
                add(GraphFigure::CpuBusy(id), busy);
            }
        }
        for disk in &self.disks {
            for (operation, time) in OPERATIONS.into_iter().zip(disk.awaits).filter(|(_, time)| time.is_finite()) {
                add(GraphFigure::DiskAwait(disk.id, operation), time);
            }
        }
        for (id, received, sent) in &self.nics {
            add(GraphFigure::Received(id.clone()), *received);
            add(GraphFigure::Sent(id.clone()), *sent);
        }
    }

    /// About as many figures as `each_graph_figure` has.
    pub(in crate::state) fn graph_figure_count(&self) -> usize {
        CpuTime::ALL.len() + self.cpus.len() + self.disks.len() + 2 * self.nics.len()
    }

    /// A second that ends at this time, with one CPU of this busy share.
    #[cfg(test)]
    pub(in crate::state) fn of_second(realtime_ns: i64, busy: f32) -> IntervalSummary {
        let boottime_ns = u64::try_from(realtime_ns).unwrap_or(0);
        let at = crate::sample::Instant { boottime_ns, realtime_ns, ..Default::default() };
        IntervalSummary { at, seconds: 1.0, cpus: [(busy * 200.0) as u8].into(), ..IntervalSummary::default() }
    }
}
