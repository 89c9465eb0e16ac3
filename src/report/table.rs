//! The catalogue of columns: every figure of every subject with its name, its unit and how it is read from an interval.
//! Lines, CSV, JSON, exports, comparisons and docs/tables.md are all made from it. Pure: figures out, nothing printed.
//!
//! A subject is a file: a `Typed` table about rows of one type. `Table` is the same without the type, so that whoever
//! prints need not know what a row is.

mod cell;
mod cgroup;
mod column;
mod cpu;
mod disk;
mod docs;
mod load;
mod memory;
mod network;
#[cfg(feature = "parquet")]
mod parquet;
mod pressure;
mod printer;
mod protocols;
mod resource_usage;
mod run_total;
mod selection;
mod task;
mod thread;
mod wide_table;

pub use cell::{Bound, Cell};
pub use column::{Aggregation, ColumnDefinition, Precision, Unit};
pub use docs::tables_page;
#[cfg(feature = "parquet")]
pub use parquet::ParquetWriter;
pub use printer::{Format, Headings, Printer, RowTime};
pub use resource_usage::ResourceUsage;
pub use run_total::{RunAccumulator, RunTotal};
pub use selection::{ColumnSelection, ResolvedSelection};
pub use wide_table::WideTable;

use column::Column;

use crate::baseline::LatencyStatus;
use crate::findings::Evaluation;
use crate::interval::Interval;

/// What figures are read from: an interval, and how its disks stand beside their baselines.
#[derive(Clone, Copy, Debug)]
pub struct FigureInput<'a> {
    pub interval: &'a Interval,
    pub latency_statuses: &'a [LatencyStatus],
}

impl<'a> From<&'a Evaluation> for FigureInput<'a> {
    fn from(judged: &'a Evaluation) -> FigureInput<'a> {
        FigureInput { interval: &judged.interval, latency_statuses: &judged.latency_statuses }
    }
}

/// All tables, in the order of the manual.
pub static TABLES: &[&dyn Table] = &[
    &cpu::CPU,
    &cpu::CORE,
    &disk::DISK,
    &network::NIC,
    &protocols::TCP,
    &protocols::UDP,
    &task::TASK,
    &thread::THREAD,
    &load::LOAD,
    &pressure::PRESSURE,
    &memory::MEMORY,
    &cgroup::CGROUP,
];

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
    fn rows(&self, look: &FigureInput, columns: &[usize]) -> Vec<Row>;

    /// Over a whole run: what a share of time is a share of, in CPUs or devices.
    fn capacity(&self, look: &FigureInput) -> f64;
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
struct TypedTable<T: 'static> {
    name: &'static str,
    description: &'static str,
    /// In groups, so that tables can share some
    columns: &'static [&'static [Column<T>]],
    key_columns: &'static [&'static str],
    column_sets: &'static [ColumnSet],
    single_row: bool,
    default_sort: &'static str,
    for_each_row: RowVisitor<T>,
    is_idle: fn(&T) -> bool,
    capacity: fn(&FigureInput) -> f64,
}

impl<T> TypedTable<T> {
    fn typed_columns(&self) -> impl Iterator<Item = &'static Column<T>> {
        self.columns.iter().copied().flatten()
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

    fn rows(&self, look: &FigureInput, columns: &[usize]) -> Vec<Row> {
        let all: Vec<&Column<T>> = self.typed_columns().collect();
        let asked: Vec<&Column<T>> = columns.iter().filter_map(|&at| all.get(at).copied()).collect();
        let mut rows = Vec::new();
        (self.for_each_row)(look, &mut |row| {
            let cells = asked.iter().map(|column| (column.value)(look, row)).collect();
            rows.push(Row { cells, idle: (self.is_idle)(row) });
        });
        rows
    }

    fn capacity(&self, look: &FigureInput) -> f64 {
        (self.capacity)(look)
    }
}

/// A share of time of one CPU, one device, the one time that passes.
fn unit_capacity(_: &FigureInput) -> f64 {
    1.0
}

/// A share of the time of all CPUs.
fn cpu_capacity(look: &FigureInput) -> f64 {
    look.interval.online_cpus().max(1) as f64
}

#[cfg(test)]
mod tests;
