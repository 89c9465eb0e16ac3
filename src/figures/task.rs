//! `task`: the columns of pidstat and pstime for each process.

use std::sync::Arc;

use super::{Cell, Column, FigureInput, TypedTable, Unit, unit_capacity};
use crate::interval::context_switches::ContextSwitchRates;
use crate::interval::task::{Microstates, ProcessSpan};
use crate::sample::task::{Process, Scheduling, Thread};
use crate::units::PerSecond;

type Figure = Column<ProcessRow>;

/// One process.
pub struct ProcessRow {
    process: Arc<Process>,
    span: ProcessSpan,
}

impl ProcessRow {
    pub fn new(process: &Arc<Process>, span: ProcessSpan) -> ProcessRow {
        ProcessRow { process: Arc::clone(process), span }
    }

    /// The first thread, whose tid is the pid.
    fn main_thread(&self) -> Option<&Thread> {
        self.process.thread(self.process.pid)
    }

    fn scheduling(&self) -> Option<Scheduling> {
        self.main_thread()?.scheduling
    }

    /// Of the threads that exist at the end.
    fn switches(&self, input: &FigureInput, rate: fn(ContextSwitchRates) -> PerSecond) -> Cell {
        input.interval.context_switches.as_ref().and_then(|switches| switches.process(&self.process)).map(rate).into()
    }
}

pub static TASK_TABLE: TypedTable<ProcessRow> = TypedTable {
    name: "task",
    description: "a row per process: pidstat's columns, in nanoseconds where the kernel has them",
    columns: &[COLUMNS, STATES, COMMANDS],
    key_columns: &[&PID, &COMMAND],
    column_sets: &[],
    default_sort: &CPU_RATIO,
    pid_column: Some(&PID),
    for_each_row: |input, show| {
        let (Some(tasks), Ok(now)) = (&input.interval.tasks, &input.interval.newer.tasks) else { return };
        for (process, span) in tasks.processes_with_spans(&now.processes) {
            show(&ProcessRow::new(process, span));
        }
    },
    is_idle,
    capacity: unit_capacity,
};

columns! {
    COLUMNS: ProcessRow;

    PID = Figure::new("PID", "pid", Unit::Id, "the process", |_, row| row.process.pid.into()).heading("pid");
    PARENT_PID = Figure::new("PPID", "parent_pid", Unit::Id, "its parent",
        |_, row| row.process.ppid.into()).hidden_by_default();
    UID = Figure::new("UID", "uid", Unit::Id, "its user's number", |_, row| row.process.uid.into()).hidden_by_default();
    USER = Figure::text("User", "user", "its user's name", user_name).hidden_by_default().heading("user");
    USER_RATIO = Figure::four_digits("%usr", "user_ratio", Unit::PercentOfCpu, "on a CPU, in the program",
        |_, row| row.span.user.into());
    SYSTEM_RATIO = Figure::four_digits("%system", "system_ratio", Unit::PercentOfCpu, "on a CPU, in the kernel",
        |_, row| row.span.cpu.zip(row.span.user).map(|(cpu, user)| (cpu.0 - user.0).max(0.0)).into());
    GUEST_RATIO = Figure::four_digits("%guest", "guest_ratio", Unit::PercentOfCpu, "the part of %usr that ran guests",
        |_, row| row.span.guest.into());
    RUN_QUEUE_WAIT_RATIO = Figure::four_digits("%wait", "run_queue_wait_ratio", Unit::PercentOfCpu,
        "runnable but waiting for a CPU, its threads added up",
        |_, row| row.span.run_queue_wait.into()).heading("runq");
    CPU_RATIO = Figure::four_digits("%CPU", "cpu_ratio", Unit::PercentOfCpu,
        "on a CPU, its threads added up, ended threads included",
        |_, row| row.span.cpu.into());
    CPU_TIME_SECONDS = Figure::new("TIME+", "cpu_time_seconds", Unit::Seconds, "CPU time since its start, ended threads included",
        |input, row| input.interval.host.seconds((row.process.user_ticks.0 + row.process.system_ticks.0) as f64).into())
        .hidden_by_default().heading("time");
    ENDED_CHILDREN_RATIO = Figure::four_digits("%chld", "ended_children_ratio", Unit::PercentOfCpu,
        "CPU time of ended children and their children that it waited for, however short-lived",
        |_, row| row.span.children_cpu.into()).hidden_by_default();
    STATE = Figure::text("S", "state", "the state letter of its first thread at the end",
        |_, row| row.main_thread().map(|thread| Cell::Text(thread.state.as_char().to_string())).unwrap_or_default())
        .without_total().hidden_by_default();
    PRIORITY = Figure::new("PRI", "priority", Unit::Count, "priority of its first thread: 20 + nice; negative: a real-time policy",
        |_, row| row.scheduling().and_then(Scheduling::priority).map(f64::from).into()).hidden_by_default();
    NICE = Figure::new("NI", "nice", Unit::Count, "nice value of its first thread, −20 to 19",
        |_, row| row.scheduling().map(|scheduling| f64::from(scheduling.nice)).into()).hidden_by_default();
    LAST_CPU = Figure::new("CPU", "last_cpu", Unit::Id, "where its first thread ran last",
        |_, row| row.main_thread().map(|thread| thread.processor).into());
    MINOR_FAULTS_PER_SECOND = Figure::four_digits("minflt/s", "minor_faults_per_second", Unit::PerSecond,
        "minor page faults: without I/O",
        |_, row| row.span.minor_faults.into());
    MAJOR_FAULTS_PER_SECOND = Figure::four_digits("majflt/s", "major_faults_per_second", Unit::PerSecond,
        "major page faults: from storage",
        |_, row| row.span.major_faults.into());
    RESIDENT_BYTES = Figure::new("RSS", "resident_bytes", Unit::Kilobytes, "resident memory",
        |input, row| row.span.resident_pages.saturating_mul(input.interval.host.page_size).into()).heading("memory");
    RESIDENT_GROWTH_BYTES_PER_SECOND = Figure::four_digits("RGROW/s", "resident_growth_bytes_per_second",
        Unit::KilobytesPerSecond, "growth of its resident memory; negative: it shrank",
        |input, row| row.span.resident_pages_growth.map(|pages| pages.0 * input.interval.host.page_size as f64).into())
        .hidden_by_default().heading("growth/s");
    SHARED_BYTES = Figure::new("SHR", "shared_bytes", Unit::Kilobytes,
        "the part of its resident memory that is mapped from files or shared (statm), at most about 10 s old",
        |input, row| row.process.shared_pages.map(|pages| pages.saturating_mul(input.interval.host.page_size)).into())
        .hidden_by_default();
    VIRTUAL_BYTES = Figure::new("VIRT", "virtual_bytes", Unit::Kilobytes, "its address space (stat vsize)",
        |_, row| row.process.virtual_bytes.into()).hidden_by_default();
    VIRTUAL_GROWTH_BYTES_PER_SECOND = Figure::four_digits("VGROW/s", "virtual_growth_bytes_per_second",
        Unit::KilobytesPerSecond, "growth of its address space; negative: it shrank",
        |_, row| row.span.virtual_bytes_growth.into()).hidden_by_default();
    READ_BYTES_PER_SECOND = Figure::four_digits("kB_rd/s", "read_bytes_per_second", Unit::KilobytesPerSecond,
        "read from storage",
        |_, row| row.span.read_bytes.into()).heading("read/s");
    WRITE_BYTES_PER_SECOND = Figure::four_digits("kB_wr/s", "write_bytes_per_second", Unit::KilobytesPerSecond,
        "written to storage, now or by writeback",
        |_, row| row.span.write_bytes.into()).heading("write/s");
    READ_TOTAL_BYTES = Figure::new("kB_rd", "read_total_bytes", Unit::Kilobytes, "read from storage since its start",
        |_, row| row.process.io.ok().map(|io| io.read_bytes.0).into()).hidden_by_default().heading("read all");
    WRITE_TOTAL_BYTES = Figure::new("kB_wr", "write_total_bytes", Unit::Kilobytes, "written to storage since its start",
        |_, row| row.process.io.ok().map(|io| io.write_bytes.0).into()).hidden_by_default().heading("write all");
    BLOCK_IO_DELAY_RATIO = Figure::four_digits("iodelay", "block_io_delay_ratio", Unit::PercentOfCpu,
        "waiting for block I/O, its threads added up; kernel.task_delayacct",
        |_, row| row.span.block_io_delay.into());
    VOLUNTARY_SWITCHES_PER_SECOND = Figure::four_digits("cswch/s", "voluntary_switches_per_second", Unit::PerSecond,
        "voluntary context switches of its threads; only live",
        |input, row| row.switches(input, |rates| rates.voluntary)).expensive();
    INVOLUNTARY_SWITCHES_PER_SECOND = Figure::four_digits("nvcswch/s", "involuntary_switches_per_second", Unit::PerSecond,
        "involuntary context switches of its threads; only live",
        |input, row| row.switches(input, |rates| rates.involuntary)).expensive();
    SWITCHES_PER_SECOND = Figure::four_digits("switch/s", "switches_per_second", Unit::PerSecond,
        "times its threads were scheduled on a CPU",
        |_, row| row.span.timeslices.into());
    THREADS = Figure::new("threads", "threads", Unit::Count, "at the end", |_, row| row.span.threads.into()).heading("thr");
}

columns! {
    /// Where the time of its threads went.
    STATES: ProcessRow;

    DISK_RATIO = Figure::sampled_share("%disk", "disk_ratio", "its threads in waits for storage",
        |_, row| state_share(row, |states| states.disk)).heading("disk");
    LOCK_RATIO = Figure::sampled_share("%lock", "lock_ratio", "its threads in waits for locks",
        |_, row| state_share(row, |states| states.lock)).heading("lock");
    OTHER_BLOCKED_RATIO = Figure::sampled_share("%otherD", "other_blocked_ratio", "its threads in D for other reasons",
        |_, row| state_share(row, |states| states.other_blocked));
}

columns! {
    COMMANDS: ProcessRow;

    COMMAND = Figure::text("Command", "command", "its name", |_, row| (&row.process.comm).into()).heading("command");
    COMMAND_LINE = Figure::text("Cmdline", "command_line", "its command line, arguments separated by blanks",
        command_line).hidden_by_default();
}

fn user_name(input: &FigureInput, row: &ProcessRow) -> Cell {
    let tasks = input.interval.newer.tasks.as_ref().ok();
    tasks.and_then(|tasks| tasks.users.get(&row.process.uid)).into()
}

/// Its arguments with blanks between them.
fn command_line(_: &FigureInput, row: &ProcessRow) -> Cell {
    row.process.facts.cmdline.as_ref().map_or(Cell::Unknown, |line| {
        let text = String::from_utf8_lossy(line.as_bytes());
        Cell::Text(text.trim_end_matches('\0').replace('\0', " "))
    })
}

/// Of a process of which nothing is known, no state is.
fn state_share(row: &ProcessRow, of: fn(&Microstates) -> f64) -> Cell {
    row.span.cpu.map(|_| of(&row.span.states)).into()
}

/// Whether it was idle: it did not run, was not runnable and is not blocked.
fn is_idle(row: &ProcessRow) -> bool {
    let span = &row.span;
    let none = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
    none(span.cpu.map(|share| share.0))
        && none(span.run_queue_wait.map(|share| share.0))
        && none(span.read_bytes.map(|rate| rate.0))
        && none(span.write_bytes.map(|rate| rate.0))
        && span.states.non_sleep() == 0.0
}
