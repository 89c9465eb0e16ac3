//! `compare` for people: what moved, what was found anew, what an operation costs.

use super::columns::{Columns, folded};
use super::{Beside, Change, Comparison, Figure, PerOperation, Side, Spread};
use crate::report::statistics::Certainty;
use crate::report::table::Head;
use crate::report::text::printable;
use crate::report::words::{bytes, duration, span, three};

/// With figures that did not move too, where `all` says so.
pub fn text(comparison: &Comparison, all: bool) -> String {
    let Some((base, others)) = comparison.sides.split_first() else { return String::new() };
    let mut text = String::new();
    for (index, other) in others.iter().enumerate() {
        text.push_str(&folded(&format!("{} beside {}", side(other), side(base)), 2));
        moved(&mut text, comparison, index, all);
        found(&mut text, comparison, index + 1);
        text.push('\n');
    }
    costs(&mut text, &comparison.sides);
    text
}

fn side(side: &Side) -> String {
    format!("{} ({})", printable(&side.name), span(side.gathered.totals.seconds))
}

fn moved(text: &mut String, comparison: &Comparison, index: usize, all: bool) {
    let rows = comparison.figures.iter().filter_map(|figure| Some((figure, figure.beside.get(index)?)));
    let rows: Vec<(&Figure, &Beside)> = rows.filter(|(_, beside)| all || beside.change != Change::None).collect();
    if rows.is_empty() {
        text.push_str("  no figure moved in a way that is felt and is not chance\n");
        return;
    }
    let heads = ["base p50", "p95", "new p50", "p95", "×base", "P(new>)", ""];
    let mut columns = Columns::under("    FIGURE", &heads);
    for (figure, beside) in &rows {
        let Some(head) = figure.key.head() else { continue };
        let ratio = beside.ratio.map_or_else(|| "-".to_owned(), three);
        let above = beside.superiority.map_or_else(|| "-".to_owned(), |superiority| format!("{:.2}", superiority.probability));
        let cells = [&pair(figure.base, head)[..], &pair(beside.spread, head), &[ratio, above, sure(beside)]].concat();
        columns.push(format!("  {} {}", sign(beside.change), name(figure)), cells);
    }
    text.push_str(&columns.text());
    if rows.iter().any(|(_, beside)| beside.change != Change::None) {
        text.push_str("  ▲ WORSE  ▽ better  • moved: which of them, only who made the load can tell\n");
    }
}

/// `disk sdb r_await ms`
fn name(figure: &Figure) -> String {
    let Some(head) = figure.key.head() else { return String::new() };
    let unit = match head.unit.word() {
        "count" => "",
        _ if head.name.contains(['%', '/']) => "",
        unit => unit,
    };
    let parts = [figure.key.subject(), &printable(&figure.key.row), head.name, unit];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Median and 95th percentile.
fn pair(spread: Option<Spread>, head: &Head) -> [String; 2] {
    let people = |value: f64| head.digits.text(value / head.unit.divisor());
    spread.map_or_else(|| ["-".to_owned(), "-".to_owned()], |spread| [people(spread.median), people(spread.p95)])
}

fn sign(change: Change) -> &'static str {
    match change {
        Change::None => " ",
        Change::Moved => "•",
        Change::Worse => "▲",
        Change::Better => "▽",
    }
}

/// How sure it is that it is no chance.
fn sure(beside: &Beside) -> String {
    let certain = beside.superiority.is_some_and(|superiority| superiority.certainty() == Certainty::Certain);
    match (beside.change, certain) {
        (Change::None, _) => "",
        (_, true) => "certain",
        (_, false) => "likely",
    }
    .to_owned()
}

fn found(text: &mut String, comparison: &Comparison, index: usize) {
    for finding in &comparison.findings {
        let (was, now) = (finding.severity.first().copied().flatten(), finding.severity.get(index).copied().flatten());
        let what = format!("{} {}", finding.kind.word(), printable(&finding.subject));
        let what = what.trim_end();
        let sentence = match (was, now) {
            (None, Some(now)) => format!("  new  {}: {what}: {}", now.word(), printable(&finding.sentence)),
            (Some(was), None) => format!("  gone {}: {what}", was.word()),
            (Some(was), Some(now)) if was != now => format!("  now  {} (was {}): {what}", now.word(), was.word()),
            _ => continue,
        };
        text.push_str(&folded(&sentence, 7));
    }
}

/// A row a recording: what an operation costs, and the same as a multiple of the base.
fn costs(text: &mut String, sides: &[Side]) {
    let Some(base) = sides.first().and_then(PerOperation::of) else { return };
    let mut columns = Columns::under("PER OPERATION", &["ops/s", "cpu/o", "cs/o", "r/o", "w/o", "rKB/o", "wKB/o"]);
    for (index, side) in sides.iter().enumerate() {
        let name = printable(&side.name);
        let Some(own) = PerOperation::of(side) else {
            columns.push(name, vec!["-".to_owned()]);
            continue;
        };
        let said = |value: Option<f64>, words: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), words);
        let cells = [
            said(own.operations_per_second, three),
            said(own.cpu_seconds, duration),
            said(own.context_switches, three),
            said(own.reads, three),
            said(own.writes, three),
            said(own.read_bytes, bytes),
            said(own.written_bytes, bytes),
        ];
        columns.push(name, cells.to_vec());
        if index == 0 {
            continue;
        }
        let relative = own.relative(&base);
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
    text.push_str(&columns.text());
}
