//! `cpu`, `core`: mpstat's columns with decimals, and what of the idle time is really free.

use super::column::{Column, Unit};
use super::{Bound, Cell, Look, Typed, of_box, of_one};
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

pub(super) static CPU: Typed<CpuRow> = Typed {
    name: "cpu",
    about: "the CPU time of the whole box: mpstat's columns with decimals, and how much of the idle time is free",
    columns: &[
        &[Figure::name("CPU", "name", "the whole box", |_, _| "all".into())],
        SHARES,
        &[
            Figure::new(
                "%blocked",
                "idle_but_blocked_ratio",
                Unit::Percent,
                "idle, but the work there is was stuck",
                |_, row| row.blocked.clone(),
            )
            .of_time(),
            Figure::new(
                "%free",
                "free_ratio",
                Unit::Percent,
                "idle and iowait without %blocked: the real headroom",
                |_, row| row.free.clone(),
            )
            .of_time(),
        ],
        DOUBTS,
        &[Figure::new("CPUs", "cpus", Unit::Count, "online CPUs", |look, _| (look.interval.online_cpus() as f64).into())
            .unusual()],
    ],
    key: &[],
    sets: &[],
    single: true,
    measure: "%busy",
    each: |look, show| {
        let Some(cpu) = &look.interval.cpu else { return };
        let blocked = look.interval.idle_blocked.as_ref();
        show(&CpuRow {
            id: None,
            shares: cpu.total,
            busy: cpu.busy(),
            hidden: cpu.hidden_cpus / cpu.cpus.len().max(1) as f64,
            blocked: blocked.map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.ratio, bound(blocked, Bound::AtLeast))),
            free: blocked.map_or(Cell::Unknown, |blocked| Cell::bounded(blocked.free, bound(blocked, Bound::AtMost))),
            top: None,
        });
    },
    is_idle,
    whole: of_box,
};

pub(super) static CORE: Typed<CpuRow> = Typed {
    name: "core",
    about: "a row an online CPU: mpstat -P ALL's columns with decimals, and who ran there most",
    columns: &[
        &[Figure::new("CPU", "cpu", Unit::Id, "the CPU's number", |_, row| row.id.map(|id| id.0).into())],
        SHARES,
        DOUBTS,
        &[
            Figure::new("topPID", "top_pid", Unit::Id, "the process of the thread that used most of it", |_, row| {
                row.top.map(|(id, _)| id.pid).into()
            })
            .momentary()
            .unusual(),
            Figure::new("topTID", "top_tid", Unit::Id, "that thread", |_, row| row.top.map(|(id, _)| id.tid).into())
                .momentary()
                .unusual(),
            Figure::new("%top", "top_ratio", Unit::Percent, "that thread's share of one CPU", |_, row| {
                row.top.map(|(_, share)| share).into()
            })
            .momentary()
            .unusual(),
            Figure::name("topCommand", "top_command", "that thread's name", top_command).momentary().unusual(),
        ],
    ],
    key: &["CPU"],
    sets: &[],
    single: false,
    measure: "%busy",
    each: |look, show| {
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
    whole: of_one,
};

/// mpstat's, in its order. As in /proc/stat %guest is a part of %usr and %gnice of %nice.
const SHARES: &[Figure] = &[
    share("%usr", "user_ratio", "user, guests included", |_, row| row.shares.user.into()),
    share("%nice", "nice_ratio", "user of nice tasks, guests included", |_, row| row.shares.nice.into()),
    share("%sys", "system_ratio", "kernel, without interrupts", |_, row| row.shares.system.into()),
    share("%iowait", "iowait_ratio", "idle, and a task that last ran there waits for I/O", |_, row| row.shares.iowait.into()),
    share("%irq", "irq_ratio", "hardware interrupts", |_, row| row.shares.irq.into()),
    share("%soft", "softirq_ratio", "softirqs", |_, row| row.shares.softirq.into()),
    share("%steal", "steal_ratio", "given to somebody else by the hypervisor", |_, row| row.shares.steal.into()),
    share("%guest", "guest_ratio", "the part of %usr that ran guests", |_, row| row.shares.guest.into()),
    share("%gnice", "guest_nice_ratio", "the part of %nice that ran guests", |_, row| row.shares.guest_nice.into()),
    share("%idle", "idle_ratio", "nothing ran, and nobody who last ran there waits for I/O", |_, row| row.shares.idle.into()),
    share("%busy", "busy_ratio", "used: user, nice, system, irq, softirq, and what no tick saw", |_, row| row.busy.into()),
];

/// Which way a figure is wrong where threads may be stuck that this user cannot see being so.
fn bound(blocked: &IdleBlocked, way: Bound) -> Option<Bound> {
    blocked.lower_bound.then_some(way)
}

/// What /proc/stat does not tell.
const DOUBTS: &[Figure] = &[
    share("%unacc", "unaccounted_ratio", "time that is in no field of /proc/stat", |_, row| row.shares.unaccounted.into())
        .unusual(),
    share("%hidden", "hidden_ratio", "used without a tick seeing it", |_, row| row.hidden.into()).unusual(),
];

/// A share of time.
const fn share(name: &'static str, json: &'static str, meaning: &'static str, read: fn(&Look, &CpuRow) -> Cell) -> Figure {
    Figure::new(name, json, Unit::Percent, meaning, read).of_time()
}

/// As `mpstat | grep -v ' 100.00$'` has it.
fn is_idle(row: &CpuRow) -> bool {
    row.shares.idle >= 0.999_95 && row.hidden <= 0.0
}

fn top_command(look: &Look, row: &CpuRow) -> Cell {
    let tasks = look.interval.newer.tasks.as_ref().ok();
    let thread = row.top.and_then(|(id, _)| tasks?.thread(id));
    thread.map(|(_, thread)| &thread.comm).into()
}
