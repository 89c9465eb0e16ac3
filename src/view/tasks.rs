//! The tasks screen: processes, threads, cgroups or wait classes, and how they spent their time.

pub mod cgroups;
mod columns;

use columns::{TaskFigures, TaskLine, table};
pub use columns::{beside_command_line, command_line};

use std::sync::Arc;

use super::ScreenView;
use super::active_findings::hidden_tasks_note;
use super::columns::{CellContent, ColumnSpec, Columns, TableRow};
use super::list::{list_end, list_status, visible_rows};
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::StyleRole;
use super::thread_states;
use super::wait_location;
use crate::figures::task::ProcessRow;
use crate::figures::thread::ThreadRow;
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::task::Microstates;
use crate::interval::task_activity::TaskActivity;
use crate::interval::thread_states::threads_in_lock_waits;
use crate::safe;
use crate::sample::task::{Process, TaskState, Tasks};
use crate::sample::waits::WaitClass;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, State, TaskRows};
use crate::units::SmallSort;
use crate::units::{format, time};

/// A row of the table of wait classes.
struct WaitClassLine<'a> {
    interval: &'a Interval,
    sample: &'a Tasks,
    class: WaitClass,
    threads: u32,
}

type WaitClassSpec = ColumnSpec<fn(&WaitClassLine, CellContent)>;

const WAIT_CLASS: WaitClassSpec = WaitClassSpec::text("WAIT", 8, |line, cell| cell.text(line.class.as_str(), StyleRole::Bold));
const WAITING_THREADS: WaitClassSpec =
    WaitClassSpec::text("threads", 7, |line, cell| cell.text(safe!("{}", line.threads), StyleRole::Plain)).right_aligned();
const WAITING_PROCESSES: WaitClassSpec = WaitClassSpec::text("processes", 0, |line, cell| {
    let words = (wait_class_members(line.interval, line.sample, line.class).into_iter())
        .map(|(name, count)| if count > 1 { format!("{name} ×{count}") } else { name });
    let words: Vec<String> = words.collect();
    let (list, is_cut) = fitting_list(&words, usize::from(cell.width));
    let list = SafeText::sanitize(list);
    if is_cut { cell.excerpt(list, StyleRole::Plain) } else { cell.text(list, StyleRole::Plain) }
});
const MEANING: WaitClassSpec = WaitClassSpec::text("waits for", 27, |line, cell| {
    cell.text(wait_location::wait_class_object(line.class), StyleRole::Dim);
});

/// On a narrow terminal the names of the processes take the remaining width, on a wide one the whole meaning.
const WAIT_CLASS_COLUMNS: [WaitClassSpec; 4] = [WAIT_CLASS, WAITING_THREADS, MEANING.min_table_width(70), WAITING_PROCESSES];
const WIDE_WAIT_CLASS_COLUMNS: [WaitClassSpec; 4] = [
    WAIT_CLASS,
    WAITING_THREADS,
    WAITING_PROCESSES.width(60),
    WaitClassSpec::text("meaning", 0, |line, cell| {
        cell.text(wait_location::wait_class_description(line.class), StyleRole::Dim);
    }),
];

/// Cells from which there is room for the whole meaning.
const MIN_MEANING_WIDTH: u16 = 150;

/// The first words that fit, and how many more there are; whether there are more.
fn fitting_list(words: &[String], cells: usize) -> (String, bool) {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let rest = words.len() - at - 1;
        let room = cells.saturating_sub(if rest > 0 { format!(" +{rest}").len() } else { 0 });
        if at > 0 && format::width(&text) + separator.len() + format::width(word) > room {
            return (format!("{text} +{}", rest + 1), true);
        }
        text += separator;
        text += word;
    }
    (text, false)
}

pub const SCREEN: ScreenView = ScreenView {
    draw,
    panes: &[|state, evaluation, _, pane| thread_states::draw(state, evaluation, pane), cgroups::pane, draw_pane],
};

/// The list, below the numbers of tasks by state.
fn draw_pane(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("c by wait class  u by unit  t threads  T tree", StyleRole::Dim);
    let mut inner = pane.framed(("Tasks", StyleRole::Bold), note);
    draw(state, evaluation, layout, &mut inner);
}

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    summary_line(state, interval, layout, pane);
    let Ok(sample) = &interval.newer.tasks else {
        pane.line(2, ("- /proc cannot be read", StyleRole::Dim));
        return;
    };
    let class_columns = if pane.width() < MIN_MEANING_WIDTH { &WAIT_CLASS_COLUMNS } else { &WIDE_WAIT_CLASS_COLUMNS };
    let classes = Columns::movable(state, class_columns, pane.width());
    let table = table(state, pane.width());
    let visible = visible_rows(state, layout);
    let rows = visible.iter().filter_map(|visible| {
        let row = match visible.row {
            Row::Process { index, depth } => process_row(state, evaluation, (sample, index), depth, &table),
            Row::EndedProcess { place } => state.ended_process(place).map(|process| ended_row(interval, process)),
            Row::Thread { process, thread, depth } => {
                let process = sample.processes.get(process)?;
                thread_row(state, evaluation, sample, (process, depth), thread, &table)
            }
            Row::WaitClass { class, threads } => {
                let line = WaitClassLine { interval, sample, class, threads };
                Some(classes.row(|fill, cell| fill(&line, cell)))
            }
            _ => None,
        };
        Some(row?.selected(visible.selected))
    });
    let end = list_end(layout, &visible);
    let body = &mut pane.subarea(0, 1, u16::MAX, layout.list_rows + 1);
    // A tree, wait classes and cgroups have an order of their own.
    let sort = state.fixed_order_reason().is_none().then(|| state.sort());
    match state.lists.task_rows {
        TaskRows::Tasks(_) => table.draw(body, sort, rows),
        TaskRows::WaitClasses(_) => classes.draw(body, sort, rows),
        TaskRows::Cgroups(_) => cgroups::draw_list(state, evaluation, &visible, body),
    }
    if let Some(limits) = hidden_tasks_note(state) {
        pane.line(layout.rows_before_list + layout.list_rows, (&limits, StyleRole::Dim));
    }
    if state.rows().is_empty() {
        pane.line(end, ("nothing matches the filter (Esc clears it)", StyleRole::Dim));
    }
}

/// Numbers of processes, threads, and threads by state.
fn summary_line(state: &State, interval: &Interval, layout: &ScreenLayout, pane: &mut Pane) {
    let words = list_status(state, layout);
    let room = usize::from(pane.width()).saturating_sub(words.width() + 1);
    let heading = SafeLine::new("TASKS ", StyleRole::Heading);
    pane.line(0, heading.clone());
    let Some(tasks) = &interval.tasks else { return };
    let counts = &tasks.counts;
    let in_locks = threads_in_lock_waits(interval, tasks).round() as u32;
    let mut line = format!(
        "{} {}: {} running",
        format::plural(counts.processes, "process", "processes"),
        format::plural(counts.threads, "thread", "threads"),
        counts.running
    );
    for (count, word) in [
        (counts.blocked_disk, "disk"),
        (in_locks, "lock"),
        (counts.blocked_vfork, "vfork"),
        (counts.blocked_memory, "memory"),
        (counts.blocked_frozen, "frozen"),
        (counts.blocked_lock, "kernel lock"),
        (counts.blocked_other.saturating_sub(counts.blocked_lock), "other D"),
    ] {
        if count > 0 {
            line += &format!(" {count} {word}");
        }
    }
    let processes = interval.newer.tasks.as_ref().map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
    let is_zombie = |process: &Process| process.thread(process.pid).is_some_and(|thread| thread.state == TaskState::Zombie);
    let zombies = processes.iter().filter(|process| is_zombie(process)).count();
    if zombies > 0 {
        line += &format!(" {}", format::plural(zombies, "zombie", "zombies"));
    }
    pane.line(0, heading.with(SafeText::sanitize(line), StyleRole::Plain).truncated(room));
    pane.line_right(0, (&words, StyleRole::Dim));
}

fn process_row(
    state: &State,
    evaluation: &Evaluation,
    (sample, index): (&Tasks, usize),
    depth: u8,
    table: &Columns<fn(&TaskLine, CellContent)>,
) -> Option<TableRow> {
    let interval = &*evaluation.interval;
    let process = sample.processes.get(index)?;
    let span = &interval.tasks.as_ref()?.process(process);
    let figures = TaskFigures::Process(ProcessRow::new(process, *span));
    let states = &span.states;
    let line = TaskLine { state, evaluation, interval, sample, process, depth, thread: None, span, states, figures };
    Some(table.row(|fill, cell| fill(&line, cell)))
}

/// `  4711 <ended> cc1, at least 310 ms of CPU time`: that of the last sample that has it.
fn ended_row(interval: &Interval, process: &Process) -> TableRow {
    let name = SafeText::from_name(&process.comm);
    let ticks = interval.host.seconds((process.user_ticks.0 + process.system_ticks.0) as f64);
    let used = process.cpu_ns.map_or(ticks, |ns| ns.0 as f64 / 1e9);
    let words = safe!("{:>7} <ended> {name}, at least {} of CPU time", process.pid, time::duration(used));
    TableRow::line(SafeLine::new(words, StyleRole::Dim))
}

fn thread_row(
    state: &State,
    evaluation: &Evaluation,
    sample: &Tasks,
    (process, depth): (&Arc<Process>, u8),
    thread: usize,
    table: &Columns<fn(&TaskLine, CellContent)>,
) -> Option<TableRow> {
    let interval = &*evaluation.interval;
    let tasks = interval.tasks.as_ref()?;
    let asleep = Microstates { sleep: 1.0, ..Microstates::default() };
    let facts = process.threads.get(thread)?;
    let of_thread = tasks.thread(process.task_id(facts));
    let figures = TaskFigures::Thread(ThreadRow::new(process, thread, of_thread.copied()));
    let states = of_thread.map_or(&asleep, |span| &span.states);
    let span = &tasks.process(process);
    let line = TaskLine { state, evaluation, interval, sample, process, depth, thread: Some(facts), span, states, figures };
    Some(table.row(|fill, cell| fill(&line, cell)))
}

/// Process names and numbers of their threads in a wait class, most first.
pub fn wait_class_members(interval: &Interval, sample: &Tasks, class: WaitClass) -> Vec<(String, u32)> {
    let mut counts: rustc_hash::FxHashMap<&[u8], u32> = rustc_hash::FxHashMap::default();
    let activity = TaskActivity::new(interval);
    for process in &sample.processes {
        let inside =
            process.threads.iter().filter(|thread| activity.wait_class(&interval.host, process, thread) == class).count();
        if inside > 0 {
            *counts.entry(process.comm.as_bytes()).or_default() += u32::try_from(inside).unwrap_or(u32::MAX);
        }
    }
    let mut list: Vec<(String, u32)> =
        counts.into_iter().map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), count)).collect();
    list.small_sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_how_many_names_do_not_fit() {
        let words = ["postgres ×61", "sshd", "cron"].map(str::to_owned);
        let fitting = |cells| fitting_list(&words, cells);
        assert_eq!(
            [fitting(24), fitting(23), fitting(15)],
            [("postgres ×61, sshd, cron", false), ("postgres ×61, sshd +1", true), ("postgres ×61 +2", true)]
                .map(|(text, is_cut)| (text.to_owned(), is_cut))
        );
        assert_eq!(fitting_list(&[], 10), (String::new(), false));
    }

    #[test]
    fn what_a_class_waits_for_fits_its_column() {
        for class in WaitClass::ALL {
            assert!(wait_location::wait_class_object(class).len() <= usize::from(MEANING.width), "{class:?}");
        }
    }
}
