//! `compare --json`: one object, one line.

use serde::Serialize;

use super::{Comparison, FigureChange, FigureDelta, PerOperation, SummaryStatistics};
use crate::findings::{Kind, Severity};
use crate::interval::statistics::Certainty;
use crate::report::formatting::rfc3339;
use crate::report::json::to_line;

/// Schema `stalltop/1`.
pub fn json(comparison: &Comparison) -> String {
    let base = comparison.recordings.first().and_then(PerOperation::for_recording);
    let sides = comparison.recordings.iter().map(|side| {
        let span = side.figures.window.time_range();
        let per_operation = PerOperation::for_recording(side);
        RecordingJson {
            name: side.name.clone(),
            from: span.map(|(from, _)| rfc3339(from)),
            to: span.map(|(_, to)| rfc3339(to)),
            seconds: side.figures.totals.seconds,
            operations: side.operation_totals.map(|work| work.operations),
            per_operation,
            relative_to_base: per_operation.zip(base).map(|(own, base)| own.relative_to(&base)),
        }
    });
    let figures = comparison.figures.iter().map(|figure| FigureJson {
        table: figure.key.table_name(),
        row: Some(figure.key.row.clone()).filter(|row| !row.is_empty()),
        name: figure.key.column().map_or("", |head| head.key),
        base: figure.base,
        beside: figure.deltas.iter().map(DeltaJson::new).collect(),
    });
    let findings = comparison.findings.iter().map(|finding| FindingJson {
        kind: finding.kind,
        subject: finding.subject.clone(),
        severity: finding.severity.clone(),
        sentence: finding.sentences.iter().rev().find_map(Option::clone).unwrap_or_default(),
        sentences: finding.sentences.clone(),
    });
    let whole = ComparisonJson {
        schema: "stalltop/1",
        recordings: sides.collect(),
        figures: figures.collect(),
        findings: findings.collect(),
    };
    to_line(&whole)
}

#[derive(Serialize)]
struct ComparisonJson {
    schema: &'static str,
    recordings: Vec<RecordingJson>,
    figures: Vec<FigureJson>,
    findings: Vec<FindingJson>,
}

#[derive(Serialize)]
struct RecordingJson {
    name: String,
    from: Option<String>,
    to: Option<String>,
    seconds: f64,
    operations: Option<f64>,
    per_operation: Option<PerOperation>,
    relative_to_base: Option<PerOperation>,
}

#[derive(Serialize)]
struct FigureJson {
    table: &'static str,
    row: Option<String>,
    name: &'static str,
    base: Option<SummaryStatistics>,
    beside: Vec<DeltaJson>,
}

#[derive(Serialize)]
struct DeltaJson {
    #[serde(flatten)]
    spread: Option<SummaryStatistics>,
    ratio: Option<f64>,
    superiority: Option<f64>,
    deviations: Option<f64>,
    certainty: Option<Certainty>,
    change: FigureChange,
}

impl DeltaJson {
    fn new(beside: &FigureDelta) -> DeltaJson {
        DeltaJson {
            spread: beside.summary,
            ratio: beside.ratio,
            superiority: beside.superiority.map(|superiority| superiority.probability),
            deviations: beside.superiority.map(|superiority| superiority.z_score),
            certainty: beside.superiority.map(|superiority| superiority.certainty()),
            change: beside.change,
        }
    }
}

#[derive(Serialize)]
struct FindingJson {
    kind: Kind,
    subject: String,
    severity: Vec<Option<Severity>>,
    /// Of the last recording that has it
    sentence: String,
    sentences: Vec<Option<String>>,
}
