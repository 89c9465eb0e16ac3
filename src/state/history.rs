//! Summaries of past intervals, for graphs and the timeline.
//!
//! Values come from the catalogue of columns; nothing is computed here.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::LazyLock;

use crate::figures::cpu::{self, CpuRow};
use crate::figures::disk_operation::{self, OperationRow};
use crate::figures::{Column, ColumnDefinition, FigureInput, TABLES, Table, cgroup, network, pressure};
use crate::findings::{Evaluation, EvidenceUnit, Finding, Severity, Subject};
use crate::ids::{CgroupId, CpuId, DiskId, NicId, ProcessId};
use crate::interval::cgroup::CgroupSpan;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::network::NicSpan;
use crate::interval::task::ProcessSpan;
use crate::sample::Instant;

/// Summaries of at most `MAX_INTERVALS` intervals, sorted by time.
#[derive(Clone, Debug, Default)]
pub struct History {
    summaries: VecDeque<IntervalSummary>,
    /// Begin of the first column of all sweeps
    sweep_origin_ns: Option<u64>,
}

/// Ten minutes at one interval per second.
pub const MAX_INTERVALS: usize = 600;

/// Each summary keeps the most active processes, disks and interfaces.
const MAX_PROCESSES: usize = 48;
const MAX_DISKS: usize = 64;
const MAX_NICS: usize = 64;
const MAX_CGROUPS: usize = 16;

/// The values of one interval, a few hundred bytes.
#[derive(Clone, Debug, Default)]
pub struct IntervalSummary {
    pub at: Instant,
    pub seconds: f32,
    pub worst_severity: Option<Severity>,
    /// The figures of the host that are values of findings, also while there is no finding
    host: Box<[(&'static ColumnDefinition, f32)]>,
    /// How the CPU time was spent, in 1/200 each; `None`: unknown
    cpu_time: Option<[u8; 6]>,
    /// Busy share of each CPU by CPU number, in 1/200; 255: unknown
    cpus: Box<[u8]>,
    /// Sorted
    disks: Box<[DiskSummary]>,
    /// Sorted
    nics: Box<[(NicId, f32, f32)]>,
    /// Milliseconds
    round_trips: Box<[(IpAddr, f32)]>,
    /// Sorted
    processes: Box<[(ProcessId, f32)]>,
    /// Pressure of the host: CPU, I/O, memory, in 1/200
    pressure: Option<[u8; 3]>,
    /// Those held back most, sorted: throttled, I/O pressure, memory pressure (shares of the time; NaN if unknown)
    cgroups: Box<[(CgroupId, [f32; 3])]>,
    /// The values of the active findings, by a hash of kind and subject
    findings: Box<[(u64, f32)]>,
}

#[derive(Clone, Copy, Debug)]
struct DiskSummary {
    id: DiskId,
    /// Average latency in milliseconds by operation; NaN if none completed
    awaits: [f32; 4],
}

impl History {
    /// Inserts a summary by its time; replaces one of the same time.
    pub fn insert(&mut self, summary: IntervalSummary) {
        let at = summary.at.boottime_ns;
        self.sweep_origin_ns.get_or_insert_with(|| at.saturating_sub((f64::from(summary.seconds) * 0.5e9) as u64));
        let place = self.summaries.partition_point(|known| known.at.boottime_ns < at);
        match self.summaries.get_mut(place) {
            Some(known) if known.at.boottime_ns == at => *known = summary,
            _ => self.summaries.insert(place, summary),
        }
        if self.summaries.len() > MAX_INTERVALS {
            // Drops the end that is farther from the new summary.
            if place * 2 >= self.summaries.len() {
                self.summaries.pop_front()
            } else {
                self.summaries.pop_back()
            };
        }
    }

    /// Removes all summaries, for another recording or boot.
    pub fn clear(&mut self) {
        *self = History::default();
    }

    pub fn len(&self) -> usize {
        self.summaries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.summaries.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &IntervalSummary> + ExactSizeIterator {
        self.summaries.iter()
    }

    /// The columns of a graph that does not scroll: each time has its column, a new interval overwrites the oldest one, and the
    /// column after the newest is blank. So two columns change with an interval, whatever the width. `step_ns` is the time of a
    /// column.
    pub fn sweep(&self, at: Instant, step_ns: u64, count: u16) -> Vec<Option<&IntervalSummary>> {
        let mut columns = vec![None; usize::from(count)];
        let (Some(origin), Some(width)) = (self.sweep_origin_ns, u64::from(count).checked_sub(1).filter(|&width| width > 0))
        else {
            return columns;
        };
        let step = step_ns.max(1);
        let slot = |ns: u64| (i128::from(ns) - i128::from(origin)).div_euclid(i128::from(step));
        let newest = slot(at.boottime_ns);
        let oldest = newest - i128::from(width) + 1;
        let end = self.summaries.partition_point(|summary| summary.at.boottime_ns <= at.boottime_ns);
        let mut next = newest + 1;
        for summary in self.summaries.range(..end).rev() {
            // An interval that is longer than a column fills several.
            let last = slot(summary.at.boottime_ns);
            let covered = (f64::from(summary.seconds) * 1e9 / step as f64).round().max(1.0) as i128;
            let first = (last - covered + 1).max(oldest);
            for number in first..next.min(last + 1) {
                let column = usize::try_from(number.rem_euclid(i128::from(count))).unwrap_or(0);
                if let Some(cell) = columns.get_mut(column) {
                    *cell = Some(summary);
                }
            }
            next = next.min(first);
            if first <= oldest {
                break;
            }
        }
        columns
    }

    /// The last `count` cells of a graph that ends at `at`, oldest first; `None` marks missing intervals.
    pub fn graph_cells(&self, at: Instant, count: usize) -> Vec<Option<&IntervalSummary>> {
        let mut cells = Vec::with_capacity(count);
        let end = self.summaries.partition_point(|summary| summary.at.boottime_ns <= at.boottime_ns);
        let mut expected: Option<(u64, f32)> = None;
        for summary in self.summaries.range(..end).rev() {
            if cells.len() >= count {
                break;
            }
            if let Some((newer_ns, seconds)) = expected {
                let apart = newer_ns.saturating_sub(summary.at.boottime_ns) as f32 / 1e9;
                if apart > seconds * 1.5 + 0.05 {
                    cells.push(None);
                }
            }
            expected = Some((summary.at.boottime_ns, summary.seconds));
            cells.push(Some(summary));
        }
        cells.truncate(count);
        cells.reverse();
        cells
    }
}

impl IntervalSummary {
    pub fn from_evaluation(evaluation: &Evaluation) -> IntervalSummary {
        let (interval, input) = (&evaluation.interval, &FigureInput::from(evaluation));
        IntervalSummary {
            at: interval.at(),
            seconds: interval.seconds as f32,
            worst_severity: evaluation.active.iter().map(|finding| finding.severity).max(),
            host: host_figures(input),
            cpu_time: cpu_time(input),
            cpus: cpu_levels(input),
            disks: busiest_disks(input),
            nics: busiest_nics(input),
            round_trips: round_trips(evaluation),
            processes: busiest_processes(input),
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

    /// Average latency in milliseconds.
    pub fn disk_await(&self, id: DiskId, operation: Operation) -> Option<f32> {
        let disk = self.disks.get(self.disks.binary_search_by_key(&id, |disk| disk.id).ok()?)?;
        disk.awaits.get(operation as usize).copied().filter(|value| value.is_finite())
    }

    /// KB per second received and sent.
    pub fn nic_kilobytes(&self, id: &NicId) -> Option<(f32, f32)> {
        let at = self.nics.binary_search_by(|nic| nic.0.cmp(id)).ok()?;
        self.nics.get(at).map(|nic| (nic.1, nic.2))
    }

    /// Shares of the time in which some task of the host waited: for a CPU, for I/O, for memory.
    pub fn pressure(&self) -> Option<[f32; 3]> {
        self.pressure.map(|shares| shares.map(|share| f32::from(share) / 200.0))
    }

    /// A share of the time in which a cgroup was throttled (0) or waited for I/O (1) or memory (2); `None` if it is unknown, or
    /// the group was not among those held back most.
    pub fn cgroup_share(&self, id: &CgroupId, which: usize) -> Option<f32> {
        let at = self.cgroups.binary_search_by(|known| known.0.cmp(id)).ok()?;
        self.cgroups.get(at)?.1.get(which).copied().filter(|share| share.is_finite())
    }

    /// Round-trip time to a host in milliseconds.
    pub fn round_trip(&self, host: IpAddr) -> Option<f32> {
        self.round_trips.iter().find(|known| known.0 == host).map(|known| known.1)
    }

    /// CPUs that the process used; `None` if it was not among the most active.
    pub fn process_cpus(&self, id: ProcessId) -> Option<f32> {
        let at = self.processes.binary_search_by_key(&id, |process| process.0).ok()?;
        self.processes.get(at).map(|process| process.1)
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

fn busiest_processes(input: &FigureInput) -> Box<[(ProcessId, f32)]> {
    let Some(tasks) = &input.interval.tasks else { return Box::default() };
    let used = |span: &ProcessSpan| Some((span.id, span.cpu.filter(|cpu| cpu.0 > 0.0005)?.0 as f32));
    heaviest(tasks.active_processes.iter().filter_map(used).collect(), MAX_PROCESSES, |process| process.1).into_boxed_slice()
}

fn busiest_disks(input: &FigureInput) -> Box<[DiskSummary]> {
    let busy = input.interval.disks.iter().filter(|disk| disk.completed() > 0).collect();
    let list = heaviest(busy, MAX_DISKS, |disk| disk.operations().map(|(_, op)| op.concurrency as f32).sum());
    list.into_iter().map(|disk| DiskSummary::from_span(input, disk)).collect()
}

fn busiest_nics(input: &FigureInput) -> Box<[(NicId, f32, f32)]> {
    let rate = |figure: &Column<NicSpan>, nic: &NicSpan| figure.displayed(input, nic).unwrap_or(0.0) as f32;
    let received = |nic: &NicSpan| rate(&network::RECEIVED_BYTES_PER_SECOND, nic);
    let sent = |nic: &NicSpan| rate(&network::SENT_BYTES_PER_SECOND, nic);
    let mut list = heaviest(input.interval.nics.iter().collect(), MAX_NICS, |nic| received(nic) + sent(nic));
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

impl DiskSummary {
    fn from_span(input: &FigureInput, disk: &DiskSpan) -> DiskSummary {
        let mut awaits = [f32::NAN; 4];
        for (operation, _) in disk.operations() {
            let row = OperationRow::new(disk, operation);
            let time = row.and_then(|row| disk_operation::AWAIT_SECONDS.displayed(input, &row));
            if let (Some(slot), Some(time)) = (awaits.get_mut(operation as usize), time) {
                *slot = time as f32;
            }
        }
        DiskSummary { id: disk.id, awaits }
    }
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
    fn a_sweep_overwrites_its_oldest_column() {
        let mut history = History::default();
        let mut frames = Vec::new();
        for second in 1..=7_u64 {
            let at = Instant { boottime_ns: second * 1_000_000_000, ..Instant::default() };
            history.insert(IntervalSummary { at, ..IntervalSummary::default() });
            let columns = history.sweep(at, 1_000_000_000, 5);
            let digit = |column: &Option<&IntervalSummary>| {
                column.map_or("-".to_owned(), |summary| (summary.at.boottime_ns / 1_000_000_000).to_string())
            };
            frames.push(columns.iter().map(digit).collect::<String>());
        }
        assert_eq!(frames, ["1----", "12---", "123--", "1234-", "-2345", "6-345", "67-45"]);
    }

    #[test]
    fn the_largest_are_kept_in_their_order_and_the_first_of_equals() {
        let weight = |item: &(char, f32)| item.1;
        let list = vec![('a', 1.0), ('b', 3.0), ('c', 1.0), ('d', f32::NAN), ('e', 2.0), ('f', 1.0)];
        let kept = |count| heaviest(list.clone(), count, weight).into_iter().map(|item| item.0).collect::<String>();
        assert_eq!([kept(6), kept(4), kept(2), kept(0)], ["abcdef", "abde", "bd", ""]);
    }
}
