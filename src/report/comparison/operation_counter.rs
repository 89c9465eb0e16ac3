//! The operations counted while recording (`record --ops`), and the totals of the same time.

use std::sync::Arc;

use super::totals::Totals;
use crate::interval::Interval;
use crate::sample::Host;
use crate::sample::operations::Operations;

/// A number of operations, and the totals of the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationTotals {
    pub operations: f64,
    pub totals: Totals,
}

/// Adds the increases between printed totals.
#[derive(Debug, Default)]
pub struct OperationCounter {
    last: Option<Operations>,
    host: Option<Arc<Host>>,
    operations: u64,
    /// Time between the totals, by when they were printed
    elapsed_ns: u64,
    totals: Totals,
    /// Since the last total
    pending_totals: Totals,
}

impl OperationCounter {
    pub fn add(&mut self, interval: &Interval, disks: &[String]) {
        // Totals do not continue over a reboot.
        if self.host.replace(Arc::clone(&interval.host)).is_some_and(|host| !host.is_same_boot(&interval.host)) {
            (self.last, self.pending_totals) = (None, Totals::default());
        }
        let Some(last) = self.last.or(interval.older.operations.ok()) else {
            self.last = interval.newer.operations.ok();
            return;
        };
        self.last = Some(last);
        self.pending_totals.add(interval, disks);
        let Ok(now) = interval.newer.operations else { return };
        let Some(span_ns) = now.printed_boottime_ns.checked_sub(last.printed_boottime_ns).filter(|&span_ns| span_ns > 0) else {
            return;
        };
        let pending = std::mem::take(&mut self.pending_totals);
        // Where the count was reset, the totals of that time belong to no known operations.
        if let Some(passed) = now.total.since(last.total) {
            self.operations = self.operations.saturating_add(passed);
            self.elapsed_ns = self.elapsed_ns.saturating_add(span_ns);
            self.totals.merge(&pending);
        }
        self.last = Some(now);
    }

    /// `None` without operations. The command prints a little before or after a sample is taken: the number of operations is
    /// scaled to the time of the intervals.
    pub fn operation_totals(&self) -> Option<OperationTotals> {
        let seconds = self.elapsed_ns as f64 / 1e9;
        (self.operations > 0 && seconds > 0.0).then(|| OperationTotals {
            operations: self.operations as f64 * self.totals.seconds / seconds,
            totals: self.totals,
        })
    }
}
