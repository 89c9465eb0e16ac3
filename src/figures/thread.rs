//! `thread`: the columns of `task` for each thread (pidstat -t), and where it waits.

use std::sync::Arc;

use super::{Cell, Column, ColumnSet, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::interval::context_switches::ContextSwitchRates;
use crate::interval::cpu_runs::cpu_shares;
use crate::interval::task::{Microstates, ThreadSpan};
use crate::sample::task::{Process, Scheduling, Thread};
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

    fn scheduling(&self) -> Option<Scheduling> {
        self.thread()?.scheduling
    }

    fn share(&self, of: fn(&ThreadSpan) -> Option<Ratio>) -> Cell {
        self.span.as_ref().map_or(Some(Ratio(0.0)), of).into()
    }

    fn rate(&self, of: fn(&ThreadSpan) -> Option<PerSecond>) -> Cell {
        self.span.as_ref().map_or(Some(PerSecond(0.0)), of).into()
    }

    fn switches(&self, input: &FigureInput, of: fn(ContextSwitchRates) -> PerSecond) -> Cell {
        let task = self.thread().map(|thread| self.process.task_id(thread));
        input.interval.context_switches.as_ref().zip(task).and_then(|(switches, task)| switches.task(task)).map(of).into()
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
    key_columns: &[&PID, &TID, &COMMAND],
    column_sets: &[ColumnSet { name: "states", columns: &[STATE_COLUMNS] }],
    default_sort: &CPU_RATIO,
    pid_column: Some(&PID),
    for_each_row: |input, show| {
        let (Some(tasks), Ok(now)) = (&input.interval.tasks, &input.interval.newer.tasks) else { return };
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

/// The states of its time, and the columns that distinguish threads.
static STATE_COLUMNS: &[&Figure] = &[
    &PID,
    &TID,
    &USER_RATIO,
    &SYSTEM_RATIO,
    &RUN_QUEUE_WAIT_RATIO,
    &DISK_RATIO,
    &LOCK_RATIO,
    &OTHER_BLOCKED_RATIO,
    &SLEEP_RATIO,
    &UNKNOWN_RATIO,
    &WAIT_CHANNEL,
    &COMMAND,
];

columns! {
    COLUMNS: ThreadRow;

    PID = Figure::new("PID", "pid", Unit::Id, "its process", |_, row| row.process.pid.into());
    TID = Figure::new("TID", "tid", Unit::Id, "the thread", |_, row| row.thread().map(|thread| thread.tid).into());
    USER_RATIO = Figure::four_digits("%usr", "user_ratio", Unit::PercentOfCpu, "on a CPU, in the program",
        |_, row| row.state(0.0, |states| states.user));
    SYSTEM_RATIO = Figure::four_digits("%system", "system_ratio", Unit::PercentOfCpu, "on a CPU, in the kernel",
        |_, row| row.state(0.0, |states| states.system));
    GUEST_RATIO = Figure::four_digits("%guest", "guest_ratio", Unit::PercentOfCpu, "the part of %usr that ran guests",
        |_, row| row.share(|span| span.guest));
    RUN_QUEUE_WAIT_RATIO = Figure::four_digits("%wait", "run_queue_wait_ratio", Unit::PercentOfCpu,
        "runnable but waiting for a CPU",
        |_, row| row.share(|span| span.run_queue_wait)).heading("runq%");
    CPU_RATIO = Figure::four_digits("%CPU", "cpu_ratio", Unit::PercentOfCpu, "on a CPU", |_, row| row.share(|span| span.cpu));
    CPU_TIME_SECONDS = Figure::new("TIME+", "cpu_time_seconds", Unit::Seconds, "CPU time since its start", cpu_time)
        .hidden_by_default().heading("time");
    LAST_CPU = Figure::new("CPU", "last_cpu", Unit::Id, "where it ran last",
        |_, row| row.thread().map(|thread| thread.processor).into()).heading("cpu");
    CPU_SHARES = Figure::text("CPUs", "cpu_shares", "the CPUs that it ran on, with the part of its run time, where it moved between them",
        cpu_shares_text).without_total().hidden_by_default();
    MINOR_FAULTS_PER_SECOND = Figure::four_digits("minflt/s", "minor_faults_per_second", Unit::PerSecond,
        "minor page faults: without I/O",
        |_, row| row.rate(|span| span.minor_faults));
    MAJOR_FAULTS_PER_SECOND = Figure::four_digits("majflt/s", "major_faults_per_second", Unit::PerSecond,
        "major page faults: from storage",
        |_, row| row.rate(|span| span.major_faults));
    BLOCK_IO_DELAY_RATIO = Figure::four_digits("iodelay", "block_io_delay_ratio", Unit::PercentOfCpu,
        "waiting for block I/O; kernel.task_delayacct",
        block_io_delay);
    VOLUNTARY_SWITCHES_PER_SECOND = Figure::four_digits("cswch/s", "voluntary_switches_per_second", Unit::PerSecond,
        "voluntary context switches; only live",
        |input, row| row.switches(input, |rates| rates.voluntary)).expensive();
    INVOLUNTARY_SWITCHES_PER_SECOND = Figure::four_digits("nvcswch/s", "involuntary_switches_per_second", Unit::PerSecond,
        "involuntary context switches; only live",
        |input, row| row.switches(input, |rates| rates.involuntary)).expensive();
    SWITCHES_PER_SECOND = Figure::four_digits("switch/s", "switches_per_second", Unit::PerSecond,
        "times it was scheduled on a CPU",
        |_, row| row.rate(|span| span.timeslices)).heading("slices/s");
    RUN_QUEUE_LATENCY_SECONDS = Figure::new("runlat", "run_queue_latency_seconds", Unit::Milliseconds, "mean wait for a CPU",
        |_, row| row.span.and_then(|span| span.run_queue_latency_ms).map(|ms| ms / 1000.0).into())
        .precision(Precision::FourSignificant);
    DISK_RATIO = Figure::sampled_share("%disk", "disk_ratio", "waiting for storage",
        |_, row| row.state(0.0, |states| states.disk));
    LOCK_RATIO = Figure::sampled_share("%lock", "lock_ratio", "waiting for a lock",
        |_, row| row.state(0.0, |states| states.lock));
    OTHER_BLOCKED_RATIO = Figure::sampled_share("%otherD", "other_blocked_ratio", "in D for another reason",
        |_, row| row.state(0.0, |states| states.other_blocked));
    SLEEP_RATIO = Figure::sampled_share("%sleep", "sleep_ratio", "asleep (state S) in any other wait",
        |_, row| row.state(1.0, |states| states.sleep));
    UNKNOWN_RATIO = Figure::sampled_share("%unknown", "unknown_ratio", "not known",
        |_, row| row.span.map_or(0.0, |span| span.states.unknown).into());
    PRIORITY = Figure::new("PRI", "priority", Unit::Count, "20 + nice; negative: a real-time policy",
        |_, row| row.scheduling().and_then(Scheduling::priority).map(f64::from).into()).hidden_by_default();
    NICE = Figure::new("NI", "nice", Unit::Count, "nice value, −20 to 19",
        |_, row| row.scheduling().map(|scheduling| f64::from(scheduling.nice)).into()).hidden_by_default();
    STATE = Figure::text("S", "state", "its state letter at the end",
        |_, row| row.thread().map(|thread| Cell::Text(thread.state.as_char().to_string())).unwrap_or_default())
        .without_total().hidden_by_default();
    WAIT_CHANNEL = Figure::text("wchan", "wait_channel", "the kernel function it slept in at the end",
        |_, row| row.thread().and_then(|thread| thread.wait.wchan.as_ref().ok()).into()).without_total().hidden_by_default();
    COMMAND = Figure::text("Command", "command", "its name", |_, row| row.thread().map(|thread| &thread.comm).into());
}

/// `0:52% 1:48%`
fn cpu_shares_text(input: &FigureInput, row: &ThreadRow) -> Cell {
    let Some(thread) = row.thread() else { return Cell::Unknown };
    let shares = cpu_shares(input.interval, row.process.task_id(thread));
    let words: Vec<String> = shares.iter().map(|(cpu, share)| format!("{}:{:.0}%", cpu.0, share.percent())).collect();
    if words.is_empty() { Cell::Unknown } else { Cell::Text(words.join(" ")) }
}

fn cpu_time(input: &FigureInput, row: &ThreadRow) -> Cell {
    row.thread().map(|thread| input.interval.host.seconds((thread.user_ticks.0 + thread.system_ticks.0) as f64)).into()
}

/// The kernel counts it while kernel.task_delayacct is on.
fn block_io_delay(input: &FigureInput, row: &ThreadRow) -> Cell {
    match input.interval.host.privilege.delay_accounting {
        Ok(true) => row.share(|span| span.block_io_delay),
        _ => Cell::Unknown,
    }
}
