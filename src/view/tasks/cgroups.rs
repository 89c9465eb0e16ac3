//! The table of containers, pods and units with their tasks added up: the list of the tasks screen grouped by cgroup, and a pane
//! beside the list of tasks.

use super::columns::{byte_rate_text, bytes_text, integer_text};
use crate::figures::task::ProcessRow;
use crate::figures::{Column, FigureInput, load, task};
use crate::findings::Evaluation;
use crate::ids::CgroupId;
use crate::interval::cgroup_names::CgroupName;
use crate::interval::cgroup_tasks::{CgroupTasks, active_cgroup_tasks, cgroup_tasks};
use crate::interval::throttling::throttling;
use crate::safe;
use crate::state::layout::ScreenLayout;
use crate::state::{Item, Row, SortColumn, State};
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::list::VisibleRow;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::task_states::state_segments;
use crate::view::text::{format_optional, format_percent};
use crate::view::theme::{StyleRole, blocked_role, used_role};
use crate::view::widgets::bar::StackedBar;

/// A row of the table.
struct CgroupLine<'a> {
    evaluation: &'a Evaluation,
    group: &'a CgroupTasks<'a>,
    /// Its processes added up, as a row of the catalogue of figures
    figures: Option<ProcessRow>,
}

impl<'a> CgroupLine<'a> {
    fn new(evaluation: &'a Evaluation, group: &'a CgroupTasks<'a>) -> CgroupLine<'a> {
        let first = evaluation.interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.processes.get(group.first_process));
        CgroupLine { evaluation, group, figures: first.map(|first| ProcessRow::new(first, group.span)) }
    }

    fn value(&self, column: &Column<ProcessRow>) -> Option<f64> {
        column.number(&FigureInput::from(self.evaluation), self.figures.as_ref()?)
    }
}

type Spec = ColumnSpec<fn(&CgroupLine, CellContent)>;

const PROCESSES: Spec =
    Spec::figure(&load::PROCESSES, 5, |line, cell| cell.text(safe!("{}", line.group.processes), StyleRole::Dim));
const THREADS: Spec =
    Spec::figure(&task::THREADS, 5, |line, cell| cell.text(integer_text(line.value(&task::THREADS)), StyleRole::Dim))
        .sorted_by(SortColumn::TASK_THREADS)
        .min_table_width(60);
const CPU: Spec = Spec::figure(&task::CPU_RATIO, 5, |line, cell| {
    let cpu = line.value(&task::CPU_RATIO);
    cell.text(safe!("{}", format_percent(cpu, 5)), used_role(cpu.unwrap_or(0.0)));
})
.sorted_by(SortColumn::TASK_CPU);
const RUN_QUEUE: Spec = Spec::figure(&task::RUN_QUEUE_WAIT_RATIO, 5, |line, cell| {
    let waited = line.value(&task::RUN_QUEUE_WAIT_RATIO);
    cell.text(safe!("{}", format_optional(waited, 5)), used_role(waited.unwrap_or(0.0)));
})
.sorted_by(SortColumn::TASK_RUN_QUEUE);
const DISK: Spec = Spec::figure(&task::DISK_RATIO, 5, |line, cell| {
    let disk = line.value(&task::DISK_RATIO);
    cell.text(safe!("{}", format_optional(disk, 5)), blocked_role(disk.unwrap_or(0.0)));
})
.sorted_by(SortColumn::TASK_DISK);
const LOCK: Spec = Spec::figure(&task::LOCK_RATIO, 5, |line, cell| {
    let lock = line.value(&task::LOCK_RATIO);
    cell.text(safe!("{}", format_optional(lock, 5)), blocked_role(lock.unwrap_or(0.0)));
})
.sorted_by(SortColumn::TASK_LOCK);
const MEMORY: Spec = Spec::figure(&task::RESIDENT_BYTES, 6, |line, cell| {
    // Kernel threads have none.
    cell.text(bytes_text(line.value(&task::RESIDENT_BYTES).filter(|&bytes| bytes > 0.0)), StyleRole::Plain);
})
.sorted_by(SortColumn::TASK_RESIDENT);
const READ: Spec =
    Spec::figure(&task::READ_BYTES_PER_SECOND, 6, |line, cell| byte_rate(line, cell, &task::READ_BYTES_PER_SECOND))
        .sorted_by(SortColumn::TASK_READ);
const WRITE: Spec =
    Spec::figure(&task::WRITE_BYTES_PER_SECOND, 7, |line, cell| byte_rate(line, cell, &task::WRITE_BYTES_PER_SECOND))
        .sorted_by(SortColumn::TASK_WRITE);
const STATES: Spec = Spec::graph("time goes to", 16, |line, cell| {
    let width = cell.width;
    cell.glyphs(StackedBar(&state_segments(&line.group.span.states, throttled_threads(line))).glyphs(width));
})
.key("states");
const NAME: Spec = Spec::text("container, pod, unit or cgroup", 0, name_cell).sorted_by(SortColumn::TASK_COMMAND).key("name");
/// The same for a pane with less room.
const SHORT_NAME: Spec = Spec::text("container or cgroup", 0, name_cell).sorted_by(SortColumn::TASK_COMMAND).key("name");
const MEMBERS: Spec = Spec::text("processes", 34, |line, cell| cell.text(members(line.group), StyleRole::Dim)).key("members");

const PANE_COLUMNS: [Spec; 8] = [PROCESSES, THREADS, CPU, RUN_QUEUE, DISK, LOCK, STATES.min_table_width(64), NAME];

const LIST_COLUMNS: [Spec; 12] = [
    NAME,
    PROCESSES,
    THREADS,
    CPU,
    RUN_QUEUE.min_table_width(66),
    DISK,
    LOCK,
    MEMORY.min_table_width(72),
    READ.min_table_width(104),
    WRITE.min_table_width(104),
    STATES.min_table_width(96),
    MEMBERS.min_table_width(MIN_MEMBERS_WIDTH),
];

/// Columns of a pane from which its last heading has room for all kinds of cgroups.
const MIN_NAME_WIDTH: u16 = 80;

/// Columns from which the names of the processes are shown.
const MIN_MEMBERS_WIDTH: u16 = 150;

fn name_cell(line: &CgroupLine, cell: CellContent) {
    match line.group.cgroup {
        Some((_, path)) => {
            let name = CgroupName::from_path(&line.evaluation.interval.newer, path);
            cell.text(SafeText::sanitize(name.label()), StyleRole::Bold);
        }
        None => cell.text("- cannot be read", StyleRole::Dim),
    }
}

fn byte_rate(line: &CgroupLine, cell: CellContent, column: &Column<ProcessRow>) {
    let (words, role) = byte_rate_text(line.value(column));
    cell.text(words, role);
}

/// The part of the run-queue wait in which a CPU quota throttled its threads.
fn throttled_threads(line: &CgroupLine) -> f64 {
    let interval = &*line.evaluation.interval;
    let span = &line.group.span;
    let first = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.process(span.id.pid));
    let share = first.and_then(|process| throttling(interval, process)).map_or(0.0, |throttling| throttling.share);
    (share * f64::from(span.threads)).min(span.states.run_queue)
}

/// `postgres ×60, psql`
fn members(group: &CgroupTasks) -> SafeText {
    let words: Vec<String> = (group.names.iter())
        .map(|(name, count)| match count {
            1 => name.to_string_lossy(),
            count => format!("{} ×{count}", name.to_string_lossy()),
        })
        .collect();
    SafeText::sanitize(words.join(", "))
}

/// The rows of the list.
pub fn draw_list(state: &State, evaluation: &Evaluation, visible: &[VisibleRow], pane: &mut Pane) {
    let mut columns = LIST_COLUMNS;
    if pane.width() >= MIN_MEMBERS_WIDTH
        && let [name, .., members] = &mut columns
    {
        // The names of the processes take the remaining width.
        (name.width, members.width) = (48, 0);
    }
    let table = Columns::chosen(state, &columns, pane.width());
    let groups = cgroup_tasks(&evaluation.interval);
    let rows = visible.iter().filter_map(|visible| {
        let Row::CgroupTasks { first_process } = visible.row else { return None };
        let at = groups.binary_search_by_key(&first_process, |group| group.first_process).ok()?;
        let line = CgroupLine::new(evaluation, groups.get(at)?);
        Some(table.row(|fill, cell| fill(&line, cell)).selected(visible.selected))
    });
    table.draw(pane, Some(state.sort()), rows);
}

/// Active processes by container, pod or unit.
pub fn pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("active processes", StyleRole::Dim);
    let mut inner = pane.framed(("Cgroups: where their time goes", StyleRole::Bold), note);
    let mut columns = PANE_COLUMNS;
    if inner.width() < MIN_NAME_WIDTH
        && let Some(name) = columns.last_mut()
    {
        *name = SHORT_NAME;
    }
    let table = Columns::new(&columns, inner.width());
    let groups = active_cgroup_tasks(&evaluation.interval);
    let lines = groups.iter().map(|group| CgroupLine::new(evaluation, group));
    let rows = lines.map(|line| {
        let cgroup = line.group.cgroup.map(|(version, path)| Item::Cgroup(CgroupId { version, path: path.into() }));
        let row = table.row(|fill, cell| fill(&line, cell));
        row.selected(cgroup.as_ref().is_some_and(|item| state.is_selected(item))).with_item(cgroup)
    });
    table.draw(&mut inner, None, rows);
    if evaluation.interval.tasks.is_none() {
        inner.line(1, ("- /proc cannot be read", StyleRole::Dim));
    } else if groups.is_empty() {
        inner.line(1, ("all asleep", StyleRole::Dim));
    }
}
