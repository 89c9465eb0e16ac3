//! `compare` for people: what moved, what was found anew, what an operation costs.

use std::fmt::Write;

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
        // Into memory: cannot fail.
        let _ = writeln!(text, "{} beside {}", side(other), side(base));
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
        let _ = writeln!(text, "  no figure moved in a way that is felt and is not chance");
        return;
    }
    let names: Vec<String> = rows.iter().map(|(figure, _)| name(figure)).collect();
    let wide = names.iter().map(String::len).max().unwrap_or(0).max(20);
    let heads = ["base p50", "p95", "new p50", "p95"].map(|head| format!("{head:>10}")).join(" ");
    let _ = writeln!(text, "    {:<wide$} {heads} {:>7} {:>7}", "FIGURE", "×base", "P(new>)");
    for ((figure, beside), name) in rows.into_iter().zip(names) {
        let Some(head) = figure.key.head() else { continue };
        let cells = [pair(figure.base, head), pair(beside.spread, head)].concat();
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        let ratio = beside.ratio.map_or_else(|| "-".to_owned(), three);
        let above = beside.superiority.map_or_else(|| "-".to_owned(), |superiority| format!("{:.2}", superiority.probability));
        let (sign, cells, verdict) = (sign(beside.change), cells.join(" "), verdict(beside));
        let line = format!("  {sign} {name:<wide$} {cells} {ratio:>7} {above:>7}  {verdict}");
        let _ = writeln!(text, "{}", line.trim_end());
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

fn verdict(beside: &Beside) -> String {
    let change = match beside.change {
        Change::None => return String::new(),
        Change::Moved => "moved",
        Change::Worse => "WORSE",
        Change::Better => "better",
    };
    match beside.superiority.map(|superiority| superiority.certainty()) {
        Some(Certainty::Certain) => format!("{change}, certain"),
        _ => format!("{change}, likely"),
    }
}

fn found(text: &mut String, comparison: &Comparison, index: usize) {
    for finding in &comparison.findings {
        let (was, now) = (finding.severity.first().copied().flatten(), finding.severity.get(index).copied().flatten());
        let what = format!("{} {}", finding.kind.word(), printable(&finding.subject));
        let what = what.trim_end();
        let _ = match (was, now) {
            (None, Some(now)) => writeln!(text, "  new  {}: {what}: {}", now.word(), printable(&finding.sentence)),
            (Some(was), None) => writeln!(text, "  gone {}: {what}", was.word()),
            (Some(was), Some(now)) if was != now => writeln!(text, "  now  {} (was {}): {what}", now.word(), was.word()),
            _ => Ok(()),
        };
    }
}

/// A row a recording: what an operation costs, and the same as a multiple of the base.
fn costs(text: &mut String, sides: &[Side]) {
    let Some(base) = sides.first().and_then(PerOperation::of) else { return };
    let _ = writeln!(
        text,
        "PER OPERATION      {:>10} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "ops/s", "cpu/o", "cs/o", "r/o", "w/o", "rKB/o", "wKB/o"
    );
    for (index, side) in sides.iter().enumerate() {
        let name: String = printable(&side.name).chars().take(18).collect();
        let Some(own) = PerOperation::of(side) else {
            let _ = writeln!(text, "{name:<18} {:>10}", "-");
            continue;
        };
        let count = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three);
        let _ = writeln!(
            text,
            "{name:<18} {:>10} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10}",
            count(own.operations_per_second),
            own.cpu_seconds.map_or_else(|| "-".to_owned(), duration),
            count(own.context_switches),
            count(own.reads),
            count(own.writes),
            own.read_bytes.map_or_else(|| "-".to_owned(), bytes),
            own.written_bytes.map_or_else(|| "-".to_owned(), bytes),
        );
        if index == 0 {
            continue;
        }
        let relative = own.relative(&base);
        let times = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}×"));
        let _ = writeln!(
            text,
            "{:<18} {:>10} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10}",
            "",
            times(relative.operations_per_second),
            times(relative.cpu_seconds),
            times(relative.context_switches),
            times(relative.reads),
            times(relative.writes),
            times(relative.read_bytes),
            times(relative.written_bytes),
        );
    }
}
