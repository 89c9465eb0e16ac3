//! The sort columns of the screens' lists: a column of the catalogue, a text, or the activity of a task.

use std::fmt;

use super::screen::Screen;
use crate::figures::cpu::{self, CpuRow};
use crate::figures::task::{self, ProcessRow};
use crate::figures::thread::{self, ThreadRow};
use crate::figures::{Column, disk, network};
use crate::interval::disk::DiskSpan;
use crate::interval::network::NicSpan;

/// A sort order of a list: descending, unless `ascending`.
#[derive(Clone, Copy)]
pub struct SortColumn {
    label: &'static str,
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
    /// A column of processes, and the matching column of threads; without one, threads have the value of their process
    Task(&'static Column<ProcessRow>, Option<&'static Column<ThreadRow>>),
}

impl SortColumn {
    pub const NAME: SortColumn = SortColumn::new("name", SortBy::Position).ascending();

    pub const CPU_BUSY: SortColumn = SortColumn::new("busy", SortBy::Cpu(&cpu::BUSY_RATIO));
    pub const CPU_USER: SortColumn = SortColumn::new("%usr", SortBy::Cpu(&cpu::USER_WITH_NICE_RATIO));
    pub const CPU_SYSTEM: SortColumn = SortColumn::new("%sys", SortBy::Cpu(&cpu::SYSTEM_RATIO));
    pub const CPU_SOFTIRQ: SortColumn = SortColumn::new("%soft", SortBy::Cpu(&cpu::SOFTIRQ_RATIO));
    pub const CPU_STEAL: SortColumn = SortColumn::new("%stl", SortBy::Cpu(&cpu::STEAL_RATIO));

    pub const DISK_RATE: SortColumn = SortColumn::new("rate", SortBy::Disk(&disk::OPERATIONS_PER_SECOND));
    pub const DISK_AWAIT: SortColumn = SortColumn::new("await", SortBy::Disk(&disk::LONGEST_AWAIT_SECONDS));
    pub const DISK_QUEUE: SortColumn = SortColumn::new("queue", SortBy::Disk(&disk::QUEUE));
    pub const DISK_BUSY: SortColumn = SortColumn::new("busy", SortBy::Disk(&disk::BUSY_RATIO));

    pub const NIC_READ: SortColumn = SortColumn::new("read", SortBy::Nic(&network::RECEIVED_BYTES_PER_SECOND));
    pub const NIC_WRITE: SortColumn = SortColumn::new("write", SortBy::Nic(&network::SENT_BYTES_PER_SECOND));
    pub const NIC_BUSY: SortColumn = SortColumn::new("busy", SortBy::Nic(&network::UTILIZATION_RATIO));
    pub const NIC_SATURATION: SortColumn = SortColumn::new("Sat", SortBy::Nic(&network::SATURATION_PER_SECOND));

    pub const TASK_ACTIVITY: SortColumn = SortColumn::new("activity", SortBy::Activity);
    pub const TASK_CPU: SortColumn = SortColumn::task("%CPU", &task::CPU_RATIO, Some(&thread::CPU_RATIO));
    pub const TASK_RUN_QUEUE: SortColumn =
        SortColumn::task("run queue", &task::RUN_QUEUE_WAIT_RATIO, Some(&thread::RUN_QUEUE_WAIT_RATIO));
    pub const TASK_DISK: SortColumn = SortColumn::task("disk", &task::DISK_RATIO, Some(&thread::DISK_RATIO));
    pub const TASK_LOCK: SortColumn = SortColumn::task("lock", &task::LOCK_RATIO, Some(&thread::LOCK_RATIO));
    pub const TASK_RESIDENT: SortColumn = SortColumn::task("memory", &task::RESIDENT_BYTES, None);
    pub const TASK_READ: SortColumn = SortColumn::task("read", &task::READ_BYTES_PER_SECOND, None);
    pub const TASK_WRITE: SortColumn = SortColumn::task("write", &task::WRITE_BYTES_PER_SECOND, None);
    pub const TASK_THREADS: SortColumn = SortColumn::task("threads", &task::THREADS, None);
    pub const TASK_USER: SortColumn = SortColumn::new("user", SortBy::User).ascending();
    pub const TASK_PID: SortColumn = SortColumn::task("pid", &task::PID, None).ascending();
    pub const TASK_COMMAND: SortColumn = SortColumn::new("name", SortBy::Command).ascending();

    const fn new(label: &'static str, by: SortBy) -> SortColumn {
        SortColumn { label, by, ascending: false }
    }

    const fn task(
        label: &'static str,
        process: &'static Column<ProcessRow>,
        thread: Option<&'static Column<ThreadRow>>,
    ) -> SortColumn {
        SortColumn::new(label, SortBy::Task(process, thread))
    }

    const fn ascending(self) -> SortColumn {
        SortColumn { ascending: true, ..self }
    }

    /// The name on the screen.
    pub fn label(self) -> &'static str {
        self.label
    }

    /// Whether the usual direction is ascending.
    pub fn is_ascending(self) -> bool {
        self.ascending
    }
}

impl Screen {
    /// The sort columns of the list, the default first; empty if the list cannot be sorted.
    pub fn sort_columns(self) -> &'static [SortColumn] {
        match self {
            Screen::Overview | Screen::Findings => &[],
            Screen::Cpu => &[
                SortColumn::CPU_BUSY,
                SortColumn::CPU_USER,
                SortColumn::CPU_SYSTEM,
                SortColumn::CPU_SOFTIRQ,
                SortColumn::CPU_STEAL,
                SortColumn::NAME,
            ],
            Screen::Disk => &[
                SortColumn::NAME,
                SortColumn::DISK_RATE,
                SortColumn::DISK_AWAIT,
                SortColumn::DISK_QUEUE,
                SortColumn::DISK_BUSY,
            ],
            Screen::Network => &[
                SortColumn::NAME,
                SortColumn::NIC_READ,
                SortColumn::NIC_WRITE,
                SortColumn::NIC_BUSY,
                SortColumn::NIC_SATURATION,
            ],
            Screen::Tasks => &[
                SortColumn::TASK_ACTIVITY,
                SortColumn::TASK_CPU,
                SortColumn::TASK_RUN_QUEUE,
                SortColumn::TASK_DISK,
                SortColumn::TASK_LOCK,
                SortColumn::TASK_RESIDENT,
                SortColumn::TASK_READ,
                SortColumn::TASK_WRITE,
                SortColumn::TASK_THREADS,
                SortColumn::TASK_USER,
                SortColumn::TASK_PID,
                SortColumn::TASK_COMMAND,
            ],
        }
    }
}

impl SortBy {
    /// A name for comparison and debugging; a column has its key.
    fn name(self) -> &'static str {
        match self {
            SortBy::Position => "position",
            SortBy::Activity => "activity",
            SortBy::Command => "command",
            SortBy::User => "user",
            SortBy::Cpu(column) => column.definition.key,
            SortBy::Disk(column) => column.definition.key,
            SortBy::Nic(column) => column.definition.key,
            SortBy::Task(column, _) => column.definition.key,
        }
    }
}

impl PartialEq for SortColumn {
    fn eq(&self, other: &SortColumn) -> bool {
        (self.label, self.by.name()) == (other.label, other.by.name())
    }
}

impl Eq for SortColumn {}

impl fmt::Debug for SortColumn {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.by.name())
    }
}
