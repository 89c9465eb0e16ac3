//! `load`: the load averages beside the tasks that count in them now, and all columns of vmstat.

use super::{Bound, Cell, Column, ColumnSet, FigureInput, Precision, TypedTable, Unit, cpu_capacity};
use crate::findings::Kind;
use crate::interval::Interval;
use crate::interval::cpu::{CpuShares, CpuSpan, CpuUsage};
use crate::interval::memory::MemorySpan;
use crate::interval::task::TaskCounts;
use crate::units::PerSecond;

type Figure = Column<Interval>;

pub static LOAD_TABLE: TypedTable<Interval> = TypedTable {
    name: "load",
    description: "load averages, running and blocked threads; --columns vmstat: vmstat's line with decimals",
    columns: &[LOAD_COLUMNS, VMSTAT],
    key_columns: &[],
    column_sets: &[ColumnSet { name: "vmstat", columns: &[&[&PROCS_RUNNING, &PROCS_BLOCKED], VMSTAT] }],
    default_sort: &LOAD1,
    pid_column: None,
    for_each_row: |input, show| show(input.interval),
    is_idle: |_| false,
    capacity: cpu_capacity,
};

columns! {
    LOAD_COLUMNS: Interval;

    LOAD1 = Figure::new("load1", "load1", Unit::Count, "load average of a minute",
        |_, interval| interval.newer.load.as_ref().ok().map(|load| load.one).into())
        .precision(Precision::TwoDecimals).value_of(Kind::LoadNotCpu);
    LOAD5 = Figure::new("load5", "load5", Unit::Count, "of five minutes",
        |_, interval| interval.newer.load.as_ref().ok().map(|load| load.five).into()).precision(Precision::TwoDecimals);
    LOAD15 = Figure::new("load15", "load15", Unit::Count, "of fifteen minutes",
        |_, interval| interval.newer.load.as_ref().ok().map(|load| load.fifteen).into()).precision(Precision::TwoDecimals);
    PROCS_RUNNING = Figure::new("r", "procs_running", Unit::Count, "running or waiting for a CPU at the end (procs_running)",
        |_, interval| interval.newer.cpu.as_ref().ok().and_then(|cpu| cpu.running).into());
    PROCS_BLOCKED = Figure::new("b", "procs_blocked", Unit::Count, "waiting for I/O at the end (procs_blocked)",
        |_, interval| interval.newer.cpu.as_ref().ok().and_then(|cpu| cpu.blocked).into()).lower_is_better();
    BUSY_CPUS = Figure::new("busy", "busy_cpus", Unit::Count, "CPUs used on average",
        |_, interval| interval.cpu.as_ref().map(|cpu| cpu.busy() * cpu.cpus.len() as f64).into())
        .precision(Precision::TwoDecimals);
    RUN_QUEUE_WAIT = Figure::new("runq", "run_queue_wait", Unit::Count, "threads that waited for a CPU on average",
        run_queue_wait).precision(Precision::TwoDecimals).lower_is_better();
    BLOCKED_THREADS = Figure::new("blkd", "blocked_threads", Unit::Count,
        "threads blocked on storage, or behind it, on average",
        blocked_threads).precision(Precision::TwoDecimals).lower_is_better();
    RUNNING = Figure::new("R", "running", Unit::Count, "threads in state R at the end",
        |_, interval| task_count(interval, |counts| counts.running)).hidden_by_default();
    BLOCKED = Figure::new("D", "blocked", Unit::Count, "threads in state D at the end",
        |_, interval| task_count(interval, |counts| counts.blocked)).lower_is_better();
    BLOCKED_DISK = Figure::new("D-disk", "blocked_disk", Unit::Count, "of those, on storage",
        |_, interval| task_count(interval, |counts| counts.blocked_disk)).hidden_by_default().lower_is_better();
    BLOCKED_VFORK = Figure::new("D-vfork", "blocked_vfork", Unit::Count, "in vfork",
        |_, interval| task_count(interval, |counts| counts.blocked_vfork)).hidden_by_default();
    BLOCKED_MEMORY = Figure::new("D-mem", "blocked_memory", Unit::Count, "in reclaim",
        |_, interval| task_count(interval, |counts| counts.blocked_memory)).hidden_by_default();
    BLOCKED_FROZEN = Figure::new("D-frz", "blocked_frozen", Unit::Count, "frozen",
        |_, interval| task_count(interval, |counts| counts.blocked_frozen)).hidden_by_default();
    BLOCKED_OTHER = Figure::new("D-other", "blocked_other", Unit::Count, "in anything else",
        |_, interval| task_count(interval, |counts| counts.blocked_other)).hidden_by_default();
    BLOCKED_LOCK = Figure::new("D-lock", "blocked_lock", Unit::Count, "part of that: for a lock inside the kernel",
        |_, interval| task_count(interval, |counts| counts.blocked_lock)).hidden_by_default();
    LOCK = Figure::new("lock", "lock", Unit::Count, "threads behind a lock at the end",
        |_, interval| task_count(interval, |counts| counts.lock_wait)).hidden_by_default();
    PROCESSES = Figure::new("procs", "processes", Unit::Count, "processes at the end",
        |_, interval| task_count(interval, |counts| counts.processes)).hidden_by_default();
    THREADS = Figure::new("threads", "threads", Unit::Count, "threads at the end",
        |_, interval| task_count(interval, |counts| counts.threads)).hidden_by_default();
    FORKS_PER_SECOND = Figure::new("forks/s", "forks_per_second", Unit::PerSecond, "processes and threads created",
        |_, interval| cpu_event_rate(interval, |cpu| cpu.forks)).hidden_by_default();
}

columns! {
    /// What vmstat has beside `r` and `b`, in its order.
    VMSTAT: Interval;

    SWAP_USED_BYTES = Figure::new("swpd", "swap_used_bytes", Unit::Kilobytes, "swap in use",
        |_, interval| memory_figure(interval, MemorySpan::swap_used)).hidden_by_default();
    FREE_BYTES = Figure::new("free", "free_bytes", Unit::Kilobytes, "MemFree",
        |_, interval| memory_figure(interval, |memory| memory.free)).hidden_by_default();
    BUFFERS_BYTES = Figure::new("buff", "buffers_bytes", Unit::Kilobytes, "Buffers",
        |_, interval| memory_figure(interval, |memory| memory.buffers)).hidden_by_default();
    CACHE_BYTES = Figure::new("cache", "cache_bytes", Unit::Kilobytes, "Cached + SReclaimable",
        |_, interval| memory_figure(interval, MemorySpan::caches)).hidden_by_default();
    SWAP_IN_BYTES_PER_SECOND = Figure::new("si", "swap_in_bytes_per_second", Unit::KilobytesPerSecond, "swapped in",
        |_, interval| memory_figure(interval, |memory| memory.swapped_in)).hidden_by_default();
    SWAP_OUT_BYTES_PER_SECOND = Figure::new("so", "swap_out_bytes_per_second", Unit::KilobytesPerSecond, "swapped out",
        |_, interval| memory_figure(interval, |memory| memory.swapped_out)).hidden_by_default();
    PAGED_IN_BYTES_PER_SECOND = Figure::new("bi", "paged_in_bytes_per_second", Unit::KilobytesPerSecond, "received from block devices",
        |_, interval| memory_figure(interval, |memory| memory.paged_in)).hidden_by_default();
    PAGED_OUT_BYTES_PER_SECOND = Figure::new("bo", "paged_out_bytes_per_second", Unit::KilobytesPerSecond, "sent to block devices",
        |_, interval| memory_figure(interval, |memory| memory.paged_out)).hidden_by_default();
    INTERRUPTS_PER_SECOND = Figure::new("in", "interrupts_per_second", Unit::PerSecond, "interrupts",
        |_, interval| cpu_event_rate(interval, |cpu| cpu.interrupts)).hidden_by_default();
    CONTEXT_SWITCHES_PER_SECOND = Figure::new("cs", "context_switches_per_second", Unit::PerSecond, "context switches",
        |_, interval| cpu_event_rate(interval, |cpu| cpu.context_switches)).hidden_by_default();
    USER_WITH_NICE_RATIO = time_share_column("us", "user_with_nice_ratio", "user and nice",
        |_, interval| cpu_share(interval, |total| total.user + total.nice));
    SYSTEM_WITH_IRQ_RATIO = time_share_column("sy", "system_with_irq_ratio", "kernel, interrupts included",
        |_, interval| cpu_share(interval, |total| total.system + total.irq + total.softirq));
    IDLE_RATIO = time_share_column("id", "idle_ratio", "idle", |_, interval| cpu_share(interval, |total| total.idle));
    IOWAIT_RATIO = time_share_column("wa", "iowait_ratio", "idle, and a task that last ran there waits for I/O",
        |_, interval| cpu_share(interval, |total| total.iowait));
    STEAL_RATIO = time_share_column("st", "steal_ratio", "stolen", |_, interval| cpu_share(interval, |total| total.steal));
    GUEST_RATIO = time_share_column("gu", "guest_ratio", "the part of us that ran guests",
        |_, interval| cpu_share(interval, |total| total.guest + total.guest_nice));
}

/// Only in metrics, like the next one.
pub static BUSIEST_CPU_RATIO: Figure =
    Figure::new("maxcpu", "busiest_cpu_ratio", Unit::Percent, "use of the busiest CPU", |_, interval| {
        interval.cpu.iter().flat_map(|cpu| &cpu.cpus).map(CpuUsage::busy).max_by(f64::total_cmp).into()
    });

pub static BUSIEST_THREAD_RATIO: Figure =
    Figure::new("maxthr", "busiest_thread_ratio", Unit::PercentOfCpu, "use of a CPU by the busiest thread", |_, interval| {
        let threads = interval.tasks.iter().flat_map(|tasks| &tasks.threads);
        threads.filter_map(|thread| Some(thread.cpu?.0)).max_by(f64::total_cmp).into()
    });

const fn time_share_column(
    name: &'static str,
    json: &'static str,
    meaning: &'static str,
    read: fn(&FigureInput, &Interval) -> Cell,
) -> Figure {
    Figure::new(name, json, Unit::Percent, meaning, read).time_share().hidden_by_default()
}

/// That none of those which this user sees is in that state says nothing of those that are hidden.
fn task_count(interval: &Interval, of: fn(&TaskCounts) -> u32) -> Cell {
    let counted = interval.tasks.as_ref().map(|tasks| (of(&tasks.counts), tasks.hidden_threads.is_some()));
    counted.filter(|&(count, hidden)| count > 0 || !hidden).map(|(count, _)| count).into()
}

/// Unknown where some threads are hidden from this user.
fn run_queue_wait(_: &FigureInput, interval: &Interval) -> Cell {
    let tasks = interval.tasks.as_ref().filter(|tasks| tasks.hidden_threads.is_none());
    tasks.and_then(|tasks| tasks.run_queue_wait).into()
}

fn blocked_threads(_: &FigureInput, interval: &Interval) -> Cell {
    interval
        .idle_blocked
        .as_ref()
        .map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.blocked_threads, blocked.lower_bound.then_some(Bound::AtLeast)))
}

fn cpu_event_rate(interval: &Interval, of: fn(&CpuSpan) -> Option<PerSecond>) -> Cell {
    interval.cpu.as_ref().and_then(of).into()
}

fn cpu_share(interval: &Interval, of: fn(&CpuShares) -> f64) -> Cell {
    interval.cpu.as_ref().map(|cpu| of(&cpu.total)).into()
}

fn memory_figure<T: Into<Cell>>(interval: &Interval, of: fn(&MemorySpan) -> Option<T>) -> Cell {
    interval.memory.as_ref().and_then(of).into()
}
