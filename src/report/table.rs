//! The catalogue of columns: every figure of every subject with its name, its unit and how it is read from an interval.
//! Lines, CSV, JSON, exports, comparisons and docs/tables.md are all made from it. Pure: figures out, nothing printed.
//!
//! A subject is a file: a `Typed` table about rows of one type. `Table` is the same without the type, so that whoever
//! prints need not know what a row is.

mod cell;
mod cgroup;
mod choice;
mod column;
mod cost;
mod cpu;
mod disk;
mod load;
mod memory;
mod network;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod pressure;
mod printer;
mod protocols;
mod run;
mod sheet;
mod task;
mod thread;

pub use cell::{Bound, Cell};
pub use choice::{Choice, Wishes};
pub use column::{Digits, Head, Total, Unit};
pub use cost::Cost;
pub use page::page;
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
pub use printer::{Format, Headings, Printer, Stamp};
pub use run::{Run, Whole};
pub use sheet::Sheet;

use column::Column;

use crate::baseline::Standing;
use crate::findings::Judged;
use crate::interval::Interval;

/// What figures are read from: an interval, and how its disks stand beside their baselines.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub interval: &'a Interval,
    pub standings: &'a [Standing],
}

impl<'a> From<&'a Judged> for Look<'a> {
    fn from(judged: &'a Judged) -> Look<'a> {
        Look { interval: &judged.interval, standings: &judged.standings }
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
pub fn named(name: &str) -> Option<&'static dyn Table> {
    TABLES.iter().copied().find(|table| table.name() == name)
}

/// One subject, whatever its rows are.
pub trait Table: Sync {
    /// As `stalltop table NAME` calls it
    fn name(&self) -> &'static str;

    /// What its rows are, in a sentence
    fn about(&self) -> &'static str;

    /// Its columns in order
    fn heads(&self) -> Vec<&'static Head>;

    /// The headings that tell one row from another, and the same row at another time; none where there is one row
    fn key(&self) -> &'static [&'static str];

    /// Named choices of columns beside the usual ones, by heading
    fn sets(&self) -> &'static [Set];

    /// Whether it is one row at each time
    fn is_single(&self) -> bool;

    /// The heading by which the foremost rows are the most interesting ones
    fn measure(&self) -> &'static str;

    /// Its rows, with these columns in this order.
    fn rows(&self, look: &Look, columns: &[usize]) -> Vec<Row>;

    /// Over a whole run: what a share of time is a share of, in CPUs or devices.
    fn whole(&self, look: &Look) -> f64;
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
type Each<T> = fn(&Look, &mut dyn FnMut(&T));

/// A choice of columns with its name.
pub type Set = (&'static str, &'static [&'static str]);

/// A table about rows of one type.
struct Typed<T: 'static> {
    name: &'static str,
    about: &'static str,
    /// In groups, so that tables can share some
    columns: &'static [&'static [Column<T>]],
    key: &'static [&'static str],
    sets: &'static [Set],
    single: bool,
    measure: &'static str,
    each: Each<T>,
    is_idle: fn(&T) -> bool,
    whole: fn(&Look) -> f64,
}

impl<T> Typed<T> {
    fn columns(&self) -> impl Iterator<Item = &'static Column<T>> {
        self.columns.iter().copied().flatten()
    }
}

impl<T> Table for Typed<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn heads(&self) -> Vec<&'static Head> {
        self.columns().map(|column| &column.head).collect()
    }

    fn key(&self) -> &'static [&'static str] {
        self.key
    }

    fn sets(&self) -> &'static [Set] {
        self.sets
    }

    fn is_single(&self) -> bool {
        self.single
    }

    fn measure(&self) -> &'static str {
        self.measure
    }

    fn rows(&self, look: &Look, columns: &[usize]) -> Vec<Row> {
        let all: Vec<&Column<T>> = self.columns().collect();
        let asked: Vec<&Column<T>> = columns.iter().filter_map(|&at| all.get(at).copied()).collect();
        let mut rows = Vec::new();
        (self.each)(look, &mut |row| {
            let cells = asked.iter().map(|column| (column.read)(look, row)).collect();
            rows.push(Row { cells, idle: (self.is_idle)(row) });
        });
        rows
    }

    fn whole(&self, look: &Look) -> f64 {
        (self.whole)(look)
    }
}

/// A share of time of one CPU, one device, the one time that passes.
fn of_one(_: &Look) -> f64 {
    1.0
}

/// A share of the time of all CPUs.
fn of_box(look: &Look) -> f64 {
    look.interval.online_cpus().max(1) as f64
}

#[cfg(test)]
mod tests;
