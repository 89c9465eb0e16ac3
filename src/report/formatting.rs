//! Formats quantities for people: three significant digits, with their unit.

use super::report_data::series_definitions::ChartUnit;
use super::text::printable;
use super::window::Window;
use crate::findings::{Evidence, Severity, Subject, Value};
use crate::sample::Name;
use crate::units::Millis;
pub use crate::units::format::{bytes, latency, multiple, pluralize, three_digits};
pub use crate::units::time::duration;

/// A value of a chart.
pub fn format_quantity(value: f64, unit: ChartUnit) -> String {
    match unit {
        ChartUnit::Ratio => format!("{} %", three_digits(value * 100.0)),
        ChartUnit::Threads | ChartUnit::Cpus => three_digits(value),
        ChartUnit::Seconds => latency(Millis(value * 1000.0)),
        ChartUnit::Bytes => bytes(value),
        ChartUnit::BytesPerSecond => format!("{}/s", bytes(value)),
    }
}

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
        Subject::Socket(address) | Subject::RemoteHost(address) => name(address),
        Subject::NetworkNamespace { owner, nic: Some(nic), .. } => format!("{} of {}", name(&nic.name), name(owner)),
        Subject::NetworkNamespace { owner, nic: None, .. } => name(owner),
    }
}

/// The sentence if no finding is worse than a note; else `None`.
pub fn no_problem_sentence(window: &Window) -> Option<String> {
    let notes = window.findings().len() as u64;
    match (window.worst_severity(), window.includes_all_kinds()) {
        (None, true) => Some("Nothing is wrong as far as it can be seen".into()),
        (None, false) => Some("Nothing of the selected kinds is wrong, as far as it can be seen".into()),
        (Some(Severity::Note), true) => {
            Some(format!("Nothing to warn of as far as it can be seen; {}", pluralize(notes, "note")))
        }
        (Some(Severity::Note), false) => {
            Some(format!("Nothing to warn of among the selected kinds, as far as it can be seen; {}", pluralize(notes, "note")))
        }
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        let said = [
            format_quantity(0.4567, ChartUnit::Ratio),
            format_quantity(0.1087, ChartUnit::Seconds),
            format_quantity(0.000_052, ChartUnit::Seconds),
            format_quantity(0.0, ChartUnit::Seconds),
            format_quantity(1536.0, ChartUnit::BytesPerSecond),
            format_quantity(1023.0, ChartUnit::Bytes),
            format_quantity(61.04, ChartUnit::Threads),
        ];
        assert_eq!(said, ["45.7 %", "109 ms", "52.0 µs", "0 ms", "1.50 KiB/s", "1.00 KiB", "61.0"]);
    }
}
