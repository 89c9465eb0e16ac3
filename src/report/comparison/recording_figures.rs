//! One recording of a comparison: all values of each figure, the findings, and the totals.

use std::collections::BTreeMap;

use super::operation_counter::{OperationCounter, OperationTotals};
use super::totals::Totals;
use crate::figures::{Cell, ColumnDefinition, FigureInput, Table, Unit, cpu, disk, load, memory, network, pressure, protocols};
use crate::findings::{Evaluation, Finding, Kind, Severity};
use crate::report::formatting::subject_name;
use crate::report::window::Window;

/// The tables that are compared: those whose rows have the same names in another recording.
static COMPARED_TABLES: [&dyn Table; 8] = [
    &cpu::CPU_TABLE,
    &load::LOAD_TABLE,
    &memory::MEMORY_TABLE,
    &pressure::PRESSURE_TABLE,
    &disk::DISK_TABLE,
    &network::NIC_TABLE,
    &protocols::TCP_TABLE,
    &protocols::UDP_TABLE,
];

/// Intervals whose values are kept at most: enough for a median, a 95th percentile and the overlap of two recordings.
const MAX_INTERVALS: usize = 1 << 13;

/// A figure of a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FigureKey {
    /// Index in `COMPARED_TABLES`
    table_index: usize,
    /// `sdb`; empty where there is one row
    pub row: String,
    column_index: usize,
}

impl FigureKey {
    pub fn table_name(&self) -> &'static str {
        self.table().map_or("", |table| table.name())
    }

    fn table(&self) -> Option<&'static dyn Table> {
        COMPARED_TABLES.get(self.table_index).copied()
    }

    /// The definition of the figure.
    pub fn column(&self) -> Option<&'static ColumnDefinition> {
        self.table()?.columns().get(self.column_index).copied()
    }
}

/// Identifies a finding in any recording: kind and subject without process numbers.
pub type FindingKey = (Kind, String);

/// A finding at its worst severity.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstFinding {
    pub severity: Severity,
    pub sentence: String,
}

/// The values of each compared figure, the window with its findings, and the totals so far. Intervals are added in the order of
/// time.
#[derive(Debug)]
pub struct RecordingFigures {
    pub window: Window,
    pub totals: Totals,
    operation_counter: OperationCounter,
    /// By index in `COMPARED_TABLES` and name of the row: the values of each column, in the order of time
    values: BTreeMap<(usize, String), Vec<Vec<f64>>>,
    /// In the order of `COMPARED_TABLES`
    selections: Vec<ColumnSelection>,
    /// Devices whose requests are in the totals; empty: all that are not stacked on other devices
    disks: Vec<String>,
    /// Of the values of so many intervals those of one are kept
    stride: usize,
    intervals: usize,
}

/// The columns of a table that are read for each row.
#[derive(Debug)]
struct ColumnSelection {
    /// The columns of the table
    count: usize,
    /// How many of `read` are the name of the row
    keys: usize,
    /// The name of the row, then the figures that are compared
    read: Vec<usize>,
}

impl ColumnSelection {
    fn new(table: &dyn Table) -> ColumnSelection {
        let columns = table.columns();
        let mut read: Vec<usize> = table.key_columns().into_iter().filter_map(|key| table.column_index(key)).collect();
        let keys = read.len();
        read.extend((0..columns.len()).filter(|index| columns.get(*index).is_some_and(|column| is_compared(column))));
        ColumnSelection { count: columns.len(), keys, read }
    }
}

impl RecordingFigures {
    /// Of a recording with about that many intervals. Totals count the requests of these devices; without any, those of all
    /// devices that are not stacked on others.
    pub fn new(disks: Vec<String>, intervals: usize) -> RecordingFigures {
        RecordingFigures {
            window: Window::default(),
            totals: Totals::default(),
            operation_counter: OperationCounter::default(),
            values: BTreeMap::new(),
            selections: COMPARED_TABLES.iter().map(|table| ColumnSelection::new(*table)).collect(),
            disks,
            stride: intervals.div_ceil(MAX_INTERVALS).max(1),
            intervals: 0,
        }
    }

    pub fn add(&mut self, evaluation: &Evaluation) {
        self.window.add(evaluation);
        self.totals.add(&evaluation.interval, &self.disks);
        self.operation_counter.add(&evaluation.interval, &self.disks);
        if self.intervals.is_multiple_of(self.stride) {
            let input = FigureInput::from(evaluation);
            for (table_index, table) in COMPARED_TABLES.iter().enumerate() {
                self.add_rows(table_index, *table, &input);
            }
        }
        self.intervals += 1;
    }

    fn add_rows(&mut self, table_index: usize, table: &dyn Table, input: &FigureInput) {
        let Some(selection) = self.selections.get(table_index) else { return };
        let figures = selection.read.get(selection.keys..).unwrap_or_default();
        for row in table.rows(input, &selection.read) {
            let (names, cells) = row.cells.split_at(selection.keys.min(row.cells.len()));
            let names = names.iter().filter_map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                Cell::Number(_) | Cell::Bound(..) | Cell::Unknown => None,
            });
            let row = names.collect::<Vec<_>>().join(" ");
            let values = self.values.entry((table_index, row)).or_insert_with(|| vec![Vec::new(); selection.count]);
            for (column, number) in figures.iter().zip(cells).filter_map(|(column, cell)| Some((column, cell.number()?))) {
                values.get_mut(*column).into_iter().for_each(|values| values.push(number));
            }
        }
    }

    /// The totals for a given number of operations.
    pub fn totals_for_operations(&self, operations: f64) -> OperationTotals {
        OperationTotals { operations, totals: self.totals }
    }

    /// The totals for the operations that were counted while recording (`record --ops`).
    pub fn counted_operations(&self) -> Option<OperationTotals> {
        self.operation_counter.operation_totals()
    }

    /// In the order of time; of a long recording those of every n-th interval.
    pub fn values(&self, key: &FigureKey) -> &[f64] {
        let row = self.values.get(&(key.table_index, key.row.clone()));
        row.and_then(|row| row.get(key.column_index)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The figures that have values.
    pub fn keys(&self) -> impl Iterator<Item = FigureKey> {
        self.values.iter().flat_map(|((table_index, row), columns)| {
            let known = columns.iter().enumerate().filter(|(_, values)| !values.is_empty());
            known.map(|(column_index, _)| FigureKey { table_index: *table_index, row: row.clone(), column_index })
        })
    }

    /// The findings, each at its worst.
    pub fn findings(&self) -> BTreeMap<FindingKey, WorstFinding> {
        let mut found: BTreeMap<FindingKey, WorstFinding> = BTreeMap::new();
        let about = |finding: &Finding| (finding.kind, subject_name(&finding.subject));
        for finding in self.window.findings() {
            let new = WorstFinding { severity: finding.severity, sentence: finding.sentence.clone() };
            let known = found.entry(about(finding)).or_insert_with(|| new.clone());
            if new.severity > known.severity {
                *known = new;
            }
        }
        found
    }
}

/// Whether a column is compared: figures, but no names and no references.
fn is_compared(column: &ColumnDefinition) -> bool {
    // Rates that tables hide by default are compared, too: context switches, for example.
    let is_rate = matches!(column.unit, Unit::PerSecond | Unit::KilobytesPerSecond);
    (column.shown_by_default || is_rate) && !matches!(column.unit, Unit::Name | Unit::Id) && !column.reference
}
