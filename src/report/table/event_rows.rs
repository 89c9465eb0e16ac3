//! Findings and marks as rows, for files that have one table each: a row for each active finding of an interval, and for each mark.

use super::wide_table::{ColumnType, WideColumn};
use crate::figures::Cell;
use crate::findings::Finding;
use crate::report::formatting::{rfc3339, subject_label};

/// The columns of table `finding`.
pub const FINDING_COLUMNS: [WideColumn; 9] = [
    text("kind"),
    text("severity"),
    text("subject"),
    text("sentence"),
    number("value"),
    text("unit"),
    number("explains_ratio"),
    text("since"),
    text("follows_from"),
];

/// The columns of table `mark`.
pub const MARK_COLUMNS: [WideColumn; 1] = [text("text")];

const fn text(name: &'static str) -> WideColumn {
    WideColumn { name, kind: ColumnType::Text }
}

const fn number(name: &'static str) -> WideColumn {
    WideColumn { name, kind: ColumnType::Float }
}

/// The cells of a finding; `subject` is empty if it is the whole machine, `follows_from` the kind of its cause.
pub fn finding_cells(finding: &Finding) -> [Cell; 9] {
    [
        Cell::from(finding.kind.as_str()),
        Cell::from(finding.severity.as_str()),
        Cell::Text(subject_label(&finding.subject)),
        Cell::Text(finding.sentence.clone()),
        Cell::Number(finding.value),
        Cell::from(finding.unit),
        Cell::Number(finding.explained_share),
        Cell::Text(rfc3339(finding.since)),
        finding.follows_from.as_ref().map_or(Cell::Unknown, |cause| Cell::from(cause.kind.as_str())),
    ]
}

/// The cell of a mark: its text.
pub fn mark_cells(text: &str) -> [Cell; 1] {
    [Cell::Text(text.to_owned())]
}
