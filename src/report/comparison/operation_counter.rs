//! What was done while a recorder's command counted operations (`record --ops`).

use std::sync::Arc;

use super::recording_figures::Totals;
use crate::interval::Interval;
use crate::sample::Host;
use crate::sample::operations::Operations;

/// So many operations, and what was done meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationTotals {
    pub operations: f64,
    pub totals: Totals,
}

/// Grows by intervals: from each total that the command printed to the next one that is no lower.
#[derive(Debug, Default)]
pub struct OperationCounter {
    last: Option<Operations>,
    host: Option<Arc<Host>>,
    operations: u64,
    /// Between the totals, by when they were printed
    elapsed_ns: u64,
    totals: Totals,
    /// Since the last total
    pending_totals: Totals,
}

impl OperationCounter {
    pub fn add(&mut self, interval: &Interval, disks: &[String]) {
        // Nothing goes on from one run of the machine to the next.
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
        // Where the count began anew, what was done meanwhile belongs to no operations that are known.
        if let Some(passed) = now.total.since(last.total) {
            self.operations = self.operations.saturating_add(passed);
            self.elapsed_ns = self.elapsed_ns.saturating_add(span_ns);
            self.totals.merge(&pending);
        }
        self.last = Some(now);
    }

    /// `None` where nothing was counted. A command answers a little before or after the samples are taken: so many
    /// operations as went with the time of the intervals.
    pub fn operation_totals(&self) -> Option<OperationTotals> {
        let seconds = self.elapsed_ns as f64 / 1e9;
        (self.operations > 0 && seconds > 0.0).then(|| OperationTotals {
            operations: self.operations as f64 * self.totals.seconds / seconds,
            totals: self.totals,
        })
    }
}
