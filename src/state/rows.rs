//! The rows of each screen's list: filtered, sorted, as indices into the displayed interval.
//!
//! Built when the state changes, not for each frame. `view` formats only the visible rows.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::filter::{FilterMatcher, MatchMode};
use super::history::IntervalSummary;
use super::sort::{SortBy, SortColumn};
use super::{Sort, State};
use crate::figures::cpu::CpuRow;
use crate::figures::{FigureInput, cgroup};
use crate::findings::{Evaluation, Finding, Kind, Subject};
use crate::ids::{CgroupId, CpuId, DiskId, NicId, ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::cgroup_names::CgroupName;
use crate::interval::cgroup_tasks::owning_cgroup;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::network::NicSpan;
use crate::sample::Instant;
use crate::sample::waits::WaitClass;
use crate::units::SmallSort;

/// One row: an index into the displayed interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    /// Index in `interval.cpu.cpus`
    Cpu(usize),
    /// Index in `interval.disks`
    Disk(usize),
    /// Index in `interval.network.nics`
    Nic(usize),
    /// In the rows of `evaluation.remote_hosts`
    RemoteHost(usize),
    /// Index in the newer sample's processes; `depth` in the tree
    Process { index: usize, depth: u8 },
    /// A process that ended while the order of the rows was kept, by its place in that order
    EndedProcess { place: usize },
    /// Indices of the process in the newer sample and of the thread in the process; `depth` in the tree
    Thread { process: usize, thread: usize, depth: u8 },
    /// Index in `interval.cgroups`
    Cgroup(usize),
    /// The tasks of a container, pod, unit or cgroup, by the index of its first process in the newer sample
    CgroupTasks { first_process: usize },
    /// All threads in one wait class
    WaitClass { class: WaitClass, threads: u32 },
    /// Index in `evaluation.active`
    ActiveFinding(usize),
    /// Index among the ended findings, latest first
    EndedFinding(usize),
}

/// The kind of rows on the tasks screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskRows {
    Tasks(TaskList),
    /// One row per wait class; `c` returns to the list of tasks
    WaitClasses(TaskList),
    /// One row per container, pod, unit or other cgroup; `u` returns to the list of tasks
    Cgroups(TaskList),
}

/// A list of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskList {
    #[default]
    Processes,
    Threads,
    /// Processes below their parents
    Tree,
    /// The same, with the threads of each process
    TreeWithThreads,
}

impl Default for TaskRows {
    fn default() -> TaskRows {
        TaskRows::Tasks(TaskList::default())
    }
}

impl TaskRows {
    fn list(self) -> TaskList {
        match self {
            TaskRows::Tasks(list) | TaskRows::WaitClasses(list) | TaskRows::Cgroups(list) => list,
        }
    }

    /// The rows after `t`.
    pub(super) fn toggle_threads(self) -> TaskRows {
        TaskRows::Tasks(match self.list() {
            TaskList::Processes => TaskList::Threads,
            TaskList::Threads => TaskList::Processes,
            TaskList::Tree => TaskList::TreeWithThreads,
            TaskList::TreeWithThreads => TaskList::Tree,
        })
    }

    /// The rows after `T`.
    pub(super) fn toggle_tree(self) -> TaskRows {
        TaskRows::Tasks(match self.list() {
            TaskList::Processes => TaskList::Tree,
            TaskList::Threads => TaskList::TreeWithThreads,
            TaskList::Tree => TaskList::Processes,
            TaskList::TreeWithThreads => TaskList::Threads,
        })
    }

    /// The rows after `c`.
    pub(super) fn toggle_wait_classes(self) -> TaskRows {
        match self {
            TaskRows::Tasks(list) | TaskRows::Cgroups(list) => TaskRows::WaitClasses(list),
            TaskRows::WaitClasses(list) => TaskRows::Tasks(list),
        }
    }

    /// The rows after `u`.
    pub(super) fn toggle_cgroups(self) -> TaskRows {
        match self {
            TaskRows::Tasks(list) | TaskRows::WaitClasses(list) => TaskRows::Cgroups(list),
            TaskRows::Cgroups(list) => TaskRows::Tasks(list),
        }
    }

    /// Whether the rows are a tree, which has a fixed order.
    pub fn is_tree(self) -> bool {
        matches!(self, TaskRows::Tasks(TaskList::Tree | TaskList::TreeWithThreads))
    }

    pub fn is_wait_classes(self) -> bool {
        matches!(self, TaskRows::WaitClasses(_))
    }
}

/// The kind of rows on the network screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkRows {
    #[default]
    Interfaces,
    RemoteHosts,
}

impl NetworkRows {
    /// `p`
    pub(super) fn toggle(self) -> NetworkRows {
        match self {
            NetworkRows::Interfaces => NetworkRows::RemoteHosts,
            NetworkRows::RemoteHosts => NetworkRows::Interfaces,
        }
    }
}

/// The identity of a row across intervals: what the cursor stays on and Enter opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Cpu(CpuId),
    Disk(DiskId),
    Nic(NicId),
    RemoteHost(IpAddr),
    Cgroup(CgroupId),
    Process(ProcessId),
    Thread(TaskId),
    WaitClass(WaitClass),
    Finding { kind: Kind, subject: Subject, since: Instant },
}

impl Item {
    pub fn from_finding(finding: &Finding) -> Item {
        Item::Finding { kind: finding.kind, subject: finding.subject.clone(), since: finding.since }
    }
}

/// The rows of the displayed screen. If the filter matches no row literally, the rows that match it fuzzily.
pub fn build_rows(state: &State) -> Vec<Row> {
    let rows = matching_rows(state, MatchMode::Literal);
    if rows.is_empty() && !state.filter().is_empty() { matching_rows(state, MatchMode::Fuzzy) } else { rows }
}

fn matching_rows(state: &State, mode: MatchMode) -> Vec<Row> {
    let Some(evaluation) = &state.playback.current else { return Vec::new() };
    let filter = FilterMatcher::new(state.filter(), mode);
    (state.screen.definition().rows)(state, evaluation, filter)
}

/// The item of a row.
pub fn row_item(state: &State, row: Row) -> Option<Item> {
    let evaluation = state.playback.current.as_ref()?;
    let interval = &*evaluation.interval;
    match row {
        Row::Cpu(at) => Some(Item::Cpu(interval.cpu.as_ref()?.cpus.get(at)?.id)),
        Row::Disk(at) => Some(Item::Disk(interval.disks.get(at)?.id)),
        Row::Nic(at) => Some(Item::Nic(interval.network.nics.get(at)?.id.clone())),
        Row::RemoteHost(at) => Some(Item::RemoteHost(evaluation.remote_hosts.as_ref()?.rows.get(at)?.address)),
        Row::Cgroup(at) => Some(Item::Cgroup(interval.cgroups.get(at)?.id.clone())),
        Row::CgroupTasks { first_process } => {
            let first = interval.newer.tasks.as_ref().ok()?.processes.get(first_process)?;
            let (version, path) = owning_cgroup(first)?;
            Some(Item::Cgroup(CgroupId { version, path: path.into() }))
        }
        Row::Process { index, .. } => Some(Item::Process(interval.newer.tasks.as_ref().ok()?.processes.get(index)?.id())),
        Row::EndedProcess { place } => Some(Item::Process(state.ended_process(place)?.id())),
        Row::Thread { process, thread, .. } => {
            let process = interval.newer.tasks.as_ref().ok()?.processes.get(process)?;
            Some(Item::Thread(process.task_id(process.threads.get(thread)?)))
        }
        Row::WaitClass { class, .. } => Some(Item::WaitClass(class)),
        Row::ActiveFinding(at) => evaluation.active.get(at).map(Item::from_finding),
        Row::EndedFinding(at) => state.finding_history.ended_before(interval.at()).nth(at).map(Item::from_finding),
    }
}

pub(super) fn findings(state: &State, evaluation: &Evaluation, mut filter: FilterMatcher) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, finding) in evaluation.active.iter().enumerate() {
        if filter.matches_text(&finding.sentence) {
            rows.push(Row::ActiveFinding(at));
        }
    }
    for (at, finding) in state.finding_history.ended_before(evaluation.interval.at()).enumerate() {
        if filter.matches_text(&finding.sentence) {
            rows.push(Row::EndedFinding(at));
        }
    }
    rows
}

pub(super) fn cpus(evaluation: &Evaluation, sort: Sort, mut filter: FilterMatcher) -> Vec<Row> {
    let Some(span) = &evaluation.interval.cpu else { return Vec::new() };
    let input = FigureInput::from(evaluation);
    let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(span.cpus.len());
    for (at, cpu) in span.cpus.iter().enumerate() {
        if !filter.matches_text(&cpu.id.0.to_string()) {
            continue;
        }
        let value = match sort.column.by {
            // Whole per cents keep the order of nearly idle CPUs stable.
            SortBy::Cpu(figure) if sort.column == SortColumn::CPU_BUSY => {
                (figure.number(&input, &CpuRow::core(cpu)).unwrap_or(0.0) * 100.0).round()
            }
            SortBy::Cpu(figure) => figure.number(&input, &CpuRow::core(cpu)).unwrap_or(0.0),
            _ => f64::from(cpu.id.0),
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Cpu).collect()
}

pub(super) fn disks(state: &State, evaluation: &Evaluation, sort: Sort, mut filter: FilterMatcher) -> Vec<Row> {
    let (interval, input) = (&*evaluation.interval, FigureInput::from(evaluation));
    let mut keyed = Vec::with_capacity(interval.disks.len());
    for (at, disk) in interval.disks.iter().enumerate() {
        let name = disk_name(interval, disk.index);
        if !filter.matches_text(&name) || !filter.is_active() && is_idle(state, disk) {
            continue;
        }
        let value = match sort.column.by {
            SortBy::Disk(figure) => figure.number(&input, disk).unwrap_or(0.0),
            _ => at as f64,
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Disk).collect()
}

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

/// Whether a device had no request for ten intervals. A shorter pause keeps its row, so that the list stays stable.
pub fn is_idle(state: &State, disk: &DiskSpan) -> bool {
    const IDLE_INTERVALS: usize = 10;
    let Some(evaluation) = &state.playback.current else { return false };
    let moved =
        |summary: &&IntervalSummary| OPERATIONS.iter().any(|&operation| summary.disk_await(disk.id, operation).is_some());
    disk.completed() == 0
        && disk.in_flight == 0
        && !state.graphs.history.graph_cells(evaluation.interval.at(), IDLE_INTERVALS).iter().flatten().any(moved)
}

/// The disks with activity, the longest queue first.
pub fn busiest_disks<'a>(state: &State, interval: &'a Interval) -> Vec<&'a DiskSpan> {
    let waited = |disk: &DiskSpan| disk.operations().map(|(_, op)| op.concurrency).sum::<f64>() + f64::from(disk.in_flight);
    let mut disks: Vec<&DiskSpan> = interval.disks.iter().filter(|disk| !is_idle(state, disk)).collect();
    disks.small_sort_by(|a, b| waited(b).total_cmp(&waited(a)));
    disks
}

/// The interfaces in use, those with the most traffic first.
pub fn busiest_nics(interval: &Interval) -> Vec<&NicSpan> {
    let facts = |nic: &NicSpan| interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index)).map(|nic| &*nic.facts);
    let moved = |nic: &NicSpan| nic.rx.kilobytes.0 + nic.tx.kilobytes.0;
    let usable =
        |nic: &&NicSpan| moved(nic) > 0.0 || facts(nic).is_some_and(|facts| facts.up != Some(false) && !facts.loopback);
    let mut nics: Vec<&NicSpan> = interval.network.nics.iter().filter(usable).collect();
    nics.small_sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    nics
}

fn disk_name(interval: &Interval, index: usize) -> String {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| disks.get(index));
    disk.map_or_else(String::new, |disk| String::from_utf8_lossy(disk.name.as_bytes()).into_owned())
}

pub(super) fn nics(evaluation: &Evaluation, sort: Sort, mut filter: FilterMatcher) -> Vec<Row> {
    let (interval, input) = (&*evaluation.interval, FigureInput::from(evaluation));
    let mut keyed = Vec::with_capacity(interval.network.nics.len());
    for (at, nic) in interval.network.nics.iter().enumerate() {
        if !filter.matches_text(&String::from_utf8_lossy(nic.id.name.as_bytes())) {
            continue;
        }
        let value = match sort.column.by {
            SortBy::Nic(figure) => figure.number(&input, nic).unwrap_or(0.0),
            _ => at as f64 + if nic.rx.packets.0 + nic.tx.packets.0 > 0.0 { 0.0 } else { 1e6 },
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Nic).collect()
}

pub(super) fn cgroups(evaluation: &Evaluation, sort: Sort, mut filter: FilterMatcher) -> Vec<Row> {
    let (interval, input) = (&*evaluation.interval, FigureInput::from(evaluation));
    let mut keyed = Vec::with_capacity(interval.cgroups.len());
    for (at, group) in interval.cgroups.iter().enumerate() {
        if filter.is_active() {
            let name = CgroupName::from_path(&interval.newer, group.id.path.as_bytes());
            if !filter.matches_text(&format!("{} {}", name.describe(), group.id.path.to_string_lossy())) {
                continue;
            }
        }
        let value = match sort.column.by {
            // Of those that are not held back, the one nearest to a limit comes first.
            SortBy::Cgroup(figure) if sort.column == SortColumn::CGROUP_HELD_BACK => {
                let held_back = figure.number(&input, group).unwrap_or(0.0);
                let near = [&cgroup::MEMORY_USED_RATIO, &cgroup::IO_LIMIT_USED_RATIO, &cgroup::THROTTLED_PERIODS_RATIO];
                let near = near.into_iter().filter_map(|figure| figure.number(&input, group)).fold(0.0, f64::max);
                (held_back * 100.0).round() * 1e3 + (near * 100.0).round()
            }
            SortBy::Cgroup(figure) => figure.number(&input, group).unwrap_or(0.0),
            _ => at as f64,
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Cgroup).collect()
}

pub(super) fn remote_hosts(evaluation: &Evaluation, mut filter: FilterMatcher) -> Vec<Row> {
    let Some(span) = &evaluation.remote_hosts else { return Vec::new() };
    let mut wanted = |at: &usize| span.rows.get(*at).is_some_and(|peer| filter.matches_text(&peer.address.to_string()));
    super::remote_hosts::display_order(evaluation).into_iter().filter(|at| wanted(at)).map(Row::RemoteHost).collect()
}

/// Stable sort by value: descending, or ascending for columns such as pid.
pub(super) fn sort_by_value<T>(mut keyed: Vec<(f64, T)>, sort: Sort) -> Vec<T> {
    if sort.column.is_ascending() != sort.reversed {
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    } else {
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
    keyed.into_iter().map(|(_, row)| row).collect()
}
