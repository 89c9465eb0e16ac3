//! Plain sentences: what `check` says, and the block a second where there is no terminal.

use std::fmt::Write;

use super::json::{moment, verdict};
use super::window::{Figures, Window};
use super::words::{self, many};
use crate::findings::{Finding, Severity};
use crate::ids::is_unprintable;
use crate::sample::Name;

/// `check`: the verdict in a line, each finding in a line, what could not be seen in a line.
pub fn check(window: &Window) -> String {
    let Some((_, to)) = window.span() else {
        return "unknown: there were no two samples to compare\n".to_owned();
    };
    let mut text = String::new();
    // Into memory: cannot fail.
    let _ = writeln!(
        text,
        "{}: {}, {:.1} s to {}: {}",
        verdict(window.worst()),
        window.host().map_or_else(String::new, |host| plain(&host.hostname)),
        window.seconds(),
        moment(to),
        figures(&window.figures())
    );
    for found in window.findings() {
        text.push_str(&finding(found));
    }
    if let Some(words) = window.artefact() {
        let _ = writeln!(text, "  witness: {}", printable(&words));
    }
    if let Some(words) = words::calm(window) {
        let _ = writeln!(text, "{words}.");
    }
    let absent: Vec<String> = window.absent().iter().map(|(what, why)| format!("{what} ({why})")).collect();
    if !absent.is_empty() {
        let _ = writeln!(text, "Not seen: {}. 'stalltop doctor' says what would change it.", absent.join(", "));
    }
    text
}

/// One summary of the newest time: a line of figures and a line for each finding.
pub fn block(window: &Window) -> String {
    let Some((_, to)) = window.span() else { return String::new() };
    let mut text = String::new();
    let host = window.host().map_or_else(String::new, |host| plain(&host.hostname));
    let _ = writeln!(text, "{} {} {}: {}", moment(to), host, verdict(window.worst()), figures(&window.figures()));
    for found in window.findings() {
        text.push_str(&finding(found));
    }
    text
}

fn figures(figures: &Figures) -> String {
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} %", three(ratio * 100.0)));
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three);
    let (least, most) = if figures.idle_but_blocked_is_lower_bound { ("≥", "≤") } else { ("", "") };
    // Those that are hidden may run, or be blocked, too.
    let at_least = if figures.hidden_threads.is_some() { "≥" } else { "" };
    let hidden = figures.hidden_threads.map_or_else(String::new, |hidden| format!("; {} hidden", many(hidden, "thread")));
    format!(
        "{} busy {}, idle but blocked {least}{}, free {most}{} (iowait says {}); load {} = {at_least}{} running + {at_least}{} in D{hidden}",
        many(figures.cpus as u64, "CPU"),
        percent(figures.busy_ratio),
        percent(figures.idle_but_blocked_ratio),
        percent(figures.free_ratio),
        percent(figures.iowait_ratio),
        figures.load1.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}")),
        number(figures.running),
        number(figures.blocked),
    )
}

fn finding(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let until = finding.until.map_or_else(String::new, |until| format!(" until {}", moment(until)));
    format!("  {severity}: {} (since {}{until})\n", printable(&finding.sentence), moment(finding.since))
}

/// Three significant digits, as the screens have them.
fn three(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

fn plain(name: &Name) -> String {
    printable(&String::from_utf8_lossy(name.as_bytes()))
}

/// Without what would act on a terminal or turn the line around.
pub fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        assert_eq!(
            [0.0, 0.39, 9.99, 9.999, 41.04, 99.97, 1234.5].map(three),
            ["0.00", "0.39", "9.99", "10.0", "41.0", "100", "1234"]
        );
    }

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(printable("a\u{1b}[31m\u{202e}b\n"), "a\\u{1b}[31m\\u{202e}b\\n");
    }

    #[test]
    fn nothing_seen_is_said() {
        assert!(check(&Window::default()).starts_with("unknown"));
    }
}
