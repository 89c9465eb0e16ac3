//! What begins, gets worse or better, and ends, in a line each: a log to leave running.

use serde::Serialize;

use super::json::{Reported, lossy, moment, plain};
use super::text::printable;
use super::window::Chosen;
use crate::findings::{Finding, Judged, Severity, Verdict};
use crate::sample::{Host, Instant};

/// Follows judged intervals, one after the other.
#[derive(Debug, Default)]
pub struct Log {
    chosen: Chosen,
    open: Option<Verdict>,
    worst: Option<Severity>,
}

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Begins,
    Worse,
    Better,
    Ends,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub at: Instant,
    pub change: Change,
    pub finding: Finding,
}

impl Log {
    pub fn of(chosen: Chosen) -> Log {
        Log { chosen, ..Log::default() }
    }

    /// The worst that ever held; `None` where nothing did.
    pub fn worst(&self) -> Option<Severity> {
        self.worst
    }

    /// Whether any interval was there to be judged.
    pub fn is_empty(&self) -> bool {
        self.open.is_none()
    }

    /// What is new with this interval: ends first, since what begins may be what followed.
    pub fn take(&mut self, judged: &Judged) -> Vec<Entry> {
        let at = judged.interval.at();
        let entry = |change, finding: &Finding| Entry { at, change, finding: finding.clone() };
        let before = self.open.replace(judged.verdict.clone()).unwrap_or_default();
        let mut entries: Vec<Entry> = judged.ended.iter().map(|finding| entry(Change::Ends, finding)).collect();
        for finding in judged.verdict.iter() {
            let same =
                |other: &&Finding| (other.kind, other.since, &other.subject) == (finding.kind, finding.since, &finding.subject);
            match before.iter().find(same).map(|before| finding.severity.cmp(&before.severity)) {
                None => entries.push(entry(Change::Begins, finding)),
                Some(std::cmp::Ordering::Greater) => entries.push(entry(Change::Worse, finding)),
                Some(std::cmp::Ordering::Less) => entries.push(entry(Change::Better, finding)),
                Some(std::cmp::Ordering::Equal) => {}
            }
        }
        entries.retain(|entry| self.chosen.holds(entry.finding.kind));
        self.worst = self.worst.max(entries.iter().map(|entry| entry.finding.severity).max());
        entries
    }
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Change::Begins => "begins",
            Change::Worse => "worse",
            Change::Better => "better",
            Change::Ends => "ends",
        }
    }
}

/// `2026-11-21T15:00:00.000Z db1 begins warning disk-latency: sda: writes …`
pub fn text(host: &Host, entry: &Entry) -> String {
    let Entry { at, change, finding } = entry;
    let lasted = match (change, finding.until) {
        (Change::Ends, Some(until)) => format!(" (lasted {:.1} s)", until.seconds_since(finding.since)),
        (Change::Begins, _) => String::new(),
        _ => format!(" (since {})", moment(finding.since)),
    };
    format!(
        "{} {} {:<6} {} {}: {}{lasted}\n",
        moment(*at),
        printable(&lossy(&host.hostname)),
        change.word(),
        finding.severity.word(),
        finding.kind.word(),
        printable(&finding.sentence),
    )
}

/// The same as an object, on one line: the finding as `check --json` has it, with what became of it, when and where.
pub fn json(host: &Host, entry: &Entry) -> String {
    let line = Line {
        schema: "stalltop/1",
        at: moment(entry.at),
        host: lossy(&host.hostname),
        change: entry.change,
        finding: Reported::of(&entry.finding),
    };
    // Strings, numbers and lists cannot fail to become JSON.
    plain(&serde_json::to_string(&line).unwrap_or_default()) + "\n"
}

#[derive(Serialize)]
struct Line {
    schema: &'static str,
    at: String,
    host: String,
    change: Change,
    finding: Reported,
}
