//! The tasks screen: processes, threads, cgroups or wait classes, and how they spent their time.

mod cgroups;

use super::ScreenView;
use super::active_findings::hidden_tasks_note;
use super::columns::{CellContent, ColumnSpec, Columns, TableRow};
use super::list::{list_end, list_status, visible_rows};
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::{self, format_number};
use super::theme::{StyleRole, blocked_role, used_role};
use super::thread_states;
use super::wait_location;
use super::widgets::bar::{Segment, StackedBar};
use crate::figures::task;
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::task::{Microstates, ProcessSpan};
use crate::interval::task_activity::TaskActivity;
use crate::interval::throttling::throttling;
use crate::safe;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::WaitClass;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, SortColumn, State, TaskRows};
use crate::units::format;
use crate::units::{PerSecond, Ratio};

/// A row of the table of tasks: a process or a thread.
pub struct TaskLine<'a> {
    evaluation: &'a Evaluation,
    interval: &'a Interval,
    sample: &'a Tasks,
    process: &'a Process,
    /// Depth in the tree of processes
    depth: u8,
    /// `None`: the whole process
    thread: Option<&'a Thread>,
    /// Span of the process
    span: &'a ProcessSpan,
    cpu: Option<Ratio>,
    run_queue_wait: Option<Ratio>,
    states: &'a Microstates,
}

type Spec = ColumnSpec<fn(&TaskLine, CellContent)>;

const TASK_COLUMNS: [Spec; 9] = [
    Spec::figure(&task::PID, 7, |line, cell| {
        cell.text(safe!("{}", line.thread.map_or(line.process.pid, |thread| thread.tid)), StyleRole::Plain);
    })
    .sorted_by(SortColumn::TASK_PID),
    Spec::figure(&task::THREADS, 4, |line, cell| match line.thread {
        None => cell.text(safe!("{}", line.span.threads), StyleRole::Dim),
        Some(thread) if thread.tid == line.process.pid => cell.text("main", StyleRole::Dim),
        Some(_) => cell.text("·", StyleRole::Dim),
    })
    .sorted_by(SortColumn::TASK_THREADS)
    .min_table_width(72),
    Spec::figure(&task::USER, 8, |line, cell| {
        let uid = line.process.uid;
        let user = line.sample.users.get(&uid).map_or_else(|| safe!("{uid}"), SafeText::from_name);
        cell.text(&user, StyleRole::Dim);
    })
    .sorted_by(SortColumn::TASK_USER)
    .min_table_width(96),
    Spec::figure(&task::CPU_RATIO, 5, |line, cell| {
        let used = line.cpu.map_or(0.0, |cpu| cpu.0);
        let role = if used >= line.evaluation.thresholds().thread_busy_ratio { StyleRole::Bold } else { used_role(used) };
        cell.text(safe!("{}", text::format_percent(line.cpu.map(|cpu| cpu.0), 5)), role);
    })
    .sorted_by(SortColumn::TASK_CPU),
    Spec::figure(&task::RUN_QUEUE_WAIT_RATIO, 5, |line, cell| {
        let waited = line.run_queue_wait.map(|wait| wait.0);
        cell.text(safe!("{}", text::format_optional(waited, 5)), used_role(waited.unwrap_or(0.0)));
    })
    .sorted_by(SortColumn::TASK_RUN_QUEUE)
    .min_table_width(66),
    Spec::figure(&task::DISK_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.states.disk, 5)), blocked_role(line.states.disk));
    })
    .sorted_by(SortColumn::TASK_DISK),
    Spec::figure(&task::LOCK_RATIO, 5, |line, cell| {
        let hidden = wait_location::waits_are_hidden(line.interval, line.process);
        cell.text(wait_location::lock_waits_text(line.states.lock, hidden), blocked_role(line.states.lock));
    })
    .sorted_by(SortColumn::TASK_LOCK),
    COMMAND,
    Spec::text("where", 0, |line, cell| {
        let words = match line.thread {
            None => activity_text(line.interval, line.process, line.span),
            Some(thread) => wait_location::thread_location(line.interval, line.process.task_id(thread)),
        };
        cell.text(words, StyleRole::Plain);
    })
    .sorted_by(SortColumn::TASK_ACTIVITY),
];

const COMMAND: Spec = Spec::figure(&task::COMMAND, 14, |line, cell| {
    let name = SafeText::from_name(line.thread.map_or(&line.process.comm, |thread| &thread.comm));
    let role = if line.process.kernel_thread { StyleRole::Dim } else { StyleRole::Bold };
    match line.depth {
        0 => cell.text(&name, role),
        depth => cell.text(safe!("{}└ {name}", "  ".repeat(usize::from(depth.min(12)) - 1)), role),
    }
})
.sorted_by(SortColumn::TASK_COMMAND);

const STATES: Spec = Spec::text("time goes to", 16, states_cell);

/// The states in the order of the bar.
const STATES_WITH_HEADINGS: Spec = Spec::text("USR SYS RUNQ DISK LOCK SLEEP", 30, states_cell);

fn states_cell(line: &TaskLine, cell: CellContent) {
    let width = cell.width;
    let throttled = throttled_threads(line.interval, line.process, line.states, line.thread.map_or(line.span.threads, |_| 1));
    cell.glyphs(StackedBar(&state_segments(line.states, throttled)).glyphs(width));
}

/// Position of the columns that only wide screens have.
const COMMAND_INDEX: usize = 7;

const WIDE_COLUMNS: [Spec; 3] = [
    Spec::figure(&task::RESIDENT_BYTES, 6, |line, cell| {
        if line.thread.is_none() {
            cell.text(resident_text(line.interval, line.span), StyleRole::Plain);
        }
    })
    .sorted_by(SortColumn::TASK_RESIDENT),
    Spec::figure(&task::READ_BYTES_PER_SECOND, 6, |line, cell| line.io_rate(cell, line.span.read_bytes))
        .sorted_by(SortColumn::TASK_READ),
    Spec::figure(&task::WRITE_BYTES_PER_SECOND, 7, |line, cell| line.io_rate(cell, line.span.write_bytes))
        .sorted_by(SortColumn::TASK_WRITE),
];

impl TaskLine<'_> {
    /// Bytes per second of a process; unknown for threads.
    fn io_rate(&self, cell: CellContent, rate: Option<PerSecond>) {
        if self.thread.is_none() {
            let words = rate.map_or("-".to_owned(), |rate| format::short_bytes(rate.0));
            cell.text(safe!("{words}"), used_role(rate.map_or(0.0, |rate| rate.0)));
        }
    }
}

/// The table of tasks for a width.
pub fn table(state: &State, width: u16) -> Columns<fn(&TaskLine, CellContent)> {
    let mut specs = TASK_COLUMNS.to_vec();
    let by = state.sort().column;
    if width < 140 {
        // The sort column is visible on every width.
        let hidden = WIDE_COLUMNS.into_iter().find(|spec| spec.sort_column == Some(by));
        specs.splice(COMMAND_INDEX..COMMAND_INDEX, hidden);
    } else if let Some(command) = specs.get_mut(COMMAND_INDEX) {
        command.width = 24;
    }
    for spec in specs.iter_mut().filter(|spec| spec.sort_column == Some(by)) {
        spec.min_table_width = 0;
    }
    if width >= 96 {
        let states = if width >= 160 { STATES_WITH_HEADINGS } else { STATES };
        specs.insert(COMMAND_INDEX, states);
    }
    if width >= 140 {
        specs.splice(COMMAND_INDEX..COMMAND_INDEX, WIDE_COLUMNS);
    }
    Columns::chosen(state, &specs, width)
}

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
            Row::Thread { process, thread } => {
                let process = sample.processes.get(process)?;
                thread_row(evaluation, sample, process, process.threads.get(thread)?, &table)
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

/// What an active process waits on; the command line of an inactive one.
fn activity_text(interval: &Interval, process: &Process, span: &ProcessSpan) -> SafeText {
    let busy = span.states.non_sleep() >= 0.0005;
    if let Some(task) = span.top_thread.filter(|_| busy) {
        let group = interval.idle_blocked.iter().flat_map(|idle| &idle.groups).find(|group| group.group == process.group());
        // Its group waits for one member in I/O: the wait chain explains more than its own wait channel.
        if let Some(group) = group.filter(|group| group.behind_lock() >= 0.5 && span.states.lock > 0.5)
            && let Some(chain) = wait_location::group_location(interval, group)
        {
            return chain;
        }
        return wait_location::thread_location(interval, task);
    }
    command_line(process)
}

/// The command line with spaces between arguments; kernel threads have none.
pub fn command_line(process: &Process) -> SafeText {
    const ENOUGH: usize = 512;
    match &process.facts.cmdline {
        Ok(line) if !line.as_bytes().is_empty() => {
            let bytes = line.as_bytes();
            let bytes = bytes.get(..ENOUGH).unwrap_or(bytes);
            let spaced: Vec<u8> = bytes.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
            SafeText::from_bytes(spaced.trim_ascii_end())
        }
        _ if process.kernel_thread => "(kernel thread)".into(),
        _ => SafeText::default(),
    }
}

fn resident_text(interval: &Interval, span: &ProcessSpan) -> SafeText {
    if span.resident_pages == 0 {
        return "-".into();
    }
    safe!("{}", format::short_bytes(span.resident_pages as f64 * interval.host.page_size as f64))
}

/// The part of the run-queue wait of these threads of a process in which a CPU quota throttled them.
pub fn throttled_threads(interval: &Interval, process: &Process, states: &Microstates, threads: u32) -> f64 {
    let of_time = |share: f64| (share * f64::from(threads)).min(states.run_queue);
    throttling(interval, process).map_or(0.0, |throttling| of_time(throttling.share))
}

/// The time by state; a whole bar is the whole time. `throttled` is a part of the run-queue wait.
pub fn state_segments(states: &Microstates, throttled: f64) -> [Segment<StyleRole>; 9] {
    let whole = (states.non_sleep() + states.sleep + states.unknown).max(f64::MIN_POSITIVE);
    let part = |time: f64, glyph, style| Segment { share: time / whole, glyph, style };
    [
        // Not a whole block: rows above each other do not fuse.
        part(states.user, '▇', StyleRole::User),
        part(states.system, '▓', StyleRole::System),
        part(states.run_queue - throttled, '░', StyleRole::RunQueue),
        part(throttled, '‖', StyleRole::Warning),
        part(states.disk, '▒', StyleRole::Disk),
        part(states.lock, '╱', StyleRole::Lock),
        part(states.other_blocked, '╳', StyleRole::OtherBlocked),
        part(states.unknown, '?', StyleRole::Dim),
        part(states.sleep, '·', StyleRole::Free),
    ]
}

fn thread_row(
    evaluation: &Evaluation,
    sample: &Tasks,
    process: &Process,
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
        TaskLine { evaluation, interval, sample, process, depth: 0, thread: Some(thread), span, cpu, run_queue_wait, states };
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
