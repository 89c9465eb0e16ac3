//! Formats findings, times and text from outside for people.

use crate::findings::{Evidence, Severity, Subject, Value};
use crate::ids::escape_unprintable;
use crate::sample::{Instant, Name};
pub use crate::units::format::{bytes, latency, multiple, pluralize, short_number, three_digits};
use crate::units::time;
pub use crate::units::time::duration;

/// Label and value of evidence.
pub fn format_evidence(evidence: &Evidence) -> (String, String) {
    let value = match &evidence.value {
        Value::Number(value) => evidence.unit().format(*value),
        Value::Text(text) => printable(&text.to_string_lossy()),
        Value::Chain(links) => links.iter().map(|link| printable(&link.what)).collect::<Vec<_>>().join(" ← "),
        Value::Unknown => "-".to_owned(),
    };
    (evidence.label(), value)
}

/// The subject of a finding; empty if it is the whole machine.
pub fn subject_label(subject: &Subject) -> String {
    match subject {
        Subject::Task { id, .. } => format!("{} ({})", subject_name(subject), id.tid),
        _ => subject_name(subject),
    }
}

/// The same without what is another number in the next recording.
pub fn subject_name(subject: &Subject) -> String {
    let name = |name: &Name| printable(&name.to_string_lossy());
    match subject {
        Subject::Host => String::new(),
        Subject::Cpu(id) => format!("cpu{}", id.0),
        Subject::Disk { name: disk, .. } => name(disk),
        Subject::Nic(id) => name(&id.name),
        Subject::Task { name: task, .. } | Subject::Group { name: task, .. } => name(task),
        Subject::Cgroup(id) => name(&id.path),
        Subject::Socket(address) | Subject::RemoteHost(address) | Subject::Limit(address) => name(address),
        Subject::NetworkNamespace { owner, nic: Some(nic), .. } => format!("{} of {}", name(&nic.name), name(owner)),
        Subject::NetworkNamespace { owner, nic: None, .. } => name(owner),
    }
}

/// Escapes control characters and characters that change the direction of text.
pub fn printable(text: &str) -> String {
    escape_unprintable(text).into_owned()
}

/// The overall status; notes do not count.
pub fn overall_status(worst: Option<Severity>) -> &'static str {
    match worst {
        Some(Severity::Critical) => "critical",
        Some(Severity::Warning) => "warning",
        Some(Severity::Note) | None => "ok",
    }
}

/// RFC 3339 in UTC, with milliseconds.
pub fn rfc3339(at: Instant) -> String {
    time::rfc3339(at.realtime_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(printable("a\u{1b}[31m\u{202e}b\n"), "a\\u{1b}[31m\\u{202e}b\\n");
    }
}
