//! How long the requests of a disk took over time: for each operation the histograms of single requests, which the eBPF program
//! counts, added up to at most `MAX_COLUMNS` columns of one or more steps of the report.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::sample::Sample;

/// Columns of a map at most: a histogram has about a hundred times the size of a figure.
const MAX_COLUMNS: usize = 120;

/// Disks that are kept: the first ones with measured requests. A page shows fewer.
pub const MAX_DISKS: usize = 32;

/// Whether single requests were measured in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The program ran in all of it. It may still count for a part of the time only
    Whole,
    /// It ran in a part of it, or not at all
    Incomplete,
}

impl Coverage {
    pub fn from_interval(interval: &Interval) -> Coverage {
        let attached = |sample: &Sample| Some(sample.block_latencies.as_ref().ok()?.since_boottime_ns);
        match (attached(&interval.older), attached(&interval.newer)) {
            (Some(older), Some(newer)) if older == newer => Coverage::Whole,
            _ => Coverage::Incomplete,
        }
    }
}

/// The histograms of all disks.
#[derive(Clone, Debug)]
pub struct LatencyMaps {
    steps_per_column: usize,
    disks: BTreeMap<DiskId, BTreeMap<Operation, Vec<Column>>>,
    /// With measured requests, beyond `MAX_DISKS`
    left_out: BTreeSet<DiskId>,
}

/// The requests of one operation of one disk.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyMap<'a> {
    /// `disk-sdb-reads`
    pub id: String,
    pub title: String,
    pub operation: Operation,
    /// All together
    pub total: LatencyHistogram,
    pub steps_per_column: usize,
    /// As far as there were requests
    pub columns: &'a [Column],
}

/// The requests that completed within the steps of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    pub latencies: LatencyHistogram,
    /// Requests that the histogram lacks, of intervals in which not all were measured
    pub unmeasured: u64,
}

impl LatencyMaps {
    /// For a report with that many steps; there may be more, if there are gaps.
    pub fn new(steps: usize) -> LatencyMaps {
        LatencyMaps { steps_per_column: steps.div_ceil(MAX_COLUMNS).max(1), disks: BTreeMap::new(), left_out: BTreeSet::new() }
    }

    /// Adds the requests of a disk in an interval of that step.
    pub fn add(&mut self, disk: &DiskSpan, coverage: Coverage, step: usize) {
        if disk.completed() == 0 && disk.latencies.is_empty() {
            return;
        }
        while step / self.steps_per_column >= MAX_COLUMNS {
            self.halve_columns();
        }
        let index = step / self.steps_per_column;
        // A disk whose requests are never measured takes no place.
        let has_place = || self.disks.len() < MAX_DISKS && (coverage != Coverage::Whole || !disk.latencies.is_empty());
        if !self.disks.contains_key(&disk.id) && !has_place() {
            if !disk.latencies.is_empty() {
                self.left_out.insert(disk.id);
            }
            return;
        }
        let operations = self.disks.entry(disk.id).or_default();
        for (operation, span) in disk.operations() {
            let known = disk.latency(operation);
            if span.completed == 0 && known.is_none() {
                continue;
            }
            let columns = operations.entry(operation).or_default();
            if columns.len() <= index {
                columns.resize_with(index + 1, Column::default);
            }
            let Some(column) = columns.get_mut(index) else { continue };
            if let Some(known) = known {
                column.latencies.merge(&known.total);
            }
            let unmeasured = match coverage {
                Coverage::Whole => disk.unmeasured(operation),
                Coverage::Incomplete => span.completed.saturating_sub(known.map_or(0, |known| known.total.requests())),
            };
            column.unmeasured = column.unmeasured.saturating_add(unmeasured);
        }
    }

    /// Disks with measured requests of which nothing is kept.
    pub fn left_out_disks(&self) -> usize {
        self.left_out.len()
    }

    /// The maps of a disk: one for each operation of which requests were measured.
    pub fn of_disk(&self, disk: DiskId, name: &str) -> Vec<LatencyMap<'_>> {
        let operations = self.disks.get(&disk).into_iter().flatten();
        let maps = operations.map(|(&operation, columns)| LatencyMap {
            id: format!("disk-{name}-{}", operation.plural()),
            title: format!("Disk {name}: latency of {}", operation.plural()),
            operation,
            total: LatencyHistogram::sum(columns.iter().map(|column| &column.latencies)),
            steps_per_column: self.steps_per_column,
            columns,
        });
        maps.filter(|map| map.total.requests() > 0).collect()
    }

    /// Makes one column of each two.
    fn halve_columns(&mut self) {
        self.steps_per_column *= 2;
        for columns in self.disks.values_mut().flat_map(BTreeMap::values_mut) {
            let pairs = columns.chunks(2).map(|pair| {
                let mut sum = Column::default();
                for column in pair {
                    sum.latencies.merge(&column.latencies);
                    sum.unmeasured = sum.unmeasured.saturating_add(column.unmeasured);
                }
                sum
            });
            *columns = pairs.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::block_latencies::OperationLatency;
    use crate::interval::disk::OpSpan;

    /// A disk with that many reads, of which as many were measured in bucket 80.
    fn reads(minor: u32, completed: u64, measured: u64) -> DiskSpan {
        let total = LatencyHistogram::new([(80, measured)]);
        let none = LatencyHistogram::default;
        let known = OperationLatency { operation: Operation::Read, total, queue: none(), device: none(), sequential: 0 };
        DiskSpan {
            id: DiskId { major: 8, minor },
            index: 0,
            seconds: 1.0,
            reads: OpSpan { completed, ..OpSpan::default() },
            writes: OpSpan::default(),
            discards: None,
            flushes: None,
            aqu_sz: None,
            in_flight: 0,
            busy: None,
            stalled: false,
            latencies: if measured > 0 { vec![known] } else { Vec::new() },
        }
    }

    fn requests(map: &LatencyMap) -> Vec<(u64, u64)> {
        map.columns.iter().map(|column| (column.latencies.requests(), column.unmeasured)).collect()
    }

    #[test]
    fn requests_are_added_up_by_column() {
        let mut maps = LatencyMaps::new(240);
        for (step, measured) in [(0, 5), (1, 6), (2, 0), (5, 7)] {
            let coverage = if measured > 0 { Coverage::Whole } else { Coverage::Incomplete };
            maps.add(&reads(0, 7, measured), coverage, step);
        }
        maps.add(&reads(0, 9, 4), Coverage::Incomplete, 5);
        maps.add(&reads(1, 9, 0), Coverage::Whole, 3);
        maps.add(&reads(1, 9, 0), Coverage::Incomplete, 3);
        let [map] = maps.of_disk(DiskId { major: 8, minor: 0 }, "sda").try_into().unwrap();
        assert_eq!((map.id.as_str(), map.steps_per_column), ("disk-sda-reads", 2));
        assert_eq!(requests(&map), [(11, 0), (0, 7), (11, 5)]);
        assert_eq!(map.total.requests(), 22);
        assert_eq!(maps.of_disk(DiskId { major: 8, minor: 1 }, "sdb"), [], "nothing of it was measured");
    }

    #[test]
    fn requests_that_a_limited_program_left_out_are_counted() {
        let mut maps = LatencyMaps::new(1);
        maps.add(&reads(0, 1000, 270), Coverage::Whole, 0);
        maps.add(&reads(0, 1000, 990), Coverage::Whole, 0);
        let [map] = maps.of_disk(DiskId { major: 8, minor: 0 }, "sda").try_into().unwrap();
        assert_eq!(requests(&map), [(1260, 730)]);
        let share = |completed, measured| reads(0, completed, measured).measured_share(Operation::Read).map(|share| share.0);
        assert_eq!([share(1000, 270), share(1000, 990), share(3, 2), share(3, 0)], [Some(0.27), Some(1.0), Some(1.0), None]);
    }

    #[test]
    fn there_are_never_more_columns_or_disks_than_are_kept() {
        let mut maps = LatencyMaps::new(10);
        for step in 0..1000 {
            maps.add(&reads(0, 1, 1), Coverage::Whole, step);
        }
        let [map] = maps.of_disk(DiskId { major: 8, minor: 0 }, "sda").try_into().unwrap();
        assert_eq!((map.steps_per_column, map.columns.len()), (16, 63));
        assert_eq!((requests(&map)[61], requests(&map)[62], map.total.requests()), ((16, 0), (8, 0), 1000));
        maps.add(&reads(200, 1, 0), Coverage::Whole, 1000);
        for minor in 0..100 {
            maps.add(&reads(minor, 1, 1), Coverage::Whole, 1000);
        }
        let kept = (0..100).filter(|&minor| !maps.of_disk(DiskId { major: 8, minor }, "sda").is_empty()).count();
        assert_eq!((kept, maps.left_out_disks()), (MAX_DISKS, 100 - MAX_DISKS), "one without measured requests takes no place");
        maps.add(&reads(99, 1, 1), Coverage::Whole, 1001);
        maps.add(&reads(200, 1, 0), Coverage::Whole, 1001);
        maps.add(&reads(201, 1, 0), Coverage::Incomplete, 1001);
        assert_eq!(maps.left_out_disks(), 100 - MAX_DISKS, "each once, and none without measured requests");
    }
}
