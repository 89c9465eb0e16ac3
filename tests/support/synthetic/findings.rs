//! A synthetic finding, for tests of what is made of findings: a part of `synthetic`.

use stalltop::findings::{Finding, Kind, Severity, Subject};
use stalltop::sample::Instant;

/// An active root cause without a sentence that began at boot, is at its threshold, and explains nothing of the host.
pub fn finding(kind: Kind, severity: Severity, subject: Subject) -> Finding {
    Finding {
        kind,
        severity,
        subject,
        since: Instant::default(),
        figures_at: Instant::default(),
        until: None,
        value: 1.0,
        threshold: 1.0,
        unit: "ratio",
        sentence: String::new(),
        evidence: Vec::new(),
        next: Vec::new(),
        explained_share: 0.0,
        cgroup_name: None,
        follows_from: None,
    }
}
