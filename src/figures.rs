//! The catalogue of figures: every column of every subject once, with its title, key, unit, description and value.
//!
//! A column is a typed constant (`disk::READ_AWAIT_SECONDS`), named as its key in JSON and CSV, and declared by one entry of
//! `columns!`. Whatever shows a figure reads it here: the command line's tables, CSV, JSON, Parquet, `compare`, reports, and
//! the screens with their sort orders and graphs. A file is a subject: the columns of one type of row, and the tables of them.
//! `Table` is a table without the type of its rows. Nothing is printed here: that is for `report` and `view`.

/// Declares columns, each as a public constant, and the list of them in their order:
///
/// ```text
/// columns! {
///     LIST: RowType;
///
///     NAME = Column::new(title, key, unit, description, value);
/// }
/// ```
macro_rules! columns {
    ($(#[$attribute:meta])* $list:ident: $row:ty; $($(#[$column_attribute:meta])* $name:ident = $column:expr;)+) => {
        $(#[$attribute])*
        static $list: $crate::figures::ColumnList<$row> = &[$(&$name),+];
        $($(#[$column_attribute])* pub static $name: $crate::figures::Column<$row> = $column;)+
    };
}

mod cell;
pub mod cgroup;
mod column;
pub mod cpu;
pub mod disk;
pub mod disk_latency;
pub mod disk_operation;
pub mod load;
pub mod memory;
pub mod network;
pub mod pressure;
pub mod protocols;
pub mod remote_host;
mod table;
pub mod task;
pub mod thread;
mod unit;

pub use cell::{Bound, Cell};
pub use column::{Aggregation, Better, Column, ColumnDefinition};
pub use table::{ColumnList, ColumnSet, Row, Table, TypedTable};
pub use unit::{Precision, Unit};

use crate::baseline::LatencyStatus;
use crate::findings::Evaluation;
use crate::interval::Interval;
use table::{cpu_capacity, unit_capacity};

/// What figures are computed from: an interval, and how the latencies of its disks compare with their baselines.
#[derive(Clone, Copy, Debug)]
pub struct FigureInput<'a> {
    pub interval: &'a Interval,
    pub latency_statuses: &'a [LatencyStatus],
}

impl<'a> From<&'a Evaluation> for FigureInput<'a> {
    fn from(evaluation: &'a Evaluation) -> FigureInput<'a> {
        FigureInput { interval: &evaluation.interval, latency_statuses: &evaluation.latency_statuses }
    }
}

/// All tables, in the order of the manual.
pub static TABLES: &[&dyn Table] = &[
    &cpu::CPU_TABLE,
    &cpu::CORE_TABLE,
    &disk::DISK_TABLE,
    &network::NIC_TABLE,
    &protocols::TCP_TABLE,
    &protocols::UDP_TABLE,
    &task::TASK_TABLE,
    &thread::THREAD_TABLE,
    &load::LOAD_TABLE,
    &pressure::PRESSURE_TABLE,
    &memory::MEMORY_TABLE,
    &cgroup::CGROUP_TABLE,
];

/// Whether a table has figures of tasks, or of what sub-samples saw of them.
pub fn needs_tasks(table: &dyn Table) -> bool {
    !matches!(table.name(), "disk" | "nic" | "tcp" | "udp" | "pressure" | "memory" | "cgroup")
}

/// The table with this name.
pub fn find_table(name: &str) -> Option<&'static dyn Table> {
    TABLES.iter().copied().find(|table| table.name() == name)
}

#[cfg(test)]
mod tests;
