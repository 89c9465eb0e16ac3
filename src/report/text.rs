//! The text output of `check`, and the summary per second without a terminal.

use std::fmt::Write;

use super::formatting::{overall_status, pluralize, printable, rfc3339, three_digits};
use super::mean_figures::MeanFigures;
use super::window::Window;
use crate::findings::{Finding, Severity};
use crate::units::time::duration;

/// `check`: a line with the status, a line per finding, a line with missing readings.
pub fn check(window: &Window) -> String {
    if let Some(why) = window.unknown_reason(Severity::Warning) {
        return format!("unknown: {why}\n");
    }
    let Some((_, to)) = window.time_range() else { return String::new() };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}: {}, mean of {} to {}: {}",
        overall_status(window.worst_severity()),
        window.host().map_or_else(String::new, |host| printable(&host.hostname.to_string_lossy())),
        length(window.seconds()),
        rfc3339(to),
        figures_line(&window.figures())
    );
    text.push_str(&finding_lines(&window.findings()));
    if let Some(words) = window.artefact() {
        let _ = writeln!(text, "  cross-check: {}", printable(&words));
    }
    if let Some(words) = window.no_problem_sentence() {
        let _ = writeln!(text, "{words}.");
    }
    let absent: Vec<String> = window.absent().iter().map(|(what, why)| format!("{what} ({why})")).collect();
    if !absent.is_empty() {
        let _ = writeln!(
            text,
            "Not seen: {}. 'stalltop doctor' says why, and what to change, if anything can be.",
            absent.join(", ")
        );
    }
    text
}

/// A line of figures and a line per finding.
pub fn summary(window: &Window) -> String {
    let Some((_, to)) = window.time_range() else { return String::new() };
    let mut text = String::new();
    let host = window.host().map_or_else(String::new, |host| printable(&host.hostname.to_string_lossy()));
    let _ = writeln!(
        text,
        "{} {} {}: {}",
        rfc3339(to),
        host,
        overall_status(window.worst_severity()),
        figures_line(&window.figures())
    );
    text.push_str(&finding_lines(&window.findings()));
    text
}

fn figures_line(figures: &MeanFigures) -> String {
    let percent =
        |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} %", three_digits(ratio * 100.0)));
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
    let (least, most) = if figures.idle_but_blocked_is_lower_bound { ("≥", "≤") } else { ("", "") };
    // Hidden threads may be running or blocked, too.
    let at_least = if figures.hidden_threads.is_some() { "≥" } else { "" };
    let hidden = figures.hidden_threads.map_or_else(String::new, |hidden| format!("; {} hidden", pluralize(hidden, "thread")));
    format!(
        "{} busy {}, idle but blocked {least}{}, free {most}{}{} (iowait says {}); load {} (1-min average); now {at_least}{} running, {at_least}{} in D{hidden}",
        pluralize(figures.cpus as u64, "CPU"),
        percent(figures.busy_ratio),
        percent(figures.idle_but_blocked_ratio),
        percent(figures.free_ratio),
        remaining_shares(figures),
        percent(figures.iowait_ratio),
        figures.load1.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}")),
        number(figures.running),
        number(figures.blocked),
    )
}

/// Shares of CPU time below this are not named.
const MIN_NAMED_SHARE: f64 = 0.005;

/// The CPU time that is neither used nor idle, so that the parts add up: `, stolen 12.0 %`, `, other 1.10 %`.
fn remaining_shares(figures: &MeanFigures) -> String {
    let stolen = figures.steal_ratio.unwrap_or(0.0);
    let parts = [figures.busy_ratio, figures.idle_but_blocked_ratio, figures.free_ratio];
    let known = parts.iter().all(Option::is_some);
    let other = if known { 1.0 - stolen - parts.iter().flatten().sum::<f64>() } else { 0.0 };
    let named = [("stolen", stolen), ("other", other)].into_iter().filter(|(_, share)| *share >= MIN_NAMED_SHARE);
    named.map(|(word, share)| format!(", {word} {} %", three_digits(share * 100.0))).collect()
}

/// A line per finding; what follows from one of them is indented below it.
fn finding_lines(findings: &[&Finding]) -> String {
    let begin = |finding: &Finding| if finding.cause_among(findings).is_some() { "    follows: " } else { "  " };
    findings.iter().map(|finding| finding_line(finding, begin(finding))).collect()
}

fn finding_line(finding: &Finding, begin: &str) -> String {
    let severity = match finding.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    // The first line is a mean, a sentence is not.
    let until =
        finding.until.map_or_else(String::new, |until| format!(" until {}, figures of its last interval", rfc3339(until)));
    format!("{begin}{severity}: {} (since {}{until})\n", printable(&finding.sentence), rfc3339(finding.since))
}

/// `10.0 s`, from a minute on `16h08m`.
fn length(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.1} s") } else { duration(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_has_no_thousands_of_seconds() {
        assert_eq!([10.0, 59.94, 60.0, 58_080.0].map(length), ["10.0 s", "59.9 s", "1m00s", "16h08m"]);
    }

    #[test]
    fn nothing_seen_is_said() {
        assert!(check(&Window::default()).starts_with("unknown"));
    }
}
