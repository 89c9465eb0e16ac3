//! The text output of `compare`: changed figures, new and ended findings, cost per operation.

use super::text_table::{TextTable, wrap};
use super::{ComparedRecording, Comparison, FigureChange, FigureComparison, FigureDelta, PerOperation, SummaryStatistics};
use crate::figures::ColumnDefinition;
use crate::interval::statistics::Certainty;
use crate::report::formatting::printable;
use crate::report::formatting::{bytes, duration, latency, multiple, three_digits};
use crate::units::Millis;

/// `all`: unchanged figures, too.
pub fn text(comparison: &Comparison, all: bool) -> String {
    let Some((base, others)) = comparison.recordings.split_first() else { return String::new() };
    let mut text = String::new();
    for (index, other) in others.iter().enumerate() {
        text.push_str(&wrap(&format!("{} beside {}", recording_label(other), recording_label(base)), 2));
        write_figures(&mut text, comparison, index, all);
        write_findings(&mut text, comparison, index + 1);
        text.push('\n');
    }
    write_per_operation(&mut text, &comparison.recordings);
    text
}

fn recording_label(recording: &ComparedRecording) -> String {
    format!("{} ({})", printable(&recording.name), duration(recording.figures.totals.seconds))
}

fn write_figures(text: &mut String, comparison: &Comparison, index: usize, all: bool) {
    let rows = comparison.figures.iter().filter_map(|figure| Some((figure, figure.deltas.get(index)?)));
    let rows: Vec<(&FigureComparison, &FigureDelta)> =
        rows.filter(|(_, delta)| all || delta.change != FigureChange::None).collect();
    if rows.is_empty() {
        text.push_str("  no figure changed by an amount that matters and is not chance\n");
        return;
    }
    let headings = ["base p50", "p95", "new p50", "p95", "×base", "P(new>)", ""];
    let mut table = TextTable::with_header("    FIGURE", &headings);
    for (figure, delta) in &rows {
        let Some(column) = figure.key.column() else { continue };
        let ratio = delta.ratio.map_or_else(|| "-".to_owned(), three_digits);
        let above = delta.superiority.map_or_else(|| "-".to_owned(), |superiority| format!("{:.2}", superiority.probability));
        let cells = [
            &median_and_p95(figure.base, column)[..],
            &median_and_p95(delta.summary, column),
            &[ratio, above, certainty_label(delta)],
        ]
        .concat();
        table.push(format!("  {} {}", change_sign(delta.change), figure_label(figure)), cells);
    }
    text.push_str(&table.render());
    if rows.iter().any(|(_, delta)| delta.change != FigureChange::None) {
        text.push_str("  ▲ WORSE  ▽ better  • changed: good or bad depends on the load\n");
    }
}

/// `disk sdb r_await ms`
fn figure_label(figure: &FigureComparison) -> String {
    let Some(column) = figure.key.column() else { return String::new() };
    let unit = match column.unit.label() {
        "count" => "",
        _ if column.title.contains(['%', '/']) => "",
        unit => unit,
    };
    let parts = [figure.key.table_name(), &printable(&figure.key.row), column.title, unit];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Median and 95th percentile.
fn median_and_p95(spread: Option<SummaryStatistics>, column: &ColumnDefinition) -> [String; 2] {
    spread.map_or_else(|| ["-".to_owned(), "-".to_owned()], |spread| [column.format(spread.median), column.format(spread.p95)])
}

fn change_sign(change: FigureChange) -> &'static str {
    match change {
        FigureChange::None => " ",
        FigureChange::Moved => "•",
        FigureChange::Worse => "▲",
        FigureChange::Better => "▽",
    }
}

/// The certainty that the change is not chance.
fn certainty_label(delta: &FigureDelta) -> String {
    let certain = delta.superiority.is_some_and(|superiority| superiority.certainty() == Certainty::Certain);
    match (delta.change, certain) {
        (FigureChange::None, _) => "",
        (_, true) => "certain",
        (_, false) => "likely",
    }
    .to_owned()
}

fn write_findings(text: &mut String, comparison: &Comparison, index: usize) {
    for finding in &comparison.findings {
        let (was, now) = (finding.severity.first().copied().flatten(), finding.severity.get(index).copied().flatten());
        let what = format!("{} {}", finding.kind.as_str(), printable(&finding.subject));
        let what = what.trim_end();
        let sentence = finding.sentences.get(index).and_then(Option::as_deref).unwrap_or_default();
        let sentence = match (was, now) {
            (None, Some(now)) => format!("  new  {}: {what}: {}", now.as_str(), printable(sentence)),
            (Some(was), None) => format!("  gone {}: {what}", was.as_str()),
            (Some(was), Some(now)) if was != now => format!("  now  {} (was {}): {what}", now.as_str(), was.as_str()),
            _ => continue,
        };
        text.push_str(&wrap(&sentence, 7));
    }
}

/// One row per recording: the cost per operation, and as a multiple of the base.
fn write_per_operation(text: &mut String, recordings: &[ComparedRecording]) {
    let Some(base) = recordings.first().and_then(PerOperation::for_recording) else { return };
    let mut table = TextTable::with_header("PER OPERATION", &["ops/s", "cpu/o", "cs/o", "r/o", "w/o", "rKB/o", "wKB/o"]);
    for (index, recording) in recordings.iter().enumerate() {
        let name = printable(&recording.name);
        let Some(own) = PerOperation::for_recording(recording) else {
            table.push(name, vec!["-".to_owned()]);
            continue;
        };
        let format_optional = |value: Option<f64>, words: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), words);
        let cells = [
            format_optional(own.operations_per_second, three_digits),
            format_optional(own.cpu_seconds, |seconds| latency(Millis(seconds * 1000.0))),
            format_optional(own.context_switches, three_digits),
            format_optional(own.reads, three_digits),
            format_optional(own.writes, three_digits),
            format_optional(own.read_bytes, bytes),
            format_optional(own.written_bytes, bytes),
        ];
        table.push(name, cells.to_vec());
        if index == 0 {
            continue;
        }
        let relative = own.relative_to(&base);
        let figures = [
            relative.operations_per_second,
            relative.cpu_seconds,
            relative.context_switches,
            relative.reads,
            relative.writes,
            relative.read_bytes,
            relative.written_bytes,
        ];
        table.push(String::new(), figures.map(|value| format_optional(value, multiple)).to_vec());
    }
    text.push_str(&table.render());
}
