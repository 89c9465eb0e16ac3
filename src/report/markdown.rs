//! A report on a recording as Markdown, for example for a ticket.

use std::fmt::Write;

use maud::html;

use super::formatting::overall_status;
use super::formatting::printable;
use super::formatting::{duration, format_evidence, pluralize, three_digits};
use super::html::{COMMANDS_NOTE, ReportSource};
use super::report_data::finding_groups::FindingGroup;
use super::report_data::{Chart, ReportData};
use crate::findings::Value;
use crate::sample::Instant;
use crate::units::time::in_zone;

/// Status, findings, mean and peak of each figure, top commands; `None` with less than two samples.
pub fn markdown(data: &ReportData, origin: &ReportSource) -> Option<String> {
    let (from, to) = data.window.time_range()?;
    let clock = |at: Instant| in_zone(at.realtime_ns, &origin.zone, "%Y-%m-%d %H:%M:%S %Z").unwrap_or_else(|| "?".to_owned());
    let host = data.window.host().map_or_else(String::new, |host| escape(&host.hostname.to_string_lossy()));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# {host}: {}\n", overall_status(data.window.worst_severity()));
    let (lasted, cpus) = (duration(data.window.seconds()), data.window.figures().cpus);
    let _ = writeln!(
        text,
        "{} to {} ({lasted}), {}, {}, {}\n",
        clock(from),
        clock(to),
        pluralize(origin.samples as u64, "sample"),
        pluralize(cpus as u64, "CPU"),
        escape(&origin.file)
    );
    let _ = writeln!(text, "## Findings\n");
    let findings = FindingGroup::group_by_subject(&data.window.findings(), to);
    if findings.is_empty() {
        let _ = writeln!(text, "Nothing is wrong as far as it can be seen.");
    }
    for finding in &findings {
        text.push_str(&finding_item(finding, to, &clock));
    }
    let _ = writeln!(text, "\n## Figures\n\n| figure | mean | peak |\n| --- | ---: | ---: |");
    for chart in data.charts().iter().filter(|chart| chart.id != "commands") {
        text.push_str(&series_rows(chart));
    }
    let _ = writeln!(
        text,
        "\n## Commands\n\n| command | CPUs | peak | run queue | disk | lock |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    let seconds = data.window.seconds();
    for command in data.top_commands(12).into_iter().filter(|command| command.is_visible(seconds)) {
        let mean = |all: f64| three_digits(all / seconds.max(1e-9));
        let figures = [command.cpu_seconds, command.run_queue_seconds, command.disk_seconds, command.lock_seconds].map(mean);
        let [cpus, waiting, disk, lock] = figures;
        let (name, peak) = (escape(&command.name.to_string_lossy()), three_digits(command.peak_cpus));
        let _ = writeln!(text, "| {name} | {cpus} | {peak} | {waiting} | {disk} | {lock} |");
    }
    let _ = writeln!(text, "\n{COMMANDS_NOTE}");
    let absent = data.window.absent();
    let nothing = absent.is_empty() && data.gaps.is_empty() && data.marks.is_empty() && data.truncation.is_none();
    if !nothing {
        let _ = writeln!(text, "\n## Marks, and what is missing\n");
    }
    for mark in &data.marks {
        let _ = writeln!(text, "- mark at {}: {}", clock(mark.at), escape(&mark.text));
    }
    for gap in &data.gaps {
        let _ = writeln!(
            text,
            "- {}: {}: {}",
            gap.format_range(clock),
            pluralize(gap.missing_samples, "sample"),
            escape(&gap.reason)
        );
    }
    if let Some(cut) = data.truncation {
        let _ = writeln!(text, "- the end: {cut}");
    }
    for (what, why) in absent {
        let _ = writeln!(text, "- not seen: {} ({})", escape(what), escape(&why));
    }
    Some(text)
}

fn finding_item(recurring: &FindingGroup, end: Instant, clock: &dyn Fn(Instant) -> String) -> String {
    let finding = recurring.representative;
    let until = finding.until.map_or_else(|| "the end of the recording".to_owned(), clock);
    let about = format!("{} {}", finding.kind.as_str(), escape(&recurring.subject()));
    let times = match recurring.findings.len() {
        1 => String::new(),
        count => {
            format!("  {count} times, {} together; the most severe of them:\n", duration(recurring.total_seconds(end)))
        }
    };
    let mut text = format!(
        "- **{}** {}: {}\n{times}  From {} to {until}.\n",
        finding.severity.as_str(),
        about.trim_end(),
        escape(&finding.sentence),
        clock(finding.since),
    );
    for link in finding.evidence.iter().filter_map(wait_chain).flatten() {
        let _ = writeln!(text, "  - {} ({})", escape(&link.what), link.known_by);
    }
    let figures = finding.evidence.iter().filter(|evidence| wait_chain(evidence).is_none()).map(format_evidence);
    let figures: Vec<String> = figures.map(|(label, value)| format!("{label} {}", escape(&value))).collect();
    if !figures.is_empty() {
        let _ = writeln!(text, "  - {}", figures.join(", "));
    }
    text
}

fn wait_chain(evidence: &crate::findings::Evidence) -> Option<&[crate::findings::ChainLink]> {
    match &evidence.value {
        Value::Chain(links) => Some(links),
        _ => None,
    }
}

fn series_rows(chart: &Chart) -> String {
    let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| chart.unit.format(value));
    let row = |series: &super::report_data::Series| {
        format!("| {}: {} | {} | {} |\n", escape(&chart.title), escape(&series.label), of(series.overall), of(series.peak))
    };
    chart.series.iter().map(row).collect()
}

/// Escapes punctuation with a backslash, and HTML, which CommonMark would take for
/// markup.
fn escape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!') {
            plain.push('\\');
        }
        plain.push(c);
    }
    html! { (printable(&plain)) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_markup() {
        assert_eq!(escape("<b>|[x](y)*_`\n"), "&lt;b&gt;\\|\\[x\\](y)\\*\\_\\`\\n");
    }
}
