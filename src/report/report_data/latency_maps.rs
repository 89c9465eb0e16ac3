//! How long the requests of a disk took over time: for each operation the histograms of single requests, which the eBPF program
//! counts, added up to at most `MAX_COLUMNS` columns of one or more steps of the report.

use std::collections::BTreeMap;

use crate::ids::DiskId;
use crate::interval::block_latency::LatencyHistogram;
use crate::interval::disk::{DiskSpan, Operation};

/// Columns of a map at most: a histogram has about a hundred times the size of a figure.
const MAX_COLUMNS: usize = 120;

/// Disks that are kept: the first ones with requests. No page shows as many.
const MAX_DISKS: usize = 64;

/// The histograms of all disks.
#[derive(Clone, Debug)]
pub struct LatencyMaps {
    steps_per_column: usize,
    disks: BTreeMap<DiskId, BTreeMap<Operation, Vec<Column>>>,
}

/// The requests of one operation of one disk.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyMap {
    /// `disk-sdb-reads`
    pub id: String,
    pub title: String,
    pub operation: Operation,
    /// All together
    pub total: LatencyHistogram,
    pub steps_per_column: usize,
    /// As far as there were requests
    pub columns: Vec<Column>,
}

/// The requests that completed within the steps of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    pub latencies: LatencyHistogram,
    /// Requests in intervals without histogram
    pub unmeasured: u64,
}

impl LatencyMaps {
    /// For a report with that many steps; there may be more, if there are gaps.
    pub fn new(steps: usize) -> LatencyMaps {
        LatencyMaps { steps_per_column: steps.div_ceil(MAX_COLUMNS).max(1), disks: BTreeMap::new() }
    }

    /// Adds the requests of a disk in an interval of that step.
    pub fn add(&mut self, disk: &DiskSpan, step: usize) {
        if disk.completed() == 0 && disk.latencies.is_empty() {
            return;
        }
        while step / self.steps_per_column >= MAX_COLUMNS {
            self.halve_columns();
        }
        let index = step / self.steps_per_column;
        if self.disks.len() >= MAX_DISKS && !self.disks.contains_key(&disk.id) {
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
            match known {
                Some(known) => column.latencies.merge(&known.total),
                None => column.unmeasured = column.unmeasured.saturating_add(span.completed),
            }
        }
    }

    /// The maps of a disk: one for each operation of which requests were measured.
    pub fn of_disk(&self, disk: DiskId, name: &str) -> Vec<LatencyMap> {
        let operations = self.disks.get(&disk).into_iter().flatten();
        let maps = operations.map(|(&operation, columns)| LatencyMap {
            id: format!("disk-{name}-{}", operation.plural()),
            title: format!("Disk {name}: latency of {}", operation.plural()),
            operation,
            total: LatencyHistogram::sum(columns.iter().map(|column| &column.latencies)),
            steps_per_column: self.steps_per_column,
            columns: columns.clone(),
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
