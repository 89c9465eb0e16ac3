//! The tasks screen: processes, threads or wait classes, and how they spent their time.

use super::active_findings::hidden_tasks_note;
use super::canvas::Canvas;
use super::list::{draw_list, list_status};
use super::text::{self, SafeText, format_number};
use super::theme::StyleRole;
use super::wait_location;
use super::widgets::bar::{Segment, stacked_bar};
use super::widgets::table::{ColumnSpec, Table};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::task::{Microstates, ProcessSpan, visible_wait_class};
use crate::safe;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::WaitClass;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, SortColumn, State};
use crate::units::Ratio;

const STATES_HEADING: &str = "time goes to";
const TASK_COLUMNS: [ColumnSpec; 9] = [
    ColumnSpec::numeric("pid", 7).sorted_by(SortColumn::Pid),
    ColumnSpec::numeric("thr", 4).sorted_by(SortColumn::Threads).min_table_width(72),
    ColumnSpec::text("user", 8).sorted_by(SortColumn::Owner).min_table_width(96),
    ColumnSpec::numeric("%CPU", 5).sorted_by(SortColumn::Cpu),
    ColumnSpec::numeric("runq", 5).sorted_by(SortColumn::RunQueue).min_table_width(66),
    ColumnSpec::numeric("disk", 5).sorted_by(SortColumn::Disk),
    ColumnSpec::numeric("lock", 5).sorted_by(SortColumn::Lock),
    ColumnSpec::text("command", 14).sorted_by(SortColumn::Name),
    ColumnSpec::text("where", 0).sorted_by(SortColumn::Activity),
];

/// Position of the columns that only wide screens have.
const COMMAND_INDEX: usize = 7;

const WIDE_COLUMNS: [ColumnSpec; 3] = [
    ColumnSpec::numeric("memory", 6).sorted_by(SortColumn::Resident),
    ColumnSpec::numeric("read/s", 6).sorted_by(SortColumn::Read),
    ColumnSpec::numeric("write/s", 7).sorted_by(SortColumn::Write),
];

pub fn table(state: &State, width: u16) -> Table {
    if state.shows_wait_classes() {
        return Table::new(&WAIT_CLASS_COLUMNS, width);
    }
    let mut specs = TASK_COLUMNS.to_vec();
    let by = state.sort().column;
    if width < 140 {
        // The sort column is visible on every width.
        let hidden = WIDE_COLUMNS.into_iter().find(|spec| spec.sort_column == Some(by));
        specs.splice(COMMAND_INDEX..COMMAND_INDEX, hidden);
    }
    for spec in specs.iter_mut().filter(|spec| spec.sort_column == Some(by)) {
        spec.min_table_width = 0;
    }
    if width >= 110 {
        specs.insert(COMMAND_INDEX, ColumnSpec::text(STATES_HEADING, if width >= 160 { 30 } else { 16 }));
    }
    if width >= 140 {
        specs.splice(COMMAND_INDEX..COMMAND_INDEX, WIDE_COLUMNS);
        for spec in &mut specs {
            if spec.heading == "command" {
                spec.width = 24;
            }
        }
    }
    Table::new(&specs, width)
}

const WAIT_CLASS_COLUMNS: [ColumnSpec; 4] = [
    ColumnSpec::text("WAIT", 8),
    ColumnSpec::numeric("threads", 7),
    ColumnSpec::text("who", 26).min_table_width(60),
    ColumnSpec::text("meaning", 0),
];

pub fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, canvas: &mut Canvas) {
    let interval = &*evaluation.interval;
    summary_line(state, interval, layout, canvas);
    let Ok(sample) = &interval.newer.tasks else {
        canvas.text_to_end(0, 2, "- /proc cannot be read", StyleRole::Dim);
        return;
    };
    let table = table(state, canvas.width());
    table.draw_header(canvas, 1, Some(state.sort()));
    let end = draw_list(state, layout, canvas, |canvas, y, row| match row {
        Row::Process { index, depth } => process_row(interval, sample, index, depth, &table, canvas, y),
        Row::Thread { process, thread } => {
            if let Some(process) = sample.processes.get(process)
                && let Some(thread) = process.threads.get(thread)
            {
                thread_row(interval, sample, process, thread, &table, canvas, y);
            }
        }
        Row::WaitClass { class, threads } => wait_class_row(interval, sample, class, threads, &table, canvas, y),
        _ => {}
    });
    if let Some(limits) = hidden_tasks_note(state) {
        canvas.text_to_end(0, layout.rows_before_list + layout.list_rows, &limits, StyleRole::Dim);
    }
    if state.rows.is_empty() {
        canvas.text_to_end(0, end, "no task matches the filter (Esc clears it)", StyleRole::Dim);
    }
}

/// Numbers of processes, threads, and threads by state.
fn summary_line(state: &State, interval: &Interval, layout: &ScreenLayout, canvas: &mut Canvas) {
    canvas.text(0, 0, 6, "TASKS", StyleRole::Heading);
    let width = canvas.width();
    let words = list_status(state, layout);
    let right = u16::try_from(words.width()).unwrap_or(0);
    let Some(tasks) = &interval.tasks else { return };
    let counts = &tasks.counts;
    let mut line = format!(
        "{} {}: {} running",
        text::pluralize(counts.processes, "process", "processes"),
        text::pluralize(counts.threads, "thread", "threads"),
        counts.running
    );
    for (count, word) in [
        (counts.blocked_disk, "disk"),
        (counts.lock_wait, "lock"),
        (counts.blocked_vfork, "vfork"),
        (counts.blocked_memory, "memory"),
        (counts.blocked_frozen, "frozen"),
        (counts.blocked_other, "other D"),
    ] {
        if count > 0 {
            line += &format!(" {count} {word}");
        }
    }
    let room = width.saturating_sub(6 + right + 1);
    canvas.text(6, 0, room, SafeText::sanitize(line), StyleRole::Plain);
    canvas.text_right(width.saturating_sub(right), 0, right, &words, StyleRole::Dim);
}

fn process_row(interval: &Interval, sample: &Tasks, index: usize, depth: u8, table: &Table, canvas: &mut Canvas, y: u16) {
    let Some(process) = sample.processes.get(index) else { return };
    let Some(span) = &interval.tasks.as_ref().map(|tasks| tasks.process(process)) else { return };
    table.draw_cell(canvas, y, "pid", safe!("{}", process.pid), StyleRole::Plain);
    table.draw_cell(canvas, y, "thr", safe!("{}", span.threads), StyleRole::Dim);
    user_cell(sample, process, table, canvas, y);
    let hidden = wait_location::waits_are_hidden(interval, process);
    time_cells(hidden, span.cpu, span.run_queue_wait, &span.states, table, canvas, y);
    table.draw_cell(canvas, y, "memory", resident_text(interval, span), StyleRole::Plain);
    for (heading, rate) in [("read/s", span.read_bytes), ("write/s", span.write_bytes)] {
        let words = rate.map_or("-".to_owned(), |rate| if rate.0 > 0.0 { text::bytes(rate.0) } else { "0".to_owned() });
        let role = if rate.is_some_and(|rate| rate.0 > 0.0) { StyleRole::Plain } else { StyleRole::Dim };
        table.draw_cell(canvas, y, heading, safe!("{words}"), role);
    }
    let name = if depth > 0 {
        safe!("{}└ {}", "  ".repeat(usize::from(depth.min(12)) - 1), SafeText::from_name(&process.comm))
    } else {
        SafeText::from_name(&process.comm)
    };
    table.draw_cell(canvas, y, "command", &name, StyleRole::Bold);
    table.draw_cell(canvas, y, "where", activity_text(interval, process, span), StyleRole::Plain);
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

fn user_cell(sample: &Tasks, process: &Process, table: &Table, canvas: &mut Canvas, y: u16) {
    let user = sample.users.get(&process.uid).map_or_else(|| safe!("{}", process.uid), SafeText::from_name);
    table.draw_cell(canvas, y, "user", &user, StyleRole::Dim);
}

fn resident_text(interval: &Interval, span: &ProcessSpan) -> SafeText {
    if span.resident_pages == 0 {
        return "-".into();
    }
    safe!("{}", text::bytes(span.resident_pages as f64 * interval.host.page_size as f64))
}

fn time_cells(
    hidden: bool,
    cpu: Option<Ratio>,
    run_queue: Option<Ratio>,
    states: &Microstates,
    table: &Table,
    canvas: &mut Canvas,
    y: u16,
) {
    let role = |value: f64| if value > 0.0 { StyleRole::Plain } else { StyleRole::Dim };
    let used = cpu.map_or(0.0, |cpu| cpu.0);
    let full = if used >= 0.95 { StyleRole::Bold } else { role(used) };
    table.draw_cell(canvas, y, "%CPU", safe!("{}", text::format_percent(cpu.map(|cpu| cpu.0), 5)), full);
    let waited = run_queue.map(|wait| wait.0);
    table.draw_cell(canvas, y, "runq", safe!("{}", text::format_optional(waited, 5)), role(waited.unwrap_or(0.0)));
    let stuck = |value: f64| super::overview::blocked_role(value);
    table.draw_cell(canvas, y, "disk", safe!("{}", format_number(states.disk, 5)), stuck(states.disk));
    table.draw_cell(canvas, y, "lock", wait_location::lock_waits_text(states.lock, hidden), stuck(states.lock));
    if let Some((x, width)) = table.column_area(STATES_HEADING) {
        state_bar(states, canvas, x, y, width);
    }
}

/// A bar of the time by state; the full width is the whole time.
pub fn state_bar(states: &Microstates, canvas: &mut Canvas, x: u16, y: u16, width: u16) {
    let whole = states.non_sleep() + states.sleep + states.unknown;
    if whole <= 0.0 {
        return;
    }
    let part = |time: f64, glyph, role| Segment { share: time / whole, glyph, role };
    let parts = [
        part(states.user, '█', StyleRole::User),
        part(states.system, '▓', StyleRole::System),
        part(states.run_queue, '░', StyleRole::RunQueue),
        part(states.disk, '▒', StyleRole::Disk),
        part(states.lock, '▞', StyleRole::Lock),
        part(states.other_blocked, '╳', StyleRole::OtherBlocked),
        part(states.unknown, '?', StyleRole::Dim),
        part(states.sleep, '·', StyleRole::Free),
    ];
    stacked_bar(canvas, x, y, width, &parts);
}

fn thread_row(
    interval: &Interval,
    sample: &Tasks,
    process: &Process,
    thread: &Thread,
    table: &Table,
    canvas: &mut Canvas,
    y: u16,
) {
    let id = process.task_id(thread);
    table.draw_cell(canvas, y, "pid", safe!("{}", thread.tid), StyleRole::Plain);
    table.draw_cell(canvas, y, "thr", if thread.tid == process.pid { "main" } else { "·" }, StyleRole::Dim);
    user_cell(sample, process, table, canvas, y);
    let hidden = wait_location::waits_are_hidden(interval, process);
    match interval.tasks.as_ref().and_then(|tasks| tasks.thread(id)) {
        Some(span) => time_cells(hidden, span.cpu, span.run_queue_wait, &span.states, table, canvas, y),
        None => {
            let asleep = Microstates { sleep: 1.0, ..Microstates::default() };
            time_cells(hidden, Some(Ratio(0.0)), Some(Ratio(0.0)), &asleep, table, canvas, y);
        }
    }
    table.draw_cell(canvas, y, "command", SafeText::from_name(&thread.comm), StyleRole::Bold);
    table.draw_cell(canvas, y, "where", wait_location::thread_location(interval, id), StyleRole::Plain);
}

fn wait_class_row(
    interval: &Interval,
    sample: &Tasks,
    class: WaitClass,
    threads: u32,
    table: &Table,
    canvas: &mut Canvas,
    y: u16,
) {
    table.draw_cell(canvas, y, "WAIT", class.as_str(), StyleRole::Bold);
    table.draw_cell(canvas, y, "threads", safe!("{threads}"), StyleRole::Plain);
    let mut who: Vec<(String, u32)> = wait_class_members(interval, sample, class);
    who.truncate(4);
    let words: Vec<String> =
        who.iter().map(|(name, count)| if *count > 1 { format!("{name} ×{count}") } else { name.clone() }).collect();
    table.draw_cell(canvas, y, "who", SafeText::sanitize(words.join(", ")), StyleRole::Plain);
    table.draw_cell(canvas, y, "meaning", wait_location::wait_class_description(class), StyleRole::Dim);
}

/// Process names and numbers of their threads in a wait class, most first.
pub fn wait_class_members(interval: &Interval, sample: &Tasks, class: WaitClass) -> Vec<(String, u32)> {
    let mut counts: rustc_hash::FxHashMap<&[u8], u32> = rustc_hash::FxHashMap::default();
    for process in &sample.processes {
        let inside =
            process.threads.iter().filter(|thread| visible_wait_class(&interval.host, process, thread) == class).count();
        if inside > 0 {
            *counts.entry(process.comm.as_bytes()).or_default() += u32::try_from(inside).unwrap_or(u32::MAX);
        }
    }
    let mut list: Vec<(String, u32)> =
        counts.into_iter().map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), count)).collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}
