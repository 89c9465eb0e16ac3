//! `thread`: the same for each thread (pidstat -t), and where it waits.

use std::sync::Arc;

use super::{Cell, Column, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::interval::context_switches::ContextSwitchRates;
use crate::interval::task::{Microstates, ThreadSpan};
use crate::sample::task::{Process, Thread};
use crate::units::{PerSecond, Ratio};

type Figure = Column<ThreadRow>;

/// One thread.
pub struct ThreadRow {
    process: Arc<Process>,
    /// Its place among the threads of the process
    thread_index: usize,
    /// `None` is one that slept all the time
    span: Option<ThreadSpan>,
}

impl ThreadRow {
    /// The thread at that place of its process.
    pub fn new(process: &Arc<Process>, at: usize, span: Option<ThreadSpan>) -> ThreadRow {
        ThreadRow { process: Arc::clone(process), thread_index: at, span }
    }

    fn thread(&self) -> Option<&Thread> {
        self.process.threads.get(self.thread_index)
    }

    fn share(&self, of: fn(&ThreadSpan) -> Option<Ratio>) -> Cell {
        self.span.as_ref().map_or(Some(Ratio(0.0)), of).into()
    }

    fn rate(&self, of: fn(&ThreadSpan) -> Option<PerSecond>) -> Cell {
        self.span.as_ref().map_or(Some(PerSecond(0.0)), of).into()
    }

    fn switches(&self, look: &FigureInput, of: fn(ContextSwitchRates) -> PerSecond) -> Cell {
        let task = self.thread().map(|thread| self.process.task_id(thread));
        look.interval.context_switches.as_ref().zip(task).and_then(|(switches, task)| switches.task(task)).map(of).into()
    }

    /// Where its CPU time is not known, no state is.
    fn state(&self, asleep: f64, of: fn(&Microstates) -> f64) -> Cell {
        self.span.as_ref().map_or(Some(asleep), |span| span.cpu.map(|_| of(&span.states))).into()
    }
}

pub static THREAD_TABLE: TypedTable<ThreadRow> = TypedTable {
    name: "thread",
    description: "a row per thread: pidstat -t's columns, and the states of its time",
    columns: &[COLUMNS],
    key_columns: &["PID", "TID", "Command"],
    column_sets: &[(
        "states",
        &["PID", "TID", "%usr", "%system", "%wait", "%disk", "%lock", "%otherD", "%sleep", "%unknown", "wchan", "Command"],
    )],
    single_row: false,
    default_sort: "%CPU",
    for_each_row: |look, show| {
        let (Some(tasks), Ok(now)) = (&look.interval.tasks, &look.interval.newer.tasks) else { return };
        for process in &now.processes {
            for (at, thread) in process.threads.iter().enumerate() {
                let span = tasks.thread(process.task_id(thread)).copied();
                show(&ThreadRow { process: Arc::clone(process), thread_index: at, span });
            }
        }
    },
    is_idle: |row| row.span.is_none_or(|span| span.states.non_sleep() == 0.0),
    capacity: unit_capacity,
};

static COLUMNS: &[&Figure] = &[
    &PID,
    &TID,
    &USER_RATIO,
    &SYSTEM_RATIO,
    &GUEST_RATIO,
    &RUN_QUEUE_WAIT_RATIO,
    &CPU_RATIO,
    &LAST_CPU,
    &MINOR_FAULTS_PER_SECOND,
    &MAJOR_FAULTS_PER_SECOND,
    &BLOCK_IO_DELAY_RATIO,
    &VOLUNTARY_SWITCHES_PER_SECOND,
    &INVOLUNTARY_SWITCHES_PER_SECOND,
    &SWITCHES_PER_SECOND,
    &RUN_QUEUE_LATENCY_SECONDS,
    &DISK_RATIO,
    &LOCK_RATIO,
    &OTHER_BLOCKED_RATIO,
    &SLEEP_RATIO,
    &UNKNOWN_RATIO,
    &STATE,
    &WAIT_CHANNEL,
    &COMMAND,
];

pub static PID: Figure = Figure::new("PID", "pid", Unit::Id, "its process", |_, row| row.process.pid.into());

pub static TID: Figure =
    Figure::new("TID", "tid", Unit::Id, "the thread", |_, row| row.thread().map(|thread| thread.tid).into());

pub static USER_RATIO: Figure =
    Figure::four_digits("%usr", "user_ratio", Unit::PercentOfCpu, "on a CPU, in the program", |_, row| {
        row.state(0.0, |states| states.user)
    });

pub static SYSTEM_RATIO: Figure =
    Figure::four_digits("%system", "system_ratio", Unit::PercentOfCpu, "on a CPU, in the kernel", |_, row| {
        row.state(0.0, |states| states.system)
    });

pub static GUEST_RATIO: Figure =
    Figure::four_digits("%guest", "guest_ratio", Unit::PercentOfCpu, "the part of %usr that ran guests", |_, row| {
        row.share(|span| span.guest)
    });

pub static RUN_QUEUE_WAIT_RATIO: Figure =
    Figure::four_digits("%wait", "run_queue_wait_ratio", Unit::PercentOfCpu, "runnable but waiting for a CPU", |_, row| {
        row.share(|span| span.run_queue_wait)
    });

pub static CPU_RATIO: Figure =
    Figure::four_digits("%CPU", "cpu_ratio", Unit::PercentOfCpu, "on a CPU", |_, row| row.share(|span| span.cpu));

pub static LAST_CPU: Figure =
    Figure::new("CPU", "last_cpu", Unit::Id, "where it ran last", |_, row| row.thread().map(|thread| thread.processor).into());

pub static MINOR_FAULTS_PER_SECOND: Figure =
    Figure::four_digits("minflt/s", "minor_faults_per_second", Unit::PerSecond, "minor page faults: without I/O", |_, row| {
        row.rate(|span| span.minor_faults)
    });

pub static MAJOR_FAULTS_PER_SECOND: Figure =
    Figure::four_digits("majflt/s", "major_faults_per_second", Unit::PerSecond, "major page faults: from storage", |_, row| {
        row.rate(|span| span.major_faults)
    });

pub static BLOCK_IO_DELAY_RATIO: Figure = Figure::four_digits(
    "iodelay",
    "block_io_delay_ratio",
    Unit::PercentOfCpu,
    "waiting for block I/O; kernel.task_delayacct",
    |look, row| match look.interval.host.privilege.delay_accounting {
        Ok(true) => row.share(|span| span.block_io_delay),
        _ => Cell::Unknown,
    },
);

pub static VOLUNTARY_SWITCHES_PER_SECOND: Figure = Figure::four_digits(
    "cswch/s",
    "voluntary_switches_per_second",
    Unit::PerSecond,
    "voluntary context switches; only live",
    |look, row| row.switches(look, |rates| rates.voluntary),
)
.expensive();

pub static INVOLUNTARY_SWITCHES_PER_SECOND: Figure = Figure::four_digits(
    "nvcswch/s",
    "involuntary_switches_per_second",
    Unit::PerSecond,
    "involuntary context switches; only live",
    |look, row| row.switches(look, |rates| rates.involuntary),
)
.expensive();

pub static SWITCHES_PER_SECOND: Figure =
    Figure::four_digits("switch/s", "switches_per_second", Unit::PerSecond, "times it was scheduled on a CPU", |_, row| {
        row.rate(|span| span.timeslices)
    });

pub static RUN_QUEUE_LATENCY_SECONDS: Figure =
    Figure::new("runlat", "run_queue_latency_seconds", Unit::Milliseconds, "mean wait for a CPU", |_, row| {
        row.span.and_then(|span| span.run_queue_latency_ms).map(|ms| ms / 1000.0).into()
    })
    .precision(Precision::FourSignificant);

pub static DISK_RATIO: Figure =
    Figure::sampled_share("%disk", "disk_ratio", "waiting for storage", |_, row| row.state(0.0, |states| states.disk));

pub static LOCK_RATIO: Figure =
    Figure::sampled_share("%lock", "lock_ratio", "waiting for a lock", |_, row| row.state(0.0, |states| states.lock));

pub static OTHER_BLOCKED_RATIO: Figure =
    Figure::sampled_share("%otherD", "other_blocked_ratio", "in D for another reason", |_, row| {
        row.state(0.0, |states| states.other_blocked)
    });

pub static SLEEP_RATIO: Figure = Figure::sampled_share("%sleep", "sleep_ratio", "sleeping until there is work", |_, row| {
    row.state(1.0, |states| states.sleep)
});

pub static UNKNOWN_RATIO: Figure = Figure::sampled_share("%unknown", "unknown_ratio", "not known", |_, row| {
    row.span.map_or(0.0, |span| span.states.unknown).into()
});

pub static STATE: Figure = Figure::text("S", "state", "its state letter at the end", |_, row| {
    row.thread().map(|thread| Cell::Text(thread.state.as_char().to_string())).unwrap_or_default()
})
.without_total()
.hidden_by_default();

pub static WAIT_CHANNEL: Figure =
    Figure::text("wchan", "wait_channel", "the kernel function it slept in at the end", |_, row| {
        row.thread().and_then(|thread| thread.wait.wchan.as_ref().ok()).into()
    })
    .without_total()
    .hidden_by_default();

pub static COMMAND: Figure =
    Figure::text("Command", "command", "its name", |_, row| row.thread().map(|thread| &thread.comm).into());
