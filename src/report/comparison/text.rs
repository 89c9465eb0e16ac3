//! The text output of `compare`: changed figures, new and ended findings, cost per operation.

use super::text_table::{TextTable, wrap};
use super::{ComparedRecording, Comparison, FigureChange, FigureComparison, FigureDelta, PerOperation, SummaryStatistics};
use crate::figures::ColumnDefinition;
use crate::interval::statistics::Certainty;
use crate::report::formatting::{bytes, duration, format_latency, three_digits};
use crate::report::text::printable;

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

fn recording_label(side: &ComparedRecording) -> String {
    format!("{} ({})", printable(&side.name), duration(side.figures.totals.seconds))
}

fn write_figures(text: &mut String, comparison: &Comparison, index: usize, all: bool) {
    let rows = comparison.figures.iter().filter_map(|figure| Some((figure, figure.deltas.get(index)?)));
    let rows: Vec<(&FigureComparison, &FigureDelta)> =
        rows.filter(|(_, beside)| all || beside.change != FigureChange::None).collect();
    if rows.is_empty() {
        text.push_str("  no figure moved in a way that is felt and is not chance\n");
        return;
    }
    let heads = ["base p50", "p95", "new p50", "p95", "×base", "P(new>)", ""];
    let mut columns = TextTable::with_header("    FIGURE", &heads);
    for (figure, beside) in &rows {
        let Some(head) = figure.key.column() else { continue };
        let ratio = beside.ratio.map_or_else(|| "-".to_owned(), three_digits);
        let above = beside.superiority.map_or_else(|| "-".to_owned(), |superiority| format!("{:.2}", superiority.probability));
        let cells = [
            &median_and_p95(figure.base, head)[..],
            &median_and_p95(beside.summary, head),
            &[ratio, above, certainty_label(beside)],
        ]
        .concat();
        columns.push(format!("  {} {}", change_sign(beside.change), figure_label(figure)), cells);
    }
    text.push_str(&columns.render());
    if rows.iter().any(|(_, beside)| beside.change != FigureChange::None) {
        text.push_str("  ▲ WORSE  ▽ better  • moved: which of them, only who made the load can tell\n");
    }
}

/// `disk sdb r_await ms`
fn figure_label(figure: &FigureComparison) -> String {
    let Some(head) = figure.key.column() else { return String::new() };
    let unit = match head.unit.label() {
        "count" => "",
        _ if head.title.contains(['%', '/']) => "",
        unit => unit,
    };
    let parts = [figure.key.table_name(), &printable(&figure.key.row), head.title, unit];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Median and 95th percentile.
fn median_and_p95(spread: Option<SummaryStatistics>, head: &ColumnDefinition) -> [String; 2] {
    spread.map_or_else(|| ["-".to_owned(), "-".to_owned()], |spread| [head.format(spread.median), head.format(spread.p95)])
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
fn certainty_label(beside: &FigureDelta) -> String {
    let certain = beside.superiority.is_some_and(|superiority| superiority.certainty() == Certainty::Certain);
    match (beside.change, certain) {
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
        let sentence = match (was, now) {
            (None, Some(now)) => format!("  new  {}: {what}: {}", now.as_str(), printable(&finding.sentence)),
            (Some(was), None) => format!("  gone {}: {what}", was.as_str()),
            (Some(was), Some(now)) if was != now => format!("  now  {} (was {}): {what}", now.as_str(), was.as_str()),
            _ => continue,
        };
        text.push_str(&wrap(&sentence, 7));
    }
}

/// One row per recording: the cost per operation, and as a multiple of the base.
fn write_per_operation(text: &mut String, sides: &[ComparedRecording]) {
    let Some(base) = sides.first().and_then(PerOperation::for_recording) else { return };
    let mut columns = TextTable::with_header("PER OPERATION", &["ops/s", "cpu/o", "cs/o", "r/o", "w/o", "rKB/o", "wKB/o"]);
    for (index, side) in sides.iter().enumerate() {
        let name = printable(&side.name);
        let Some(own) = PerOperation::for_recording(side) else {
            columns.push(name, vec!["-".to_owned()]);
            continue;
        };
        let said = |value: Option<f64>, words: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), words);
        let cells = [
            said(own.operations_per_second, three_digits),
            said(own.cpu_seconds, format_latency),
            said(own.context_switches, three_digits),
            said(own.reads, three_digits),
            said(own.writes, three_digits),
            said(own.read_bytes, bytes),
            said(own.written_bytes, bytes),
        ];
        columns.push(name, cells.to_vec());
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
        columns.push(String::new(), figures.map(|value| said(value, |value| format!("{value:.2}×"))).to_vec());
    }
    text.push_str(&columns.render());
}
