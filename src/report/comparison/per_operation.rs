//! The cost of one operation.

use super::{ComparedRecording, OperationTotals, Totals};

/// The totals of one recording ÷ its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PerOperation {
    pub operations_per_second: Option<f64>,
    /// Of all CPUs
    pub cpu_seconds: Option<f64>,
    pub context_switches: Option<f64>,
    pub reads: Option<f64>,
    pub writes: Option<f64>,
    pub read_bytes: Option<f64>,
    pub written_bytes: Option<f64>,
}

impl PerOperation {
    /// `None`: not counted.
    pub fn for_recording(recording: &ComparedRecording) -> Option<PerOperation> {
        let OperationTotals { operations, totals } = recording.operation_totals.filter(|work| work.operations > 0.0)?;
        let Totals { seconds, cpu_seconds, context_switches, reads, writes, read_bytes, written_bytes } = totals;
        let each = |total: Option<f64>| total.map(|total| total / operations);
        Some(PerOperation {
            operations_per_second: (seconds > 0.0).then(|| operations / seconds),
            cpu_seconds: each(cpu_seconds),
            context_switches: each(context_switches),
            reads: each(reads),
            writes: each(writes),
            read_bytes: each(read_bytes),
            written_bytes: each(written_bytes),
        })
    }

    /// Each figure as a multiple of the base's.
    pub fn relative_to(&self, base: &PerOperation) -> PerOperation {
        let share = |new: Option<f64>, old: Option<f64>| new.zip(old).filter(|(_, old)| *old > 0.0).map(|(new, old)| new / old);
        PerOperation {
            operations_per_second: share(self.operations_per_second, base.operations_per_second),
            cpu_seconds: share(self.cpu_seconds, base.cpu_seconds),
            context_switches: share(self.context_switches, base.context_switches),
            reads: share(self.reads, base.reads),
            writes: share(self.writes, base.writes),
            read_bytes: share(self.read_bytes, base.read_bytes),
            written_bytes: share(self.written_bytes, base.written_bytes),
        }
    }
}
