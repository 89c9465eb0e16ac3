//! `check --watch`: one line for each finding that begins, gets worse or better, or ends.

use serde::Serialize;

use super::formatting::printable;
use super::formatting::rfc3339;
use super::json::{FindingJson, to_line};
use super::window::KindFilter;
use crate::findings::{ActiveFindings, Evaluation, Finding, Severity};
use crate::sample::{Host, Instant};

/// Follows evaluated intervals in the order of time.
#[derive(Debug, Default)]
pub struct FindingLog {
    filter: KindFilter,
    active: Option<ActiveFindings>,
    worst_severity: Option<Severity>,
}

/// The change of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingChange {
    Begins,
    Worse,
    Better,
    Ends,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    pub at: Instant,
    pub change: FindingChange,
    pub finding: Finding,
}

impl FindingLog {
    pub fn new(chosen: KindFilter) -> FindingLog {
        FindingLog { filter: chosen, ..FindingLog::default() }
    }

    /// The worst severity of any finding; `None` without findings.
    pub fn worst_severity(&self) -> Option<Severity> {
        self.worst_severity
    }

    /// Whether there was any interval.
    pub fn is_empty(&self) -> bool {
        self.active.is_none()
    }

    /// The changes with this interval: ends first, then begins.
    pub fn update(&mut self, evaluation: &Evaluation) -> Vec<LogEntry> {
        let at = evaluation.interval.at();
        let entry = |change, finding: &Finding| LogEntry { at, change, finding: finding.clone() };
        let before = self.active.replace(evaluation.active.clone()).unwrap_or_default();
        let mut entries: Vec<LogEntry> = evaluation.ended.iter().map(|finding| entry(FindingChange::Ends, finding)).collect();
        for finding in evaluation.active.iter() {
            let same =
                |other: &&Finding| (other.kind, other.since, &other.subject) == (finding.kind, finding.since, &finding.subject);
            match before.iter().find(same).map(|before| finding.severity.cmp(&before.severity)) {
                None => entries.push(entry(FindingChange::Begins, finding)),
                Some(std::cmp::Ordering::Greater) => entries.push(entry(FindingChange::Worse, finding)),
                Some(std::cmp::Ordering::Less) => entries.push(entry(FindingChange::Better, finding)),
                Some(std::cmp::Ordering::Equal) => {}
            }
        }
        entries.retain(|entry| self.filter.allows(entry.finding.kind));
        self.worst_severity = self.worst_severity.max(entries.iter().map(|entry| entry.finding.severity).max());
        entries
    }
}

impl FindingChange {
    fn as_str(self) -> &'static str {
        match self {
            FindingChange::Begins => "begins",
            FindingChange::Worse => "worse",
            FindingChange::Better => "better",
            FindingChange::Ends => "ends",
        }
    }
}

/// `2026-11-21T15:00:00.000Z db1 begins warning disk-latency: sda: writes …`
pub fn text(host: &Host, entry: &LogEntry) -> String {
    let LogEntry { at, change, finding } = entry;
    let lasted = match (change, finding.until) {
        (FindingChange::Ends, Some(until)) => format!(" (lasted {:.1} s)", until.seconds_since(finding.since)),
        (FindingChange::Begins, _) => String::new(),
        _ => format!(" (since {})", rfc3339(finding.since)),
    };
    format!(
        "{} {} {:<6} {} {}: {}{lasted}\n",
        rfc3339(*at),
        printable(&host.hostname.to_string_lossy()),
        change.as_str(),
        finding.severity.as_str(),
        finding.kind.as_str(),
        printable(&finding.sentence),
    )
}

/// The same as a JSON object on one line: the finding as in `check --json`, with its change, time and host.
pub fn json(host: &Host, entry: &LogEntry) -> String {
    let line = JsonLine {
        schema: "stalltop/1",
        at: rfc3339(entry.at),
        host: host.hostname.to_string_lossy(),
        change: entry.change,
        finding: FindingJson::new(&entry.finding),
    };
    to_line(&line)
}

#[derive(Serialize)]
struct JsonLine {
    schema: &'static str,
    at: String,
    host: String,
    change: FindingChange,
    finding: FindingJson,
}
