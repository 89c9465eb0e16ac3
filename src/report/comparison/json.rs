//! `compare --json`: one object, one line.

use serde::Serialize;

use super::{Beside, Change, Comparison, PerOperation, Spread};
use crate::findings::{Kind, Severity};
use crate::report::json::{moment, plain};
use crate::report::statistics::Certainty;

/// Schema `stalltop/1`.
pub fn json(comparison: &Comparison) -> String {
    let base = comparison.sides.first().and_then(PerOperation::of);
    let sides = comparison.sides.iter().map(|side| {
        let span = side.gathered.window.span();
        let per_operation = PerOperation::of(side);
        Recording {
            name: side.name.clone(),
            from: span.map(|(from, _)| moment(from)),
            to: span.map(|(_, to)| moment(to)),
            seconds: side.gathered.totals.seconds,
            operations: side.work.map(|work| work.operations),
            per_operation,
            relative_to_base: per_operation.zip(base).map(|(own, base)| own.relative(&base)),
        }
    });
    let figures = comparison.figures.iter().map(|figure| Row {
        table: figure.key.subject(),
        row: Some(figure.key.row.clone()).filter(|row| !row.is_empty()),
        name: figure.key.head().map_or("", |head| head.json),
        base: figure.base,
        beside: figure.beside.iter().map(Other::of).collect(),
    });
    let findings = comparison.findings.iter().map(|finding| Found {
        kind: finding.kind,
        subject: finding.subject.clone(),
        severity: finding.severity.clone(),
        sentence: finding.sentence.clone(),
    });
    let whole =
        Whole { schema: "stalltop/1", recordings: sides.collect(), figures: figures.collect(), findings: findings.collect() };
    // Strings, numbers and lists cannot fail to become JSON.
    plain(&serde_json::to_string(&whole).unwrap_or_default()) + "\n"
}

#[derive(Serialize)]
struct Whole {
    schema: &'static str,
    recordings: Vec<Recording>,
    figures: Vec<Row>,
    findings: Vec<Found>,
}

#[derive(Serialize)]
struct Recording {
    name: String,
    from: Option<String>,
    to: Option<String>,
    seconds: f64,
    operations: Option<f64>,
    per_operation: Option<PerOperation>,
    relative_to_base: Option<PerOperation>,
}

#[derive(Serialize)]
struct Row {
    table: &'static str,
    row: Option<String>,
    name: &'static str,
    base: Option<Spread>,
    beside: Vec<Other>,
}

#[derive(Serialize)]
struct Other {
    #[serde(flatten)]
    spread: Option<Spread>,
    ratio: Option<f64>,
    superiority: Option<f64>,
    deviations: Option<f64>,
    certainty: Option<Certainty>,
    change: Change,
}

impl Other {
    fn of(beside: &Beside) -> Other {
        Other {
            spread: beside.spread,
            ratio: beside.ratio,
            superiority: beside.superiority.map(|superiority| superiority.probability),
            deviations: beside.superiority.map(|superiority| superiority.deviations),
            certainty: beside.superiority.map(|superiority| superiority.certainty()),
            change: beside.change,
        }
    }
}

#[derive(Serialize)]
struct Found {
    kind: Kind,
    subject: String,
    severity: Vec<Option<Severity>>,
    sentence: String,
}
