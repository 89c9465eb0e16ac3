//! The tasks screen: processes, threads, cgroups or wait classes, and how they spent their time.

mod cgroups;
mod columns;

pub use columns::command_line;
use columns::{TaskLine, table};

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
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::task::Microstates;
use crate::interval::task_activity::TaskActivity;
use crate::safe;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::WaitClass;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, State, TaskRows};
use crate::units::Ratio;
use crate::units::format;

/// A row of the table of wait classes.
struct WaitClassLine<'a> {
    interval: &'a Interval,
    sample: &'a Tasks,
    class: WaitClass,
    threads: u32,
}

type WaitClassSpec = ColumnSpec<fn(&WaitClassLine, CellContent)>;

const WAIT_CLASS_COLUMNS: [WaitClassSpec; 4] = [
    WaitClassSpec::text("WAIT", 8, |line, cell| cell.text(line.class.as_str(), StyleRole::Bold)),
    WaitClassSpec::text("threads", 7, |line, cell| cell.text(safe!("{}", line.threads), StyleRole::Plain)).right_aligned(),
    WaitClassSpec::text("processes", 26, |line, cell| {
        let members = wait_class_members(line.interval, line.sample, line.class);
        let words: Vec<String> = (members.into_iter().take(4))
            .map(|(name, count)| if count > 1 { format!("{name} ×{count}") } else { name })
            .collect();
        cell.text(SafeText::sanitize(words.join(", ")), StyleRole::Plain);
    })
    .min_table_width(60),
    WaitClassSpec::text("meaning", 0, |line, cell| {
        cell.text(wait_location::wait_class_description(line.class), StyleRole::Dim);
    }),
];

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
    let classes = Columns::new(&WAIT_CLASS_COLUMNS, pane.width());
    let table = table(state, pane.width());
    let visible = visible_rows(state, layout);
    let rows = visible.iter().filter_map(|visible| {
        let row = match visible.row {
            Row::Process { index, depth } => process_row(evaluation, sample, index, depth, &table),
            Row::Thread { process, thread, depth } => {
                let process = sample.processes.get(process)?;
                thread_row(evaluation, sample, (process, depth), process.threads.get(thread)?, &table)
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
    match state.task_rows {
        TaskRows::Tasks(_) => table.draw(body, Some(state.sort()), rows),
        TaskRows::WaitClasses(_) => classes.draw(body, Some(state.sort()), rows),
        TaskRows::Cgroups(_) => cgroups::draw_list(state, evaluation, &visible, body),
    }
    if let Some(limits) = hidden_tasks_note(state) {
        pane.line(layout.rows_before_list + layout.list_rows, (&limits, StyleRole::Dim));
    }
    if state.rows.is_empty() {
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
    let in_locks = wait_location::threads_in_lock_waits(interval, tasks).round() as u32;
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
    pane.line(0, heading.with(SafeText::sanitize(line), StyleRole::Plain).truncated(room));
    pane.line_right(0, (&words, StyleRole::Dim));
}

fn process_row(
    evaluation: &Evaluation,
    sample: &Tasks,
    index: usize,
    depth: u8,
    table: &Columns<fn(&TaskLine, CellContent)>,
) -> Option<TableRow> {
    let interval = &*evaluation.interval;
    let process = sample.processes.get(index)?;
    let span = &interval.tasks.as_ref()?.process(process);
    let (cpu, run_queue_wait, states) = (span.cpu, span.run_queue_wait, &span.states);
    let line = TaskLine { evaluation, interval, sample, process, depth, thread: None, span, cpu, run_queue_wait, states };
    Some(table.row(|fill, cell| fill(&line, cell)))
}

fn thread_row(
    evaluation: &Evaluation,
    sample: &Tasks,
    (process, depth): (&Process, u8),
    thread: &Thread,
    table: &Columns<fn(&TaskLine, CellContent)>,
) -> Option<TableRow> {
    let interval = &*evaluation.interval;
    let tasks = interval.tasks.as_ref()?;
    let asleep = Microstates { sleep: 1.0, ..Microstates::default() };
    let (cpu, run_queue_wait, states) = match tasks.thread(process.task_id(thread)) {
        Some(span) => (span.cpu, span.run_queue_wait, &span.states),
        None => (Some(Ratio(0.0)), Some(Ratio(0.0)), &asleep),
    };
    let span = &tasks.process(process);
    let line =
        TaskLine { evaluation, interval, sample, process, depth, thread: Some(thread), span, cpu, run_queue_wait, states };
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
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}
