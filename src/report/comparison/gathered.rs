//! One recording as a comparison needs it: all values of each figure, what was found, and what was done in all.

use std::collections::BTreeMap;

use super::counted::{Counted, Work};
use super::thinned::Thinned;
use crate::findings::{Finding, Judged, Kind, Severity};
use crate::interval::Interval;
use crate::report::table::{self, Cell, Head, Look, Table, Unit};
use crate::report::window::Window;
use crate::report::words::subject_name;

/// The subjects that are compared: those whose rows can be found again in another recording.
const SUBJECTS: [&str; 8] = ["cpu", "load", "memory", "pressure", "disk", "nic", "tcp", "udp"];

/// Which figure of which row of which table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its place among the subjects, so that the order is theirs
    subject: usize,
    /// `sdb`; empty where there is one row
    pub row: String,
    column: usize,
}

impl Key {
    pub fn subject(&self) -> &'static str {
        SUBJECTS.get(self.subject).copied().unwrap_or_default()
    }

    /// What the figure is.
    pub fn head(&self) -> Option<&'static Head> {
        table::named(self.subject())?.heads().get(self.column).copied()
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
pub type About = (Kind, String);

/// How bad a finding was at worst, and a sentence of that time.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub severity: Severity,
    pub sentence: String,
}

/// Grows by intervals.
#[derive(Debug, Default)]
pub struct Gathered {
    pub window: Window,
    pub totals: Totals,
    counted: Counted,
    values: BTreeMap<Key, Thinned>,
    /// Devices whose requests are in the totals; all that stand on nothing where none are named
    disks: Vec<String>,
}

impl Gathered {
    /// With the requests of these devices in the totals; of all that stand on nothing where there are none.
    pub fn new(disks: Vec<String>) -> Gathered {
        Gathered { disks, ..Gathered::default() }
    }

    pub fn add(&mut self, judged: &Judged) {
        self.window.add(judged);
        self.totals.add(&judged.interval, &self.disks);
        self.counted.add(&judged.interval, &self.disks);
        let look = Look::from(judged);
        for (subject, table) in SUBJECTS.iter().filter_map(|name| table::named(name)).enumerate() {
            self.take(subject, table, &look);
        }
    }

    fn take(&mut self, subject: usize, table: &dyn Table, look: &Look) {
        let heads = table.heads();
        let keys = heads.iter().enumerate().filter(|(_, head)| table.key().contains(&head.name)).map(|(at, _)| at);
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
                    let key = Key { subject, row: name.clone(), column: *column };
                    self.values.entry(key).or_default().push(number);
                }
            }
        }
    }

    /// What was done for as many operations as somebody says there were.
    pub fn work(&self, operations: f64) -> Work {
        Work { operations, totals: self.totals }
    }

    /// What was done for those that a command counted while it was recorded.
    pub fn counted(&self) -> Option<Work> {
        self.counted.work()
    }

    /// In the order of time; of a long recording one in so many.
    pub fn values(&self, key: &Key) -> &[f64] {
        self.values.get(key).map(Thinned::values).unwrap_or_default()
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.values.keys()
    }

    /// What was found, the worst of each.
    pub fn findings(&self) -> BTreeMap<About, Found> {
        let mut found: BTreeMap<About, Found> = BTreeMap::new();
        let about = |finding: &Finding| (finding.kind, subject_name(&finding.subject));
        for finding in self.window.findings() {
            let new = Found { severity: finding.severity, sentence: finding.sentence.clone() };
            let known = found.entry(about(finding)).or_insert_with(|| new.clone());
            if new.severity > known.severity {
                *known = new;
            }
        }
        found
    }
}

/// Figures, not names; each once; and nothing that only says what a device was judged against.
fn is_compared(head: &Head) -> bool {
    // A rate may be what moved although a table leaves it out unasked: context switches, say.
    let is_rate = matches!(head.unit, Unit::Rate | Unit::KbRate);
    (head.usual || is_rate) && !matches!(head.unit, Unit::Name | Unit::Id) && !head.json.contains("_baseline_")
}

impl Totals {
    pub(super) fn add(&mut self, interval: &Interval, disks: &[String]) {
        let seconds = interval.seconds;
        self.seconds += seconds;
        let cpu = interval.cpu.as_ref();
        sum(&mut self.cpu_seconds, cpu.map(|cpu| cpu.busy() * cpu.cpus.len() as f64 * seconds));
        sum(&mut self.context_switches, cpu.and_then(|cpu| cpu.context_switches).map(|rate| rate.0 * seconds));
        let facts = interval.newer.disks.as_deref().unwrap_or_default();
        for span in &interval.disks {
            let Some(disk) = facts.get(span.index) else { continue };
            // What stands on other devices hands its requests on to them: they would be counted twice.
            let counts = match disks {
                [] => disk.facts.slaves.is_empty() && disk.facts.backing_file.is_none(),
                named => named.iter().any(|name| name.as_bytes() == disk.name.as_bytes()),
            };
            if counts {
                sum(&mut self.reads, Some(span.reads.completed as f64));
                sum(&mut self.writes, Some(span.writes.completed as f64));
                sum(&mut self.read_bytes, Some(span.reads.kilobytes.0 * 1024.0 * seconds));
                sum(&mut self.written_bytes, Some(span.writes.kilobytes.0 * 1024.0 * seconds));
            }
        }
    }

    pub(super) fn join(&mut self, more: &Totals) {
        let Totals { seconds, cpu_seconds, context_switches, reads, writes, read_bytes, written_bytes } = *more;
        self.seconds += seconds;
        sum(&mut self.cpu_seconds, cpu_seconds);
        sum(&mut self.context_switches, context_switches);
        sum(&mut self.reads, reads);
        sum(&mut self.writes, writes);
        sum(&mut self.read_bytes, read_bytes);
        sum(&mut self.written_bytes, written_bytes);
    }
}

fn sum(total: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *total = Some(total.unwrap_or(0.0) + more);
    }
}
