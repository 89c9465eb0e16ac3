//! A recording as Markdown: for a ticket that takes text.

use std::fmt::Write;

use maud::html;

use super::chronicle::recurring::Recurring;
use super::chronicle::{Chart, Chronicle, lossy};
use super::json::verdict;
use super::page::{COMMANDS_NOTE, Origin};
use super::text::printable;
use super::words::{evidence, many, quantity, span, three};
use crate::findings::Value;
use crate::sample::Instant;

/// The verdict, the findings, mean and peak of each figure, the foremost commands; `None` without two samples to compare.
pub fn markdown(chronicle: &Chronicle, origin: &Origin) -> Option<String> {
    let (from, to) = chronicle.window.span()?;
    let zoned =
        |at: Instant| jiff::Timestamp::from_nanosecond(i128::from(at.realtime_ns)).map(|at| at.to_zoned(origin.zone.clone()));
    let clock = |at: Instant| zoned(at).map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S %Z").to_string());
    let host = chronicle.window.host().map_or_else(String::new, |host| plain(&lossy(&host.hostname)));
    let mut text = String::new();
    // Into memory: cannot fail.
    let _ = writeln!(text, "# {host}: {}\n", verdict(chronicle.window.worst()));
    let (lasted, cpus) = (span(chronicle.window.seconds()), chronicle.window.figures().cpus);
    let _ = writeln!(
        text,
        "{} to {} ({lasted}), {}, {}, {}\n",
        clock(from),
        clock(to),
        many(origin.samples as u64, "sample"),
        many(cpus as u64, "CPU"),
        plain(&origin.file)
    );
    let _ = writeln!(text, "## Findings\n");
    let findings = Recurring::of(&chronicle.window.findings(), to);
    if findings.is_empty() {
        let _ = writeln!(text, "Nothing is wrong as far as it can be seen.");
    }
    for finding in &findings {
        text.push_str(&told(finding, to, &clock));
    }
    let _ = writeln!(text, "\n## Figures\n\n| figure | mean | peak |\n| --- | ---: | ---: |");
    for chart in chronicle.charts().iter().filter(|chart| chart.id != "commands") {
        text.push_str(&rows(chart));
    }
    let _ = writeln!(
        text,
        "\n## Commands\n\n| command | CPUs | peak | run queue | disk | lock |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    let seconds = chronicle.window.seconds();
    for command in chronicle.commands(12).into_iter().filter(|command| command.is_visible(seconds)) {
        let mean = |all: f64| three(all / seconds.max(1e-9));
        let figures = [command.cpu_seconds, command.run_queue_seconds, command.disk_seconds, command.lock_seconds].map(mean);
        let [cpus, waiting, disk, lock] = figures;
        let (name, peak) = (plain(&lossy(&command.name)), three(command.most_cpus));
        let _ = writeln!(text, "| {name} | {cpus} | {peak} | {waiting} | {disk} | {lock} |");
    }
    let _ = writeln!(text, "\n{COMMANDS_NOTE}");
    let absent = chronicle.window.absent();
    let nothing = absent.is_empty() && chronicle.holes.is_empty() && chronicle.marks.is_empty() && chronicle.cut.is_none();
    if !nothing {
        let _ = writeln!(text, "\n## Marks, and what is missing\n");
    }
    for mark in &chronicle.marks {
        let _ = writeln!(text, "- mark at {}: {}", clock(mark.at), plain(&mark.text));
    }
    for hole in &chronicle.holes {
        let _ = writeln!(text, "- {}: {}: {}", hole.when(clock), many(hole.lost, "sample"), plain(&hole.why));
    }
    if let Some(cut) = chronicle.cut {
        let _ = writeln!(text, "- the end: {cut}");
    }
    for (what, why) in absent {
        let _ = writeln!(text, "- not seen: {} ({})", plain(what), plain(&why));
    }
    Some(text)
}

fn told(recurring: &Recurring, end: Instant, clock: &dyn Fn(Instant) -> String) -> String {
    let finding = recurring.foremost;
    let until = finding.until.map_or_else(|| "the end of the recording".to_owned(), clock);
    let about = format!("{} {}", finding.kind.word(), plain(&recurring.subject()));
    let times = match recurring.all.len() {
        1 => String::new(),
        count => format!("  {count} times, {} together; the most telling of them:\n", span(recurring.seconds(end))),
    };
    let mut text = format!(
        "- **{}** {}: {}\n{times}  From {} to {until}.\n",
        finding.severity.word(),
        about.trim_end(),
        plain(&finding.sentence),
        clock(finding.since),
    );
    for link in finding.evidence.iter().filter_map(chain).flatten() {
        let _ = writeln!(text, "  - {} ({})", plain(&link.what), link.known_by);
    }
    let figures = finding.evidence.iter().filter(|evidence| chain(evidence).is_none()).map(evidence);
    let figures: Vec<String> = figures.map(|(label, value)| format!("{label} {}", plain(&value))).collect();
    if !figures.is_empty() {
        let _ = writeln!(text, "  - {}", figures.join(", "));
    }
    text
}

fn chain(evidence: &crate::findings::Evidence) -> Option<&[crate::findings::Link]> {
    match &evidence.value {
        Value::Chain(links) => Some(links),
        _ => None,
    }
}

fn rows(chart: &Chart) -> String {
    let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, chart.unit));
    let row = |series: &super::chronicle::Series| {
        format!("| {}: {} | {} | {} |\n", plain(&chart.title), plain(&series.label), of(series.overall), of(series.peak))
    };
    chart.series.iter().map(row).collect()
}

/// As it stands, whatever it is: CommonMark takes a backslash before punctuation for the character itself, and HTML in it for
/// HTML.
fn plain(text: &str) -> String {
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
        assert_eq!(plain("<b>|[x](y)*_`\n"), "&lt;b&gt;\\|\\[x\\](y)\\*\\_\\`\\n");
    }
}
