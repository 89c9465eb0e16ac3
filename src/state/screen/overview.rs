//! The overview: the root causes among the active findings.

use crate::state::layout::ListLines;
use crate::state::rows::Row;
use crate::state::screen::ScreenDefinition;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "overview",
    sort_columns: &[],
    // What follows from another finding is listed on the findings screen.
    rows: |_, evaluation, _| {
        let is_root = |at: &usize| evaluation.active.get(*at).is_some_and(|finding| finding.follows_from.is_none());
        (0..evaluation.active.len()).filter(is_root).map(Row::ActiveFinding).collect()
    },
    fixed_order_reason: |_| None,
    finding_lines: |width, height| match (width, height) {
        (..120, 24..) => 4,
        (_, 20..) => 3,
        (..60, _) => 4,
        (..78, _) => 3,
        _ => 2,
    },
    list_lines: |_, _| ListLines::default(),
};
