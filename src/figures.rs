//! The catalogue of figures: every column of every subject once, with its title, key, unit, description and value.
//!
//! A column is a typed constant (`disk::READ_AWAIT_SECONDS`), named as its key in JSON and CSV. Everything that shows a
//! figure reads it here: the tables of the command line, exports, comparisons, reports, and the screens with their sort
//! order and graphs. A subject is a file: the columns of one type of row, and the table that lists them. `Table` is the same
//! without the type of the row. Nothing is printed here: that is `report` and `view`.

mod cell;
pub mod cgroup;
mod column;
pub mod cpu;
pub mod disk;
pub mod load;
pub mod memory;
pub mod network;
pub mod pressure;
pub mod protocols;
pub mod task;
pub mod thread;

pub use cell::{Bound, Cell};
pub use column::{Aggregation, Better, Column, ColumnDefinition, Precision, Unit};

use crate::baseline::LatencyStatus;
use crate::findings::Evaluation;
use crate::interval::Interval;

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

/// One subject, whatever its rows are.
pub trait Table: Sync {
    /// As `stalltop table NAME` calls it
    fn name(&self) -> &'static str;

    /// What its rows are, in a sentence
    fn description(&self) -> &'static str;

    /// Its columns in order
    fn columns(&self) -> Vec<&'static ColumnDefinition>;

    /// The headings that tell one row from another, and the same row at another time; none where there is one row
    fn key_columns(&self) -> &'static [&'static str];

    /// Named choices of columns beside the usual ones, by heading
    fn column_sets(&self) -> &'static [ColumnSet];

    /// Whether it is one row at each time
    fn is_single_row(&self) -> bool;

    /// The heading by which the foremost rows are the most interesting ones
    fn default_sort(&self) -> &'static str;

    /// Its rows, with these columns in this order.
    fn rows(&self, input: &FigureInput, columns: &[usize]) -> Vec<Row>;

    /// Over a whole run: what a share of time is a share of, in CPUs or devices.
    fn capacity(&self, input: &FigureInput) -> f64;
}

/// One line of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// In the order in which the columns were asked for
    pub cells: Vec<Cell>,
    /// Nothing happened on it
    pub idle: bool,
}

/// Shows each row of an interval.
type RowVisitor<T> = fn(&FigureInput, &mut dyn FnMut(&T));

/// A choice of columns with its name.
pub type ColumnSet = (&'static str, &'static [&'static str]);

/// A table about rows of one type.
pub struct TypedTable<T: 'static> {
    name: &'static str,
    description: &'static str,
    /// In groups, so that tables can share some
    columns: &'static [&'static [&'static Column<T>]],
    key_columns: &'static [&'static str],
    column_sets: &'static [ColumnSet],
    single_row: bool,
    default_sort: &'static str,
    for_each_row: RowVisitor<T>,
    is_idle: fn(&T) -> bool,
    capacity: fn(&FigureInput) -> f64,
}

impl<T> TypedTable<T> {
    /// Its columns in order.
    pub fn typed_columns(&self) -> impl Iterator<Item = &'static Column<T>> {
        self.columns.iter().copied().flatten().copied()
    }
}

impl<T> Table for TypedTable<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn columns(&self) -> Vec<&'static ColumnDefinition> {
        self.typed_columns().map(|column| &column.definition).collect()
    }

    fn key_columns(&self) -> &'static [&'static str] {
        self.key_columns
    }

    fn column_sets(&self) -> &'static [ColumnSet] {
        self.column_sets
    }

    fn is_single_row(&self) -> bool {
        self.single_row
    }

    fn default_sort(&self) -> &'static str {
        self.default_sort
    }

    fn rows(&self, input: &FigureInput, columns: &[usize]) -> Vec<Row> {
        let all: Vec<&Column<T>> = self.typed_columns().collect();
        let asked: Vec<&Column<T>> = columns.iter().filter_map(|&at| all.get(at).copied()).collect();
        let mut rows = Vec::new();
        (self.for_each_row)(input, &mut |row| {
            let cells = asked.iter().map(|column| column.value(input, row)).collect();
            rows.push(Row { cells, idle: (self.is_idle)(row) });
        });
        rows
    }

    fn capacity(&self, input: &FigureInput) -> f64 {
        (self.capacity)(input)
    }
}

/// A share of time of one CPU, one device, the one time that passes.
fn unit_capacity(_: &FigureInput) -> f64 {
    1.0
}

/// A share of the time of all CPUs.
fn cpu_capacity(input: &FigureInput) -> f64 {
    input.interval.online_cpus().max(1) as f64
}

#[cfg(test)]
mod tests;
