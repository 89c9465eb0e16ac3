//! One recording as a comparison needs it: all values of each figure, what was found, and what was done in all.

use std::collections::BTreeMap;

use super::decimation::DecimatedValues;
use super::operation_counter::{OperationCounter, OperationTotals};
use crate::figures::{self, Cell, ColumnDefinition, FigureInput, Table, Unit, disk, load};
use crate::findings::{Evaluation, Finding, Kind, Severity};
use crate::interval::Interval;
use crate::report::formatting::subject_name;
use crate::report::window::Window;

/// The subjects that are compared: those whose rows can be found again in another recording.
const COMPARED_TABLES: [&str; 8] = ["cpu", "load", "memory", "pressure", "disk", "nic", "tcp", "udp"];

/// Which figure of which row of which table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FigureKey {
    /// Its place among the subjects, so that the order is theirs
    table_index: usize,
    /// `sdb`; empty where there is one row
    pub row: String,
    column_index: usize,
}

impl FigureKey {
    pub fn table_name(&self) -> &'static str {
        COMPARED_TABLES.get(self.table_index).copied().unwrap_or_default()
    }

    /// What the figure is.
    pub fn column(&self) -> Option<&'static ColumnDefinition> {
        figures::find_table(self.table_name())?.columns().get(self.column_index).copied()
    }
}

/// What was done in all, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub seconds: f64,
    /// Of all CPUs
    pub cpu_seconds: Option<f64>,
    pub context_switches: Option<f64>,
    pub reads: Option<f64>,
    pub writes: Option<f64>,
    pub read_bytes: Option<f64>,
    pub written_bytes: Option<f64>,
}

/// A finding, by what it is about in any recording: process numbers are not the same in two.
pub type FindingKey = (Kind, String);

/// How bad a finding was at worst, and a sentence of that time.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstFinding {
    pub severity: Severity,
    pub sentence: String,
}

/// Grows by intervals.
#[derive(Debug, Default)]
pub struct RecordingFigures {
    pub window: Window,
    pub totals: Totals,
    operation_counter: OperationCounter,
    values: BTreeMap<FigureKey, DecimatedValues>,
    /// Devices whose requests are in the totals; all that stand on nothing where none are named
    disks: Vec<String>,
}

impl RecordingFigures {
    /// With the requests of these devices in the totals; of all that stand on nothing where there are none.
    pub fn new(disks: Vec<String>) -> RecordingFigures {
        RecordingFigures { disks, ..RecordingFigures::default() }
    }

    pub fn add(&mut self, judged: &Evaluation) {
        self.window.add(judged);
        self.totals.add(&judged.interval, &self.disks);
        self.operation_counter.add(&judged.interval, &self.disks);
        let look = FigureInput::from(judged);
        for (subject, table) in COMPARED_TABLES.iter().filter_map(|name| figures::find_table(name)).enumerate() {
            self.add_rows(subject, table, &look);
        }
    }

    fn add_rows(&mut self, subject: usize, table: &dyn Table, look: &FigureInput) {
        let heads = table.columns();
        let keys = heads.iter().enumerate().filter(|(_, head)| table.key_columns().contains(&head.title)).map(|(at, _)| at);
        let keys: Vec<usize> = keys.collect();
        let figures: Vec<usize> = (0..heads.len()).filter(|at| heads.get(*at).is_some_and(|head| is_compared(head))).collect();
        let columns: Vec<usize> = keys.iter().chain(&figures).copied().collect();
        for row in table.rows(look, &columns) {
            let (names, cells) = row.cells.split_at(keys.len().min(row.cells.len()));
            let names = names.iter().filter_map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                Cell::Number(_) | Cell::Bound(..) | Cell::Unknown => None,
            });
            let name = names.collect::<Vec<_>>().join(" ");
            for (column, cell) in figures.iter().zip(cells) {
                if let Some(number) = cell.number() {
                    let key = FigureKey { table_index: subject, row: name.clone(), column_index: *column };
                    self.values.entry(key).or_default().push(number);
                }
            }
        }
    }

    /// What was done for as many operations as somebody says there were.
    pub fn totals_for_operations(&self, operations: f64) -> OperationTotals {
        OperationTotals { operations, totals: self.totals }
    }

    /// What was done for those that a command counted while it was recorded.
    pub fn counted_operations(&self) -> Option<OperationTotals> {
        self.operation_counter.operation_totals()
    }

    /// In the order of time; of a long recording one in so many.
    pub fn values(&self, key: &FigureKey) -> &[f64] {
        self.values.get(key).map(DecimatedValues::values).unwrap_or_default()
    }

    pub fn keys(&self) -> impl Iterator<Item = &FigureKey> {
        self.values.keys()
    }

    /// What was found, the worst of each.
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

/// Figures, not names; each once; and nothing that only says what a device was judged against.
fn is_compared(head: &ColumnDefinition) -> bool {
    // A rate may be what moved although a table leaves it out unasked: context switches, say.
    let is_rate = matches!(head.unit, Unit::PerSecond | Unit::KilobytesPerSecond);
    (head.shown_by_default || is_rate) && !matches!(head.unit, Unit::Name | Unit::Id) && !head.reference
}

impl Totals {
    pub(super) fn add(&mut self, interval: &Interval, disks: &[String]) {
        let seconds = interval.seconds;
        self.seconds += seconds;
        let input = &FigureInput { interval, latency_statuses: &[] };
        let amount = |rate: Option<f64>| rate.map(|rate| rate * seconds);
        add_optional(&mut self.cpu_seconds, amount(load::BUSY_CPUS.number(input, interval)));
        add_optional(&mut self.context_switches, amount(load::CONTEXT_SWITCHES_PER_SECOND.number(input, interval)));
        let facts = interval.newer.disks.as_deref().unwrap_or_default();
        for span in &interval.disks {
            let Some(device) = facts.get(span.index) else { continue };
            // What stands on other devices hands its requests on to them: they would be counted twice.
            let counts = match disks {
                [] => device.facts.slaves.is_empty() && device.facts.backing_file.is_none(),
                named => named.iter().any(|name| name.as_bytes() == device.name.as_bytes()),
            };
            if counts {
                add_optional(&mut self.reads, amount(disk::READS_PER_SECOND.number(input, span)));
                add_optional(&mut self.writes, amount(disk::WRITES_PER_SECOND.number(input, span)));
                add_optional(&mut self.read_bytes, amount(disk::READ_BYTES_PER_SECOND.number(input, span)));
                add_optional(&mut self.written_bytes, amount(disk::WRITE_BYTES_PER_SECOND.number(input, span)));
            }
        }
    }

    pub(super) fn merge(&mut self, more: &Totals) {
        let Totals { seconds, cpu_seconds, context_switches, reads, writes, read_bytes, written_bytes } = *more;
        self.seconds += seconds;
        add_optional(&mut self.cpu_seconds, cpu_seconds);
        add_optional(&mut self.context_switches, context_switches);
        add_optional(&mut self.reads, reads);
        add_optional(&mut self.writes, writes);
        add_optional(&mut self.read_bytes, read_bytes);
        add_optional(&mut self.written_bytes, written_bytes);
    }
}

fn add_optional(total: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *total = Some(total.unwrap_or(0.0) + more);
    }
}
