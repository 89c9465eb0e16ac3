//! `task`: pidstat's and pstime's columns of each process, with four significant digits.

use std::sync::Arc;

use super::{Cell, Column, TypedTable, Unit, unit_capacity};
use crate::interval::task::{Microstates, ProcessSpan};
use crate::sample::task::Process;

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
}

pub static TASK_TABLE: TypedTable<ProcessRow> = TypedTable {
    name: "task",
    description: "a row per process: pidstat's columns, in nanoseconds where the kernel has them",
    columns: &[COLUMNS, STATES, &[&COMMAND], CMDLINE],
    key_columns: &["PID", "Command"],
    column_sets: &[],
    single_row: false,
    default_sort: "%CPU",
    for_each_row: |look, show| {
        let (Some(tasks), Ok(now)) = (&look.interval.tasks, &look.interval.newer.tasks) else { return };
        for (process, span) in tasks.processes_with_spans(&now.processes) {
            show(&ProcessRow::new(process, span));
        }
    },
    is_idle,
    capacity: unit_capacity,
};

static COLUMNS: &[&Figure] = &[
    &PID,
    &PARENT_PID,
    &UID,
    &USER,
    &USER_RATIO,
    &SYSTEM_RATIO,
    &GUEST_RATIO,
    &RUN_QUEUE_WAIT_RATIO,
    &CPU_RATIO,
    &ENDED_CHILDREN_RATIO,
    &LAST_CPU,
    &MINOR_FAULTS_PER_SECOND,
    &MAJOR_FAULTS_PER_SECOND,
    &RESIDENT_BYTES,
    &READ_BYTES_PER_SECOND,
    &WRITE_BYTES_PER_SECOND,
    &BLOCK_IO_DELAY_RATIO,
    &VOLUNTARY_SWITCHES_PER_SECOND,
    &INVOLUNTARY_SWITCHES_PER_SECOND,
    &SWITCHES_PER_SECOND,
    &THREADS,
];

static CMDLINE: &[&Figure] = &[&COMMAND_LINE];

/// Where the time of its threads went.
static STATES: &[&Figure] = &[&DISK_RATIO, &LOCK_RATIO, &OTHER_BLOCKED_RATIO];

pub static COMMAND: Figure = Figure::text("Command", "command", "its name", |_, row| (&row.process.comm).into());

pub static PID: Figure = Figure::new("PID", "pid", Unit::Id, "the process", |_, row| row.process.pid.into());

pub static PARENT_PID: Figure =
    Figure::new("PPID", "parent_pid", Unit::Id, "its parent", |_, row| row.process.ppid.into()).hidden_by_default();

pub static UID: Figure =
    Figure::new("UID", "uid", Unit::Id, "its user's number", |_, row| row.process.uid.into()).hidden_by_default();

pub static USER: Figure = Figure::text("User", "user", "its user's name", |look, row| {
    let tasks = look.interval.newer.tasks.as_ref().ok();
    tasks.and_then(|tasks| tasks.users.get(&row.process.uid)).into()
})
.hidden_by_default();

pub static USER_RATIO: Figure =
    Figure::four_digits("%usr", "user_ratio", Unit::PercentOfCpu, "on a CPU, in the program", |_, row| row.span.user.into());

pub static SYSTEM_RATIO: Figure =
    Figure::four_digits("%system", "system_ratio", Unit::PercentOfCpu, "on a CPU, in the kernel", |_, row| {
        row.span.cpu.zip(row.span.user).map(|(cpu, user)| (cpu.0 - user.0).max(0.0)).into()
    });

pub static GUEST_RATIO: Figure =
    Figure::four_digits("%guest", "guest_ratio", Unit::PercentOfCpu, "the part of %usr that ran guests", |_, row| {
        row.span.guest.into()
    });

pub static RUN_QUEUE_WAIT_RATIO: Figure = Figure::four_digits(
    "%wait",
    "run_queue_wait_ratio",
    Unit::PercentOfCpu,
    "runnable but waiting for a CPU, its threads added up",
    |_, row| row.span.run_queue_wait.into(),
);

pub static CPU_RATIO: Figure = Figure::four_digits(
    "%CPU",
    "cpu_ratio",
    Unit::PercentOfCpu,
    "on a CPU, its threads added up, ended threads included",
    |_, row| row.span.cpu.into(),
);

pub static ENDED_CHILDREN_RATIO: Figure = Figure::four_digits(
    "%chld",
    "ended_children_ratio",
    Unit::PercentOfCpu,
    "CPU time of ended children and their children that it waited for, however short-lived",
    |_, row| row.span.children_cpu.into(),
)
.hidden_by_default();

pub static LAST_CPU: Figure = Figure::new("CPU", "last_cpu", Unit::Id, "where its first thread ran last", |_, row| {
    row.process.thread(row.process.pid).map(|thread| thread.processor).into()
});

pub static MINOR_FAULTS_PER_SECOND: Figure =
    Figure::four_digits("minflt/s", "minor_faults_per_second", Unit::PerSecond, "minor page faults: without I/O", |_, row| {
        row.span.minor_faults.into()
    });

pub static MAJOR_FAULTS_PER_SECOND: Figure =
    Figure::four_digits("majflt/s", "major_faults_per_second", Unit::PerSecond, "major page faults: from storage", |_, row| {
        row.span.major_faults.into()
    });

pub static RESIDENT_BYTES: Figure = Figure::new("RSS", "resident_bytes", Unit::Kilobytes, "resident memory", |look, row| {
    row.span.resident_pages.saturating_mul(look.interval.host.page_size).into()
});

pub static READ_BYTES_PER_SECOND: Figure =
    Figure::four_digits("kB_rd/s", "read_bytes_per_second", Unit::KilobytesPerSecond, "read from storage", |_, row| {
        row.span.read_bytes.into()
    });

pub static WRITE_BYTES_PER_SECOND: Figure = Figure::four_digits(
    "kB_wr/s",
    "write_bytes_per_second",
    Unit::KilobytesPerSecond,
    "written to storage, now or by writeback",
    |_, row| row.span.write_bytes.into(),
);

pub static BLOCK_IO_DELAY_RATIO: Figure = Figure::four_digits(
    "iodelay",
    "block_io_delay_ratio",
    Unit::PercentOfCpu,
    "waiting for block I/O, its threads added up; kernel.task_delayacct",
    |_, row| row.span.block_io_delay.into(),
);

pub static VOLUNTARY_SWITCHES_PER_SECOND: Figure =
    Figure::four_digits("cswch/s", "voluntary_switches_per_second", Unit::PerSecond, VOLUNTARY_DESCRIPTION, |look, row| {
        let switches = look.interval.context_switches.as_ref();
        switches.and_then(|switches| switches.process(&row.process)).map(|rates| rates.voluntary).into()
    })
    .expensive();

pub static INVOLUNTARY_SWITCHES_PER_SECOND: Figure = Figure::four_digits(
    "nvcswch/s",
    "involuntary_switches_per_second",
    Unit::PerSecond,
    INVOLUNTARY_DESCRIPTION,
    |look, row| {
        let switches = look.interval.context_switches.as_ref();
        switches.and_then(|switches| switches.process(&row.process)).map(|rates| rates.involuntary).into()
    },
)
.expensive();

pub static SWITCHES_PER_SECOND: Figure = Figure::four_digits(
    "switch/s",
    "switches_per_second",
    Unit::PerSecond,
    "times its threads were scheduled on a CPU",
    |_, row| row.span.timeslices.into(),
);

pub static THREADS: Figure = Figure::new("threads", "threads", Unit::Count, "at the end", |_, row| row.span.threads.into());

pub static COMMAND_LINE: Figure =
    Figure::text("Cmdline", "command_line", "its command line, arguments separated by blanks", |_, row| {
        row.process.facts.cmdline.as_ref().map_or(Cell::Unknown, |line| {
            let text = String::from_utf8_lossy(line.as_bytes());
            Cell::Text(text.trim_end_matches('\0').replace('\0', " "))
        })
    })
    .hidden_by_default();

pub static DISK_RATIO: Figure = Figure::sampled_share("%disk", "disk_ratio", "its threads in waits for storage", |_, row| {
    state_share(row, |states| states.disk)
});

pub static LOCK_RATIO: Figure = Figure::sampled_share("%lock", "lock_ratio", "its threads in waits for locks", |_, row| {
    state_share(row, |states| states.lock)
});

pub static OTHER_BLOCKED_RATIO: Figure =
    Figure::sampled_share("%otherD", "other_blocked_ratio", "its threads in D for other reasons", |_, row| {
        state_share(row, |states| states.other_blocked)
    });

/// Of the threads that there are at the end.
const VOLUNTARY_DESCRIPTION: &str = "voluntary context switches of its threads; only live";
const INVOLUNTARY_DESCRIPTION: &str = "involuntary context switches of its threads; only live";

/// Of a process of which nothing is known, no state is.
fn state_share(row: &ProcessRow, of: fn(&Microstates) -> f64) -> Cell {
    row.span.cpu.map(|_| of(&row.span.states)).into()
}

/// It did not run, did not want to, and is not stuck.
fn is_idle(row: &ProcessRow) -> bool {
    let span = &row.span;
    let none = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
    none(span.cpu.map(|share| share.0))
        && none(span.run_queue_wait.map(|share| share.0))
        && none(span.read_bytes.map(|rate| rate.0))
        && none(span.write_bytes.map(|rate| rate.0))
        && span.states.non_sleep() == 0.0
}
