//! The sort columns of the screens' lists: a column of the catalogue, a text, or the activity of a task.

use std::fmt;

use crate::figures::cpu::{self, CpuRow};
use crate::figures::task::{self, ProcessRow};
use crate::figures::thread::{self, ThreadRow};
use crate::figures::{Column, ColumnDefinition, cgroup, disk, network};
use crate::interval::cgroup::CgroupSpan;
use crate::interval::disk::DiskSpan;
use crate::interval::network::NicSpan;

/// A sort order of a list: descending, unless `ascending`.
#[derive(Clone, Copy)]
pub struct SortColumn {
    pub(super) by: SortBy,
    ascending: bool,
}

/// The value by which rows are compared.
#[derive(Clone, Copy)]
pub(super) enum SortBy {
    /// The kernel's order; CPUs by number
    Position,
    /// `interval::task_activity`
    Activity,
    Command,
    User,
    Cpu(&'static Column<CpuRow>),
    Disk(&'static Column<DiskSpan>),
    Nic(&'static Column<NicSpan>),
    Cgroup(&'static Column<CgroupSpan>),
    /// A column of processes, and the matching column of threads; without one, threads have the value of their process
    Task(&'static Column<ProcessRow>, Option<&'static Column<ThreadRow>>),
}

impl SortColumn {
    pub const NAME: SortColumn = SortColumn::new(SortBy::Position).ascending();

    pub const CPU_BUSY: SortColumn = SortColumn::new(SortBy::Cpu(&cpu::BUSY_RATIO));
    pub const CPU_USER: SortColumn = SortColumn::new(SortBy::Cpu(&cpu::USER_WITH_NICE_RATIO));
    pub const CPU_SYSTEM: SortColumn = SortColumn::new(SortBy::Cpu(&cpu::SYSTEM_RATIO));
    pub const CPU_SOFTIRQ: SortColumn = SortColumn::new(SortBy::Cpu(&cpu::SOFTIRQ_RATIO));
    pub const CPU_STEAL: SortColumn = SortColumn::new(SortBy::Cpu(&cpu::STEAL_RATIO));

    pub const DISK_RATE: SortColumn = SortColumn::new(SortBy::Disk(&disk::OPERATIONS_PER_SECOND));
    pub const DISK_AWAIT: SortColumn = SortColumn::new(SortBy::Disk(&disk::LONGEST_AWAIT_SECONDS));
    pub const DISK_QUEUE: SortColumn = SortColumn::new(SortBy::Disk(&disk::QUEUE));
    pub const DISK_BUSY: SortColumn = SortColumn::new(SortBy::Disk(&disk::BUSY_RATIO));

    pub const NIC_READ: SortColumn = SortColumn::new(SortBy::Nic(&network::RECEIVED_BYTES_PER_SECOND));
    pub const NIC_WRITE: SortColumn = SortColumn::new(SortBy::Nic(&network::SENT_BYTES_PER_SECOND));
    pub const NIC_BUSY: SortColumn = SortColumn::new(SortBy::Nic(&network::UTILIZATION_RATIO));
    pub const NIC_SATURATION: SortColumn = SortColumn::new(SortBy::Nic(&network::SATURATION_PER_SECOND));

    pub const CGROUP_HELD_BACK: SortColumn = SortColumn::new(SortBy::Cgroup(&cgroup::HELD_BACK_RATIO));
    pub const CGROUP_CPU: SortColumn = SortColumn::new(SortBy::Cgroup(&cgroup::CPU_RATIO));
    pub const CGROUP_THROTTLED: SortColumn = SortColumn::new(SortBy::Cgroup(&cgroup::THROTTLED_RATIO));
    pub const CGROUP_MEMORY: SortColumn = SortColumn::new(SortBy::Cgroup(&cgroup::MEMORY_USED_BYTES));
    pub const CGROUP_MEMORY_SHARE: SortColumn = SortColumn::new(SortBy::Cgroup(&cgroup::MEMORY_USED_RATIO));

    pub const TASK_ACTIVITY: SortColumn = SortColumn::new(SortBy::Activity);
    pub const TASK_CPU: SortColumn = SortColumn::new(SortBy::Task(&task::CPU_RATIO, Some(&thread::CPU_RATIO)));
    pub const TASK_TIME: SortColumn = SortColumn::new(SortBy::Task(&task::CPU_TIME_SECONDS, Some(&thread::CPU_TIME_SECONDS)));
    pub const TASK_RUN_QUEUE: SortColumn =
        SortColumn::new(SortBy::Task(&task::RUN_QUEUE_WAIT_RATIO, Some(&thread::RUN_QUEUE_WAIT_RATIO)));
    pub const TASK_DISK: SortColumn = SortColumn::new(SortBy::Task(&task::DISK_RATIO, Some(&thread::DISK_RATIO)));
    pub const TASK_LOCK: SortColumn = SortColumn::new(SortBy::Task(&task::LOCK_RATIO, Some(&thread::LOCK_RATIO)));
    pub const TASK_RESIDENT: SortColumn = SortColumn::new(SortBy::Task(&task::RESIDENT_BYTES, None));
    pub const TASK_GROWTH: SortColumn = SortColumn::new(SortBy::Task(&task::RESIDENT_GROWTH_BYTES_PER_SECOND, None));
    pub const TASK_READ: SortColumn = SortColumn::new(SortBy::Task(&task::READ_BYTES_PER_SECOND, None));
    pub const TASK_WRITE: SortColumn = SortColumn::new(SortBy::Task(&task::WRITE_BYTES_PER_SECOND, None));
    pub const TASK_THREADS: SortColumn = SortColumn::new(SortBy::Task(&task::THREADS, None));
    pub const TASK_USER: SortColumn = SortColumn::new(SortBy::User).ascending();
    pub const TASK_PID: SortColumn = SortColumn::new(SortBy::Task(&task::PID, None)).ascending();
    pub const TASK_COMMAND: SortColumn = SortColumn::new(SortBy::Command).ascending();

    const fn new(by: SortBy) -> SortColumn {
        SortColumn { by, ascending: false }
    }

    const fn ascending(self) -> SortColumn {
        SortColumn { ascending: true, ..self }
    }

    /// The name on the screen: the heading of its column.
    pub fn label(self) -> &'static str {
        match self.by {
            SortBy::Position => "name",
            SortBy::Activity => "activity",
            by => by.definition().map_or("", |definition| definition.heading),
        }
    }

    /// Whether the usual direction is ascending.
    pub fn is_ascending(self) -> bool {
        self.ascending
    }
}

/// The orders of the CPU screen, the default first.
pub(super) const CPU_COLUMNS: &[SortColumn] = &[
    SortColumn::CPU_BUSY,
    SortColumn::CPU_USER,
    SortColumn::CPU_SYSTEM,
    SortColumn::CPU_SOFTIRQ,
    SortColumn::CPU_STEAL,
    SortColumn::NAME,
];

/// The orders of the disk screen.
pub(super) const DISK_COLUMNS: &[SortColumn] =
    &[SortColumn::NAME, SortColumn::DISK_RATE, SortColumn::DISK_AWAIT, SortColumn::DISK_QUEUE, SortColumn::DISK_BUSY];

/// The orders of the network screen.
pub(super) const NETWORK_COLUMNS: &[SortColumn] =
    &[SortColumn::NAME, SortColumn::NIC_READ, SortColumn::NIC_WRITE, SortColumn::NIC_BUSY, SortColumn::NIC_SATURATION];

/// The orders of the screen of cgroups.
pub(super) const CGROUP_COLUMNS: &[SortColumn] = &[
    SortColumn::CGROUP_HELD_BACK,
    SortColumn::CGROUP_CPU,
    SortColumn::CGROUP_THROTTLED,
    SortColumn::CGROUP_MEMORY,
    SortColumn::CGROUP_MEMORY_SHARE,
    SortColumn::NAME,
];

/// The orders of the tasks screen.
pub(super) const TASK_COLUMNS: &[SortColumn] = &[
    SortColumn::TASK_ACTIVITY,
    SortColumn::TASK_CPU,
    SortColumn::TASK_TIME,
    SortColumn::TASK_RUN_QUEUE,
    SortColumn::TASK_DISK,
    SortColumn::TASK_LOCK,
    SortColumn::TASK_RESIDENT,
    SortColumn::TASK_GROWTH,
    SortColumn::TASK_READ,
    SortColumn::TASK_WRITE,
    SortColumn::TASK_THREADS,
    SortColumn::TASK_USER,
    SortColumn::TASK_PID,
    SortColumn::TASK_COMMAND,
];

impl SortBy {
    /// Its column of the catalogue; `None` for an order that no column has.
    fn definition(self) -> Option<&'static ColumnDefinition> {
        match self {
            SortBy::Position | SortBy::Activity => None,
            SortBy::Command => Some(&task::COMMAND.definition),
            SortBy::User => Some(&task::USER.definition),
            SortBy::Cpu(column) => Some(&column.definition),
            SortBy::Disk(column) => Some(&column.definition),
            SortBy::Nic(column) => Some(&column.definition),
            SortBy::Cgroup(column) => Some(&column.definition),
            SortBy::Task(column, _) => Some(&column.definition),
        }
    }
}

impl PartialEq for SortColumn {
    fn eq(&self, other: &SortColumn) -> bool {
        match (self.by.definition(), other.by.definition()) {
            (Some(own), Some(other)) => std::ptr::eq(own, other),
            (None, None) => std::mem::discriminant(&self.by) == std::mem::discriminant(&other.by),
            _ => false,
        }
    }
}

impl Eq for SortColumn {}

impl fmt::Debug for SortColumn {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.label())
    }
}
