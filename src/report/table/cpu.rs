//! `cpu`, `core`: mpstat's columns with decimals, and what of the idle time is really free.

use super::column::{Column, Unit};
use super::{Bound, Cell, FigureInput, TypedTable, cpu_capacity, unit_capacity};
use crate::ids::{CpuId, TaskId};
use crate::interval::cpu::CpuShares;
use crate::interval::idle_blocked::IdleBlocked;
use crate::units::Ratio;

type Figure = Column<CpuRow>;

/// The box, or one CPU of it.
pub(super) struct CpuRow {
    /// `None` is the box
    id: Option<CpuId>,
    shares: CpuShares,
    busy: f64,
    hidden: f64,
    /// idle-but-blocked and free, of the box
    blocked: Cell,
    free: Cell,
    top: Option<(TaskId, Ratio)>,
}

pub(super) static CPU: TypedTable<CpuRow> = TypedTable {
    name: "cpu",
    description: "the CPU time of the whole box: mpstat's columns with decimals, and how much of the idle time is free",
    columns: &[
        &[Figure::text("CPU", "name", "the whole box", |_, _| "all".into())],
        MPSTAT_COLUMNS,
        &[
            Figure::new(
                "%blocked",
                "idle_but_blocked_ratio",
                Unit::Percent,
                "idle, but the work there is was stuck",
                |_, row| row.blocked.clone(),
            )
            .time_share(),
            Figure::new(
                "%free",
                "free_ratio",
                Unit::Percent,
                "idle and iowait without %blocked: the real headroom",
                |_, row| row.free.clone(),
            )
            .time_share(),
        ],
        UNACCOUNTED_COLUMNS,
        &[Figure::new("CPUs", "cpus", Unit::Count, "online CPUs", |look, _| (look.interval.online_cpus() as f64).into())
            .hidden_by_default()],
    ],
    key_columns: &[],
    column_sets: &[],
    single_row: true,
    default_sort: "%busy",
    for_each_row: |look, show| {
        let Some(cpu) = &look.interval.cpu else { return };
        let blocked = look.interval.idle_blocked.as_ref();
        show(&CpuRow {
            id: None,
            shares: cpu.total,
            busy: cpu.busy(),
            hidden: cpu.hidden_cpus / cpu.cpus.len().max(1) as f64,
            blocked: blocked
                .map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.ratio, bound_if_incomplete(blocked, Bound::AtLeast))),
            free: blocked
                .map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.free, bound_if_incomplete(blocked, Bound::AtMost))),
            top: None,
        });
    },
    is_idle,
    capacity: cpu_capacity,
};

pub(super) static CORE: TypedTable<CpuRow> = TypedTable {
    name: "core",
    description: "a row an online CPU: mpstat -P ALL's columns with decimals, and who ran there most",
    columns: &[
        &[Figure::new("CPU", "cpu", Unit::Id, "the CPU's number", |_, row| row.id.map(|id| id.0).into())],
        MPSTAT_COLUMNS,
        UNACCOUNTED_COLUMNS,
        &[
            Figure::new("topPID", "top_pid", Unit::Id, "the process of the thread that used most of it", |_, row| {
                row.top.map(|(id, _)| id.pid).into()
            })
            .without_total()
            .hidden_by_default(),
            Figure::new("topTID", "top_tid", Unit::Id, "that thread", |_, row| row.top.map(|(id, _)| id.tid).into())
                .without_total()
                .hidden_by_default(),
            Figure::new("%top", "top_ratio", Unit::Percent, "that thread's share of one CPU", |_, row| {
                row.top.map(|(_, share)| share).into()
            })
            .without_total()
            .hidden_by_default(),
            Figure::text("topCommand", "top_command", "that thread's name", top_command).without_total().hidden_by_default(),
        ],
    ],
    key_columns: &["CPU"],
    column_sets: &[],
    single_row: false,
    default_sort: "%busy",
    for_each_row: |look, show| {
        for cpu in look.interval.cpu.iter().flat_map(|cpu| &cpu.cpus) {
            show(&CpuRow {
                id: Some(cpu.id),
                shares: cpu.shares,
                busy: cpu.busy(),
                hidden: cpu.hidden,
                blocked: Cell::Unknown,
                free: Cell::Unknown,
                top: cpu.top_thread,
            });
        }
    },
    is_idle,
    capacity: unit_capacity,
};

/// mpstat's, in its order. As in /proc/stat %guest is a part of %usr and %gnice of %nice.
const MPSTAT_COLUMNS: &[Figure] = &[
    time_share_column("%usr", "user_ratio", "user, guests included", |_, row| row.shares.user.into()),
    time_share_column("%nice", "nice_ratio", "user of nice tasks, guests included", |_, row| row.shares.nice.into()),
    time_share_column("%sys", "system_ratio", "kernel, without interrupts", |_, row| row.shares.system.into()),
    time_share_column("%iowait", "iowait_ratio", "idle, and a task that last ran there waits for I/O", |_, row| {
        row.shares.iowait.into()
    }),
    time_share_column("%irq", "irq_ratio", "hardware interrupts", |_, row| row.shares.irq.into()),
    time_share_column("%soft", "softirq_ratio", "softirqs", |_, row| row.shares.softirq.into()),
    time_share_column("%steal", "steal_ratio", "given to somebody else by the hypervisor", |_, row| row.shares.steal.into()),
    time_share_column("%guest", "guest_ratio", "the part of %usr that ran guests", |_, row| row.shares.guest.into()),
    time_share_column("%gnice", "guest_nice_ratio", "the part of %nice that ran guests", |_, row| row.shares.guest_nice.into()),
    time_share_column("%idle", "idle_ratio", "nothing ran, and nobody who last ran there waits for I/O", |_, row| {
        row.shares.idle.into()
    }),
    time_share_column("%busy", "busy_ratio", "used: user, nice, system, irq, softirq, and what no tick saw", |_, row| {
        row.busy.into()
    }),
];

/// Which way a figure is wrong where threads may be stuck that this user cannot see being so.
fn bound_if_incomplete(blocked: &IdleBlocked, way: Bound) -> Option<Bound> {
    blocked.lower_bound.then_some(way)
}

/// What /proc/stat does not tell.
const UNACCOUNTED_COLUMNS: &[Figure] = &[
    time_share_column("%unacc", "unaccounted_ratio", "time that is in no field of /proc/stat", |_, row| {
        row.shares.unaccounted.into()
    })
    .hidden_by_default(),
    time_share_column("%hidden", "hidden_ratio", "used without a tick seeing it", |_, row| row.hidden.into())
        .hidden_by_default(),
];

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

fn top_command(look: &FigureInput, row: &CpuRow) -> Cell {
    let tasks = look.interval.newer.tasks.as_ref().ok();
    let thread = row.top.and_then(|(id, _)| tasks?.thread(id));
    thread.map(|(_, thread)| &thread.comm).into()
}
