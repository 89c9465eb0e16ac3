//! Makes the summary of an evaluated interval that a recording keeps (`recording/format/frame_summary.rs`).

use crate::findings::{Evaluation, Severity};
use crate::recording::{FrameSummary, SummarySeverity};

/// Summarizes the interval that ends with a sample, for the timeline of a replay.
pub fn frame_summary(evaluation: Option<&Evaluation>) -> FrameSummary {
    let Some(evaluation) = evaluation else { return FrameSummary::default() };
    let share = |share: f64| (share.clamp(0.0, 1.0) * 255.0).round() as u8;
    let interval = &evaluation.interval;
    FrameSummary {
        busy: interval.cpu.as_ref().map_or(0, |cpu| share(cpu.busy())),
        blocked: interval.idle_blocked.as_ref().map_or(0, |blocked| share(blocked.ratio)),
        worst_severity: match evaluation.active.iter().map(|finding| finding.severity).max() {
            None => SummarySeverity::NoFinding,
            Some(Severity::Note) => SummarySeverity::Note,
            Some(Severity::Warning) => SummarySeverity::Warning,
            Some(Severity::Critical) => SummarySeverity::Critical,
        },
    }
}
