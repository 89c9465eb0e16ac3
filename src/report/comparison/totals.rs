//! Totals of a recording, or of the part of it that belongs to counted operations: time, CPU time, requests, bytes.

use crate::figures::{FigureInput, disk, load};
use crate::interval::Interval;

/// Totals of a stretch of a recording; `None`: unknown.
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
            // A stacked device passes its requests on: they would be counted twice.
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
