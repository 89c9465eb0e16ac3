//! `cpu`, `core`: the columns of mpstat with decimals, and the share of the idle time that is really free.

use super::{Bound, Cell, Column, FigureInput, TypedTable, Unit, cpu_capacity, unit_capacity};
use crate::findings::Kind;
use crate::ids::{CpuId, TaskId};
use crate::interval::cpu::{CpuShares, CpuSpan, CpuUsage};
use crate::interval::idle_blocked::IdleBlocked;
use crate::units::Ratio;

type Figure = Column<CpuRow>;

/// All CPUs together, or one CPU.
pub struct CpuRow {
    /// `None`: all CPUs
    id: Option<CpuId>,
    shares: CpuShares,
    busy: f64,
    hidden: f64,
    /// The thread that used most of the CPU, and its share of it
    top: Option<(TaskId, Ratio)>,
}

impl CpuRow {
    /// All CPUs together.
    pub fn all_cpus(cpu: &CpuSpan) -> CpuRow {
        let hidden = cpu.hidden_cpus / cpu.cpus.len().max(1) as f64;
        CpuRow { id: None, shares: cpu.total, busy: cpu.busy(), hidden, top: None }
    }

    /// One CPU.
    pub fn core(cpu: &CpuUsage) -> CpuRow {
        CpuRow { id: Some(cpu.id), shares: cpu.shares, busy: cpu.busy(), hidden: cpu.hidden, top: cpu.top_thread }
    }
}

pub static CPU_TABLE: TypedTable<CpuRow> = TypedTable {
    name: "cpu",
    description: "the CPU time of all CPUs together: mpstat's columns with decimals, and how much of the idle time is free",
    columns: &[ALL_CPUS, MPSTAT, HEADROOM, UNACCOUNTED, ONLINE_CPUS, FREQUENCY],
    key_columns: &[],
    column_sets: &[],
    default_sort: &BUSY_RATIO,
    pid_column: None,
    for_each_row: |input, show| {
        if let Some(cpu) = &input.interval.cpu {
            show(&CpuRow::all_cpus(cpu));
        }
    },
    is_idle,
    capacity: cpu_capacity,
};

pub static CORE_TABLE: TypedTable<CpuRow> = TypedTable {
    name: "core",
    description: "a row per online CPU: mpstat -P ALL's columns with decimals; `--columns all` adds the thread that used each most",
    columns: &[CPU_NUMBER, MPSTAT, UNACCOUNTED, TOP_THREAD, FREQUENCY],
    key_columns: &[&CPU],
    column_sets: &[],
    default_sort: &BUSY_RATIO,
    pid_column: None,
    for_each_row: |input, show| {
        for cpu in input.interval.cpu.iter().flat_map(|cpu| &cpu.cpus) {
            show(&CpuRow::core(cpu));
        }
    },
    is_idle,
    capacity: unit_capacity,
};

columns! {
    ALL_CPUS: CpuRow;

    NAME = Figure::text("CPU", "name", "all CPUs together", |_, _| "all".into());
}

columns! {
    CPU_NUMBER: CpuRow;

    CPU = Figure::new("CPU", "cpu", Unit::Id, "the CPU's number", |_, row| row.id.map(|id| id.0).into());
}

columns! {
    /// mpstat's, in its order. As in /proc/stat %guest is a part of %usr and %gnice of %nice.
    MPSTAT: CpuRow;

    USER_RATIO = time_share_column("%usr", "user_ratio", "user, guests included", |_, row| row.shares.user.into());
    NICE_RATIO = time_share_column("%nice", "nice_ratio", "user of nice tasks, guests included",
        |_, row| row.shares.nice.into());
    SYSTEM_RATIO = time_share_column("%sys", "system_ratio", "kernel, without interrupts", |_, row| row.shares.system.into());
    IOWAIT_RATIO = time_share_column("%iowait", "iowait_ratio", "idle, and a task that last ran there waits for I/O",
        |_, row| row.shares.iowait.into()).heading("iowait");
    IRQ_RATIO = time_share_column("%irq", "irq_ratio", "hardware interrupts", |_, row| row.shares.irq.into());
    SOFTIRQ_RATIO = time_share_column("%soft", "softirq_ratio", "softirqs", |_, row| row.shares.softirq.into());
    STEAL_RATIO = time_share_column("%steal", "steal_ratio", "stolen: the hypervisor ran another guest",
        |_, row| row.shares.steal.into()).lower_is_better().value_of(Kind::CpuStolen).heading("%stl");
    GUEST_RATIO = time_share_column("%guest", "guest_ratio", "the part of %usr that ran guests",
        |_, row| row.shares.guest.into());
    GUEST_NICE_RATIO = time_share_column("%gnice", "guest_nice_ratio", "the part of %nice that ran guests",
        |_, row| row.shares.guest_nice.into());
    IDLE_RATIO = time_share_column("%idle", "idle_ratio", "idle, and no task that last ran there waits for I/O",
        |_, row| row.shares.idle.into());
    BUSY_RATIO = time_share_column("%busy", "busy_ratio",
        "used: user, nice, system, irq, softirq, and what the clock tick did not count",
        |_, row| row.busy.into()).value_of(Kind::SaturatedCore).heading("busy");
}

columns! {
    /// Where the kernel reports it.
    FREQUENCY: CpuRow;

    FREQUENCY_MHZ = Figure::new("MHz", "frequency_mhz", Unit::Count, "its frequency (scaling_cur_freq, or /proc/cpuinfo), of all CPUs the mean",
        frequency_mhz).hidden_by_default();
}

fn frequency_mhz(input: &FigureInput, row: &CpuRow) -> Cell {
    let known = &input.interval.newer.cpu_frequencies;
    let khz = match row.id {
        Some(id) => known
            .binary_search_by_key(&id, |frequency| frequency.cpu)
            .ok()
            .and_then(|at| known.get(at))
            .map(|of| f64::from(of.khz)),
        None => (!known.is_empty()).then(|| known.iter().map(|of| f64::from(of.khz)).sum::<f64>() / known.len() as f64),
    };
    khz.map(|khz| khz / 1000.0).into()
}

columns! {
    /// What /proc/stat does not tell.
    UNACCOUNTED: CpuRow;

    UNACCOUNTED_RATIO = time_share_column("%unacc", "unaccounted_ratio", "time missing from all fields of /proc/stat",
        |_, row| row.shares.unaccounted.into()).hidden_by_default().lower_is_better();
    HIDDEN_RATIO = time_share_column("%hidden", "hidden_ratio", "CPU time that the clock tick did not count",
        |_, row| row.hidden.into()).hidden_by_default().lower_is_better();
}

columns! {
    /// The part of the idle time that is free.
    HEADROOM: CpuRow;

    IDLE_BUT_BLOCKED_RATIO = Figure::new("%blocked", "idle_but_blocked_ratio", Unit::Percent,
        "idle while threads were blocked that would have run",
        |input, _| blocked_figure(input, |blocked| blocked.ratio, Bound::AtLeast))
        .time_share().lower_is_better().value_of(Kind::IdleButBlocked);
    FREE_RATIO = Figure::new("%free", "free_ratio", Unit::Percent, "idle and iowait without %blocked: the real headroom",
        |input, _| blocked_figure(input, |blocked| blocked.free, Bound::AtMost)).time_share().higher_is_better();
}

columns! {
    ONLINE_CPUS: CpuRow;

    CPUS = Figure::new("CPUs", "cpus", Unit::Count, "online CPUs",
        |input, _| (input.interval.online_cpus() as f64).into()).hidden_by_default();
}

columns! {
    /// The thread that used most of the CPU.
    TOP_THREAD: CpuRow;

    TOP_PID = Figure::new("topPID", "top_pid", Unit::Id, "the process of the thread that used most of it",
        |_, row| row.top.map(|(id, _)| id.pid).into()).without_total().hidden_by_default();
    TOP_TID = Figure::new("topTID", "top_tid", Unit::Id, "that thread",
        |_, row| row.top.map(|(id, _)| id.tid).into()).without_total().hidden_by_default();
    TOP_RATIO = Figure::new("%top", "top_ratio", Unit::Percent, "that thread's share of one CPU",
        |_, row| row.top.map(|(_, share)| share).into()).without_total().hidden_by_default();
    TOP_COMMAND = Figure::text("topCommand", "top_command", "that thread's name",
        top_command).without_total().hidden_by_default();
}

/// The NUMA node of a CPU; only the screens show it.
pub static NODE: Figure = Figure::new("node", "node", Unit::Id, "its NUMA node", |input, row| {
    let place = input.interval.host.topology.iter().find(|place| Some(place.cpu) == row.id);
    place.map(|place| place.node).into()
});

/// The screens' %usr: user and nice. In the lines of `load` (vmstat's `us`) it has the same key.
pub static USER_WITH_NICE_RATIO: Figure =
    time_share_column("%usr", "user_with_nice_ratio", "user and nice", |_, row| (row.shares.user + row.shares.nice).into());

/// The screens' idle: mpstat's %idle and %iowait, of which iowait is a part.
pub static IDLE_WITH_IOWAIT_RATIO: Figure =
    time_share_column("idle", "idle_with_iowait_ratio", "idle, waits for I/O included", |_, row| row.shares.available().into());

/// A figure of all CPUs. It is a bound where this user cannot see the state of every thread.
fn blocked_figure(input: &FigureInput, value: fn(&IdleBlocked) -> f64, bound: Bound) -> Cell {
    let blocked = input.interval.idle_blocked.as_ref();
    blocked.map_or(Cell::Unknown, |blocked| Cell::bounded(value(blocked), blocked.lower_bound.then_some(bound)))
}

/// A share of time.
const fn time_share_column(
    name: &'static str,
    json: &'static str,
    meaning: &'static str,
    read: fn(&FigureInput, &CpuRow) -> Cell,
) -> Figure {
    Figure::new(name, json, Unit::Percent, meaning, read).time_share()
}

/// As `mpstat | grep -v ' 100.00$'` has it.
fn is_idle(row: &CpuRow) -> bool {
    row.shares.idle >= 0.999_95 && row.hidden <= 0.0
}

fn top_command(input: &FigureInput, row: &CpuRow) -> Cell {
    let tasks = input.interval.newer.tasks.as_ref().ok();
    let thread = row.top.and_then(|(id, _)| tasks?.thread(id));
    thread.map(|(_, thread)| &thread.comm).into()
}
