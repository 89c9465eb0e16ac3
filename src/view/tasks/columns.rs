//! The columns of the table of tasks: figures, where the time goes, what a task waits for, command lines.

use crate::figures::task::{self, ProcessRow};
use crate::figures::thread::{self, ThreadRow};
use crate::figures::{Column, FigureInput};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::idle_blocked::MIN_NAMED_THREADS;
use crate::interval::process_groups::MIN_PROCESS_ACTIVITY;
use crate::interval::task::{Microstates, ProcessSpan};
use crate::safe;
use crate::sample::task::{Process, TaskState, Tasks, Thread};
use crate::state::{SortColumn, State, TaskList, TaskRows};
use crate::units::{format, time};
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::safe_text::SafeText;
use crate::view::task_states::{state_segments, throttled_threads};
use crate::view::text;
use crate::view::theme::{StyleRole, blocked_role, used_role};
use crate::view::time_cells::TimeCells;
use crate::view::wait_location;
use crate::view::widgets::bar::StackedBar;

/// A row of the table of tasks: a process or a thread.
pub struct TaskLine<'a> {
    pub(super) state: &'a State,
    pub(super) evaluation: &'a Evaluation,
    pub(super) interval: &'a Interval,
    pub(super) sample: &'a Tasks,
    pub(super) process: &'a Process,
    /// Depth in the tree of processes
    pub(super) depth: u8,
    /// `None`: the whole process
    pub(super) thread: Option<&'a Thread>,
    /// Span of the process
    pub(super) span: &'a ProcessSpan,
    pub(super) states: &'a Microstates,
    /// The row in the catalogue of figures
    pub(super) figures: TaskFigures,
}

/// The row of a process or a thread in the catalogue of figures.
pub enum TaskFigures {
    Process(ProcessRow),
    Thread(ThreadRow),
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
    .min_table_width(88),
    Spec::figure(&task::USER, 8, |line, cell| {
        let uid = line.process.uid;
        let user = line.sample.users.get(&uid).map_or_else(|| safe!("{uid}"), SafeText::from_name);
        cell.text(&user, StyleRole::Dim);
    })
    .sorted_by(SortColumn::TASK_USER)
    .min_table_width(116),
    Spec::figure(&task::CPU_RATIO, 5, |line, cell| {
        let cpu = line.value(&task::CPU_RATIO, Some(&thread::CPU_RATIO));
        let used = cpu.unwrap_or(0.0);
        let role = if used >= line.evaluation.thresholds().thread_busy_ratio { StyleRole::Bold } else { used_role(used) };
        cell.text(safe!("{}", text::format_percent(cpu, 5)), role);
    })
    .sorted_by(SortColumn::TASK_CPU),
    Spec::figure(&task::RUN_QUEUE_WAIT_RATIO, 5, |line, cell| {
        let waited = line.value(&task::RUN_QUEUE_WAIT_RATIO, Some(&thread::RUN_QUEUE_WAIT_RATIO));
        let width = usize::from(cell.width);
        cell.text(safe!("{}", text::format_optional(waited, width)), used_role(waited.unwrap_or(0.0)));
    })
    .sorted_by(SortColumn::TASK_RUN_QUEUE)
    .min_table_width(66),
    Spec::figure(&task::DISK_RATIO, 5, |line, cell| {
        let disk = line.value(&task::DISK_RATIO, Some(&thread::DISK_RATIO));
        let width = usize::from(cell.width);
        cell.text(safe!("{}", text::format_optional(disk, width)), blocked_role(disk.unwrap_or(0.0)));
    })
    .sorted_by(SortColumn::TASK_DISK),
    Spec::figure(&task::LOCK_RATIO, 5, |line, cell| {
        let lock = line.value(&task::LOCK_RATIO, Some(&thread::LOCK_RATIO));
        let hidden = wait_location::waits_are_hidden(line.interval, line.process);
        let words = wait_location::lock_waits_text(lock, hidden, usize::from(cell.width));
        cell.text(words, blocked_role(lock.unwrap_or(0.0)));
    })
    .sorted_by(SortColumn::TASK_LOCK),
    COMMAND,
    Spec::text("where", 0, |line, cell| {
        let activity = line.activity(cell.width);
        cell.text(activity.unwrap_or_else(|| command_line(line.process)), StyleRole::Plain);
    })
    .sorted_by(SortColumn::TASK_ACTIVITY),
];

/// Positions of the columns with a number of threads, which are narrower where there is little room.
const THREAD_COUNTS: std::ops::Range<usize> = 4..7;

/// For tables with a column of command lines.
const WHERE: Spec = Spec::text("where", 0, |line, cell| {
    let activity = line.activity(cell.width);
    cell.text(beside_command_line(activity.unwrap_or_default()), StyleRole::Plain);
})
.sorted_by(SortColumn::TASK_ACTIVITY);

/// On a narrow terminal it is beyond the right edge.
const COMMAND_LINE: Spec = Spec::text("command line", 0, |line, cell| {
    let role = if line.process.kernel_thread { StyleRole::Dim } else { StyleRole::Plain };
    cell.text(command_line(line.process), role);
})
.min_table_width(MIN_COMMAND_LINE_WIDTH)
.key("command_line");

const COMMAND: Spec = Spec::figure(&task::COMMAND, 14, |line, cell| {
    let name = SafeText::from_name(line.thread.map_or(&line.process.comm, |thread| &thread.comm));
    let role = if line.process.kernel_thread { StyleRole::Dim } else { StyleRole::Bold };
    let folded = if line.thread.is_none() && line.state.is_folded(line.process.id()) { "+" } else { "" };
    match line.depth {
        0 => cell.text(safe!("{folded}{name}"), role),
        depth => cell.text(safe!("{}└ {folded}{name}", "  ".repeat(usize::from(depth.min(12)) - 1)), role),
    }
})
.sorted_by(SortColumn::TASK_COMMAND);

const STATES: Spec = Spec::graph("time goes to", 16, states_cell).key("states");

/// The states in the order of the bar.
const STATES_WITH_HEADINGS: Spec = Spec::graph("USR SYS RUNQ DISK LOCK SLEEP", 30, states_cell).key("states");

fn states_cell(line: &TaskLine, cell: CellContent) {
    let width = cell.width;
    let throttled = throttled_threads(line.interval, line.process, line.states, line.thread.map_or(line.span.threads, |_| 1));
    cell.glyphs(StackedBar(&state_segments(line.states, throttled)).glyphs(width));
}

/// Position of the columns of memory and storage.
const COMMAND_INDEX: usize = 7;

const MEMORY: Spec = Spec::text("mem", 5, |line, cell| {
    line.resident(cell);
})
.right_aligned()
.sorted_by(SortColumn::TASK_RESIDENT)
.min_table_width(MIN_MEMORY_WIDTH)
.key(task::RESIDENT_BYTES.definition.key);

/// Read and written.
const STORAGE: Spec = Spec::text("I/O/s", 5, |line, cell| {
    let value = |column| line.value(column, None);
    let both = value(&task::READ_BYTES_PER_SECOND).zip(value(&task::WRITE_BYTES_PER_SECOND));
    line.of_process(cell, byte_rate_text(both.map(|(read, written)| read + written)));
})
.right_aligned()
.min_table_width(MIN_MEMORY_WIDTH)
.key("storage_bytes_per_second");

/// Cells from which there is room for them.
const MIN_MEMORY_WIDTH: u16 = 76;

const WIDE_COLUMNS: [Spec; 3] = [
    Spec::figure(&task::RESIDENT_BYTES, 6, |line, cell| line.resident(cell)).sorted_by(SortColumn::TASK_RESIDENT),
    Spec::figure(&task::READ_BYTES_PER_SECOND, 6, |line, cell| line.byte_rate(cell, &task::READ_BYTES_PER_SECOND))
        .sorted_by(SortColumn::TASK_READ),
    Spec::figure(&task::WRITE_BYTES_PER_SECOND, 7, |line, cell| line.byte_rate(cell, &task::WRITE_BYTES_PER_SECOND))
        .sorted_by(SortColumn::TASK_WRITE),
];

/// As top's TIME+.
const CPU_TIME: Spec = Spec::figure(&task::CPU_TIME_SECONDS, 6, |line, cell| {
    let seconds = line.value(&task::CPU_TIME_SECONDS, Some(&thread::CPU_TIME_SECONDS));
    let words = seconds.map_or_else(|| "-".to_owned(), time::compact_duration);
    cell.text(safe!("{words}"), used_role(seconds.unwrap_or(0.0)));
})
.sorted_by(SortColumn::TASK_TIME)
.min_table_width(MIN_CPU_TIME_WIDTH);

/// Columns of htop and atop that are shown where the user has chosen them.
const ADDED_COLUMNS: [Spec; 9] = [
    Spec::figure(&task::STATE, 1, |line, cell| {
        let state = line.main_thread().map(|thread| thread.state);
        let role = match state {
            Some(TaskState::Running) => StyleRole::Bold,
            Some(TaskState::Blocked) => StyleRole::Disk,
            _ => StyleRole::Dim,
        };
        cell.text(safe!("{}", state.map_or('-', TaskState::as_char)), role);
    })
    .hidden_by_default(),
    Spec::figure(&task::PRIORITY, 4, |line, cell| {
        let priority = line.value(&task::PRIORITY, Some(&thread::PRIORITY));
        cell.text(integer_text(priority), if priority == Some(20.0) { StyleRole::Dim } else { StyleRole::Plain });
    })
    .hidden_by_default(),
    Spec::figure(&task::NICE, 3, |line, cell| {
        cell.text(integer_text(line.value(&task::NICE, Some(&thread::NICE))), StyleRole::Plain);
    })
    .hidden_by_default(),
    Spec::figure(&task::VIRTUAL_BYTES, 5, |line, cell| line.bytes(cell, &task::VIRTUAL_BYTES)).hidden_by_default(),
    Spec::figure(&task::SHARED_BYTES, 5, |line, cell| line.bytes(cell, &task::SHARED_BYTES)).hidden_by_default(),
    Spec::figure(&task::RESIDENT_GROWTH_BYTES_PER_SECOND, 8, |line, cell| {
        line.byte_rate(cell, &task::RESIDENT_GROWTH_BYTES_PER_SECOND);
    })
    .sorted_by(SortColumn::TASK_GROWTH)
    .hidden_by_default(),
    Spec::figure(&task::SWITCHES_PER_SECOND, 8, |line, cell| {
        let switches = line.value(&task::SWITCHES_PER_SECOND, Some(&thread::SWITCHES_PER_SECOND));
        cell.text(safe!("{}", text::format_optional(switches, 6)), StyleRole::Plain);
    })
    .hidden_by_default(),
    Spec::figure(&task::READ_TOTAL_BYTES, 8, |line, cell| line.bytes(cell, &task::READ_TOTAL_BYTES)).hidden_by_default(),
    Spec::figure(&task::WRITE_TOTAL_BYTES, 9, |line, cell| line.bytes(cell, &task::WRITE_TOTAL_BYTES)).hidden_by_default(),
];

/// The CPUs that the process used over time, relative to one CPU or to its maximum.
const CPU_HISTORY: Spec = Spec::graph("CPU history", 14, |line, cell| {
    if line.thread.is_none() {
        let cells = TimeCells::for_process(line.state, line.interval, line.process.id(), cell.width);
        let most = cells.values.iter().flatten().copied().fold(1.0_f32, f32::max);
        cell.glyphs(cells.glyphs(|cpus| (cpus / most, StyleRole::User)));
    }
})
.key("cpu_history");

/// Cells from which there is room for it.
const MIN_CPU_HISTORY_WIDTH: u16 = 190;

/// Cells from which there is room for it beside command lines.
const MIN_CPU_TIME_WIDTH: u16 = 180;

impl TaskLine<'_> {
    /// The thread of the row, or the first one of the process.
    fn main_thread(&self) -> Option<&Thread> {
        self.thread.or_else(|| self.process.thread(self.process.pid))
    }

    /// A figure of the row: of a process, or of a thread, of which not all are known.
    fn value(&self, of_process: &Column<ProcessRow>, of_thread: Option<&Column<ThreadRow>>) -> Option<f64> {
        let input = FigureInput::from(self.evaluation);
        match &self.figures {
            TaskFigures::Process(row) => of_process.number(&input, row),
            TaskFigures::Thread(row) => of_thread?.number(&input, row),
        }
    }

    /// What the task does or waits for; `None` for an inactive process.
    fn activity(&self, cells: u16) -> Option<SafeText> {
        let Some(thread) = self.thread else {
            return process_activity(self.interval, self.process, self.span, cells);
        };
        let task = self.process.task_id(thread);
        Some(wait_location::fitting(cells, |detail| wait_location::thread_location(self.interval, task, detail)))
    }

    /// Text that only a process has.
    fn of_process(&self, cell: CellContent, (words, role): (SafeText, StyleRole)) {
        if self.thread.is_none() {
            cell.text(words, role);
        }
    }

    /// Bytes of a process.
    fn bytes(&self, cell: CellContent, column: &Column<ProcessRow>) {
        self.of_process(cell, (bytes_text(self.value(column, None)), StyleRole::Plain));
    }

    /// Its resident memory: a kernel thread has none.
    fn resident(&self, cell: CellContent) {
        let bytes = self.value(&task::RESIDENT_BYTES, None).filter(|&bytes| bytes > 0.0);
        self.of_process(cell, (bytes_text(bytes), StyleRole::Plain));
    }

    /// Bytes per second of a process.
    fn byte_rate(&self, cell: CellContent, column: &Column<ProcessRow>) {
        self.of_process(cell, byte_rate_text(self.value(column, None)));
    }
}

/// A whole number, or `-` without a value.
pub fn integer_text(value: Option<f64>) -> SafeText {
    value.map_or_else(|| "-".into(), |value| safe!("{value:.0}"))
}

/// `1.2G`, or `-` without a value.
pub fn bytes_text(bytes: Option<f64>) -> SafeText {
    bytes.map_or_else(|| "-".into(), |bytes| safe!("{}", format::short_bytes(bytes)))
}

/// A number of bytes per second, dim where it is 0.
pub fn byte_rate_text(rate: Option<f64>) -> (SafeText, StyleRole) {
    (bytes_text(rate), used_role(rate.unwrap_or(0.0)))
}

/// Cells from which there is room for the bar of the states, and for command lines.
const MIN_STATES_WIDTH: u16 = 104;
const MIN_COMMAND_LINE_WIDTH: u16 = 160;

/// Cells of what a task waits for, beside its command line.
const WHERE_WIDTH: u16 = 34;

/// The table of tasks for a width.
pub fn table(state: &State, width: u16) -> Columns<fn(&TaskLine, CellContent)> {
    let mut specs = TASK_COLUMNS.to_vec();
    let by = state.sort().column;
    let is_sorted = |spec: &Spec| spec.sort_column == Some(by);
    if width < 88 {
        specs.iter_mut().take(THREAD_COUNTS.end).skip(THREAD_COUNTS.start).for_each(|spec| spec.width = 4);
    }
    if let Some(command) = specs.get_mut(COMMAND_INDEX) {
        command.width = match width {
            ..88 => 13,
            88..140 => 14,
            _ => 24,
        };
    }
    let has_command_lines = width >= MIN_COMMAND_LINE_WIDTH;
    // A moved list has them in their own column.
    let is_moved = state.sideways_offset() > 0 && !state.hides_column(COMMAND_LINE.choosable());
    if has_command_lines || is_moved {
        specs.pop();
        specs.push(if has_command_lines { WHERE.width(WHERE_WIDTH) } else { WHERE });
    }
    // Columns that the user adds do not take its place.
    specs.push(if has_command_lines { COMMAND_LINE.min_table_width(0) } else { COMMAND_LINE });
    let states = if has_command_lines { STATES_WITH_HEADINGS } else { STATES };
    specs.insert(COMMAND_INDEX, states.min_table_width(MIN_STATES_WIDTH));
    if width >= 140 {
        specs.splice(COMMAND_INDEX..COMMAND_INDEX, WIDE_COLUMNS);
    } else {
        // One column for reads and writes, unless the table is sorted by one of them.
        let rate = WIDE_COLUMNS.into_iter().skip(1).find(is_sorted).unwrap_or(STORAGE);
        specs.splice(COMMAND_INDEX..COMMAND_INDEX, [MEMORY, rate]);
    }
    specs.insert(COMMAND_INDEX, CPU_TIME);
    specs.splice(COMMAND_INDEX..COMMAND_INDEX, ADDED_COLUMNS);
    // It is known of processes only.
    let has_processes = state.lists.task_rows != TaskRows::Tasks(TaskList::Threads);
    let history = if width >= MIN_CPU_HISTORY_WIDTH && has_processes { CPU_HISTORY } else { CPU_HISTORY.hidden_by_default() };
    specs.insert(COMMAND_INDEX, history);
    // The sort column is visible on every width.
    specs
        .iter_mut()
        .filter(|spec| is_sorted(spec))
        .for_each(|spec| (spec.min_table_width, spec.hidden_by_default) = (0, false));
    Columns::chosen(state, &specs, width)
}

/// What an active process waits on.
fn process_activity(interval: &Interval, process: &Process, span: &ProcessSpan, cells: u16) -> Option<SafeText> {
    let task = span.top_thread.filter(|_| span.states.non_sleep() >= MIN_PROCESS_ACTIVITY)?;
    let group = interval.idle_blocked.iter().flat_map(|idle| &idle.groups).find(|group| group.group == process.group());
    // Its group waits for one member in I/O: the wait chain explains more than its own wait channel.
    let group = group.filter(|group| group.has_lock_queue() && span.states.lock >= MIN_NAMED_THREADS);
    Some(wait_location::fitting(cells, |detail| {
        let chain = group.and_then(|group| wait_location::group_location(interval, group, detail));
        chain.unwrap_or_else(|| wait_location::thread_location(interval, task, detail))
    }))
}

/// An activity beside the command line, which says that it is a kernel thread.
pub fn beside_command_line(activity: SafeText) -> SafeText {
    match activity.as_str().strip_suffix(" (kernel thread)") {
        Some(words) => SafeText::sanitize(words),
        None => activity,
    }
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
