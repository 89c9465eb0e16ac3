//! One line as monitoring plugins write it: `STALLTOP WARNING - what is wrong | label=value[unit];warn;crit;min;max …`, by the
//! Monitoring Plugins Development Guidelines, which Nagios, Icinga and Naemon read.

use std::fmt::Write;

use super::formatting::printable;
use super::mean_figures::MeanFigures;
use super::window::Window;
use crate::findings::{Finding, Severity, Thresholds};

/// Length of the text at most: some programs cut longer plugin output in the middle of a figure.
const MAX_LENGTH: usize = 900;

/// The status and the performance data without unknown figures. Findings below `fail_on` do not raise the status.
pub fn plugin_output(window: &Window, fail_on: Severity, thresholds: &Thresholds) -> String {
    if let Some(why) = window.unknown_reason(fail_on) {
        return format!("STALLTOP UNKNOWN - {}\n", escape_bars(&why));
    }
    let findings = window.findings();
    let worst = findings.iter().map(|finding| finding.severity).max();
    let status = match worst.filter(|&worst| worst >= fail_on) {
        Some(Severity::Critical) => "CRITICAL",
        Some(Severity::Warning) => "WARNING",
        Some(Severity::Note) | None => "OK",
    };
    // The worst of the active and the ended findings determines the status; its cause is named first.
    let worst_finding = findings.iter().rev().max_by_key(|finding| finding.severity).copied();
    let first = worst_finding.map(|worst| root_cause(&findings, worst)).filter(|first| first.severity > Severity::Note);
    let mut text = format!("STALLTOP {status} - ");
    match first {
        None => text.push_str(&window.no_problem_sentence().unwrap_or_default().replacen('N', "n", 1)),
        Some(first) => {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}: {}", first.kind.as_str(), truncate(&escape_bars(first.sentence_without_kind())));
            let others = findings.iter().filter(|other| other.severity > Severity::Note && !std::ptr::eq(**other, first));
            let others: Vec<&str> = others.map(|finding| finding.kind.as_str()).collect();
            if !others.is_empty() {
                let _ = write!(text, " (and {}: {})", others.len(), truncate(&others.join(", ")));
            }
        }
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let data = performance_data(&window.figures(), count(Severity::Warning), count(Severity::Critical), thresholds);
    format!("{text} | {}\n", data.join(" "))
}

/// The finding at the beginning of its causes that is more than a note.
fn root_cause<'a>(findings: &[&'a Finding], mut finding: &'a Finding) -> &'a Finding {
    // There are at most as many causes as findings.
    for _ in findings {
        let Some(cause) = finding.cause_among(findings).filter(|cause| cause.severity > Severity::Note) else { break };
        finding = cause;
    }
    finding
}

fn performance_data(figures: &MeanFigures, warnings: usize, criticals: usize, thresholds: &Thresholds) -> Vec<String> {
    let share = |label: &str, ratio: Option<f64>, limits: Option<(f64, f64)>| {
        let limits = limits.map_or(";".to_owned(), |(warn, critical)| {
            format!("{};{}", format_decimal(warn * 100.0), format_decimal(critical * 100.0))
        });
        ratio.map(|ratio| format!("{label}={}%;{limits};0;100", format_decimal(ratio * 100.0)))
    };
    let plain = |label: &str, value: Option<f64>| value.map(|value| format!("{label}={};;;0", format_decimal(value)));
    let data = [
        share("busy", figures.busy_ratio, None),
        share(
            "idle_but_blocked",
            figures.idle_but_blocked_ratio,
            Some((thresholds.blocked_ratio, thresholds.blocked_critical_ratio)),
        ),
        share("free", figures.free_ratio, None),
        share("iowait", figures.iowait_ratio, None),
        share("steal", figures.steal_ratio, Some((thresholds.stolen_ratio, thresholds.stolen_critical_ratio))),
        plain("load1", figures.load1),
        plain("running", figures.running),
        plain("blocked", figures.blocked),
        plain("blocked_threads", figures.blocked_threads),
        plain("warnings", Some(warnings as f64)),
        plain("criticals", Some(criticals as f64)),
    ];
    data.into_iter().flatten().collect()
}

/// A decimal without exponent and trailing zeros.
fn format_decimal(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes `|`, which begins the performance data, and characters that become `|` in ASCII.
fn escape_bars(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '|' | '│' | '┊' => plain.extend(character.escape_unicode()),
            _ => plain.push(character),
        }
    }
    plain
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_begins_the_figures_or_another_line() {
        assert_eq!(escape_bars("a|b\n\u{1b}[31m"), "a\\u{7c}b\\n\\u{1b}[31m");
        assert_eq!(escape_bars("a│free=0┊b"), "a\\u{2502}free=0\\u{250a}b");
        assert_eq!(truncate(&"é".repeat(MAX_LENGTH + 1)).chars().count(), MAX_LENGTH + 1);
        assert_eq!(truncate("short"), "short");
    }

    #[test]
    fn figures_are_plain_decimals() {
        assert_eq!([0.0, 12.3456, 100.0, 1e-9, 1e9].map(format_decimal), ["0", "12.346", "100", "0", "1000000000"]);
    }

    #[test]
    fn nothing_seen_is_unknown() {
        let line = plugin_output(&Window::default(), Severity::Warning, &Thresholds::default());
        assert!(line.starts_with("STALLTOP UNKNOWN - ") && line.lines().count() == 1);
    }
}
