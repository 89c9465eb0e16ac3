//! What was done while a recorder's command counted operations (`record --ops`).

use std::sync::Arc;

use super::gathered::Totals;
use crate::interval::Interval;
use crate::sample::Host;
use crate::sample::operations::Operations;

/// So many operations, and what was done meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    pub operations: f64,
    pub totals: Totals,
}

/// Grows by intervals: from each total that the command printed to the next one that is no lower.
#[derive(Debug, Default)]
pub struct Counted {
    last: Option<Operations>,
    host: Option<Arc<Host>>,
    operations: u64,
    /// Between the totals, by when they were printed
    span_ns: u64,
    done: Totals,
    /// Since the last total
    pending: Totals,
}

impl Counted {
    pub fn add(&mut self, interval: &Interval, disks: &[String]) {
        // Nothing goes on from one run of the machine to the next.
        if self.host.replace(Arc::clone(&interval.host)).is_some_and(|host| !host.is_same_boot(&interval.host)) {
            (self.last, self.pending) = (None, Totals::default());
        }
        let Some(last) = self.last.or(interval.older.operations.ok()) else {
            self.last = interval.newer.operations.ok();
            return;
        };
        self.last = Some(last);
        self.pending.add(interval, disks);
        let Ok(now) = interval.newer.operations else { return };
        let Some(span_ns) = now.printed_boottime_ns.checked_sub(last.printed_boottime_ns).filter(|&span_ns| span_ns > 0) else {
            return;
        };
        let pending = std::mem::take(&mut self.pending);
        // Where the count began anew, what was done meanwhile belongs to no operations that are known.
        if let Some(passed) = now.total.since(last.total) {
            self.operations = self.operations.saturating_add(passed);
            self.span_ns = self.span_ns.saturating_add(span_ns);
            self.done.join(&pending);
        }
        self.last = Some(now);
    }

    /// `None` where nothing was counted. A command answers a little before or after the samples are taken: so many
    /// operations as went with the time of the intervals.
    pub fn work(&self) -> Option<Work> {
        let seconds = self.span_ns as f64 / 1e9;
        (self.operations > 0 && seconds > 0.0)
            .then(|| Work { operations: self.operations as f64 * self.done.seconds / seconds, totals: self.done })
    }
}
