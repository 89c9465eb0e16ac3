//! A table of the catalogue: the columns of one type of row, and which of them identify, sort and group its rows.

use super::{Cell, Column, ColumnDefinition, FigureInput};

/// A table, whatever the type of its rows.
pub trait Table: Sync {
    /// As in `stalltop table NAME`
    fn name(&self) -> &'static str;

    /// What its rows are, in a sentence
    fn description(&self) -> &'static str;

    /// Its columns in order
    fn columns(&self) -> Vec<&'static ColumnDefinition>;

    /// The columns that identify a row, also at another time; none in a table of one row
    fn key_columns(&self) -> Vec<&'static ColumnDefinition>;

    /// The named selections of columns, for `--columns NAME`
    fn column_sets(&self) -> Vec<(&'static str, Vec<&'static ColumnDefinition>)>;

    /// The column by which `--top` sorts
    fn default_sort(&self) -> &'static ColumnDefinition;

    /// The column with the process id, in the tables of processes and threads
    fn pid_column(&self) -> Option<&'static ColumnDefinition>;

    /// Its rows; `columns` are indices into `columns()`.
    fn rows(&self, input: &FigureInput, columns: &[usize]) -> Vec<Row>;

    /// What a share of time is a share of, in CPUs or devices, for totals of a run
    fn capacity(&self, input: &FigureInput) -> f64;

    /// Whether it has one row at each time
    fn is_single_row(&self) -> bool {
        self.key_columns().is_empty()
    }

    /// The index of one of its columns.
    fn column_index(&self, column: &ColumnDefinition) -> Option<usize> {
        self.columns().iter().position(|own| std::ptr::eq(*own, column))
    }
}

/// The figures of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// In the order in which the columns were selected
    pub cells: Vec<Cell>,
    /// Whether the row had no activity
    pub idle: bool,
}

/// Columns of rows of one type, in order.
pub type ColumnList<T> = &'static [&'static Column<T>];

/// A named selection of columns.
pub struct ColumnSet<T: 'static> {
    pub name: &'static str,
    pub columns: &'static [ColumnList<T>],
}

/// Calls a function with each row of an interval.
pub type RowVisitor<T> = fn(&FigureInput, &mut dyn FnMut(&T));

/// A table with rows of one type.
pub struct TypedTable<T: 'static> {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// In groups, which tables can share
    pub(super) columns: &'static [ColumnList<T>],
    pub(super) key_columns: ColumnList<T>,
    pub(super) column_sets: &'static [ColumnSet<T>],
    pub(super) default_sort: &'static Column<T>,
    pub(super) pid_column: Option<&'static Column<T>>,
    pub(super) for_each_row: RowVisitor<T>,
    pub(super) is_idle: fn(&T) -> bool,
    pub(super) capacity: fn(&FigureInput) -> f64,
}

impl<T> Table for TypedTable<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn columns(&self) -> Vec<&'static ColumnDefinition> {
        definitions(self.columns)
    }

    fn key_columns(&self) -> Vec<&'static ColumnDefinition> {
        definitions(&[self.key_columns])
    }

    fn column_sets(&self) -> Vec<(&'static str, Vec<&'static ColumnDefinition>)> {
        self.column_sets.iter().map(|set| (set.name, definitions(set.columns))).collect()
    }

    fn default_sort(&self) -> &'static ColumnDefinition {
        &self.default_sort.definition
    }

    fn pid_column(&self) -> Option<&'static ColumnDefinition> {
        self.pid_column.map(|column| &column.definition)
    }

    fn rows(&self, input: &FigureInput, columns: &[usize]) -> Vec<Row> {
        let all: Vec<&Column<T>> = self.columns.iter().copied().flatten().copied().collect();
        let selected: Vec<&Column<T>> = columns.iter().filter_map(|&index| all.get(index).copied()).collect();
        let mut rows = Vec::new();
        (self.for_each_row)(input, &mut |row| {
            let cells = selected.iter().map(|column| column.value(input, row)).collect();
            rows.push(Row { cells, idle: (self.is_idle)(row) });
        });
        rows
    }

    fn capacity(&self, input: &FigureInput) -> f64 {
        (self.capacity)(input)
    }
}

fn definitions<T>(groups: &[ColumnList<T>]) -> Vec<&'static ColumnDefinition> {
    groups.iter().copied().flatten().map(|column| &column.definition).collect()
}

/// Shares of time are those of one CPU, one device, or elapsed time.
pub(super) fn unit_capacity(_: &FigureInput) -> f64 {
    1.0
}

/// Shares of time are those of all CPUs.
pub(super) fn cpu_capacity(input: &FigureInput) -> f64 {
    input.interval.online_cpus().max(1) as f64
}
