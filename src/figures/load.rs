//! `load`: the load averages with what they are made of now; and vmstat's whole line.

use super::{Bound, Cell, Column, FigureInput, Precision, TypedTable, Unit, cpu_capacity};
use crate::interval::Interval;
use crate::interval::cpu::{CpuShares, CpuSpan};
use crate::interval::memory::MemorySpan;
use crate::interval::task::TaskCounts;
use crate::units::PerSecond;

type Figure = Column<Interval>;

pub static LOAD_TABLE: TypedTable<Interval> = TypedTable {
    name: "load",
    description: "load averages, running and blocked threads; --columns vmstat: vmstat's line with decimals",
    columns: &[LOAD_COLUMNS, VMSTAT],
    key_columns: &[],
    column_sets: &[(
        "vmstat",
        &["r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa", "st", "gu"],
    )],
    single_row: true,
    default_sort: "load1",
    for_each_row: |look, show| show(look.interval),
    is_idle: |_| false,
    capacity: cpu_capacity,
};

static LOAD_COLUMNS: &[&Figure] = &[
    &LOAD1,
    &LOAD5,
    &LOAD15,
    &PROCS_RUNNING,
    &PROCS_BLOCKED,
    &BUSY_CPUS,
    &RUN_QUEUE_WAIT,
    &BLOCKED_THREADS,
    &RUNNING,
    &BLOCKED,
    &BLOCKED_DISK,
    &BLOCKED_VFORK,
    &BLOCKED_MEMORY,
    &BLOCKED_FROZEN,
    &BLOCKED_OTHER,
    &LOCK,
    &PROCESSES,
    &THREADS,
    &FORKS_PER_SECOND,
];

/// What vmstat has beside `r` and `b`, in its order.
static VMSTAT: &[&Figure] = &[
    &SWAP_USED_BYTES,
    &FREE_BYTES,
    &BUFFERS_BYTES,
    &CACHE_BYTES,
    &SWAP_IN_BYTES_PER_SECOND,
    &SWAP_OUT_BYTES_PER_SECOND,
    &PAGED_IN_BYTES_PER_SECOND,
    &PAGED_OUT_BYTES_PER_SECOND,
    &INTERRUPTS_PER_SECOND,
    &CONTEXT_SWITCHES_PER_SECOND,
    &USER_WITH_NICE_RATIO,
    &SYSTEM_WITH_IRQ_RATIO,
    &IDLE_RATIO,
    &IOWAIT_RATIO,
    &STEAL_RATIO,
    &GUEST_RATIO,
];

pub static LOAD1: Figure = Figure::new("load1", "load1", Unit::Count, "load average of a minute", |_, now| {
    now.newer.load.as_ref().ok().map(|load| load.one).into()
})
.precision(Precision::TwoDecimals);

pub static LOAD5: Figure = Figure::new("load5", "load5", Unit::Count, "of five minutes", |_, now| {
    now.newer.load.as_ref().ok().map(|load| load.five).into()
})
.precision(Precision::TwoDecimals);

pub static LOAD15: Figure = Figure::new("load15", "load15", Unit::Count, "of fifteen minutes", |_, now| {
    now.newer.load.as_ref().ok().map(|load| load.fifteen).into()
})
.precision(Precision::TwoDecimals);

pub static PROCS_RUNNING: Figure =
    Figure::new("r", "procs_running", Unit::Count, "running or waiting for a CPU at the end (procs_running)", |_, now| {
        now.newer.cpu.as_ref().ok().and_then(|cpu| cpu.running).into()
    });

pub static PROCS_BLOCKED: Figure =
    Figure::new("b", "procs_blocked", Unit::Count, "waiting for I/O at the end (procs_blocked)", |_, now| {
        now.newer.cpu.as_ref().ok().and_then(|cpu| cpu.blocked).into()
    })
    .lower_is_better();

pub static BUSY_CPUS: Figure = Figure::new("busy", "busy_cpus", Unit::Count, "CPUs used on average", |_, now| {
    now.cpu.as_ref().map(|cpu| cpu.busy() * cpu.cpus.len() as f64).into()
})
.precision(Precision::TwoDecimals);

pub static RUN_QUEUE_WAIT: Figure =
    Figure::new("runq", "run_queue_wait", Unit::Count, "threads that waited for a CPU on average", |_, now| {
        now.tasks.as_ref().filter(|tasks| tasks.hidden_threads.is_none()).and_then(|tasks| tasks.run_queue_wait).into()
    })
    .precision(Precision::TwoDecimals)
    .lower_is_better();

pub static BLOCKED_THREADS: Figure =
    Figure::new("blkd", "blocked_threads", Unit::Count, "threads blocked on storage, or behind it, on average", |_, now| {
        let bound = |lower: bool| lower.then_some(Bound::AtLeast);
        let blocked = now.idle_blocked.as_ref();
        blocked.map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.blocked_threads, bound(blocked.lower_bound)))
    })
    .precision(Precision::TwoDecimals)
    .lower_is_better();

pub static RUNNING: Figure = Figure::new("R", "running", Unit::Count, "threads in state R at the end", |_, now| {
    task_count(now, |counts| counts.running)
})
.hidden_by_default();

pub static BLOCKED: Figure = Figure::new("D", "blocked", Unit::Count, "threads in state D at the end", |_, now| {
    task_count(now, |counts| counts.blocked)
})
.lower_is_better();

pub static BLOCKED_DISK: Figure = Figure::new("D-disk", "blocked_disk", Unit::Count, "of those, on storage", |_, now| {
    task_count(now, |counts| counts.blocked_disk)
})
.hidden_by_default()
.lower_is_better();

pub static BLOCKED_VFORK: Figure =
    Figure::new("D-vfork", "blocked_vfork", Unit::Count, "in vfork", |_, now| task_count(now, |counts| counts.blocked_vfork))
        .hidden_by_default();

pub static BLOCKED_MEMORY: Figure =
    Figure::new("D-mem", "blocked_memory", Unit::Count, "in reclaim", |_, now| task_count(now, |counts| counts.blocked_memory))
        .hidden_by_default();

pub static BLOCKED_FROZEN: Figure =
    Figure::new("D-frz", "blocked_frozen", Unit::Count, "frozen", |_, now| task_count(now, |counts| counts.blocked_frozen))
        .hidden_by_default();

pub static BLOCKED_OTHER: Figure = Figure::new("D-other", "blocked_other", Unit::Count, "in anything else", |_, now| {
    task_count(now, |counts| counts.blocked_other)
})
.hidden_by_default();

pub static LOCK: Figure = Figure::new("lock", "lock", Unit::Count, "threads behind a lock at the end", |_, now| {
    task_count(now, |counts| counts.lock_wait)
})
.hidden_by_default();

pub static PROCESSES: Figure =
    Figure::new("procs", "processes", Unit::Count, "processes at the end", |_, now| task_count(now, |counts| counts.processes))
        .hidden_by_default();

pub static THREADS: Figure =
    Figure::new("threads", "threads", Unit::Count, "threads at the end", |_, now| task_count(now, |counts| counts.threads))
        .hidden_by_default();

pub static FORKS_PER_SECOND: Figure =
    Figure::new("forks/s", "forks_per_second", Unit::PerSecond, "processes and threads created", |_, now| {
        cpu_event_rate(now, |cpu| cpu.forks)
    })
    .hidden_by_default();

pub static SWAP_USED_BYTES: Figure =
    Figure::new("swpd", "swap_used_bytes", Unit::Kilobytes, "swap in use", |_, now| memory_figure(now, MemorySpan::swap_used))
        .hidden_by_default();

pub static FREE_BYTES: Figure =
    Figure::new("free", "free_bytes", Unit::Kilobytes, "MemFree", |_, now| memory_figure(now, |memory| memory.free))
        .hidden_by_default();

pub static BUFFERS_BYTES: Figure =
    Figure::new("buff", "buffers_bytes", Unit::Kilobytes, "Buffers", |_, now| memory_figure(now, |memory| memory.buffers))
        .hidden_by_default();

pub static CACHE_BYTES: Figure = Figure::new("cache", "cache_bytes", Unit::Kilobytes, "Cached + SReclaimable", |_, now| {
    memory_figure(now, MemorySpan::caches)
})
.hidden_by_default();

pub static SWAP_IN_BYTES_PER_SECOND: Figure =
    Figure::new("si", "swap_in_bytes_per_second", Unit::KilobytesPerSecond, "from swap", |_, now| {
        memory_figure(now, |memory| memory.swapped_in)
    })
    .hidden_by_default();

pub static SWAP_OUT_BYTES_PER_SECOND: Figure =
    Figure::new("so", "swap_out_bytes_per_second", Unit::KilobytesPerSecond, "to swap", |_, now| {
        memory_figure(now, |memory| memory.swapped_out)
    })
    .hidden_by_default();

pub static PAGED_IN_BYTES_PER_SECOND: Figure =
    Figure::new("bi", "paged_in_bytes_per_second", Unit::KilobytesPerSecond, "from block devices", |_, now| {
        memory_figure(now, |memory| memory.paged_in)
    })
    .hidden_by_default();

pub static PAGED_OUT_BYTES_PER_SECOND: Figure =
    Figure::new("bo", "paged_out_bytes_per_second", Unit::KilobytesPerSecond, "to block devices", |_, now| {
        memory_figure(now, |memory| memory.paged_out)
    })
    .hidden_by_default();

pub static INTERRUPTS_PER_SECOND: Figure =
    Figure::new("in", "interrupts_per_second", Unit::PerSecond, "interrupts", |_, now| {
        cpu_event_rate(now, |cpu| cpu.interrupts)
    })
    .hidden_by_default();

pub static CONTEXT_SWITCHES_PER_SECOND: Figure =
    Figure::new("cs", "context_switches_per_second", Unit::PerSecond, "context switches", |_, now| {
        cpu_event_rate(now, |cpu| cpu.context_switches)
    })
    .hidden_by_default();

pub static USER_WITH_NICE_RATIO: Figure =
    time_share_column("us", "user_with_nice_ratio", "user and nice", |_, now| cpu_share(now, |total| total.user + total.nice));

pub static SYSTEM_WITH_IRQ_RATIO: Figure =
    time_share_column("sy", "system_with_irq_ratio", "kernel, interrupts included", |_, now| {
        cpu_share(now, |total| total.system + total.irq + total.softirq)
    });

pub static IDLE_RATIO: Figure = time_share_column("id", "idle_ratio", "idle", |_, now| cpu_share(now, |total| total.idle));

pub static IOWAIT_RATIO: Figure =
    time_share_column("wa", "iowait_ratio", "idle, and a task that last ran there waits for I/O", |_, now| {
        cpu_share(now, |total| total.iowait)
    });

pub static STEAL_RATIO: Figure = time_share_column("st", "steal_ratio", "stolen", |_, now| cpu_share(now, |total| total.steal));

pub static GUEST_RATIO: Figure = time_share_column("gu", "guest_ratio", "the part of us that ran guests", |_, now| {
    cpu_share(now, |total| total.guest + total.guest_nice)
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
fn task_count(now: &Interval, of: fn(&TaskCounts) -> u32) -> Cell {
    let told = now.tasks.as_ref().map(|tasks| (of(&tasks.counts), tasks.hidden_threads.is_some()));
    told.filter(|&(count, hidden)| count > 0 || !hidden).map(|(count, _)| count).into()
}

fn cpu_event_rate(now: &Interval, of: fn(&CpuSpan) -> Option<PerSecond>) -> Cell {
    now.cpu.as_ref().and_then(of).into()
}

fn cpu_share(now: &Interval, of: fn(&CpuShares) -> f64) -> Cell {
    now.cpu.as_ref().map(|cpu| of(&cpu.total)).into()
}

fn memory_figure<T: Into<Cell>>(now: &Interval, of: fn(&MemorySpan) -> Option<T>) -> Cell {
    now.memory.as_ref().and_then(of).into()
}
