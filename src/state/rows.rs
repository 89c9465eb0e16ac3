//! Which rows the list of the screen has, and in which order: places in the interval that is shown, nothing formatted.
//!
//! Computed when something changed, not when a frame is drawn; a frame formats only the rows that can be seen.

use std::net::IpAddr;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use rustc_hash::FxHashMap;

use super::history::IntervalSummary;
use super::screen::{Screen, SortColumn};
use super::{Sort, State};
use crate::findings::{Evaluation, Finding, Kind, Subject};
use crate::ids::{CpuId, DiskId, GroupId, NicId, ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::task::{Microstates, ProcessSpan, ThreadSpan, visible_wait_class};
use crate::sample::Instant;
use crate::sample::task::{Process, Tasks};
use crate::sample::waits::WaitClass;
use crate::units::Ratio;

/// One row, by its place in the interval shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    /// In `interval.cpu.cpus`
    Cpu(usize),
    /// In `interval.disks`
    Disk(usize),
    /// In `interval.nics`
    Nic(usize),
    /// In the rows of `judged.peers`
    RemoteHost(usize),
    /// In the newer sample's processes
    Process { index: usize, depth: u8 },
    /// A thread of that process, in the newer sample
    Thread { process: usize, thread: usize },
    /// All threads in one kind of wait
    WaitClass { class: WaitClass, threads: u32 },
    /// In the verdict
    ActiveFinding(usize),
    /// Among the findings that had ended, the latest first
    EndedFinding(usize),
}

/// What a row is about, whatever its place: what the cursor stays on, and what Enter opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Cpu(CpuId),
    Disk(DiskId),
    Nic(NicId),
    RemoteHost(IpAddr),
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

/// The rows of the screen that is shown: those that hold the words of the filter as they were typed, and where none does,
/// those that hold their letters in that order.
pub fn build_rows(state: &State) -> Vec<Row> {
    let rows = matching_rows(state, MatchMode::Literal);
    if rows.is_empty() && !state.filter().is_empty() { matching_rows(state, MatchMode::Fuzzy) } else { rows }
}

fn matching_rows(state: &State, way: MatchMode) -> Vec<Row> {
    let Some(judged) = &state.current else { return Vec::new() };
    let matching = FilterMatcher::new(state.filter(), way);
    let interval = &*judged.interval;
    let sort = state.sort();
    match state.screen {
        Screen::Overview => (0..judged.active.len()).map(Row::ActiveFinding).collect(),
        Screen::Findings => findings(state, judged, matching),
        Screen::Cpu => cpus(interval, sort, matching),
        Screen::Disk => disks(state, interval, sort, matching),
        Screen::Network if state.show_remote_hosts => peers(judged, matching),
        Screen::Network => nics(interval, sort, matching),
        Screen::Tasks => tasks(state, interval, sort, matching),
    }
}

/// What that row is about.
pub fn row_item(state: &State, row: Row) -> Option<Item> {
    let judged = state.current.as_ref()?;
    let interval = &*judged.interval;
    match row {
        Row::Cpu(at) => Some(Item::Cpu(interval.cpu.as_ref()?.cpus.get(at)?.id)),
        Row::Disk(at) => Some(Item::Disk(interval.disks.get(at)?.id)),
        Row::Nic(at) => Some(Item::Nic(interval.nics.get(at)?.id.clone())),
        Row::RemoteHost(at) => Some(Item::RemoteHost(judged.remote_hosts.as_ref()?.rows.get(at)?.address)),
        Row::Process { index, .. } => Some(Item::Process(interval.newer.tasks.as_ref().ok()?.processes.get(index)?.id())),
        Row::Thread { process, thread } => {
            let process = interval.newer.tasks.as_ref().ok()?.processes.get(process)?;
            Some(Item::Thread(process.task_id(process.threads.get(thread)?)))
        }
        Row::WaitClass { class, .. } => Some(Item::WaitClass(class)),
        Row::ActiveFinding(at) => judged.active.get(at).map(Item::from_finding),
        Row::EndedFinding(at) => state.finding_history.ended_before(interval.at()).nth(at).map(Item::from_finding),
    }
}

fn findings(state: &State, judged: &Evaluation, mut matching: FilterMatcher) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, finding) in judged.active.iter().enumerate() {
        if matching.matches_text(&finding.sentence) {
            rows.push(Row::ActiveFinding(at));
        }
    }
    for (at, finding) in state.finding_history.ended_before(judged.interval.at()).enumerate() {
        if matching.matches_text(&finding.sentence) {
            rows.push(Row::EndedFinding(at));
        }
    }
    rows
}

fn cpus(interval: &Interval, sort: Sort, mut matching: FilterMatcher) -> Vec<Row> {
    let Some(span) = &interval.cpu else { return Vec::new() };
    let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(span.cpus.len());
    for (at, cpu) in span.cpus.iter().enumerate() {
        if !matching.matches_text(&cpu.id.0.to_string()) {
            continue;
        }
        let shares = &cpu.shares;
        let value = match sort.column {
            SortColumn::User => shares.user + shares.nice,
            SortColumn::System => shares.system,
            SortColumn::Softirq => shares.softirq,
            SortColumn::Steal => shares.steal,
            SortColumn::Name => f64::from(cpu.id.0),
            // Whole per cents: CPUs that do next to nothing do not change places.
            _ => (cpu.busy() * 100.0).round(),
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Cpu).collect()
}

fn disks(state: &State, interval: &Interval, sort: Sort, mut matching: FilterMatcher) -> Vec<Row> {
    let mut keyed = Vec::with_capacity(interval.disks.len());
    for (at, disk) in interval.disks.iter().enumerate() {
        let name = disk_name(interval, disk.index);
        if !matching.matches_text(&name) || !matching.is_active() && is_idle(state, disk) {
            continue;
        }
        let value = match sort.column {
            SortColumn::Rate => disk.operations().map(|(_, op)| op.rate.0).sum(),
            SortColumn::Await => disk.operations().filter_map(|(_, op)| op.r#await).map(|time| time.0).fold(0.0, f64::max),
            SortColumn::Queue => disk.aqu_sz.unwrap_or(f64::from(disk.in_flight)),
            SortColumn::Busy => disk.busy.map_or(0.0, |busy| busy.0),
            _ => at as f64,
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Disk).collect()
}

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

/// Nothing for the last ten intervals: a device that does something now and then keeps its row.
pub fn is_idle(state: &State, disk: &DiskSpan) -> bool {
    const CALM: usize = 10;
    let Some(judged) = &state.current else { return false };
    let moved = |digest: &&IntervalSummary| OPERATIONS.iter().any(|&operation| digest.disk_await(disk.id, operation).is_some());
    disk.completed() == 0
        && disk.in_flight == 0
        && !state.history.graph_cells(judged.interval.at(), CALM).iter().flatten().any(moved)
}

fn disk_name(interval: &Interval, index: usize) -> String {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| disks.get(index));
    disk.map_or_else(String::new, |disk| String::from_utf8_lossy(disk.name.as_bytes()).into_owned())
}

fn nics(interval: &Interval, sort: Sort, mut matching: FilterMatcher) -> Vec<Row> {
    let mut keyed = Vec::with_capacity(interval.nics.len());
    for (at, nic) in interval.nics.iter().enumerate() {
        if !matching.matches_text(&String::from_utf8_lossy(nic.id.name.as_bytes())) {
            continue;
        }
        let value = match sort.column {
            SortColumn::Read => nic.rx.kilobytes.0,
            SortColumn::Write => nic.tx.kilobytes.0,
            SortColumn::Busy => nic.utilization.map_or(0.0, |share| share.0),
            SortColumn::Saturation => nic.saturation.map_or(0.0, |rate| rate.0),
            _ => at as f64 + if nic.rx.packets.0 + nic.tx.packets.0 > 0.0 { 0.0 } else { 1e6 },
        };
        keyed.push((value, at));
    }
    sort_by_value(keyed, sort).into_iter().map(Row::Nic).collect()
}

fn peers(judged: &Evaluation, mut matching: FilterMatcher) -> Vec<Row> {
    let Some(span) = &judged.remote_hosts else { return Vec::new() };
    let mut wanted = |at: &usize| span.rows.get(*at).is_some_and(|peer| matching.matches_text(&peer.address.to_string()));
    super::remote_hosts::display_order(judged).into_iter().filter(|at| wanted(at)).map(Row::RemoteHost).collect()
}

fn tasks(state: &State, interval: &Interval, sort: Sort, mut matching: FilterMatcher) -> Vec<Row> {
    let (Some(span), Ok(sample)) = (&interval.tasks, &interval.newer.tasks) else { return Vec::new() };
    if state.shows_wait_classes() {
        return wait_classes(interval, sample);
    }
    if state.show_tree && !matching.is_active() {
        return tree(sample, state.show_threads);
    }
    let matters = TaskActivity::new(interval);
    let mut keyed: Vec<(f64, Row)> = Vec::with_capacity(sample.processes.len());
    for (index, (process, row)) in span.processes_with_spans(&sample.processes).enumerate() {
        if matching.is_active() && !matching.matches_process(process, sample) {
            continue;
        }
        if state.show_threads {
            for (thread, facts) in process.threads.iter().enumerate() {
                let value = thread_sort_value(sort.column, process, span.thread(process.task_id(facts)), &matters);
                keyed.push((value, Row::Thread { process: index, thread }));
            }
        } else {
            let mut value = process_sort_value(sort.column, process, &row, &matters);
            if sort.column == SortColumn::Activity && value <= 0.0 && process.kernel_thread {
                // Behind the programs that do nothing: of those somebody may look for one.
                value = -1.0;
            }
            keyed.push((value, Row::Process { index, depth: 0 }));
        }
    }
    if sort.column == SortColumn::Name || sort.column == SortColumn::Owner {
        let text = |row: &Row| match *row {
            Row::Process { index, .. } | Row::Thread { process: index, .. } => sample.processes.get(index).map(|process| {
                let owner = sample.users.get(&process.uid);
                (if sort.column == SortColumn::Name { Some(&process.comm) } else { owner }, process.uid)
            }),
            _ => None,
        };
        keyed.sort_by(|a, b| text(&a.1).cmp(&text(&b.1)));
        let rows = keyed.into_iter().map(|(_, row)| row);
        return if sort.reversed { rows.rev().collect() } else { rows.collect() };
    }
    sort_by_value(keyed, sort)
}

/// How much a task matters: what it ran, wanted to run and was stuck.
pub struct TaskActivity<'a> {
    /// Groups that wait for a lock behind storage
    groups_behind_storage: Vec<&'a GroupId>,
}

impl<'a> TaskActivity<'a> {
    pub fn new(interval: &'a Interval) -> TaskActivity<'a> {
        let groups = interval.idle_blocked.iter().flat_map(|idle| &idle.groups);
        TaskActivity {
            groups_behind_storage: groups.filter(|group| group.behind_lock() >= 0.05).map(|group| &group.group).collect(),
        }
    }

    /// In threads. A lock wait counts whole only where it is known to be behind storage: most are a worker's rest.
    pub fn weight(&self, process: &Process, states: &Microstates, cpu: Option<Ratio>, run_queue: Option<Ratio>) -> f64 {
        const RESTING: f64 = 0.02;
        let ran = cpu.map_or(0.0, |cpu| cpu.0).max(states.user + states.system);
        let stuck = states.lock > 0.0
            && !self.groups_behind_storage.is_empty()
            && self.groups_behind_storage.contains(&&process.group());
        let lock = if stuck { states.lock } else { states.lock * RESTING };
        ran + run_queue.map_or(states.run_queue, |wait| wait.0) + states.disk + states.other_blocked + lock
    }
}

/// To a whole hundredth of a thread: rows that do next to nothing stay where they are instead of changing places each second.
pub fn floor_to_hundredth(threads: f64) -> f64 {
    (threads * 100.0).floor() / 100.0
}

fn process_sort_value(column: SortColumn, process: &Process, span: &ProcessSpan, matters: &TaskActivity) -> f64 {
    match column {
        SortColumn::Pid => f64::from(process.pid),
        SortColumn::Threads => f64::from(span.threads),
        SortColumn::Cpu => span.cpu.map_or(0.0, |cpu| cpu.0),
        SortColumn::RunQueue => span.run_queue_wait.map_or(0.0, |wait| wait.0),
        SortColumn::Disk => span.states.disk,
        SortColumn::Lock => span.states.lock,
        SortColumn::Resident => span.resident_pages as f64,
        SortColumn::Read => span.read_bytes.map_or(0.0, |rate| rate.0),
        SortColumn::Write => span.write_bytes.map_or(0.0, |rate| rate.0),
        _ => floor_to_hundredth(matters.weight(process, &span.states, span.cpu, span.run_queue_wait)),
    }
}

fn thread_sort_value(column: SortColumn, process: &Process, span: Option<&ThreadSpan>, matters: &TaskActivity) -> f64 {
    match (column, span) {
        (SortColumn::Pid, _) => f64::from(process.pid),
        (SortColumn::Threads, _) => process.threads.len() as f64,
        (SortColumn::Resident, _) => process.resident_pages as f64,
        (_, None) => 0.0,
        (SortColumn::Cpu, Some(span)) => span.cpu.map_or(0.0, |cpu| cpu.0),
        (SortColumn::RunQueue, Some(span)) => span.run_queue_wait.map_or(0.0, |wait| wait.0),
        (SortColumn::Disk, Some(span)) => span.states.disk,
        (SortColumn::Lock, Some(span)) => span.states.lock,
        (SortColumn::Read | SortColumn::Write, Some(_)) => 0.0,
        (_, Some(span)) => floor_to_hundredth(matters.weight(process, &span.states, span.cpu, span.run_queue_wait)),
    }
}

fn wait_classes(interval: &Interval, sample: &Tasks) -> Vec<Row> {
    let mut counts = [0_u32; WaitClass::COUNT];
    for process in &sample.processes {
        for thread in process.threads.iter() {
            if let Some(count) = counts.get_mut(visible_wait_class(&interval.host, process, thread) as usize) {
                *count += 1;
            }
        }
    }
    let rows = WaitClass::ALL.iter().zip(counts).filter(|(_, threads)| *threads > 0);
    rows.map(|(&class, threads)| Row::WaitClass { class, threads }).collect()
}

/// Each process below its parent, in the order of pids.
fn tree(sample: &Tasks, threads: bool) -> Vec<Row> {
    let mut children: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    let mut waiting: Vec<(usize, u8)> = Vec::new();
    for (index, process) in sample.processes.iter().enumerate() {
        if process.ppid != process.pid && sample.process(process.ppid).is_some() {
            children.entry(process.ppid).or_default().push(index);
        } else {
            waiting.push((index, 0));
        }
    }
    waiting.reverse();
    let mut rows = Vec::with_capacity(sample.processes.len());
    while let Some((index, depth)) = waiting.pop() {
        rows.push(Row::Process { index, depth });
        let Some(process) = sample.processes.get(index) else { continue };
        if threads && process.threads.len() > 1 {
            rows.extend((0..process.threads.len()).map(|thread| Row::Thread { process: index, thread }));
        }
        // Taken out, so that a recording with a circle of parents ends too.
        if let Some(below) = children.remove(&process.pid) {
            waiting.extend(below.into_iter().rev().map(|child| (child, depth.saturating_add(1))));
        }
    }
    rows
}

/// By value, the largest first unless the column goes the other way; equals stay in their order.
fn sort_by_value<T>(mut keyed: Vec<(f64, T)>, sort: Sort) -> Vec<T> {
    if sort.column.is_ascending() != sort.reversed {
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    } else {
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// How a filter is read.
#[derive(Clone, Copy)]
enum MatchMode {
    /// Each word somewhere
    Literal,
    /// Its letters in that order, others between them
    Fuzzy,
}

/// The filter.
struct FilterMatcher {
    pattern: Option<(Pattern, Matcher)>,
    buffer: Vec<char>,
}

impl FilterMatcher {
    fn new(text: &str, way: MatchMode) -> FilterMatcher {
        let pattern = (!text.is_empty()).then(|| {
            let (case, form) = (CaseMatching::Smart, Normalization::Smart);
            let pattern = match way {
                MatchMode::Literal => Pattern::new(text, case, form, AtomKind::Substring),
                MatchMode::Fuzzy => Pattern::parse(text, case, form),
            };
            (pattern, Matcher::new(Config::DEFAULT))
        });
        FilterMatcher { pattern, buffer: Vec::new() }
    }

    fn is_active(&self) -> bool {
        self.pattern.is_some()
    }

    fn matches_text(&mut self, text: &str) -> bool {
        let Some((pattern, matcher)) = &mut self.pattern else { return true };
        pattern.score(Utf32Str::new(text, &mut self.buffer), matcher).is_some()
    }

    fn matches_process(&mut self, process: &Process, sample: &Tasks) -> bool {
        const ENOUGH: usize = 200;
        let mut text = format!("{} {}", process.pid, String::from_utf8_lossy(process.comm.as_bytes()));
        let mut add = |bytes: &[u8]| {
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(bytes.get(..ENOUGH).unwrap_or(bytes)));
        };
        if let Some(user) = sample.users.get(&process.uid) {
            add(user.as_bytes());
        }
        if let Ok(line) = &process.facts.cmdline {
            add(line.as_bytes());
        }
        if let Ok(cgroup) = &process.facts.cgroup {
            add(cgroup.path.as_bytes());
        }
        self.matches_text(&text)
    }
}
