//! The figures of one interval that graphs keep, from the catalogue of columns.

mod disks;
mod graph_figures;
mod tasks;

use std::net::IpAddr;
use std::sync::LazyLock;

use crate::figures::cpu::{self, CpuRow};
use crate::figures::{Column, ColumnDefinition, FigureInput, TABLES, Table, cgroup, memory, network, pressure, protocols};
use crate::findings::{Evaluation, EvidenceUnit, Finding, Severity, Subject};
use crate::ids::{CgroupId, CpuId, DiskId, NicId};
use crate::interval::cgroup::CgroupSpan;
use crate::interval::disk::Operation;
use crate::interval::memory::MemorySpan;
use crate::interval::network::NicSpan;
use crate::interval::thread_states::mean_thread_states;
use crate::sample::Instant;
pub use disks::LATENCY_CLASSES;
use disks::{DiskSummary, busiest_disks};
pub use graph_figures::{CgroupShare, CpuTime, GraphFigure, MemoryShare, StalledOn, ThreadState};
use tasks::TaskSummaries;
pub use tasks::{FollowedTask, TaskPoint};

/// Each summary keeps the most active disks and interfaces.
const MAX_NICS: usize = 64;
const MAX_CGROUPS: usize = 16;

/// The values of one interval: a few hundred bytes, and twelve for each thread that did not sleep, of up to 128.
#[derive(Clone, Debug, Default)]
pub struct IntervalSummary {
    pub at: Instant,
    pub seconds: f32,
    pub worst_severity: Option<Severity>,
    /// The figures of the host that are values of findings, also while there is no finding
    host: Box<[(&'static ColumnDefinition, f32)]>,
    /// How the CPU time was spent, in 1/200 each; `None`: unknown
    cpu_time: Option<[u8; 6]>,
    /// Average number of threads by state: running, waiting for a CPU, on storage, behind a lock, otherwise in D; `None`: unknown
    threads: Option<[f32; 5]>,
    /// Shares of the memory that are not available and not free, and of swap that is used; `None`: unknown
    memory: [Option<f32>; 3],
    /// Of the segments sent; `None`: unknown
    retransmitted_ratio: Option<f32>,
    /// Busy share of each CPU by CPU number, in 1/200; 255: unknown
    cpus: Box<[u8]>,
    /// Sorted
    disks: Box<[DiskSummary]>,
    /// Sorted
    nics: Box<[(NicId, f32, f32)]>,
    /// Milliseconds
    round_trips: Box<[(IpAddr, f32)]>,
    tasks: TaskSummaries,
    /// Pressure of the host: CPU, I/O, memory, in 1/200
    pressure: Option<[u8; 3]>,
    /// Those held back most, sorted: throttled, I/O pressure, memory pressure (shares of the time; NaN if unknown)
    cgroups: Box<[(CgroupId, [f32; 3])]>,
    /// The values of the active findings, by a hash of kind and subject
    findings: Box<[(u64, f32)]>,
}

/// Throughput and queue of a disk.
#[derive(Clone, Copy, Debug)]
struct DiskLoad {
    /// Requests in flight on average
    queue: Option<f32>,
    read_kilobytes: f32,
    written_kilobytes: f32,
}

impl IntervalSummary {
    /// The figures of the most active processes are kept, and those of the `followed` task.
    pub fn from_evaluation(evaluation: &Evaluation, followed: Option<FollowedTask>) -> IntervalSummary {
        let mut summary = IntervalSummary::without_followed(evaluation);
        if let Some(point) = followed.and_then(|task| TaskPoint::new(&evaluation.interval, task)) {
            summary.add_task(point);
        }
        summary
    }

    fn without_followed(evaluation: &Evaluation) -> IntervalSummary {
        let (interval, input) = (&evaluation.interval, &FigureInput::from(evaluation));
        IntervalSummary {
            at: interval.at(),
            seconds: interval.seconds as f32,
            worst_severity: evaluation.active.iter().map(|finding| finding.severity).max(),
            host: host_figures(input),
            cpu_time: cpu_time(input),
            threads: thread_states(evaluation),
            memory: memory_shares(input),
            retransmitted_ratio: retransmitted_ratio(input),
            cpus: cpu_levels(input),
            disks: busiest_disks(input),
            nics: busiest_nics(input),
            round_trips: round_trips(evaluation),
            tasks: TaskSummaries::new(interval),
            pressure: pressure_levels(input),
            cgroups: cgroups_held_back(input),
            findings: evaluation.active.iter().map(|finding| (finding_key(finding), finding.value as f32)).collect(),
        }
    }

    /// Shares of the CPU time: user, system, interrupts, stolen, idle but blocked, free.
    pub fn cpu_time(&self) -> Option<[f32; 6]> {
        self.cpu_time.map(|shares| shares.map(|share| f32::from(share) / 200.0))
    }

    /// Busy share of a CPU, 0 … 1.
    pub fn cpu_busy(&self, id: CpuId) -> Option<f32> {
        let level = *self.cpus.get(usize::try_from(id.0).ok()?)?;
        (level != UNKNOWN_BUSY).then_some(f32::from(level) / 200.0)
    }

    /// The same of the busiest CPU.
    fn busiest_cpu(&self) -> Option<f32> {
        let highest = self.cpus.iter().copied().filter(|&level| level != UNKNOWN_BUSY).max()?;
        Some(f32::from(highest) / 200.0)
    }

    /// Average latency in milliseconds.
    pub fn disk_await(&self, id: DiskId, operation: Operation) -> Option<f32> {
        let disk = self.disks.get(self.disks.binary_search_by_key(&id, |disk| disk.id).ok()?)?;
        disk.awaits.get(operation as usize).copied().filter(|value| value.is_finite())
    }

    /// Share of the requests of a disk in a class of latency, 0 … 1; `None` if their latencies are not known.
    fn disk_latency(&self, id: DiskId, operation: Operation, class: u8) -> Option<f32> {
        let disk = self.disks.get(self.disks.binary_search_by_key(&id, |disk| disk.id).ok()?)?;
        let (_, shares) = disk.latencies.iter().find(|known| known.0 == operation)?;
        shares.get(usize::from(class)).copied()
    }

    /// Throughput and queue of a disk with requests; `None` without.
    fn disk_load(&self, id: DiskId) -> Option<DiskLoad> {
        let disk = self.disks.get(self.disks.binary_search_by_key(&id, |disk| disk.id).ok()?)?;
        let [read_kilobytes, written_kilobytes] = disk.kilobytes;
        Some(DiskLoad { queue: Some(disk.queue).filter(|queue| queue.is_finite()), read_kilobytes, written_kilobytes })
    }

    /// KB per second received and sent.
    fn nic_kilobytes(&self, id: &NicId) -> Option<(f32, f32)> {
        let at = self.nics.binary_search_by(|nic| nic.0.cmp(id)).ok()?;
        self.nics.get(at).map(|nic| (nic.1, nic.2))
    }

    /// Shares of the time in which some task of the host waited: for a CPU, for I/O, for memory.
    fn pressure(&self) -> Option<[f32; 3]> {
        self.pressure.map(|shares| shares.map(|share| f32::from(share) / 200.0))
    }

    /// A share of the time in which a cgroup was throttled (0) or waited for I/O (1) or memory (2); `None` if it is unknown, or
    /// the group was not among those held back most.
    fn cgroup_share(&self, id: &CgroupId, which: usize) -> Option<f32> {
        let at = self.cgroups.binary_search_by(|known| known.0.cmp(id)).ok()?;
        self.cgroups.get(at)?.1.get(which).copied().filter(|share| share.is_finite())
    }

    /// Round-trip time to a host in milliseconds.
    fn round_trip(&self, host: IpAddr) -> Option<f32> {
        self.round_trips.iter().find(|known| known.0 == host).map(|known| known.1)
    }

    /// The value of a finding; if it was not active, the figure of the catalogue that would have been its value.
    pub fn finding_value(&self, finding: &Finding) -> Option<f32> {
        let wanted = finding_key(finding);
        let raised = self.findings.iter().find(|value| value.0 == wanted).map(|value| value.1);
        raised.or_else(|| match finding.subject {
            Subject::Cpu(id) if cpu::BUSY_RATIO.definition.finding == Some(finding.kind) => self.cpu_busy(id),
            _ => self.host_figure(finding),
        })
    }

    /// The figure of the host that is the value of such findings, in the unit of this one.
    fn host_figure(&self, finding: &Finding) -> Option<f32> {
        let same_unit = |column: &ColumnDefinition| column.unit.is_ratio() == (finding.value_unit() == EvidenceUnit::Ratio);
        let mut figures = self.host.iter();
        figures.find(|(column, _)| column.finding == Some(finding.kind) && same_unit(column)).map(|&(_, value)| value)
    }
}

const UNKNOWN_BUSY: u8 = 255;
/// Bounds the memory for a damaged recording; no machine has more CPUs.
const MAX_CPUS: u32 = 8192;

/// The columns of the host that are values of findings, by table.
struct FindingColumns {
    table: &'static dyn Table,
    indices: Vec<usize>,
    definitions: Vec<&'static ColumnDefinition>,
}

static FINDING_COLUMNS: LazyLock<Vec<FindingColumns>> = LazyLock::new(|| {
    let of_table = |table: &'static dyn Table| {
        let columns = table.columns().into_iter().enumerate().filter(|(_, column)| column.finding.is_some());
        let (indices, definitions): (Vec<usize>, Vec<&ColumnDefinition>) = columns.unzip();
        FindingColumns { table, indices, definitions }
    };
    let tables = TABLES.iter().copied().filter(|table| table.is_single_row()).map(of_table);
    tables.filter(|columns| !columns.indices.is_empty()).collect()
});

fn host_figures(input: &FigureInput) -> Box<[(&'static ColumnDefinition, f32)]> {
    let mut figures = Vec::new();
    for columns in FINDING_COLUMNS.iter() {
        for row in columns.table.rows(input, &columns.indices) {
            let cells = columns.definitions.iter().zip(&row.cells);
            figures.extend(cells.filter_map(|(&column, cell)| Some((column, cell.number()? as f32))));
        }
    }
    figures.into_boxed_slice()
}

/// Shares of the CPU time, in the order of `IntervalSummary::cpu_time`.
fn cpu_time(input: &FigureInput) -> Option<[u8; 6]> {
    let row = CpuRow::all_cpus(input.interval.cpu.as_ref()?);
    let share = |column: &Column<CpuRow>| column.number(input, &row).unwrap_or(0.0);
    let idle = share(&cpu::IDLE_WITH_IOWAIT_RATIO);
    let blocked = share(&cpu::IDLE_BUT_BLOCKED_RATIO).min(idle);
    let shares = [
        share(&cpu::USER_WITH_NICE_RATIO),
        share(&cpu::SYSTEM_RATIO),
        share(&cpu::IRQ_RATIO) + share(&cpu::SOFTIRQ_RATIO),
        share(&cpu::STEAL_RATIO),
        blocked,
        idle - blocked,
    ];
    Some(shares.map(|share| (share * 200.0).round().clamp(0.0, 200.0) as u8))
}

fn cpu_levels(input: &FigureInput) -> Box<[u8]> {
    let Some(span) = &input.interval.cpu else { return Box::default() };
    let highest = span.cpus.iter().map(|cpu| cpu.id.0).filter(|&id| id < MAX_CPUS).max();
    let mut levels = vec![UNKNOWN_BUSY; highest.map_or(0, |id| id as usize + 1)];
    for cpu in &span.cpus {
        if let Some(level) = levels.get_mut(cpu.id.0 as usize) {
            let busy = cpu::BUSY_RATIO.number(input, &CpuRow::core(cpu));
            *level = busy.map_or(UNKNOWN_BUSY, |busy| (busy * 200.0).round().clamp(0.0, 200.0) as u8);
        }
    }
    levels.into_boxed_slice()
}

/// Average number of threads in each state, in the order of `IntervalSummary::threads`.
pub fn thread_states(evaluation: &Evaluation) -> Option<[f32; 5]> {
    let states = mean_thread_states(evaluation.interval.tasks.as_ref()?);
    let cpu = states.user + states.system;
    Some([cpu, states.run_queue, states.disk, states.lock, states.other_blocked].map(|threads| threads as f32))
}

/// In the order of `IntervalSummary::memory`.
fn memory_shares(input: &FigureInput) -> [Option<f32>; 3] {
    let share = |part: &Column<MemorySpan>, whole: &Column<MemorySpan>| {
        let span = input.interval.memory.as_ref()?;
        let (part, whole) = (part.number(input, span)?, whole.number(input, span)?);
        (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0) as f32)
    };
    let but = |part| share(part, &memory::TOTAL_BYTES).map(|share| 1.0 - share);
    [but(&memory::AVAILABLE_BYTES), but(&memory::FREE_BYTES), share(&memory::SWAP_USED_BYTES, &memory::SWAP_TOTAL_BYTES)]
}

fn retransmitted_ratio(input: &FigureInput) -> Option<f32> {
    protocols::RETRANSMITTED_RATIO.number(input, &input.interval.network.protocols).map(|share| share as f32)
}

fn pressure_levels(input: &FigureInput) -> Option<[u8; 3]> {
    let span = &input.interval.pressure;
    let shares = [&pressure::PSI_CPU_SOME_RATIO, &pressure::PSI_IO_SOME_RATIO, &pressure::PSI_MEMORY_SOME_RATIO];
    let shares = shares.map(|figure| figure.number(input, span));
    if shares.iter().all(Option::is_none) {
        return None;
    }
    Some(shares.map(|share| (share.unwrap_or(0.0) * 200.0).round().clamp(0.0, 200.0) as u8))
}

fn cgroups_held_back(input: &FigureInput) -> Box<[(CgroupId, [f32; 3])]> {
    let weight = |group: &&CgroupSpan| cgroup::HELD_BACK_RATIO.number(input, group).unwrap_or(0.0) as f32;
    let figures = [&cgroup::THROTTLED_RATIO, &cgroup::PSI_IO_SOME_RATIO, &cgroup::PSI_MEMORY_SOME_RATIO];
    let mut list = heaviest(input.interval.cgroups.iter().collect(), MAX_CGROUPS, weight);
    list.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let shares = |group: &CgroupSpan| figures.map(|figure| figure.number(input, group).map_or(f32::NAN, |share| share as f32));
    list.into_iter().map(|group| (group.id.clone(), shares(group))).collect()
}

fn busiest_nics(input: &FigureInput) -> Box<[(NicId, f32, f32)]> {
    let rate = |figure: &Column<NicSpan>, nic: &NicSpan| figure.displayed(input, nic).unwrap_or(0.0) as f32;
    let received = |nic: &NicSpan| rate(&network::RECEIVED_BYTES_PER_SECOND, nic);
    let sent = |nic: &NicSpan| rate(&network::SENT_BYTES_PER_SECOND, nic);
    let mut list = heaviest(input.interval.network.nics.iter().collect(), MAX_NICS, |nic| received(nic) + sent(nic));
    list.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    list.into_iter().map(|nic| (nic.id.clone(), received(nic), sent(nic))).collect()
}

/// The `count` elements with the largest weights, in their original order; the first of equal ones.
fn heaviest<T>(list: Vec<T>, count: usize, weight: impl Fn(&T) -> f32) -> Vec<T> {
    if list.len() <= count {
        return list;
    }
    let mut places: Vec<(f32, usize)> = list.iter().map(weight).zip(0..).collect();
    let (heavier, _, _) = places.select_nth_unstable_by(count, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    heavier.sort_unstable_by_key(|&(_, place)| place);
    let mut wanted = heavier.iter().map(|&(_, place)| place).peekable();
    list.into_iter().enumerate().filter_map(|(place, item)| wanted.next_if_eq(&place).map(|_| item)).collect()
}

fn round_trips(evaluation: &Evaluation) -> Box<[(IpAddr, f32)]> {
    let Some(peers) = &evaluation.remote_hosts else { return Box::default() };
    let trip = |peer| crate::findings::evaluated_rtt(peer).map(|trip| trip.srtt.0 as f32);
    peers.rows.iter().filter_map(|peer| Some((peer.address, trip(peer)?))).collect()
}

/// A hash of kind and subject.
fn finding_key(finding: &Finding) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = rustc_hash::FxHasher::default();
    (finding.kind, &finding.subject).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_their_order_and_the_first_of_equals() {
        let weight = |item: &(char, f32)| item.1;
        let list = vec![('a', 1.0), ('b', 3.0), ('c', 1.0), ('d', f32::NAN), ('e', 2.0), ('f', 1.0)];
        let kept = |count| heaviest(list.clone(), count, weight).into_iter().map(|item| item.0).collect::<String>();
        assert_eq!([kept(6), kept(4), kept(2), kept(0)], ["abcdef", "abde", "bd", ""]);
    }
}
