//! `load`: the load averages with what they are made of now; and vmstat's whole line.

use super::column::{Column, Digits, Unit};
use super::{Bound, Cell, Look, Typed, of_box};
use crate::interval::Interval;
use crate::interval::cpu::{CpuShares, CpuSpan};
use crate::interval::memory::MemorySpan;
use crate::interval::task::TaskCounts;
use crate::units::PerSecond;

type Figure = Column<Interval>;

pub(super) static LOAD: Typed<Interval> = Typed {
    name: "load",
    about: "load averages, who runs and who is stuck; --columns vmstat: vmstat's line with decimals",
    columns: &[LOAD_COLUMNS, VMSTAT],
    key: &[],
    sets: &[(
        "vmstat",
        &["r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa", "st", "gu"],
    )],
    single: true,
    measure: "load1",
    each: |look, show| show(look.interval),
    is_idle: |_| false,
    whole: of_box,
};

const LOAD_COLUMNS: &[Figure] = &[
    Figure::new("load1", "load1", Unit::Count, "load average of a minute", |_, now| {
        now.newer.load.as_ref().ok().map(|load| load.one).into()
    })
    .digits(Digits::Two),
    Figure::new("load5", "load5", Unit::Count, "of five minutes", |_, now| {
        now.newer.load.as_ref().ok().map(|load| load.five).into()
    })
    .digits(Digits::Two),
    Figure::new("load15", "load15", Unit::Count, "of fifteen minutes", |_, now| {
        now.newer.load.as_ref().ok().map(|load| load.fifteen).into()
    })
    .digits(Digits::Two),
    Figure::new("r", "procs_running", Unit::Count, "run or wait for a CPU at the end (procs_running)", |_, now| {
        now.newer.cpu.as_ref().ok().and_then(|cpu| cpu.running).into()
    }),
    Figure::new("b", "procs_blocked", Unit::Count, "wait for I/O at the end (procs_blocked)", |_, now| {
        now.newer.cpu.as_ref().ok().and_then(|cpu| cpu.blocked).into()
    }),
    Figure::new("busy", "busy_cpus", Unit::Count, "CPUs used on average", |_, now| {
        now.cpu.as_ref().map(|cpu| cpu.busy() * cpu.cpus.len() as f64).into()
    })
    .digits(Digits::Two),
    Figure::new("runq", "run_queue_wait", Unit::Count, "threads that waited for a CPU on average", |_, now| {
        now.tasks.as_ref().filter(|tasks| tasks.hidden_threads.is_none()).and_then(|tasks| tasks.run_queue_wait).into()
    })
    .digits(Digits::Two),
    Figure::new("blkd", "blocked_threads", Unit::Count, "threads stuck on storage, or behind it, on average", |_, now| {
        let bound = |lower: bool| lower.then_some(Bound::AtLeast);
        let blocked = now.idle_blocked.as_ref();
        blocked.map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.blocked_threads, bound(blocked.lower_bound)))
    })
    .digits(Digits::Two),
    Figure::new("R", "running", Unit::Count, "threads in state R at the end", |_, now| count(now, |counts| counts.running))
        .unusual(),
    Figure::new("D", "blocked", Unit::Count, "threads in state D at the end", |_, now| count(now, |counts| counts.blocked)),
    Figure::new("D-disk", "blocked_disk", Unit::Count, "of those, on storage", |_, now| {
        count(now, |counts| counts.blocked_disk)
    })
    .unusual(),
    Figure::new("D-vfork", "blocked_vfork", Unit::Count, "in vfork", |_, now| count(now, |counts| counts.blocked_vfork))
        .unusual(),
    Figure::new("D-mem", "blocked_memory", Unit::Count, "in reclaim", |_, now| count(now, |counts| counts.blocked_memory))
        .unusual(),
    Figure::new("D-frz", "blocked_frozen", Unit::Count, "frozen", |_, now| count(now, |counts| counts.blocked_frozen))
        .unusual(),
    Figure::new("D-other", "blocked_other", Unit::Count, "in anything else", |_, now| {
        count(now, |counts| counts.blocked_other)
    })
    .unusual(),
    Figure::new("lock", "lock", Unit::Count, "threads behind a lock at the end", |_, now| {
        count(now, |counts| counts.lock_wait)
    })
    .unusual(),
    Figure::new("procs", "processes", Unit::Count, "processes at the end", |_, now| count(now, |counts| counts.processes))
        .unusual(),
    Figure::new("threads", "threads", Unit::Count, "threads at the end", |_, now| count(now, |counts| counts.threads))
        .unusual(),
    Figure::new("forks/s", "forks_per_second", Unit::Rate, "processes and threads begun", |_, now| rate(now, |cpu| cpu.forks))
        .unusual(),
];

/// What vmstat has beside `r` and `b`, in its order.
const VMSTAT: &[Figure] = &[
    Figure::new("swpd", "swap_used_bytes", Unit::Kb, "swap in use", |_, now| memory(now, MemorySpan::swap_used)).unusual(),
    Figure::new("free", "free_bytes", Unit::Kb, "MemFree", |_, now| memory(now, |memory| memory.free)).unusual(),
    Figure::new("buff", "buffers_bytes", Unit::Kb, "Buffers", |_, now| memory(now, |memory| memory.buffers)).unusual(),
    Figure::new("cache", "cache_bytes", Unit::Kb, "Cached + SReclaimable", |_, now| memory(now, MemorySpan::caches)).unusual(),
    Figure::new("si", "swap_in_bytes_per_second", Unit::KbRate, "from swap", |_, now| memory(now, |memory| memory.swapped_in))
        .unusual(),
    Figure::new("so", "swap_out_bytes_per_second", Unit::KbRate, "to swap", |_, now| memory(now, |memory| memory.swapped_out))
        .unusual(),
    Figure::new("bi", "paged_in_bytes_per_second", Unit::KbRate, "from block devices", |_, now| {
        memory(now, |memory| memory.paged_in)
    })
    .unusual(),
    Figure::new("bo", "paged_out_bytes_per_second", Unit::KbRate, "to block devices", |_, now| {
        memory(now, |memory| memory.paged_out)
    })
    .unusual(),
    Figure::new("in", "interrupts_per_second", Unit::Rate, "interrupts", |_, now| rate(now, |cpu| cpu.interrupts)).unusual(),
    Figure::new("cs", "context_switches_per_second", Unit::Rate, "context switches", |_, now| {
        rate(now, |cpu| cpu.context_switches)
    })
    .unusual(),
    share("us", "user_with_nice_ratio", "user and nice", |_, now| of_total(now, |total| total.user + total.nice)),
    share("sy", "system_with_irq_ratio", "kernel, interrupts included", |_, now| {
        of_total(now, |total| total.system + total.irq + total.softirq)
    }),
    share("id", "idle_ratio", "idle", |_, now| of_total(now, |total| total.idle)),
    share("wa", "iowait_ratio", "idle, and a task that last ran there waits for I/O", |_, now| {
        of_total(now, |total| total.iowait)
    }),
    share("st", "steal_ratio", "stolen", |_, now| of_total(now, |total| total.steal)),
    share("gu", "guest_ratio", "the part of us that ran guests", |_, now| {
        of_total(now, |total| total.guest + total.guest_nice)
    }),
];

const fn share(name: &'static str, json: &'static str, meaning: &'static str, read: fn(&Look, &Interval) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, meaning, read).of_time().unusual()
}

/// That none of those which this user sees is in that state says nothing of those that are hidden.
fn count(now: &Interval, of: fn(&TaskCounts) -> u32) -> Cell {
    let told = now.tasks.as_ref().map(|tasks| (of(&tasks.counts), tasks.hidden_threads.is_some()));
    told.filter(|&(count, hidden)| count > 0 || !hidden).map(|(count, _)| count).into()
}

fn rate(now: &Interval, of: fn(&CpuSpan) -> Option<PerSecond>) -> Cell {
    now.cpu.as_ref().and_then(of).into()
}

fn of_total(now: &Interval, of: fn(&CpuShares) -> f64) -> Cell {
    now.cpu.as_ref().map(|cpu| of(&cpu.total)).into()
}

fn memory<T: Into<Cell>>(now: &Interval, of: fn(&MemorySpan) -> Option<T>) -> Cell {
    now.memory.as_ref().and_then(of).into()
}
