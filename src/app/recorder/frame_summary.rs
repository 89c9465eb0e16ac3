//! The summary of an interval that a recording keeps beside its frame.

use crate::findings::{Evaluation, Severity};
use crate::recording::{FrameSummary, SummarySeverity};

/// What was seen in the interval that a sample ends, as the strip of time will show it.
pub fn frame_summary(judged: Option<&Evaluation>) -> FrameSummary {
    let Some(judged) = judged else { return FrameSummary::default() };
    let share = |share: f64| (share.clamp(0.0, 1.0) * 255.0).round() as u8;
    let interval = &judged.interval;
    FrameSummary {
        busy: interval.cpu.as_ref().map_or(0, |cpu| share(cpu.busy())),
        blocked: interval.idle_blocked.as_ref().map_or(0, |blocked| share(blocked.ratio)),
        worst_severity: match judged.active.iter().map(|finding| finding.severity).max() {
            None => SummarySeverity::NoFinding,
            Some(Severity::Note) => SummarySeverity::Note,
            Some(Severity::Warning) => SummarySeverity::Warning,
            Some(Severity::Critical) => SummarySeverity::Critical,
        },
    }
}
